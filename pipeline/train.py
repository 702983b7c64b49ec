"""Train the model that params.yaml describes. DVC stage `train`."""

import dataclasses

from tqdm import tqdm

from pipeline.stage import (
    CHECKPOINT,
    HISTORY,
    LABELS,
    PARAMS,
    SHARDS,
    TARGETS,
    TOKENIZER,
    run,
)
from signloom.checkpoint import save_checkpoint
from signloom.config import load_section
from signloom.reproducibility import library_versions
from signloom.tracking.run import Run, TrackingOptions
from signloom.training.data import hash_training_data, load_training_data
from signloom.training.loop import EpochRecord, write_history
from signloom.training.run import describe, read_run_options, train


def main() -> None:
    """Train, keep the best epoch, log the run."""
    options = read_run_options(PARAMS)
    tracking = load_section(PARAMS, "tracking", TrackingOptions)
    data = load_training_data(shards=SHARDS, targets=TARGETS, tokenizer=TOKENIZER, labels=LABELS)
    hashes = hash_training_data(shards=SHARDS, targets=TARGETS)
    params = dataclasses.asdict(options)
    provenance = {"params": params, "data": hashes, "libraries": library_versions()}
    with (
        Run.start(tracking, describe(options), stage="train", data=hashes) as log,
        tqdm(total=options.train.epochs, desc="train", unit="epoch") as bar,
    ):
        log.log_params(params)

        def report(record: EpochRecord) -> None:
            values = dataclasses.asdict(record)
            log.log_metrics(values, step=record.epoch)
            bar.set_postfix({k: f"{values[k]:.3f}" for k in ("train_loss", "dev_loss")})
            bar.update()

        checkpoint, result = train(data, options, provenance=provenance, log=report)
        save_checkpoint(CHECKPOINT, checkpoint)
        write_history(HISTORY, result)
        log.log_metrics({"best_epoch": result.best_epoch, "best_dev_loss": result.dev_loss})
        log.log_artifact(CHECKPOINT, folder="checkpoint")


if __name__ == "__main__":
    run(main)
