"""A corpus and folders come in; what lies in the folders, seen beside the corpus, goes out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.cache import cache_folder
from signloom.corpus.intake.deliveries import Candidate, Collector
from signloom.corpus.intake.ledgers import read_withdrawn
from signloom.corpus.intake.stock import Content, Stock, content_of, take_stock
from signloom.corpus.intake.versions import refuse_drawn
from signloom.corpus.manifest import Clip, CorpusOptions, is_text_corpus, read_manifest
from signloom.corpus.video_hashes import HashedVideo, VideoHashes


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
