"""Stress of films: their pictures are changed, and they are extracted and translated again."""

import json
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.metrics import ScoreOptions
from signloom.evaluation.names import Metric
from signloom.evaluation.stress import Tried, try_change
from signloom.extraction.extract import ExtractOptions, extract_corpus, extractor_fingerprint
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator
from signloom_tools.evaluate.film_changes import FILM_CHANGES, write_changed


def try_films(
    translator: Translator,
    targets: Sequence[Target],
    films: Mapping[str, Clip],
    sequences: Mapping[str, SourceSequence],
    extract: ExtractOptions,
    decoding: DecodingOptions,
    options: ScoreOptions,
    metric: Metric,
    *,
    most: int,
) -> list[Tried]:
    """Change the films of some clips, extract them again and translate them.

    Extraction keeps what it found in its cache, by the bytes of each film, so that a second run
    only writes the films.

    Args:
        translator: The model; of landmarks.
        targets: The clips of one split.
        films: Clip id to the row of the manifest.
        sequences: Clip id to the landmarks of the clip as it is.
        extract: How films are extracted.
        decoding: The search.
        options: Scoring; its seed is that of the changes.
        metric: The headline.
        most: Clips, at most; of more, every n-th that has a film is taken.

    Raises:
        UserError: If no clip has a film, or the model was trained on other landmarks.
    """
    has_film = [t for t in targets if films[t.clip_id].video is not None]
    if not has_film:
        raise UserError("no clip of the split has a film, so there are no pictures to change")
    translator.source.landmarks(as_points=True).check_extractor(
        json.loads(extractor_fingerprint(extract.detector_options))
    )
    chosen = has_film[:: -(-len(has_film) // most)]
    originals = [c for t in chosen if isinstance(c := sequences[t.clip_id], LandmarkSequence)]
    with tempfile.TemporaryDirectory() as folder:
        made: list[Clip] = []
        for number, name in enumerate(FILM_CHANGES):
            for target, landmarks in zip(chosen, originals, strict=True):
                film = films[target.clip_id]
                path = Path(folder) / f"{number}-{len(made)}.mp4"
                seed = [options.seed, number, zlib.crc32(target.clip_id.encode())]
                assert film.video is not None
                span = film.start_s, film.end_s
                write_changed(path, film.video, span, name, landmarks, seed)
                made.append(replace(film, clip_id=path.stem, video=path, start_s=None, end_s=None))
        extract_corpus(made, replace(extract, max_rejected_share=1.0), Path(folder))
        read = read_shards(Path(folder) / "shards")
    found = []
    for number, name in enumerate(FILM_CHANGES):
        ids = [one.clip_id for one in made[number * len(chosen) : (number + 1) * len(chosen)]]
        # Of a film in which nobody is found there are no landmarks.
        changed = [
            read.get(clip_id) or _nobody(one) for clip_id, one in zip(ids, originals, strict=True)
        ]
        one = try_change(
            translator, chosen, originals, changed, decoding, options, metric, name=name
        )
        found.append(replace(one, films=changed))
    return found


def _nobody(one: LandmarkSequence) -> LandmarkSequence:
    absent = np.full_like(one.points, np.nan)
    return replace(one, points=absent, present=np.zeros_like(one.present))
