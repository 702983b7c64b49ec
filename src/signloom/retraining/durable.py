"""Text and folders come in, and are on the disk when the call returns, whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.reproducibility import flush_to_disk


def write_durably(path: Path, text: str) -> None:
    """Replace a file by one rename, after its bytes are on the disk: a power cut tears nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        flush_to_disk(temporary)
        temporary.replace(path)
        flush_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def rename_durably(folder: Path, name: Path) -> None:
    """Give a folder its name after everything in it is on the disk.

    Raises:
        OSError: If there is a folder of that name with something in it.
    """
    for path in [*folder.rglob("*"), folder]:
        flush_to_disk(path)
    folder.rename(name)
    flush_to_disk(name.parent)


def to_text(content: Mapping[str, Any]) -> str:
    """Return JSON as all files here have it."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
