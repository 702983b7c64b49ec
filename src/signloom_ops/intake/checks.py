"""The checks of new clips: their rows, content, signers, sentences and pictures."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from signloom.corpus.manifest import (
    SPLITS,
    Clip,
    field_problem,
    has_ended,
    id_problem,
    parse_box,
    parse_consent,
    parse_segment,
)
from signloom.detection.video import Box, Video, crop_frames
from signloom.errors import ClipError, Problem
from signloom.extraction.pool import count_workers, run_in_processes
from signloom.progress import progress_file
from signloom.tables import read_columns
from signloom_ops.intake.deliveries import Candidate
from signloom_ops.intake.inbox import Content, Inbox, other_id
from signloom_ops.options import IngestOptions
from signloom_tools.importing.new_corpus import clip_id_of
from signloom_tools.importing.person_names import like_key

_LIMIT_S = 60.0  # for a clip, and another for each `_BYTES_A_SECOND` of its file
_BYTES_A_SECOND = 200_000  # slower than any decoder
MOST_CHARACTERS = 1000  # of a sentence, as the app has them


@dataclass(frozen=True, slots=True)
class Segment:
    """A clip to decode."""

    video: Path
    start_s: float | None
    end_s: float | None
    size_bytes: int  # of the video
    box: Box | None = None  # of its signer in the picture


@dataclass(frozen=True, slots=True)
class Probed:
    """A clip that was decoded from end to end."""

    duration_s: float
    width: int  # of the upright picture, pixels
    height: int


_TS_BYTES = (188, 192)  # of a packet of a transport stream, and of .m2ts
_PACK = b"\x00\x00\x01\xba"  # begins a program stream
_PES = re.compile(rb"\x00\x00\x01[\xbc-\xef](..)", re.DOTALL)  # its packets, with their lengths
_MOST_TAIL = 1 << 18  # bytes; a packet has at most 64 KiB


def probe_all(segments: Sequence[Segment]) -> list[Probed | Problem]:
    """Decode clips, by processes that a broken file may bring down; return what each is."""
    if not segments:
        return []
    outcomes: dict[int, Probed | Problem] = {}
    workers = min(count_workers(), len(segments))
    total = sum(segment.size_bytes for segment in segments)
    with tqdm(
        total=total, desc="decoding", unit="B", unit_scale=True, delay=1.0, file=progress_file()
    ) as bar:
        for number, outcome in run_in_processes(probe, segments, workers, _limit_s):
            outcomes[number] = outcome
            bar.update(segments[number].size_bytes)
    return [outcomes[number] for number in range(len(segments))]


def probe(segment: Segment) -> Probed | Problem:
    """Decode every frame of a clip."""
    height = width = 0
    first_s = last_s = None
    try:
        if segment.end_s is None and _ends_in_a_packet(segment.video):
            return Problem(
                "its last packet is cut off: half of a copy, or a recording that was killed",
                "deliver the whole film, or give the clip an end_s before that",
            )
        with Video(segment.video) as video:
            for frame in crop_frames(video.frames(segment.start_s, segment.end_s), segment.box):
                height, width = frame.rgb.shape[:2]
                first_s = frame.time_s if first_s is None else first_s
                last_s = frame.time_s
            assert first_s is not None, "a clip without frames raises"
            assert last_s is not None
            return Probed(last_s - first_s + 1 / video.fps, width, height)
    except ClipError as error:
        return error.problem


def _is_part(part: Path, film: Path) -> bool:
    """Tell whether a film begins with all bytes of another file, and goes on."""
    if not part.is_file() or part.stat().st_size >= film.stat().st_size:
        return False
    with part.open("rb") as half, film.open("rb") as whole:
        pieces = iter(lambda: half.read(1 << 20), b"")
        return all(whole.read(len(piece)) == piece for piece in pieces)


def _ends_in_a_packet(video: Path) -> bool:
    """Tell whether a transport or program stream (.ts, .mpg), which states no length, is torn."""
    with video.open("rb") as file:
        head = file.read(_TS_BYTES[1] + _TS_BYTES[0])
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(size - _MOST_TAIL, 0))
        tail = file.read() if head.startswith(_PACK) else b""
    for before, packet in zip((0, 4), _TS_BYTES, strict=True):  # .m2ts has a time before each
        if head[before : before + 1] == head[before + packet : before + packet + 1] == b"G":
            return size % packet != 0
    packets = list(_PES.finditer(tail))
    return bool(packets) and start + packets[-1].end() + int.from_bytes(packets[-1][1]) > size


def _limit_s(segment: Segment) -> float:
    return _LIMIT_S + segment.size_bytes / _BYTES_A_SECOND


@dataclass(frozen=True, slots=True)
class Accepted:
    """A candidate that may come in."""

    candidate: Candidate
    video: Path
    content: Content
    split: str
    """Split that its signer has, or that is asked for; empty: neither."""


_Reject = tuple[Candidate, list[Problem]]


@dataclass(frozen=True, slots=True)
class Checked:
    """The candidates, sorted into accepted and rejected ones."""

    accepted: list[Accepted]
    rejects: list[_Reject]
    known: int
    """Candidates that came in before."""
    changes: list[tuple[Clip, Clip]]
    """Clips of the corpus, and as corrected captions have them."""


def check_candidates(inbox: Inbox, options: IngestOptions, *, signer_disjoint: bool) -> Checked:
    """Decide about each candidate, in their order; all problems of one are found together.

    Args:
        signer_disjoint: Whether a signer may be in one split only.
    """
    new, corrections, known_count = _sort_candidates(inbox)
    requested: dict[str, set[str]] = defaultdict(set)
    for clip in new:
        if signer := clip.candidate.values.get("signer"):
            requested[signer].update({clip.candidate.values.get("split", "")} - {""})
    check = _ClipCheck(inbox, options, requested, signer_disjoint=signer_disjoint)
    accepted, rejects = check.check_new(new)
    changes, wrong = check.check_corrections(corrections)
    return Checked(accepted, [*wrong, *rejects], known_count, changes)


class _New(NamedTuple):
    """A candidate that is no clip of the corpus."""

    candidate: Candidate
    content: Content | None
    same: Candidate | None  # one before it with the same content


class _Correction(NamedTuple):
    """A candidate that corrects a clip of the corpus."""

    candidate: Candidate
    before: Clip
    after: Clip


def _sort_candidates(inbox: Inbox) -> tuple[list[_New], list[_Correction], int]:
    """Return the new candidates, the corrections of clips, and how many came in before."""
    first: dict[Content, Candidate] = {}
    new: list[_New] = []
    corrections: list[_Correction] = []
    for candidate in inbox.candidates:
        content, correction = inbox.content(candidate), inbox.correction(candidate)
        if correction and correction[0] != correction[1]:
            corrections.append(_Correction(candidate, *correction))
        if correction:
            continue
        same = first.setdefault(content, candidate) if content else candidate
        is_first = same is candidate
        if not (content and is_first and inbox.index.holds(candidate, content)):
            new.append(_New(candidate, content, None if is_first else same))
    return new, corrections, len(inbox.candidates) - len(new) - len(corrections)


class _ClipCheck:
    """Checks candidates against the corpus, and each other.

    Args:
        asked: The splits that are asked for, by signer of a new clip.
        signer_disjoint: Whether a signer may be in one split only.
    """

    def __init__(
        self,
        inbox: Inbox,
        options: IngestOptions,
        requested: Mapping[str, set[str]],
        *,
        signer_disjoint: bool,
    ) -> None:
        self._inbox, self._index, self._options = inbox, inbox.index, options
        self._requested, self._is_disjoint = requested, signer_disjoint
        self._ids = {clip_id for (clip_id,) in read_columns(self._index.clips, "clip_id")}
        self._spellings: dict[str, set[str]] = defaultdict(set)
        for signer in (*self._index.splits, *requested):
            self._spellings[like_key(signer)].add(signer)

    def check_new(self, new: Sequence[_New]) -> tuple[list[Accepted], list[_Reject]]:
        """Return which new clips may come in, and the others with their problems."""
        films = [
            (clip.candidate, clip.content) for clip in new if clip.candidate.video and clip.content
        ]
        probed = probe_all(
            [
                Segment(
                    candidate.video,
                    content.start_s,
                    content.end_s,
                    self._size(candidate.video),
                    content.box,
                )
                for candidate, content in films
                if candidate.video
            ]
        )
        pictures = {
            id(candidate): picture for (candidate, _), picture in zip(films, probed, strict=True)
        }
        accepted, rejects = [], []
        for clip in new:
            candidate, content = clip.candidate, clip.content
            problems = [
                *candidate.problems,
                *self._row(candidate),
                *self._content(clip),
                *self._spelling(candidate),
                *self._split(candidate),
            ]
            if id(candidate) in pictures:
                problems += self._picture(pictures[id(candidate)])
            if not candidate.video or not content or problems:
                rejects.append((candidate, problems))
                continue
            signer, split = candidate.values["signer"], candidate.values.get("split", "")
            if self._is_disjoint:
                split = next(iter(self._index.splits.get(signer) or self._requested[signer]), "")
            accepted.append(Accepted(candidate, candidate.video, content, split))
        return accepted, rejects

    def check_corrections(
        self, corrections: Sequence[_Correction]
    ) -> tuple[list[tuple[Clip, Clip]], list[_Reject]]:
        """Return the clips that change, and the wrong corrections with their problems."""
        changes: dict[str, tuple[Clip, Clip]] = {}
        rejects = []
        for candidate, before, after in corrections:
            problems = [*candidate.problems, *self._row(candidate)]
            problems += self._change(candidate, before, after)
            if before.clip_id in changes:
                problems.append(Problem("another cue corrects the clip, too", "leave one of them"))
            if problems:
                rejects.append((candidate, problems))
            else:
                changes[before.clip_id] = before, after
        return list(changes.values()), rejects

    def _size(self, video: Path) -> int:
        return self._inbox.hashes[video].signature[0]

    def _row(self, candidate: Candidate) -> Iterable[Problem]:
        """Check a candidate by the manifest's rules."""
        values = candidate.values
        if not values:
            return  # a file that is no clip, or a row that cannot be read
        clip_id = clip_id_of(candidate.name)
        if bad := id_problem(clip_id) if clip_id else "is empty":
            yield Problem(f"its name as clip_id {bad}", "give it another name")
        until, wrong = parse_consent(values)
        for bad in (*parse_segment(values)[2], *wrong):
            yield Problem(bad, "correct the table")
        if has_ended(until):
            yield Problem(f"its signer agreed until {until}", "ask the signer again")
        for name, value in values.items():
            if bad := field_problem(value, ".tsv"):
                yield Problem(f"{name} {bad}", "correct it")
        if values.get("split") and values["split"] not in SPLITS:
            yield Problem(f"its split {values['split']!r} is unknown", f"say {' or '.join(SPLITS)}")
        text = values.get("text", "")
        if not any(character.isalnum() for character in text) and (text or not candidate.problems):
            empty = "the text has no letter and no digit" if text else "the sentence is empty"
            yield Problem(empty, "write it down")
        if len(text) > MOST_CHARACTERS:
            reason = f"the text has {len(text)} characters, expected at most {MOST_CHARACTERS}"
            yield Problem(reason, "cut the film into clips of a sentence each")

    def _content(self, new: _New) -> list[Problem]:
        """Look for the content among the candidates and among what is, or was, in the corpus."""
        candidate, content, same = new
        if same:
            reason = "another file or row has the same content"
            return [Problem(reason, "leave one of them", (same.where,))]
        if not content:
            unread = Problem("the file cannot be read", "check its permissions")
            return [unread] if candidate.video else []
        sha256 = content[0]
        if withdrawn := self._index.withdrawn.get(sha256):
            reason = (
                f"its video was withdrawn{f' with {withdrawn.batch}' if withdrawn.batch else ''}"
            )
            hint = "remove it here; to take it in again, remove its line from withdrawn.tsv"
            return [Problem(f"{reason}: {withdrawn.reason}", hint)]
        if clip := self._index.contents.get(content):
            hint = (
                "remove it here; to correct a clip, bring its captions (`signloom export --format "
                "captions`), edit the manifest or withdraw its batch"
            )
            return [Problem("the corpus has its content already", hint, (clip.clip_id,))]
        signers = self._index.signers.get((sha256, content.box), set()) - {
            candidate.values.get("signer", "")
        }
        if signers:
            reason = "in the corpus the same video is signed by another person"
            return [Problem(reason, "correct the signer", tuple(sorted(signers)))]
        before = self._index.by_id.get(clip_id_of(candidate.name))
        if before and before.video and candidate.video and _is_part(before.video, candidate.video):
            reason = "the corpus has its film already, cut off before its end"
            hint = (
                "withdraw the batch of that clip, and this one comes in (signloom withdraw BATCH)"
            )
            return [Problem(reason, hint, (before.clip_id, before.batch or ""))]
        if other_id(candidate.name, content) in self._ids:
            reason = "other clips have its name and its replacement name"
            return [Problem(reason, "rename the file")]
        return []

    def _spelling(self, candidate: Candidate) -> list[Problem]:
        """Let no person come in under two names."""
        signer = candidate.values.get("signer", "")
        spellings = self._spellings[like_key(signer)] - {signer} if signer else set()
        if not spellings or signer in self._index.splits:
            return []
        concerns = tuple(sorted(spellings))
        return [Problem("its signer is also written otherwise", "use one spelling", concerns)]

    def _split(self, candidate: Candidate) -> list[Problem]:
        """Let no person come into two splits."""
        signer, split = candidate.values.get("signer", ""), candidate.values.get("split", "")
        if not self._is_disjoint:
            return []
        splits = self._index.splits.get(signer, set())
        listed = " and ".join(sorted(splits or self._requested.get(signer, set())))
        if splits and split and split not in splits:
            hint = f"leave its split empty, or say {listed}"
            return [Problem(f"its signer is in {listed}, not in {split}", hint, (signer,))]
        if not splits and len(self._requested.get(signer, set())) > 1:
            return [Problem(f"its signer is new and in {listed}", "give each one split", (signer,))]
        return []

    def _picture(self, picture: Probed | Problem) -> Iterable[Problem]:
        bounds = self._options
        if isinstance(picture, Problem):
            yield picture
            return
        if not bounds.min_duration_s <= picture.duration_s <= bounds.max_duration_s:
            yield Problem(
                f"it takes {picture.duration_s:.2f} s, expected {bounds.min_duration_s:g} to "
                f"{bounds.max_duration_s:g}",
                "cut it, or give it a start_s and an end_s",
            )
        short, long = sorted((picture.width, picture.height))
        if short < bounds.min_side or long > bounds.max_side:
            yield Problem(
                f"its picture has {picture.width} x {picture.height} pixels, expected sides of "
                f"{bounds.min_side} to {bounds.max_side}",
                "record or convert it at such a size",
            )

    def _change(self, candidate: Candidate, before: Clip, after: Clip) -> list[Problem]:
        """Check the signer and the new times of a clip that is corrected."""
        problems = []
        signer = candidate.values["signer"]
        if signer != before.signer:
            hint = "correct the participant; signers are changed in the manifest"
            concerns = (signer, before.signer)
            problems.append(Problem("its signer is not that of the clip", hint, concerns))
        times = after.start_s, after.end_s
        video = before.video if before.video in self._inbox.hashes else None
        if video and times != (before.start_s, before.end_s):
            sha256, box = self._inbox.hashes[video].sha256, parse_box(before.box or "")
            if clip := self._index.contents.get(Content(sha256, *times, box)):
                reason = "another clip has these times"
                problems.append(Problem(reason, "leave one of them", (clip.clip_id,)))
            [picture] = probe_all([Segment(video, *times, self._size(video), box)])
            problems += self._picture(picture)
        return problems
