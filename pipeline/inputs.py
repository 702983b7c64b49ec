"""The inputs of a DVC stage (parameters and files), compared between its start and its end.

DVC notes what a stage read when the stage has ended (treeverse/dvc#11058). What somebody edits
meanwhile would be noted, in dvc.lock and in the run cache, for a result that was made without it.
"""

import logging
import os
import re
import stat
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import signloom
from signloom.config import flatten, get_map, keep_params, load_params
from signloom.errors import UserError, name_some
from signloom.files import hash_file
from signloom.grouping import group_pairs
from signloom.paths import CHECKPOINT, DVC_LOCK, PARAMS, START

PIPELINES = (Path("dvc.yaml"), Path("data/demo/dvc.yaml"))
STAMPS = "data/code/"  # in a project of `signloom project`: hashes of folders of the package
HASHED_BYTES = 1 << 20  # of a larger file only size, time and inode are compared
WATCHED = (".py", ".tsv", ".csv")  # code and manifests, which people edit
WATCH_S = 5.0  # between two looks while the stage runs
# Of stage `train`: they divide the work, and a checkpoint is of one of the seeds.
UNDECIDING = {
    f"train.{name}" for name in ("device", "accumulate", "cache_mb", "snapshot_s", "seeds")
}
_TEMPLATE = re.compile(r"\$\{([\w.]+)\}")
_MISSING = "nothing"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells a file from one that was written later."""

    size_bytes: int
    mtime_ns: int
    inode: int
    sha256: str = ""  # empty: of a large file

    @staticmethod
    def read(path: Path, status: os.stat_result) -> "FileState":
        """Return the state of a file; a small one is hashed."""
        digest = hash_file(path) if status.st_size <= HASHED_BYTES else ""
        return FileState(status.st_size, status.st_mtime_ns, status.st_ino, digest)

    def is_of(self, path: Path, status: os.stat_result) -> bool:
        """Return whether a file is the same, or has the same content."""
        now = (status.st_size, status.st_mtime_ns, status.st_ino)
        if now == (self.size_bytes, self.mtime_ns, self.inode):
            return True
        return bool(self.sha256) and now[0] == self.size_bytes and hash_file(path) == self.sha256


@dataclass(frozen=True, slots=True)
class StageInputs:
    """The parameters and dependencies of a stage, as they were when it started."""

    keys: Mapping[Path, list[str] | None]  # of each parameters file; None: the whole file
    params: Mapping[Path, Mapping[str, Any]]
    dependencies: tuple[Path, ...]
    files: Mapping[Path, FileState]

    @staticmethod
    def read(address: str) -> "StageInputs | None":
        """Return what DVC will note of a stage; None, with a warning, if no dvc.yaml has it.

        Args:
            address: Of the stage, as DVC_STAGE has it: `train`, `data/demo/dvc.yaml:draw`.

        Raises:
            UserError: If a parameters file is not valid.
        """
        stage = _find_stage(address)
        if stage is None:
            logger.warning(
                "no dvc.yaml here has the stage %s: an edit while it runs is not noticed", address
            )
            return None
        keep_params(PARAMS)  # what is compared at the end is what the stage works with
        values = load_params(PARAMS) if PARAMS.is_file() else {}
        names = [next(iter(row)) if isinstance(row, dict) else row for row in stage["deps"]]
        dependencies = tuple(Path(_resolve(name, values)) for name in names)
        keys: dict[Path, list[str] | None] = {}
        for row in stage.get("params", []):
            for file, names in row.items() if isinstance(row, dict) else [(PARAMS, [row])]:
                path = Path(file)
                keep_params(path)
                keys[path] = None if names is None else [*(keys.get(path) or []), *names]
        return StageInputs(
            keys=keys,
            params={path: _read_params(path, names) for path, names in keys.items()},
            dependencies=dependencies,
            files={path: FileState.read(path, status) for path, status in _scan(dependencies)},
        )

    def changes(self) -> list[str]:
        """Return what is not as it was: a line for each parameter, and for each dependency."""
        now = dict(_scan(self.dependencies))
        paths: dict[str, list[Path]] = {
            "changed": [
                path
                for path, state in self.files.items()
                if path in now and not state.is_of(path, now[path])
            ],
            "added": sorted(now.keys() - self.files.keys()),
            "missing": sorted(self.files.keys() - now.keys()),
        }
        return [*self.changed_params(), *_describe(paths, self.dependencies)]

    def changed_params(self) -> list[str]:
        """Return a line for each parameter that has another value."""
        lines = []
        for path, before in self.params.items():
            try:
                now = _read_params(path, self.keys[path], is_anew=True)
            except UserError as error:  # somebody is just editing it
                lines.append(str(error))
                continue
            for name in sorted(before.keys() | now.keys()):
                old, new = before.get(name, _MISSING), now.get(name, _MISSING)
                if old != new:
                    lines.append(f"{path}: {name}: {old} -> {new}")
        return lines

    def changed_texts(self) -> list[str]:
        """Return the code and the tables that changed or are missing, without a look at others."""
        changed = []
        for path, state in self.files.items():
            if path.suffix in WATCHED:
                try:
                    is_same = state.is_of(path, path.stat())
                except OSError:
                    is_same = False
                changed += [] if is_same else [path]
        return _describe({"changed": changed}, self.dependencies)

    @contextmanager
    def watched(self, stage: str) -> Iterator[None]:
        """Warn once, within the block, as soon as a parameter or a text is edited."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(WATCH_S):
                if edited := [*self.changed_params(), *self.changed_texts()]:
                    logger.warning(
                        "changed while `%s` runs: %s. Put it back before the stage ends, or the "
                        "stage fails at its end, since DVC would note it for this run",
                        stage,
                        name_some(edited),
                    )
                    return

        threading.Thread(target=watch, name="inputs", daemon=True).start()
        try:
            yield
        finally:
            ended.set()


