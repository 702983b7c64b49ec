"""Words and the signs that they translate, learnt from glosses and sentences."""

import itertools

from signloom.corpus.words import locate_words
from signloom.translation.recognised_signs import Sign
from signloom.translation.word_signs import (
    fit_sign_coverage,
    index_words,
    learn_words,
    match_words,
)
from signloom_demo.grammar import sentences
from signloom_tools.translate.timed import time_words

EVERY = sorted(sentences(5))[::7]  # of the demo's language, with articles and elisions
WEIGHTS = index_words(learn_words([s.text for s in EVERY], [s.glosses for s in EVERY]))


def sign(gloss: str, start_s: float) -> Sign:
    return Sign(gloss=gloss, start_s=start_s, end_s=start_s + 0.5, posterior=1.0)


def test_a_place_that_is_signed_first_and_said_last_has_the_time_of_its_sign() -> None:
    pieces = ["je", " vais", " à", " la", " mai", "son", ""]
    signs = [sign("MAISON", 0.0), sign("MOI", 1.0), sign("ALLER", 2.0)]
    tokens = time_words(pieces, signs, WEIGHTS)
    times = {token.text: token.start_s for token in tokens}
    assert times == {"je": 1.0, " vais": 2.0, " à": None, " la": None, " mai": 0.0, "son": 0.0}
    assert "".join(token.text for token in tokens) == "je vais à la maison"


def test_a_word_without_a_sign_has_no_time() -> None:
    articles, nouns = [], []
    for sentence in EVERY:
        words = [word for word, _, _ in locate_words(sentence.text)]
        for word, place in zip(words, match_words(words, sentence.glosses, WEIGHTS), strict=True):
            if word in ("la", "l", "du", "de", "une"):
                articles.append(place)
            elif word in ("maison", "école", "pain", "soupe", "pomme", "livre", "café"):
                gloss = sentence.glosses[place] if place is not None else ""
                nouns.append(gloss == word.upper().replace("É", "E"))
    assert len(articles) > 50
    assert sum(place is None for place in articles) > 0.9 * len(articles)
    assert len(nouns) > 50
    assert all(nouns)


def test_a_sign_that_is_made_twice_belongs_to_two_words_in_their_order() -> None:
    weights = {"non": {"NON": 0.9}, "je": {"MOI": 0.9}}
    assert match_words(["non", "je", "non"], ["NON", "MOI", "NON"], weights) == [0, 1, 2]
    assert match_words(["non"], [], weights) == [None]
    assert match_words([], ["NON"], weights) == []


def test_a_sentence_that_says_other_signs_than_were_read_costs_more() -> None:
    coverage = fit_sign_coverage([s.text for s in EVERY], [s.glosses for s in EVERY])
    pairs = [
        (
            coverage.cost(sentence.text, sentence.glosses),
            coverage.cost(sentence.text, following.glosses),
        )
        for sentence, following in itertools.pairwise(EVERY)
    ]
    assert sum(own_cost < other_cost for own_cost, other_cost in pairs) > 0.95 * len(pairs)
    assert sum(own_cost == 0 for own_cost, _ in pairs) > 0.7 * len(pairs)
    right = coverage.cost("je vais à la maison", ["MAISON", "MOI", "ALLER"])
    assert right == coverage.cost("à la maison je vais", ["ALLER", "MOI", "MAISON"])  # in any order
    for text in ("je vais", "je vais à la maison à la maison", "tu vas à la maison"):
        assert coverage.cost(text, ["MAISON", "MOI", "ALLER"]) > right + 1


def test_several_words_of_one_sign_say_it_once_and_what_no_word_follows_costs_nothing() -> None:
    texts = ["thank you tea", "tea", "a coffee", "thank you coffee"] * 20
    glosses = [["THANK-YOU", "TEA"], ["TEA", "SHRUG"], ["COFFEE"], ["COFFEE", "THANK-YOU"]] * 20
    coverage = fit_sign_coverage(texts, glosses)
    assert coverage.count("Thank you, a tea!")["THANK-YOU"] == 1
    assert coverage.cost("thank you tea", ["THANK-YOU", "TEA"]) == 0
    assert coverage.cost("tea", ["THANK-YOU", "TEA"]) == coverage.costs["THANK-YOU"] > 3
    assert (
        coverage.cost("thank you tea tea", ["THANK-YOU", "TEA", "TEA", "TEA"])
        == coverage.costs["TEA"]
    )
    # SHRUG is in every second sentence with tea: what is said with and without it is the same.
    assert coverage.costs.get("SHRUG", 0.0) == 0
    assert coverage.cost("tea", ["TEA", "NEVER-SEEN"]) == 0
    assert fit_sign_coverage([], []).cost("tea", ["TEA"]) == 0
