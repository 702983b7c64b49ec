"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial

from pipeline.stage import run
from signloom.errors import UserError
from signloom.paths import CHECKPOINT, PARAMS, SNAPSHOTS
from signloom.tracking.run import Run, RunOf, name_run, read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.seeds import TrainingRun, open_run
from signloom.training.train import RunOptions, describe, read_run_options, spread, write_results

NOTE = "Curves: metrics by epoch. Weights of the best epoch: artifacts, `checkpoint`."
KEPT = "The finished training is kept: put back what was changed, and `dvc repro` takes it."


def main() -> Callable[[], None] | None:
    """Train with every seed, keep the best epochs, log the runs; return what removes snapshots."""
    training = open_run(TrainingFiles(), read_run_options(PARAMS), SNAPSHOTS)
    data = training.provenance["data"]
    start_run = partial(Run.start, read_tracking(PARAMS), data=data)
    if not training.fabric.is_global_zero:  # of several processes only the first writes and logs
        for number in range(len(training.each)):
            training.train(number)
    elif len(sys.argv) > 1:  # started by `train_apart`
        number, key = int(sys.argv[1]), sys.argv[2]
        if training.key() != key:
            raise UserError(
                f"{PARAMS}, the data or the code was edited since the training of the first seed "
                "began, so this seed would be trained otherwise; put it back, or run the same "
                "command again for the training that is described now"
            )
        with run_of_seed(start_run, key, training.each[number]) as below:
            training.train(number, below.log_metrics)
    else:
        note = f"{len(training.data.train)} train and {len(training.data.dev)} dev clips. {NOTE}"
        of = RunOf(stage="train", name=name_run(describe(training.options)), key=training.key())
        with training.hold(), start_run(of, note=note) as main_run:
            train_every(training, start_run, main_run)
        return training.remove_snapshots
    return None


def train_every(training: TrainingRun, start_run: Callable[..., Run], main_run: Run) -> None:
    """Train with every seed, some at a time where cores are left, and write what came out."""
    main_run.log_params({**asdict(training.options), "threads": training.threads})
    training.train_apart("pipeline.train", main_run.key)
    results = []
    for number, options in enumerate(training.each):  # what was trained is only read
        below = run_of_seed(start_run, main_run.key, options)
        with nullcontext(main_run) if len(training.each) == 1 else below as log:
            results.append(training.train(number, log.log_metrics))
    write_results(CHECKPOINT, results)
    main_run.log_metrics({"dev_loss_of_seeds": spread(results)})
    main_run.log_artifact(CHECKPOINT, folder="checkpoint")


@contextmanager
def run_of_seed(start_run: Callable[..., Run], key: str, options: RunOptions) -> Iterator[Run]:
    """Give the run of one of several seeds, below that of the whole training."""
    name = describe(options)
    of = RunOf(stage="train", name=name, parent=key, key=f"{key} {name}")
    with start_run(of) as below:
        below.log_params(asdict(options))  # compared with others, it says what it trained with
        yield below


if __name__ == "__main__":
    run(main, kept=KEPT)
