"""The confidence that `evaluate` measures, and how true it says that is."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.calibrate import Reliability
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.results import write_evaluation
from signloom.evaluation.stress import lose_hands, shake
from signloom.translation.confidence import CONFIDENCE, Check, read_confidence
from signloom.translation.familiarity import describe_postures, measure_posture
from signloom.translation.search import Hypothesis
from tests import tiny
from tests.unit.evaluation.world import OPTIONS, Knowing, corpus, history, read_table, targets


class Guessing(Knowing):
    """Knows what it says where its score is high; else it says what is wrong."""

    def translate(self, sequences, options, *, blind=False, progress=None):  # type: ignore[no-untyped-def]
        translations = super().translate(sequences, options, blind=blind)
        poor = Hypothesis(tokens=(3, 1), log_prob=-6.0, score=-3.0)
        return [
            translation
            if len(clip.points) % 2
            else replace(translation, text="non", hypothesis=poor)
            for translation, clip in zip(translations, sequences, strict=True)
        ]


def checked(*pairs: tuple[float | None, bool], unlike: tuple[str, ...] | None = ()) -> Reliability:
    checks = [
        Check(confidence=value, is_unsure=(value or 1) < 0.5, unlike=unlike) for value, _ in pairs
    ]
    return Reliability(checks=checks, right=[is_right for _, is_right in pairs])


def test_the_calibration_error_is_the_gap_between_confidence_and_share_right() -> None:
    reliability = checked((0.9, True), (0.9, False), (0.2, False), (0.2, False))
    assert reliability.levels == [(0.2, 2, 0), (0.9, 2, 1)]
    assert reliability.error == pytest.approx(100 * (2 * 0.2 + 2 * 0.4) / 4)
    assert reliability.to_metrics() == {"calibration_error": 30.0, "unsure": 2, "unfamiliar": 0}
    assert checked((0.5, True), (0.5, False)).error == 0
    # What was not measured is no metric.
    assert checked((None, True), unlike=None).to_metrics() == {}
    assert checked((None, True), unlike=("a hand",)).to_metrics() == {"unfamiliar": 1}


def test_an_evaluation_says_how_sure_each_translation_is(knowing: Knowing, tmp_path: Path) -> None:
    guessing = Guessing(knowing, knowing._said)
    evaluation = evaluate(guessing, targets(), corpus(), OPTIONS, weights="0" * 64)
    write_evaluation(tmp_path / "reports", evaluation, history(tmp_path))
    folder = tmp_path / "reports/evaluation"
    confidence = read_confidence(folder / CONFIDENCE)
    assert confidence == evaluation.confidence
    assert confidence.weights == "0" * 64
    assert sum(level.clips for level in confidence.levels) == 2  # of dev
    scores = json.loads((folder / "scores.json").read_text())
    for split, clips in (("test", 3), ("dev", 2)):
        part = scores["confidence"][split]
        assert sum(level["clips"] for level in part["levels"]) == clips
        right = [
            row["exact"] == "1"
            for row in read_table(folder / "hypotheses.tsv")
            if row["split"] == split
        ]
        assert sum(level["right"] for level in part["levels"]) == sum(right)
    rows = read_table(folder / "hypotheses.tsv")
    assert {row["familiar"] for row in rows} <= {"0", "1"}
    assert all(0 < float(row["confidence"]) < 1 for row in rows)


def test_without_dev_nothing_is_calibrated(knowing: Knowing) -> None:
    some = [target for target in targets() if target.split != "dev"]
    evaluation = evaluate(knowing, some, corpus(), OPTIONS)
    assert evaluation.confidence.levels == ()
    assert evaluation.confidence.train
    metrics = evaluation.splits["test"].reliability.to_metrics()
    assert metrics.keys() == {"unfamiliar"}


def test_a_film_of_another_body_is_unlike_train_whatever_the_encoder_makes_of_it() -> None:
    """A model of drawn signers read films of people as if it knew them."""
    signer = tiny.sequence(0, frames=30)
    known_clips = [shake(0.01)(signer, np.random.default_rng(seed)) for seed in range(40)]
    posture = describe_postures(known_clips[:30], known_clips[30:35])
    assert posture is not None

    def distance(clip: LandmarkSequence) -> float:
        measured = measure_posture(clip)
        assert measured is not None
        return float(posture.distances(measured[None])[0]) / posture.limit

    assert all(distance(clip) < 1 for clip in known_clips[35:])
    for share in (0.1, 0.3):
        lost = lose_hands(share)(known_clips[36], np.random.default_rng(0))
        assert distance(lost) < 1  # a hand that is lost now and again is held as before
    stranger = tiny.sequence(5, frames=30)
    assert distance(stranger) > 1
    assert distance(lose_hands(0.3)(stranger, np.random.default_rng(0))) > 1


def test_what_no_frame_shows_is_no_difference() -> None:
    known_clips = [tiny.sequence(seed, frames=30) for seed in range(20)]
    posture = describe_postures(known_clips[:15], known_clips[15:])
    handless = tiny.lose(known_clips[16], "left_hand", slice(None))
    measured = measure_posture(handless)
    assert posture is not None
    assert measured is not None
    assert np.isnan(measured).any()
    assert np.isfinite(posture.scaled(measured[None])).all()
