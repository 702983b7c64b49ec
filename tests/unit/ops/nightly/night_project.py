"""A project in which nights run: a small corpus, parameters, versions that are tiny files."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from signloom.corpus.manifest import read_manifest
from signloom_ops.nightly.plan import Settings, corpus_key, read_settings
from signloom_ops.nightly.store import ModelStore
from tests.intake import OPTIONS, found_corpus
from tests.power_cut import PowerCutError, cut_before
from tests.tiny import ROOT

PARAMS = Path("params.yaml")
# Limits that the little videos of the tests keep.
INGEST = {**dataclasses.asdict(OPTIONS), "shares": list(OPTIONS.shares)}


def make_project(**ops: Any) -> Settings:
    """Write parameters and a corpus into the working folder; keywords are those of ops.yaml."""
    params = yaml.safe_load((ROOT / "pipeline/smoke/params.yaml").read_text(encoding="utf-8"))
    params["corpus"]["folder"] = "data/raw/weekly"
    params["tracking"]["enabled"] = False
    PARAMS.write_text(yaml.safe_dump(params), encoding="utf-8")
    options = yaml.safe_load((ROOT / "pipeline/smoke/ops.yaml").read_text(encoding="utf-8"))
    Path("ops.yaml").write_text(yaml.safe_dump({**options, "ingest": INGEST, **ops}))
    found_corpus(Path())
    return read_settings(PARAMS)


def keep_decided(settings: Settings, store: ModelStore, *, promote: bool) -> int:
    """Add a version that saw the corpus as it is, and a decision about it."""
    version = keep_undecided(settings, store)
    store.apply_decision(decision_about(store, version, promote=promote), by="test")
    return version


def cut_before_the_pointer(store: ModelStore, decision: dict[str, Any]) -> None:
    """Apply a decision while the power goes, before champion.json is replaced."""

    def watch(name: str, path: Path) -> None:
        if name == "replace" and path.name == "champion.json":
            raise PowerCutError

    with cut_before(None, watch=watch), pytest.raises(PowerCutError):
        store.apply_decision(decision, by="retrain")


def decision_about(store: ModelStore, version: int, *, promote: bool) -> dict[str, Any]:
    """What the gate could have said."""
    return {
        "version": version,
        "champion": store.champion(),
        "promote": promote,
        "verdict": f"version {version} was judged",
        "reasons": [],
        "test": ["cleo-4"],
        "scores": {},
    }


def keep_undecided(settings: Settings, store: ModelStore) -> int:
    """Add a version that saw the corpus as it is."""
    clips = read_manifest(settings.corpus.path)
    checkpoint, evaluation = Path("made/checkpoint"), Path("made/evaluation")
    for folder in (checkpoint, evaluation):
        folder.mkdir(parents=True, exist_ok=True)
    (checkpoint / "weights").write_text(f"{len(store.versions())}", encoding="utf-8")
    (evaluation / "scores.json").write_text("{}", encoding="utf-8")
    clip_ids = {"train": [clip.clip_id for clip in clips]}
    facts = {"corpus_key": corpus_key(clips), "clips": clip_ids}
    return store.add(checkpoint, evaluation, facts)


def read_night() -> dict[str, Any]:
    """Return night.json."""
    night: dict[str, Any] = json.loads(Path("reports/retrain/night.json").read_text())
    return night
