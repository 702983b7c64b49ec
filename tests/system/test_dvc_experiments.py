"""`dvc exp run` with real repositories: where runs land, and that both sides name each other."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import call
from tests.tiny import ROOT

STAGE = """
import json, pipeline, signloom
from pathlib import Path
from signloom.config import load_params
from signloom.extraction.cache import cache_folder
from signloom.tracking.run import Run, RunOf, TrackingOptions
seed = load_params(Path("params.yaml"))["train"]["seed"]
on = TrackingOptions(enabled=True, experiment="scratch")
with Run.start(on, RunOf(stage="train", name=f"seed {seed}")) as run:
    run.log_params({"train": {"seed": seed}})
    run.log_metrics({"test": {"bleu4": seed / 2}})
found = {"test": {"bleu4": seed / 2}, "cache": str(cache_folder().absolute()),
         "code": signloom.__path__[0]}
Path("metrics.json").write_text(json.dumps(found))
"""
PIPELINE = """
stages:
  train:
    cmd: python -m pipeline.train
    deps: [pipeline/train.py]
    params: [train]
    metrics: [{metrics.json: {cache: false}}]
"""

FIND = """
import json, mlflow, sys
found = mlflow.search_runs(
    search_all_experiments=True, output_format="list",
    filter_string=f"tags.dvc_experiment = '{sys.argv[1]}'",
)
print(json.dumps([one.to_dictionary() for one in found]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one stage, committed, with the package's code beside it."""
    root = tmp_path / "project"
    (root / "pipeline").mkdir(parents=True)
    (root / "src").symlink_to(ROOT / "src")
    (root / "pipeline/__init__.py").write_text((ROOT / "pipeline/__init__.py").read_text())
    (root / "pipeline/train.py").write_text(STAGE)
    (root / "dvc.yaml").write_text(PIPELINE)
    (root / "params.yaml").write_text("train:\n  seed: 1\n")
    (root / ".gitignore").write_text("/data/\n/mlflow.db*\n/mlruns/\n__pycache__/\n")
    call("git", "init", "--quiet", cwd=root)
    call("dvc", "init", "--quiet", cwd=root)
    call("git", "add", "--all", cwd=root)
    call("git", "commit", "--quiet", "-m", "start", cwd=root)
    return root


def experiments(root: Path) -> dict[str, Any]:
    """Return the metrics of each experiment by its name, as `dvc exp show` has them."""
    metrics = {}
    for baseline in json.loads(call("dvc", "exp", "show", "--json", cwd=root)):
        for experiment in baseline["experiments"] or []:
            (revision,) = experiment["revs"]
            metrics[experiment["name"]] = revision["data"]["metrics"]["metrics.json"]["data"]
    return metrics


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_experiments_and_runs_name_each_other(project: Path) -> None:
    head = call("git", "rev-parse", "HEAD", cwd=project).strip()
    call("dvc", "exp", "run", "--name", "here", "--set-param", "train.seed=2", cwd=project)
    call(
        "dvc", "exp", "run", "--temp", "--name", "away", "--set-param", "train.seed=3", cwd=project
    )
    shown = experiments(project)
    assert {name: metrics["test"]["bleu4"] for name, metrics in shown.items()} == {
        "here": 1.0,
        "away": 1.5,
    }
    # The copy in which `away` ran is gone; caches and runs are the project's.
    assert Path(shown["away"]["cache"]) == project / "data/cache/landmarks"
    assert shown["away"]["code"] != shown["here"]["code"]
    for name, seed in (("here", 2), ("away", 3)):
        runs = json.loads(call(sys.executable, "-W", "ignore", "-c", FIND, name, cwd=project))
        above, child = sorted(runs, key=lambda run: run["info"]["run_name"])
        assert above["info"]["run_name"] == f"{name}: seed {seed}"
        assert (child["info"]["status"], child["info"]["run_name"]) == (
            "FINISHED",
            f"train seed {seed}",
        )
        tags = child["data"]["tags"]
        assert (tags["dvc_experiment"], tags["dvc_baseline"]) == (name, head)
        assert tags["mlflow.parentRunId"] == above["info"]["run_id"]
        assert child["data"]["metrics"]["test/bleu4"] == shown[name]["test"]["bleu4"]
    assert not any(path.is_dir() for path in (project / "data/.tracking").iterdir())  # all sent
