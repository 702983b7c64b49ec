"""A project with something of everything, and files that no command made."""

from pathlib import Path

import pytest

from signloom.corpus.manifest import Clip, write_manifest
from tests.tiny import ROOT, sequence, write_checkpoint, write_clips


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a corpus of text, shards, a model, and a file that nobody made here."""
    monkeypatch.chdir(tmp_path)
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(params.replace("data/demo/corpus", "named"))
    clip = Clip(clip_id="a", video=None, text="oui", signer="anna", split="train", gloss="OUI")
    for name, manifest in (("corpus", "manifest.tsv"), ("named", "clips.csv")):
        (tmp_path / name).mkdir()
        write_manifest(tmp_path / name / manifest, [clip])
    (tmp_path / "link").symlink_to("corpus")
    write_clips(tmp_path / "shards", {"a": sequence(0), "b": sequence(1)})
    write_checkpoint(tmp_path / "model")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/a.pose").write_text("mine")
    (tmp_path / "mine/meta.json").write_text("{}")
    (tmp_path / "mine/notes.json").write_text('{"exact": 1}')
    (tmp_path / "mine/rejects.tsv").write_text("mine\n")
    return tmp_path
