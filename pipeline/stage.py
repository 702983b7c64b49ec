"""How a stage starts and ends."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from signloom.errors import UserError
from signloom.log import open_log


def run(main: Callable[[], None]) -> None:
    """Run a stage; a user's mistake ends in its message and exit code 1, not in a traceback."""
    # `pipeline/train.py`, `pipeline/studies/gradients/run.py`
    script = Path(sys.argv[0])
    log = open_log(script.parent.name if script.stem == "run" else script.stem)
    try:
        main()
    except UserError as error:
        log.keep("ERROR", str(error))
        sys.exit(f"\nerror: {error}")
    except KeyboardInterrupt as stop:
        log.keep("ERROR", "stopped")
        sys.exit(f"\n{stop}" if stop.args else "\nstopped; `dvc repro` starts this stage again")
    except Exception:
        log.keep("ERROR", traceback.format_exc())
        raise
