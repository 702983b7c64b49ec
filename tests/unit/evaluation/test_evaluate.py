import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest

from signloom.evaluation.evaluate import GridOptions, evaluate, try_searches
from signloom.evaluation.metric_names import Metric, System, headline_metric
from signloom.evaluation.results import write_evaluation
from signloom.features.targets import Target, split_hash
from signloom.report.scores import format_scores
from signloom.report.stage_files import read_scores
from tests.unit.evaluation.world import (
    DECODING,
    DEV,
    OPTIONS,
    TEST,
    Changed,
    Knowing,
    corpus,
    history,
    read_table,
    setup,
    targets,
    wrong_unless,
)


@pytest.fixture
def searching(knowing: Knowing) -> Changed:
    """Says what is right with beam 3 and penalty 0.5 alone."""
    is_best = wrong_unless(lambda search: (search.beam_size, search.length_penalty) == (3, 0.5))
    return Changed(knowing, is_best)


GRID = GridOptions(beam_sizes=(1, 2, 3), length_penalties=(0.5, 1.0))
WITH_GRID = dataclasses.replace(OPTIONS, grid=GRID)


def test_the_best_search_on_dev_is_used_on_test(searching: Changed, tmp_path: Path) -> None:
    evaluation = evaluate(searching, targets(), corpus(), WITH_GRID)
    assert evaluation.decoding == dataclasses.replace(DECODING, beam_size=3, length_penalty=0.5)
    tried = searching.asked[:5]
    assert {clips for _, clips in tried} == {len(DEV)}  # test is not touched
    # Greedy search is the same with every penalty and tried once.
    assert [(search.beam_size, search.length_penalty) for search, _ in tried] == [
        (1, 0.5),
        (2, 0.5),
        (2, 1.0),
        (3, 0.5),
        (3, 1.0),
    ]
    assert evaluation.splits["test"].result.texts["model"] == TEST
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    rows = read_table(tmp_path / "evaluation" / "grid.csv")
    assert [row["chosen"] for row in rows] == ["0", "0", "0", "0", "1", "0"]
    assert rows[0]["bleu4"] == rows[1]["bleu4"]
    assert float(rows[4]["bleu4"]) > float(rows[5]["bleu4"])
    assert rows[4]["wer"] == "0.0"


def test_of_equal_searches_the_first_is_used(knowing: Knowing) -> None:
    grid = GridOptions(beam_sizes=(4, 2), length_penalties=(0.8, 1.0))
    decoding, rows = try_searches(setup(knowing), grid)
    assert decoding == dataclasses.replace(DECODING, beam_size=4, length_penalty=0.8)
    assert [row["chosen"] for row in rows] == [1, 0, 0, 0]


def test_dev_chooses_the_weight_of_the_internal_language_model(knowing: Knowing) -> None:
    def chosen(*weights: float) -> float:
        grid = dataclasses.replace(GRID, internal_lm_weights=weights)
        return try_searches(setup(translator), grid)[0].internal_lm_weight

    translator = Changed(knowing, wrong_unless(lambda search: search.internal_lm_weight == 0.1))
    assert (chosen(0.0, 0.1, 0.3), chosen(0.0, 0.3), chosen(0.3, 0.0)) == (0.1, 0.0, 0.3)


def test_dev_chooses_the_weight_of_the_signs_with_the_most_beams(knowing: Knowing) -> None:
    class Reading(Changed):
        ranks_by_signs = True

    def chosen(*weights: float) -> tuple[int, float]:
        translator.asked.clear()
        grid = dataclasses.replace(GRID, length_penalties=(1.0,), sign_weights=weights)
        decoding, _ = try_searches(setup(translator), grid)
        return decoding.beam_size, decoding.sign_weight

    translator = Reading(knowing, wrong_unless(lambda search: search.sign_weight == 0.1))
    assert chosen(0.3, 0.1, 0.0) == (3, 0.1)
    # Without a weight all were tried before.
    assert [(search.beam_size, search.sign_weight) for search, _ in translator.asked] == [
        (1, 0.0),
        (2, 0.0),
        (3, 0.0),
        (3, 0.3),
        (3, 0.1),
    ]
    assert chosen(0.3, 0.0) == (3, 0.3)  # of equals the first
    assert chosen(0.0, 0.3) == (2, 0.0)
    assert chosen(0.3) == (3, 0.3)  # one is used, right or wrong
    translator.ranks_by_signs = False
    assert chosen(0.3, 0.1, 0.0) == (2, 0.0)


def test_without_a_grid_or_without_dev_the_search_is_the_configured_one(
    searching: Changed, caplog: pytest.LogCaptureFixture
) -> None:
    assert evaluate(searching, targets(), corpus(), OPTIONS).decoding == DECODING
    with caplog.at_level(logging.WARNING):
        evaluation = evaluate(
            searching, [t for t in targets() if t.split != "dev"], corpus(), WITH_GRID
        )
    assert evaluation.decoding == DECODING
    assert evaluation.grid == []
    assert "no dev clip" in caplog.text


