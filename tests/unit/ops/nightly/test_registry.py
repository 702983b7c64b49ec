"""The model registry of a real MLflow store: a database file, written without a server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signloom.errors import UserError
from signloom.tracking.run import TrackingOptions
from signloom.translation.translator import Translator
from signloom_ops.nightly.registry import sync_registry
from signloom_ops.nightly.store import ModelStore
from tests.unit.ops.nightly.versions import add_version, measure_as_one

pytestmark = pytest.mark.filterwarnings("ignore")  # what MLflow's own code deprecates


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(autouse=True)
def _in_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import mlflow

    monkeypatch.chdir(folder)
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.set_tracking_uri(None)
    yield
    mlflow.set_tracking_uri(None)


def sync(store: ModelStore, name: str) -> list[str]:
    return sync_registry(store, TrackingOptions(enabled=True, experiment=name))


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """Version 1 is champion, version 2 waits."""
    for width in (8, 16):
        add_version(tmp_path, d_model=width)
    model_store = ModelStore(tmp_path / "data/models")
    model_store.promote(1, by="test")
    return model_store


def read(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Versions by our number, and aliases with our numbers."""
    import mlflow

    client = mlflow.MlflowClient()
    versions = {
        version.tags["signloom.version"]: version
        for version in client.search_model_versions(f"name='{name}'")
    }
    of = {version.version: number for number, version in versions.items()}
    aliases = client.get_registered_model(name).aliases
    return versions, {alias: of[version] for alias, version in aliases.items()}


@pytest.mark.slow
def test_the_registry_follows_versions_tags_and_aliases_and_rests_when_it_has(
    store: ModelStore,
) -> None:
    """Quick twin: test_seeds_that_were_measured_as_one_are_all_sent_and_served."""
    import mlflow

    assert sync(store, "follows") == [
        "registered model follows",
        "version 1",
        "version 2",
        "champion is version 1",
        "challenger is version 2",
    ]
    versions, named = read("follows")
    assert sorted(versions) == ["1", "2"]
    assert versions["1"].tags["decision"] == "not judged"
    assert named == {"champion": "1", "challenger": "2"}
    assert sync(store, "follows") == []

    store.promote(2, by="test")
    store.mark(1, "forgotten", [{"clips": 24}])
    assert sync(store, "follows") == [
        "tags of version 1",
        "champion is version 2",
        "no challenger",
    ]
    assert read("follows")[1] == {"champion": "2"}

    model = mlflow.pyfunc.load_model("models:/follows@champion")  # as a server would
    assert model.metadata.get_input_schema().input_names() == ["fps", "width", "height", "frames"]
    downloaded = mlflow.artifacts.download_artifacts(
        run_id=versions["1"].run_id, artifact_path="model"
    )
    weights = list(Path(downloaded).rglob("model.safetensors"))
    assert [path.read_bytes() for path in weights] == [
        (store.checkpoint(1) / "model.safetensors").read_bytes()  # and not those of the other seed
    ]


def test_seeds_that_were_measured_as_one_are_all_sent_and_served(store: ModelStore) -> None:
    import mlflow

    measure_as_one(store.checkpoint(1), store.evaluation(1))
    sync(store, "joint")
    downloaded = mlflow.artifacts.download_artifacts("models:/joint@champion")
    (served,) = Path(downloaded).rglob("checkpoint")
    assert Translator.load(served).is_joint
    assert mlflow.pyfunc.load_model(downloaded)._model_impl.translator.is_joint


def test_a_call_that_died_after_sending_the_files_is_made_up_for_without_doubles(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    with monkeypatch.context() as patch:

        def die(*_: Any, **__: Any) -> None:
            raise OSError("the cable")

        patch.setattr(mlflow.MlflowClient, "create_model_version", die)
        with pytest.raises(UserError, match="the cable"):
            sync(store, "dies")
    sync(store, "dies")
    versions, named = read("dies")
    assert (sorted(versions), named["champion"]) == (["1", "2"], "1")
    experiment = mlflow.get_experiment_by_name("dies")
    assert len(mlflow.search_runs([experiment.experiment_id], output_format="list")) == 2


def test_two_projects_of_one_name_do_not_take_each_other_for_the_same(
    store: ModelStore, tmp_path: Path
) -> None:
    sync(store, "shared")
    add_version(tmp_path / "other", d_model=24)
    assert "version 1" in sync(ModelStore(tmp_path / "other/data/models"), "shared")
