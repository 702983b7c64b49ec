from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import FIRST_BYTE, Tokenizer
from signloom.translation.ctc_prefix import UNKNOWN, TokenLabels

TEXT = "l'été à la mer"
TOKENIZER = Tokenizer.build([TEXT], "pruned")
LABELS = CtcLabels(kind="characters", names=tuple(sorted(set(TEXT))))


def labels_of_all(tokens: list[int]) -> list[int]:
    token_labels, pending, labels = TokenLabels(TOKENIZER, LABELS), b"", []
    for token in tokens:
        found, pending = token_labels.labels_of(pending, token)
        labels += found
    assert pending == b""
    return labels


def test_tokens_spell_the_characters_of_their_text() -> None:
    labels = labels_of_all([*TOKENIZER.encode(TEXT), TOKENIZER.eos])
    assert "".join(LABELS.names[label - 1] for label in labels) == TEXT


def test_bytes_spell_a_character_when_it_is_complete() -> None:
    first, second = "é".encode()
    token_labels = TokenLabels(TOKENIZER, LABELS)
    assert token_labels.labels_of(b"", FIRST_BYTE + first) == ((), bytes([first]))
    label = LABELS.names.index("é") + 1
    assert token_labels.labels_of(bytes([first]), FIRST_BYTE + second) == ((label,), b"")


def test_what_no_label_stands_for_is_unknown() -> None:
    assert labels_of_all([FIRST_BYTE + ord("Q")]) == [UNKNOWN]
    broken = "é".encode()[0]
    # A sentence that ends within a character, and a byte that begins none.
    assert labels_of_all([FIRST_BYTE + broken, TOKENIZER.eos]) == [UNKNOWN]
    assert labels_of_all([FIRST_BYTE + 0xFF]) == [UNKNOWN]
