"""The night (`signloom retrain`): deliveries, data check, training, gate, publishing.

Each may be cut anywhere and run again: what it had done is found, by content.

The order of the steps, and how a night ends. Whatever is cut off, the old champion stays until the
one file that names it is replaced, and the next night goes on.
"""

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from signloom.config import read_json
from signloom.corpus.manifest import read_manifest
from signloom.errors import UserError
from signloom.files import to_text, write_file
from signloom.intake.ingest import ingest
from signloom.intake.staging import track_version
from signloom.nightly.commands import Commands
from signloom.nightly.lock import BusyError, Held, hold_lock, holder
from signloom.nightly.plan import (
    Kind,
    Plan,
    Settings,
    Start,
    choose_parent,
    make_plan,
    read_settings,
)
from signloom.nightly.publish import introduce, keep_versions, show
from signloom.nightly.record import Summary
from signloom.nightly.steps import (
    RefusedDataError,
    Tonight,
    check_data,
    decide,
    finish_promotion,
    prepare_data,
    take_deliveries,
    train_challenger,
)
from signloom.nightly.store import ModelStore
from signloom.paths import MODELS, RETRAIN_UNFINISHED
from signloom.tracking.run import NIGHT, Run

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


STAGES_LOG = "stages.log"

# Exit code and the word for it in night.json.
PROMOTED, ERROR, NOTHING, REFUSED, DATA, BUSY = 0, 1, 3, 4, 5, 6
INTERRUPTED, TERMINATED = 130, 143
OUTCOMES = {
    PROMOTED: "promoted", ERROR: "error", NOTHING: "nothing_new", REFUSED: "refused",
    DATA: "data_refused", BUSY: "busy", INTERRUPTED: "interrupted", TERMINATED: "terminated",
}  # fmt: skip


class Terminated(KeyboardInterrupt):
    """SIGTERM: the end is asked for, not by the terminal."""


