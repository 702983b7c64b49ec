"""Changes that an older Signloom (b4546c9) began end today, however far it came.

Journals are as it wrote them; those of a person's removal are in test_forget.py, of tracked runs in
test_tracking.py.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from signloom.corpus.manifest import CorpusOptions
from signloom.files import hash_file
from signloom_ops.app.takes import TakeStore
from signloom_ops.intake.staging import is_unfinished, recover_corpus
from signloom_ops.nightly.night import run_night
from signloom_ops.nightly.plan import NightRequest
from signloom_ops.nightly.store import ModelStore
from tests.intake import tree
from tests.unit.ops.nightly.night_project import PARAMS, keep_decided, make_project

CORPUS = CorpusOptions(
    folder=Path("data/raw/weekly"), manifest="manifest.tsv", signer_disjoint=True
)
INTAKE = Path("data/raw/.weekly.intake")
MANIFEST = ("staged/new/0/manifest.tsv", "../weekly/manifest.tsv")


def end_corpus() -> None:
    assert is_unfinished(CORPUS)
    recover_corpus(CORPUS)
    assert not is_unfinished(CORPUS)


class Begun(NamedTuple):
    """A journal: the staging folder, what is done of it by hand, and its operations."""

    folder: Path
    end: Callable[[], None]
    guarded: str | None
    operations: tuple[tuple[str, str | None], ...]
    batch: str = ""


IN_CORPUS = (INTAKE, end_corpus, "../weekly/manifest.tsv")
JOURNALS = {
    "a delivery": Begun(*IN_CORPUS, (
        ("staged/80893960", "../weekly/videos/2026-11-21/z1.mp4"), MANIFEST,
        ("staged/new/2/deliveries.tsv", "../weekly/deliveries.tsv"),
    ), "2026-11-21"),
    "a withdrawal": Begun(*IN_CORPUS, (
        MANIFEST, ("staged/new/1/deliveries.tsv", "../weekly/deliveries.tsv"),
        ("staged/new/2/withdrawn.tsv", "../weekly/withdrawn.tsv"),
        ("../weekly/videos/z1.mp4", "../../withdrawn/2026-11-21/videos/z1.mp4"),
        ("../weekly/videos/z2.mp4", "../../withdrawn/2026-11-21/videos/z2.mp4"),
    )),
    "an ended consent": Begun(*IN_CORPUS, (
        MANIFEST, ("staged/new/1/withdrawn.tsv", "../weekly/withdrawn.tsv"),
        ("../weekly/videos/z1.mp4", "../../withdrawn/consent-ended-2026-11-24/videos/z1.mp4"),
    )),
    "videos that are dropped": Begun(*IN_CORPUS, (
        ("staged/corpus/landmarks/shards/0.parquet", "../weekly/landmarks/shards/0.parquet"),
        ("staged/corpus/landmarks/rejects.tsv", "../weekly/landmarks/rejects.tsv"),
        ("staged/corpus/manifest.tsv", "../weekly/manifest.tsv"),
        ("../weekly/videos/0.mp4", None), ("../weekly/videos/1.mp4", None),
    )),
}  # fmt: skip
CUTS = [(name, done) for name, one in JOURNALS.items() for done in range(len(one.operations) + 1)]


def begin(begun: Begun) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Write what a process leaves that is killed before its first move; what was, what comes."""
    home = begun.folder
    home.mkdir(parents=True)
    (home / "lock").write_text("process 12 on host: signloom retrain")
    if begun.guarded:
        (home / begun.guarded).parent.mkdir(parents=True)
        (home / begun.guarded).write_text("as it was")
    for source, _ in begun.operations:
        (home / source).parent.mkdir(parents=True, exist_ok=True)
        (home / source).write_text(source)
    before = files()
    guarded = begun.guarded and [begun.guarded, hash_file(home / begun.guarded)]
    content = {"format_version": 2, "note": {"batch": begun.batch}, "unless_changed": guarded,
               "operations": begun.operations}  # fmt: skip
    (home / "journal.json").write_text(json.dumps(content, indent=1))
    paths = {(home / s).resolve(): t and (home / t).resolve() for s, t in begun.operations}
    gone = {path.relative_to(Path.cwd()).as_posix() for path in paths}
    after = {name: content for name, content in before.items() if name not in gone}
    new = {target.relative_to(Path.cwd()).as_posix(): source.read_bytes()
           for source, target in paths.items() if target}  # fmt: skip
    return before, after | new


def files() -> dict[str, bytes]:
    return {name: data for name, data in tree(Path()).items() if not name.endswith("/lock")}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "done"), CUTS)
def test_what_the_version_before_began_is_ended(name: str, done: int) -> None:
    begun = JOURNALS[name]
    _, after = begin(begun)
    for source, target in begun.operations[:done]:
        if target is None:
            (begun.folder / source).unlink()
        else:
            (begun.folder / target).parent.mkdir(parents=True, exist_ok=True)
            (begun.folder / source).replace(begun.folder / target)
    begun.end()
    assert files() == after


@pytest.mark.parametrize("name", [name for name, one in JOURNALS.items() if one.guarded])
def test_what_the_version_before_began_is_undone_where_somebody_edited(name: str) -> None:
    begun = JOURNALS[name]
    before, _ = begin(begun)
    assert begun.guarded
    guarded = begun.folder / begun.guarded
    guarded.write_text("edited")
    begun.end()
    kept = {file: data for file, data in before.items() if "/staged/" not in file}
    assert files() == {**kept, guarded.resolve().relative_to(Path.cwd()).as_posix(): b"edited"}


def test_a_night_leaves_what_another_command_began_undone() -> None:
    settings, film = make_project(), Path("data/raw/weekly/videos/old.mp4")
    keep_decided(settings, ModelStore(), promote=True)
    film.write_bytes(b"withdrawn")
    INTAKE.mkdir()
    move = ["../weekly/videos/old.mp4", "../../withdrawn/old.mp4"]
    content = {"note": {"batch": ""}, "unless_changed": None, "operations": [move]}
    (INTAKE / "journal.json").write_text(json.dumps({"format_version": 2, **content}))
    night = run_night(NightRequest(params=PARAMS, start=None, pull=True, force=False))
    assert [step["name"] for step in night["steps"]] == ["finish_change", "plan"]
    assert Path("data/withdrawn/old.mp4").read_bytes() == b"withdrawn"
    assert not is_unfinished(settings.corpus)


def test_a_delivery_of_the_app_that_the_version_before_began_arrives_once() -> None:
    store, inbox = TakeStore(Path("data/app")), Path("data/inbox")
    take = {"id": "0123456789abcdef", "text": "une phrase", "signer": "zoe", "made": "2026-11-20",
            "suffix": ".mp4", "state": "whole", "delivery": "app-2026-11-20-5c1c4e"}  # fmt: skip
    folder = Path("data/app/takes") / take["id"]
    for place, name in ((folder, "film.mp4"), (inbox / take["delivery"], "0123456789abcdef.mp4")):
        place.mkdir(parents=True)
        (place / name).write_bytes(b"film")
    (folder / "take.json").write_text(json.dumps(take))
    store.settle(inbox)
    assert [one.state for one in store.list_takes()] == ["delivered"]
    assert store.deliver(inbox).folder is None
