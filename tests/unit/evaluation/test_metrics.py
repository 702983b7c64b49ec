"""Scores, their intervals and what they are made of."""

import jiwer
import numpy as np
import pytest
import sacrebleu

from signloom.evaluation.floors import best_constant
from signloom.evaluation.metric_names import Metric
from signloom.evaluation.metrics import (
    WordEdit,
    align_words,
    clean_phoenix_2014,
    count_confusions,
    measure,
    score_corpus,
    score_statistics,
    sentence_scores,
)
from tests.unit.evaluation.texts import noisy, options, sentences


@pytest.mark.parametrize("space", ["\n", "\r\n", "\t", "\u00a0", "\u202f", "\u3000", "-\n", "  "])
def test_white_space_of_any_kind_separates_words_in_every_metric(space: str) -> None:
    ref, plain = "porte monnaie rouge ?", " ".join(f"porte{space}monnaie rouge ?".split())
    odd = f" porte{space}monnaie rouge\u00a0?\n"
    expected, scores = (score_corpus([hyp], [ref], options()) for hyp in (plain, odd))
    assert {name: score.value for name, score in scores.items()} == {
        name: score.value for name, score in expected.items()
    }
    assert scores["wer"].value == pytest.approx(100 * jiwer.wer(ref, plain))


def test_chinese_is_scored_by_characters() -> None:
    hyps, refs = ["我明天去学校"], ["我明天去北京"]
    for tokenizer in ("zh", "char"):
        scores = score_corpus(hyps, refs, options(tokenizer=tokenizer))
        for name in ("wer", "ter", "cer"):
            assert scores[name].value == pytest.approx(100 * 2 / 6)
        for name in ("bleu1", "rouge_l"):
            assert scores[name].value == pytest.approx(100 * 4 / 6)
        assert f"tok:{tokenizer}" in scores["wer"].signature
        assert "asian:yes" in scores["ter"].signature
    (edit,) = count_confusions(hyps, ["我明天去学习"], options(tokenizer="zh"))
    assert (edit.reference, edit.hypothesis) == ("习", "校")
    # Without it the sentence is one word.
    assert score_corpus(hyps, refs, options())["wer"].value == 100


def test_the_legacy_mode_ignores_case_and_says_its_name() -> None:
    refs, hyps = ["morgen regen im norden ."], ["Morgen Regen im Norden ."]
    legacy = score_corpus(hyps, refs, options(tokenizer="phoenix_legacy"))
    for name, score in legacy.items():
        best = 0 if name in ("ter", "wer", "cer") else 100
        assert score.value == pytest.approx(best)
        assert "|mode:phoenix_legacy|" in score.signature
        assert "|case:lc|" in score.signature
    assert "tok:none" in legacy["bleu4"].signature
    assert score_corpus(hyps, refs, options())["bleu4"].value < 50
    assert best_constant(["MORGEN", "im"], refs, options(tokenizer="phoenix_legacy")) == "MORGEN"


def test_the_interval_is_that_of_scoring_the_resampled_sentences_again() -> None:
    refs = sentences(12, seed=6)
    hyps = noisy(refs, seed=7)
    scores = score_corpus(hyps, refs, options(resamples=100, seed=9))
    rng = np.random.default_rng(9)
    values: dict[str, list[float]] = {name: [] for name in Metric}
    for _ in range(100):
        rows = rng.integers(0, 12, 12)
        picked_hyps, picked_refs = [hyps[i] for i in rows], [refs[i] for i in rows]
        for order in (1, 2, 3, 4):
            bleu = sacrebleu.metrics.BLEU(max_ngram_order=order)
            values[f"bleu{order}"].append(bleu.corpus_score(picked_hyps, [picked_refs]).score)
        values["chrf"].append(sacrebleu.corpus_chrf(picked_hyps, [picked_refs]).score)
        chrfpp = sacrebleu.corpus_chrf(picked_hyps, [picked_refs], word_order=2)
        values["chrfpp"].append(chrfpp.score)
        values["ter"].append(sacrebleu.corpus_ter(picked_hyps, [picked_refs]).score)
        resampled = score_corpus(picked_hyps, picked_refs, options(resamples=100))
        for name in ("rouge_l", "exact"):
            values[name].append(resampled[name].value)
        values["wer"].append(100 * jiwer.wer(picked_refs, picked_hyps))
        values["cer"].append(100 * jiwer.cer(picked_refs, picked_hyps))
    for name in Metric:
        low, high = np.quantile(values[name], [0.025, 0.975])
        assert (scores[name].low, scores[name].high) == pytest.approx((low, high))


def test_one_sentence_and_text_without_a_match_have_an_interval_too() -> None:
    for hyp in ("oui", "rien du tout ici", "oui oui oui oui oui"):
        for score in score_corpus([hyp], ["oui bien sûr"], options()).values():
            assert score.low == pytest.approx(score.value)
            assert score.high == pytest.approx(score.value)


