"""A change of a corpus happens in its order, and one at a time."""

import fcntl
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.intake import staging as workshop
from signloom.intake.staging import workshop_of
from tests.intake import DAY, deliver, take


def steps_of(corpus: CorpusOptions, sources: Sequence[str]) -> list[str]:
    found: list[str] = []
    take(corpus, *sources, watch=found.append)
    return found


def test_videos_lie_there_before_the_manifest_names_them(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    assert steps_of(corpus, ["in"]) == [
        "staged a.mp4", "journal", "moved a.mp4", "moved manifest.tsv", "moved deliveries.tsv",
        "done",
    ]  # fmt: skip


def test_who_holds_the_lock_is_said_and_waited_for(
    corpus: CorpusOptions, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = workshop_of(corpus)
    shop.folder.mkdir()
    with (shop.folder / "lock").open("w") as held:
        held.write("process 7 on elsewhere: signloom ingest")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        deliver(Path("in/ada"), "a", frames=20)
        letting_go = threading.Timer(0.5, fcntl.flock, (held, fcntl.LOCK_UN))
        letting_go.start()
        assert take(corpus, "in").batch == DAY
        letting_go.join()
        assert "waiting for process 7 on elsewhere" in caplog.text
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(workshop, "_PATIENCE_S", 0.3)
        with pytest.raises(UserError, match=r"is held by process .* wait until it ends"):
            take(corpus, "in")
