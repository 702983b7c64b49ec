"""TODO: say the noun."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signloom.config import load_section, update_params
from signloom.corpus.manifest import Clip, read_manifest
from signloom.files import to_text, write_file
from signloom.intake.drift.check import check_drift
from signloom.intake.drift.findings import LEVELS, DriftReport, write_report
from signloom.intake.ingest import ingest
from signloom.intake.ledgers import read_deliveries
from signloom.intake.withdraw import withdraw
from signloom.nightly.commands import Commands
from signloom.nightly.plan import (
    ALSO,
    BY_HAND,
    Settings,
    Start,
    choose_parent,
    corpus_key,
    gather_facts,
    new_clips,
)
from signloom.nightly.record import Summary
from signloom.nightly.store import ModelStore
from signloom.paths import CHECKPOINT, EVALUATION, LANDMARKS, SHARDS, TARGETS, WITHDRAWN_VIDEOS

DRIFT, DECISION = "drift.json", "decision.json"


class RefusedDataError(Exception):
    """Every new clip was refused; the corpus is what it was, or waits for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tonight:
    """What every step of a night uses."""

    settings: Settings
    store: ModelStore
    summary: Summary
    commands: Commands

    def read_clips(self) -> list[Clip]:
        """Return the corpus as it is now."""
        corpus = self.settings.corpus
        return read_manifest(corpus.path, corpus.signer_disjoint)


def take_deliveries(night: Tonight) -> None:
    """Bring what lies in the inbox into the corpus."""
    retrain, corpus = night.settings.retrain, night.settings.corpus
    with night.summary.step("ingest") as step:
        sources = [retrain.inbox] if retrain.inbox.is_dir() else []
        day = datetime.now().astimezone().date().isoformat()
        found = ingest(corpus, sources, retrain.ingest, day=day, inbox=True)
        parts = [f"{len(found.clips)} new clips", f"{found.known} known"]
        if found.batch:
            parts[0] += f" as batch {found.batch}"
        if found.rejects:
            parts.append(f"{len(found.rejects)} rejected")
        if found.waiting:
            parts.append(f"{len(found.waiting)} files still changing: next time")
        rejects = [f"{row.where}: {row.reason}" for row in found.rejects]
        step.say(", ".join(parts), batch=found.batch, clips=len(found.clips), rejects=rejects)
    if found.rejects:
        night.summary.warn(
            f"{len(found.rejects)} files of the inbox were rejected, such as {rejects[0]}; "
            f"{corpus.folder}/intake_rejects.tsv has them all"
        )


def prepare_data(night: Tonight, name: str = "extract") -> None:
    """Extract what is new, tokenise, and see that the champion can read it."""
    from signloom.nightly.candidates import check_readable

    with night.summary.step(name) as step:
        night.commands.dvc("repro", "extract", "tokenize_targets")
        # Now: the check of the data would withdraw clips for what is a wrong option.
        check_readable(night.store, SHARDS)
        step.say("landmarks and tokens are those of the corpus")


def check_data(night: Tonight) -> None:
    """Compare the new clips with the old; withdraw deliveries that would ruin a model.

    Raises:
        RefusedDataError: If nothing new is left, or clips that no delivery brought are refused.
    """
    with night.summary.step("drift") as step:
        new = new_clips(night.read_clips(), night.store)
        night.summary.note(batches=[name for name in new if name != BY_HAND])
        if not new:
            step.skip("no clip is new")
            return
        reports = _compare(night, new)
        worst = max(reports, key=lambda one: LEVELS.index(one.level))
        write_report(night.summary.folder / DRIFT, worst)
        refused = [one for one in reports if one.level == "stop"]
        step.say(_describe(reports), level=worst.level)
    for report in reports:
        for finding in report.of("warn"):
            night.summary.warn(f"batch {report.batch}: {finding.what}; {finding.mend}".rstrip("; "))
    if refused:
        _refuse(night, refused, is_all=len(refused) == len(reports))


def _compare(night: Tonight, new: dict[str, list[str]]) -> list[DriftReport]:
    """Check each delivery against the clips before it."""
    clips, reports = night.read_clips(), []
    ahead = {name for ids in new.values() for name in ids}
    for batch, ids in new.items():
        ahead -= set(ids)
        there = [clip for clip in clips if clip.clip_id not in ahead]
        report = check_drift(
            there, ids, batch=batch, landmarks=LANDMARKS, options=night.settings.retrain.drift
        )
        reports.append(report)
        if report.level == "stop":
            ahead |= set(ids)  # later ones are not compared with what will go
    return reports


