"""What the page says, against a small project counted by hand."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from signloom.evaluation.compare import Difference
from signloom.evaluation.metric_names import Metric
from signloom.report.build import compare_with_floor
from signloom.report.samples import mark_words, pick_samples
from signloom.report.stage_files import Sources, read_sources
from signloom.report.tables import corpus_table
from signloom.report.verdict import reach_verdict, tiles, verdict_sentences
from tests.report_project import SCORE, score, write_project


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    report_sources = read_sources(write_project(tmp_path))
    report_sources.splits["test"]["clips"] = 8  # of the 5 that there are nothing is significant
    return report_sources


def test_sentences_below_say_on_what_the_scores_were_measured(sources: Sources) -> None:
    sources.splits["test"]["missing"] = ["x"]
    case = "signer p7: `tea` and `cup` seem exchanged, 43 -> 88 %"
    text = " ".join(verdict_sentences(dataclasses.replace(sources, exchanged=[case])))
    assert "On 8 test clips of 1 signer, none of whom is in train, BLEU-4 is 80.0" in text
    assert "So few clips say little" in text
    assert "The test video is looked at." in text
    assert "one seed is give or take 12.2 (standard deviation)" in text
    assert "without landmarks: 1 clip." in text
    assert f"Labels of train: {case}; compare the takes." in text


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        (
            {},
            "good",
            "has learnt to translate: BLEU-4 80.0 [75.0, 85.0] on 8 test clips; the best "
            "floor, retrieval, has 20.0.",
        ),
        ({"systems": {"model": 22.0}}, "open", "not clearly better than retrieval"),
        ({"systems": {"model": 12.0}}, "bad", "worse than retrieval"),
        ({"input_check": {"uses_input": False, "text": "..."}}, "bad", "ignores its input"),
        ({"only_sentence": "oui"}, "bad", "it has not learnt to translate"),
        ({"clips": 5}, "open", "too few clips to decide"),
    ],
)
def test_one_sentence_judges_the_model(
    sources: Sources, changes: dict[str, Any], kind: str, said: str
) -> None:
    results = sources.splits["test"]
    for system, value in changes.pop("systems", {}).items():
        results["systems"][system]["bleu4"] = score(value)
    results |= changes
    verdict = reach_verdict(sources, None)
    assert (verdict.kind, said in verdict.text) == (kind, True), verdict


@pytest.mark.parametrize(
    ("ends", "kind"), [((1.0, 90.0), "good"), ((-1.0, 90.0), "open"), ((-9.0, -1.0), "bad")]
)
def test_the_interval_of_the_difference_to_the_best_floor_decides(
    sources: Sources, ends: tuple[float, float], kind: str
) -> None:
    difference = Difference(
        name="bleu4", a=20.0, b=80.0, low=ends[0], high=ends[1], p_value=0.0123, spread=1.0,
        clips=8, resamples=1000, level=0.05, wins=5, losses=3, ties=0,
    )  # fmt: skip
    verdict = reach_verdict(sources, difference)
    assert (verdict.kind, "has 20.0, p = 0.012" in verdict.text) == (kind, True)


def test_the_difference_to_the_best_floor_is_tested_on_the_same_clips(sources: Sources) -> None:
    single_seed = dataclasses.replace(sources, seeds=None)
    rows = [row for row in single_seed.hypotheses if row["split"] == "test"]
    right, floor = (
        compare_with_floor(single_seed, [{**row, "hypothesis": row[name]} for row in rows])
        for name in ("reference", "retrieval")
    )
    assert right
    assert floor
    assert right.p_value < 0.05
    assert floor.p_value == 1
    assert compare_with_floor(sources, rows) is None  # the page has a mean of seeds


def test_an_ensemble_heads_the_page_and_is_named(sources: Sources) -> None:
    joint = dataclasses.replace(sources, options={**sources.options, "together": True})
    text = " ".join(verdict_sentences(joint))
    assert "This is the score of 2 seeds as one model, whose probabilities are averaged; " in text
    assert "alone they have 71.5 BLEU-4 in the mean." in text


def test_of_several_seeds_the_mean_and_its_interval_head_the_page(sources: Sources) -> None:
    model = sources.splits["test"]["systems"]["model"]
    model["bleu4"] |= {"value": 71.5, "low": 19.0, "high": 84.0}  # as `evaluate` writes them
    text = " ".join(verdict_sentences(sources))
    assert "BLEU-4 is 71.5 [19.0, 84.0] and the word error rate" in text
    assert "means of 2 seeds with intervals over seeds and clips; one seed is give or take" in text
    first = tiles(sources)[0]
    assert (first.value, first.note) == ("71.5", "95 %: 19.0 to 84.0")


def test_the_headline_of_single_words_is_the_share_that_is_right(sources: Sources) -> None:
    sources = dataclasses.replace(sources, headline=Metric.EXACT)
    assert "the share of exactly right texts, in %, is 80.0 [75.0, 85.0]" in (
        text := " ".join(verdict_sentences(sources))
    )
    assert "BLEU-4" not in text
    assert [tile.name for tile in tiles(sources)] == [
        "test exact, %",
        "test WER, %",
        "test chrF",
        "best floor, exact, %",
        "blind, exact, %",
        "swapped, exact, %",
    ]


def test_the_corpus_table_counts_by_hand(sources: Sources) -> None:
    train, dev, test = corpus_table(sources)
    assert (train.clips, train.signers, train.words) == (3, 1, 12)
    assert train.minutes == pytest.approx(3 * 0.8 / 60)
    assert dev.seen == 1
    assert dev.new_words == 0
    assert test.seen == pytest.approx(1 / 5)
    assert test.distinct_sentences == 5


def test_samples_are_the_best_the_median_and_the_worst(sources: Sources) -> None:
    rows = [row for row in sources.hypotheses if row["split"] == "test"]
    samples = pick_samples(rows, 1, SCORE)
    assert [(s.group, s.row["clip_id"]) for s in samples] == [
        ("best", "test0"),
        ("median", "test3"),
        ("worst", "test4"),
    ]
    many = pick_samples(rows, 9, SCORE)
    assert len({sample.row["clip_id"] for sample in many}) == len(many) == 5


def test_words_are_marked_on_the_side_where_they_stand() -> None:
    sample = mark_words({"reference": "a b c", "hypothesis": "x a d c"}, SCORE)
    assert [(word.text, word.kind) for word in sample.reference] == [
        ("a", "equal"),
        ("b", "missing"),
        ("c", "equal"),
    ]
    assert [(word.text, word.kind) for word in sample.hypothesis] == [
        ("x", "extra"),
        ("a", "equal"),
        ("d", "wrong"),
        ("c", "equal"),
    ]
