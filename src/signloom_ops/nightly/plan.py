"""The plan of a night: what there is to do and why, which a dry run prints; what made a model.

A corpus is new if no model that was decided on has seen it. So a delivery that came in before a
crash is still new, and one whose model was refused is not.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from signloom.config import get_map, load_params, load_section, parse_options
from signloom.corpus.manifest import SPLITS, Clip, CorpusOptions, Manifest, has_ended, load_manifest
from signloom.corpus.shards import read_clip_frames, read_clip_rates
from signloom.errors import UserError, count_of
from signloom.evaluation.metric_names import reads_glosses
from signloom.features.targets import read_targets
from signloom.files import hash_file, hash_folder
from signloom.grouping import group_pairs
from signloom.paths import DVC_LOCK, SHARDS, TARGETS
from signloom.provenance import git_state
from signloom.tracking.run import TrackingOptions, read_tracking
from signloom_ops.intake.changes import check_videos
from signloom_ops.intake.deliveries import ScanRequest
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.ingest import plan_ingest
from signloom_ops.intake.withdraw import ENDED, list_ended
from signloom_ops.lock import holder
from signloom_ops.nightly.gate import YEAR_DAYS, level_tonight
from signloom_ops.nightly.record import StepResult, find_interrupted
from signloom_ops.nightly.store import FORGOTTEN, ModelStore
from signloom_ops.options import OpsOptions, Start, load_ops
from signloom_tools.dvc import check_names

ALSO = "also_of"  # mark of a version: keys of further corpora that give the same model
BY_HAND = "rows added by hand"  # clips of no delivery that came after the first model

Kind = Literal["train", "finish", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NightRequest:
    """What a person or a timer asked for."""

    params: Path
    start: Start | None
    """Weights to train from; None: those of `start` of ops.yaml."""
    force: bool
    """Whether to train even if nothing is new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The parameters file as a night sees it."""

    params: Path
    corpus: CorpusOptions
    tracking: TrackingOptions
    ops: OpsOptions


def read_settings(params: Path) -> Settings:
    """Read and check what a night needs, before it spends hours.

    Raises:
        UserError: What is wrong with the file; a model of glosses; or fewer seeds than the gate
            asks for.
    """
    ops = load_ops(params)
    # The sections as a whole are for `train` to read: their options would load torch here.
    content = load_params(params)
    if reads_glosses(content):
        raise UserError(
            f"{params}: model.source is glosses, and a night is for models of landmarks; set "
            "model.source: landmarks"
        )
    seeds = parse_options(
        get_map(content, "train").get("seeds"), list[int], where=f"{params}: train.seeds"
    )
    if len(seeds) < ops.gate.seeds:
        raise UserError(
            f"{params}: train.seeds has {len(seeds)} of the {ops.gate.seeds} seeds that "
            "judge a challenger (gate.seeds of ops.yaml); set train.seeds: "
            f"{list(range(1, ops.gate.seeds + 1))}"
        )
    corpus = load_section(params, "corpus", CorpusOptions)
    check_names(corpus.folder)
    return Settings(params=params, corpus=corpus, tracking=read_tracking(params), ops=ops)


@dataclass(frozen=True, kw_only=True, slots=True)
class NightPlan(StepResult):
    """What is to be done tonight."""

    kind: Kind
    """`finish`: only what follows a decision, because the last night did not come that far."""
    reasons: tuple[str, ...]
    """Reasons for it, a phrase each."""
    version: int | None = None
    """The version that was decided on, if only what follows a decision is to be done."""


def make_plan(
    settings: Settings,
    manifest: Manifest,
    store: ModelStore,
    *,
    to_finish: int | None,
    force: bool,
    is_ingested: bool = False,
) -> NightPlan:
    """Look for something to do; takes seconds.

    Parameters or code that changed are no reason: what a person edits by day, a person tries by
    day. `force` makes them one.

    Args:
        to_finish: Version of a night that was interrupted, if it came that far.
        force: Train even if nothing is new.
        is_ingested: Whether the inbox was taken in already tonight, so that it is no reason.

    Raises:
        UserError: If the corpus is one of glosses and sentences, or the champion's is another one.
    """
    corpus, ops = settings.corpus, settings.ops
    check_videos(corpus, manifest.clips)
    _check_champion(corpus, manifest.clips, store)
    reasons = []
    is_open = ops.inbox.is_dir() and not is_ingested
    if is_open and has_new_files(corpus, ops.inbox, ops.ingest, former=manifest):
        reasons.append(f"something new lies in {ops.inbox}")
    reasons += _corpus_reasons(manifest.clips, store)
    if force:
        reasons.append("it was asked for (--force)")
    kind: Kind = "train" if reasons else "nothing"
    version = None
    if not reasons and to_finish is not None and store.decision(to_finish) is not None:
        kind, version = "finish", to_finish
        reasons = [f"the night that decided on version {to_finish} was interrupted after it"]
    text = "; ".join(reasons) or "nothing is new"
    return NightPlan(text=text, kind=kind, reasons=tuple(reasons), version=version)


STEPS: Mapping[Kind, str] = {
    "train": "ingest, extract, drift, train, evaluate, keep, gate, card, registry, report",
    "finish": "card, registry, report",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a night would do."""

    kind: Kind
    lines: tuple[str, ...]
    """All of it for a person."""


