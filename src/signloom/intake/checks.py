"""The checks of a new clip."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.manifest import SPLITS, field_problem, id_problem, parse_segment
from signloom.extraction.cache import HashedVideo
from signloom.extraction.pool import Lost, count_workers, run_in_processes
from signloom.importing.new_corpus import clip_id_of
from signloom.intake.deliveries import Candidate, Fault
from signloom.intake.inbox import Content, Stock, content_of, other_id
from signloom.intake.options import IngestOptions
from signloom.progress import progress_file

_LIMIT_S = 60.0  # for a clip, and another for each `_BYTES_A_SECOND` of its file
_BYTES_A_SECOND = 200_000  # slower than any decoder


@dataclass(frozen=True, slots=True)
class Look:
    """A clip to look at."""

    video: Path
    start_s: float | None
    end_s: float | None
    size_bytes: int  # of the video


@dataclass(frozen=True, slots=True)
class Seen:
    """A clip that was decoded from end to end."""

    duration_s: float
    width: int  # of the upright picture, pixels
    height: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """A clip that cannot be."""

    reason: str
    mend: str


def look_at(looks: Sequence[Look]) -> list[Seen | Unseen]:
    """Decode clips, by processes that a broken file may bring down; return what each is."""
    if not looks:
        return []
    found: dict[int, Seen | Unseen] = {}
    workers = min(count_workers(), len(looks))
    total = sum(look.size_bytes for look in looks)
    with tqdm(
        total=total, desc="decoding", unit="B", unit_scale=True, delay=1.0, file=progress_file()
    ) as bar:
        for number, outcome in run_in_processes(decode, looks, workers, _limit_s):
            if isinstance(outcome, Lost):
                outcome = Unseen(outcome.reason, outcome.mend)
            found[number] = outcome
            bar.update(looks[number].size_bytes)
    return [found[number] for number in range(len(looks))]


def decode(look: Look) -> Seen | Unseen:
    """Decode every frame of a clip."""
    from signloom.extraction.video import Video, VideoError  # PyAV, which only this process needs

    height = width = 0
    first_s = last_s = None
    try:
        with Video(look.video) as video:
            for frame in video.frames(look.start_s, look.end_s):
                height, width = frame.rgb.shape[:2]
                first_s = frame.time_s if first_s is None else first_s
                last_s = frame.time_s
            assert first_s is not None, "a clip without frames raises"
            assert last_s is not None
            return Seen(last_s - first_s + 1 / video.fps, width, height)
    except VideoError as error:
        return Unseen(error.reason, error.mend)


def _limit_s(look: Look) -> float:
    return _LIMIT_S + look.size_bytes / _BYTES_A_SECOND


_TEXT_MEND = "correct the sentence, or change retrain.ingest in params.yaml"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A candidate that may come in."""

    candidate: Candidate
    content: Content


@dataclass(slots=True)
class Judgement:
    """What is to become of the candidates."""

    arrivals: list[Arrival] = field(default_factory=list)
    rejects: list[tuple[Candidate, list[Fault]]] = field(default_factory=list)
    known: int = 0  # came in before
    said: dict[str, set[str]] = field(default_factory=dict)  # splits asked for, by signer


