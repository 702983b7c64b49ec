"""Snapshots of a training run, from which it goes on after a kill.

A snapshot is one safetensors file: tensors, and everything else as JSON in its metadata. Its name
ends in a hash of its bytes, so that a torn one gives itself away.
"""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from filelock import lock_descriptor
from torch import Tensor

from signloom.errors import UserError
from signloom.files import flush_to_disk, hash_file, write_file
from signloom.log import ONCE
from signloom.portable import CODE_PATH, set_variables
from signloom.provenance import code_hash

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
PACKAGES = ("corpus", "features", "models", "training")  # whose code decides the weights
KEPT = 2  # the newest; one more than needed, should the newest be torn
RUN, LOCK = "run.txt", "lock"
ABANDONED_S = 7 * 24 * 3600.0  # since a run's last snapshot, before another run removes them
State = dict[str, Any]


class Snapshots:
    """The snapshots of one training run, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, named after everything that decides the weights; made when needed."""
        self.folder = folder

    def paths(self) -> list[Path]:
        """Return the snapshots, newest first."""
        return sorted(self.folder.glob("[0-9]*.safetensors"), reverse=True)

    def run_key(self) -> str:
        """Return a name for this run that it keeps when it goes on in another process."""
        path = self.folder / RUN
        if not path.is_file():
            try:
                write_file(path, uuid.uuid4().hex)
            except OSError as error:
                logger.warning("%s could not be written: %s", path, error)
                return uuid.uuid4().hex
        return path.read_text(encoding="utf-8")

    def write(self, state: State, *, epoch: int, step: int) -> bool:
        """Write a snapshot, whole or not at all, and remove all but the newest.

        A full disk is no reason to stop: what was trained since the last snapshot is at stake, not
        the training.

        Args:
            state: Tensors and plain values in dicts, lists and tuples.
            epoch: Being trained, from 1.
            step: Steps of it that are done.

        Returns:
            Whether it was written.
        """
        tensors: dict[str, Tensor] = {}
        packed = json.dumps(_pack(state, tensors, "state"))
        metadata = {"format_version": str(FORMAT_VERSION), "state": packed}
        temporary = self.folder / f".{os.getpid()}.tmp"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            safetensors.torch.save_file(tensors, temporary, metadata=metadata)
            flush_to_disk(temporary)
            digest = hash_file(temporary)[:16]
            temporary.replace(self.folder / f"{epoch:06}-{step:08}-{digest}.safetensors")
            flush_to_disk(self.folder)
        except (OSError, safetensors.SafetensorError) as error:
            logger.warning(
                "no snapshot could be written to %s: %s; training goes on and tries again later",
                self.folder,
                error,
                extra=ONCE,
            )
            return False
        finally:
            temporary.unlink(missing_ok=True)
        for path in self.paths()[KEPT:]:
            path.unlink()
        return True

    def read(self, device: torch.device) -> State | None:
        """Return the newest state that is whole, on a device; None where there is none."""
        for path in self.paths():
            try:
                return self._read(path, device)
            except (OSError, ValueError, KeyError, safetensors.SafetensorError) as error:
                logger.warning("%s is left out: %s", path, error, extra=ONCE)
        return None

    def remove(self) -> None:
        """Remove the folder: what it was kept for is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _read(path: Path, device: torch.device) -> State:
        expected, digest = path.stem.rpartition("-")[2], hash_file(path)[:16]
        if digest != expected:
            raise ValueError(f"it is torn (hash {digest}, expected {expected})")
        with safetensors.safe_open(path, framework="pt", device=str(device)) as file:
            metadata = file.metadata()
            version = metadata.get("format_version")
            if version != str(FORMAT_VERSION):
                raise ValueError(
                    f"found format version {version}, this Signloom reads {FORMAT_VERSION}"
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state: State = _unpack(json.loads(metadata["state"]), tensors)
        return state


def _pack(value: Any, tensors: dict[str, Tensor], name: str) -> Any:
    """Return what JSON can hold of a value; put its tensors aside."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):  # keys may be numbers, which JSON would turn into text
        items = [[key, _pack(inner, tensors, f"{name}/{key}")] for key, inner in value.items()]
        return {"map": items}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_pack(v, tensors, f"{name}/{i}") for i, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name}: a snapshot cannot hold {type(value).__name__}")


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo `_pack`."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "map":
            return {key: _unpack(inner, tensors) for key, inner in content}
        case _:
            items = [_unpack(inner, tensors) for inner in content]
            return items if kind == "list" else tuple(items)


def open_snapshots(folder: Path, *deciding: object) -> Snapshots:
    """Return the snapshots of a run on the code path of this process.

    Args:
        folder: Where the snapshots of all runs lie.
        deciding: Beside the code everything that decides the weights, as JSON can hold it: options,
            data, libraries. Another run, with anything else in it, does not find these snapshots.
    """
    run = _short_hash([torch.__version__, *deciding, code_hash(*PACKAGES)])
    code_path = [torch.backends.cpu.get_cpu_capability(), set_variables()]
    snapshots = Snapshots(folder / f"{run}-{_short_hash(code_path)}")
    if not snapshots.paths():
        for foreign in (Snapshots(path) for path in folder.glob(f"{run}-*")):
            if foreign.paths():
                logger.warning(
                    "%s holds this training as another code path began it (another processor, or "
                    "other values of %s); it is not continued, since its weights would be of "
                    "neither kind. Training begins anew",
                    foreign.folder,
                    ", ".join(CODE_PATH),
                    extra=ONCE,
                )
    return snapshots


def _short_hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def hold_snapshots(folder: Path, resumed: Sequence[Snapshots]) -> Iterator[None]:
    """Keep other trainings away, and clear up after those that died or were given up.

    Two together would write the same snapshots and the same checkpoint.

    Args:
        folder: Where the snapshots of all runs lie.
        resumed: Those of this run, which may be as old as they like.

    Raises:
        UserError: If another training is at work.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((folder / LOCK).open("w"))
            # The system lets go of it, however the process ends.
            is_ours = lock_descriptor(lock.fileno(), blocking=False)
        except OSError as error:
            logger.warning("%s could not be locked: %s", folder, error)
        else:
            if not is_ours:
                raise UserError(
                    f"another training holds {folder / LOCK}, so one is at work in this project; "
                    "wait until it ends, stop it, or train in a copy of the project"
                )
            _clear(folder, {snapshots.folder for snapshots in resumed})
        yield


def _clear(folder: Path, resumed: Collection[Path]) -> None:
    """Remove torn files of a run that goes on, and all of runs that were not resumed for a week."""
    for run in folder.iterdir():
        if run in resumed:
            for path in run.glob(".*.tmp"):
                path.unlink(missing_ok=True)
        elif run.is_dir() and time.time() - run.stat().st_mtime > ABANDONED_S:
            logger.info("%s is removed: its training was given up over a week ago", run)
            shutil.rmtree(run, ignore_errors=True)
