"""A search of several processes in one PostgreSQL database, one of them killed in the middle."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.tune import work_alone
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.parallel import count_cores
from signloom.tune.search import Search, open_search
from signloom.tune.storage import FINISHED, OWNER, SLOT
from signloom.tune.worker import read_search, work_together
from signloom_tools.params_file import update_params
from tests import tiny

TRIALS = 6
RUNNING = FINISHED[0].__class__.RUNNING
FAIL = FINISHED[0].__class__.FAIL


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server of our own and return the address of its database."""
    if not (shutil.which("initdb") and shutil.which("pg_ctl")):
        pytest.skip("PostgreSQL's initdb and pg_ctl are not on the PATH")
    folder = tmp_path_factory.mktemp("postgres")
    as_user: list[str] = []
    if os.geteuid() == 0:  # which the server refuses
        if not shutil.which("setpriv"):
            pytest.skip("root cannot run PostgreSQL and there is no setpriv to become another user")
        as_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        folder = Path("/tmp") / f"signloom-postgres-{os.getpid()}"  # which that user can enter
        folder.mkdir()
        os.chown(folder, 65534, 65534)

    def call(*command: str) -> None:
        subprocess.run(
            [*as_user, *command], check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=120
        )

    data = folder / "data"
    call("initdb", "-D", str(data), "-U", "signloom", "--auth=trust", "--no-sync")
    # Reached through a socket in its own folder: no port that could be taken.
    options = f"-c listen_addresses='' -k {folder} -F"
    call("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-o", options, "-w", "start")
    try:
        yield f"postgresql://signloom@/postgres?host={folder}"
    finally:
        call("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingFiles:
    """A project's folder with a tiny corpus."""
    monkeypatch.chdir(tmp_path)
    return tiny.write_project(tmp_path)


def prepare(files: TrainingFiles, **changes: object) -> Search:
    update_params(PARAMS, {"tune": changes})
    return open_search(read_search(PARAMS, files))


def start_worker() -> "subprocess.Popen[bytes]":
    code = "from signloom_tools.cli.main import main; main(['tune-worker'])"
    return subprocess.Popen([sys.executable, "-c", code])


def wait_for(search: Search, pid: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the process has reported an epoch of a trial."""
    end_s = time.monotonic() + 180
    while time.monotonic() < end_s:
        assert process.poll() is None
        for trial in search.study.get_trials(states=(RUNNING,)):
            if trial.user_attrs.get(OWNER, {}).get("pid") == pid and trial.intermediate_values:
                return
        time.sleep(0.02)
    raise AssertionError("the worker has not begun")


@pytest.mark.slow
def test_three_workers_on_postgresql_survive_a_kill(postgres: str, project: TrainingFiles) -> None:
    search = prepare(project, storage=postgres, trials=TRIALS, epochs=40, heartbeat_s=2)
    workers = [start_worker() for _ in range(3)]
    wait_for(search, workers[1].pid, workers[1])
    workers[1].send_signal(signal.SIGKILL)
    assert workers[1].wait() == -signal.SIGKILL
    assert [worker.wait(timeout=300) for worker in (workers[0], workers[2])] == [0, 0]

    trials = search.study.get_trials()
    ended = [trial for trial in trials if trial.state in FINISHED]
    assert sorted(trial.user_attrs[SLOT] for trial in ended) == list(range(TRIALS))
    killed = [
        t
        for t in trials
        if t.user_attrs.get(OWNER, {}).get("pid") == workers[1].pid and t.state == FAIL
    ]
    assert len(killed) == 1
    # What the killed trial had drawn was trained by another process.
    slot = killed[0].user_attrs[SLOT]
    (again,) = [trial for trial in ended if trial.user_attrs[SLOT] == slot]
    assert again.params == killed[0].params
    assert len({trial.user_attrs[OWNER]["pid"] for trial in ended}) >= 2
    drawn = [tuple(trial.params.values()) for trial in ended]
    assert len(set(drawn)) == TRIALS, "two processes drew the same"
    assert len(search.summary()["trials"]) == TRIALS
    search.close()


@pytest.mark.slow
def test_the_stage_replaces_a_worker_that_was_killed(project: TrainingFiles) -> None:
    search = prepare(project, trials=4, epochs=30, workers=2, heartbeat_s=2)
    killed: list[int] = []

    def kill_once(finished: int, epochs: int) -> None:
        for trial in search.study.get_trials(states=(RUNNING,)):
            if not killed and trial.intermediate_values:
                killed.append(trial.user_attrs[OWNER]["pid"])
                os.kill(killed[0], signal.SIGKILL)

    work_together(search, PARAMS, project, kill_once, workers=2)
    assert killed
    assert [trial["number"] for trial in search.summary()["trials"]] == [0, 1, 2, 3]


@pytest.mark.slow
def test_confirming_at_a_time_gives_what_one_after_another_gives(
    project: TrainingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    if count_cores() < 2:
        pytest.skip("one core, so one training at a time")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    summaries, owners = [], []
    for name in ("alone", "together"):
        changes = {"storage": f"sqlite:///{name}.db", "confirm": {"top": 1, "seeds": 2}}
        search = prepare(project, trials=2, epochs=6, **changes)
        if name == "alone":
            search.work()
        else:
            work_alone(search, project, lambda finished, epochs: None)
        confirmation = search.confirmation()
        assert confirmation
        trials = confirmation[0].get_trials(states=FINISHED)
        owners.append({trial.user_attrs[OWNER]["pid"] for trial in trials})
        summaries.append(search.summary())
        search.close()
    assert summaries[0] == summaries[1]
    assert owners[0] == {os.getpid()}
    assert os.getpid() not in owners[1]
