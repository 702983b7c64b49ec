"""Requests to DVC: versions of folders, the stages' outputs and processes, the cache."""

import functools
import hashlib
import importlib.util
import logging
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from signloom.config import get_map, load_params
from signloom.errors import UserError, name_problem, readable_name
from signloom.grouping import group_pairs
from signloom.paths import REPORTS

_WAIT_S, _PAUSE_S = 600.0, 2.0  # for another DVC
_BUSY = re.compile("unable to acquire lock|is busy|blocked by", re.IGNORECASE)
_LINKED = (Path("data"), REPORTS)  # where DVC puts files

# Words of DVC's commands that run stages, or write what stages made.
_WRITING = {"repro", "run", "exec-run", "queue-worker", "commit", "checkout", "pull", "apply"}

logger = logging.getLogger(__name__)


def check_names(folder: Path) -> None:
    """Refuse a folder with a file that DVC cannot name; it says so itself without the name.

    Raises:
        UserError: If there is one.
    """
    for path in sorted(folder.rglob("*")):
        if problem := name_problem(path):
            raise UserError(f"{readable_name(path)}: {problem}")


def track_version(folder: Path) -> str:
    """`dvc add` a corpus folder, so that it can be rolled back.

    While another DVC reads or writes the folder, as `dvc repro` does, it waits.

    Returns:
        What was done, or why nothing, in a phrase.

    Raises:
        UserError: If the other one is still at work after ten minutes.
    """
    target = folder.resolve()
    root = next((parent for parent in target.parents if (parent / ".dvc").is_dir()), None)
    if root is None:
        return f"{folder} lies in no DVC repository: no version of it is kept"
    if importlib.util.find_spec("dvc") is None:
        return "DVC is not installed: no version is kept"
    try:
        check_names(folder)
    except UserError as error:
        return f"no version of {folder} is kept: {error}"
    # The Python that runs us: `dvc` may be another's.
    command = [sys.executable, "-m", "dvc", "add", str(target)]
    deadline, is_told = time.monotonic() + _WAIT_S, False
    while True:
        process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if process.returncode == 0:
            break
        why = _why(process.stderr or process.stdout)
        if not _BUSY.search(why):
            return f"`dvc add {folder}` failed ({why}): no version is kept"
        if time.monotonic() > deadline:
            raise UserError(
                f"DVC is at work elsewhere, so no version of {folder} is kept yet ({why}). When it "
                "has ended, run the same command again"
            )
        if not is_told:
            logger.warning("waiting for DVC to keep a version of %s: %s", folder, why)
        is_told = True
        time.sleep(_PAUSE_S)
    pointer = target.with_name(f"{target.name}.dvc").relative_to(root)
    return f"{pointer.as_posix()} names the version; commit it with Git"


def _why(output: str) -> str:
    """Return the errors that DVC printed in one line, without its hints and bars."""
    lines = [line.strip() for line in output.replace("\r", "\n").splitlines()]
    start = next((n for n, line in enumerate(lines) if line.startswith("ERROR")), 0)
    return " ".join(" ".join(lines[start:]).split()).removeprefix("ERROR: ")


def track_again(folder: Path) -> str:
    """`dvc add` a folder that DVC tracks, so that a pull finds no change it did not expect.

    Returns:
        What `track_version` says; empty where DVC does not track the folder.
    """
    return track_version(folder) if folder.with_name(f"{folder.name}.dvc").is_file() else ""


def refuse_drawn(folder: Path) -> None:
    """Refuse a folder that a stage of DVC writes.

    Raises:
        UserError: If the project's files say that one does.
    """
    target = folder.resolve()
    for parent in target.parents:
        if (path := parent / "dvc.yaml").is_file():
            for name, stage in get_map(load_params(path), "stages").items():
                if any(target == out or out in target.parents for out in _outs(parent, stage)):
                    raise UserError(
                        f"{folder} is written by the stage `{name}` of {path}, which would write "
                        "it again without what came in. Make a corpus of your own (`signloom "
                        "init`), name it in params.yaml (corpus.folder) and run this again"
                    )
        if (parent / ".dvc").is_dir():
            return


