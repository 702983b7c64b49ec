import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signloom.config import UserError
from signloom.tracking import MAX_VALUE_CHARS, Run, TrackingOptions, flatten, hide_password

ON = TrackingOptions(enabled=True, experiment="drawn signers")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an MLflow database; making the tables takes seconds, so all tests share it."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def _in_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def read(run: Run) -> Any:
    return run._client.get_run(run.run_id)


def test_a_run_goes_to_mlflow_db_in_the_working_directory_and_keeps_what_it_is_given(
    store: Path, tmp_path: Path
) -> None:
    file, folder = tmp_path / "metrics.json", tmp_path / "figures"
    file.write_text("{}")
    folder.mkdir()
    (folder / "curves.svg").write_text("<svg/>")

    with Run.start(ON, "d16", stage="train", data={"tokens": "ab12"}) as run:
        run.log_params({"model": {"d_model": 16, "norm": "pre"}, "seed": 1})
        run.log_metrics({"dev": {"loss": 3.5, "note": "text"}}, step=1)
        run.log_metrics({"dev": {"loss": 2.5}}, step=2)
        run.log_artifact(file)
        run.log_artifact(folder, folder="report")

    kept = read(run)
    assert (store / "mlflow.db").is_file()
    assert (kept.info.run_name, kept.info.status) == ("train d16", "FINISHED")
    assert kept.data.params == {"model.d_model": "16", "model.norm": "pre", "seed": "1"}
    history = run._client.get_metric_history(run.run_id, "dev/loss")
    assert [(point.step, point.value) for point in history] == [(1, 3.5), (2, 2.5)]
    assert kept.data.tags["stage"] == "train"
    assert kept.data.tags["data.tokens"] == "ab12"
    assert {"git_commit", "git_dirty"} <= kept.data.tags.keys()
    artifacts = store / "mlruns" / kept.info.experiment_id / run.run_id / "artifacts"
    assert (artifacts / "metrics.json").read_text() == "{}"
    assert (artifacts / "report" / "curves.svg").is_file()


@pytest.mark.parametrize(
    ("error", "status", "tag"),
    [(ZeroDivisionError("oh"), "FAILED", "error"), (KeyboardInterrupt(), "KILLED", "error"),
     (StopAsyncIteration("pruned at 3"), "FINISHED", "stopped_by")],
)  # fmt: skip
def test_the_exception_decides_how_a_run_ends(error: BaseException, status: str, tag: str) -> None:
    parent = Run.start(ON, "search", stage="tune")
    run = parent.child("trial 0", stops=(StopAsyncIteration,))
    with pytest.raises(type(error)), run:
        raise error
    assert read(run).info.status == status
    assert read(run).data.tags[tag].startswith(type(error).__name__)


def test_children_carry_the_parents_tags_and_live_beside_each_other() -> None:
    with Run.start(ON, "search", stage="tune", tags={"study": "s1"}) as parent:
        with parent.child("trial 0") as first, parent.child("trial 1", tags={"x": "y"}) as second:
            first.log_metrics({"dev_loss": 2.0})
            second.log_metrics({"dev_loss": 1.0})
        assert read(parent).info.status == "RUNNING"
    for child in (first, second):
        tags = read(child).data.tags
        assert tags["mlflow.parentRunId"] == parent.run_id
        assert tags["study"] == "s1"
    assert read(second).data.tags["x"] == "y"
    assert read(second).data.metrics == {"dev_loss": 1.0}


def test_more_params_than_one_call_takes_and_long_values_are_kept() -> None:
    with Run.start(ON, "many", stage="train") as run:
        run.log_params({f"p{i:03}": i for i in range(230)} | {"long": "x" * 2000})
    params = read(run).data.params
    assert len(params) == 231
    assert len(params["long"]) == MAX_VALUE_CHARS


def test_a_store_that_fails_after_the_start_costs_a_warning_and_not_the_training(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run.start(ON, "unlucky", stage="train")

    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(run._client, "log_batch", refuse)
    with caplog.at_level(logging.WARNING):
        run.log_metrics({"loss": 1.0})
    assert "did not take metrics" in caplog.text
    assert "database is locked" in caplog.text


def test_a_damaged_database_is_named_with_the_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlflow.db").write_text("no database " * 100)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    with pytest.raises(UserError, match=r"mlflow\.db.*not a database.*MLFLOW_TRACKING_URI"):
        Run.start(ON, "x", stage="train")


def test_a_deleted_experiment_is_named_with_the_mend() -> None:
    options = TrackingOptions(enabled=True, experiment="gone")
    run = Run.start(options, "x", stage="train")
    run._client.delete_experiment(read(run).info.experiment_id)
    with pytest.raises(UserError, match="'gone' was deleted: restore it"):
        Run.start(options, "x", stage="train")


def test_tracking_off_does_nothing_and_does_not_import_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from signloom.tracking import Run, TrackingOptions\n"
        "off = TrackingOptions(enabled=False, experiment='x')\n"
        "with Run.start(off, 'a', stage='train') as run, run.child('b') as child:\n"
        "    child.log_params({'a': 1}); child.log_metrics({'a': 1}); child.set_tags({'a': 'b'})\n"
        "    child.log_artifact(Path('missing'))\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert not any(tmp_path.iterdir())


def test_telemetry_is_off_before_mlflow_is_imported(tmp_path: Path) -> None:
    code = (
        "from signloom.tracking import Run, TrackingOptions\n"
        "on = TrackingOptions(enabled=True, experiment='x')\n"
        "Run.start(on, 'a', stage='train')\n"
        "from mlflow.telemetry.utils import is_telemetry_disabled\n"
        "assert is_telemetry_disabled()\n"
    )
    bare = {key: value for key, value in os.environ.items()
            if key not in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "CI")}  # fmt: skip
    bare["MLFLOW_TRACKING_URI"] = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "MLflow's own chatter reached the terminal"


def test_nested_values_are_flattened_in_order() -> None:
    nested = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert list(flatten(nested, separator=".")) == [("a.b", 1), ("a.c.d", 2), ("e", 3)]


def test_passwords_of_a_store_are_not_printed() -> None:
    said = hide_password("cannot reach postgresql://me:se-cret@db:5432/runs or sqlite:///a.db")
    assert said == "cannot reach postgresql://me:***@db:5432/runs or sqlite:///a.db"


def test_an_experiment_needs_a_name() -> None:
    with pytest.raises(ValueError, match="experiment"):
        TrackingOptions(enabled=True, experiment=" ")
