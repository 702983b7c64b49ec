"""The pictures and the notebook of docs/models.md are those of today's code."""

import pytest

from pipeline.smoke.check import run_notebook
from studies.model_pictures.run import FOLDER, draw_all
from tests.tiny import ROOT

PICTURES = draw_all()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_manual_is_what_the_script_draws(name: str) -> None:
    path = ROOT / FOLDER / f"model_{name}.svg"
    drawn = PICTURES[name].svg()
    assert path.read_text(encoding="utf-8") == drawn, "python -m studies.model_pictures.run"
    assert len(drawn) < 30_000
    assert f"(images/{path.name})" in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.slow  # 4 s
def test_the_notebook_walks_a_clip_through_the_model() -> None:
    run_notebook(ROOT / "docs" / "model_walk.ipynb")
