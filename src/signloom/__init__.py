"""Signloom: signing videos with their sentences -> a trained, scored, reproducible model.

`load`, `landmarks`, `read_shards` and `to_table` are for programs; docs/python.md shows them.
"""

import importlib
import os
from typing import Any

# Here, since the metadata of an editable install keep the version that it had when it was made.
__version__ = "0.3.0"

# Read when torch is loaded, so set here. Threads that wait for each other sleep; by default they
# spin, and where two other programs want two cores a training takes twice as long with them
# (docs/log/2026-11-benchmarks.md). Sums, and so bits, stay the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# By name and when it is asked for: the pipeline imports no tools, and torch takes a second to load.
# Types are in __init__.pyi.
_MODULES = {
    "Model": "translate.model",
    "load": "translate.model",
    "landmarks": "landmarks",
    "read_shards": "landmarks",
    "to_table": "landmarks",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'signloom' has no attribute {name!r}")
    return getattr(importlib.import_module(f"signloom_tools.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
