"""A module's name comes in, one hash of the source of all our modules that it reaches goes out."""

import ast
import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def code_hash(module: str) -> str:
    """Return a hash of a module's code and of everything of ours that it imports.

    Work on anything else, such as the report, leaves the hash as it is.

    Args:
        module: Dotted name below `signloom`.
    """
    reached, waiting = set[str](), [module]
    while waiting:
        name = waiting.pop()
        if name not in reached and _path(name).is_file():
            reached.add(name)
            waiting += _imports(_path(name).read_text(encoding="utf-8"))
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(f"{name}\0".encode() + _path(name).read_bytes())
    return digest.hexdigest()


def _path(name: str) -> Path:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    init = path / "__init__.py"  # of a package whose names are imported from it
    return init if init.is_file() else path.with_suffix(".py")


@functools.cache  # parsing all modules takes 0.15 s, and a search asks more than once
def _imports(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [
        module
        for module in found
        # How runs are logged decides no number.
        if module.startswith("signloom.") and not module.startswith("signloom.tracking")
    ]
