import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from signloom.checkpoint import WEIGHTS, save_checkpoint
from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.floors import (
    fit_classifier,
    fit_linear,
    fit_linear_classifier,
    fit_nearest,
)
from signloom.evaluation.metric_names import System
from signloom.evaluation.systems import run_systems, swap_clips
from signloom.features.targets import CtcLabels, Target
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file
from signloom.translation.confidence import CONFIDENCE, Confidence, write_confidence
from signloom.translation.labels import MODEL_WEIGHT, weigh_labels
from signloom.translation.translator import Translator
from tests import tiny
from tests.unit.evaluation.world import (
    DECODING,
    OPTIONS,
    TEST,
    TRAIN,
    Knowing,
    corpus,
    sequence,
    setup,
    targets,
)


def test_every_system_says_one_sentence_a_clip(translator: Translator) -> None:
    dev, test = run_systems(setup(translator))
    assert (dev.split, test.split) == ("dev", "test")
    assert set(test.texts) == set(System) - {System.COPY}
    assert [len(texts) for texts in test.texts.values()] == [len(TEST)] * len(test.texts)
    assert sorted(test.texts["swapped"]) == sorted(test.texts["model"])
    assert [t.text for t in test.targets] == TEST
    assert set(test.texts["constant"]) <= set(TRAIN)
    assert len(set(test.texts["constant"])) == 1
    assert set(test.texts["random"]) | set(test.texts["retrieval"]) <= set(TRAIN)


def test_retrieval_finds_the_training_clip_that_was_signed_again(translator: Translator) -> None:
    clips = corpus()
    nearest = fit_nearest(translator, targets(), clips)
    for i, text in enumerate(TRAIN):
        clip = clips[f"train{i}"]
        noise = np.random.default_rng(i).normal(0, 0.01, clip.points.shape).astype(np.float32)
        again = replace(clip, points=clip.points + noise)
        assert nearest([again]) == [text]


def test_a_linear_classifier_tells_training_clips_apart(translator: Translator) -> None:
    clips = corpus()
    classify = fit_linear(translator, targets(), clips)
    assert classify is not None
    assert classify([clips[f"train{i}"] for i in range(len(TRAIN))]) == TRAIN
    one_text = [replace(target, text="one") for target in targets()]
    assert fit_linear(translator, one_text, clips) is None  # scikit-learn wants two
    results = run_systems(setup(translator, targets=one_text))
    assert all(System.LINEAR not in result.texts for result in results)


def test_more_numbers_than_clips_do_not_change_the_linear_floor() -> None:
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(24, 90))
    texts = [f"sign {number % 3}" for number in range(24)]
    plain = make_pipeline(StandardScaler(), LogisticRegression(C=0.01)).fit(vectors, texts)
    others = generator.normal(size=(50, 90))
    expected, found = (
        model.predict_proba(others) for model in (plain, fit_classifier(vectors, texts, 0.01))
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_linear_floor_bears_clips_that_show_nothing() -> None:
    texts = ["a", "b", "c"] * 2
    model = fit_classifier(np.full((6, 40), np.nan), texts)
    assert {*model.predict(np.full((2, 40), np.nan))} <= {*texts}


def test_the_linear_floor_bears_clips_without_a_body(translator: Translator) -> None:
    """With the pose missing in 43 % of the frames it named 30 % of letters, ten lines 49 to 54."""
    rng = np.random.default_rng(0)
    clip = sequence(0)
    letters = rng.normal(0, 0.006, (6, *clip.points.shape[1:]))
    clips: dict[str, LandmarkSequence] = {}
    labelled: list[Target] = []
    for split, count in (("train", 12), ("dev", 6), ("test", 30)):
        for number in range(count):
            near = rng.uniform(0.6, 1.5)  # the camera
            points = 0.5 + (clip.points + letters[number % 6] - 0.5) * near
            points += rng.normal(0, 0.003, points.shape)
            present = clip.present.copy()
            if rng.random() < 0.43:
                present[:, clip.layout.group("pose")] = False
            lost = ~np.repeat(present, [len(g.landmarks) for g in clip.layout.groups], axis=1)
            points[lost] = np.nan
            clips[f"{split}{number}"] = replace(
                clip, points=points.astype(np.float32), present=present
            )
            labelled.append(
                replace(
                    targets()[0],
                    clip_id=f"{split}{number}",
                    split=split,
                    text=f"letter {number % 6}",
                )
            )
    classify = fit_linear(translator, labelled, clips)
    assert classify is not None
    test_targets = [target for target in labelled if target.split == "test"]
    texts = classify([clips[target.clip_id] for target in test_targets])
    assert (
        np.mean([text == target.text for text, target in zip(texts, test_targets, strict=True)])
        > 0.9
    )


def test_missing_clips_are_not_scored(knowing: Knowing, caplog: pytest.LogCaptureFixture) -> None:
    clips = corpus()
    del clips["test1"], clips["train2"]
    evaluation = evaluate(knowing, targets(), clips, OPTIONS)
    assert "test: 1 clip without landmarks: test1" in caplog.text
    assert evaluation.splits["test"].result.missing == ["test1"]
    assert evaluation.metrics["test"]["clips"] == 2
    assert evaluation.metrics["test"]["missing"] == 1
    assert evaluation.metrics["dev"]["missing"] == 0


def test_without_any_landmarks_there_is_an_error(knowing: Knowing) -> None:
    clips = corpus()
    only_train = {clip_id: clip for clip_id, clip in clips.items() if clip_id.startswith("train")}
    with pytest.raises(UserError, match="no clip of dev or test has landmarks"):
        evaluate(knowing, targets(), only_train, OPTIONS)
    with pytest.raises(UserError, match="no train clip has landmarks"):
        evaluate(knowing, targets(), {}, OPTIONS)


def test_another_clip_has_another_sentence_wherever_there_are_enough() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 30))
        texts = [f"sentence {number}" for number in rng.integers(0, 5, size)]
        if len(set(texts)) < 2:
            continue
        swapped = swap_clips(texts, rng)
        assert swapped is not None
        assert sorted(swapped) == list(range(size))
        assert all(swap != clip for clip, swap in enumerate(swapped))
        most = max(texts.count(text) for text in texts)
        same = sum(texts[partner] == texts[clip] for clip, partner in enumerate(swapped))
        assert same == max(0, 2 * most - size)  # no permutation has fewer


