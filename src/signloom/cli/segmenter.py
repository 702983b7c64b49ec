"""Commands for films of many sentences: train what cuts them, and align captions with them."""

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.cli.arguments import add_params, add_path, number_of, refuse_in_corpus
from signloom.config import Natural, load_section
from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom.files import check_output
from signloom.paths import CHECKPOINT, SEGMENTER, SHARDS

if TYPE_CHECKING:
    import numpy as np

    from signloom.translation.segmenter import Film

SPLITS = ("train", "dev")


def add_train_segmenter(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom train-segmenter`."""
    parser.description = (
        "Train a small network that finds the sentences of a film, for `signloom translate "
        "--write`. Where clips have start_s and end_s it learns from their whole films; else from "
        "clips that are joined with pauses between them."
    )
    add_params(parser)
    parser.add_argument(
        "--seed", type=number_of(Natural), default=1, help="of weights and chance (%(default)s)"
    )
    add_path(parser, "--out", SEGMENTER, "where translate finds it")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace what is no segmenter, too"
    )
    parser.set_defaults(run=run_train_segmenter)


def run_train_segmenter(options: argparse.Namespace) -> None:
    """Train it, say what it finds on dev, and write it."""
    from signloom.corpus.shards import shards_metadata
    from signloom.translation.segmentation import segment_by_rest, share_found
    from signloom.translation.segmenter import Segmenter, is_segmenter

    refuse_in_corpus(options.out)
    may_replace = options.overwrite or is_segmenter(options.out)
    check_output(options.out, [options.params], overwrite=may_replace)
    corpus = load_section(options.params, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    made = shards_metadata(SHARDS)
    segmenter = Segmenter(made.layout, json.loads(made.extractor), None)
    timed = [clip for clip in clips if clip.video and clip.end_s is not None]
    draw, dev = _films(timed, options.params) if timed else _joined(clips)
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


Draw = Callable[["np.random.Generator"], "Sequence[Film]"]


def _joined(clips: Sequence[Clip]) -> "tuple[Draw, Sequence[Film]]":
    """Return what joins the clips of train to films, and films of dev."""
    import numpy as np

    from signloom.corpus.shards import read_clip_frames, read_shards
    from signloom.translation.segmenter import join_films

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


def _films(clips: Sequence[Clip], params: Path) -> "tuple[Draw, Sequence[Film]]":
    """Return what takes windows of the films of train, and the films of dev."""
    from signloom.corpus.shards import read_shards
    from signloom.extraction.extract import ExtractOptions, extract_corpus
    from signloom.translation.segmenter import Film, crop, crop_films

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
        extract = load_section(params, "extract", ExtractOptions)
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


def add_align(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom align`."""
    parser.description = (
        "Shift and stretch the captions of a film to where its signing lies, as broadcasts' are "
        "off by seconds."
    )
    parser.add_argument("film", type=Path)
    parser.add_argument("captions", type=Path, help=".vtt, .srt, .eaf, ...; in the film's order")
    parser.add_argument("--out", type=Path, required=True, help=".vtt, .srt, .eaf, .txt or .json")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there already")
    add_path(parser, "--checkpoint", CHECKPOINT, "model folder, whose landmarks are looked for")
    parser.set_defaults(run=run_align)


def run_align(options: argparse.Namespace) -> None:
    """Write the captions with the times of the signing."""
    import torch

    from signloom.checkpoint import load_checkpoint
    from signloom.importing.captions import read_captions, write_captions
    from signloom.importing.foreign import SourceDefaults
    from signloom.translation.films import open_cutter
    from signloom.translation.inputs import ClipPath, ClipReader, GivenClip, ReadOptions
    from signloom.translation.segmentation import align_cues

    refuse_in_corpus(options.out)
    inputs = [options.film, options.captions]
    check_output(options.out, inputs, overwrite=options.overwrite)
    given = read_captions(options.captions)
    checkpoint = load_checkpoint(options.checkpoint, torch.device("cpu"))
    source = checkpoint.spec.source.landmarks(options.checkpoint)
    defaults = SourceDefaults(fps=None, width=None, height=None)
    reader = ClipReader(source.extractor, ReadOptions(defaults=defaults))
    film = next(reader.read(ClipPath(path=options.film), source.layout))
    if not isinstance(film, GivenClip):
        raise UserError(f"{film.name}: {film.problem}")
    spans = open_cutter(options.checkpoint, source.extractor)[0](film.sequence)
    aligned = align_cues([(cue.start_s, cue.end_s) for cue in given.cues], spans)
    moves_s = sorted(
        start - cue.start_s for cue, (start, _) in zip(given.cues, aligned, strict=True)
    )
    cues = [
        replace(cue, start_s=round(start, 3), end_s=round(end, 3))
        for cue, (start, end) in zip(given.cues, aligned, strict=True)
    ]
    write_captions(options.out, cues, options.film)
    if moves_s:
        print(
            f"{options.out}: {len(cues)} captions, {len(spans)} sentences found; moved by "
            f"{moves_s[0]:+.1f} to {moves_s[-1]:+.1f} s, half of them by at least "
            f"{moves_s[len(moves_s) // 2]:+.1f} s"
        )
    for where, problem in given.broken:
        print(f"warning: left out: {options.captions}, {where}: {problem}", file=sys.stderr)
