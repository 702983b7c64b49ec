"""Search for better parameters. DVC stage `tune`; `signloom adopt` writes the winner."""

import dataclasses
import json

from tqdm import tqdm

from pipeline.stage import LABELS, PARAMS, SHARDS, TARGETS, TOKENIZER, TUNE, run
from signloom.config import load_section
from signloom.reproducibility import write_atomically
from signloom.tracking import Run, TrackingOptions
from signloom.training.data import hash_training_data, load_training_data
from signloom.training.run import read_run_options
from signloom.tune.search import search
from signloom.tune.space import TuneOptions


def main() -> None:
    """Run the trials that are still missing and write them all."""
    base = read_run_options(PARAMS)
    options = load_section(PARAMS, "tune", TuneOptions)
    tracking = load_section(PARAMS, "tracking", TrackingOptions)
    data = load_training_data(shards=SHARDS, targets=TARGETS, tokenizer=TOKENIZER, labels=LABELS)
    hashes = hash_training_data(shards=SHARDS, targets=TARGETS)
    name = f"search of {options.trials} trials, {len(options.space)} parameters"
    with (
        Run.start(tracking, name, stage="tune", data=hashes) as log,
        tqdm(total=options.trials * options.epochs, desc="tune", unit="epoch") as bar,
    ):
        log.log_params({"tune": dataclasses.asdict(options), **dataclasses.asdict(base)})

        def report(epochs: int, trials: int) -> None:
            bar.set_postfix({"trials done": f"{trials}/{options.trials}"})
            bar.update(epochs)

        result = search(data, base, options, data_hash=json.dumps(hashes), run=log, progress=report)
        write_atomically(TUNE / "trials.json", json.dumps(result, indent=1) + "\n")
        write_atomically(TUNE / "best.json", json.dumps(result["best"], indent=1) + "\n")
        log.log_metrics({"best_dev_loss": result["best"]["value"]})
        log.log_artifact(TUNE, folder="tune")


if __name__ == "__main__":
    run(main)
