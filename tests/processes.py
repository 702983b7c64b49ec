"""Processes: forks of the test process, and stages that run by themselves until they are killed."""

import ctypes
import os
import resource
import socket
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path


def fork(action: Callable[[], None]) -> int:
    """Start an action in a child process; return its number."""
    if pid := os.fork():
        return pid
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait(pid: int) -> int:
    """Return the exit code of a child, or less than 0: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


_DROP, _OVERRIDES = 24, (1, 2, 3)  # of capabilities: to read and write what others may not


def run_python(
    *arguments: str | bytes,
    cwd: Path | None = None,
    is_weak: bool = False,
    max_file_bytes: int | None = None,
    **more: str,
) -> "subprocess.CompletedProcess[str]":
    """Run a Python of its own, with a limit of each file; if weak, rights bind it, root or not."""

    def prepare() -> None:
        if max_file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
        if is_weak and os.getuid() == 0:
            for right in _OVERRIDES:
                ctypes.CDLL(None).prctl(_DROP, right, 0, 0, 0)

    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=prepare,
    )


def call(*command: str, cwd: Path | None = None, **more: str) -> str:
    """Run git, or a program of this environment such as DVC, and return what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names = {
        f"GIT_{who}_{variable}": "t@t"
        for who in ("AUTHOR", "COMMITTER")
        for variable in ("NAME", "EMAIL")
    }
    quiet = {"DVC_NO_ANALYTICS": "1", "OMP_NUM_THREADS": "1", "PATH": path}
    bare = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW")}
    process = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**bare, **names, **quiet, **more}
    )
    assert process.returncode == 0, f"{command}: {process.stdout[-2000:]}{process.stderr[-2000:]}"
    return process.stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for_answer(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server, which was just started, answers."""
    deadline = time.monotonic() + 3 * WAIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:  # that of urllib among them
            output = log.read_text()[-3000:]
            assert process.poll() is None, output
            assert time.monotonic() < deadline, output
            time.sleep(0.3)


def fork_together(action: Callable[[], None], count: int) -> list[int]:
    """Start as many processes as `torchrun --nproc-per-node` would, with its environment."""
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": 0,
        "TORCHELASTIC_RUN_ID": "test",
    }

    def of_rank(rank: int) -> Callable[[], None]:
        def start() -> None:
            names = {**common, "RANK": rank, "LOCAL_RANK": rank}
            os.environ.update({name: str(value) for name, value in names.items()})
            action()

        return start

    return [fork(of_rank(rank)) for rank in range(count)]


WAIT_S = 120.0  # more than any step takes on a busy machine


class Stage:
    """The stage, running in a session of its own.

    Args:
        project: Where it runs.
        workers: Its processes.
        max_file_bytes: No file may grow beyond.
        more: Environment variables.
    """

    def __init__(
        self, project: Path, workers: int = 2, max_file_bytes: int | None = None, **more: str
    ) -> None:
        def prepare() -> None:
            if max_file_bytes:
                resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))

        self._errors = project / "errors.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.extract"],
                cwd=project,
                env={**os.environ, "SIGNLOOM_WORKERS": str(workers), "SIGNLOOM_CACHE": "", **more},
                stderr=errors,
                start_new_session=True,
                preexec_fn=prepare,
            )
        self.pid = self._process.pid

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait(self) -> int:
        return self._process.wait(5 * WAIT_S)

    def kill(self) -> None:
        """kill -9 the stage alone; its workers must end by themselves."""
        workers = self.workers()
        self._process.kill()
        self._process.wait()
        wait_until(lambda: not any(is_alive(pid) for pid in workers))

    def ended(self) -> bool:
        return self._process.poll() is not None

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def workers(self) -> list[int]:
        """Processes below this one that look at videos."""
        parents = {pid: stat[0] for pid in all_pids() if (stat := read_stat(pid))}
        return [pid for pid in parents if self._is_below(pid, parents) and is_worker(pid)]

    def _is_below(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents and pid != self.pid:
            pid = parents[pid]
        return pid == self.pid


def all_pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def read_stat(pid: int) -> tuple[int, float] | None:
    """Parent and seconds of CPU time; None if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return None if fields[0] == "Z" else (int(fields[1]), seconds)


def cpu_s(pid: int) -> float:
    return (read_stat(pid) or (0, 0.0))[1]


def is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"spawn_main" in command or command.startswith(b"ray::_do_within")


def is_alive(pid: int) -> bool:
    return read_stat(pid) is not None


def is_inferring(pid: int) -> bool:
    """Whether LiteRT's or MediaPipe's libraries are loaded: a worker has its first clip."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        return any(name in maps for name in ("_pywrap_litert_interpreter", "_framework_bindings"))
    except OSError:
        return False


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
