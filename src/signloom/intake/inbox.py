"""The scan of the inbox beside an index of the corpus."""

import functools
import hashlib
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    is_text_corpus,
    parse_segment,
    read_manifest,
)
from signloom.errors import UserError
from signloom.extraction.cache import HashedVideo, VideoHashes, cache_folder
from signloom.importing.new_corpus import clip_id_of
from signloom.intake.deliveries import Candidate, Collector
from signloom.intake.ledgers import Withdrawn, read_rejects, read_withdrawn
from signloom.intake.options import IngestOptions
from signloom.intake.staging import refuse_drawn, workshop_of

_RARE = 0.01  # share of train's letters; a script below it came in by names and slips
_FORMS = ("FULLWIDTH", "HALFWIDTH", "MODIFIER", "SMALL")  # words before the script in some names


@dataclass(frozen=True, slots=True)
class TextRules:
    """What the sentences of a corpus look like.

    Attributes:
        scripts: That its letters are of, by the first word of their Unicode names.
        characters: Of the shortest and the longest sentence.
        words: Of the sentence with the most, parted by spaces.
    """

    scripts: frozenset[str]
    characters: tuple[int, int]
    words: int

    def problems(self, text: str, *, script_share: float, length_factor: float) -> list[str]:
        """Say what is odd about a sentence.

        Args:
            text: With single spaces, not empty.
            script_share: Least share of its letters in known scripts.
            length_factor: How many times longer or shorter than all others it may be.
        """
        found = []
        scripts = Counter(_scripts(text))
        letters = sum(scripts.values())
        known = sum(count for name, count in scripts.items() if name in self.scripts)
        if letters and known < script_share * letters:
            other = ", ".join(sorted(scripts.keys() - self.scripts))
            found.append(
                f"{known} of {letters} letters of the text are in the corpus's script "
                f"({', '.join(sorted(self.scripts))}), the others in {other}"
            )
        if not any(character.isalnum() for character in text):
            found.append("the text has no letter and no digit")
        # One word alone is no fault: where all others have many, its letters are counted.
        for unit, count, (fewest, most) in (
            ("characters", len(text), self.characters),
            ("words", len(text.split()), (1, self.words)),
        ):
            if not fewest / length_factor <= count <= most * length_factor:
                found.append(
                    f"the text has {count} {unit}, the corpus's sentences {fewest} to {most}"
                )
        return found


def learn_rules(texts: Sequence[str]) -> TextRules:
    """Return what sentences, at least one, have in common."""
    counts = Counter(script for text in texts for script in _scripts(text))
    total = counts.total()
    lengths = [len(text) for text in texts]
    return TextRules(
        frozenset(name for name, count in counts.items() if count >= _RARE * total),
        (min(lengths), max(lengths)),
        max(len(text.split()) for text in texts),
    )


def _scripts(text: str) -> Iterable[str]:
    """Yield the script of each letter."""
    for character in text:
        if script := _script_of(character):
            yield script


@functools.cache
def _script_of(character: str) -> str | None:
    if not unicodedata.category(character).startswith("L"):
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    return next((word for word in words if word not in _FORMS), words[0])


Content = tuple[str, float | None, float | None]
"""SHA-256 of a video, start_s, end_s: what a clip shows."""


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """What a corpus holds, ready to be asked.

    Attributes:
        contents: The clip that shows each content.
        videos: Where a video lies in the corpus, by hash.
        signers: Who signs in a video, by hash.
        splits: Of each signer.
        ids: Of all clips.
        rules: What its sentences are like.
        withdrawn: What must not come in again, by hash.
    """

    contents: Mapping[Content, Clip]
    videos: Mapping[str, Path]
    signers: Mapping[str, set[str]]
    splits: Mapping[str, set[str]]
    ids: set[str]
    rules: TextRules
    withdrawn: Mapping[str, Withdrawn]

    def holds(self, candidate: Candidate, content: Content) -> bool:
        """Return whether a candidate is a clip that came in before, by the same name."""
        clip = self.contents.get(content)
        return clip is not None and (
            clip.clip_id in (clip_id_of(candidate.name), other_id(candidate.name, content))
            and clip.text == candidate.values.get("text")
            and clip.signer == candidate.values.get("signer")
        )


def take_stock(
    clips: Sequence[Clip],
    hashes: Mapping[Path, HashedVideo],
    withdrawn: Mapping[str, Withdrawn],
) -> Stock:
    """Look through the clips of a corpus, at least one of them in train."""
    contents: dict[Content, Clip] = {}
    videos: dict[str, Path] = {}
    signers: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    for clip in clips:
        splits[clip.signer].add(clip.split)
        if clip.video is not None and clip.video in hashes:
            sha256 = hashes[clip.video].sha256
            contents.setdefault((sha256, clip.start_s, clip.end_s), clip)
            videos.setdefault(sha256, clip.video)
            signers[sha256].add(clip.signer)
    # The founders alone, if there are any: what comes in must not widen what may come in.
    train = [clip for clip in clips if clip.split == "train"]
    rules = learn_rules([c.text for c in [c for c in train if c.batch is None] or train])
    ids = {clip.clip_id for clip in clips}
    return Stock(contents, videos, signers, splits, ids, rules, withdrawn)