def code_of(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a night that was stopped."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a person or a timer asked for."""

    params: Path
    start: Start | None
    """None: as retrain.start says."""
    pull: bool
    """Whether retrain.remote is asked for what is new there."""
    force: bool
    """Train though nothing is new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a night ended."""

    code: int
    verdict: str
    """A sentence."""


def run_night(request: Request) -> dict[str, Any]:
    """Do everything that a night does.

    Returns:
        The content of night.json; without a lock only `outcome`, `exit_code` and `verdict`.

    Raises:
        UserError: If the parameters are wrong, so that nothing could begin.
    """
    settings = read_settings(request.params)
    try:
        with hold_lock() as held, _heed_sigterm():
            return _with_summary(request, settings, held)
    except BusyError as error:
        return {"outcome": OUTCOMES[BUSY], "exit_code": BUSY, "verdict": str(error)}


def foresee_night(request: Request) -> dict[str, Any]:
    """Return what a night would do now; see `foresee`."""
    settings = read_settings(request.params)
    return foresee(
        settings,
        start=request.start or settings.retrain.start,
        to_finish=read_unfinished(),
        force=request.force,
    )


def _with_summary(request: Request, settings: Settings, held: Held) -> dict[str, Any]:
    """Run the steps; whatever comes of them, the summary says it and the hook is called."""
    summary = Summary()
    commands = Commands(
        lock=held.handle, log=summary.folder / STAGES_LOG, night=summary.content["key"]
    )
    night = Tonight(settings=settings, store=ModelStore(), summary=summary, commands=commands)
    if held.left:
        summary.warn(f"{held.left}, left its lock behind: it was killed, or the power went")
    try:
        ending = _run_steps(night, request)
    except (UserError, OSError) as error:
        ending = Ending(code=ERROR, verdict=str(error))
    except KeyboardInterrupt as stop:
        ending = Ending(
            code=code_of(stop), verdict="it was stopped; the next night goes on where it was"
        )
    except Exception as error:
        _end(night, Ending(code=ERROR, verdict=f"{type(error).__name__}: {error}"))
        raise
    _end(night, ending)
    return summary.content


def _end(night: Tonight, ending: Ending) -> None:
    """Close the summary and call the hook."""
    night.summary.end(OUTCOMES[ending.code], ending.code, ending.verdict)
    if hook := night.settings.retrain.hook:
        try:
            night.commands.hook(hook, night.summary.path)
        except UserError as error:
            night.summary.warn(str(error))


def _run_steps(night: Tonight, request: Request) -> Ending:
    """Look for something to do, and do it."""
    retrain, store, summary = night.settings.retrain, night.store, night.summary
    if retrain.remote and request.pull:
        _pull(night)
    summary.note(champion_before=store.champion())
    if (to_finish := read_unfinished()) is not None:
        finish_promotion(night, to_finish)
    summary.note(champion=store.champion())
    with summary.step("plan") as step:
        plan = make_plan(night.settings, store, to_finish=to_finish, force=request.force)
        summary.note(reasons=list(plan.reasons))
        step.say("; ".join(plan.reasons) or "nothing is new")
    if plan.kind == "nothing":
        RETRAIN_UNFINISHED.unlink(missing_ok=True)
        return Ending(code=NOTHING, verdict="nothing is new")
    _write_unfinished(to_finish)
    with Run.start(
        night.settings.tracking, "night", stage="retrain", key=summary.content["key"],
        note="; ".join(plan.reasons), tags={NIGHT: summary.content["key"]},
    ) as log:  # fmt: skip
        if plan.kind == "train":
            take_deliveries(night)
            plan = make_plan(night.settings, store, to_finish=to_finish, force=request.force)
        ending = _work(night, request, plan, log)
        outcome = OUTCOMES[ending.code]
        log.set_tags({"outcome": outcome, "champion": str(summary.content["champion"])})
    RETRAIN_UNFINISHED.unlink(missing_ok=True)
    return ending


def _work(night: Tonight, request: Request, plan: Plan, log: Run) -> Ending:
    """Do what the plan says, from the corpus to the remote."""
    store, decision = night.store, None
    if plan.kind == "nothing":
        return Ending(code=NOTHING, verdict="nothing that came in was new")
    try:
        if plan.kind == "finish":
            assert plan.version is not None
            version = plan.version
        else:
            prepare_data(night)
            check_data(night)
            start = request.start or night.settings.retrain.start
            version = train_challenger(night, start)
            if store.decision(version) is not None:
                decide(night, version)  # which notes that it is of this corpus, too
                keep_versions(night)
                again = f"the training gave version {version} again, which was decided on before"
                return Ending(code=NOTHING, verdict=again)
        _write_unfinished(version)
        decision = decide(night, version)
        code, verdict = PROMOTED if decision["promote"] else REFUSED, decision["verdict"]
        champion = store.champion()
        night.summary.note(version=version, champion=champion, verdict=verdict)
        log.set_tags({"version": str(version), "decision": verdict})
        log.log_metrics(decision["scores"])
        introduce(night, version)
    except RefusedDataError as refusal:
        code, verdict = DATA, str(refusal)
        night.summary.note(verdict=verdict)
    show(night, OUTCOMES[code], decision)
    keep_versions(night)
    return Ending(code=code, verdict=verdict)


def read_unfinished() -> int | None:
    """Return the version that came to the gate in a night that was cut or failed later."""
    if not RETRAIN_UNFINISHED.is_file():
        return None
    found = read_json(RETRAIN_UNFINISHED, hint=f"remove {RETRAIN_UNFINISHED}")
    version: int | None = found["version"]
    return version


def _write_unfinished(version: int | None) -> None:
    write_file(RETRAIN_UNFINISHED, to_text({"version": version}))


def _pull(night: Tonight) -> None:
    """Fetch the corpus and the models that other machines pushed.

    Not what stages wrote: they make it again from the corpus, and after a cut DVC would refuse to
    replace what it had not recorded yet. What a cut night had not tracked is tracked first, for
    the same reason.
    """
    corpus, retrain = night.settings.corpus.folder, night.settings.retrain
    with night.summary.step("pull") as step:
        if RETRAIN_UNFINISHED.is_file():
            track_version(corpus)
            if MODELS.is_dir():
                night.commands.dvc("add", str(MODELS))
        pointers = [Path(f"{folder}.dvc") for folder in (corpus, MODELS)]
        there = [str(path) for path in pointers if path.is_file()]
        if not there:
            step.skip(f"neither {pointers[0]} nor {pointers[1]} is there")
            return
        night.commands.dvc("pull", "--remote", retrain.remote, *there)
        step.say(f"{' and '.join(there)} from {retrain.remote}")


@contextlib.contextmanager
def _heed_sigterm() -> Iterator[None]:
    """Let SIGTERM end the night in words, as Ctrl-C does."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
