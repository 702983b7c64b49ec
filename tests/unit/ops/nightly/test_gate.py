import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from signloom.evaluation.compare import compare, enlarge
from signloom.evaluation.metric_names import System
from signloom.evaluation.summary import SeenInTrain
from signloom_ops.nightly.gate import TESTS, count_system, level_tonight
from tests.unit.ops.nightly.systems import SCORE, decided, gate_clips, rule, system, targets

CLIPS = targets(90)
GATE = gate_clips(CLIPS)


def test_a_clearly_better_challenger_takes_the_place_and_each_rule_has_its_figures() -> None:
    decision = decided(system(CLIPS, 0.4, version=1), system(CLIPS, 0.1), GATE)
    assert decision.promote
    assert rule(decision, "better") == "passed"
    record = json.loads(json.dumps(decision.to_map()))
    assert {rule["name"] for rule in record["rules"]} == {
        "better",
        "served",
        "slices",
        "uses_input",
        "newest",
    }
    assert len(record["reasons"]) == len(record["rules"])
    assert set(record["scores"]) == {"chrf", "bleu4", "wer", "exact"}
    assert len(record["scores"]["bleu4"]["challenger_seeds"]) == 3
    assert record["test"] == [clip.clip_id for clip in CLIPS]


def test_a_worse_one_does_not() -> None:
    decision = decided(system(CLIPS, 0.1, version=1), system(CLIPS, 0.4), GATE)
    assert not decision.promote
    for name in ("better", "served", "slices"):
        assert rule(decision, name) == "failed"


def test_the_same_model_again_is_refused() -> None:
    champion = system(CLIPS, 0.2, version=1)
    decision = decided(champion, dataclasses.replace(champion, version=2), GATE)
    assert not decision.promote
    scores = decision.to_map()["scores"]["chrf"]
    assert (scores["difference"], scores["low"], scores["high"], scores["p_value"]) == (0, 0, 0, 1)


def test_where_the_gate_is_about_signs_the_lower_error_rate_wins() -> None:
    good, bad = system(CLIPS, 0.1), system(CLIPS, 0.4, version=1)
    decision = decided(bad, good, GATE, metric="gloss_wer")
    assert decision.promote
    assert "gloss WER" in decision.reasons[0]
    assert decision.to_map()["metric"] == "gloss_wer"
    worse = decided(
        dataclasses.replace(good, version=1), system(CLIPS, 0.4), GATE, metric="gloss_wer"
    )
    assert not worse.promote
    results = {name: rule(worse, name) for name in ("better", "served", "slices")}
    assert set(results.values()) == {"failed"}
    first = dataclasses.replace(GATE, floors={System.RETRIEVAL: [clip.text for clip in CLIPS]})
    assert rule(decided(None, good, first, metric="gloss_wer"), "floors") == "failed"


def test_five_clips_are_too_few_to_decide_and_no_reason_names_infinity() -> None:
    few = targets(5)
    decision = decided(system(few, 0.4, version=1), system(few, 0.1), gate_clips(few))
    assert rule(decision, "better") == "failed"
    assert rule(decision, "uses_input") == "not judged"
    assert "too few clips to decide" in decision.reasons[0]
    assert not [reason for reason in decision.reasons if "inf" in reason]


def test_better_on_the_whole_and_worse_for_one_signer_or_unseen_signers_is_refused() -> None:
    train_clips = [dataclasses.replace(c, split="train") for c in CLIPS if c.signer != "cora"]
    champion = system(CLIPS, 0.5, version=1)
    cora_texts = {clip.clip_id: [clip.text] * 3 for clip in CLIPS if clip.signer == "cora"}
    champion = dataclasses.replace(champion, texts={**champion.texts, **cora_texts})
    clips = dataclasses.replace(GATE, trained=SeenInTrain(train_clips))
    decision = decided(champion, system(CLIPS, 0.4, only="cora"), clips)
    assert rule(decision, "better") == "passed"
    assert rule(decision, "slices") == "failed"
    assert not decision.promote
    results = {(row["kind"], row["group"]): row["result"] for row in decision.to_map()["slices"]}
    assert results["signer", "cora"] == results["new_signer", "unseen"] == "worse"
    assert results["signer", "anna"] == results["new_signer", "seen in train"] == "ok"
    assert {kind for kind, _ in results} == {"signer", "words", "sentence", "novelty", "new_signer"}
    assert "cora" not in " ".join([decision.verdict, *decision.reasons])  # slices alone name them


def test_a_group_of_few_clips_is_shown_and_not_judged() -> None:
    rare = [dataclasses.replace(clip, signer="dora") for clip in CLIPS[:5]]
    clips = [*rare, *CLIPS[5:]]
    spoilt = system(clips, 1.0, only="dora")
    decision = decided(system(clips, 0.0, version=1), spoilt, gate_clips(clips))
    dora = next(row for row in decision.to_map()["slices"] if row["group"] == "dora")
    assert dora["difference"] < -20
    assert dora["result"] == "few"


def test_the_mean_of_good_seeds_does_not_hide_that_the_served_one_is_bad() -> None:
    challenger = system(CLIPS, 0.0)
    bad = system(CLIPS, 0.45, draw=1).texts
    mixed = {clip: [bad[clip][0], *texts[1:]] for clip, texts in challenger.texts.items()}
    champion = system(CLIPS, 0.25, version=1)
    decision = decided(champion, dataclasses.replace(challenger, texts=mixed), GATE)
    assert rule(decision, "better") == "passed"
    assert rule(decision, "served") == "failed"
    assert not decision.promote


