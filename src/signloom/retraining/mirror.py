"""The versions of a project and what was decided about them go to MLflow's model registry."""

from collections.abc import Mapping
from typing import Any

from signloom.retraining.store import DECISION, ModelStore
from signloom.tracking.registry import Version, sync
from signloom.tracking.run import TrackingOptions

CARD = "MODEL_CARD.md"


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
    versions = [_describe(store, version) for version in store.versions()]
    return sync(tracking.experiment, versions, aliases)


def decision_tags(decision: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a decision with its main figures as tags, for a version or a run."""
    if decision is None:
        return {"decision": "not judged"}
    metric = decision["metric"]
    scores = decision["scores"][metric]
    names = ("champion", "challenger", "difference", "low", "high", "p_value")
    figures = {
        f"{metric}_{name}": f"{scores[name]:g}" for name in names if scores.get(name) is not None
    }
    return {
        "decision": "promote" if decision["promote"] else "refuse",
        "decision.verdict": decision["verdict"],
        "decision.reasons": "\n".join(decision["reasons"]),
        "decision.over": str(decision["champion"] or "none"),
        "decision.clips": str(decision["clips"]),
        **{f"decision.{name}": value for name, value in figures.items()},
    }


def _describe(store: ModelStore, version: int) -> Version:
    files = (store.folder(version) / DECISION, store.folder(version) / CARD)
    forgotten = store.forgotten(version)
    marks = {"signloom.forgotten": f"{forgotten} clips"} if forgotten else {}
    return Version(
        number=version,
        checkpoint=store.checkpoint(version),
        checkpoint_hash=store.facts(version)["checkpoint_hash"],
        files=[path for path in files if path.is_file()],
        tags={**decision_tags(store.decision(version)), **marks},
    )
