"""`dvc plots show` for real, on tables with the columns that the stage `evaluate` writes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLOTS = {
    name: plot
    for entry in yaml.safe_load((ROOT / "dvc.yaml").read_text())["plots"]
    for name, plot in entry.items()
}
TEMPLATES = {path.stem for path in (ROOT / ".dvc" / "plots").iterdir()}
BREAKDOWN = (
    "name,split,group,clips,bleu4,chrf,wer,cer,bleu4_low,bleu4_high,chrf_low,chrf_high\n"
    "test a,test,a,3,11,22,33,44,10,12,21,23\ntest b,test,b,4,55,66,77,88,54,56,65,67\n"
)
TABLES = {
    "curves": "epoch,train_loss,dev_loss,dev_accuracy,lr\n1,3,2,0.1,0.01\n2,2,1,0.2,0.02\n",
    "systems": "name,split,system,score,score_low,score_high\ntest model,test,model,9,8,10\n",
    **dict.fromkeys(("by_words", "by_sentence", "by_signer"), BREAKDOWN),
    "confusions": "split,kind,reference,hypothesis,count\ntest,insert,,du,7\ntest,delete,à,,2\n",
    "stress": "name,split,change,score,score_low,score_high\ntest none,test,none,9,8,10\n",
    "grid": "beam_size,length_penalty,score,wer,chosen\n1,0.6,70,20,0\n4,0.6,71.5,19,1\n",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The Vega-Lite chart of each plot."""
    root = tmp_path_factory.mktemp("repository")
    evaluation = root / "reports" / "evaluation"
    evaluation.mkdir(parents=True)
    for name, table in TABLES.items():
        (evaluation / f"{name}.csv").write_text(table, encoding="utf-8")
    (root / "dvc.yaml").write_text(yaml.safe_dump({"plots": [{n: p} for n, p in PLOTS.items()]}))
    for command in (["init", "--no-scm", "--quiet"], ["plots", "show", "--quiet", "-o", "page"]):
        if command[0] == "plots":
            shutil.copytree(ROOT / ".dvc" / "plots", root / ".dvc" / "plots", dirs_exist_ok=True)
            shutil.copy(ROOT / ".dvc" / "config", root / ".dvc" / "config")
        subprocess.run([sys.executable, "-m", "dvc", *command], cwd=root, check=True)
    page = (root / "page" / "index.html").read_text(encoding="utf-8")
    charts = [json.loads(chart) for chart in re.findall(r"var spec = (\{.*?\});\n", page)]
    return {chart["title"]["text"]: chart for chart in charts}


def test_every_plot_is_drawn(shown: dict[str, dict[str, Any]]) -> None:
    assert set(shown) == {plot["title"] for plot in PLOTS.values()}
    # What DVC does not fill in stays as text and breaks the chart.
    assert "<DVC_METRIC" not in json.dumps(shown)


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_every_template_is_used_and_asks_for_columns_that_are_there(
    shown: dict[str, dict[str, Any]], template: str
) -> None:
    charts = [shown[plot["title"]] for plot in PLOTS.values() if plot.get("template") == template]
    assert charts
    for chart in charts:
        computed = set(re.findall(r'"as": "(\w+)"', json.dumps(chart)))
        fields = set(re.findall(r'"field": "(\w+)"', json.dumps(chart)))
        fields |= set(re.findall(r"datum(?:\.|\[')(\w+)", json.dumps(chart)))
        assert fields - computed <= set(chart["data"]["values"][0])
