"""Copies of a person's films beside the corpus: deliveries that wait, and withdrawn ones."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.corpus.manifest import parse_segment
from signloom_ops.intake.deliveries import Candidate, Request, scan
from signloom_tools.importing.captions import READ_SUFFIXES, split_name

Span = tuple[float | None, float | None]
"""Start and end of a clip in its film, seconds; None: the film's."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What some folders of deliveries hold of a person, read as `signloom ingest` reads them."""

    films: dict[Path, set[Span]]  # that show nobody else, and their clips
    shared: tuple[Path, ...]  # films of theirs that others are named in, too
    folders: tuple[Path, ...]  # in which every clip is theirs


def find_delivered(folders: Sequence[Path], signer: str) -> Delivered:
    """Find the clips of a signer in folders of deliveries; a folder may be missing.

    A delivery that cannot be read names nobody, so nothing in it is taken for theirs.
    """
    films: dict[Path, set[Span]] = defaultdict(set)
    others: set[Path] = set()
    by_folder: dict[Path, list[bool]] = defaultdict(list)
    for source, one in _candidates(folders):
        is_theirs = one.values.get("signer") == signer
        place = Path(one.delivery)
        for above in (place, *place.parents):
            if above.resolve() == source.resolve():
                break
            by_folder[above].append(is_theirs)
        if one.video and is_theirs:
            start_s, end_s, _ = parse_segment(one.values)
            films[one.video].add((start_s, end_s))
        elif one.video:
            others.add(one.video)
    return Delivered(
        films={path: spans for path, spans in films.items() if path not in others},
        shared=tuple(sorted(films.keys() & others)),
        folders=tuple(sorted(place for place, theirs in by_folder.items() if all(theirs))),
    )


def delivered_signers(folders: Sequence[Path]) -> set[str]:
    """Return who is named as a signer in folders of deliveries."""
    return {one.values["signer"] for _, one in _candidates(folders) if one.values.get("signer")}


def _candidates(folders: Sequence[Path]) -> Iterator[tuple[Path, Candidate]]:
    for source in folders:
        if source.is_dir():
            found, _ = scan(Request(sources=[source], inbox=True))
            yield from ((source, one) for one in found)


def texts_of(film: Path) -> list[Path]:
    """Return the files beside a film that hold its sentences by its name."""
    return [
        path
        for path in sorted(film.parent.iterdir())
        if path != film
        and path.suffix.lower() in (".txt", *READ_SUFFIXES)
        and film.stem in (path.stem, split_name(path)[0])
    ]
