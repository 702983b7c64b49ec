"""The project as it is comes in, what a night would do goes out; nothing is written."""

from datetime import datetime
from typing import Any

from signloom.corpus.intake import ingest
from signloom.corpus.manifest import read_manifest
from signloom.retraining.lock import holder
from signloom.retraining.options import Settings, Start
from signloom.retraining.plan import Kind, choose_parent, make_plan
from signloom.retraining.store import ModelStore

_STEPS: dict[Kind, str] = {
    "train": "ingest, extract, drift, train, evaluate, keep, gate, card, registry, report",
    "finish": "card, registry, report",
    "nothing": "",
}


def foresee(
    settings: Settings, *, start: Start, to_finish: int | None, force: bool
) -> dict[str, Any]:
    """Return what a night would do: plan, `train.start_from`, new clips, and all of it as lines.

    Videos that would come in are decoded for it, as the night will do again.
    """
    store, retrain = ModelStore(), settings.retrain
    plan = make_plan(settings, store, to_finish=to_finish, force=force)
    champion = store.champion()
    parent = choose_parent(store, start)
    found: dict[str, Any] = {
        "kind": plan.kind,
        "reasons": list(plan.reasons),
        "champion": champion,
        "start_from": str(store.checkpoint(parent)) if parent is not None else "",
        "held_by": holder(),
        "clips": {},
        "rejects": [],
    }
    lines = [f"because {reason}" for reason in plan.reasons] or ["nothing is new"]
    if plan.kind == "train" and retrain.inbox.is_dir():
        day = datetime.now().astimezone().date().isoformat()
        taken = ingest(
            settings.corpus, [retrain.inbox], retrain.ingest, day=day, inbox=True, dry_run=True
        )
        found["clips"] = {clip.clip_id: clip.split for clip in taken.clips}
        found["rejects"] = [f"{row.where}: {row.reason}" for row in taken.rejects]
        count = len(read_manifest(settings.corpus.path, settings.corpus.signer_disjoint))
        lines.append(f"{len(taken.clips)} clips would come to the {count} of the corpus")
        lines += [f"rejected: {text}" for text in found["rejects"]]
    if plan.kind != "nothing":
        more = ["track"] if retrain.commit or retrain.remote else []
        more += ["commit"] * retrain.commit + ["push"] * bool(retrain.remote)
        lines.append(f"steps: {', '.join([_STEPS[plan.kind], *more])}")
        lines.append(f"champion: {f'version {champion}' if champion else 'none yet'}")
    if plan.kind == "train":
        lines.append(f"training would start from {found['start_from'] or 'scratch'}")
    if found["held_by"]:
        lines.append(f"not now: {found['held_by']}")
    return {**found, "lines": lines}
