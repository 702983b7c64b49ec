"""A corpus folder comes in, its present state becomes a version of DVC's."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from signloom.config import UserError, load_params


def track_version(folder: Path) -> str:
    """`dvc add` a corpus folder, so that it can be rolled back.

    Returns:
        What was done, or why nothing, in a phrase.
    """
    place = folder.resolve()
    root = next((one for one in place.parents if (one / ".dvc").is_dir()), None)
    if root is None:
        return f"{folder} lies in no DVC repository: no version of it is kept"
    if importlib.util.find_spec("dvc") is None:
        return "DVC is not installed: no version is kept"
    # The Python that runs us: `dvc` may be another's.
    command = [sys.executable, "-m", "dvc", "add", "--quiet", str(place)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())
        return f"`dvc add {folder}` failed ({why}): no version is kept"
    pointer = place.with_name(f"{place.name}.dvc").relative_to(root)
    return f"{pointer.as_posix()} names the version; commit it with Git"


def track_again(folder: Path) -> str:
    """`dvc add` a folder that DVC knows, so that a pull finds no change it did not expect.

    Returns:
        What `track_version` says; empty where DVC does not know the folder.
    """
    return track_version(folder) if folder.with_name(f"{folder.name}.dvc").is_file() else ""


def refuse_drawn(folder: Path) -> None:
    """Refuse a folder that a stage of DVC writes.

    Raises:
        UserError: If the project's files say that one does.
    """
    place = folder.resolve()
    for parent in place.parents:
        if (path := parent / "dvc.yaml").is_file():
            for name, stage in load_params(path).get("stages", {}).items():
                if any(place == out or out in place.parents for out in _outs(parent, stage)):
                    raise UserError(
                        f"{folder} is written by the stage `{name}` of {path}, which would write "
                        "it anew without what came in. Make a corpus of your own (`signloom "
                        "init`), name it in params.yaml (corpus.folder) and run this again"
                    )
        if (parent / ".dvc").is_dir():
            return


def _outs(parent: Path, stage: dict[str, Any]) -> list[Path]:
    """Return what a stage writes."""
    base = parent / stage.get("wdir", ".")
    outs = [next(iter(out)) if isinstance(out, dict) else out for out in stage.get("outs", [])]
    return [(base / str(out)).resolve() for out in outs]
