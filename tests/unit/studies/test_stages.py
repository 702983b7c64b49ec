"""The stages of the studies: their deps are what they import, their parameters can be read."""

from pathlib import Path

import pytest
import yaml

from tests.tiny import ROOT
from tests.unit.test_dvc_deps import closure

STUDIES = sorted(path.parent.name for path in (ROOT / "pipeline/studies").glob("*/dvc.yaml"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_depends_on_what_it_imports_and_writes_into_its_own_folder(name: str) -> None:
    folder = Path("pipeline/studies") / name
    content = yaml.safe_load((ROOT / folder / "dvc.yaml").read_text(encoding="utf-8"))
    stage = content["stages"][name]
    assert (stage["cmd"], stage["wdir"]) == (f"python -m pipeline.studies.{name}.run", "../../..")
    code = {dep for dep in stage["deps"] if dep.endswith(".py")}
    assert code == closure(folder / "run.py"), "run python -m tests.unit.test_dvc_deps"
    assert stage["outs"] == [f"reports/studies/{name}"]
    assert all((ROOT / dep).exists() for dep in stage["deps"] if not dep.startswith("data/"))
