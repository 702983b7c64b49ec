"""How a stage starts and ends."""

import sys
from collections.abc import Callable
from pathlib import Path

from signloom.log import StageLog, open_log
from signloom.terminal import run_program


def run(main: Callable[[], None]) -> None:
    """Run a stage; a user's mistake ends in its message and exit code 1, not in a traceback."""
    logs: list[StageLog] = []

    def work() -> None:
        # Here, since every worker process of a stage loads this module.
        from signloom.tracking.stages import track_stage

        # `pipeline/train.py`, `studies/gradients/run.py`
        script = Path(sys.argv[0])
        stage = script.parent.name if script.stem == "run" else script.stem
        logs.append(open_log(stage))
        with track_stage(stage):
            main()

    run_program(
        work,
        stopped="stopped; `dvc repro` starts this stage again",
        before="\n",
        keep=lambda text: [log.keep("ERROR", text) for log in logs],
    )
