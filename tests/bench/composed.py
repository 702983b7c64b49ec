"""When signs are read in composed orders of real takes, against the borders of their takes.

Usage: python -m tests.bench.composed CHECKPOINT CORPUS

CORPUS is that of the study coffee or little, CHECKPOINT was trained on it. Each
take has as many frames, 1.3 s, and begins and ends before and after the hands move.
"""

import sys
from pathlib import Path

import torch

from signloom.config import load_section
from signloom.corpus.manifest import IMPORTED_SHARDS, read_manifest
from signloom.corpus.shards import read_shards
from signloom.translation.translator import Translator
from studies.coffee.run import STUDY
from studies.coffee.study import CoffeeOptions
from tests.bench.figures import format_table
from tests.bench.signs import Span, measure_borders


def main() -> None:
    """Print the figures of dev and test."""
    checkpoint, corpus = map(Path, sys.argv[1:])
    options = load_section(STUDY, "study", CoffeeOptions)
    clips = [
        clip for clip in read_manifest(corpus / "manifest.tsv", signer_disjoint=False)
        if clip.split != "train"
    ]  # fmt: skip
    sequences = read_shards(corpus / IMPORTED_SHARDS, [clip.clip_id for clip in clips])
    true = list[list[Span]]()
    for clip in clips:
        glosses, film = (clip.gloss or "").split(), sequences[clip.clip_id]
        gap = options.gap_frames
        step = (len(film.points) + gap) / len(glosses)  # frames from take to take
        starts = [(gloss, step * place) for place, gloss in enumerate(glosses)]
        true.append([(g, first / film.fps, (first + step - gap) / film.fps) for g, first in starts])
    translator = Translator.load(checkpoint)
    figures = measure_borders(translator, [sequences[clip.clip_id] for clip in clips], true)
    print(format_table([("composed", one) for one in figures]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
