"""A flipped bit in a file from which numbers follow is found when the file is read, or harmless."""

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from signloom.checkpoint import load_checkpoint
from signloom.errors import UserError
from signloom.evaluation.compare import read_run
from signloom.evaluation.metrics import ScoreOptions
from signloom.features.glosses import GlossVocabulary
from signloom.features.targets import (
    CtcLabels,
    Target,
    read_glosses,
    read_labels,
    read_targets,
    write_labels,
    write_targets,
)
from signloom.features.tokenizer import Tokenizer
from signloom.files import check_seal, hash_file, to_sealed
from signloom.tables import read_parquet, write_parquet, write_rows
from signloom_ops.nightly.store import ModelStore
from signloom_ops.privacy.names import Person, scrub_file
from tests import tiny

FLIPS = 300


def write_tokens(folder: Path) -> None:
    targets = [
        Target(
            clip_id=f"clip{row}",
            split="train",
            signer="ada",
            text=text,
            ids=[1, row, 2],
            gloss="A B",
            labels=[1, 2],
        )
        for row, text in enumerate(tiny.SENTENCES)
    ]
    write_targets(folder / "targets.parquet", targets, GlossVocabulary.build(["A B"], "glosses"))
    Tokenizer.build(tiny.SENTENCES, "pruned").save(folder / "tokenizer.json")
    write_labels(folder / "labels.json", CtcLabels(kind="glosses", names=("A", "B")))
    write_hypotheses(folder / "hypotheses.tsv")
    write_parquet(folder / "other.parquet", pa.table({"a": ["x", "y"]}, metadata={"v": "1"}))


def read_model(path: Path) -> Any:
    checkpoint = load_checkpoint(path.parent, torch.device("cpu"))
    weights = {
        name: tensor.numpy().tobytes() for name, tensor in checkpoint.model.state_dict().items()
    }
    return checkpoint.spec, checkpoint.tokenizer, weights


def write_hypotheses(path: Path) -> None:
    """Write a table of an evaluation, and the scores.json that has its checksum."""
    row = {"clip_id": "ada-1", "split": "test", "signer": "ada", "reference": "a b"}
    write_rows(path, [{**row, "hypothesis": text} for text in tiny.SENTENCES])
    tables = {path.name: hash_file(path)}
    content = {
        "format_version": 2,
        "options": {"score": asdict(ScoreOptions(tokenizer="13a"))},
        "splits": {},
        "tables": tables,
    }
    path.with_name("scores.json").write_bytes(to_sealed(content))


READERS: dict[str, Callable[[Path], Any]] = {
    "hypotheses.tsv": lambda path: read_run(str(path.parent)).splits,
    "targets.parquet": lambda path: (read_targets(path), read_glosses(path)),
    "tokenizer.json": Tokenizer.load,
    "labels.json": read_labels,
    "other.parquet": lambda path: read_parquet(path, 1, hint="again", key=b"v").to_pylist(),
    "checkpoint/model.safetensors": read_model,
    "checkpoint/checkpoint.json": read_model,
    "checkpoint/tokenizer.json": read_model,
}


def flipped(raw: bytes, count: int) -> Iterator[bytes]:
    """Yield the bytes with one bit flipped, at places all over them."""
    chance = random.Random(3)
    for number in range(count):
        place = chance.randrange(len(raw) * number // count, len(raw) * (number + 1) // count + 1)
        content = bytearray(raw)
        content[min(place, len(raw) - 1)] ^= 1 << chance.randrange(8)
        yield bytes(content)


@pytest.mark.parametrize("name", READERS)
def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path, name: str) -> None:
    write_tokens(tmp_path)
    tiny.write_checkpoint(tmp_path / "checkpoint")
    path, read = tmp_path / name, READERS[name]
    raw, expected, messages = path.read_bytes(), read(path), list[str]()
    for content in flipped(raw, 40 if "/" in name else FLIPS):
        path.write_bytes(content)
        try:
            assert read(path) == expected
        except UserError as error:
            messages.append(str(error))
    assert all(path.name in message for message in messages)
    # The rest lies in white space, or in the name of the checksum.
    assert len(messages) > 0.8 * (40 if "/" in name else FLIPS)


def test_a_damaged_checkpoint_becomes_no_version(tmp_path: Path) -> None:
    checkpoint = tiny.write_checkpoint(tmp_path / "checkpoint")
    tiny.write_checkpoint(checkpoint / "seeds/2")
    (tmp_path / "evaluation").mkdir()
    store = ModelStore(tmp_path / "models")
    for folder in (checkpoint, checkpoint / "seeds/2"):
        weights = folder / "model.safetensors"
        raw = weights.read_bytes()
        weights.write_bytes(next(flipped(raw, 1)))
        with pytest.raises(UserError, match=f"{weights} is damaged"):
            store.add(checkpoint, tmp_path / "evaluation", {})
        weights.write_bytes(raw)
    assert store.add(checkpoint, tmp_path / "evaluation", {}) == 1


def test_what_is_scrubbed_has_a_checksum_again_unless_it_was_damaged(tmp_path: Path) -> None:
    path = tmp_path / "decision.json"
    person = Person(
        signer="zoe", request="", clip_ids=(), videos=(), files=(), shared=(), entries=()
    )
    raw = to_sealed({"signers": ["zoe", "ada"], "promote": True})
    for content, is_whole in ((raw, True), (raw.replace(b"true", b"null"), False)):
        path.write_bytes(content)
        scrubbed = scrub_file(path, person)
        assert isinstance(scrubbed, bytes)
        assert b"zoe" not in scrubbed
        with contextlib.nullcontext() if is_whole else pytest.raises(ValueError, match="SHA-256"):
            check_seal(scrubbed)
