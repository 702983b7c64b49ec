import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from signloom.errors import UserError
from signloom.features.tokenizer import (
    CONTROLS,
    Tokenizer,
    Vocabulary,
    load_source,
    normalise_text,
    read_source,
)
from signloom.files import hash_file
from tests.damage import edit_json

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


def test_pruning_keeps_the_segmentation_of_train_text() -> None:
    tokenizer = Tokenizer.build(TEXTS, "pruned")
    for text in TEXTS:
        assert len(tokenizer.encode(text)) == len(load_source().encode(text))
    # Three control tokens, the bytes, and what these texts use beyond single bytes.
    used = {token for text in TEXTS for token in load_source().encode(text)}
    assert tokenizer.vocab_size == 3 + 256 + len(used - set(load_source().byte_ids))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format_version", 9, "found format version 9, this Signloom reads 1"),
        ("source_sha256", "0", "made from a tokenizer.json with SHA-256 0"),
        ("source_ids", [999_999], "source_ids: found 999999, expected less than 128815"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.build(TEXTS, "pruned").save(path)
    edit_json(path, **{key: value})
    with pytest.raises(UserError, match=message):
        Tokenizer.load(path)


def test_text_is_normalised() -> None:
    assert normalise_text("  e\u0301te\u0301  \n la ") == "été la"


@pytest.fixture(scope="module")
def own() -> dict[str, Any]:
    """A tokenizer.json that is trained here, byte-level BPE with DeepSeek's control tokens."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[*CONTROLS, "<think>"],
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    model.train_from_iterator(TEXTS * 20, trainer)
    content: dict[str, Any] = json.loads(model.to_str())
    return content


def written(folder: Path, content: object) -> Path:
    path = folder / "own.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("vocabulary", ["pruned", "full"])
def test_a_file_of_ones_own_takes_the_place_of_deepseeks(
    tmp_path: Path, own: dict[str, Any], vocabulary: Vocabulary
) -> None:
    path = written(tmp_path, own)
    tokenizer = Tokenizer.build(TEXTS, vocabulary, read_source(path))
    assert tokenizer.source_sha256 == hash_file(path)
    for text in (*TEXTS, *HARD):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(ids)
        assert all(0 <= index < tokenizer.vocab_size for index in ids)
    if vocabulary == "full":
        assert tokenizer.vocab_size == len(tokenizer.source.pieces)
    assert len(tokenizer.encode("bonjour")) < len("bonjour")
    assert len(set(tokenizer.row_names)) == tokenizer.vocab_size
    path.unlink()  # what is saved needs it no more
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == tokenizer


def without(content: dict[str, Any], *keys: str) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(content))
    inner = copy
    for key in keys[:-1]:
        inner = inner[key]
    del inner[keys[-1]]
    return copy


def with_token(content: dict[str, Any], token: str, index: int) -> dict[str, Any]:
    vocab = content["model"]["vocab"] | {token: index}
    return content | {"model": content["model"] | {"vocab": vocab}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: "{", "no JSON"),
        (lambda content: "[" * 100_000, "no JSON"),
        (lambda content: [], "TypeError .*; expected a tokenizer.json of a byte-level"),
        (lambda content: without(content, "model", "vocab"), "KeyError 'vocab'"),
        (lambda content: without(content, "model", "vocab", "a"), "without 1 of the 256 bytes"),
        (lambda content: without(content, "model", "merges"), "library tokenizers cannot read it"),
        (
            lambda content: content | {"model": content["model"] | {"type": "Unigram"}},
            "type Unigram",
        ),
        (lambda content: content | {"model": content["model"] | {"dropout": 0.1}}, "dropout 0.1"),
        (lambda content: with_token(content, "z", 9**5), "have other ids than 0 to"),
        (lambda content: with_token(content, "▁", 300), "'▁', which is no byte"),
        (lambda content: content | {"added_tokens": [{"id": -1}]}, "KeyError 'content'"),
        (
            lambda content: content | {"added_tokens": [{"id": 300, "content": "\ud800"}]},
            "is no text",
        ),
    ],
)
def test_a_file_that_is_no_byte_level_tokeniser_is_refused(
    tmp_path: Path, own: dict[str, Any], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = written(tmp_path, change(own))
    with pytest.raises(UserError, match=message) as caught:
        read_source(path)
    assert str(path) in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"cannot be read .No such file.*or leave it empty"):
        read_source(tmp_path / "nothing.json")
    with pytest.raises(UserError, match=r"tokenizer.json cannot be read .No such file"):
        read_source(tmp_path)
    path = tmp_path / "bytes.json"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match=r"tokenize_targets.tokenizer: .*bytes.json: 'utf-8'"):
        read_source(path)
    monkeypatch.setattr("signloom.features.tokenizer.MAX_SOURCE_BYTES", 100)
    with pytest.raises(UserError, match=r"bytes.json: 256 bytes, expected at most 100"):
        read_source(path)


def test_a_file_that_changes_texts_is_refused(tmp_path: Path, own: dict[str, Any]) -> None:
    text = read_source(written(tmp_path, own | {"normalizer": {"type": "Lowercase"}}))
    with pytest.raises(UserError, match="its tokens of 'Bonjour' spell another text"):
        Tokenizer.build(["Bonjour"], "pruned", text)


def test_a_full_vocabulary_needs_control_tokens(tmp_path: Path, own: dict[str, Any]) -> None:
    text = json.dumps(own).replace(json.dumps(CONTROLS[1])[1:-1], "<end>")
    text = read_source(written(tmp_path, text))
    with pytest.raises(UserError, match=r"lacks DeepSeek's control tokens <｜end.*set it to"):
        Tokenizer.build(TEXTS, "full", text)
    Tokenizer.build(TEXTS, "pruned", text)


def test_a_changed_file_of_ones_own_is_refused(tmp_path: Path, own: dict[str, Any]) -> None:
    path = tmp_path / "tokenizer.json"
    Tokenizer.build(TEXTS, "pruned", read_source(written(tmp_path, own))).save(path)
    content = json.loads(path.read_text())
    edit_json(path, source_json=content["source_json"] + " ")
    with pytest.raises(UserError, match=r"made from a tokenizer.json with SHA-256"):
        Tokenizer.load(path)


def sentence_pieces() -> str:
    """Return the tokenizer.json of a SentencePiece vocabulary of four words."""
    vocab = [("<unk>", 0.0), ("▁je", -1.0), ("▁vais", -1.0), ("▁tu", -1.0), ("▁mange", -1.0)]
    model = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=0))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    return model.to_str()


@pytest.mark.parametrize("kind", ["bytes", "spaces"])
def test_padding_that_is_stored_with_the_file_changes_no_id(
    tmp_path: Path, own: dict[str, Any], kind: str
) -> None:
    plain = json.dumps(own) if kind == "bytes" else sentence_pieces()
    padded = tokenizers.Tokenizer.from_str(plain)
    padded.enable_padding(length=16)  # as `save_pretrained` leaves it after one padded call
    ids = load_source(padded.to_str()).encode("je vais")
    assert ids == load_source(plain).encode("je vais")
    assert all(index >= 0 for index in ids)


def test_words_that_no_token_spells_are_told(caplog: pytest.LogCaptureFixture) -> None:
    source = sentence_pieces()
    assert Tokenizer.build(["je vais", "tu mange"], "pruned", source).source_ids
    assert caplog.text == ""
    Tokenizer.build(["hé 手话"], "pruned", source)
    assert "100 % of the train text is spelt in bytes" in caplog.text
