"""The project of the tests of removal."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from signloom.features.targets import Target, write_targets
from signloom_ops.nightly.card import write_card
from tests.extraction import OPTIONS as EXTRACT
from tests.unit.ops.nightly.versions import add_evaluated_version
from tests.unit.ops.privacy.forget_project import CLIPS, write_landmarks


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the stages and two nights leave; the second night started from the first's weights."""
    root = tmp_path_factory.mktemp("forget")
    extract = {**asdict(EXTRACT), "groups": list(EXTRACT.groups)}
    corpus = {"folder": "data/raw/weekly", "manifest": "manifest.tsv", "signer_disjoint": True}
    tracking = {"enabled": False, "experiment": "weekly"}
    sections = {"corpus": corpus, "extract": extract, "tracking": tracking}
    (root / "params.yaml").write_text(json.dumps(sections))
    targets = [
        Target(
            clip_id=clip_id,
            split=split,
            signer=signer,
            text=f"phrase {number}",
            ids=[0],
            gloss="",
            labels=[],
        )
        for number, (clip_id, signer, split, *_) in enumerate(CLIPS)
    ]
    write_targets(root / "data/tokens/targets.parquet", targets)
    write_landmarks(root / "data/landmarks/shards", [target.clip_id for target in targets])
    add_evaluated_version(root, targets, models="data/models")
    remaining = [target for target in targets if target.signer != "zoë"]
    store = add_evaluated_version(root, remaining, models="data/models", parent=1)
    store.apply_decision(
        {
            "version": 1,
            "champion": None,
            "promote": True,
            "reasons": [],
            "verdict": "the best",
            "test": [target.clip_id for target in targets if target.split == "test"],
            "slices": [{"kind": "signer", "group": "zoë"}, {"kind": "signer", "group": "eve"}],
        },
        by=None,
    )
    store.promote(1, by="test")
    for version in store.versions():
        write_card(store.folder(version), root / "data/raw/weekly")
    return root


@pytest.fixture
def project(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(shutil.copytree(template, tmp_path / "project"))
    monkeypatch.chdir(root)
    monkeypatch.setenv("SIGNLOOM_CACHE", str(root / "cache"))
    return root