def test_one_sentence_for_all_clips_has_no_swap(knowing: Knowing) -> None:
    assert swap_clips(["a", "a"], np.random.default_rng(0)) is None
    assert swap_clips(["a"], np.random.default_rng(0)) is None
    alike = [replace(t, text="demain") if t.split == "dev" else t for t in targets()]
    evaluation = evaluate(knowing, alike, corpus(), OPTIONS)
    assert evaluation.splits["dev"].input_check is None
    assert "swapped" not in evaluation.splits["dev"].systems
    assert "swapped" in evaluation.splits["test"].systems


def test_references_never_leak(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def say(corpus_targets: list[Target]) -> list[dict[str, list[str]]]:
        splits = evaluate(translator, corpus_targets, corpus(), OPTIONS).splits.values()
        return [
            {k: split.result.texts[k] for k in ("model", "greedy", "blind")} for split in splits
        ]

    honest = say(targets())
    assert any(text for result in honest for text in result["model"])
    corrupted = [
        t
        if t.split == "train"
        else replace(t, text=f"autre {i}", ids=[1, 2], gloss="X", labels=[9])
        for i, t in enumerate(targets())
    ]
    assert say(corrupted) == honest

    def teacher_forced(*_: object, **__: object) -> None:
        raise AssertionError("the model was given a target")

    monkeypatch.setattr(type(translator._model), "forward", teacher_forced)
    with pytest.raises(AssertionError, match="given a target"):
        translator._model(torch.zeros(1, 4, 4), torch.ones(1, 4, dtype=torch.bool), [[0]])
    assert say(targets()) == honest


@pytest.mark.parametrize("count", [2, 4])
def test_single_signs_are_read_with_the_linear_classifier(count: int, tmp_path: Path) -> None:
    clips, labelled = corpus(), targets()
    texts = {target.clip_id: TRAIN[n % count] for n, target in enumerate(labelled)}
    labelled = [replace(target, text=texts[target.clip_id]) for target in labelled]
    names = (*sorted(TRAIN[:count]), "zzz, of which no clip is there")
    model = replace(tiny.MODEL, family="convolution", decoder_layers=0)
    base = tiny.checkpoint(
        Tokenizer.build(TRAIN, "pruned"), model=model, ctc=CtcLabels(kind="texts", names=names)
    )
    plain = Translator(base, torch.device("cpu"))
    classifier, floor = (fit(plain, labelled, clips) for fit in (fit_linear_classifier, fit_linear))
    assert classifier
    assert floor
    translator = plain.with_signs(linear=classifier)
    sequences = [clips[target.clip_id] for target in labelled]
    read = np.stack([translator.linear_log_probs(clip) for clip in sequences])
    assert [names[n] for n in read.argmax(axis=1)] == floor(sequences)
    np.testing.assert_allclose(np.exp(read).sum(axis=1), 1)
    own = [weigh_labels(log_probs) for log_probs in plain._paces(plain._rows(sequences), "text")]
    product = read - MODEL_WEIGHT * np.array(own)
    said = translator.translate(sequences, DECODING)
    assert [t.text for t in said] == [names[n] for n in product.argmax(axis=1)]
    best = product.max(axis=1) - np.logaddexp.reduce(product, axis=1)
    np.testing.assert_allclose([t.hypothesis.log_prob for t in said], best, atol=1e-5)
    blind = [t.text for t in translator.translate(sequences, DECODING, blind=True)]
    assert blind == [t.text for t in plain.translate(sequences, DECODING, blind=True)]
    # What `evaluate` has scored is what every program loads.
    save_checkpoint(tmp_path, base)
    confidence = Confidence(
        weights=hash_file(tmp_path / WEIGHTS),
        unsure_below=0.5,
        levels=(),
        train=None,
        linear=classifier,
    )
    write_confidence(tmp_path / CONFIDENCE, confidence)
    loaded = Translator.load(tmp_path, torch.device("cpu"))
    assert [t.text for t in loaded.translate(sequences, DECODING)] == [t.text for t in said]
    results = run_systems(setup(loaded, targets=labelled))
    assert [result.texts[System.LINEAR] for result in results] == [
        floor(result.clips) for result in results
    ]


def test_other_models_have_no_linear_classifier(translator: Translator, tmp_path: Path) -> None:
    assert fit_linear_classifier(translator, targets(), corpus()) is None
    confidence = Confidence(weights="", unsure_below=0.5, levels=(), train=None)
    write_confidence(tmp_path / CONFIDENCE, confidence)
    assert "linear" not in json.loads((tmp_path / CONFIDENCE).read_text(encoding="utf-8"))
