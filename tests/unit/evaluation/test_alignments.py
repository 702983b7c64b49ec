from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from signloom.checkpoint import Checkpoint, build_from_spec
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.results import write_evaluation
from signloom.features.tokenizer import Tokenizer
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Translation, Translator
from tests.tiny import FEATURES, MODEL
from tests.unit.evaluation.world import DECODING, OPTIONS, TRAIN, corpus, history, targets


def test_the_attention_is_that_of_the_translation_over_the_clips_own_frames(
    translator: Translator,
) -> None:
    clips = [corpus()[name] for name in ("test2", "train0", "dev1")]  # of different lengths
    said = translator.translate(clips, DECODING)
    together = translator.align(clips, said)
    for clip, translation, looked in zip(clips, said, together, strict=True):
        assert len(looked.tokens) == len(translation.hypothesis.tokens)
        assert "".join(looked.tokens) == translation.text.rstrip("\N{REPLACEMENT CHARACTER}")
        frames = len(translator.rows(clip))
        assert looked.weights.shape == (len(looked.tokens), frames)
        assert looked.weights.sum(axis=1) == pytest.approx(1, abs=1e-5)
        assert looked.step_s == pytest.approx(1 / FEATURES.fps)
        (alone,) = translator.align([clip], [translation])
        assert alone.weights == pytest.approx(looked.weights, abs=1e-5)


def test_a_token_in_the_middle_of_a_character_has_no_text_of_its_own(
    translator: Translator,
) -> None:
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    ids = [*tokenizer.encode("à é"), *tokenizer.encode("ت"), tokenizer.eos]
    clip = corpus()["test0"]
    hypothesis = Hypothesis(tokens=tuple(ids), log_prob=-1.0, score=-1.0)
    (looked,) = translator.align([clip], [Translation(text="à éت", hypothesis=hypothesis)])
    assert "".join(looked.tokens) == "à éت"
    assert looked.tokens[-3:] == ("", "ت", "")  # its two bytes, and eos
    assert looked.weights.shape[0] == len(ids)


def test_a_model_without_attention_leaves_an_empty_table(
    translator: Translator, tmp_path: Path
) -> None:
    spec = replace(translator.spec, model=replace(MODEL, family="lstm", attention="none"))
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    torch.manual_seed(0)
    model = build_from_spec(spec, tokenizer).eval()
    checkpoint = Checkpoint(spec=spec, model=model, tokenizer=tokenizer)
    forgetful = Translator(checkpoint, torch.device("cpu"))
    evaluation = evaluate(forgetful, targets(), corpus(), OPTIONS)
    assert evaluation.alignments == {}
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    assert pq.read_table(tmp_path / "evaluation" / "alignments.parquet").num_rows == 0
