"""Text and folders come in, and are on the disk when the call returns, whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_durably(path: Path, text: str) -> None:
    """Replace a file by one rename, after its bytes are on the disk: a power cut tears nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def rename_durably(folder: Path, name: Path) -> None:
    """Give a folder its name after everything in it is on the disk.

    Raises:
        OSError: If there is a folder of that name with something in it.
    """
    for path in [*folder.rglob("*"), folder]:
        _sync(path)
    folder.rename(name)
    _sync(name.parent)


def to_text(content: Mapping[str, Any]) -> str:
    """Return JSON as all files here have it."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