def dry_run(request: NightRequest) -> DryRun:
    """Return what a night would do now.

    Videos that would come in are decoded for it, as the night will do again.
    """
    settings, store = read_settings(request.params), ModelStore()
    corpus, ops = settings.corpus, settings.ops
    manifest = load_manifest(corpus)
    if ended := list_ended(manifest.clips):
        remaining = [clip for clip in manifest.clips if not has_ended(clip.consent_until)]
        manifest = Manifest(remaining, manifest.sha256)
    last = find_interrupted()
    to_finish = last.version if last else None
    plan = make_plan(settings, manifest, store, to_finish=to_finish, force=request.force)
    incoming = None
    if plan.kind == "train" and ops.inbox.is_dir():
        delivered = ScanRequest(sources=[ops.inbox], inbox=True)
        incoming = plan_ingest(corpus, delivered, ops.ingest, former=manifest)
    lines = [f"because {reason}" for reason in plan.reasons] or ["nothing is new"]
    if ended:
        lines.append(f"{count_of(len(ended), 'clip')} would leave the corpus: {ENDED}")
    if incoming:
        clip_count = len(manifest.clips)
        lines.append(
            f"{count_of(len(incoming.clips), 'clip')} would come to the {clip_count} of the corpus"
        )
        lines += [f"rejected: {row.where}: {row.reason}" for row in incoming.rejects]
    if plan.kind != "nothing":
        more = ["track"] if ops.commit or ops.remote else []
        more += ["commit"] * ops.commit + ["push"] * bool(ops.remote)
        lines.append(f"steps: {', '.join([STEPS[plan.kind], *more])}")
        champion = store.champion()
        lines.append(f"champion: {f'version {champion}' if champion else 'none yet'}")
    if plan.kind == "train":
        refused = store.refused_before(None, YEAR_DAYS)
        level = level_tonight(ops.gate.level, refused)
        lines.append(
            f"the gate would accept a gain that luck brings with probability {level:.2g} at most: "
            f"{ops.gate.level:g} a year, shared with {refused} refused in {YEAR_DAYS} days"
        )
        parent = choose_parent(store, request.start or ops.start)
        start = str(store.checkpoint(parent)) if parent is not None else "scratch"
        lines.append(f"training would start from {start}")
    if held_by := holder():
        lines.append(f"not now: {held_by}")
    return DryRun(kind=plan.kind, lines=tuple(lines))


def _check_champion(corpus: CorpusOptions, clips: Sequence[Clip], store: ModelStore) -> None:
    """Refuse a champion of another corpus, with which nothing can be compared.

    Raises:
        UserError: If none of the clips that it was made from is in this corpus.
    """
    champion = store.champion()
    clip_ids = seen_clips(store.facts(champion)) if champion is not None else []
    if clip_ids and clips and not {clip.clip_id for clip in clips} & set(clip_ids):
        raise UserError(
            f"version {champion} in {store.root}, the champion, was made from another corpus: none "
            f"of its {len(clip_ids)} clips is in {corpus.name} ({corpus.folder}). Keep its "
            f"versions elsewhere (mv {store.root} {store.root}-old): a first night then begins anew"
        )