def _refuse(night: Tonight, refused: Sequence[DriftReport], *, is_all: bool) -> None:
    """Take refused deliveries out of the corpus again; what none brought waits for a person."""
    known = {delivery.batch for delivery in read_deliveries(night.settings.corpus)}
    said, waits = [], ""
    for report in refused:
        reason = "; ".join(finding.what for finding in report.of("stop"))
        said.append(f"{report.batch}: {reason}")
        if report.batch not in known:
            waits = (
                f". No delivery brought the {BY_HAND}, so they stay: take them out of the "
                "manifest, or mend them"
            )
            continue
        with night.summary.step("withdraw") as step:
            gone = withdraw(night.settings.corpus, report.batch, reason)
            step.say(f"{len(gone)} clips of batch {report.batch} are in {WITHDRAWN_VIDEOS}",
                     batch=report.batch, clips=len(gone))  # fmt: skip
        night.summary.warn(f"batch {report.batch} was refused: {reason}")
    prepare_data(night, "extract again")
    if is_all or waits:
        raise RefusedDataError("; ".join(said) + waits)


def train_challenger(night: Tonight, start: Start) -> int:
    """Train, evaluate and keep the model as a version; return its number."""
    parent = choose_parent(night.store, start)
    folder = str(night.store.checkpoint(parent)) if parent is not None else ""
    if start == "champion" and parent is None and night.store.champion() is not None:
        night.summary.warn(
            "training starts from scratch: the champion learnt from a signer who was forgotten"
        )
    with night.summary.step("train") as step:
        update_params(night.settings.params, {"train": {"start_from": folder}})
        # Alone, as is `evaluate`: what it reads was brought up to date tonight.
        night.commands.dvc("repro", "--single-item", "train")
        step.say(f"from {folder or 'scratch'}", start_from=folder)
    with night.summary.step("evaluate") as step:
        night.commands.dvc("repro", "--single-item", "evaluate")
        step.say(f"{EVALUATION} is of the new model")
    with night.summary.step("keep") as step:
        facts = gather_facts(
            night.read_clips(),
            params=night.settings.params,
            parent=parent,
            reasons=night.summary.content["reasons"],
        )
        version = night.store.add(CHECKPOINT, EVALUATION, facts)
        step.say(f"version {version}", version=version)
    night.summary.note(version=version)
    return version


def decide(night: Tonight, version: int) -> dict[str, Any]:
    """Let the gate compare a version with the champion; promote it if it says so."""
    with night.summary.step("gate") as step:
        if (decision := night.store.decision(version)) is not None:
            keys = {*night.store.marks(version).get(ALSO, []), corpus_key(night.read_clips())}
            night.store.mark(version, ALSO, sorted(keys))
            step.skip(f"version {version} was decided on before: {decision['verdict']}")
            return decision
        # They load torch.
        from signloom.evaluation.evaluate import EvaluateOptions
        from signloom.nightly.candidates import GateInputs, ask_gate, newest_first

        evaluate = load_section(night.settings.params, "evaluate", EvaluateOptions)
        batches = newest_first(night.read_clips())
        inputs = GateInputs(shards=SHARDS, targets=TARGETS, batches=batches, score=evaluate.score)
        made = ask_gate(night.store, version, inputs, night.settings.retrain.gate).to_map()
        write_file(night.summary.folder / DECISION, to_text(made))
        night.store.settle(made, by="retrain")
        step.say(made["verdict"], promote=made["promote"])
    return made


def finish_promotion(night: Tonight, version: int) -> None:
    """Promote what the gate had decided to promote when the power went."""
    past = {change.version for change in night.store.pointer().history}
    decision = night.store.decision(version)
    if decision is None or version in past or night.store.refusal(version) is not None:
        return
    with night.summary.step("promote") as step:
        night.store.settle(decision, by="retrain")
        step.say(f"version {version}, as was decided before the last night was cut")


def _describe(reports: Sequence[DriftReport]) -> str:
    parts = []
    for report in reports:
        counts = ", ".join(f"{len(found)} {level}" for level in ("warn", "stop")
                           if (found := report.of(level)))  # fmt: skip
        parts.append(f"{report.new} new clips of {report.batch}: {counts or 'nothing to say'}")
    return "; ".join(parts)
