"""A night (`signloom retrain`): deliveries, data, training, the gate, publishing, in this order.

A step may be interrupted anywhere: the next night finds by its content what was done, and goes on.
The old champion stays until the one file that names the champion is replaced.
"""

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from signloom.corpus.manifest import Clip, Manifest, load_manifest
from signloom.errors import UserError, explain
from signloom.paths import NIGHTS, REPORTS, START
from signloom.tracking.run import NIGHT, Run, RunOf
from signloom_ops.intake.changes import is_unfinished, read_deliveries
from signloom_ops.intake.withdraw import list_ended
from signloom_ops.lock import BusyError, Held, hold_lock
from signloom_ops.nightly import steps
from signloom_ops.nightly.plan import (
    BY_HAND,
    NightPlan,
    NightRequest,
    Settings,
    choose_parent,
    make_plan,
    new_clips,
    read_settings,
)
from signloom_ops.nightly.programs import Programs
from signloom_ops.nightly.record import NightRecord
from signloom_ops.nightly.store import DECISION, ModelStore, remove_half_written

STAGES_LOG, DRIFT = "stages.log", "drift.json"  # next to night.json

# Exit code and the word for it in night.json.
PROMOTED, ERROR, NOTHING, REFUSED, DATA, BUSY = 0, 1, 3, 4, 5, 6
INTERRUPTED, TERMINATED = 130, 143
OUTCOMES = {
    PROMOTED: "promoted",
    ERROR: "error",
    NOTHING: "nothing_new",
    REFUSED: "refused",
    DATA: "data_refused",
    BUSY: "busy",
    INTERRUPTED: "interrupted",
    TERMINATED: "terminated",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM: the end is asked for, not by the terminal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a night ended."""

    code: int
    verdict: str
    """A sentence."""


def run_night(request: NightRequest) -> dict[str, Any]:
    """Do everything that a night does.

    Returns:
        The content of night.json; without a lock only `outcome`, `exit_code` and `verdict`.

    Raises:
        UserError: If the parameters are wrong, so that nothing could begin.
    """
    settings = read_settings(request.params)
    try:
        with hold_lock() as held, _end_on_sigterm():
            return _run_recorded(request, settings, held)
    except BusyError as error:
        return {"outcome": OUTCOMES[BUSY], "exit_code": BUSY, "verdict": str(error)}


def _run_recorded(request: NightRequest, settings: Settings, held: Held) -> dict[str, Any]:
    """Run the steps; however they end, the record has it."""
    record = NightRecord()
    log_path, key = record.folder / STAGES_LOG, record.content["key"]
    programs = Programs(lock=held.handle, log=log_path, night=key)
    night = _Night(request, settings, ModelStore(), programs, record)
    if held.left:
        record.warn(f"{held.left}, left its lock behind: it was killed, or the power went")
    try:
        ending = night.run()
    except (UserError, OSError) as error:
        ending = Ending(code=ERROR, verdict=explain(error) or str(error))
    except KeyboardInterrupt as stop:
        verdict = "it was stopped; the next night goes on where it was"
        ending = Ending(code=code_of(stop), verdict=verdict)
    except Exception as error:
        _end(record, Ending(code=ERROR, verdict=f"{type(error).__name__}: {error}"))
        raise
    _end(record, ending)
    return record.content


@dataclass(frozen=True, slots=True)
class _Night:
    """The steps of a night, in this order.

    `run`: track (if a night was interrupted), pull, finish_change (likewise), consents, plan,
    ingest. `_train_and_decide`: extract; drift, withdraw, extract again; train, evaluate, keep;
    gate, which promotes. `_publish_decision`: card, registry. `_publish`: report, track, commit,
    push.

    A step that fails ends the night (`record.step`), or only warns (`record.attempt`).
    """

    request: NightRequest
    settings: Settings
    store: ModelStore
    programs: Programs
    record: NightRecord

    def run(self) -> Ending:
        """Look for something to do, and do it."""
        settings, store, record = self.settings, self.store, self.record
        corpus, remote = settings.corpus, settings.ops.remote
        store.settle()
        for folder in (NIGHTS, REPORTS, START.parent):
            remove_half_written(folder)
        if remote:
            if record.has_untracked:
                record.step("track", steps.track_interrupted, corpus.folder, self.programs)
            record.step("pull", steps.pull_versions, corpus.folder, remote, self.programs)
        champion = store.champion()
        record.note(champion_before=champion, champion=champion)
        if is_unfinished(corpus):
            record.step("finish_change", steps.finish_change, corpus)

        manifest, to_finish = load_manifest(corpus), record.content["version"]
        if list_ended(manifest.clips):
            changed = record.step("consents", steps.withdraw_ended_clips, corpus, manifest)
            manifest = changed.manifest
        force = self.request.force
        plan = record.step(
            "plan", make_plan, settings, manifest, store, to_finish=to_finish, force=force
        )
        record.note(reasons=list(plan.reasons))
        if plan.kind == "nothing":
            record.note(version=None)
            return Ending(code=NOTHING, verdict="nothing is new")
        with Run.start(
            settings.tracking,
            RunOf(stage="retrain", name="night", key=record.content["key"]),
            note="; ".join(plan.reasons),
            tags={NIGHT: record.content["key"]},
        ) as mlflow_run:
            if plan.kind == "train":
                grown = record.step("ingest", steps.take_deliveries, corpus, settings.ops, manifest)
                manifest = grown.manifest
                plan = make_plan(
                    settings, manifest, store, to_finish=to_finish, force=force, is_ingested=True
                )
            ending = self._train_and_decide(plan, manifest, mlflow_run)
            champion = record.content["champion"]
            mlflow_run.set_tags({"outcome": OUTCOMES[ending.code], "champion": str(champion)})
        return ending

    def _train_and_decide(self, plan: NightPlan, manifest: Manifest, mlflow_run: Run) -> Ending:
        """Do what the plan says, from the corpus to the remote."""
        store, record = self.store, self.record
        if plan.kind == "nothing":
            record.note(version=None)
            return Ending(code=NOTHING, verdict="nothing that came in was new")
        if plan.version is not None and (decision := store.decision(plan.version)):
            return self._publish_decision(plan.version, decision, mlflow_run)
        record.step("extract", steps.prepare_data, store, self.programs)
        clips, refusal = self._check_new_clips(manifest)
        if refusal:
            record.note(version=None, verdict=refusal)
            return self._publish(Ending(code=DATA, verdict=refusal))
        version = self._train(clips)
        if store.decision(version) is not None:
            record.step("gate", steps.note_corpus, store, version, clips)
            self._publish_versions()
            record.note(version=version)
            again = f"the training gave version {version} again, which was decided on before"
            return Ending(code=NOTHING, verdict=again)
        record.note(version=version)  # from here on the next night can finish this one
        decided = record.step(
            "gate",
            steps.decide_and_promote,
            store,
            version,
            clips,
            self.settings,
            record.folder / DECISION,
        )
        return self._publish_decision(version, decided.decision, mlflow_run)

    def _publish_decision(
        self, version: int, decision: Mapping[str, Any], mlflow_run: Run
    ) -> Ending:
        """Say everywhere what was decided on a version."""
        settings, store, record = self.settings, self.store, self.record
        verdict = decision["verdict"]
        record.note(version=version, champion=store.champion(), verdict=verdict)
        mlflow_run.set_tags({"version": str(version), "decision": verdict})
        mlflow_run.log_metrics(decision["scores"])
        record.attempt("card", steps.describe_version, store, version, settings.corpus.folder)
        record.attempt("registry", steps.update_registry, store, settings.tracking)
        code = PROMOTED if decision["promote"] else REFUSED
        return self._publish(Ending(code=code, verdict=verdict))

    def _check_new_clips(self, manifest: Manifest) -> tuple[Sequence[Clip], str]:
        """Compare new clips with old ones; withdraw deliveries that would ruin a model.

        Returns:
            The corpus that is left; why no model can be trained on it, empty if one can.
        """
        corpus, record, clips = self.settings.corpus, self.record, manifest.clips
        new, options = new_clips(clips, self.store), self.settings.ops.drift
        record.note(batches=[name for name in new if name != BY_HAND])
        checked = record.step(
            "drift", steps.check_new_clips, clips, new, options, record.folder / DRIFT
        )
        if not checked.refused:
            return clips, ""
        delivered = {delivery.batch for delivery in read_deliveries(corpus)}
        for report in checked.refused:
            if report.batch in delivered:
                changed = record.step("withdraw", steps.withdraw_delivery, corpus, report, manifest)
                manifest = changed.manifest
        record.step("extract again", steps.prepare_data, self.store, self.programs)
        return manifest.clips, steps.why_not_train(checked, delivered)

    def _train(self, clips: Sequence[Clip]) -> int:
        """Train, score and keep a challenger; return its number."""
        settings, store, record = self.settings, self.store, self.record
        start = self.request.start or settings.ops.start
        parent = choose_parent(store, start)
        start_from = str(store.checkpoint(parent)) if parent is not None else ""
        if start == "champion" and parent is None and store.champion() is not None:
            record.warn(
                "training starts from scratch: the champion learnt from a signer who was forgotten"
            )
        record.step("train", steps.train, start_from, self.programs)
        record.step("evaluate", steps.evaluate, self.programs)
        stored = record.step(
            "keep",
            steps.keep_version,
            store,
            clips,
            settings.params,
            parent=parent,
            reasons=record.content["reasons"],
        )
        return int(stored.facts["version"])

    def _publish(self, ending: Ending) -> Ending:
        """Build the report, keep the versions of data and code; return the ending."""
        self.record.attempt("report", steps.build_report, self.programs)
        self._publish_versions()
        return ending

    def _publish_versions(self) -> None:
        """Track the models with DVC, commit, push; as far as the options ask for it."""
        settings, record, ops = self.settings, self.record, self.settings.ops
        if ops.commit or ops.remote:
            record.attempt("track", steps.track_models, self.programs)
        if ops.commit:
            record.attempt(
                "commit", steps.commit_night, record.content, settings.corpus.folder, self.programs
            )
        if ops.remote:
            record.attempt("push", steps.push_versions, ops.remote, self.programs)


def _end(record: NightRecord, ending: Ending) -> None:
    record.end(OUTCOMES[ending.code], ending.code, ending.verdict)


def code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a night that was stopped."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


@contextlib.contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the night with a verdict, as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        # Asked again it goes on ending; a handler, since children would inherit SIG_IGN.
        signal.signal(signal.SIGTERM, lambda *_: None)
        raise Terminated

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as scripts start what runs behind them
        # Its stages would inherit that, and are asked to end by this signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
