"""Publishing: card, MLflow's registry, report, the versions of data and code, the remote.

These steps of a night come after the decision: what fails here is a warning and stops nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.files import to_text, write_file
from signloom.paths import DVC_LOCK, LAST_NIGHT, METRICS, MODELS, REPORT_PAGE, TUNE
from signloom.tracking.registry import RegisteredVersion, sync
from signloom.tracking.run import TrackingOptions
from signloom_ops.intake.drift.findings import DriftReport
from signloom_ops.nightly.card import CARD, write_card
from signloom_ops.nightly.commands import Commands
from signloom_ops.nightly.page import FORMAT_VERSION
from signloom_ops.nightly.record import StepResult
from signloom_ops.nightly.store import DECISION, ModelStore


def describe_version(store: ModelStore, version: int, corpus: Path) -> StepResult:
    """Write the card of a version; `corpus` is the folder with the terms of the recordings."""
    card = write_card(store.folder(version), corpus, marks=store.marks(version))
    return StepResult(text=str(card))


def update_registry(store: ModelStore, tracking: TrackingOptions) -> StepResult:
    """Make MLflow's registry say what the store says."""
    if not tracking.enabled:
        return StepResult(text="tracking is off", is_skipped=True)
    return StepResult(text="; ".join(sync_registry(store, tracking)) or "nothing to change")


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


def build_report(
    night: Mapping[str, Any],
    corpus: str,
    outcome: str,
    drift: DriftReport | None,
    decision: Mapping[str, Any] | None,
    commands: Commands,
) -> StepResult:
    """Write what the report shows of a night, and build the report.

    Args:
        night: The content of night.json.
        corpus: Name of the corpus; the report of another one leaves the night out.
        outcome: How the night ends.
        drift: The worst of what the drift check found; None: no clip was new.
        decision: What was decided; None: the data were refused.
        commands: Run DVC.
    """
    # Nothing that differs if the night is run again.
    keys = ("verdict", "version", "champion_before", "champion", "batches", "reasons", "warnings")
    content = {
        "format_version": FORMAT_VERSION,
        "corpus": corpus,
        "night": {"outcome": outcome, **{key: night[key] for key in keys}},
        "drift": drift and drift.to_map(),
        "decision": decision,
    }
    write_file(LAST_NIGHT, to_text(content))
    TUNE.mkdir(parents=True, exist_ok=True)  # DVC wants it, the report does without a search
    # Alone: with its upstream a search would begin.
    commands.dvc("repro", "--single-item", "report")
    return StepResult(text=f"{REPORT_PAGE} shows this night")


def track_models(commands: Commands) -> StepResult:
    """Have DVC keep the models."""
    if MODELS.is_dir():
        commands.dvc("add", str(MODELS))
    return StepResult(text=f"{MODELS}.dvc names the versions")


def commit_night(
    night: Mapping[str, Any], params: Path, corpus: Path, commands: Commands
) -> StepResult:
    """Commit the files that a night writes, and no others.

    Args:
        night: The content of night.json.
        params: The parameters file.
        corpus: Folder of the corpus.
        commands: Run git.
    """
    written = [
        params, DVC_LOCK, Path(f"{MODELS}.dvc"), Path("data/.gitignore"),
        Path(f"{corpus}.dvc"), corpus.parent / ".gitignore", METRICS, LAST_NIGHT,
    ]  # fmt: skip
    there = [str(path) for path in dict.fromkeys(written) if path.is_file()]
    commands.git("add", "--", *there)
    changed = commands.git("diff", "--cached", "--name-only", "--", *there).split()
    if not changed:
        return StepResult(text="nothing has changed")
    champion = f"version {night['champion']}" if night["champion"] else "none"
    is_new = night["champion"] != night["champion_before"]
    title = f"Retrain: champion is {champion}{', new' if is_new else ', as before'}"
    message = ("--message", title, "--message", night["verdict"])
    commands.git("commit", "--quiet", *message, "--", *there)
    return StepResult(text=f"{len(changed)} files: {title}")


def push_versions(remote: str, commands: Commands) -> StepResult:
    """Send data and models to a DVC remote."""
    commands.dvc("push", "--remote", remote)
    return StepResult(text=f"to {remote}")
