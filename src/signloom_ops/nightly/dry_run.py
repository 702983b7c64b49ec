"""A dry run (`signloom retrain --dry-run`): what a night would do now; nothing is written."""

from collections.abc import Mapping
from dataclasses import dataclass

from signloom.corpus.manifest import Manifest, has_ended, load_manifest
from signloom_ops.intake import deliveries
from signloom_ops.intake.ingest import plan_ingest
from signloom_ops.intake.withdraw import ENDED, list_ended
from signloom_ops.nightly.gate import YEAR_DAYS, level_tonight
from signloom_ops.nightly.lock import holder
from signloom_ops.nightly.night import Request, read_unfinished
from signloom_ops.nightly.plan import Kind, choose_parent, make_plan, read_settings
from signloom_ops.nightly.store import ModelStore

STEPS: Mapping[Kind, str] = {
    "train": "ingest, extract, drift, train, evaluate, keep, gate, card, registry, report",
    "finish": "card, registry, report",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a night would do; these names are those of the JSON."""

    kind: Kind
    reasons: tuple[str, ...]
    champion: int | None
    start_from: str
    """Folder of the weights that training would start from; empty: from scratch."""
    held_by: str
    """Who is at work now, in words; empty: nobody."""
    level_tonight: float
    """What the gate would ask for; `gate.level_tonight`."""
    refused_in_a_year: int
    """Challengers that were refused in the last 365 days."""
    clips: dict[str, str]
    """Clips that would come in, with their splits."""
    rejects: list[str]
    """Files of the inbox that would not, with the reasons."""
    lines: list[str]
    """All of it for a person."""


def dry_run(request: Request) -> DryRun:
    """Return what a night would do now.

    Videos that would come in are decoded for it, as the night will do again.
    """
    settings, store = read_settings(request.params), ModelStore()
    corpus, ops = settings.corpus, settings.ops
    manifest = load_manifest(corpus)
    if ended := list_ended(manifest.clips):
        left = [clip for clip in manifest.clips if not has_ended(clip.consent_until)]
        manifest = Manifest(left, manifest.sha256)
    plan = make_plan(settings, manifest, store, to_finish=read_unfinished(), force=request.force)
    champion = store.champion()
    parent = choose_parent(store, request.start or ops.start)
    start_from = str(store.checkpoint(parent)) if parent is not None else ""
    refused = store.refused_before(None, YEAR_DAYS)
    level, tonight = ops.gate.level, level_tonight(ops.gate.level, refused)
    held_by, taken, rejects = holder(), {}, []
    lines = [f"because {reason}" for reason in plan.reasons] or ["nothing is new"]
    if ended:
        lines.append(f"{len(ended)} clips would leave the corpus: {ENDED}")
    if plan.kind == "train" and ops.inbox.is_dir():
        delivered = deliveries.Request(sources=[ops.inbox], inbox=True)
        found = plan_ingest(corpus, delivered, ops.ingest, known=manifest)
        taken = {clip.clip_id: clip.split for clip in found.clips}
        rejects = [f"{row.where}: {row.reason}" for row in found.rejects]
        lines.append(f"{len(taken)} clips would come to the {len(manifest.clips)} of the corpus")
        lines += [f"rejected: {text}" for text in rejects]
    if plan.kind != "nothing":
        more = ["track"] if ops.commit or ops.remote else []
        more += ["commit"] * ops.commit + ["push"] * bool(ops.remote)
        lines.append(f"steps: {', '.join([STEPS[plan.kind], *more])}")
        lines.append(f"champion: {f'version {champion}' if champion else 'none yet'}")
    if plan.kind == "train":
        lines.append(
            f"the gate would ask for level {tonight:.2g}: {refused} refused in {YEAR_DAYS} days "
            f"share the year's {level:g}"
        )
        lines.append(f"training would start from {start_from or 'scratch'}")
    if held_by:
        lines.append(f"not now: {held_by}")
    return DryRun(
        kind=plan.kind, reasons=plan.reasons, champion=champion, start_from=start_from,
        held_by=held_by, level_tonight=tonight, refused_in_a_year=refused, clips=taken,
        rejects=rejects, lines=lines,
    )  # fmt: skip