def test_one_seed_that_ignores_its_input_is_enough_to_refuse() -> None:
    challenger = system(CLIPS, 0.1)
    fluent = {clip: [*texts[:2], CLIPS[0].text] for clip, texts in challenger.texts.items()}
    decision = decided(
        system(CLIPS, 0.9, version=1), dataclasses.replace(challenger, texts=fluent), GATE
    )
    assert rule(decision, "better") == "passed"
    assert rule(decision, "uses_input") == "failed"
    assert not decision.promote
    assert "model 3 ignores" in " ".join(decision.reasons)


def test_where_all_clips_have_one_sentence_nothing_shows_that_a_model_looks() -> None:
    clips = [dataclasses.replace(clip, text="le chat") for clip in CLIPS]
    decision = decided(system(clips, 0.9, version=1), system(clips, 0.0), gate_clips(clips))
    assert rule(decision, "better") == "passed"
    assert not decision.promote


def test_what_is_worse_on_the_newest_clips_is_refused() -> None:
    newest = targets(20, prefix="new", seed=5)
    champion = system([*CLIPS, *newest], 0.3, version=1)
    bad, good = system(newest, 0.9).texts, system(CLIPS, 0.0)
    challenger = dataclasses.replace(good, texts={**good.texts, **bad})
    decision = decided(champion, challenger, gate_clips(CLIPS, newest=newest))
    assert rule(decision, "newest") == "failed"
    assert not decision.promote
    few = decided(champion, challenger, gate_clips(CLIPS, newest=newest[:5]))
    assert rule(few, "newest") == "not judged"
    assert few.promote
    assert few.to_map()["newest"]["clips"] == 5


def test_a_first_champion_must_beat_the_floors_and_look() -> None:
    floors = {"constant": [CLIPS[0].text] * 90, "retrieval": [clip.text for clip in CLIPS[::-1]]}
    clips = gate_clips(CLIPS, floors=floors)
    good = decided(None, system(CLIPS, 0.2, version=1), clips)
    assert good.promote
    assert good.champion is None
    assert {row["name"] for row in good.to_map()["floors"]} == {"constant", "retrieval"}
    assert not decided(None, system(CLIPS, 0.97, version=1), clips).promote
    fluent = system(CLIPS, 0.2, version=1)
    same = {clip: [CLIPS[0].text] * 3 for clip in fluent.texts}
    assert not decided(None, dataclasses.replace(fluent, texts=same), clips).promote


def test_the_mean_over_seeds_is_resampled_jointly() -> None:
    refs = [clip.text for clip in CLIPS]
    three = list(zip(*system(CLIPS, 0.3).texts.values(), strict=True))
    counts = count_system(three, refs, SCORE)
    drawn = np.mean([count.resample(SCORE)["chrf"] for count in counts], axis=0)
    right = count_system([refs] * 2, refs, SCORE)
    difference = compare(counts, right, SCORE, metrics=["chrf"], level=0.1)["chrf"]
    assert difference.a == pytest.approx(np.mean([count.values()["chrf"] for count in counts]))
    ends = np.quantile(100 - drawn, (0.05, 0.95))
    expected = enlarge(difference.difference, ends, len(CLIPS), 0.1)
    assert (difference.low, difference.high) == pytest.approx(expected)


def test_equal_systems_are_promoted_about_as_rarely_as_the_level_says() -> None:
    promoted = 0
    refs = [clip.text for clip in CLIPS[:40]]
    for draw in range(25):
        pair = (system(CLIPS[:40], 0.3, version=v, draw=draw, seeds=1) for v in (1, 2))
        old, new = (
            count_system([[texts[0] for texts in side.texts.values()]], refs, SCORE)
            for side in pair
        )
        promoted += compare(old, new, SCORE, metrics=["chrf"])["chrf"].is_better
    assert promoted <= 3  # 0.6 expected: one tail of 0.05


def test_the_levels_of_a_years_refused_challengers_add_up_to_the_stated_one() -> None:
    levels = [level_tonight(0.05, refused) for refused in range(TESTS + 1)]
    assert sum(levels) == pytest.approx(0.05)
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] == 0  # more would exceed it


def test_after_many_refusals_more_is_asked_for() -> None:
    pair = system(CLIPS, 0.42, version=1), system(CLIPS, 0.30)
    first, late = (decided(*pair, GATE, refused=refused) for refused in (0, 300))
    assert (rule(first, "better"), rule(late, "better")) == ("passed", "failed")
    assert first.figures["scores"] == late.figures["scores"]
    assert late.figures["level_tonight"] == pytest.approx(0.05 / 6.4816 / 301, rel=0.01)


def test_the_lower_bound_is_students_with_the_error_of_the_resamples() -> None:
    refs = [clip.text for clip in CLIPS]
    a, b = ([texts[0] for texts in system(CLIPS, w, draw=1).texts.values()] for w in (0.4, 0.2))
    score = dataclasses.replace(SCORE, resamples=4000)
    old, new = (count_system([texts], refs, score) for texts in (a, b))
    difference = compare(old, new, score, metrics=["exact"])["exact"]
    # Exact matches are a plain mean, of which the textbook's interval is known.
    gains = np.array([100.0 * ((y == r) - (x == r)) for x, y, r in zip(a, b, refs, strict=True)])
    theirs = stats.ttest_1samp(gains, 0).confidence_interval(0.998).low
    assert difference.lowest(0.001) == pytest.approx(
        theirs, abs=0.05 * abs(difference.difference - theirs)
    )
