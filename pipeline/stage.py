"""How a stage starts and ends."""

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from signloom.config import get_map, load_params
from signloom.errors import UserError
from signloom.log import GROUP, StageLog, open_log
from signloom.paths import PARAMS, removal_note
from signloom.provenance import project_folder
from signloom.terminal import run_program


def run(main: Callable[[], Callable[[], None] | None], *, kept: str = "") -> None:
    """Run a stage; a user's mistake ends in its message and exit code 1, not in a traceback.

    A stage of DVC fails, too, if what it read was changed while it ran.

    Args:
        main: The stage's work; what it returns is called when nothing was changed, and removes
            what another run would need.
        kept: What a run that fails so keeps for the next one, as a sentence; empty: nothing.
    """
    logs: list[StageLog] = []

    def work() -> None:
        # Here, since every worker process of a stage loads this module.
        from pipeline.inputs import StageInputs
        from signloom.tracking.stages import track_stage

        # `pipeline/train.py`, `studies/gradients/run.py`
        script = Path(sys.argv[0])
        stage = script.parent.name if script.stem == "run" else script.stem
        # A process that belongs to a stage is none: `train_apart`, torchrun.
        is_first = GROUP not in os.environ and os.environ.get("RANK", "0") == "0"
        address = os.environ.get("DVC_STAGE", "") if is_first else ""
        if is_first and (address or script.parent.name == "pipeline"):
            _refuse_during_removal()  # before the log is opened, which a removal removes
        logs.append(open_log(stage))
        inputs = StageInputs.read(address) if address else None
        with inputs.watched(stage) if inputs else nullcontext(), track_stage(stage):
            finish = main()
        if inputs and (changes := inputs.changes()):
            raise UserError(describe_edits(stage, changes, kept))
        if finish:
            finish()

    run_program(
        work,
        stopped="stopped; `dvc repro` starts this stage again",
        before="\n",
        keep=lambda text: [log.keep("ERROR", text) for log in logs],
    )


def describe_edits(stage: str, changes: list[str], kept: str) -> str:
    """Return why a stage fails whose inputs were changed while it ran, and what to do."""
    listed = "\n".join(f"  {change}" for change in changes)
    is_experiment = "DVC_EXP_BASELINE_REV" in os.environ  # whose -S values DVC writes again
    command = "the same `dvc exp run`" if is_experiment else "`dvc repro`"
    return (
        f"what stage `{stage}` reads was changed while it ran:\n{listed}\n"
        "DVC would note this for a result that was made without it, so the stage fails and nothing "
        f"is noted. Run {command} again: it runs with what is there now. {kept}".rstrip()
    )


def _refuse_during_removal() -> None:
    """Refuse to run while `signloom forget` removes a person, whom the stage would write again.

    Raises:
        UserError: If a removal is at work, or was interrupted.
    """
    try:
        folder = get_map(load_params(PARAMS), "corpus").get("folder")
    except UserError:  # the stage says so
        return
    if isinstance(folder, str) and (note := removal_note(project_folder() / folder)).is_file():
        raise UserError(
            f"a person is being removed from the corpus, or the removal was interrupted ({note}); "
            "wait until `signloom forget` ends, or run the same `signloom forget` again, then this"
        )
