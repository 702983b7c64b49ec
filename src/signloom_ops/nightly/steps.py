"""The steps of a night; each returns what it did."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.corpus.manifest import Clip, CorpusOptions, Manifest
from signloom.errors import count_of
from signloom.files import to_text, write_file
from signloom.paths import (
    CHECKPOINT,
    DVC_LOCK,
    EVALUATION,
    LANDMARKS,
    METRICS,
    MODELS,
    REPORT_PAGE,
    SHARDS,
    START,
    TUNE,
    WITHDRAWN_VIDEOS,
)
from signloom.tracking.run import TrackingOptions
from signloom.training.start_file import write_start
from signloom_ops.intake.changes import recover_corpus
from signloom_ops.intake.deliveries import ScanRequest
from signloom_ops.intake.drift.check import check_drift
from signloom_ops.intake.drift.findings import LEVELS, DriftReport, write_report
from signloom_ops.intake.ingest import ingest
from signloom_ops.intake.withdraw import ENDED, withdraw, withdraw_ended
from signloom_ops.nightly.card import write_card
from signloom_ops.nightly.plan import ALSO, BY_HAND, Settings, corpora_of, corpus_key, gather_facts
from signloom_ops.nightly.programs import Programs
from signloom_ops.nightly.record import StepResult
from signloom_ops.nightly.registry import sync_registry
from signloom_ops.nightly.store import ModelStore
from signloom_ops.options import DriftOptions, OpsOptions
from signloom_tools.dvc import track_version


def track_interrupted(corpus: Path, programs: Programs) -> StepResult:
    """Have DVC keep what an interrupted night changed; else DVC would refuse to replace it."""
    track_version(corpus)
    return track_models(programs)


def pull_versions(corpus: Path, remote: str, programs: Programs) -> StepResult:
    """Fetch the corpus and the models that other machines pushed.

    The outputs of stages are not fetched: the stages make them again from the corpus.

    Args:
        remote: Name of the DVC remote.
    """
    pointers = [Path(f"{folder}.dvc") for folder in (corpus, MODELS)]
    paths = [str(path) for path in pointers if path.is_file()]
    if not paths:
        text = f"neither {pointers[0]} nor {pointers[1]} is there"
        return StepResult(text=text, is_skipped=True)
    programs.dvc("pull", "--remote", remote, *paths)
    return StepResult(text=f"{' and '.join(paths)} from {remote}")


def finish_change(corpus: CorpusOptions) -> StepResult:
    """Finish an interrupted change of the corpus."""
    recover_corpus(corpus)
    return StepResult(text="an interrupted change of the corpus is finished")


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed(StepResult):
    """A corpus after clips came in or left."""

    manifest: Manifest


def take_deliveries(corpus: CorpusOptions, ops: OpsOptions, manifest: Manifest) -> Changed:
    """Take the deliveries of the inbox into the corpus."""
    sources = [ops.inbox] if ops.inbox.is_dir() else []
    request = ScanRequest(sources=sources, inbox=True)
    plan = ingest(corpus, request, ops.ingest, former=manifest)
    parts = [f"{len(plan.clips)} new clips", f"{plan.known} known"]
    warnings = []
    if plan.batch:
        parts[0] += f" as batch {plan.batch}"
    if plan.rejects:
        parts.append(f"{len(plan.rejects)} rejected")
        warnings.append(
            f"rejected of the inbox: {count_of(len(plan.rejects), 'file')}; "
            f"{corpus.folder}/intake_rejects.tsv lists which and why"
        )
    if plan.waiting:
        parts.append(f"{count_of(len(plan.waiting), 'file')} still changing: next time")
    rejects = [
        {"delivery": row.delivery, "where": row.where, "reason": row.reason} for row in plan.rejects
    ]
    return Changed(
        text=", ".join(parts),
        facts={"batch": plan.batch, "clips": len(plan.clips), "rejects": rejects},
        warnings=tuple(warnings),
        manifest=plan.manifest,
    )


def prepare_data(store: ModelStore, programs: Programs) -> StepResult:
    """Extract what is new, tokenise, and see that the champion can read it.

    Raises:
        UserError: If a stage fails, or the champion was made for other landmarks.
    """
    from signloom_ops.nightly.comparison import check_readable  # it loads torch

    programs.dvc("repro", "extract", "tokenize_targets")
    # Now: the check of the data would withdraw clips for what is a wrong option.
    check_readable(store, SHARDS)
    return StepResult(text="landmarks and tokens are those of the corpus")


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftResult(StepResult):
    """The drift reports of the deliveries that no model has seen."""

    reports: tuple[DriftReport, ...]

    @property
    def refused(self) -> list[DriftReport]:
        """The reports of deliveries that would ruin a model."""
        return [report for report in self.reports if report.level == "stop"]


def check_new_clips(
    clips: Sequence[Clip], new: Mapping[str, Collection[str]], options: DriftOptions, path: Path
) -> DriftResult:
    """Compare each delivery with the clips before it.

    Args:
        clips: The corpus.
        new: Delivery to the ids of its clips, in the order in which they came.
        path: Where the worst report is written.
    """
    if not new:
        return DriftResult(text="no clip is new", is_skipped=True, reports=())
    reports = []
    ahead = {name for ids in new.values() for name in ids}
    for batch, ids in new.items():
        ahead -= set(ids)
        clips_so_far = [clip for clip in clips if clip.clip_id not in ahead]
        report = check_drift(clips_so_far, ids, batch=batch, landmarks=LANDMARKS, options=options)
        reports.append(report)
        if report.level == "stop":
            ahead |= set(ids)  # later ones are not compared with what will go
    texts, warnings = [], []
    for report in reports:
        counts = ", ".join(
            f"{len(findings)} {level}"
            for level in ("warn", "stop")
            if (findings := report.of(level))
        )
        texts.append(f"{report.new} new clips of {report.batch}: {counts or 'no finding'}")
        warnings += [
            f"batch {report.batch}: {finding.what}; {finding.hint}".rstrip("; ")
            for finding in report.of("warn")
        ]
    worst = max(reports, key=lambda report: LEVELS.index(report.level))
    write_report(path, worst)
    return DriftResult(
        text="; ".join(texts),
        warnings=tuple(warnings),
        reports=tuple(reports),
        facts={"level": worst.level},
    )


def withdraw_delivery(corpus: CorpusOptions, refused: DriftReport, manifest: Manifest) -> Changed:
    """Take a delivery that was refused out of the corpus again."""
    reason = reason_of(refused)
    withdrawn, manifest_after = withdraw(corpus, refused.batch, reason, former=manifest)
    return Changed(
        text=f"in {WITHDRAWN_VIDEOS}: {count_of(len(withdrawn), 'clip')} of batch {refused.batch}",
        facts={"batch": refused.batch, "clips": len(withdrawn)},
        warnings=(f"batch {refused.batch} was refused: {reason}",),
        manifest=manifest_after,
    )


def withdraw_ended_clips(corpus: CorpusOptions, manifest: Manifest) -> Changed:
    """Take the clips out of the corpus whose signers agreed until a day that is over."""
    withdrawn, manifest_after = withdraw_ended(corpus, former=manifest)
    text = f"{count_of(len(withdrawn), 'clip')} left the corpus: {ENDED}"
    hint = "models that learnt from them carry traces; `signloom forget` marks them"
    return Changed(
        text=text,
        facts={"clips": [clip.clip_id for clip in withdrawn]},
        warnings=(f"{text}; {hint}",),
        manifest=manifest_after,
    )


def reason_of(refused: DriftReport) -> str:
    """Return why a delivery was refused."""
    return "; ".join(finding.what for finding in refused.of("stop"))


def why_not_train(checked: DriftResult, delivered: Collection[str]) -> str:
    """Say why no model can be trained on what is left; empty: one can.

    Args:
        checked: What was found.
        delivered: Batches that a delivery brought. What none brought waits for a person.
    """
    stays = any(report.batch not in delivered for report in checked.refused)
    if not stays and len(checked.refused) < max(len(checked.reports), 1):
        return ""
    reasons = "; ".join(f"{report.batch}: {reason_of(report)}" for report in checked.refused)
    if not stays:
        return reasons
    return (
        f"{reasons}. No delivery brought the {BY_HAND}, so they stay: take them out of the "
        "manifest, or correct them"
    )


def train(start_from: str, programs: Programs) -> StepResult:
    """Train a challenger, from the weights in a folder or from scratch (an empty name)."""
    write_start(start_from)
    # Alone, as is `evaluate`: what it reads was brought up to date tonight.
    programs.dvc("repro", "--single-item", "train")
    return StepResult(text=f"from {start_from or 'scratch'}", facts={"start_from": start_from})


def evaluate(programs: Programs) -> StepResult:
    """Score the challenger."""
    programs.dvc("repro", "--single-item", "evaluate")
    return StepResult(text=f"{EVALUATION} is of the new model")


def keep_version(
    store: ModelStore,
    clips: Sequence[Clip],
    params: Path,
    *,
    parent: int | None,
    reasons: Sequence[str],
) -> StepResult:
    """Keep the model that was just trained as the next version.

    Args:
        clips: The corpus.
        parent: Version whose weights it started from; None: from scratch.
    """
    facts = gather_facts(clips, params=params, parent=parent, reasons=reasons)
    version = store.add(CHECKPOINT, EVALUATION, facts)
    return StepResult(text=f"version {version}", facts={"version": version})


@dataclass(frozen=True, kw_only=True, slots=True)
class Decided(StepResult):
    """A decision about a version."""

    decision: Mapping[str, Any]
    """The map of a `gate.Decision`."""


def decide_and_promote(
    store: ModelStore, version: int, clips: Sequence[Clip], settings: Settings, path: Path
) -> Decided:
    """Let the gate compare a version with the champion, and promote it if the gate decides so.

    Args:
        version: The challenger.
        clips: The corpus.
        path: Where a copy of the decision is written.
    """
    from signloom_ops.nightly.comparison import ask_gate, read_inputs  # it loads torch

    inputs = read_inputs(clips, settings.params)
    decision = ask_gate(store, version, inputs, settings.ops.gate).to_map()
    write_file(path, to_text(decision))
    store.apply_decision(decision, by="retrain")
    facts = {name: decision[name] for name in ("promote", "level_tonight", "refused_in_a_year")}
    return Decided(text=decision["verdict"], facts=facts, decision=decision)


def note_corpus(store: ModelStore, version: int, clips: Sequence[Clip]) -> StepResult:
    """Note that a version which was decided on before is also a model of this corpus."""
    if (key := corpus_key(clips)) not in corpora_of(store, version):
        store.mark(version, ALSO, sorted({*store.marks(version).get(ALSO, []), key}))
    text = f"version {version} was decided on before"
    return StepResult(text=text, is_skipped=True)


# What follows comes after the decision: what fails of it is a warning and stops nothing.


def describe_version(store: ModelStore, version: int, corpus: Path) -> StepResult:
    """Write the card of a version; `corpus` is the folder with the terms of the recordings."""
    card = write_card(store.folder(version), corpus, marks=store.marks(version))
    return StepResult(text=str(card))


def update_registry(store: ModelStore, tracking: TrackingOptions) -> StepResult:
    """Make MLflow's registry equal to the store."""
    if not tracking.enabled:
        return StepResult(text="tracking is off", is_skipped=True)
    return StepResult(text="; ".join(sync_registry(store, tracking)) or "nothing to change")


