"""The stages of the studies: each writes into its own folder."""

from pathlib import Path

import pytest
import yaml

from tests.tiny import ROOT

STUDIES = sorted(path.parent.name for path in (ROOT / "studies").glob("*/dvc.yaml"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_writes_into_its_own_folder(name: str) -> None:
    folder = Path("studies") / name
    content = yaml.safe_load((ROOT / folder / "dvc.yaml").read_text(encoding="utf-8"))
    stage = content["stages"][name]
    assert (stage["cmd"], stage["wdir"]) == (f"python -m studies.{name}.run", "../../..")
    assert stage["outs"] == [f"reports/studies/{name}"]
    assert all((ROOT / dep).exists() for dep in stage["deps"] if not dep.startswith("data/"))
