"""A stage depends on every folder of code that its script reaches and that can decide a number."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grimp
import pytest
import yaml

from tests.tiny import ROOT

PIPELINES = ("dvc.yaml", "data/demo/dvc.yaml")
# Reading options, writing files, grouping, bars, logs, records of runs: they change no result.
UNDECIDING = {
    "config",
    "devices",
    "errors",
    "files",
    "grouping",
    "log",
    "paths",
    "portable",
    "processes",
    "progress",
    "provenance",
    "system",
    "tables",
    "terminal",
    "tracking",
}
# What a stage reaches without letting it decide its result, with the reason.
APART = {
    ("tune", "report"): "charts show the result",
    ("draw", "corpus"): "the manifest is only written",
    ("draw", "extraction"): "worker processes",
    ("draw", "detection"): "the writing of films",
}


HOUSES = ("signloom", "signloom_tools", "signloom_ops", "signloom_demo")
CONSTANT = {"check"}  # it always writes the same, so it names only what its script itself imports


def stages() -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, stage)
        for pattern in PIPELINES
        for file in sorted(ROOT.glob(pattern))
        for name, stage in yaml.safe_load(file.read_text(encoding="utf-8"))["stages"].items()
    ]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*HOUSES, "pipeline", "studies", cache_dir=None)


def _room(path: Sequence[str]) -> str:
    """Return a room of the pipeline by its name, of another house with the house's."""
    house, *rooms = (Path(part).stem for part in path)
    if house == "signloom":
        return rooms[0] if rooms else "signloom"
    return house if house == "signloom_demo" or not rooms else f"{house}.{rooms[0]}"


@pytest.mark.parametrize(("name", "stage"), stages(), ids=[name for name, _ in stages()])
def test_a_stage_depends_on_the_folders_that_it_reaches(
    name: str, stage: dict[str, Any], graph: grimp.ImportGraph
) -> None:
    program, flag, script = stage["cmd"].split()[:3]
    assert (program, flag) == ("python", "-m")
    code = [Path(dep) for dep in stage["deps"] if dep.startswith("src/")]
    assert all((ROOT / dep).exists() for dep in code)
    deps = {_room(dep.parts[1:]) for dep in code}
    path = f"{script.replace('.', '/')}.py"
    assert path in stage["deps"] or str(Path(path).parent) in stage["deps"]
    is_constant = name in CONSTANT
    find_imports = (
        graph.find_modules_directly_imported_by if is_constant else graph.find_upstream_modules
    )
    modules = {
        module
        for module in find_imports(script)
        if module.split(".")[0] in HOUSES and not graph.find_children(module)
    }
    reached = {_room(module.split(".")) for module in modules}
    packages = set(HOUSES) | {package for of, package in APART if of == name}
    missing = reached - deps - UNDECIDING - packages
    assert not missing, f"{name} reaches {sorted(missing)}"
    # Of a room of which single files are named, all that are reached are.
    named = {dep.parts[2]: dep.parent for dep in code if len(dep.parts) > 3}
    files = {Path("src", *module.split(".")).with_suffix(".py") for module in modules}
    assert {file for file in files if file.parent in named.values()} <= set(code)