def _corpus_reasons(clips: Sequence[Clip], store: ModelStore) -> list[str]:
    """Say why the corpus wants a model or a decision."""
    decided = store.decided()
    key = corpus_key(clips)
    versions = [version for version in decided if key in corpora_of(store, version)]
    if any(not _has_traces(store, version) for version in versions):
        return []
    if versions:
        return ["the model of this corpus learnt from a signer who was forgotten"]
    waiting = store.challenger()
    if waiting is not None and waiting not in decided and key in corpora_of(store, waiting):
        return [f"version {waiting} is trained and was not decided on"]
    if not decided:
        return ["no model has been decided on yet"]
    new = {name: len(ids) for name, ids in new_clips(clips, store).items()}
    if new:
        return [
            f"{count_of(count, 'clip')} of {name} wait in the corpus" for name, count in new.items()
        ]
    return ["clips left the corpus or were changed since the last model"]


def _has_traces(store: ModelStore, version: int) -> bool:
    """Return whether the weights of a version learnt from a signer who was forgotten since."""
    return any(
        mark["through"] is not None or {"train", "dev"} & set(mark["splits"])
        for mark in store.marks(version).get(FORGOTTEN, ())
    )


def corpora_of(store: ModelStore, version: int) -> list[str]:
    """Return the keys of the corpora that a version is a model of."""
    also: list[str] = store.marks(version).get(ALSO, [])
    return [store.facts(version).get("corpus_key", ""), *also]


def choose_parent(store: ModelStore, start: Start) -> int | None:
    """Return the version whose weights training starts from; None: from scratch.

    Weights that learnt from someone who is to be forgotten are not handed on.
    """
    champion = store.champion() if start == "champion" else None
    if champion is None or store.marks(champion).get(FORGOTTEN):
        return None
    return champion


def corpus_key(clips: Sequence[Clip]) -> str:
    """Return what identifies the clips that a model may learn from, without how they came in."""
    rows = sorted(
        [
            clip.clip_id,
            clip.text,
            clip.signer,
            clip.split,
            str(clip.video),
            clip.start_s,
            clip.end_s,
            clip.gloss,
            clip.language,
            *filter(None, [clip.corpus, clip.box]),
        ]
        for clip in clips
    )
    return hashlib.sha256(json.dumps(rows, ensure_ascii=False).encode()).hexdigest()


def new_clips(clips: Sequence[Clip], store: ModelStore) -> dict[str, list[str]]:
    """Return the clips that no decided model has seen, by delivery in the manifest's order.

    Before the first decision the clips of no delivery are what drift is measured against: not new.
    """
    decided = store.decided()
    seen_ids = {name for version in decided for name in seen_clips(store.facts(version))}
    return group_pairs(
        (clip.batch or BY_HAND, clip.clip_id)
        for clip in clips
        if clip.clip_id not in seen_ids and (decided or clip.batch)
    )


def seen_clips(facts: dict[str, Any]) -> list[str]:
    """Return the ids of the clips that were in the corpus of a version, rejected ones too."""
    splits: dict[str, list[str]] = facts.get("clips", {})
    rejected: list[str] = facts.get("rejected", [])
    return [name for names in (*splits.values(), rejected) for name in names]


def gather_facts(
    clips: Sequence[Clip], *, params: Path, parent: int | None, reasons: Sequence[str]
) -> dict[str, Any]:
    """Return what made the model that was just trained.

    Args:
        clips: The corpus.
        parent: Version whose weights it started from; None: from scratch.
    """
    targets = {target.clip_id: target for target in read_targets(TARGETS)}
    frames, rates = read_clip_frames(SHARDS), read_clip_rates(SHARDS)
    used = [targets[name] for name in sorted(targets.keys() & frames.keys())]
    parts = {split: [target for target in used if target.split == split] for split in SPLITS}
    return {
        "created": datetime.now().astimezone().date().isoformat(),
        **git_state(),
        "parent": parent,
        "trigger": "; ".join(reasons),
        "dvc_lock": hash_file(DVC_LOCK) if DVC_LOCK.is_file() else None,
        "params": load_params(params),
        "data": {"landmarks": hash_folder(SHARDS), "targets": hash_file(TARGETS)},
        "corpus_key": corpus_key(clips),
        "batches": list(dict.fromkeys(clip.batch for clip in clips if clip.batch)),
        "clips": {split: [target.clip_id for target in part] for split, part in parts.items()},
        "rejected": sorted({clip.clip_id for clip in clips} - {target.clip_id for target in used}),
        "signers": {
            split: dict(sorted(Counter(target.signer for target in part).items()))
            for split, part in parts.items()
        },
        "frames": {split: sum(frames[o.clip_id] for o in part) for split, part in parts.items()},
        "hours": {
            split: round(math.fsum(frames[o.clip_id] / rates[o.clip_id] for o in part) / 3600, 4)
            for split, part in parts.items()
        },
    }