@dataclass(slots=True)
class Judge:
    """Looks at candidates one after the other, in the order of their folders.

    Attributes:
        stock: The corpus.
        hashes: Of all videos of the candidates that can be read.
        options: The bounds.
        disjoint: Whether a signer may be in one split only.
        look: Decodes clips.
    """

    stock: Stock
    hashes: Mapping[Path, HashedVideo]
    options: IngestOptions
    disjoint: bool
    look: Callable[[Sequence[Look]], list[Seen | Unseen]]

    def judge(self, candidates: Sequence[Candidate]) -> Judgement:
        """Decide about each; all that is wrong with one is found at once."""
        result = Judgement()
        first: dict[Content, Candidate] = {}
        doubtful: list[tuple[Candidate, Content | None, list[Fault]]] = []
        for candidate in candidates:
            content = content_of(candidate, self.hashes)
            is_first = content is None or first.setdefault(content, candidate) is candidate
            if content is not None and is_first and self.stock.holds(candidate, content):
                result.known += 1
                continue
            faults = [*candidate.faults, *self._row_faults(candidate)]
            if content is not None and not is_first:
                faults.append((f"the same content as {first[content].where}", "leave one of them"))
            elif content is not None:
                faults += self._content_faults(candidate, content)
            elif candidate.video is not None:
                faults.append(("the file cannot be read", "check its permissions"))
            doubtful.append((candidate, content, faults))
        said = result.said = _splits_said([candidate for candidate, _, _ in doubtful])
        spelt = _spellings([*self.stock.splits, *said])
        for candidate, _, faults in doubtful:
            faults += self._signer_faults(candidate, said, spelt)
        self._decode(doubtful)
        for candidate, content, faults in doubtful:
            if content is not None and not faults:
                result.arrivals.append(Arrival(candidate, content))
            else:
                result.rejects.append((candidate, faults))
        return result

    def _row_faults(self, candidate: Candidate) -> list[Fault]:
        """Check a candidate by the manifest's rules."""
        if not candidate.values:
            return []  # a file that is no clip, or a row that cannot be read
        values, faults = candidate.values, list[Fault]()
        clip_id = clip_id_of(candidate.name)
        if bad := id_problem(clip_id) if clip_id else "is empty":
            faults.append((f"its name as clip_id {bad}", "give it another name"))
        faults += [(bad, "correct the table") for bad in parse_segment(values)[2]]
        faults += [
            (f"{name} {bad}", "correct it")
            for name, value in values.items()
            if (bad := field_problem(value, ".tsv"))
        ]
        if values.get("split") and values["split"] not in SPLITS:
            faults.append(
                (f"its split {values['split']!r} is unknown", f"say {' or '.join(SPLITS)}")
            )
        if text := values.get("text"):
            bounds = self.options.script_share, self.options.length_factor
            found = self.stock.rules.problems(text, script_share=bounds[0], length_factor=bounds[1])
            faults += [(problem, _TEXT_MEND) for problem in found]
        elif not candidate.faults:
            faults.append(("the sentence is empty", "write it down"))
        return faults

    def _content_faults(self, candidate: Candidate, content: Content) -> list[Fault]:
        """Look for the content among what is, or was, in the corpus."""
        sha256 = content[0]
        if gone := self.stock.withdrawn.get(sha256):
            reason = f"its video was withdrawn{f' with {gone.batch}' if gone.batch else ''}"
            mend = "remove it here; to take it in again, remove its line from withdrawn.tsv"
            return [(f"{reason}: {gone.reason}", mend)]
        if clip := self.stock.contents.get(content):
            mend = "remove it here; to correct a clip, edit the manifest or withdraw its batch"
            return [(f"the corpus has its content already, as {clip.clip_id!r}", mend)]
        others = self.stock.signers.get(sha256, set()) - {candidate.values.get("signer", "")}
        if others:
            who = ", ".join(sorted(others))
            return [(f"in the corpus the same video is signed by {who}", "correct the signer")]
        if other_id(candidate.name, content) in self.stock.ids:
            return [("its name and its other name are taken", "give it another name")]
        return []

    def _signer_faults(
        self, candidate: Candidate, said: Mapping[str, set[str]], spelt: Mapping[str, set[str]]
    ) -> list[Fault]:
        """Keep signers apart: nobody under two names, nobody in two splits."""
        signer, split = candidate.values.get("signer", ""), candidate.values.get("split", "")
        if not signer:
            return []
        faults: list[Fault] = []
        same = spelt[_fold(signer)] - {signer}
        if same and signer not in self.stock.splits:
            listed = ", ".join(map(repr, sorted(same)))
            faults.append((f"signer {signer!r} is also written {listed}", "use one spelling"))
        if not self.disjoint:
            return faults
        known = self.stock.splits.get(signer, set())
        if known and split and split not in known:
            listed = " and ".join(sorted(known))
            mend = f"leave its split empty, or say {listed}"
            faults.append((f"signer {signer!r} is in {listed}, not in {split}", mend))
        elif not known and len(said[signer]) > 1:
            listed = " and ".join(sorted(said[signer]))
            faults.append((f"signer {signer!r} is new and in {listed}", "give each one split"))
        return faults

    def _decode(self, doubtful: Sequence[tuple[Candidate, Content | None, list[Fault]]]) -> None:
        """Decode every clip from end to end and note what is wrong with it."""
        todo = [(c.video, content, f) for c, content, f in doubtful if content and c.video]
        looks = [
            Look(video, content[1], content[2], self.hashes[video].signature[0])
            for video, content, _ in todo
        ]
        for (_, _, faults), seen in zip(todo, self.look(looks), strict=True):
            faults += self._picture_faults(seen)

    def _picture_faults(self, seen: Seen | Unseen) -> list[Fault]:
        if isinstance(seen, Unseen):
            return [(seen.reason, seen.mend)]
        bounds, faults = self.options, list[Fault]()
        if not bounds.min_duration_s <= seen.duration_s <= bounds.max_duration_s:
            faults.append((
                f"it takes {seen.duration_s:.2f} s, expected {bounds.min_duration_s:g} to "
                f"{bounds.max_duration_s:g}", "cut it, or give it a start_s and an end_s",
            ))  # fmt: skip
        short, long = sorted((seen.width, seen.height))
        if short < bounds.min_side or long > bounds.max_side:
            faults.append((
                f"its picture has {seen.width} x {seen.height} pixels, expected sides of "
                f"{bounds.min_side} to {bounds.max_side}", "record or convert it at such a size",
            ))  # fmt: skip
        return faults


def _splits_said(candidates: Sequence[Candidate]) -> dict[str, set[str]]:
    """Return the signers of candidates, each with the splits that were asked for."""
    said: dict[str, set[str]] = defaultdict(set)
    for candidate in candidates:
        if signer := candidate.values.get("signer"):
            said[signer].update({candidate.values.get("split", "")} - {""})
    return said


def _spellings(signers: Sequence[str]) -> dict[str, set[str]]:
    """Return the signers by what is left of a name without case, spaces and signs."""
    found: dict[str, set[str]] = defaultdict(set)
    for signer in signers:
        found[_fold(signer)].add(signer)
    return found


def _fold(signer: str) -> str:
    return "".join(c for c in signer.casefold() if c.isalnum()) or signer
