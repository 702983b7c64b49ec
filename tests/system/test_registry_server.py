"""A real MLflow server that is away while the champion changes, and hears of it afterwards."""

from pathlib import Path
from typing import Any

import pytest

from signloom.errors import UserError
from signloom.tracking.run import TrackingOptions
from signloom_ops.nightly.registry import sync_registry
from signloom_ops.nightly.store import ModelStore
from tests.system.mlflow_server import MlflowServer
from tests.unit.ops.nightly.versions import GATE, add_version, inputs, write_project

TRACKING = TrackingOptions(enabled=True, experiment="tiny")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what MLflow's own code deprecates
def test_a_server_hears_of_champions_decisions_and_rollbacks_also_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from signloom_ops.nightly.comparison import ask_gate

    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    server = MlflowServer(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.port}")
    store = ModelStore()
    for width in (8, 16):
        add_version(tmp_path, d_model=width)
    store.promote(1, by="test")
    store.apply_decision(ask_gate(store, 2, inputs(tmp_path), GATE).to_map(), by="test")
    with pytest.raises(UserError, match="signloom champion sync"):
        sync_registry(store, TRACKING)  # nobody listens there yet

    server.start()
    try:
        assert sync_registry(store, TRACKING)
        aliases, tags = read_registry()
        assert aliases == {"champion": "1", "challenger": "2"}
        assert tags["1"]["decision"] == "not judged"
        assert tags["2"]["decision"] == "refuse"
        assert "better failed: chrF" in tags["2"]["decision.reasons"]
        assert float(tags["2"]["decision.chrf_p_value"]) <= 1
        assert sync_registry(store, TRACKING) == []

        server.kill()
        store.promote(2, by="a person")
        store.mark(1, "forgotten", [{"clips": 24}])
        with pytest.raises(UserError, match="did not take"):
            sync_registry(store, TRACKING)
        server.start()
        changes = sync_registry(store, TRACKING)
        assert sorted(changes) == [
            "champion is version 2",
            "no challenger",
            "tags of version 1",
        ]
        assert read_registry()[0] == {"champion": "2"}
        store.rollback(by="a person")
        assert sync_registry(store, TRACKING) == ["champion is version 1"]
        check_files(store)
    finally:
        server.kill()


def read_registry() -> tuple[dict[str, str], dict[str, Any]]:
    import mlflow

    versions = mlflow.MlflowClient().search_model_versions("name='tiny'")
    of = {version.version: version.tags["signloom.version"] for version in versions}
    aliases = mlflow.MlflowClient().get_registered_model("tiny").aliases
    named = {alias: of[version] for alias, version in aliases.items()}
    return named, {version.tags["signloom.version"]: version.tags for version in versions}


def check_files(store: ModelStore) -> None:
    """What the server gives for the alias is the champion, to the byte."""
    import mlflow

    folder = Path(mlflow.artifacts.download_artifacts("models:/tiny@champion"))
    (weights,) = folder.rglob("model.safetensors")
    assert weights.read_bytes() == (store.checkpoint(1) / weights.name).read_bytes()
