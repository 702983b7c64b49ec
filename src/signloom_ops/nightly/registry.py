"""MLflow's registry as a mirror of the store of models."""

from collections.abc import Mapping
from typing import Any

from signloom.tracking.run import TrackingOptions
from signloom_ops.nightly.card import CARD
from signloom_ops.nightly.mlflow_registry import RegisteredVersion, sync
from signloom_ops.nightly.store import DECISION, ModelStore


def sync_registry(store: ModelStore, tracking: TrackingOptions) -> list[str]:
    """Make the registered model of the tracking experiment's name say what the store says.

    Args:
        store: The truth.
        tracking: Nothing happens where it is not enabled.

    Returns:
        What was changed.

    Raises:
        UserError: If MLflow is away; the next call makes it up.
    """
    if not tracking.enabled or not store.versions():
        return []
    pointer = store.pointer()
    aliases = {"champion": pointer.champion, "challenger": pointer.challenger}
    versions = [_registered(store, version) for version in store.versions()]
    return sync(tracking.experiment, versions, aliases)


def _registered(store: ModelStore, version: int) -> RegisteredVersion:
    """Return a version as the registry is to show it."""
    files = (store.folder(version) / DECISION, store.folder(version) / CARD)
    forgotten = store.forgotten(version)
    marks = {"signloom.forgotten": f"{forgotten} clips"} if forgotten else {}
    return RegisteredVersion(
        number=version,
        checkpoint=store.checkpoint(version),
        checkpoint_hash=store.facts(version).get("checkpoint_hash", ""),
        files=[path for path in files if path.is_file()],
        tags={**_decision_tags(store.decision(version)), **marks},
    )


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
