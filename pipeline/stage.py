"""How a stage starts and ends."""

import logging
import sys
from collections.abc import Callable

from signloom.errors import UserError


def run(main: Callable[[], None]) -> None:
    """Run a stage; a user's mistake ends in its message and exit code 1, not in a traceback."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        main()
    except UserError as error:
        sys.exit(f"\nerror: {error}")
    except KeyboardInterrupt as stop:
        sys.exit(f"\n{stop}" if stop.args else "\nstopped; `dvc repro` starts this stage again")
