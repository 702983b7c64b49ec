"""What holds the house together: the pipeline is what its stages reach, and no house outgrows."""

import json
from typing import Any

import grimp
import pytest

from signloom_tools.cli.main import find_commands
from tests.tiny import ROOT

STAGES = ("check", "extract", "tokenize_targets", "tune", "train", "evaluate", "report")
BY_NAME = {"signloom.tracking.deliver"}  # a process that tracking starts by its name


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("signloom", "pipeline", cache_dir=None)


def test_the_pipeline_is_exactly_what_its_stages_import(graph: grimp.ImportGraph) -> None:
    todo, reached = {f"pipeline.{name}" for name in STAGES} | BY_NAME, set[str]()
    while todo:
        module = todo.pop()
        reached.add(module)
        todo |= graph.find_modules_directly_imported_by(module) - reached
    packages = {module for module in graph.modules if graph.find_children(module)}
    ours = {module for module in graph.modules if module.startswith("signloom.")}
    assert ours - packages - reached == set()


# Lines of Python a house. Who needs more changes a number in a commit of its own that names the
# figure or the user who asks for it, and takes something out first.
BUDGET = {
    "src/signloom": 28_450, "src/signloom_tools": 13_350, "src/signloom_ops": 10_500,
    "src/signloom_demo": 2_300, "pipeline": 1_440, "studies": 5_600, "tests": 43_100,
}  # fmt: skip
MOST_COMMANDS, MOST_PARAMETERS = 27, 138


@pytest.mark.parametrize("house", BUDGET)
def test_no_house_outgrows_its_budget(house: str) -> None:
    sources = [path for path in (ROOT / house).rglob("*.py") if "build" not in path.parts]
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in sources)
    assert lines <= BUDGET[house]


def test_commands_and_parameters_keep_to_their_budget() -> None:
    def count(node: dict[str, Any]) -> int:
        return sum(map(count, node["properties"].values())) if "properties" in node else 1

    schemas = (ROOT / "schemas").glob("*.schema.json")
    parameters = sum(count(json.loads(path.read_text(encoding="utf-8"))) for path in schemas)
    assert parameters <= MOST_PARAMETERS
    assert sum(map(len, find_commands().values())) <= MOST_COMMANDS
