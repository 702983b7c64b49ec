"""The inbox: what deliveries bring, and an index of what the corpus holds."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    Manifest,
    load_manifest,
    parse_box,
    parse_segment,
)
from signloom.detection.video import Box
from signloom.errors import Problem
from signloom.extraction.cache import HashedVideo, VideoHashes, cache_folder
from signloom.tables import read_columns, take_rows
from signloom_ops.intake.changes import (
    Withdrawn,
    check_growable,
    check_videos,
    is_unfinished,
    read_rejects,
    read_withdrawn,
)
from signloom_ops.intake.deliveries import Candidate, ScanRequest, scan
from signloom_ops.options import IngestOptions
from signloom_tools.importing.captioned import measure_film
from signloom_tools.importing.new_corpus import clip_id_of, stem


class Content(NamedTuple):
    """What a clip shows."""

    sha256: str  # of its video
    start_s: float | None
    end_s: float | None
    box: Box | None

    @property
    def parts(self) -> tuple[object, ...]:
        """What a hash is of: without a box, as in version 0.2, since names of clips have it."""
        return self if self.box else self[:3]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index of a corpus: its clips, contents, videos and signers."""

    clips: Sequence[Clip]  # all of them
    contents: Mapping[Content, Clip]  # the clip that shows a content of a candidate's video
    videos: Mapping[str, Path]  # where a video lies in the corpus, by hash
    signers: Mapping[tuple[str, Box | None], set[str]]  # who signs in a video or box, by hash
    splits: Mapping[str, set[str]]  # split of each signer
    withdrawn: Mapping[str, Withdrawn]  # videos that must not come in again, by hash
    by_id: Mapping[str, Clip]  # those with names of candidates

    def holds(self, candidate: Candidate, content: Content) -> bool:
        """Return whether a candidate is a clip that came in before, by the same name."""
        clip = self.contents.get(content)
        return clip is not None and (
            clip.clip_id in (clip_id_of(candidate.name), other_id(candidate.name, content))
            and clip.text == candidate.values.get("text")
            and clip.signer == candidate.values.get("signer")
        )