def build_report(programs: Programs) -> StepResult:
    """Build the report of the new model."""
    TUNE.mkdir(parents=True, exist_ok=True)  # DVC wants it, the report does without a search
    # Alone: with its upstream a search would begin.
    programs.dvc("repro", "--single-item", "report")
    return StepResult(text=f"{REPORT_PAGE} is of the new model")


def track_models(programs: Programs) -> StepResult:
    """Have DVC keep the models."""
    if MODELS.is_dir():
        programs.dvc("add", str(MODELS))
    return StepResult(text=f"{MODELS}.dvc names the versions")


def commit_night(night: Mapping[str, Any], corpus: Path, programs: Programs) -> StepResult:
    """Commit the files that a night writes, and no others."""
    written = [
        START,
        DVC_LOCK,
        Path(f"{MODELS}.dvc"),
        Path("data/.gitignore"),
        Path(f"{corpus}.dvc"),
        corpus.parent / ".gitignore",
        METRICS,
    ]
    paths = [str(path) for path in dict.fromkeys(written) if path.is_file()]
    programs.git("add", "--", *paths)
    changed = programs.git("diff", "--cached", "--name-only", "--", *paths).split()
    if not changed:
        return StepResult(text="nothing has changed")
    champion = f"version {night['champion']}" if night["champion"] else "none"
    is_new = night["champion"] != night["champion_before"]
    title = f"Retrain: champion is {champion}{', new' if is_new else ', as before'}"
    message = ("--message", title, "--message", night["verdict"])
    programs.git("commit", "--quiet", *message, "--", *paths)
    return StepResult(text=f"{count_of(len(changed), 'file')}: {title}")


def push_versions(remote: str, programs: Programs) -> StepResult:
    """Send data and models to a DVC remote."""
    programs.dvc("push", "--remote", remote)
    return StepResult(text=f"to {remote}")
