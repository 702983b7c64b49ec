"""What holds the house together: the pipeline is what its stages reach, and no house outgrows."""

import grimp
import pytest

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
