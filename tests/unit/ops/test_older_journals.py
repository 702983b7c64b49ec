"""Changes that an older Signloom (b4546c9) began end today; those of `forget`: test_forget.py."""

import json
from pathlib import Path
from typing import Any

from signloom.corpus.manifest import read_manifest
from signloom.files import hash_file
from signloom_ops.intake.staging import change_corpus, is_unfinished, staging_folder
from signloom_ops.nightly.store import ModelStore
from tests.intake import found_corpus


def write_journal(folder: Path, staged: dict[str, str], **content: Any) -> None:
    """Write what a process leaves that is killed before the first move."""
    for name, text in staged.items():
        path = folder / "staged/new" / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    (folder / "lock").write_text("process 12 on host: signloom ingest data/inbox")
    (folder / "journal.json").write_text(json.dumps({"format_version": 2, **content}, indent=1))


def test_a_delivery_that_the_version_before_began_comes_in(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    corpus = found_corpus(tmp_path)
    folder, home = corpus.folder.resolve(), f"../{corpus.folder.name}"
    before = (folder / "manifest.tsv").read_text(encoding="utf-8")
    inbox = folder.parent / "inbox/ada"
    inbox.mkdir(parents=True)
    (inbox / "a.mp4").write_bytes(b"film")
    row = before.rstrip("\n").split("\n")[-1].split("\t")
    more = before + "\t".join(["a", *row[1:]]) + "\n"
    write_journal(
        staging_folder(corpus),
        {"1/manifest.tsv": more, "2/deliveries.tsv": "rows\n"},
        note={"batch": "2026-11-20"},
        unless_changed=[f"{home}/manifest.tsv", hash_file(folder / "manifest.tsv")],
        operations=[
            ["../inbox/ada/a.mp4", f"{home}/videos/a.mp4"],
            ["staged/new/1/manifest.tsv", f"{home}/manifest.tsv"],
            ["staged/new/2/deliveries.tsv", f"{home}/deliveries.tsv"],
            ["../inbox/ada", None],
        ],
    )
    assert is_unfinished(corpus)
    with change_corpus(corpus) as (_, finished):
        assert finished is not None
        assert finished.batch == "2026-11-20"
    assert not is_unfinished(corpus)
    assert not inbox.exists()
    assert (folder / "videos/a.mp4").read_bytes() == b"film"
    assert (folder / "deliveries.tsv").read_text() == "rows\n"
    assert "a" in {clip.clip_id for clip in read_manifest(corpus.path)}


def test_a_promotion_that_the_version_before_began_is_done(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    for version in ("0001", "0002"):
        (store.root / version / "checkpoint").mkdir(parents=True)
    first = {"version": 1, "action": "promote", "former": None, "by": "night",
             "time": "2026-11-19T02:00:00+00:00"}  # fmt: skip
    pointer = {"format_version": 1, "champion": 1, "challenger": 2, "history": [first]}
    (store.root / "champion.json").write_text(json.dumps(pointer))
    second = {**first, "version": 2, "former": 1}
    moved = {**pointer, "champion": 2, "challenger": None, "history": [first, second]}
    write_journal(
        tmp_path / ".models.change",
        {"0/decision.json": "{}", "1/champion.json": json.dumps(moved)},
        note={},
        unless_changed=["../models/champion.json", hash_file(store.root / "champion.json")],
        operations=[
            ["staged/new/0/decision.json", "../models/0002/decision.json"],
            ["staged/new/1/champion.json", "../models/champion.json"],
        ],
    )
    assert store.has_unfinished_change()
    store.recover()
    assert not store.has_unfinished_change()
    assert store.champion() == 2
