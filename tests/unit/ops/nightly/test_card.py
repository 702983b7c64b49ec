"""The model card of a version, from the files of the version."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from signloom.errors import UserError
from signloom.evaluation.metric_names import MAIN_METRICS, metric_label
from signloom.files import hash_file
from signloom.paths import JUDGEMENTS
from signloom_ops.app.analysis import read_scores
from signloom_ops.nightly.card import CARD, write_card
from signloom_ops.nightly.store import ModelStore
from tests.damage import edit_json
from tests.unit.evaluation.judged import judge
from tests.unit.ops.nightly.versions import add_evaluated_version


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ModelStore:
    return add_evaluated_version(tmp_path_factory.mktemp("card"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "weekly"
    folder.mkdir()
    return folder


def test_a_card_has_the_data_the_scores_and_what_made_the_version(
    store: ModelStore, corpus: Path
) -> None:
    scores = json.loads((store.evaluation(1) / "scores.json").read_text(encoding="utf-8"))
    test = scores["splits"]["test"]
    assert test["input_check"] is None  # 3 clips are too few
    check = dict.fromkeys(("model", "swapped", "fall", "low", "high", "p_value"), 1.0)
    test["input_check"] = {**check, "metric": "chrf", "uses_input": True, "text": "It looks."}
    edit_json(store.evaluation(1) / "scores.json", **scores)
    path = write_card(store.folder(1), corpus)
    assert path == store.folder(1) / CARD
    text = path.read_text(encoding="utf-8")
    bleu = test["systems"]["constant"]["bleu4"]
    for line in (
        "# Model card: weekly, version 0001",
        "Deliveries after the first clips: 2026-11-14, 2026-11-21.",
        "| train | 4 | 0.50 | train\\_s0 (2), train\\_s1 (2) |",
        "| test | 3 | 0.10 | test\\_s0 (2), test\\_s1 (1) |",
        f"{bleu['value']:.1f} [{bleu['low']:.1f}, {bleu['high']:.1f}]",
        test["input_check"]["text"],
        "The gate was not asked about this version.",
        "- It has learned from 2 signers; it was tested on 4 others.",
        "- It is not shown mouthing or the face;",
        "| commit | c0ffee |",
        "`signloom translate VIDEO --model 1`",
    ):
        assert line in text, line
    assert text == write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == "other"
    (result,) = front["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == test["systems"]["model"]["bleu4"]["value"]


def test_the_card_of_a_model_of_glosses_speaks_of_no_landmarks(
    store: ModelStore, corpus: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(store.folder(1), tmp_path / "0001"))
    path = folder / "checkpoint/checkpoint.json"
    spec = json.loads(path.read_text(encoding="utf-8"))
    spec["model"]["source"], spec["extractor"] = "glosses", {}
    edit_json(path, **spec)
    text = write_card(folder, corpus).read_text(encoding="utf-8")
    assert "from glosses to text" in text
    assert "`signloom translate --glosses TEXT --model 1`" in text
    for phrase in (
        "Landmarks are found",
        "frames a second.",
        "faces the camera",
        "It is not shown",
    ):
        assert phrase not in text


def test_a_version_of_before_a_metric_was_added_is_still_read(
    store: ModelStore, corpus: Path, tmp_path: Path
) -> None:
    """As if every metric but those that are read had come since."""
    folder = Path(shutil.copytree(store.folder(1), tmp_path / "0001"))
    path = folder / "evaluation/scores.json"
    scores = json.loads(path.read_text(encoding="utf-8"))
    for split in scores["splits"].values():
        for values in split["systems"].values():
            for name in values.keys() - set(MAIN_METRICS):
                del values[name]
    edit_json(path, **scores)
    assert "### test: " in write_card(folder, corpus).read_text(encoding="utf-8")
    shown = read_scores(path)
    headline = scores["headline"]
    assert shown["metric"] == metric_label(headline)
    assert shown["score"] == scores["splits"]["test"]["systems"]["model"][headline]["value"]


def test_terms_in_the_corpus_are_quoted_and_missing_ones_named(
    store: ModelStore, corpus: Path
) -> None:
    text = write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    assert "**Consent.** **not said**: no file `CONSENT` lies in the corpus folder." in text
    (corpus / "CONSENT.md").write_text("# Consent\n\nAll six agreed to training.\n")
    (corpus / "LICENSE").write_text("\n".join(f"line {n}" for n in range(100)))
    text = write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    assert "> # Consent\n>\n> All six agreed to training.\n" in text
    assert "> line 59\n>\n> ... 40 more lines in the file\n" in text
    assert "not said" not in text


def test_a_card_has_the_decision_and_a_withdrawal(store: ModelStore, corpus: Path) -> None:
    decision = {
        "verdict": "version 1 is the first champion",
        "reasons": ["floors passed: <b>"],
        "champion": None,
        "promote": True,
        "test": [],
    }
    (store.folder(1) / "decision.json").write_text(json.dumps(decision))
    marks = {
        "forgotten": [
            {"clips": 24, "splits": ["train"], "through": None},
            {"clips": 7, "splits": ["test"], "through": None},
        ]
    }
    text = write_card(store.folder(1), corpus, marks).read_text(encoding="utf-8")
    assert "version 1 is the first champion.\n" in text
    assert "- floors passed: \\<b\\>\n" in text
    assert text.count("> **Withdrawn consent.**") == 1
    assert "> 7 of its test clips are of a person who has since withdrawn.\n" in text


def test_a_card_has_what_people_judged(
    store: ModelStore, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "Judged" not in write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    weights = hash_file(store.checkpoint(1) / "model.safetensors")
    judge(tmp_path / JUDGEMENTS, "new", b=weights)
    text = write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    assert "- A runs/old, B runs/new: 2 judges, 20 of 20 clips: B better in 15" in text
    assert "anna" not in text


def test_a_card_names_what_is_not_known(tmp_path: Path, corpus: Path) -> None:
    store = add_evaluated_version(tmp_path)
    (store.folder(1) / "version.json").write_text("{}")
    text = write_card(store.folder(1), corpus).read_text(encoding="utf-8")
    assert "| train | **not said** | **not said** | **not said** |" in text
    (store.evaluation(1) / "scores.json").unlink()
    with pytest.raises(UserError, match=r"scores\.json does not exist; bring the version back"):
        write_card(store.folder(1), corpus)
