"""Train a model to turn sequences of symbols round, and test it on sequences it has not seen.

Sizes and recipe: studies/reversal/reversal.yaml; studies/reversal/README.md.

Usage: python -m studies.reversal.run [--reduced] [--preset NAME] [--family NAME] [--seed N]
    [--set SECTION.NAME=VALUE]
"""

import argparse
import dataclasses
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.stage import run
from signloom.errors import UserError
from signloom.files import write_file
from signloom.report.attention import AttentionClip, AttentionMap, render_attention
from signloom.training.loop import EpochRecord
from signloom.training.train import ctc_positions
from signloom_tools.outputs import check_output
from studies.reversal.lab import (
    REDUCED,
    LabOptions,
    LabResult,
    attend,
    draw_sequences,
    is_result,
    read_lab,
    run_lab,
    summarise_lab,
)

OUT = Path("reports/tasks/reverse.json")
PAGE_TITLE = "Attention of the reversal lab"
SHOWN = 3  # sequences on the page of attention


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and run the lab."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--preset", default="", help="of presets/, such as reversal")
    parser.add_argument(
        "--reduced", action="store_true", help="10 symbols, at most 6 in a sequence, width 64"
    )
    parser.add_argument("--family", help="such as lstm; see docs/models.md")
    parser.add_argument("--seed", type=int, help="of weights, sequences and their order")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.NAME=VALUE",
        help="change a parameter, such as model.norm=pre or train.epochs=4; may be repeated",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="(%(default)s)")
    options = parser.parse_args(arguments)
    run_reverse(options)


def run_reverse(options: argparse.Namespace) -> None:
    """Train, print each epoch and the scores, write them as JSON."""
    if os.path.lexists(options.out) and not is_result(options.out):
        raise UserError(
            f"{options.out} is there and no result of this task: name another file; it was left"
        )
    check_output(options.out, [], overwrite=True)
    page = options.out.with_suffix(".html")
    if page == options.out:
        raise UserError(f"--out {page}: expected a name such as {page.with_suffix('.json')}")
    if os.path.lexists(page) and not _is_page(page):
        raise UserError(
            f"{page} is there and no page of this task: name another --out; it was left"
        )
    assignments = [*(REDUCED if options.reduced else ()), *options.set]
    if options.family:
        assignments.append(f"model.family={options.family}")
    if options.seed is not None:
        assignments.append(f"train.seeds=[{options.seed}]")
    lab = read_lab(assignments, preset=options.preset)

    def show(record: EpochRecord) -> None:
        print(
            f"epoch {record.epoch:>2}/{lab.train.epochs}  train {record.train_loss:.4f}  "
            f"dev {record.dev_loss:.4f}  next symbol {100 * record.dev_accuracy:.1f} %",
            flush=True,
        )

    if unwritable := _count_unwritable(lab):
        print(
            f"{unwritable} of {lab.task.test} test sequences cannot be written: CTC needs a blank "
            "between equal symbols, and there is a position for each symbol; --set task.frames=2"
        )
    result = run_lab(lab, log=show)
    print(f"exact match on {lab.task.test} held-out sequences: {100 * result.exact:.1f} %")
    lengths = (f"{length}: {100 * share:.0f}" for length, share in result.by_length.items())
    print(f"by length, %: {', '.join(lengths)}")
    print(f"dev loss {result.dev_loss:.4f} nats a symbol, {result.cpu_s:.0f} CPU-s of training")
    content = {**summarise_lab(lab, result), "options": dataclasses.asdict(lab)}
    write_file(options.out, json.dumps(content, indent=1) + "\n")
    print(f"written: {options.out}")
    _write_attention(page, lab, result)


def _count_unwritable(lab: LabOptions) -> int:
    """Return for how many test sequences an encoder-only model has too few positions."""
    if lab.model.family != "encoder_only":
        return 0
    needed = 0
    for sequence in draw_sequences(lab.task, lab.train.seed)["test"]:
        positions = math.ceil(len(sequence) * lab.task.frames / lab.model.subsampling)
        needed += ctc_positions(sequence) > positions
    return needed


def _is_page(path: Path) -> bool:
    """Return whether a file is a page of `_write_attention`, so that it may be replaced."""
    return path.is_file() and f"<h1>{PAGE_TITLE}".encode() in path.read_bytes()


def _write_attention(path: Path, lab: LabOptions, result: LabResult) -> None:
    """Write what each layer and head looks at in the longest test sequences."""
    sequences = draw_sequences(lab.task, lab.train.seed)["test"]
    clips = []
    for sequence in sorted(sequences, key=len, reverse=True)[:SHOWN]:
        names = [str(symbol) for symbol in sequence]
        try:
            weights, maps = attend(result.model, sequence, lab.task)
        except ValueError as error:  # the one it names: the decoder does not look at the source
            print(f"no page of attention: {error}")
            return
        tokens = [*reversed(names), ""]
        source = [name for name in names for _ in range(lab.task.frames)]
        alignment = AttentionMap(
            tokens=tokens, step_s=0.0, weights=weights, source=source, maps=maps
        )
        clips.append(
            AttentionClip(name=" ".join(names), text=" ".join(tokens), alignment=alignment)
        )
    title = f"{PAGE_TITLE}, {lab.model.family}"
    write_file(path, render_attention(title, clips))
    print(f"written: {path}: attention of every layer and head in {len(clips)} test sequences")


if __name__ == "__main__":
    run(main)
