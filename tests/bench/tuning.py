"""A search of 30 trials whose process is killed at random, beside the same one left alone.

    python -m tests.bench.tuning kills --landmarks data/landmarks --tokens data/tokens --out FILE
    python -m tests.bench.tuning overhead ...

`kills`: both must end with the same trials. `overhead`: the CPU seconds that a search and MLflow
add to a trial with the parameters of params.yaml, in the training process and beside it.
"""

import argparse
import dataclasses
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from signloom.config import update_params
from signloom.tune.slots import FINISHED
from tests.tiny import ROOT

SPACE = {
    "model.d_model": {"choices": [32, 64]},
    "model.head_width": {"choices": [16, 32]},
    "model.norm": {"choices": ["pre", "post"]},
    "model.encoder_layers": {"low": 1, "high": 2},
    "train.learning_rate": {"low": 0.0005, "high": 0.005, "log": True},
}
KILLS = 6
PATHS = ("landmarks", "tokens")


def make_project(folder: Path, data: argparse.Namespace, **tune: object) -> Path:
    """Make a project's folder around landmarks and tokens that exist."""
    (folder / "data").mkdir(parents=True)
    for name in PATHS:
        (folder / "data" / name).symlink_to(getattr(data, name).resolve())
    shutil.copy(ROOT / "params.yaml", folder)
    changes = {"confirm": {"top": 0, "seeds": 1}, "first": [], "space": SPACE, **tune}
    update_params(folder / "params.yaml", {"tune": changes, "train": {"device": "cpu"}})
    return folder


def start(folder: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline.tune"], cwd=folder, env=environment, stderr=log
        )


def finished_trials(folder: Path) -> int:
    import sqlite3

    path = folder / "optuna.db"
    if not path.is_file():
        return 0
    names = ", ".join(f"'{state.name}'" for state in FINISHED)
    try:
        with sqlite3.connect(path, timeout=60) as database:
            query = f"select count(*) from trials where state in ({names})"
            return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # its tables are being made
        return 0


def kills(data: argparse.Namespace, folder: Path, trials: int) -> dict[str, Any]:
    """Run one search alone and one that is killed again and again."""
    results, killed_after = {}, []
    generator = random.Random(1)
    for name in ("alone", "killed"):
        project = make_project(folder / name, data, trials=trials, epochs=3)
        moments = sorted(generator.sample(range(trials), KILLS)) if name == "killed" else []
        process = start(project)
        while process.poll() is None:
            time.sleep(0.05)
            if moments and finished_trials(project) >= moments[0]:
                time.sleep(generator.uniform(0, 3))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    killed_after.append(finished_trials(project))
                moments = moments[1:]
                process = start(project)
        assert process.returncode == 0, (project / "log.txt").read_text()[-3000:]
        results[name] = json.loads((project / "reports/tune/trials.json").read_text())
    numbers = [trial["number"] for trial in results["killed"]["trials"]]
    return {
        "trials": trials,
        "killed_after_trials": killed_after,
        "each_once": numbers == list(range(trials)),
        "best_alone": results["alone"]["best"]["value"],
        "best_killed": results["killed"]["best"]["value"],
        "same_trials": results["alone"]["trials"] == results["killed"]["trials"],
    }


def overhead(data: argparse.Namespace, folder: Path, trials: int) -> dict[str, Any]:
    """Time trainings alone, and a search whose trainings only report the same epochs.

    Their difference would drown in the noise of a busy machine; their parts do not.
    """
    import signloom.tune.objective as objective
    from signloom.tracking.run import Run, TrackingOptions
    from signloom.training.data import TrainingFiles
    from signloom.training.run import train
    from signloom.tune.search import open_studies
    from signloom.tune.worker import read_search

    os.chdir(make_project(folder / "overhead", data, trials=trials, epochs=12))
    search = read_search(Path("params.yaml"), TrainingFiles())
    seconds = []
    for _ in range(3):
        before = time.process_time()
        result = train(search.data, search.base, provenance={}, log=lambda record: None)
        seconds.append(time.process_time() - before)

    def replay(*_: object, log: Any, **__: object) -> Any:
        for record in result[1].history:
            log(record)
        return result

    objective.train = replay
    on = TrackingOptions(enabled=True, experiment="overhead")
    search = dataclasses.replace(search, tracking=on)
    with Run.start(on, "search", stage="tune", key=search.name):
        studies = open_studies(search)
        before = time.process_time()
        studies.work()
        added = (time.process_time() - before) / trials
    delivery = sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())
    return {
        "trials": trials,
        "epochs": 12,
        "training_cpu_s": [round(value, 2) for value in seconds],
        "search_and_tracking_cpu_s_a_trial": round(added, 3),
        "share_of_a_trial": round(added / statistics.median(seconds), 4),
        "delivery_cpu_s_in_all": round(delivery, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measure", choices=["kills", "overhead"])
    parser.add_argument("--landmarks", type=Path, default=Path("data/landmarks"))
    parser.add_argument("--tokens", type=Path, default=Path("data/tokens"))
    parser.add_argument("--trials", type=int, help="default: 30 with kills, 6 of the overhead")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    out = options.out.absolute()
    with tempfile.TemporaryDirectory() as folder:
        measure, trials = (kills, 30) if options.measure == "kills" else (overhead, 6)
        found = measure(options, Path(folder), options.trials or trials)
    out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