def content_of(candidate: Candidate, hashes: Mapping[Path, HashedVideo]) -> Content | None:
    """Return what a candidate shows; None if its video cannot be read."""
    video = hashes.get(candidate.video) if candidate.video else None
    if video is None:
        return None
    start_s, end_s, _ = parse_segment(candidate.values)
    return video.sha256, start_s, end_s


def other_id(name: str, content: Content) -> str:
    """Return the id of a clip whose name is another clip's: always the same for a content."""
    return f"{clip_id_of(name)}-{_digest(content)[:8]}"


def fingerprint(candidate: Candidate, content: Content | None, options: IngestOptions) -> str:
    """Return a hash of all that decides about a candidate but the corpus."""
    values = sorted(candidate.values.items())
    return _digest([candidate.where, content, values, candidate.faults, astuple(options)])[:16]


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where to look, and what is said about it.

    Attributes:
        sources: Folders.
        table: Of the clips in the only source; None: look for tables.
        signer: Who signs where no table says it.
        inbox: Whether a source is no delivery itself, so that its name names no signer.
        settle_s: A file must not have changed for so many seconds.
    """

    sources: Sequence[Path]
    table: Path | None = None
    signer: str | None = None
    inbox: bool = False
    settle_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What was found.

    Attributes:
        clips: Of the corpus.
        stock: The same, ready to be asked.
        candidates: In the order of their folders.
        waiting: Files that changed a moment ago.
        hashes: Of all videos that can be read.
    """

    clips: list[Clip]
    stock: Stock
    candidates: list[Candidate]
    waiting: list[Path]
    hashes: dict[Path, HashedVideo]

    def content(self, candidate: Candidate) -> Content | None:
        """Return what a candidate shows, None if its video cannot be read."""
        return content_of(candidate, self.hashes)


def survey(corpus: CorpusOptions, request: Request) -> Survey:
    """Look through a corpus and folders; what was hashed once is not read again.

    Raises:
        UserError: If there is no corpus that can grow, or a folder or table is missing.
    """
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_videos(corpus, clips)
    candidates, waiting = [], list[Path]()
    for source in request.sources:
        collector = Collector(
            signer=request.signer,
            nameless=source if request.inbox else None,
            settle_s=request.settle_s,
        )
        collector.collect(source, request.table)
        candidates += [_from_here(candidate) for candidate in collector.found.candidates]
        waiting += collector.found.waiting
    videos = [*(clip.video for clip in clips), *(one.video for one in candidates)]
    hashes = VideoHashes(cache_folder()).hash_videos(video for video in videos if video)
    stock = take_stock(clips, hashes, read_withdrawn(corpus))
    unique = {(one.delivery, one.where): one for one in candidates}  # sources may overlap
    return Survey(clips, stock, list(unique.values()), waiting, hashes)


def check_videos(corpus: CorpusOptions, clips: Sequence[Clip]) -> None:
    """Refuse a corpus without videos where new ones would come to it.

    Raises:
        UserError: If it is of glosses and sentences.
    """
    if is_text_corpus(corpus, clips):
        raise UserError(
            f"{corpus.path} is of glosses and sentences: videos cannot come to it, and a night "
            "(`signloom retrain`) is for models of landmarks. Add rows to it by hand and run `dvc "
            "repro`, or name a corpus of videos in params.yaml (corpus.folder)"
        )


def check_growable(corpus: CorpusOptions, sources: Sequence[Path] = ()) -> None:
    """Refuse a corpus into which nothing may come.

    Raises:
        UserError: If its landmarks are imported, a stage draws it, or a source is part of it.
    """
    if corpus.imported_shards.is_dir():
        raise UserError(
            f"{corpus.folder} holds imported landmarks, and videos cannot come to them. Import "
            "all sources at once (`signloom import`), or name a corpus of videos in params.yaml"
        )
    refuse_drawn(corpus.folder)
    place = corpus.folder.resolve()
    for source in sources:
        if source.resolve().is_relative_to(place) or place.is_relative_to(source.resolve()):
            raise UserError(
                f"{source} holds the corpus or lies in it; name the folder in which new videos lie"
            )


def from_project(path: Path) -> Path:
    """Return a path as seen from the working folder, absolute if it lies elsewhere."""
    whole = path.resolve()
    here = Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole


def _from_here(candidate: Candidate) -> Candidate:
    return replace(candidate, delivery=from_project(Path(candidate.delivery)).as_posix())


def has_news(corpus: CorpusOptions, inbox: Path, options: IngestOptions) -> bool:
    """Return whether an ingest of an inbox would look at anything that it has not seen.

    What lies in the corpus, was withdrawn from it, or was rejected as it is, is no news; nor is a
    file that changed a moment ago. A change that a crash cut short is. No video is decoded, and
    none is read twice.

    Raises:
        UserError: If the corpus cannot grow, as one of glosses and sentences.
    """
    if workshop_of(corpus).journal.is_file():
        return True
    if not inbox.is_dir():
        return False
    check_growable(corpus, [inbox])
    found = survey(corpus, Request(sources=[inbox], inbox=True, settle_s=options.settle_s))
    rejected = {(row.delivery, row.where, row.fingerprint) for row in read_rejects(corpus)}
    for one in found.candidates:
        content = found.content(one)
        is_known = content is not None and (
            content[0] in found.stock.withdrawn or found.stock.holds(one, content)
        )
        mark = (one.delivery, one.where, fingerprint(one, content, options))
        if not is_known and mark not in rejected:
            return True
    return False
