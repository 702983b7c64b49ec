"""Where the stages read and write, and how they start; paths are relative to the working folder."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path

from signloom.errors import UserError

PARAMS = Path("params.yaml")
LANDMARKS = Path("data/landmarks")
SHARDS = LANDMARKS / "shards"
TOKENS = Path("data/tokens")
TARGETS = TOKENS / "targets.parquet"
TOKENIZER = TOKENS / "tokenizer.json"
LABELS = TOKENS / "labels.json"
CHECKPOINT = Path("data/checkpoint")
HISTORY = CHECKPOINT / "history.json"
REPORTS = Path("reports")
TUNE = REPORTS / "tune"


def run(main: Callable[[], None]) -> None:
    """Run a stage; a user's mistake ends in its message and exit code 1, not in a traceback."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        main()
    except UserError as error:
        sys.exit(f"\nerror: {error}")
    except KeyboardInterrupt as stop:
        sys.exit(f"\n{stop}" if stop.args else "\nstopped; `dvc repro` starts this stage again")
