"""What a project's caches, versions and runs weigh, and what of it nothing refers to."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from signloom.dvc import SHARED_WITH, ask_dvc, track_again
from signloom.errors import UserError
from signloom.extraction.cache import LandmarkCache, cache_folder
from signloom.paths import APP, LOGS, MODELS, NIGHTS, SNAPSHOTS, SPOOL, WITHDRAWN_VIDEOS
from signloom_ops.nightly.plan import decided_versions
from signloom_ops.nightly.store import ModelStore

DVC_CACHE = Path(".dvc/cache")
# What the workspace, a branch, a tag or an experiment refers to stays.
_GC = ("gc", "--workspace", "--all-branches", "--all-tags", "--all-experiments")
# What is weighed only: folder, and what removes it.
_WEIGHED = (
    (Path("mlruns"), "MLflow's: delete runs there, then `mlflow gc`"),
    (Path("mlartifacts"), "MLflow's: delete runs there, then `mlflow gc`"),
    (SPOOL, "waits for MLflow: `signloom deliver`"),
    (SNAPSHOTS, "unfinished trainings: the next training removes them after a week"),
    (WITHDRAWN_VIDEOS, "videos that were withdrawn: yours to look at and remove"),
    (APP, "recordings that were not delivered"),
    (LOGS, "of the last run of each stage"),
    (NIGHTS, "of the last night"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TidyPart:
    """A part of the project on disk."""

    name: str
    size_bytes: int
    removable_bytes: int
    what: str
    """What would go and why, or what removes it."""
    remove: Callable[[], object] | None
    """Removes it; None: there is nothing to do here."""


def list_parts(store: ModelStore, *, keep: int, days: float) -> list[TidyPart]:
    """Return what lies in the project, and what would go.

    Args:
        store: The versions of the model.
        keep: The newest versions, which keep their weights.
        days: Cached landmarks that were used since stay.
    """
    parts = [_cache_part(days), _versions_part(store, keep)]
    if DVC_CACHE.is_dir():
        parts.append(_dvc_part())
    parts += [
        TidyPart(
            name=str(folder), size_bytes=weigh(folder), removable_bytes=0, what=what, remove=None
        )
        for folder, what in _WEIGHED
        if folder.is_dir()
    ]
    return parts


def _cache_part(days: float) -> TidyPart:
    cache = LandmarkCache(cache_folder())
    entries, unused = cache.prune(days, dry_run=True)
    return TidyPart(
        name=str(cache.folder),
        size_bytes=cache.measure().size_bytes,
        removable_bytes=unused,
        what=f"{entries} clips that no run used for {days:g} days",
        remove=(lambda: cache.prune(days)) if entries else None,
    )


def _versions_part(store: ModelStore, keep: int) -> TidyPart:
    versions = old_versions(store, keep=keep)
    weights = [path for version in versions for path in store.heavy(version)]

    def drop_versions() -> None:
        store.drop_weights(versions)
        track_again(MODELS)

    which = f"weights of versions {_ranges(versions)}; decisions and scores stay"
    return TidyPart(
        name=str(store.root),
        size_bytes=weigh(store.root),
        removable_bytes=sum(map(weigh, weights)),
        what=which if versions else "no version is old enough",
        remove=drop_versions if versions else None,
    )


def _dvc_part() -> TidyPart:
    objects = _unused_objects()
    is_shared = os.path.lexists(SHARED_WITH) or any(
        DVC_CACHE.resolve() not in path.resolve().parents for path in objects
    )
    unused = f"{len(objects)} files of no branch, tag, experiment, nor of the workspace"
    shared = "other projects may use it, too: `dvc gc --projects` knows how"
    return TidyPart(
        name=str(DVC_CACHE),
        size_bytes=weigh(DVC_CACHE),
        removable_bytes=0 if is_shared else sum(map(weigh, objects)),
        what=shared if is_shared else unused,
        remove=partial(_collect, objects) if objects and not is_shared else None,
    )


def old_versions(store: ModelStore, *, keep: int) -> list[int]:
    """Return the versions whose weights nothing refers to, the oldest first.

    The champion, its predecessors, to which a rollback returns, the challenger, what was not
    decided on and the newest ones keep theirs.
    """
    pointer, versions = store.pointer(), store.versions()
    needed = {pointer.champion, pointer.challenger, *pointer.line}
    needed |= set(versions[-keep:] if keep else ())
    return [v for v in decided_versions(store) if v not in needed and store.heavy(v)]


def weigh(path: Path) -> int:
    """Return the size of a file or of all files in a folder, bytes; links count as links."""
    files = [path, *path.rglob("*")]
    return sum(one.lstat().st_size for one in files if one.is_symlink() or one.is_file())


def _collect(objects: Sequence[Path]) -> None:
    ask_dvc(*_GC, "--force")
    if left := sum(path.exists() for path in objects):
        raise UserError(f"DVC left {left} files; `dvc {' '.join(_GC)}` says why")


def _unused_objects() -> list[Path]:
    """Return the files of DVC's cache that it would collect; it names each."""
    said = ask_dvc(*_GC, "--dry")
    return [Path(name) for name in re.findall(r"^Removing (.+)$", said, re.MULTILINE)]


def _ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as `1-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
