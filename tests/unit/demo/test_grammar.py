from itertools import pairwise

import pytest

from signloom_demo.grammar import sentences
from signloom_demo.lexicon import LEXICON

EVERY = sentences(5)
TEXTS = {" ".join(sentence.glosses): sentence.text for sentence in EVERY}


@pytest.mark.parametrize(
    ("glosses", "text"),
    [
        ("MERCI POMME", "merci pour les pommes"),
        ("DEMAIN MAISON MOI ALLER", "demain je vais à la maison"),
        ("SOIR ECOLE ELLE ALLER QUESTION", "est-ce qu'elle va à l'école ce soir ?"),
        ("MOI TOI AIMER", "je t'aime"),
        ("TOI MOI AIMER NON", "tu ne m'aimes pas"),
        ("MOI CAFE AIMER NON", "je n'aime pas le café"),
        ("ECOLE NOUS PAIN MANGER", "nous mangeons du pain à l'école"),
        ("ELLE EAU BOIRE NON", "elle ne boit pas d'eau"),
        ("TOI CAFE VOULOIR QUESTION", "est-ce que tu veux du café ?"),
        ("MARCHE MOI POMME ACHETER", "j'achète une pomme au marché"),
        ("MAMAN POMME GRAND VOULOIR", "maman veut une grande pomme"),
        ("NOUS CONTENT NON", "nous ne sommes pas contents"),
        ("BONJOUR MOI CONTENT", "bonjour, je suis content"),
    ],
)
def test_french(glosses: str, text: str) -> None:
    assert TEXTS[glosses] == text


def test_a_gloss_sequence_has_one_text_and_a_text_one_gloss_sequence() -> None:
    assert len({sentence.glosses for sentence in EVERY}) == len(EVERY)
    assert len({sentence.text for sentence in EVERY}) == len(EVERY)


def test_every_sign_is_used_in_sentences_no_longer_than_asked() -> None:
    assert {gloss for sentence in EVERY for gloss in sentence.glosses} == LEXICON.keys()
    assert {len(sentence.glosses) for sentence in EVERY} == {1, 2, 3, 4, 5}
    assert {len(sentence.glosses) for sentence in sentences(2)} == {1, 2}


def test_no_word_that_must_be_elided_stands_before_a_vowel() -> None:
    for sentence in EVERY:
        words = sentence.text.split()
        for word, following in pairwise(words):
            if word in {"je", "me", "te", "ne", "de", "que", "le"}:
                assert following[0] not in "aeéê", sentence.text
        assert "de le " not in sentence.text
        assert "à le " not in sentence.text