def _outs(parent: Path, stage: Any) -> list[Path]:
    """Return what a stage writes; nothing where DVC would refuse the file."""
    outs = stage.get("outs") if isinstance(stage, dict) else None
    if not isinstance(outs, list):
        return []
    base = parent / str(stage.get("wdir", "."))
    names = [name for out in outs for name in (out if isinstance(out, dict) else [out])]
    return [(base / str(name)).resolve() for name in names]


class DvcCache:
    """What DVC keeps of old versions on this machine; there may be no DVC."""

    @functools.cached_property
    def _folder(self) -> Path | None:
        output = ask_dvc("cache", "dir")  # takes a second, so not before something is removed
        return Path(output.strip()) if output else None

    def kept(self, path: Path) -> Path | None:
        """Return what is kept of a file's present content."""
        if not path.is_file() or self._folder is None:
            return None
        digest = _md5(path)
        cached = self._folder / "files" / "md5" / digest[:2] / digest[2:]
        return cached if cached.exists() else None

    @property
    def outside(self) -> Path | None:
        """The folder of the cache, if it is outside of the project: other clones may use it."""
        folder = self._folder and self._folder.resolve()
        return None if folder is None or folder.is_relative_to(Path.cwd()) else folder

    @property
    def is_linked_by_others(self) -> bool:
        """Whether other clones may have links into the cache, as this one has."""
        folder = self.outside
        return folder is not None and any(path.is_relative_to(folder) for path in self._links)

    def links(self, cached: Path) -> list[Path]:
        """Return the files of the project that are links to what is kept."""
        return self._links.get(cached.resolve(), [])

    @functools.cached_property
    def _links(self) -> dict[Path, list[Path]]:
        """Which files are links to what (`cache.type symlink`): files that are alike share one."""
        paths = (path for folder in _LINKED for path in folder.rglob("*"))
        return group_pairs((path.resolve(), path) for path in paths if path.is_symlink())


def ask_dvc(*arguments: str) -> str:
    """Return what a command of DVC's prints; nothing where the project does not use DVC.

    If it fails, a warning says why: the answer is not complete then.
    """
    if not Path(".dvc").is_dir():
        return ""
    command = [sys.executable, "-m", "dvc", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        logger.warning("`dvc %s` failed (%s)", " ".join(arguments), _why(process.stderr))
    return process.stdout


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def stages_at_work() -> list[str]:
    """Return what runs stages of this project or writes what they made, DVC's work included.

    Also in a copy of the project that `dvc exp run` works in; not what other machines do.
    """
    descriptions = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if _is_stage(words) and _is_here(Path(process.cwd())):
                since = datetime.fromtimestamp(process.create_time()).strftime("%H:%M")
                name = " ".join([Path(words[0]).name, *words[1:]])
                descriptions.append(f"`{name}` (process {process.pid}, since {since})")
        except (psutil.Error, OSError):  # it has ended, or is another user's
            continue
    return descriptions


def _is_stage(words: Sequence[str]) -> bool:
    # `python -m dvc repro`, `python .../bin/dvc repro`, `dvc.exe repro`; not `git commit dvc.lock`
    is_dvc = any(Path(word).name in ("dvc", "dvc.exe") for word in words)
    is_script = any(pair[0] == "-m" and pair[1].startswith("pipeline.") for pair in pairwise(words))
    return is_script or (is_dvc and not _WRITING.isdisjoint(words))


def _is_here(folder: Path) -> bool:
    """Return whether a process in this folder works for the project in the working folder."""
    project = Path().resolve()
    parents = (folder, *folder.parents)
    nearest = next((parent for parent in parents if (parent / ".dvc").is_dir()), folder)
    return nearest == project or project / ".dvc" in folder.parents
