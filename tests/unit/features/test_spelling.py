from signloom.features.targets import UNKNOWN, CtcLabels, Spelling
from signloom.features.tokenizer import FIRST_BYTE, Tokenizer

TEXT = "l'été à la mer"
TOKENIZER = Tokenizer.build([TEXT], "pruned")
LABELS = CtcLabels(kind="characters", names=tuple(sorted(set(TEXT))))


def spelt(tokens: list[int]) -> list[int]:
    speller, pending, labels = Spelling(TOKENIZER, LABELS), b"", []
    for token in tokens:
        found, pending = speller.spell(pending, token)
        labels += found
    assert pending == b""
    return labels


def test_tokens_spell_the_characters_of_their_text() -> None:
    labels = spelt([*TOKENIZER.encode(TEXT), TOKENIZER.eos])
    assert "".join(LABELS.names[label - 1] for label in labels) == TEXT


def test_bytes_spell_a_character_when_it_is_complete() -> None:
    first, second = "é".encode()
    speller = Spelling(TOKENIZER, LABELS)
    assert speller.spell(b"", FIRST_BYTE + first) == ((), bytes([first]))
    label = LABELS.names.index("é") + 1
    assert speller.spell(bytes([first]), FIRST_BYTE + second) == ((label,), b"")


def test_what_no_label_stands_for_is_unknown() -> None:
    assert spelt([FIRST_BYTE + ord("Q")]) == [UNKNOWN]
    broken = "é".encode()[0]
    # A sentence that ends within a character, and a byte that begins none.
    assert spelt([FIRST_BYTE + broken, TOKENIZER.eos]) == [UNKNOWN]
    assert spelt([FIRST_BYTE + 0xFF]) == [UNKNOWN]
