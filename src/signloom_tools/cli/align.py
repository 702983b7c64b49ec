"""The command that moves the captions of a film to where its signing lies."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from signloom.errors import UserError
from signloom.files import check_output
from signloom.paths import CHECKPOINT
from signloom_tools.cli.arguments import add_path, refuse_in_corpus


def add_align(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom align`."""
    parser.description = (
        "Shift and stretch the captions of a film to where its signing lies, as broadcasts' are "
        "off by seconds."
    )
    parser.add_argument("film", type=Path)
    parser.add_argument("captions", type=Path, help=".vtt, .srt, .eaf, ...; in the film's order")
    parser.add_argument("--out", type=Path, required=True, help=".vtt, .srt, .eaf, .txt or .json")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a file that already exists"
    )
    add_path(parser, "--checkpoint", CHECKPOINT, "model folder, whose landmarks are looked for")
    parser.set_defaults(run=run_align)


def run_align(options: argparse.Namespace) -> None:
    """Write the captions with the times of the signing."""
    import torch

    from signloom.checkpoint import load_checkpoint
    from signloom_tools.importing.captions import read_captions, write_captions
    from signloom_tools.importing.foreign import SourceDefaults
    from signloom_tools.translate.inputs import ClipPath, ClipReader, GivenClip, ReadOptions
    from signloom_tools.translate.segmentation import align_cues, segment_by_rest

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
    spans = segment_by_rest(film.sequence)
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
