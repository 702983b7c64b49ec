"""Stress of films: their pictures are changed, and they are extracted and translated again."""

import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.stress import Tried, try_change
from signloom.evaluation.systems import Setup
from signloom.extraction.extract import ExtractOptions, extract_corpus, extractor_fingerprint
from signloom.features.targets import Target
from signloom_tools.evaluate.film_changes import FILM_CHANGES, write_changed


def try_films(
    setup: Setup,
    targets: Sequence[Target],
    films: Mapping[str, Clip],
    extract: ExtractOptions,
    *,
    most: int,
) -> list[Tried]:
    """Change the films of some clips, extract them again and translate them.

    Extraction keeps what it found in its cache, by the bytes of each film, so that a second run
    only writes the films.

    Args:
        setup: The model, of landmarks, with the landmarks of the clips as they are; the seed of
            the changes is that of scoring.
        targets: The clips of one split.
        films: Clip id to the row of the manifest.
        extract: How films are extracted.
        most: Clips, at most; of more, every n-th that has a film is taken.

    Raises:
        UserError: If no clip has a film, or the model was trained on other landmarks.
    """
    has_film = [t for t in targets if films[t.clip_id].video is not None]
    if not has_film:
        raise UserError("no clip of the split has a film, so there are no pictures to change")
    setup.translator.source.landmarks(as_points=True).check_extractor(
        json.loads(extractor_fingerprint(extract.detector_options))
    )
    chosen = has_film[:: -(-len(has_film) // most)]
    originals = [c for c in setup.clips(chosen) if isinstance(c, LandmarkSequence)]
    found = []
    for name, changed in _extract_changed(setup, chosen, originals, films, extract):
        one = try_change(setup, chosen, originals, changed, name)
        found.append(replace(one, films=changed))
    return found


def _extract_changed(
    setup: Setup,
    targets: Sequence[Target],
    originals: Sequence[LandmarkSequence],
    films: Mapping[str, Clip],
    extract: ExtractOptions,
) -> Iterator[tuple[str, list[LandmarkSequence]]]:
    """Yield each change with the landmarks of the clips whose films were changed so."""
    with tempfile.TemporaryDirectory() as folder:
        made: list[Clip] = []
        for number, name in enumerate(FILM_CHANGES):
            for target, landmarks in zip(targets, originals, strict=True):
                film = films[target.clip_id]
                path = Path(folder) / f"{number}-{len(made)}.mp4"
                seed = [setup.score.seed, number, zlib.crc32(target.clip_id.encode())]
                assert film.video is not None
                span = film.start_s, film.end_s
                write_changed(path, film.video, span, name, landmarks, seed)
                made.append(replace(film, clip_id=path.stem, video=path, start_s=None, end_s=None))
        extract_corpus(made, replace(extract, max_rejected_share=1.0), Path(folder))
        read = read_shards(Path(folder) / "shards")
    for number, name in enumerate(FILM_CHANGES):
        clips = made[number * len(targets) : (number + 1) * len(targets)]
        both = zip(clips, originals, strict=True)
        # Of a film in which nobody is found there are no landmarks.
        yield name, [read.get(clip.clip_id) or _nobody(original) for clip, original in both]


def _nobody(one: LandmarkSequence) -> LandmarkSequence:
    absent = np.full_like(one.points, np.nan)
    return replace(one, points=absent, present=np.zeros_like(one.present))