def _find_stage(address: str) -> dict[str, Any] | None:
    """Return a stage's entry; DVC writes its file's path from where `dvc` was called."""
    file, _, name = address.rpartition(":")
    for path in dict.fromkeys([Path(file or "dvc.yaml"), *PIPELINES]):
        stage = get_map(load_params(path), "stages").get(name) if path.is_file() else None
        if isinstance(stage, dict):
            return {"deps": [], **stage}
    return None


def _resolve(name: str, values: Mapping[str, Any]) -> str:
    """Fill in a template such as `${corpus.folder}`, as DVC does from params.yaml."""
    return _TEMPLATE.sub(lambda match: str(_look_up(values, match[1])), name)


def _look_up(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part, _MISSING) if isinstance(values, dict) else _MISSING
    return values


def _read_params(
    path: Path, names: Iterable[str] | None, *, is_anew: bool = False
) -> dict[str, Any]:
    """Return some keys of a parameters file with all values below them, by their full names."""
    values = load_params(path, may_be_empty=True, is_anew=is_anew) if path.is_file() else {}
    chosen = values if names is None else {name: _look_up(values, name) for name in names}
    return dict(flatten(chosen))


def _scan(dependencies: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of dependencies; hidden ones, and those that Python makes, do not count."""
    for path in [source for dependency in dependencies for source in _sources(dependency)]:
        if path.is_dir():
            for folder, inner, names in os.walk(path, followlinks=True):
                inner[:] = [name for name in inner if _counts(name)]
                for name in filter(_counts, names):
                    yield from _status(Path(folder, name))
        else:
            yield from _status(path)


def _status(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        status = path.stat()
    except OSError:  # it is gone, or a link to nothing
        return
    if stat.S_ISREG(status.st_mode):
        yield path, status


def _sources(dependency: Path) -> list[Path]:
    """Return a dependency and, of the stamp of a folder of the package, that folder."""
    name = dependency.as_posix().removeprefix(STAMPS)
    if name == dependency.as_posix():
        return [dependency]
    source = Path(signloom.__file__).parents[1] / name.removesuffix(".py").replace(".", os.sep)
    return [dependency, source.with_suffix(".py") if name.endswith(".py") else source]


def _counts(name: str) -> bool:
    return not name.startswith(".") and name != "__pycache__" and not name.endswith((".pyc", "~"))


def _describe(paths_by_kind: Mapping[str, list[Path]], dependencies: Iterable[Path]) -> list[str]:
    """Return a line for each dependency: how many of its files changed, and the first of them."""
    sources = {source for dependency in dependencies for source in _sources(dependency)}
    lines: dict[Path, list[str]] = defaultdict(list)
    for kind, paths in paths_by_kind.items():
        by_source = group_pairs(
            (next(parent for parent in (path, *path.parents) if parent in sources), path)
            for path in paths
        )
        for source, inner in by_source.items():
            names = name_some(path.relative_to(source) for path in inner)
            count = f"{len(inner)} {kind} ({names})"
            lines[source].append(kind if inner == [source] else count)
    return [f"{source}: {', '.join(counts)}" for source, counts in lines.items()]


def check_trained_as_noted(provenance: Mapping[str, Any]) -> None:
    """Refuse data/checkpoint where dvc.lock notes other parameters for it than it was trained with.

    A Signloom that did not compare inputs let DVC note an edit so, and the run cache serves it.

    Args:
        provenance: Of the checkpoint.

    Raises:
        UserError: If a parameter that decides the weights differs.
    """
    lock = load_params(DVC_LOCK) if DVC_LOCK.is_file() else {}
    stage = get_map(get_map(lock, "stages"), "train")
    sizes = [path.stat().st_size for path in CHECKPOINT.rglob("*") if path.is_file()]
    if not any(out.get("size") == sum(sizes) for out in stage.get("outs", [])):
        return  # dvc.lock is about another one
    params = get_map(stage, "params")
    noted = dict(flatten(get_map(params, PARAMS.as_posix())))
    if (start := get_map(params, START.as_posix()).get("start_from")) is not None:
        noted["train.start_from"] = start
    trained = dict(flatten(get_map(provenance, "params")))
    lines = [
        f"  {name}: noted {noted[name]}, trained with {trained[name]}"
        for name in sorted((noted.keys() & trained.keys()) - UNDECIDING)
        if not _is_same(noted[name], trained[name])
    ]
    if lines:
        listed = "\n".join(lines)
        raise UserError(
            f"{CHECKPOINT} was not trained with the parameters that {DVC_LOCK} notes for it:\n"
            f"{listed}\nThey were edited while stage `train` ran, and DVC noted the edit. Train "
            "again: `dvc repro --force --single-item train` does not take the checkpoint from the "
            "run cache, and the new one takes its place there. Then run this again"
        )


def _is_same(noted: Any, trained: Any) -> bool:
    try:
        return float(noted) == float(trained)  # a number may be noted as text: 1e-3
    except (TypeError, ValueError):
        return bool(noted == trained)