def build_index(
    clips: Sequence[Clip],
    hashes: Mapping[Path, HashedVideo],
    withdrawn: Mapping[str, Withdrawn],
    candidates: Sequence[Candidate],
) -> Index:
    """Look through the clips of a corpus for what decides about candidates."""
    shown = {hashes[c.video].sha256 for c in candidates if c.video and c.video in hashes}
    names = {name for c in candidates for name in (c.name, clip_id_of(c.name))}
    numbers: dict[Content, int] = {}
    videos: dict[str, Path] = {}
    signers: dict[tuple[str, Box | None], set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    rows = read_columns(clips, "video", "signer", "split", "start_s", "end_s", "box")
    for number, (video, signer, split, start_s, end_s, box_text) in enumerate(rows):
        splits[signer].add(split)
        if video and (hashed := hashes.get(video)):
            sha256, box = hashed.sha256, parse_box(box_text or "")
            if sha256 in shown:
                numbers.setdefault(Content(sha256, start_s, end_s, box), number)
            videos.setdefault(sha256, video)
            signers[sha256, box].add(signer)
    contents = dict(zip(numbers, take_rows(clips, [*numbers.values()]), strict=True))
    by_id = _find_named(clips, names)
    return Index(clips, contents, videos, signers, splits, withdrawn, by_id)


def _find_named(clips: Sequence[Clip], names: Collection[str]) -> dict[str, Clip]:
    rows = enumerate(read_columns(clips, "clip_id"))
    numbers = [number for number, (clip_id,) in rows if clip_id in names]
    return {clip.clip_id: clip for clip in take_rows(clips, numbers)}


def other_id(name: str, content: Content) -> str:
    """Return the id of a clip whose name is another clip's: always the same for a content."""
    return f"{clip_id_of(name)}-{_digest(content.parts)[:8]}"


_SAME_S = 0.001  # captions keep milliseconds


def correct_clip(clip: Clip, values: Mapping[str, str]) -> Clip:
    """Return a clip as corrected captions have it: the same one, if they say nothing else."""
    start_s, end_s, problems = parse_segment(values)
    if problems:
        return clip
    if abs((start_s or 0.0) - (clip.start_s or 0.0)) <= _SAME_S:
        start_s = clip.start_s
    last_s = clip.end_s
    if last_s is None and clip.video is not None:
        last_s = measure_film(clip.video, end_s or 0.0)
    if end_s is None or last_s is None or abs(end_s - last_s) <= _SAME_S:
        end_s = clip.end_s
    gloss = values.get("gloss") or clip.gloss  # a file without glosses takes none away
    return replace(clip, text=values.get("text", ""), gloss=gloss, start_s=start_s, end_s=end_s)


def _as_signs(candidates: Sequence[Candidate], clips: Sequence[Clip]) -> list[Candidate]:
    """Return the candidates of a corpus of glosses alone: there, these are the text."""
    before, converted = dict(read_columns(clips, "clip_id", "text")), []
    for candidate in candidates:
        lines = [line for name in ("gloss", "text") if (line := candidate.values.get(name))]
        if lines:  # of a correction, the one that was corrected
            old = before.get(candidate.name) if candidate.corrects else None
            signs = next((line for line in lines if line != old), lines[0])
            candidate = replace(
                candidate, values={**candidate.values, "text": signs, "gloss": signs}
            )
        converted.append(candidate)
    return converted


def _find_films(candidates: Sequence[Candidate], clips: Sequence[Clip]) -> list[Candidate]:
    """Give the cues of corrected captions their films: those of the clips that they name."""
    by_id = _find_named(clips, {c.name for c in candidates if c.corrects})
    films: dict[tuple[str, str], set[Path]] = defaultdict(set)
    for candidate in candidates:
        if (
            candidate.corrects
            and candidate.name in by_id
            and (video := by_id[candidate.name].video)
        ):
            films[candidate.delivery, candidate.corrects].add(video)
    completed = []
    for candidate in candidates:
        if candidate.corrects:
            of = films[candidate.delivery, candidate.corrects]
            clip = by_id.get(candidate.name)
            video = clip.video if clip else next(iter(of)) if len(of) == 1 else None
            name = candidate.name
            if not name:  # a sentence that was forgotten
                film = video.name if video else candidate.corrects
                name = f"{stem(film)}-{round(float(candidate.values['start_s']) * 1000):08d}"
            problems = candidate.problems
            if clip is None and (candidate.name or video is None):
                reason = "captions without a video correct clips that the corpus has, and it has no"
                problems = (
                    *problems,
                    Problem(
                        f"{reason} such clip",
                        "bring the video beside them",
                        (candidate.name,),
                    ),
                )
            signer = candidate.values["signer"] or (clip.signer if clip else "")
            values = {**candidate.values, "clip_id": name, "signer": signer}
            candidate = replace(candidate, video=video, values=values, problems=problems)
        completed.append(candidate)
    return completed


@dataclass(frozen=True, slots=True, eq=False)
class Inbox:
    """The result of a scan of some folders, with the index of the corpus."""

    manifest: Manifest
    index: Index
    candidates: Sequence[Candidate]  # clips that were found, in the order of their folders
    waiting: Sequence[Path]  # files that changed a moment ago
    hashes: Mapping[Path, HashedVideo]  # hashes of all videos that can be read

    def correction(self, candidate: Candidate) -> tuple[Clip, Clip] | None:
        """Return the clip that a candidate corrects, and as it will be; None: it is another one."""
        clip = self.index.by_id.get(candidate.name) if candidate.corrects else None
        return (clip, correct_clip(clip, candidate.values)) if clip else None

    def content(self, candidate: Candidate) -> Content | None:
        """Return what a candidate shows; None if its video cannot be read."""
        video = self.hashes.get(candidate.video) if candidate.video else None
        if video is None:
            return None
        start_s, end_s, _ = parse_segment(candidate.values)
        return Content(video.sha256, start_s, end_s, parse_box(candidate.values.get("box", "")))

    def fingerprint(self, candidate: Candidate, options: IngestOptions) -> str:
        """Return a hash of all that decides about a candidate but the corpus."""
        values = sorted(candidate.values.items())
        reasons = [problem.reason for problem in candidate.problems]
        shown = (content := self.content(candidate)) and content.parts
        parts = [candidate.where, shown, values, reasons, astuple(options)]
        return _digest(parts)[:16]


def read_inbox(
    corpus: CorpusOptions,
    request: ScanRequest,
    options: IngestOptions,
    former: Manifest | None = None,
) -> Inbox:
    """Look through a corpus and folders; what was hashed once is not read again.

    Args:
        options: How long a file must have been as it is.
        former: The manifest, if the caller has read it.

    Raises:
        UserError: If there is no corpus that can grow, or a folder or table is missing.
    """
    manifest = load_manifest(corpus, former)
    clips = manifest.clips
    check_videos(corpus, clips)
    candidates, waiting = scan(replace(request, settle_s=options.settle_s))
    candidates = _find_films(candidates, clips)
    if clips and all(text == gloss for text, gloss in read_columns(clips, "text", "gloss")):
        candidates = _as_signs(candidates, clips)
    videos = {*chain.from_iterable(read_columns(clips, "video")), *(c.video for c in candidates)}
    hashes = VideoHashes(cache_folder()).hash_videos(videos - {None})
    index = build_index(clips, hashes, read_withdrawn(corpus), candidates)
    return Inbox(manifest, index, candidates, waiting, hashes)


def has_new_files(
    corpus: CorpusOptions, inbox: Path, options: IngestOptions, *, former: Manifest | None = None
) -> bool:
    """Return whether an inbox has anything for an ingest that it has not seen.

    Files that are in the corpus, were withdrawn from it, or were rejected unchanged do not count,
    nor does a file that changed a moment ago. A change that a crash interrupted counts. No video
    is decoded, and none is read twice.

    Args:
        inbox: The folder of the deliveries; it may be missing.
        former: The manifest, if the caller has read it.

    Raises:
        UserError: If the corpus cannot grow, such as a corpus of glosses and sentences.
    """
    if is_unfinished(corpus):
        return True
    if not inbox.is_dir():
        return False
    check_growable(corpus, [inbox])
    contents = read_inbox(corpus, ScanRequest(sources=[inbox], inbox=True), options, former)
    rejected = {row.key for row in read_rejects(corpus)}
    for candidate in contents.candidates:
        content = contents.content(candidate)
        corrected = contents.correction(candidate)
        if corrected and corrected[0] == corrected[1]:
            continue
        is_known = content is not None and (
            content[0] in contents.index.withdrawn or contents.index.holds(candidate, content)
        )
        key = (candidate.delivery, candidate.where, contents.fingerprint(candidate, options))
        if not is_known and key not in rejected:
            return True
    return False


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
