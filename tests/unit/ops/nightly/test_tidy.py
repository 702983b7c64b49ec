"""What goes when a project is tidied, and what stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.extraction.cache import LandmarkCache
from signloom_ops.nightly.store import ModelStore
from signloom_ops.nightly.tidy import old_versions
from signloom_tools.cli.main import main
from tests.power_cut import PowerCutError, cut_before

DAY_S = 86_400


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """Six versions: 1 and 3 were champions, 5 is, 2 and 4 were refused, 6 waits for the gate."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNLOOM_CACHE", str(tmp_path / "cache"))
    Path("params.yaml").write_text("")
    store = ModelStore()
    for number in range(1, 7):
        store.add(*make_run(number), {})
        if number < 6:
            store.apply_decision(
                {"version": number, "champion": store.champion(), "promote": number % 2 == 1,
                 "verdict": "", "reasons": [], "test": ["a"]}, by="test",
            )  # fmt: skip
        (store.folder(number) / "translations").mkdir()
        (store.folder(number) / "translations/a.json").write_text("{}")
    return store


def make_run(number: int) -> tuple[Path, Path]:
    checkpoint, evaluation = Path(f"made/{number}/checkpoint"), Path(f"made/{number}/evaluation")
    for folder in (checkpoint, checkpoint / "seeds/2", evaluation):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(f"weights {number}" * 100)
    (checkpoint / "checkpoint.json").write_text("{}")
    return checkpoint, evaluation


def test_champions_what_waits_and_the_newest_keep_their_weights(store: ModelStore) -> None:
    assert old_versions(store, keep=0) == [2, 4]
    assert old_versions(store, keep=3) == [2]
    assert old_versions(store, keep=9) == []
    assert store.rollback(by="test") == 3
    assert old_versions(store, keep=0) == [2, 4, 5]  # no rollback leads to 5 any more


def test_nothing_goes_before_it_is_asked_for(
    store: ModelStore, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = LandmarkCache(Path("cache"))
    for key, days in (("aa1", 100), ("aa2", 1)):
        cache.store(key, b"entry")
        at = Path("cache/aa", f"{key}.clip")
        os.utime(at, (at.stat().st_mtime - days * DAY_S,) * 2)
    before = sorted(Path().rglob("*"))
    main(["tidy", "--keep", "0"])
    said = capsys.readouterr().out
    assert "weights of versions 2, 4; decisions and scores stay" in said
    assert "1 clips that no run used for 90 days" in said
    assert sorted(Path().rglob("*")) == before
    main(["tidy", "--keep", "0", "--yes"])
    assert "nothing was removed" not in capsys.readouterr().out
    assert [path.name for path in Path("cache").rglob("*.clip")] == ["aa2.clip"]
    left = {path for path in before if path.exists()}
    assert {path.relative_to(store.root).as_posix() for path in set(before) - left
            if store.root in path.parents} == {
        f"000{number}/{name}" for number in (2, 4)
        for name in (
            "translations", "translations/a.json", "checkpoint/model.safetensors",
            "checkpoint/seeds", "checkpoint/seeds/2", "checkpoint/seeds/2/model.safetensors",
        )
    }  # fmt: skip
    assert store.decision(2) is not None
    with pytest.raises(SystemExit, match="2"):  # argparse says what it expected
        main(["tidy", "--keep", "-1"])


def test_wherever_the_power_goes_all_or_none_of_the_weights_are_gone(store: ModelStore) -> None:
    number, seen = 0, set()
    while True:
        with cut_before(number) as operations:
            try:
                store.drop_weights([2, 4])
                is_done = True
            except PowerCutError:
                is_done = False
        store.recover()
        assert store.champion() == 5
        gone = [version for version in (1, 2, 3, 4, 5, 6) if not store.heavy(version)]
        assert gone in ([], [2, 4])
        seen.add(len(gone))
        if is_done or gone:
            break
        number += 1
    assert number > 0
    assert operations
    # The same weights trained again come back under their number.
    assert store.add(Path("made/4/checkpoint"), Path("made/4/evaluation"), {}) == 4
    store.promote(4, by="test")  # their hash is right


@pytest.mark.slow  # it asks DVC; the quick tests above are its twins
def test_what_a_branch_or_a_tag_names_stays_in_dvcs_cache(
    store: ModelStore, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    dvc = (sys.executable, "-m", "dvc")
    run("git", "init", "-q", ".")
    run(*dvc, "init", "-q")
    objects = Path(".dvc/cache/files/md5")
    for text in ("tagged", "lost", "now"):
        Path("data/file").write_text(text)
        run(*dvc, "add", "data/file")
        if text == "tagged":
            run("git", "add", "data/file.dvc")
            run(*git, "commit", "-q", "-m", "a")
            run("git", "tag", "v1")
    main(["tidy", "--yes"])
    assert "1 files of no branch, tag, experiment" in capsys.readouterr().out
    kept = {path.read_text() for path in objects.rglob("*") if path.is_file()}
    assert kept == {"tagged", "now"}
    main(["tidy"])
    assert "0 files of no branch" in capsys.readouterr().out
    Path("data/file").write_text("later")
    run(*dvc, "add", "data/file")
    Path(".dvc/cache/shared_with.txt").write_text("/corpora/weather\n")
    main(["tidy", "--yes"])  # "now" may be a version of that project's corpus
    assert "other projects may use it, too" in capsys.readouterr().out
    Path(".dvc/cache/shared_with.txt").unlink()
    Path(".dvc/cache/shared_with.txt").mkdir()  # a damaged register is one, too
    main(["tidy", "--yes"])
    kept = {path.read_text() for path in objects.rglob("*") if path.is_file()}
    assert kept == {"tagged", "now", "later"}
