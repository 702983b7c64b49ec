"""Changes of real life keep a clip a clip; their cost is counted, and doubt is learnt from it."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from signloom.evaluation import stress
from signloom.evaluation.calibrate import choose_limit
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.metrics import Score
from signloom.evaluation.results import write_evaluation
from signloom.evaluation.stress import CHANGES, NONE, ChangedClips
from signloom.translation.confidence import CONFIDENCE, fit_levels, read_confidence
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Translator
from tests import tiny
from tests.unit.evaluation.world import OPTIONS, corpus, history, read_table, targets

CLIP = dataclasses.replace(tiny.sequence(frames=40), fps=25.0)


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_keeps_a_clip_a_clip_and_draws_from_its_generator_alone(name: str) -> None:
    first, again = (CHANGES[name](CLIP, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.points, again.points)
    assert first.points.dtype == np.float32
    assert len(first.points)
    if name != NONE:
        same = first.points.shape == CLIP.points.shape and np.array_equal(first.points, CLIP.points)
        assert not same, "nothing was changed"


def test_times_are_seconds_of_the_clip() -> None:
    chance = np.random.default_rng(0)
    before = CHANGES["1 s still before"](CLIP, chance)
    assert len(before.points) == 40 + CLIP.fps
    np.testing.assert_array_equal(before.points[: int(CLIP.fps)], CLIP.points[[0] * int(CLIP.fps)])
    assert len(CHANGES["0.2 s cut off the end"](CLIP, chance).points) == 40 - round(0.2 * CLIP.fps)
    assert len(CHANGES["1.6 times slower"](CLIP, chance).points) == 64
    short = tiny.sequence(frames=2)
    assert all(len(change(short, chance).points) for change in CHANGES.values())


def test_hands_are_lost_in_the_share_that_is_named() -> None:
    lost = CHANGES["hands lost in 3 of 10 frames"](CLIP, np.random.default_rng(0))
    for hand in ("left_hand", "right_hand"):
        assert 0.3 <= (~lost.present[:, lost.layout.group(hand)]).mean() < 0.5


def test_an_evaluation_says_what_each_change_costs(tmp_path: Path) -> None:
    translator = Translator.load(tiny.write_checkpoint(tmp_path / "checkpoint"))
    options = dataclasses.replace(OPTIONS, stress=2)
    evaluation = evaluate(translator, targets(), corpus(), options, weights="0" * 64)
    stress_rows = {split: result.stress for split, result in evaluation.splits.items()}
    assert [len(rows) for rows in stress_rows.values()] == [len(CHANGES)] * 2
    assert {row.clips for row in stress_rows["test"]} == {2}  # every second of three
    write_evaluation(tmp_path / "reports", evaluation, history(tmp_path))
    rows = read_table(tmp_path / "reports/evaluation/stress.csv")
    assert [row["name"] for row in rows][:2] == [f"dev {NONE}", "dev 0.5 s still before"]
    metrics = json.loads((tmp_path / "reports/metrics.json").read_text())
    scores = [row.score for row in stress_rows["test"]]
    assert metrics["test"]["stress_worst"] == pytest.approx(min(scores), abs=1e-4)
    written = read_confidence(tmp_path / "reports/evaluation" / CONFIDENCE)
    assert written == evaluation.confidence
    assert written.train
    assert written.train.posture
    plain = evaluate(translator, targets(), corpus(), OPTIONS)
    assert plain.splits["test"].stress == []
    assert plain.confidence.train
    assert plain.confidence.train.posture is None
    assert plain.splits["dev"].result.texts == evaluation.splits["dev"].result.texts


def changed_clips(change: str, *pairs: tuple[float, bool]) -> ChangedClips:
    """Return clips with these scores of a token, right or not."""
    return ChangedClips(
        split="dev",
        change=change,
        clip_ids=[str(n) for n in range(len(pairs))],
        originals=[CLIP] * len(pairs),
        seed=1,
        hypotheses=[Hypothesis(tokens=(1,), log_prob=score, score=score) for score, _ in pairs],
        encodings=np.zeros((len(pairs), 2), np.float32),
        right=[right for _, right in pairs],
        score=Score("bleu4", 0, 0, 0, ""),
        wer=0,
        exact=0,
    )


def test_doubt_begins_where_a_fifth_of_what_is_said_under_any_change_is_right() -> None:
    plain = [(-0.1, True)] * 20
    lost = [(-0.1, True)] * 12 + [(-0.5, True)] * 6 + [(-0.5, False)] * 4
    rows = [changed_clips(NONE, *plain), changed_clips("lost", *lost)]
    pooled = [pair for row in rows for pair in zip(row.hypotheses, row.right, strict=True)]
    levels = fit_levels([h.log_prob for h, _ in pooled], [right for _, right in pooled])
    assert choose_limit(levels, rows[:1]) == 0.5
    # 4 of 22 are wrong, less than a fifth: nothing is held back.
    assert choose_limit(levels, rows) == 0.5
    worse = [rows[0], changed_clips("lost", *lost, *[(-0.5, False)] * 3)]
    assert choose_limit(levels, worse) > 0.5
    # But never at the price of a tenth of the right ones: without changes those are said, too.
    low = [changed_clips(NONE, *[(-0.5, True)] * 10), worse[1]]
    assert choose_limit(levels, low) == levels[0].confidence  # at which all of them are said


def test_what_is_said_is_all_where_nothing_was_measured(tmp_path: Path) -> None:
    translator = Translator.load(tiny.write_checkpoint(tmp_path / "checkpoint"))
    clips = changed_clips("lost", (-0.1, True), (-0.2, False))
    row = stress.stress_row(clips, stress.has_no_warning(clips, translator, None))
    assert (row.said, row.wrong) == (100, 50)
    assert stress.stress_row(clips, [True, False]).wrong == 0
    assert stress.stress_row(clips, [False, False]).said == 0