def test_sentences_have_scores_of_their_own() -> None:
    refs = ["oui", "je vais à la maison", "oui", *sentences(30, seed=20)]
    hyps = ["oui", "je vais là", "", *noisy(refs[3:], seed=21)]
    scores = sentence_scores(measure(hyps, refs, options()))
    assert set(scores) == set(Metric)
    for row, (hyp, ref) in enumerate(zip(hyps, refs, strict=True)):
        assert scores["bleu4"][row] == pytest.approx(sacrebleu.sentence_bleu(hyp, [ref]).score)
        assert scores["chrf"][row] == pytest.approx(sacrebleu.sentence_chrf(hyp, [ref]).score)
        assert scores["ter"][row] == pytest.approx(sacrebleu.sentence_ter(hyp, [ref]).score)
        assert scores["wer"][row] == pytest.approx(100 * jiwer.wer(ref, hyp))
    assert scores["exact"][:3].tolist() == [100, 0, 0]


def test_a_group_of_sentences_is_scored_from_what_was_counted() -> None:
    refs = sentences(40, seed=22)
    hyps = noisy(refs, seed=23)
    rows = np.array([3, 4, 11, 30, 31])
    group = score_statistics(measure(hyps, refs, options()).select(rows), options())
    alone = score_corpus([hyps[i] for i in rows], [refs[i] for i in rows], options())
    assert group == alone


def test_words_are_aligned_with_the_fewest_edits() -> None:
    assert align_words("oui je veux à maison", "je vais à la maison", options()) == [
        WordEdit("insert", (), ("oui",)),
        WordEdit("equal", ("je",), ("je",)),
        WordEdit("substitute", ("vais",), ("veux",)),
        WordEdit("equal", ("à",), ("à",)),
        WordEdit("delete", ("la",), ()),
        WordEdit("equal", ("maison",), ("maison",)),
    ]
    assert align_words("", "oui", options()) == [WordEdit("delete", ("oui",), ())]


def test_words_are_those_of_the_metrics_and_written_as_they_are() -> None:
    assert align_words("我恨你", "我爱你", options(tokenizer="zh")) == [
        WordEdit("equal", ("我",), ("我",)),
        WordEdit("substitute", ("爱",), ("恨",)),
        WordEdit("equal", ("你",), ("你",)),
    ]
    legacy = align_words("MORGEN Regen", "morgen sonne", options(tokenizer="phoenix_legacy"))
    assert legacy == [
        WordEdit("equal", ("morgen",), ("MORGEN",)),
        WordEdit("substitute", ("sonne",), ("Regen",)),
    ]


def test_confusions_are_counted_word_by_word() -> None:
    hyps = ["il vient demain", "il vient", "ici on est là", "a"]
    refs = ["elle vient demain", "elle vient demain", "on est là", "a"]
    confusions = count_confusions(hyps, refs, options())
    assert [(c.kind, c.reference, c.hypothesis, c.count) for c in confusions] == [
        ("substitute", "elle", "il", 2),
        ("delete", "demain", "", 1),
        ("insert", "", "ici", 1),
    ]


@pytest.mark.parametrize("at_once", [7, 2**16])
@pytest.mark.parametrize("tokenizer", ["13a", "intl", "char", "none"])
def test_the_best_constant_is_that_of_trying_every_candidate(
    tokenizer: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signloom.evaluation.floors._AT_ONCE", at_once)
    refs = sentences(25, seed=12)
    candidates = [*sentences(60, seed=13), "la la la la la", ".", refs[3], f"{refs[3]} {refs[3]}"]
    bleu = sacrebleu.metrics.BLEU(tokenize=tokenizer)
    tried = {text: bleu.corpus_score([text] * 25, [refs]).score for text in candidates}
    best = best_constant(candidates, refs, options(tokenizer=tokenizer))
    assert tried[best] == pytest.approx(max(tried.values()))


def test_the_best_constant_does_not_depend_on_the_order_of_the_candidates() -> None:
    candidates = ["b", "a", "c"]
    assert best_constant(candidates, ["x"], options()) == "a"
    assert best_constant(candidates[::-1], ["x"], options()) == "a"
    with pytest.raises(ValueError, match="0 candidates on 1 references"):
        best_constant([], ["x"], options())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("loc-NORD cl-KOMMEN poss-MEIN lh-WIND", "NORD KOMMEN MEIN WIND"),
        ("__EMOTION__ REGEN __LEFTHAND__ S0NNE", "REGEN SONNE"),
        ("WIE AUSSEHEN ZEIGEN", "WIE-AUSSEHEN ZEIGEN-BILDSCHIRM"),
        ("REGEN-PLUSPLUS REGEN STARK", "REGEN STARK"),
        ("ALPENRAUM RAUM", "ALPEN RAUM"),
        ("A SCH A IM NN C D", "A+SCH+A IM NN+C+D"),
        ("", ""),
    ],
)
def test_variants_that_phoenix_2014_does_not_tell_apart_are_one(given: str, expected: str) -> None:
    assert " ".join(clean_phoenix_2014(given.split())) == expected
