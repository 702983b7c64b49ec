"""The model registry of a real MLflow store: a database file, written without a server."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signloom.errors import UserError
from signloom.translation.translator import Translator
from signloom_ops.nightly.registry import RegisteredVersion, sync
from tests.tiny import write_checkpoint
from tests.unit.ops.nightly.versions import measure_as_one

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


def make_version(folder: Path, number: int, **tags: str) -> RegisteredVersion:
    place = folder / f"{number:04}"
    checkpoint = place / "checkpoint"
    if not checkpoint.is_dir():
        write_checkpoint(checkpoint, d_model=8 * number)
        write_checkpoint(checkpoint / "seeds/2")
        (place / "decision.json").write_text("{}")
    return RegisteredVersion(
        number=number, checkpoint=checkpoint, checkpoint_hash=f"hash of {folder.name} {number}",
        files=[place / "decision.json"], tags=tags,
    )  # fmt: skip


def read(name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Versions by our number, and aliases with our numbers."""
    import mlflow

    client = mlflow.MlflowClient()
    found = {
        one.tags["signloom.version"]: one for one in client.search_model_versions(f"name='{name}'")
    }
    of = {one.version: number for number, one in found.items()}
    aliases = client.get_registered_model(name).aliases
    return found, {alias: of[version] for alias, version in aliases.items()}


def test_the_registry_follows_versions_tags_and_aliases_and_rests_when_it_has(folder: Path) -> None:
    import mlflow

    one, two = make_version(folder, 1, decision="promote"), make_version(folder, 2)
    aliases = {"champion": 1, "challenger": 2}
    assert sync("follows", [one, two], aliases)
    found, named = read("follows")
    assert sorted(found) == ["1", "2"]
    assert found["1"].tags["decision"] == "promote"
    assert named == {"champion": "1", "challenger": "2"}
    assert sync("follows", [one, two], aliases) == []

    two = make_version(folder, 2, decision="promote")
    changes = sync("follows", [one, two], {"champion": 2, "challenger": None})
    assert changes == ["decision of version 2", "champion is version 2", "no challenger"]
    assert read("follows")[1] == {"champion": "2"}

    model = mlflow.pyfunc.load_model("models:/follows@champion")  # as a server would
    assert model.metadata.get_input_schema().input_names() == ["fps", "width", "height", "frames"]
    kept = mlflow.artifacts.download_artifacts(run_id=found["1"].run_id, artifact_path="model")
    weights = list(Path(kept).rglob("model.safetensors"))
    assert [path.read_bytes() for path in weights] == [
        (one.checkpoint / "model.safetensors").read_bytes()  # and not those of the other seed
    ]


def test_seeds_that_were_measured_as_one_are_all_sent_and_served(folder: Path) -> None:
    import mlflow

    one = make_version(folder, 3)
    shutil.rmtree(one.checkpoint / "seeds/2")
    write_checkpoint(one.checkpoint / "seeds/2", d_model=24)
    measure_as_one(one.checkpoint, one.checkpoint.parent)
    sync("joint", [one], {"champion": 3})
    kept = mlflow.artifacts.download_artifacts("models:/joint@champion")
    (served,) = Path(kept).rglob("checkpoint")
    assert Translator.load(served).is_joint
    assert mlflow.pyfunc.load_model(kept).unwrap_python_model()._translator.is_joint


def test_a_call_that_died_after_sending_the_files_is_made_up_for_without_doubles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    one = make_version(folder, 1)
    with monkeypatch.context() as patch:

        def die(*_: Any, **__: Any) -> None:
            raise OSError("the cable")

        patch.setattr(mlflow.MlflowClient, "create_model_version", die)
        with pytest.raises(UserError, match="the cable"):
            sync("dies", [one], {"champion": 1})
    sync("dies", [one], {"champion": 1})
    found, named = read("dies")
    assert (sorted(found), named) == (["1"], {"champion": "1"})
    experiment = mlflow.get_experiment_by_name("dies")
    assert len(mlflow.search_runs([experiment.experiment_id], output_format="list")) == 1


def test_two_projects_of_one_name_do_not_take_each_other_for_the_same(
    folder: Path, tmp_path: Path
) -> None:
    sync("shared", [make_version(folder, 1)], {"champion": 1})
    assert "version 1" in sync("shared", [make_version(tmp_path, 1)], {"champion": 1})
