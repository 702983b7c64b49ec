"""Provenance: library versions, the commit and the folder that a result was made with."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

import signloom
from signloom.files import hash_file, hash_folder

PACKAGE = Path(__file__).parent
LIBRARIES = ("torch", "numpy", "mediapipe", "pyarrow", "tokenizers", "sacrebleu", "jiwer")


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a number, of Python and of Signloom.

    They are part of a checkpoint, whose hash is to be the same wherever its weights are. So what
    changes no number is left out: Python's patch number, and labels such as `+cpu` of PyTorch.
    """
    versions = {}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):  # mediapipe need not be there
            versions[name] = importlib.metadata.version(name).partition("+")[0]
    python = ".".join(platform.python_version_tuple()[:2])
    return {"signloom": signloom.__version__, **versions, "python": python}


def code_hash(*packages: str) -> str:
    """Return one hash of the source of some folders or files of this package.

    Args:
        packages: Their names, such as `models` and `tune/space.py`.
    """
    paths = [PACKAGE / package for package in packages]
    hashes = (hash_folder(path, "*.py") if path.is_dir() else hash_file(path) for path in paths)
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def git_state() -> dict[str, str]:
    """Return the commit of the working directory and whether it has uncommitted changes.

    Returns:
        `git_commit` and `git_dirty` ("true" or "false"); `unknown` outside a repository. Asked once
        for each folder that a process works in.
    """
    return dict(_git_state(Path.cwd()))


@functools.cache
def _git_state(folder: Path) -> dict[str, str]:
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        dirty = bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": "unknown", "git_dirty": "unknown"}
    return {"git_commit": commit, "git_dirty": str(dirty).lower()}


def committed(path: Path) -> str:
    """Return a file's text as of the last commit.

    Raises:
        OSError: If there is no Git.
        CalledProcessError: If the commit does not have the file.
    """
    return _git(path.resolve().parent, "show", f"HEAD:./{path.name}")


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return result.stdout.strip()


def project_folder() -> Path:
    """Return the project's folder, where caches and records of runs are kept.

    DVC runs a queued experiment in a temporary copy of the project that it removes afterwards, and
    names the project itself in DVC_ROOT.
    """
    is_experiment = "DVC_EXP_BASELINE_REV" in os.environ
    return Path((os.environ.get("DVC_ROOT") if is_experiment else None) or "")


@functools.cache
def running_dvc() -> psutil.Process | None:
    """Return the `dvc repro` or `dvc exp run` of which this process is a stage; None without."""
    if "DVC_STAGE" not in os.environ:
        return None
    with suppress(psutil.Error):
        for process in psutil.Process().parents():
            with suppress(psutil.Error):
                # `python -m dvc repro`, `python .../bin/dvc repro`, `dvc.exe repro`
                if any(Path(word).stem == "dvc" for word in process.cmdline()[:3]):
                    return process
    return None
