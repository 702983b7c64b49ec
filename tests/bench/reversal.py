"""The reversal lab beside document 004's own loop: exact match and CPU seconds.

    python -m tests.bench.reversal [--rounds 3] [--out reports/benchmarks]

Both learn from the same sequences, a seed a round, on one thread; the document for its 10 epochs,
the lab with the recipe of `signloom/reversal.yaml`. Test sequences are in no other split.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

from signloom.training.run import seed_everything
from studies.reversal.lab import draw_sequences, read_lab, run_lab
from tests.bench.document_004 import Document004, Pair, decode, run_epochs

WANTED_EXACT, WANTED_TIME = 0.98, 0.5


def run_document(seed: int) -> dict[str, float]:
    """Train and test the document's model."""
    task = read_lab([]).task
    splits, ids = draw_sequences(task, seed), task.ids
    pairs: dict[str, list[Pair]] = {
        name: [([*s], [ids.bos, *reversed(s), ids.eos]) for s in sequences]
        for name, sequences in splits.items()
    }
    seed_everything(seed)
    model = Document004(task.vocab_size)
    start = time.process_time()
    run_epochs(model, pairs["train"], pairs["dev"], seed)
    cpu_s = time.process_time() - start
    found = decode(model, splits["test"], ids.bos, task.max_length + 1).tolist()
    right = [
        row[: len(target) - 1] == target[1:]
        for row, (_, target) in zip(found, pairs["test"], strict=True)
    ]
    return {"exact": sum(right) / len(right), "cpu_s": cpu_s}


def run_recipe(seed: int) -> dict[str, float]:
    """Train and test the lab."""
    result = run_lab(read_lab([f"train.seeds=[{seed}]"]), log=lambda record: None)
    return {"exact": result.exact, "cpu_s": result.cpu_s, "epochs": len(result.history)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    theirs, ours = [], []
    for seed in range(1, arguments.rounds + 1):
        theirs.append(run_document(seed))
        ours.append(run_recipe(seed))
        print(f"seed {seed}: document {theirs[-1]}, lab {ours[-1]}", file=sys.stderr, flush=True)
    share = statistics.median(a["cpu_s"] / b["cpu_s"] for a, b in zip(ours, theirs, strict=True))
    least = min(run["exact"] for run in ours)
    table = "| | epochs | exact match, each seed | CPU-s |\n|---|---|---|---|\n"
    for name, runs in (("document 004's loop", theirs), ("the lab's recipe", ours)):
        exact = ", ".join(f"{run['exact']:.1%}" for run in runs)
        seconds = statistics.median(run["cpu_s"] for run in runs)
        table += f"| {name} | {runs[0].get('epochs', 10):.0f} | {exact} | {seconds:.1f} |\n"
    table += (
        f"\nThe lab takes **{share:.2f}** of the document's CPU time (wanted: under {WANTED_TIME}) "
        f"and reverses at least **{least:.1%}** (wanted: {WANTED_EXACT:.0%}).\n"
    )
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "reversal.md").write_text(table)
        content = {"document": theirs, "lab": ours, "time": share, "least_exact": least}
        (arguments.out / "reversal.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
