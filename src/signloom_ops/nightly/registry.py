"""MLflow's model registry as a mirror of the store of models.

The versions on disk are the truth. What was interrupted, or could not be sent while a server was
down, is sent by the next call, and a second call changes nothing.
"""

import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.errors import UserError, count_of
from signloom.paths import SEEDS_NAME
from signloom.tracking.mlflow_setup import first_line, import_mlflow, store_name
from signloom.tracking.run import TrackingOptions
from signloom.tracking.run_store import KEY
from signloom.translation.confidence import find_confidence_file, read_confidence
from signloom_ops.nightly.card import CARD
from signloom_ops.nightly.store import DECISION, ModelStore
from signloom_tools.translate.serving import save_served_model

NUMBER_TAG, CHECKPOINT_TAG = "signloom.version", "signloom.checkpoint"  # of a registered version
MAX_TAG_CHARS = 4000
MODEL = "model"  # folder of the served model among the artifacts of a version's run


def sync_registry(store: ModelStore, tracking: TrackingOptions) -> list[str]:
    """Make the registered model, named like the tracking experiment, equal to the store.

    A version's files are sent once, as a model that `mlflow models serve` can run; tags and the
    aliases `champion` and `challenger` follow the store. Other versions in the registry stay.

    Args:
        store: The truth.
        tracking: Nothing happens where it is not enabled.

    Returns:
        What was changed, a phrase each.

    Raises:
        UserError: If MLflow is away or refuses something; the next call makes it up.
    """
    if not tracking.enabled or not store.versions():
        return []
    mlflow, name = import_mlflow(), tracking.experiment
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what MLflow's own code deprecates
            return _Registry(mlflow.MlflowClient(), name, store).sync()
    except (mlflow.exceptions.MlflowException, OSError) as error:  # OSError: also of requests
        raise UserError(
            f"{store_name()} did not take the versions of {name!r}: {first_line(error)}; check "
            "MLFLOW_TRACKING_URI. `signloom champion sync` brings them later, and so does the next "
            "retraining"
        ) from None


def _decision_tags(decision: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a decision with its main figures as tags."""
    if decision is None:
        return {"decision": "not judged"}
    metric = decision.get("metric", "")
    scores = decision.get("scores", {}).get(metric, {})
    names = ("champion", "challenger", "difference", "low", "high", "p_value")
    figures = {
        f"{metric}_{name}": f"{scores[name]:g}" for name in names if scores.get(name) is not None
    }
    return {
        "decision": "promote" if decision["promote"] else "refuse",
        "decision.verdict": decision["verdict"],
        "decision.reasons": "\n".join(decision["reasons"]),
        "decision.over": str(decision["champion"] or "none"),
        "decision.clips": str(decision.get("clips", 0)),
        **{f"decision.{name}": value for name, value in figures.items()},
    }


class _Registry:
    """One registered model, and the store that it shows."""

    def __init__(self, client: Any, name: str, store: ModelStore) -> None:
        self._client, self._name, self._store = client, name, store
        self._changes: list[str] = []

    def sync(self) -> list[str]:
        store = self._store
        if not self._client.search_registered_models(f"name = '{self._name}'"):
            self._client.create_registered_model(self._name)
            self._changes.append(f"registered model {self._name}")
        registered, numbers = self._versions(), dict[int, str]()
        for version in store.versions():
            # By which it is found again, also where projects share a server.
            digest = store.facts(version).get("checkpoint_hash", "")
            if digest not in registered:
                if not store.has_weights(version):
                    continue  # they were removed before it came here
                registered[digest] = self._create(version, digest)
                self._changes.append(f"version {version}")
            self._tag(version, registered[digest])
            numbers[version] = str(registered[digest].version)
        now, pointer = self._client.get_registered_model(self._name).aliases, store.pointer()
        for alias in ("champion", "challenger"):
            number = getattr(pointer, alias)
            self._point(alias, numbers.get(number) if number else None, now.get(alias), number)
        return self._changes

    def _versions(self) -> dict[str, Any]:
        """Return what the registry has, by checkpoint; of doubles, made by a race, the first."""
        registered: dict[str, Any] = {}
        token = None
        while True:
            page = self._client.search_model_versions(f"name = '{self._name}'", page_token=token)
            for model in page:
                digest = model.tags.get(CHECKPOINT_TAG, "")
                if digest not in registered or int(model.version) < int(registered[digest].version):
                    registered[digest] = model
            token = page.token
            if not token:
                return registered

    def _create(self, version: int, digest: str) -> Any:
        """Send the model as a run's artifacts, then name the version: in this order."""
        run, checkpoint = self._open_run(version, digest), self._store.checkpoint(version)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            confidence = find_confidence_file(checkpoint)
            is_joint = confidence is not None and bool(read_confidence(confidence).seeds)
            # Where the first seed's model translates alone the others are for the gate.
            ignored = None if is_joint else shutil.ignore_patterns(SEEDS_NAME)
            shutil.copytree(checkpoint, folder / "checkpoint", ignore=ignored)
            if confidence:
                shutil.copy2(confidence, folder)
            save_served_model(folder / "checkpoint", folder / MODEL)
            self._client.log_artifacts(run.info.run_id, str(folder / MODEL), MODEL)
        for path in (self._store.folder(version) / name for name in (DECISION, CARD)):
            if path.is_file():
                self._client.log_artifact(run.info.run_id, str(path))
        self._client.set_terminated(run.info.run_id)
        return self._client.create_model_version(
            self._name,
            f"{run.info.artifact_uri}/{MODEL}",
            run_id=run.info.run_id,
            tags={NUMBER_TAG: str(version), CHECKPOINT_TAG: digest},
        )

    def _open_run(self, version: int, digest: str) -> Any:
        experiment = self._client.get_experiment_by_name(self._name)
        experiment_id = (
            experiment.experiment_id if experiment else self._client.create_experiment(self._name)
        )
        key = f"model/{digest}"
        runs = self._client.search_runs([experiment_id], f"tags.`{KEY}` = '{key}'", max_results=1)
        if runs:  # of a call that was interrupted
            return runs[0]
        tags = {KEY: key, "stage": "model", NUMBER_TAG: str(version)}
        return self._client.create_run(experiment_id, run_name=f"model {version}", tags=tags)

    def _tag(self, version: int, registered: Any) -> None:
        tags = _decision_tags(self._store.decision(version))
        if forgotten := self._store.forgotten(version):
            tags["signloom.forgotten"] = count_of(forgotten, "clip")
        texts = {key: value[:MAX_TAG_CHARS] for key, value in tags.items()}
        changed = {key: text for key, text in texts.items() if registered.tags.get(key) != text}
        for key, text in changed.items():
            self._client.set_model_version_tag(self._name, registered.version, key, text)
        if changed and f"version {version}" not in self._changes:  # else it comes with them
            self._changes.append(f"tags of version {version}")

    def _point(self, alias: str, target: str | None, now: Any, number: int | None) -> None:
        if target is None and now is not None:
            self._client.delete_registered_model_alias(self._name, alias)
            self._changes.append(f"no {alias}")
        elif target is not None and str(now) != target:
            self._client.set_registered_model_alias(self._name, alias, target)
            self._changes.append(f"{alias} is version {number}")
