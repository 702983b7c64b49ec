"""Words and floors."""

import pytest
import sacrebleu

from signloom.evaluation.floors import best_constant
from signloom.evaluation.metrics import WordEdit, align_words, count_confusions
from tests.unit.evaluation.texts import options, sentences


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
    found = count_confusions(hyps, refs, options())
    assert [(c.kind, c.reference, c.hypothesis, c.count) for c in found] == [
        ("substitute", "elle", "il", 2),
        ("delete", "demain", "", 1),
        ("insert", "", "ici", 1),
    ]


@pytest.mark.parametrize("tokenizer", ["13a", "none"])
def test_the_best_constant_is_that_of_trying_every_candidate(tokenizer: str) -> None:
    refs = sentences(25, seed=12)
    candidates = [*sentences(60, seed=13), "la la la la la", "."]
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
