"""Files change as a whole, wherever the power is cut."""

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom_ops import transaction
from signloom_ops.transaction import Transaction, open_transaction
from tests.intake import tree
from tests.power_cut import stop_everywhere

STAGING = Path(".staging")
ODD = os.fsdecode(b"caf\xe9.mp4")  # a name that is no UTF-8


@pytest.fixture
def restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Puts the files that change into a folder of their own."""
    project = tmp_path / "project"

    def start() -> None:
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(project, ignore_errors=True)
        (project / "there/old").mkdir(parents=True)
        for name in ("table", "video", "withdrawn", "old/1", "old/2", ODD):
            (project / "there" / name).write_text(f"{name} as it was", errors="replace")
        (project / "there/link").symlink_to("../there/video")
        monkeypatch.chdir(project)

    start()
    return start


def change(then: Callable[[dict[str, object]], str] = lambda note: str(note["word"])) -> str:
    there = Path("there")
    with open_transaction(STAGING) as made:
        made.recover(then)
        made.write(there / "new/video", b"new")
        made.write(there / "table", "naming the new")
        made.move(there / "withdrawn", Path("away/withdrawn"))
        made.move(there / "link", Path("away/link"))
        made.remove(there / "video")
        made.remove(there / "old")
        made.remove(there / ODD)
        return made.commit({"word": "done"}, then, unless_changed=there / "table")


def recover() -> str | None:
    with open_transaction(STAGING) as made:
        return made.recover(lambda note: str(note["word"]))


def state() -> dict[str, bytes]:
    return {name: data for name, data in tree(Path()).items() if not name.startswith(".staging")}


def test_whatever_is_cut_the_files_are_as_before_or_as_wanted(restore: Callable[[], None]) -> None:
    before = state()
    assert change() == "done"
    after = state()
    assert after == {
        "there/new/video": b"new", "there/table": b"naming the new",
        "away/withdrawn": b"withdrawn as it was", "away/link": b"video as it was",
    }  # fmt: skip
    restore()
    seen = []
    for _ in stop_everywhere(change, restore):
        is_committed = (STAGING / "journal.json").is_file()
        assert recover() == ("done" if is_committed else None)
        seen.append(state() == after)
        assert state() == (after if is_committed or seen[-1] else before)
        assert [path.name for path in STAGING.iterdir()] == ["lock"]
    assert len(seen) > 20
    assert seen == sorted(seen)  # first the old state, and from some operation on the new one
    assert set(seen) == {False, True}


def test_a_recovery_may_be_cut_as_well(restore: Callable[[], None]) -> None:
    change()
    after = state()

    def cut_once() -> None:
        restore()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Transaction, "recover", fail_once_committed)
            with pytest.raises(RuntimeError):
                change()

    def fail_once_committed(made: Transaction, _then: object) -> None:
        if made.journal.is_file():
            raise RuntimeError

    cut_once()
    for _ in stop_everywhere(recover, cut_once):
        recover()
        assert state() == after


def test_a_file_edited_after_the_cut_undoes_what_was_left(
    restore: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in stop_everywhere(change, restore):
        if Path("there/new/video").exists() and (STAGING / "staged/new/1/table").exists():
            break
    Path("there/table").write_text("by hand")
    assert recover() is None
    assert "was edited after a change was interrupted" in caplog.text
    assert not Path("there/new/video").exists()
    assert Path("there/table").read_text() == "by hand"
    assert Path("there/old/1").is_file()
    assert change() == "done"


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 3}', '{"format_version": 2}'])
def test_a_journal_that_is_damaged_or_of_another_version_is_refused_in_words(
    restore: Callable[[], None], text: str
) -> None:
    STAGING.mkdir()
    (STAGING / "journal.json").write_text(text)
    with pytest.raises(UserError, match=r"journal\.json(.|\n)*the Signloom that began it"):
        recover()


def test_who_holds_the_lock_is_said_and_waited_for(
    restore: Callable[[], None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    STAGING.mkdir()
    with (STAGING / "lock").open("w") as held:
        who = {"pid": 7, "host": "elsewhere", "since": "noon", "command": "signloom ingest"}
        held.write(json.dumps(who))
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        letting_go = threading.Timer(0.5, fcntl.flock, (held, fcntl.LOCK_UN))
        letting_go.start()
        assert change() == "done"
        letting_go.join()
        assert "waiting for `signloom ingest`, process 7 on elsewhere, started noon" in caplog.text
        fcntl.flock(held, fcntl.LOCK_EX)
        held.seek(0)
        held.write(json.dumps(who))
        held.flush()
        monkeypatch.setattr(transaction, "_WAIT_S", 0.3)
        with pytest.raises(UserError, match=r"at work: `signloom ingest`, .* wait until it ends"):
            change()
