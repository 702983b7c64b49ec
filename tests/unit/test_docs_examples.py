"""The examples of pages that can be copied: they run, and do what their page says."""

import contextlib
import json
import os
import re
import runpy
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tests.processes import wait_until
from tests.tiny import ROOT


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_films() -> None:
    Path("films").mkdir()
    for name, text in (("a", "one"), ("b", "one two"), ("c", "one two three")):
        Path("films", name).write_text(text)
    code, _ = blocks("log/recipes.md", "python")
    Path("count.py").write_text(code)


def test_only_new_films_are_worked_on_and_the_output_is_that_of_an_empty_cache(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_films()

    def worked() -> int:
        runpy.run_path("count.py")
        return capsys.readouterr().out.count("working on")

    assert [worked(), worked()] == [3, 0]
    Path("films/a").rename("films/z")
    Path("films/d").write_text("one two three four")
    assert worked() == 1
    written = Path("counts.json").read_text()
    assert json.loads(written) == {"b": 2, "c": 3, "d": 4, "z": 1}
    for entry in Path(".cache/counts").iterdir():
        entry.unlink()
    assert worked() == 4
    assert Path("counts.json").read_text() == written


@pytest.mark.slow  # its quick twin is the test above
def test_the_example_is_a_stage_of_dvc(folder: Path) -> None:
    write_films()
    (stages,) = blocks("log/recipes.md", "yaml")
    Path("dvc.yaml").write_text(stages)
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "--no-scm", "--quiet"], check=True)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    worked = []
    for change in (None, "d"):
        if change:
            Path("films", change).write_text("one two three four")
        process = subprocess.run(
            [*dvc, "repro"], capture_output=True, text=True, check=True, env=environment
        )
        worked.append(process.stdout.count("working on"))
    assert worked == [3, 1]


def search(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Run the search of the page here; return the values and numbers of finished trials."""
    _, code = blocks("log/recipes.md", "python")
    Path("search.py").write_text(code)
    monkeypatch.setattr(sys, "argv", ["search.py", "0"])
    runpy.run_path("search.py")
    return finished()


def finished() -> list[object]:
    study = optuna.load_study(study_name="search", storage="sqlite:///search.db")
    completed = study.get_trials(states=(TrialState.COMPLETE,))
    return [(trial.params, trial.value) for trial in completed]


def test_a_search_whose_trial_was_left_running_ends_as_one_that_nobody_disturbed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = search(monkeypatch)
    assert len(undisturbed) == 6
    Path("search.db").unlink()
    study = optuna.create_study(study_name="search", storage="sqlite:///search.db")
    study.ask().suggest_float("x", -10, 10)  # what a killed process leaves
    assert search(monkeypatch) == undisturbed


@pytest.mark.slow  # its quick twin is the test above
def test_a_killed_search_ends_as_any_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = search(monkeypatch)
    Path("search.db").unlink()
    process = subprocess.Popen([sys.executable, "search.py", "0.5"], stderr=subprocess.DEVNULL)
    wait_until(lambda: has_finished(3))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 3 <= len(finished()) < 6
    assert search(monkeypatch) == undisturbed


def has_finished(trials: int) -> bool:
    """Look without Optuna, which would make the tables that the other process is making."""
    try:
        with contextlib.closing(sqlite3.connect("file:search.db?mode=ro", uri=True)) as database:
            cursor = database.execute("SELECT COUNT(*) FROM trials WHERE state = 'COMPLETE'")
            return bool(cursor.fetchone()[0] >= trials)
    except sqlite3.OperationalError:  # they are just being made
        return False


# Starts what it is given, once for each task of an array, with the variables that SLURM sets.
SBATCH = r"""#!/bin/bash
first=; last=; job=$((RANDOM + 1)); echo "$@" >> sbatch.log
while [ $# -gt 0 ]; do case $1 in
  --parsable) parsable=1 ;;
  --array=*) range=${1#--array=}; first=${range%-*}; last=${range#*-} ;;
  --cpus-per-task=*) export SLURM_CPUS_PER_TASK=${1#*=} ;;
  --gpus-per-node=*) export SLURM_GPUS_ON_NODE=${1#*=} ;;
  --nodes=*) export SLURM_NNODES=${1#*=} SLURM_JOB_NODELIST=node ;;
  --dependency=after*:*|--mem=*|--time=*|--requeue|--ntasks-per-node=*|--gpus=*) ;;
  --wrap) shift; command=$1 ;;
  *) echo "unknown option $1" >&2; exit 2 ;;
esac; shift; done
export SLURM_JOB_ID=$job
[ -n "$parsable" ] && echo $job || echo "Submitted batch job $job"
for task in $(seq ${first:-0} ${last:-0}); do
  [ -n "$first" ] && export SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$((last - first + 1))
  bash -euo pipefail -c "$command" >> calls.log || exit 1
done
"""


def test_the_lines_for_slurm_are_right(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Path("bin")
    commands.mkdir()
    script = '#!/bin/bash\necho "$(basename "$0") $*"\n'
    hosts = "#!/bin/bash\necho node1; echo node2\n"
    for name, text in {
        "sbatch": SBATCH,
        "scontrol": hosts,
        "srun": '#!/bin/bash\n"$@"\n',
        **dict.fromkeys(("python", "torchrun", "dvc", "signloom"), script),
    }.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands.resolve()}:/usr/bin:/bin")
    lines = "".join(block for block in blocks("scaling.md", "bash") if "sbatch" in block)
    subprocess.run(["bash", "-euo", "pipefail", "-c", lines], check=True, capture_output=True)
    calls = Path("calls.log").read_text().splitlines()
    assert calls[:9] == [
        *(f"python -m pipeline.extract --share {task}/8" for task in range(8)),
        "dvc repro extract tokenize_targets",
    ]
    two_nodes = next(line for line in calls if "--nnodes=2" in line)
    assert "--nproc-per-node=4" in two_nodes
    assert "--rdzv-endpoint=node1:29500 -m pipeline.train" in two_nodes
    assert calls[-8:] == ["signloom tune-worker"] * 8
    submitted = Path("sbatch.log").read_text()
    assert re.search(r"--dependency=afterok:\d+ --cpus-per-task=4 --mem=6G", submitted)
