import tokenizers

from studies.gloss_to_text.units import learn_units
from studies.vocabulary import ALL, BYTES

TEXTS = ["elle mange", "tu vas à la maison"]


def test_units_are_bytes_or_whole_words_and_change_no_text() -> None:
    spelt, words = (
        tokenizers.Tokenizer.from_str(learn_units(TEXTS, units, least=1)) for units in (BYTES, ALL)
    )
    assert spelt.get_vocab_size() == BYTES
    assert [len(spelt.encode(text).ids) for text in TEXTS] == [len(t.encode()) for t in TEXTS]
    assert [len(words.encode(text).ids) for text in TEXTS] == [len(t.split()) for t in TEXTS]
    assert words.decode(words.encode("tu mange").ids) == "tu mange"
