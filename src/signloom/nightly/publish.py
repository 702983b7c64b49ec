"""What follows a decision: card, registry, report, data and code versions, the remote.

The champion is decided by now, so what fails here is said and stops nothing.
"""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from signloom.config import read_json
from signloom.errors import UserError
from signloom.files import to_text, write_file
from signloom.nightly.record import Step
from signloom.nightly.steps import DRIFT, Tonight
from signloom.nightly.store import DECISION, ModelStore
from signloom.paths import DVC_LOCK, LAST_NIGHT, METRICS, MODELS, REPORT_PAGE, TUNE
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


FORMAT_VERSION = 1


def introduce(night: Tonight, version: int) -> None:
    """Write the card of a version that was decided on, and mirror the store in the registry."""
    # They load torch, or MLflow.
    from signloom.nightly.card import write_card

    with _tried(night, "card") as step:
        marks = night.store.marks(version)
        card = write_card(night.store.folder(version), night.settings.corpus.folder, marks=marks)
        step.say(str(card))
    with _tried(night, "registry") as step:
        if night.settings.tracking.enabled:
            changed = sync_registry(night.store, night.settings.tracking)
            step.say("; ".join(changed) or "nothing to change")
        else:
            step.skip("tracking is off")


def show(night: Tonight, outcome: str, decision: dict[str, Any] | None) -> None:
    """Write what the report shows of this night, and build the report.

    Args:
        night: The night.
        outcome: How it ended.
        decision: What was decided; None: the data were refused.
    """
    with _tried(night, "report") as step:
        drift = night.summary.folder / DRIFT
        steps = night.summary.content["steps"]
        has_drift = any(row["name"] == "drift" and row["result"] == "done" for row in steps)
        content = {
            "format_version": FORMAT_VERSION,
            "night": night.summary.lasting(outcome),
            "drift": read_json(drift, hint=f"remove {drift}") if has_drift else None,
            "decision": decision,
        }
        write_file(LAST_NIGHT, to_text(content))
        TUNE.mkdir(parents=True, exist_ok=True)  # DVC wants it, the report does without a search
        # Alone: with its upstream a search would begin.
        night.commands.dvc("repro", "--single-item", "report")
        step.say(f"{REPORT_PAGE} shows this night")


def keep_versions(night: Tonight) -> None:
    """Track the models with DVC, commit, push; as far as the options say."""
    retrain = night.settings.retrain
    if not (retrain.commit or retrain.remote):
        return
    with _tried(night, "track") as step:
        if MODELS.is_dir():
            night.commands.dvc("add", str(MODELS))
        step.say(f"{MODELS}.dvc names the versions")
    if retrain.commit:
        with _tried(night, "commit") as step:
            step.say(_commit(night))
    if retrain.remote:
        with _tried(night, "push") as step:
            night.commands.dvc("push", "--remote", retrain.remote)
            step.say(f"to {retrain.remote}")


def _commit(night: Tonight) -> str:
    """Commit the files that a night writes, and no others."""
    corpus = night.settings.corpus.folder
    written = [
        night.settings.params, DVC_LOCK, Path(f"{MODELS}.dvc"), Path("data/.gitignore"),
        Path(f"{corpus}.dvc"), corpus.parent / ".gitignore", METRICS, LAST_NIGHT,
    ]  # fmt: skip
    there = [str(path) for path in dict.fromkeys(written) if path.is_file()]
    git = night.commands.git
    git("add", "--", *there)
    changed = git("diff", "--cached", "--name-only", "--", *there).split()
    if not changed:
        return "nothing has changed"
    said = night.summary.content
    champion = f"version {said['champion']}" if said["champion"] else "none"
    title = f"Retrain: champion is {champion}" + (
        ", new" if said["champion"] != said["champion_before"] else ", as before"
    )
    git("commit", "--quiet", "--message", title, "--message", said["verdict"], "--", *there)
    return f"{len(changed)} files: {title}"


@contextlib.contextmanager
def _tried(night: Tonight, name: str) -> Iterator[Step]:
    """Run a step whose failure is a warning."""
    try:
        with night.summary.step(name) as step:
            yield step
    except (UserError, OSError, subprocess.SubprocessError) as error:
        night.summary.warn(f"{name}: {error}")
