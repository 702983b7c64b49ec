"""`signloom task`: a toy with a known answer shows that the configured model learns."""

import argparse
import dataclasses
import json
from pathlib import Path


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("task", help="train on a toy whose answer is known")
    tasks = parser.add_subparsers(title="tasks", required=True, metavar="TASK")
    reverse = tasks.add_parser(
        "reverse",
        help="turn sequences of symbols round (document 004)",
        description="Train a model to turn sequences of symbols round, and test it on sequences "
        "that it has not seen. Sizes and recipe: signloom/tasks/reverse.yaml.",
    )
    reverse.add_argument("--family", help="transformer, conformer or lstm")
    reverse.add_argument("--seed", type=int, help="of weights, sequences and their order")
    reverse.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.NAME=VALUE",
        help="change a parameter, such as model.norm=pre or train.epochs=4; may be repeated",
    )
    reverse.add_argument(
        "--out", type=Path, default=Path("reports/tasks/reverse.json"), help="(%(default)s)"
    )
    reverse.set_defaults(run=run_reverse)


def run_reverse(options: argparse.Namespace) -> None:
    """Train, print each epoch and the scores, write them as JSON."""
    from signloom.files import write_file
    from signloom.reversal import read_lab, run_lab, summarise_lab
    from signloom.training.loop import EpochRecord

    assignments = list(options.set)
    if options.family:
        assignments.append(f"model.family={options.family}")
    if options.seed is not None:
        assignments.append(f"train.seeds=[{options.seed}]")
    lab = read_lab(assignments)

    def show(record: EpochRecord) -> None:
        print(
            f"epoch {record.epoch:>2}/{lab.train.epochs}  train {record.train_loss:.4f}  "
            f"dev {record.dev_loss:.4f}  next symbol {100 * record.dev_accuracy:.1f} %",
            flush=True,
        )

    result = run_lab(lab, log=show)
    print(f"exact match on {lab.task.test} held-out sequences: {100 * result.exact:.1f} %")
    lengths = (f"{length}: {100 * share:.0f}" for length, share in result.by_length.items())
    print(f"by length, %: {', '.join(lengths)}")
    print(f"dev loss {result.dev_loss:.4f} nats a symbol, {result.cpu_s:.0f} CPU-s of training")
    content = {**summarise_lab(lab, result), "options": dataclasses.asdict(lab)}
    write_file(options.out, json.dumps(content, indent=1) + "\n")
    print(f"written: {options.out}")
