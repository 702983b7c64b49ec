"""A change of a corpus happens in its order and as a whole, and one of an older Signloom ends."""

import shutil
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.staging import FORGET, staging_folder
from signloom_ops.intake.withdraw import withdraw
from signloom_ops.transaction import open_transaction
from tests.intake import DAY, OPTIONS, deliver, plan, take, tree
from tests.power_cut import RENAMES, PowerCutError, cut_before


def test_videos_lie_there_before_the_manifest_names_them(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    moved = []
    with cut_before(None, only=("replace",), watch=lambda _, path: moved.append(path.name)):
        take(corpus, "in")
    names = ("a.mp4", "journal.json", "manifest.tsv", "deliveries.tsv")
    assert [name for name in moved if name in names][-4:] == [
        "journal.json", "a.mp4", "manifest.tsv", "deliveries.tsv",
    ]  # fmt: skip


def test_cut_before_any_rename_an_ingest_and_a_withdrawal_end_as_ever(
    corpus: CorpusOptions,
) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    plan(corpus, "in")  # the hashes are kept
    shutil.copytree("data", "empty")
    take(corpus, "in")
    full = tree(corpus.folder)
    shutil.copytree("data", "full")
    withdraw(corpus, DAY, "no")
    gone = tree(Path("data"))

    def cut_everywhere(start: str, act: object, expected: dict[str, bytes], folder: Path) -> int:
        assert callable(act)
        for number in range(100):
            shutil.rmtree("data")
            shutil.copytree(start, "data")
            with cut_before(number, only=RENAMES) as done:
                try:
                    act()
                except PowerCutError:
                    pass
                else:
                    return done[0]
            assert len(read_manifest(corpus.path)) in (5, 6)
            act()
            found = tree(folder)
            assert [name for name in expected if found.get(name) != expected[name]] == [], number
        raise AssertionError

    assert cut_everywhere("empty", lambda: take(corpus, "in"), full, corpus.folder) > 5
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    expected = {name: data for name, data in gone.items() if not name.startswith("cache/")}
    again = cut_everywhere("full", lambda: withdraw(corpus, DAY, "no"), expected, Path("data"))
    assert again > 4


def test_a_removal_of_a_person_is_finished_by_its_own_command(corpus: CorpusOptions) -> None:
    def fail(_note: object) -> None:
        raise RuntimeError

    with open_transaction(staging_folder(corpus)) as change:
        change.write(corpus.folder / "new.txt", "text")
        with pytest.raises(RuntimeError):
            change.commit({FORGET: {"signer": "zoë"}}, fail)
    with pytest.raises(UserError, match="the same `signloom forget` again") as caught:
        take(corpus, "in")
    assert "zoë" not in str(caught.value)
    assert (corpus.folder / "new.txt").is_file()
