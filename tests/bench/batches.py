"""How full the batches of a training epoch are, and whether one exceeds its frame budget.

Usage: python -m tests.bench.batches [--epochs N]

Reads params.yaml and what the stages extract and tokenize_targets wrote; trains nothing.
"""

import argparse
import time

from pipeline.stage import LABELS, PARAMS, SHARDS, TARGETS, TOKENIZER
from signloom.corpus.batches import training_batches
from signloom.training.data import load_training_data
from signloom.training.run import read_run_options


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs
    options = read_run_options(PARAMS)
    data = load_training_data(shards=SHARDS, targets=TARGETS, tokenizer=TOKENIZER, labels=LABELS)
    budget = options.train.max_frames
    epoch_batches = training_batches(
        data.train,
        options.features,
        options.augment,
        max_frames=budget,
        pad=data.tokenizer.pad,
        seed=options.train.seed,
    )
    start, sizes, real = time.process_time(), [], 0
    for epoch in range(1, epochs + 1):
        for batch in epoch_batches(epoch):
            sizes.append(batch.src_valid.numel())
            real += int(batch.src_valid.sum())
    seconds = (time.process_time() - start) / epochs
    print(f"{len(sizes) / epochs:.1f} batches an epoch, {seconds:.2f} CPU-s to make them")
    print(f"largest batch {max(sizes) / budget:.2f} of the budget of {budget} frames")
    print(f"{sum(size > budget for size in sizes) / len(sizes):.0%} of the batches exceed it")
    print(f"{1 - real / sum(sizes):.1%} of the frames are padding")


if __name__ == "__main__":
    main()
