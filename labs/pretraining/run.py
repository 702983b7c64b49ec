"""Pretrain the encoder on landmarks without sentences.

Usage: python -m labs.pretraining.run
"""

import logging
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

from labs.pretraining.pretraining import (
    PretrainOptions,
    hash_corpora,
    load_pretraining,
    pretrain,
    pretraining_options,
)
from pipeline.stage import run
from signloom.config import load_section
from signloom.files import write_file
from signloom.paths import SNAPSHOTS
from signloom.provenance import library_versions
from signloom.tracking.run import Run, read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.devices import choose_threads, open_devices
from signloom.training.run import (
    count_parameters,
    deciding_options,
    describe,
    read_run_options,
    train_seed,
    write_results,
)
from signloom.training.snapshots import hold_snapshots, open_snapshots

PARAMS = Path("params.yaml")
OWN = Path("labs/pretraining/params.yaml")
PRETRAINED = Path("data/pretrained")


def main() -> None:
    """Pretrain with the first seed, keep the best epoch, log the run."""
    own = load_section(OWN, "pretrain", PretrainOptions)
    if not own.epochs:
        shutil.rmtree(PRETRAINED, ignore_errors=True)  # nothing of an earlier one may remain
        write_file(PRETRAINED / "none.txt", "pretrain.epochs is 0: nothing was pretrained\n")
        logging.info("pretrain.epochs is 0: no pretraining")
        return
    options, files = pretraining_options(read_run_options(PARAMS), own), TrainingFiles()
    fabric = open_devices(options.train)
    data = load_pretraining(files, options, own)
    threads = choose_threads(count_parameters(data, options))
    hashes = {**files.hashes(), "corpora": hash_corpora(own)}
    made = {"data": hashes, "libraries": library_versions()}
    hidden = [own.mask_share, own.span_s]
    snapshots = open_snapshots(SNAPSHOTS, deciding_options(options), made, hidden)
    learn = partial(pretrain, own=own)
    if not fabric.is_global_zero:  # of several processes, only the first one writes and logs
        train_seed(data, options, made, fabric, snapshots, learn=learn)
        return
    name, note = describe(options), f"{len(data.train)} clips, whose sentences are not read."
    start_run = partial(Run.start, read_tracking(PARAMS), name, stage="pretrain", data=hashes)
    with (
        hold_snapshots(SNAPSHOTS, [snapshots]),
        start_run(key=snapshots.run_key(), note=note) as log,
    ):
        log.log_params({"pretrain": asdict(own), **asdict(options), "threads": threads})
        result = train_seed(data, options, made, fabric, snapshots, log.log_metrics, learn=learn)
        write_results(PRETRAINED, [result])
        log.log_artifact(PRETRAINED, folder="pretrained")
        snapshots.remove()


if __name__ == "__main__":
    run(main)
