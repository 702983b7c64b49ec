"""Train what cuts films into sentences, and say what it finds on dev."""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from labs.segmenter.segmenter import Film, Segmenter, crop, crop_films, join_films
from signloom.config import load_section
from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata
from signloom.errors import UserError
from signloom.extraction.extract import ExtractOptions, extract_corpus
from signloom.paths import PARAMS, SHARDS
from signloom.terminal import run_program
from signloom.translation.segmentation import segment_by_rest, share_found

SPLITS = ("train", "dev")


def main() -> None:
    """Train it, say what it finds on dev, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="a .safetensors file that is not there yet")
    parser.add_argument("--seed", type=int, default=1, help="of weights and chance (%(default)s)")
    options = parser.parse_args()
    if options.out.exists():
        raise UserError(f"{options.out} already exists; name another file")
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    made = shards_metadata(SHARDS)
    segmenter = Segmenter(made.layout, json.loads(made.extractor), None)
    timed = [clip for clip in clips if clip.video and clip.end_s is not None]
    draw, dev = _films(timed) if timed else _joined(clips)
    segmenter.fit(draw, dev, options.seed)
    segmenter.save(options.out)
    sentences = max(sum(len(film.spans) for film in dev), 1)
    learnt, rest = (
        sum(share_found(cut(film.sequence), film.spans) * len(film.spans) for film in dev)
        for cut in (segmenter.segment, segment_by_rest)
    )
    print(
        f"{options.out}: of the {sentences} sentences of dev, both ends are found within 0.3 s of "
        f"{100 * learnt / sentences:.0f} % (by rest of the hands: {100 * rest / sentences:.0f} %)"
    )


Draw = Callable[[np.random.Generator], Sequence[Film]]


def _joined(clips: Sequence[Clip]) -> tuple[Draw, Sequence[Film]]:
    """Return what joins the clips of train to films, and films of dev."""
    there = read_clip_frames(SHARDS)
    ids = {split: [c for c in clips if c.split == split and c.clip_id in there] for split in SPLITS}
    if lacking := [split for split, found in ids.items() if not found]:
        raise UserError(f"no landmarks of {' and '.join(lacking)}; run `dvc repro extract`")
    read = read_shards(SHARDS, [clip.clip_id for found in ids.values() for clip in found])
    train, dev = (
        {
            signer: [read[clip.clip_id] for clip in found if clip.signer == signer]
            for signer in sorted({clip.signer for clip in found})
        }
        for found in ids.values()
    )
    return partial(join_films, train), join_films(dev, np.random.default_rng(0))


def _films(clips: Sequence[Clip]) -> tuple[Draw, Sequence[Film]]:
    """Return what takes windows of the films of train, and the films of dev."""
    by_film: dict[Path, list[Clip]] = defaultdict(list)
    for clip in clips:
        if clip.video:
            by_film[clip.video].append(clip)
    whole = {
        f"film-{number}": replace(found[0], clip_id=f"film-{number}", start_s=None, end_s=None)
        for number, found in enumerate(by_film.values())
    }
    with tempfile.TemporaryDirectory() as folder:
        # What was found stays in the cache.
        extract = load_section(PARAMS, "extract", ExtractOptions)
        extract_corpus(list(whole.values()), extract, Path(folder))
        read = read_shards(Path(folder) / "shards")
    films: dict[str, list[Film]] = defaultdict(list)
    for (name, film), found in zip(whole.items(), by_film.values(), strict=True):
        if name in read:  # else it was rejected, with words
            spans = sorted((clip.start_s or 0.0, clip.end_s or 0.0) for clip in found)
            films[film.split].append(Film(sequence=read[name], spans=spans))
    if not films["train"]:
        raise UserError("no film of train can be read, see above")
    if not films["dev"]:  # the last fifth of each film instead
        for name, window in (("dev", (0.8, 1.0)), ("train", (0.0, 0.8))):
            films[name] = [
                crop(one, (window[0] * one.sequence.seconds, window[1] * one.sequence.seconds))
                for one in films["train"]
            ]
    return partial(crop_films, films["train"]), films["dev"]


if __name__ == "__main__":
    run_program(main, stopped="stopped; run it again")
