"""`signloom drift` by hand: which clips are new, what is printed, how it ends."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from signloom.corpus.manifest import IMPORTED_SHARDS, Clip, write_manifest
from signloom.errors import UserError
from signloom.features.augment import mirror
from signloom_ops.cli.corpus import choose_batch
from signloom_ops.lock import hold_lock
from signloom_tools.cli.main import main
from signloom_tools.params_file import update_params
from tests.tiny import ROOT
from tests.unit.ops.intake.drift.world import Taken, old_clips, take, write_landmarks


def delivered(recordings: list[Taken], batch: str) -> list[Taken]:
    return [
        dataclasses.replace(recording, clip=dataclasses.replace(recording.clip, batch=batch))
        for recording in recordings
    ]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a good delivery and, after it, one of mirrored videos."""
    root = tmp_path_factory.mktemp("project")
    recordings = [
        *old_clips(),
        *delivered(take("anna", 8, first=16, change=mirror), "b-second"),
        *delivered(take("bela", 8, first=8), "a-first"),
    ]
    (root / "corpus" / IMPORTED_SHARDS).mkdir(parents=True)
    write_manifest(root / "corpus" / "manifest.tsv", [recording.clip for recording in recordings])
    (root / "corpus" / "deliveries.tsv").write_text(
        "batch\tday\tclips\trejects\tsource\tstate\treason\n"
        "a-first\t2026-11-01\t8\t0\tinbox/a\tin\t\n"
        "b-second\t2026-11-02\t8\t0\tinbox/b\tin\t\n",
        encoding="utf-8",
    )
    write_landmarks(root / "data" / "landmarks", recordings)
    shutil.copy(ROOT / "params.yaml", root)
    update_params(root / "params.yaml", {"corpus": {"folder": "corpus"}})
    return root


def test_the_newest_delivery_is_checked_and_a_stop_is_an_exit_code(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(SystemExit) as end:
        main(["drift"])
    assert end.value.code == 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("batch b-second: 8 new clips, 40 old ones; of ")
    assert lines[1].startswith("STOP mirrored")
    assert "warns at 3, stops at 5; " in lines[2]
    assert all(line.startswith("ok  ") for line in lines[3:])
    main(["drift", "a-first", "--json"])  # against what was there before it
    report = json.loads(capsys.readouterr().out)
    assert (report["batch"], report["new"], report["old"], report["level"]) == (
        "a-first",
        8,
        32,
        "ok",
    )


def test_a_corpus_of_text_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = Clip(clip_id="a", video=None, text="oui", signer="anna", split="train", gloss="OUI")
    (tmp_path / "corpus").mkdir()
    write_manifest(tmp_path / "corpus" / "manifest.tsv", [clip])
    shutil.copy(project / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="has glosses and no signing"):
        main(["drift"])


def test_unknown_and_missing_deliveries_are_named() -> None:
    clip = Clip(clip_id="a", video=None, text="oui", signer="anna", split="train")
    with pytest.raises(UserError, match="no clip came in a delivery"):
        choose_batch([clip], [], None)
    later = dataclasses.replace(clip, batch="x")
    with pytest.raises(UserError, match=r"no clip is of the batch 'y'; there are x"):
        choose_batch([clip, later], [], "y")
    assert choose_batch([later, clip], [], None) == ("x", [later, clip])


@pytest.mark.parametrize(
    "arguments", [["ingest", "in"], ["withdraw", "a-first", "--reason", "blurred"]]
)
def test_the_corpus_does_not_change_while_a_night_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(project)
    before = (project / "corpus/manifest.tsv").read_bytes()
    with hold_lock(), pytest.raises(SystemExit, match=r"at work: `.*`, process \d"):
        main(arguments)
    assert (project / "corpus/manifest.tsv").read_bytes() == before
