"""Judgements: blind, kept apart, counted as evaluation counts."""

import dataclasses
import json
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signloom.errors import UserError
from signloom.evaluation.compare import enlarge
from signloom.evaluation.judgements import (
    Answer,
    Answers,
    BlindAnswer,
    Judgements,
    krippendorff_alpha,
    prepare_task,
    show_blind,
    summarise,
)
from tests.unit.evaluation.judged import CLIPS, run, say, task
from tests.unit.evaluation.texts import options


@pytest.fixture
def judgements(tmp_path: Path) -> Judgements:
    store = Judgements(tmp_path)
    store.add("t", task(differing=True))
    return store


def test_alpha_is_that_of_krippendorffs_example() -> None:
    nan = np.nan  # section C of Krippendorff (2011): four observers, twelve units
    values = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
            [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
        ]
    )
    assert krippendorff_alpha(values, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(values, "interval") == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha(values[[0, 0]], "ordinal") == 1
    assert krippendorff_alpha(values[:1], "ordinal") is None  # nobody to agree with
    assert krippendorff_alpha(np.ones((3, 4)), "interval") is None  # nothing to tell apart


def test_what_a_judge_is_shown_does_not_say_whose_sentence_is_whose(judgements: Judgements) -> None:
    prepared = judgements.read("t")
    exchanged = dataclasses.replace(
        prepared,
        a=prepared.b,
        b=prepared.a,
        pairs=[dataclasses.replace(pair, a=pair.b, b=pair.a) for pair in prepared.pairs],
    )
    say(judgements, "anna", 0, "new", 80, 20)
    sheet = judgements.sheet("t", "anna")
    shown = show_blind(prepared, sheet)
    assert {key for pair in shown for key in pair} == {"clip_id", "sentences", "answer"}
    assert "weights" not in json.dumps(shown)
    assert "runs/" not in json.dumps(shown)
    # Neither does the order: each system is first about as often, and others see another order.
    for judge in ("anna", "ben"):
        orders = [prepared.order(judge, pair.clip_id) for pair in prepared.pairs]
        assert 5 <= orders.count(("a", "b")) <= 15
    assert orders != [prepared.order("anna", pair.clip_id) for pair in prepared.pairs]
    sentences = [sorted(pair["sentences"]) for pair in shown]
    assert sentences == [sorted(pair["sentences"]) for pair in show_blind(exchanged, sheet)]
    (answered,) = (pair for pair in shown if pair["answer"])
    first_is_new = answered["sentences"][0].startswith("new")
    assert answered["answer"]["preferred"] == ("first" if first_is_new else "second")
    assert answered["answer"]["scores"] == ([80, 20] if first_is_new else [20, 80])


def test_judges_overwrite_nothing_and_go_on_later(judgements: Judgements, tmp_path: Path) -> None:
    def work(judge: str, clips: range) -> None:
        for clip in clips:
            say(judgements, judge, clip, "new", 60, 40)

    parts = [("anna", range(6)), ("anna", range(6, 9)), ("ben", range(4)), ("../c", range(2))]
    threads = [threading.Thread(target=work, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    later = Judgements(tmp_path)
    assert {s.judge: len(s.answers) for s in later.sheets("t")} == {"anna": 9, "ben": 4, "../c": 2}
    assert len(later.sheet("t", "  anna ").answers) == 9
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "t"}
    say(later, "anna", 0, "old", 10, 90)  # she has changed her mind
    assert len(later.sheet("t", "anna").answers) == 9


def test_results_count_clips_and_have_the_bootstraps_intervals(judgements: Judgements) -> None:
    assert judgements.results() == []
    for clip in range(10):
        say(judgements, "anna", clip, "new" if clip < 7 else "equal", 70, 50)
        say(judgements, "ben", clip, "old" if clip == 9 else "new", 90, 80)
    (result,) = judgements.results()
    assert (result.judges, result.clips, result.of, result.answers) == (2, 10, 20, 20)
    assert (result.wins, result.losses, result.ties) == (9, 1, 0)
    assert (result.score_a, result.score_b) == (65, 80)
    assert result.preference.value == pytest.approx(100 * (7 + 2 * 0.5 - 0.5) / 10)
    per_clip = np.array([100] * 7 + [50, 50, -50])
    rng = np.random.default_rng(options().seed)
    order = [p.clip_id for p in judgements.read("t").pairs]
    assert order == [p.clip_id for p in task(differing=True).pairs]  # the same draw
    drawn = [per_clip[rng.integers(0, 10, 10)].mean() for _ in range(options().resamples)]
    ends = enlarge(result.preference.value, np.quantile(drawn, [0.025, 0.975]), 10)
    assert (result.preference.low, result.preference.high) == pytest.approx((ends[0], 100))
    assert ends[1] > 100  # which no share is
    assert (result.difference.value, result.difference.low) == pytest.approx((15, 15))
    assert result.alpha_preference is not None
    assert result.alpha_preference < 0.5 < 1


@pytest.mark.parametrize(
    ("clips", "draws"),
    [
        (10, 80),
        pytest.param(10, 1000, marks=pytest.mark.slow),
        pytest.param(20, 1000, marks=pytest.mark.slow),
    ],
)
def test_few_of_equal_systems_are_called_different_by_judges(clips: int, draws: int) -> None:
    rng, different = np.random.default_rng(0), Counter[str]()
    prepared = task(differing=True, clips=clips)
    for seed in range(draws):
        judged = replace(prepared, score=options(resamples=500, seed=seed))
        sheets = [
            Answers(
                judge=name,
                answers={
                    pair.clip_id: Answer(
                        preferred=rng.choice(["a", "b", "equal"]), a=int(rng.integers(101)), b=50
                    )
                    for pair in judged.pairs
                },
            )
            for name in ("anna", "ben")
        ]
        result = summarise("t", judged, sheets)
        assert result is not None
        for name in ("preference", "difference"):
            estimate = getattr(result, name)
            different[name] += estimate.low > 0 or estimate.high < 0
    assert max(different.values()) / draws <= 0.05 + 0.015 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_the_results_of_a_model_are_those_in_which_it_took_part(judgements: Judgements) -> None:
    for clip in range(8):
        say(judgements, "anna", clip, "new" if clip else "old", 70, 40)
    (result,) = judgements.results_of("weights of new")
    assert (result.task, result.b, result.wins, result.losses) == ("t", "runs/new", 7, 1)
    assert judgements.results_of("") == judgements.results_of("others") == []


def test_only_systems_that_were_scored_alike_on_the_same_clips_are_prepared() -> None:
    settings: dict[str, Any] = {"clips": 5, "seed": 1, "differing": False}
    with pytest.raises(UserError, match="not evaluated on the same clips of test: 3 are in one"):
        prepare_task(run("old"), run("new", clips=CLIPS + 3), "test", **settings)
    new_run = run("new", options=dataclasses.replace(options(), tokenizer="char"))
    with pytest.raises(UserError, match="scored with tokenizer 13a, runs/new with char"):
        prepare_task(run("old"), new_run, "test", **settings)
    with pytest.raises(UserError, match=r"share no clip of dev"):
        prepare_task(run("old"), run("new"), "dev", **settings)
    with pytest.raises(UserError, match=r"say the same of all 30 clips"):
        prepare_task(run("old"), run("old"), "test", **{**settings, "differing": True})
    assert all(pair.a != pair.b for pair in task(differing=True, clips=100).pairs)
    assert len(task(differing=True, clips=100).pairs) == CLIPS * 2 // 3


def test_a_task_is_not_changed_under_its_judges(judgements: Judgements) -> None:
    judgements.add("t", task(differing=True))
    with pytest.raises(UserError, match="holds another task"):
        judgements.add("t", task(seed=5))
    with pytest.raises(UserError, match=r"--name \.\./t: use letters"):
        judgements.add("../t", task())
    with pytest.raises(UserError, match=r"there is no task '../t' \(there: t\)"):
        judgements.read("../t")
    with pytest.raises(UserError, match="'clip99' is no clip of t"):
        judgements.answer(
            "t", BlindAnswer(judge="a", clip_id="clip99", preferred="equal", scores=(1, 1))
        )
    with pytest.raises(UserError, match="a judge needs a name"):
        judgements.sheet("t", "  ")
