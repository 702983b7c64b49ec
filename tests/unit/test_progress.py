"""Bars are for terminals; a file of messages gets a line now and then."""

import itertools
import time

import pytest
from tqdm import tqdm

from signloom.progress import progress_file


def test_a_file_of_messages_gets_a_line_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count(step=7.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    with tqdm(total=30, desc="reading", mininterval=0.0, miniters=1, file=progress_file()) as bar:
        for _ in range(30):
            bar.update()
    output = capsys.readouterr().err
    assert "\r" not in output
    lines = output.splitlines()
    assert 2 <= len(lines) <= 5  # some thirty states of seven seconds each
    assert all(line.startswith("reading: ") for line in lines)


def test_what_takes_less_leaves_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tqdm(range(100), file=progress_file())) == list(range(100))
    assert capsys.readouterr().err == ""
