"""The study of text models that have read."""

from pathlib import Path

import pytest

from signloom.corpus.manifest import Clip
from signloom.features.tokenizer import Tokenizer, read_source
from signloom.models.pretrained import TextModel
from signloom.training.run import read_run_options
from studies.text_models import study

pytest.importorskip("transformers", reason="needs `pip install 'signloom[text]'`")
BASE = Path("studies/gloss_to_text/params.yaml")
TEXTS = [f"am {day} {sky} in {where} ." for day in ("montag", "dienstag") for sky in
         ("regen", "schnee", "sonne") for where in ("bayern", "hessen")] * 6  # fmt: skip


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "ROWS", 60)
    monkeypatch.setattr(study, "SIZES", {**study.SIZES, "d_model": 32, "d_kv": 8, "d_ff": 32})
    monkeypatch.setattr(study, "OURS", {**study.OURS, "d_model": 32, "d_ff": 32})


@pytest.mark.usefixtures("small")
def test_a_text_model_learns_to_fill_gaps_and_is_saved_as_one(tmp_path: Path) -> None:
    losses = study.build_text_model(TEXTS, tmp_path, epochs=6, seed=1)
    assert losses[-1] < 0.9 * losses[0]
    assert TextModel.read(tmp_path).kind == "t5"
    tokenizer = Tokenizer.build(TEXTS, "pruned", read_source(tmp_path))
    assert all(tokenizer.decode(tokenizer.encode(text)) == text for text in TEXTS)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_each_variant_is_scored_on_the_same_clips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: the test above."""
    monkeypatch.setattr(study, "TRAIN", {**study.TRAIN, "epochs": 2})
    monkeypatch.setattr(study, "EPOCHS", 1)
    clips = [
        Clip(clip_id=f"{split}{i}", video=None, text=text, signer="a", split=split,
             gloss=text.upper())
        for split in ("train", "dev", "test") for i, text in enumerate(TEXTS)
    ]  # fmt: skip
    rows = list(study.compare(clips, read_run_options(BASE), tmp_path, pairs=30, seeds=[1]))
    assert [row["variant"] for row in rows][:2] == ["Transformer", "T5 as drawn"]
    # Frozen layers leave fewer weights to train.
    assert rows[3]["trained_parameters"] < rows[2]["trained_parameters"]
