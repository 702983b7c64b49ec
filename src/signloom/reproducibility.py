"""What made a result: seeds, library versions, the commit and content hashes."""

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

LIBRARIES = ("torch", "numpy", "mediapipe", "pyarrow", "tokenizers", "sacrebleu", "jiwer")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Return one SHA-256 over the relative names and bytes of the files below a folder.

    Args:
        folder: Searched with all its subfolders.
        pattern: Which file names count.

    Raises:
        FileNotFoundError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob(pattern) if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a number, and of Python."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {"signloom": importlib.metadata.version("signloom"), **versions,
            "python": platform.python_version()}  # fmt: skip


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


def flush_to_disk(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, content: str | bytes) -> None:
    r"""Write a whole file or nothing: under a temporary name first, then renamed.

    Args:
        path: The file; its folder is made if need be.
        content: Text (written as UTF-8 with `\n`) or bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
