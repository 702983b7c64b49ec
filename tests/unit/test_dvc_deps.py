"""A stage's deps are its script and every module it reaches by import, no more and no less."""

import ast
from pathlib import Path

import pytest
import yaml

from tests.tiny import ROOT

PIPELINES = {"dvc.yaml": ".", "data/demo/dvc.yaml": "."}


def module_path(name: str) -> Path | None:
    """Return the file of one of our modules, relative to the root."""
    for base in (Path("src"), Path()):
        path = base.joinpath(*name.split(".")).with_suffix(".py")
        if (ROOT / path).is_file():
            return path
    return None


def imports(path: Path) -> set[Path]:
    """Return our modules that a file imports anywhere, functions included."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found |= {module for name in names if (module := module_path(name))}
    return found


def closure(path: Path) -> set[str]:
    reached, waiting = {path}, [path]
    while waiting:
        for module in imports(waiting.pop()) - reached:
            reached.add(module)
            waiting.append(module)
    return {module.as_posix() for module in reached}


def stages() -> list[tuple[str, str]]:
    return [
        (file, name)
        for file in PIPELINES
        for name in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"]
    ]


@pytest.mark.parametrize(("file", "name"), stages())
def test_deps_are_the_import_closure(file: str, name: str) -> None:
    stage = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"][name]
    script = Path("pipeline", stage["cmd"].split()[-1].removeprefix("pipeline.") + ".py")
    assert stage["cmd"] == f"python -m pipeline.{script.stem}"
    assert stage["deps"] == sorted(stage["deps"], key=lambda dep: not dep.endswith(".py"))
    code = [dep for dep in stage["deps"] if dep.endswith(".py")]
    assert sorted(code) == sorted(closure(script)), "run tests/unit/test_dvc_deps.py to list them"


if __name__ == "__main__":
    for file, name in stages():
        stage = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"][name]
        script = Path("pipeline", stage["cmd"].split()[-1].removeprefix("pipeline.") + ".py")
        print(f"{file} {name}:", *(f"      - {dep}" for dep in sorted(closure(script))), sep="\n")
