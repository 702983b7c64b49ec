"""`signloom scores`: the last evaluation is printed beside its floors."""

import argparse
from pathlib import Path
from typing import Any

from signloom.config import read_json


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("scores", help="print the last evaluation beside its floors")
    parser.add_argument("--metrics", type=Path, default=Path("reports/metrics.json"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the scores of each split, what they must be compared with, and where to look."""
    metrics = read_json(options.metrics, mend="run `dvc repro evaluate` first")
    for split, found in metrics.items():
        print(format_scores(split, found))
    print("report:  open reports/index.html in a browser")
    # MLflow's own front page shows GenAI traces, of which there are none.
    print("runs:    make ui, then http://127.0.0.1:5000 > Experiments > Model training")


def format_scores(split: str, scores: dict[str, Any]) -> str:
    """Return a split's scores as a small table."""

    def line(name: str, key: str, *floors: tuple[str, str]) -> str:
        beside = ", ".join(f"{label} {scores[floor]:.2f}" for label, floor in floors)
        interval = f"[{scores[f'{key}_low']:.2f}, {scores[f'{key}_high']:.2f}]"
        return f"  {name:<8}{scores[key]:>7.2f}  {interval:<17}" + (beside and f"  {beside}")

    floors = (
        ("best constant sentence", "floor_bleu4"),
        ("nearest clip", "retrieval_bleu4"),
        ("blind", "blind_bleu4"),
    )
    return "\n".join(
        (
            f"{split}: {scores['clips']} clips, 95 % intervals",
            line("BLEU-4", "bleu4", *floors),
            line("BLEU-1", "bleu1"),
            line("chrF", "chrf"),
            line("WER %", "wer"),
            line("CER %", "cer"),
            f"  {scores['signature']}\n",
        )
    )
