"""The file by which a night says which weights stage `train` starts from."""

import json
from pathlib import Path

from signloom.config import checked_dataclass, load_params, parse_options
from signloom.files import write_file
from signloom.paths import START


@checked_dataclass
class Start:
    """The content of data/start.yaml."""

    start_from: str | None
    """In place of `train.start_from`; None: as that says."""


def read_start(path: Path) -> str | None:
    """Return what replaces `train.start_from`; None where nothing does.

    Raises:
        UserError: If the file is wrong.
    """
    if not path.is_file():
        return None
    return parse_options(load_params(path), Start, where=f"{path}: ").start_from


def write_start(start_from: str | None, path: Path = START) -> None:
    """Set which weights stage `train` starts from; for DVC the file is its dependency.

    Args:
        start_from: Folder of a checkpoint; empty: from scratch; None: as `train.start_from` says.
    """
    head = "# Written by `signloom retrain`. null: as train.start_from of params.yaml says.\n"
    write_file(path, f"{head}start_from: {json.dumps(start_from)}\n")
