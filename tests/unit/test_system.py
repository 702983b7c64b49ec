"""What differs between systems, as far as it can be seen on this one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from signloom import system


def test_memory_and_cores_are_those_that_the_system_says() -> None:
    assert system.peak_memory_bytes() >= psutil.Process().memory_info().rss * 0.9
    assert system.usable_cores() == sorted(psutil.Process().cpu_affinity())


def test_without_affinity_all_cores_are_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    assert system.usable_cores() == list(range(os.cpu_count() or 1))


@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals to ignore")
@pytest.mark.parametrize("is_ignored", [False, True])  # as of what scripts start behind them
def test_an_interrupted_process_may_end_as_by_ctrl_c(is_ignored: bool) -> None:
    code = """
try:
    import signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    how = signal.SIG_IGN if is_ignored else signal.default_int_handler
    before = signal.signal(signal.SIGINT, how)
    try:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        system.interrupt(psutil.Process(process.pid))
        assert process.wait(timeout=10) == 7


def test_without_links_windows_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "film.mp4").write_text("film")

    def refuse(*_: object) -> None:
        raise OSError(1314, "a required privilege is not held by the client")

    system.link_file(tmp_path / "link.mp4", tmp_path / "film.mp4")
    assert (tmp_path / "link.mp4").is_symlink()
    monkeypatch.setattr(Path, "symlink_to", refuse)
    with pytest.raises(OSError, match="privilege"):
        system.link_file(tmp_path / "other.mp4", tmp_path / "film.mp4")
    monkeypatch.setattr(sys, "platform", "win32")
    system.link_file(tmp_path / "copy.mp4", tmp_path / "film.mp4")
    assert (tmp_path / "copy.mp4").read_text() == "film"