@pytest.mark.parametrize(
    ("sizes", "penalties", "weights", "message"),
    [
        ((1,), (), (), "give both beam_sizes and length_penalties"),
        ((0,), (1.0,), (), "found 0, expected at least 1"),
        ((1,), (-0.1,), (), "found -0.1, expected at least 0"),
        ((), (), (0.1,), "tried with beam_sizes"),
    ],
)
def test_unusable_grids_are_refused(sizes: Any, penalties: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GridOptions(beam_sizes=sizes, length_penalties=penalties, internal_lm_weights=weights)


def words_corpus() -> list[Target]:
    """The clips of `targets`, each a single word; BLEU-4 of them is 0, whoever writes them."""
    texts = {
        "train": ["tea", "cup", "tea", "milk"],
        "dev": ["tea", "cup"],
        "test": ["milk", "cup", "cup"],
    }
    return [
        dataclasses.replace(target, text=texts[target.split][int(target.clip_id[-1])])
        for target in targets()
    ]


def test_single_words_are_not_judged_by_a_bleu_of_zero(knowing: Knowing) -> None:
    clips = corpus()
    grid = GridOptions(beam_sizes=(1, 4), length_penalties=(1.0,))
    options = dataclasses.replace(OPTIONS, grid=grid)
    knowing._said = {len(clips[t.clip_id].points): t.text for t in words_corpus()}
    knowing._said[len(clips["test0"].points)] = "tea"
    silent = Changed(knowing, lambda text, search: text * (search.beam_size > 1))  # when greedy
    evaluation = evaluate(silent, words_corpus(), clips, options, corpus="cafe")
    test = evaluation.metrics["test"]
    assert (test["headline"], test["corpus"]) == ("exact", "cafe")
    assert next(iter(test)) == "exact"
    assert test["exact"] == pytest.approx(66.6667)
    constant = evaluation.splits["test"].systems[System.CONSTANT]["exact"]
    assert constant.value == pytest.approx(66.6667)  # always "cup", not what sorts first
    assert test["signature"].startswith("nrefs:1")
    assert evaluation.decoding.beam_size == 4
    assert [(row["exact"], row["chosen"]) for row in evaluation.grid] == [(0, 0), (100, 1)]


def test_single_words_are_looked_up_among_those_of_train(knowing: Knowing, tmp_path: Path) -> None:
    clips = corpus()
    # Of the words milk, cup, cup: taken for milk, cup and tea.
    clips |= {"test0": clips["train3"], "test1": clips["train1"], "test2": clips["train0"]}
    translator = Knowing(knowing, {len(clip.points): "tea" for clip in clips.values()})
    write_evaluation(
        tmp_path, evaluate(translator, words_corpus(), clips, OPTIONS), history(tmp_path)
    )
    scores = read_scores(tmp_path / "evaluation/scores.json")
    top_one, top_five = scores["splits"]["test"]["lookup"].values()
    assert top_one["value"] == pytest.approx(66.6667)
    assert top_one["low"] < top_one["value"] < top_one["high"]
    assert top_five["value"] == top_five["low"] == 100
    assert "look-up: 66.67 [" in format_scores("test", scores)
    # There is none where train has none of the words.
    other_targets = [
        dataclasses.replace(
            target, text=f"un{target.text}" if target.split == "test" else target.text
        )
        for target in words_corpus()
    ]
    splits = evaluate(translator, other_targets, clips, OPTIONS).splits
    assert ("lookup" in splits["dev"].to_map(), "lookup" in splits["test"].to_map()) == (
        True,
        False,
    )


@pytest.mark.parametrize(("are_glosses", "beam"), [(False, 2), (True, 3)])
def test_a_gloss_search_is_chosen_by_errors(knowing: Knowing, are_glosses: bool, beam: int) -> None:
    line = "A B C D E F G H"
    changed_targets = [
        dataclasses.replace(t, text=line, gloss=line * are_glosses) for t in targets()
    ]
    grid = GridOptions(beam_sizes=(2, 3), length_penalties=(1.0,))
    hasty = Changed(
        knowing, lambda _, search: "A B C D" if search.beam_size == 2 else "A B C X E F G Y"
    )
    decoding, _ = try_searches(setup(hasty, targets=changed_targets), grid)
    assert decoding.beam_size == beam


def test_sentences_are_judged_by_bleu(knowing: Knowing) -> None:
    evaluation = evaluate(knowing, targets(), corpus(), OPTIONS)
    test = evaluation.metrics["test"]
    assert test["headline"] == "bleu4"
    assert not evaluation.splits["test"].lookup
    assert test["clips_hash"] == split_hash(reversed(targets()), "test")
    other_targets = [dataclasses.replace(t, text=f"{t.text} x") for t in targets()]
    assert test["clips_hash"] != split_hash(other_targets, "test")


@pytest.mark.parametrize(
    ("texts", "metric"),
    [
        (["tea", "cup", "thank you"], Metric.EXACT),
        (["tea", "a cup of tea", "thank you"], Metric.BLEU4),
        (["谢谢", "茶"], Metric.EXACT),
        (["我想喝一杯咖啡"], Metric.BLEU4),  # one word between spaces, and a sentence
        (["Donaudampfschiff"], Metric.EXACT),
        ([], Metric.BLEU4),
    ],
)
def test_the_headline_follows_the_texts(texts: list[str], metric: Metric) -> None:
    assert headline_metric(texts) == metric
