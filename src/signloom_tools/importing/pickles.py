"""Pickles of others: their numbers, never their code.

A pickle is a program. It is refused unless asked for, and then read by an unpickler that makes
numbers, texts, lists, dicts, NumPy arrays and PyTorch tensors, and calls nothing else.
"""

import collections
import gzip
import io
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from signloom.errors import ClipError
from signloom_tools.importing.foreign import check_memory
from signloom_tools.importing.options import SourceDefaults

_GZIP = b"\x1f\x8b"


def load_pickle(path: Path, defaults: SourceDefaults) -> Any:
    """Return what a pickle holds, plain or compressed by gzip; none of its code is run.

    Raises:
        ClipError: If pickles may not be read, it is damaged, too big, or holds anything else.
    """
    with path.open("rb") as file:
        is_zipped = file.read(2) == _GZIP
        file.seek(0)
        return unpickle(gzip.GzipFile(fileobj=file) if is_zipped else file, defaults)


def unpickle(file: "IO[bytes] | gzip.GzipFile", defaults: SourceDefaults) -> Any:
    """Return what the pickle in an open file holds; see `load_pickle`."""
    if not defaults.allow_pickle:
        raise ClipError(
            "a pickle is a program, and not read unless asked for",
            "say --allow-pickle: numbers, texts, lists, dicts, arrays are read, nothing is run",
        )
    try:
        raw = file.read(defaults.memory_mb * 1_000_000 + 1)
        check_memory(len(raw), defaults)
        return _Unpickler(io.BytesIO(raw)).load()
    except ClipError:
        raise
    except Exception as error:  # a torn pickle raises anything
        reason = " ".join(f"not a readable pickle ({type(error).__name__}: {error})".split())
        raise ClipError(reason, "save it again, as numbers, texts, lists, dicts, arrays") from None


class _Kind:
    """A type of numbers or texts: NumPy's own could be told to read memory that is not its."""

    def __init__(self, name: str, *_: object) -> None:
        if not re.fullmatch(r"[biufSUO][0-9]{0,4}", name):
            raise pickle.UnpicklingError(f"values of type {name}")
        self._name, self._order = name, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = state[1] if state[1] in ("<", ">") else "="

    def read(self, raw: bytes) -> Any:
        return np.frombuffer(raw, np.dtype(self._order + self._name))


class _Array:
    """What an array in a pickle becomes: NumPy's own is made from its bytes when it is used."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, raw = state
        if isinstance(raw, list):  # of objects, which are what this unpickler makes
            self._array = np.empty(len(raw), object)
            self._array[:] = raw
        else:
            self._array = kind.read(raw)
        self._array = self._array.reshape(shape, order="F" if is_fortran else "C")
        self.shape = self._array.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._array if dtype is None else self._array.astype(dtype)


def _rebuild_buffer(raw: Any, kind: _Kind, shape: tuple[int, ...], order: str) -> Any:
    return kind.read(raw).reshape(shape, order="F" if order == "F" else "C")


def _load_storage(raw: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(raw), weights_only=True)


def _rebuild_tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> Any:
    import torch

    return torch.empty(0, dtype=storage.dtype).set_(
        storage._untyped_storage, offset, tuple(size), tuple(stride)
    )


class _Unpickler(pickle.Unpickler):
    _CALLS: Mapping[str, Callable[..., Any]] = {
        "numpy.ndarray": _Array,
        "numpy.dtype": _Kind,
        "multiarray._reconstruct": lambda *_: _Array(),
        "multiarray.scalar": lambda kind, raw: kind.read(raw)[0],
        "numeric._frombuffer": _rebuild_buffer,
        "_codecs.encode": lambda text, code: text.encode("latin1") if code == "latin1" else b"",
        "collections.OrderedDict": collections.OrderedDict,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch.storage._load_from_bytes": _load_storage,
    }

    def find_class(self, module: str, name: str) -> Any:
        short = module.removeprefix("numpy.core.").removeprefix("numpy._core.")
        call = self._CALLS.get(f"{short}.{name}")
        if call is None:
            raise ClipError(
                f"the pickle asks for {module}.{name}, which is not run",
                "save it again, as numbers, texts, lists, dicts, arrays",
            )
        return call
