import json
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.features.tokenizer import Tokenizer, load_source, normalise_text

TEXTS = ("je vais à la maison", "bonjour", "je t'aime")
HARD = (
    "",
    "je t'aime",
    "L’été à Zürich — 12 345,60 €",
    "لغة الإشارة",
    "手话翻译 テスト",
    "👩🏽‍🦱 et 👋",
    "<｜begin▁of▁sentence｜>a<think>b</think>",
    "a\u0000b \ttabs\n",
    "  spaces  ",
)


def test_the_source_gives_the_published_ids() -> None:
    # Measured on the released tokenizer.json of DeepSeek V3.
    expected = [52015, 46703, 14, 3891, 60856, 278, 847, 74817, 904, 1520, 273, 16]
    assert load_source().encode("Bonjour, je traduis la langue des signes.") == expected
    assert len(load_source().pieces) == 128_815
    assert len(set(load_source().byte_ids)) == 256


@pytest.mark.parametrize("vocabulary", ["pruned", "full"])
@pytest.mark.parametrize("text", HARD)
def test_any_text_round_trips(vocabulary: str, text: str) -> None:
    tokenizer = Tokenizer.build(TEXTS, vocabulary)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(ids)
    assert all(0 <= index < tokenizer.vocab_size for index in ids)


def test_pruning_keeps_the_segmentation_of_train_text() -> None:
    tokenizer = Tokenizer.build(TEXTS, "pruned")
    for text in TEXTS:
        assert len(tokenizer.encode(text)) == len(load_source().encode(text))
    # Three control tokens, the bytes, and what these texts use beyond single bytes.
    used = {token for text in TEXTS for token in load_source().encode(text)}
    assert tokenizer.vocab_size == 3 + 256 + len(used - set(load_source().byte_ids))


def test_pad_is_an_id_of_its_own() -> None:
    for vocabulary in ("pruned", "full"):
        tokenizer = Tokenizer.build(TEXTS, vocabulary)
        assert len({tokenizer.pad, tokenizer.bos, tokenizer.eos}) == 3
        assert tokenizer.decode([tokenizer.bos, tokenizer.eos, tokenizer.pad]) == ""


def test_broken_utf8_is_replaced() -> None:
    tokenizer = Tokenizer.build(TEXTS, "pruned")
    assert tokenizer.decode([3 + 0xC3]) == "\ufffd"  # the first byte of two


@pytest.mark.parametrize("vocabulary", ["pruned", "full"])
def test_a_saved_tokenizer_is_the_same(tmp_path: Path, vocabulary: str) -> None:
    tokenizer = Tokenizer.build(TEXTS, vocabulary)
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format_version", 9, "found format version 9, this Signloom reads 1"),
        ("source_sha256", "0", "made from a tokenizer.json with SHA-256 0"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.build(TEXTS, "pruned").save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(UserError, match=message):
        Tokenizer.load(path)


def test_text_is_normalised() -> None:
    assert normalise_text("  e\u0301te\u0301  \n la ") == "été la"
