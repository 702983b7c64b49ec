"""A stage's deps are its script and every module it reaches by import, no more and no less.

`python -m tests.unit.test_dvc_deps` writes them.
"""

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml
from ruamel.yaml import YAML

from tests.tiny import ROOT

PIPELINES = ("dvc.yaml", "data/demo/dvc.yaml")


def module_path(name: str) -> Path | None:
    """Return the file of one of our modules, relative to the root."""
    for base in (Path("src"), Path()):
        path = base.joinpath(*name.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            # Packages are empty but for those whose names are imported from them.
            if (ROOT / file).is_file() and (ROOT / file).stat().st_size:
                return file
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


def script_of(stage: Any) -> Path:
    """Return the file behind a stage's `python -m pipeline.NAME`."""
    program, flag, module = stage["cmd"].split()[:3]
    assert (program, flag) == ("python", "-m")
    return Path(*module.split(".")).with_suffix(".py")


def stages() -> list[tuple[str, str]]:
    return [
        (file, name)
        for file in PIPELINES
        for name in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"]
    ]


@pytest.mark.parametrize(("file", "name"), stages())
def test_deps_are_the_import_closure(file: str, name: str) -> None:
    stage = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["stages"][name]
    script = script_of(stage)
    assert (ROOT / script).is_file()
    assert stage["deps"] == sorted(stage["deps"], key=lambda dep: not dep.endswith(".py"))
    code = [dep for dep in stage["deps"] if dep.endswith(".py")]
    assert sorted(code) == sorted(closure(script)), "run python -m tests.unit.test_dvc_deps"


def write_deps(file: str) -> None:
    """Rewrite the code deps of every stage, and nothing else."""
    yaml_file = YAML()
    yaml_file.width = 4096
    yaml_file.indent(mapping=2, sequence=4, offset=2)
    pipeline = yaml_file.load((ROOT / file).read_text(encoding="utf-8"))
    for stage in pipeline["stages"].values():
        data = [dep for dep in stage["deps"] if not dep.endswith(".py")]
        stage["deps"][:] = [*sorted(closure(script_of(stage))), *data]
    with (ROOT / file).open("w", encoding="utf-8") as out:
        yaml_file.dump(pipeline, out)


if __name__ == "__main__":
    studies = sorted(ROOT.glob("pipeline/studies/*/dvc.yaml"))
    for path in (*PIPELINES, *(study.relative_to(ROOT).as_posix() for study in studies)):
        write_deps(path)
