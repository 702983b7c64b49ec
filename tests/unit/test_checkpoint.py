import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from signloom.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from signloom.checkpoint_file import SPEC, parse_source, read_fields
from signloom.errors import UserError
from signloom.features.targets import CtcLabels
from tests import tiny
from tests.damage import damaged_texts, edit_json, keep_hashes
from tests.processes import fork


def made(**model: Any) -> Checkpoint:
    options = dataclasses.replace(tiny.MODEL, **model)
    return tiny.checkpoint(model=options, ctc=CtcLabels(kind="glosses", names=("A", "B")))


def test_weights_from_before_there_were_other_recurrences_are_read(tmp_path: Path) -> None:
    saved = made(family="lstm")
    save_checkpoint(tmp_path / "old", saved)
    path = tmp_path / "old" / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    older = {name.replace(".recurrence.", ".lstm."): tensor for name, tensor in weights.items()}
    assert any(".lstm." in name for name in older)
    safetensors.torch.save_file(older, path)
    keep_hashes(tmp_path / "old")
    spec_path = tmp_path / "old" / "checkpoint.json"
    content = json.loads(spec_path.read_text())
    del content["model"]["encoder_norm"], content["model"]["embedding_width"]
    edit_json(spec_path, **content)
    loaded = load_checkpoint(tmp_path / "old", torch.device("cpu"))
    assert loaded.spec == saved.spec
    assert all(torch.equal(loaded.model.state_dict()[name], w) for name, w in weights.items())


def save_marked(folder: Path, mark: int) -> None:
    """Write a checkpoint whose provenance and weights have the same number."""
    marked = tiny.checkpoint(provenance={"mark": mark})
    with torch.no_grad():
        for weights in marked.model.parameters():
            weights.fill_(mark)
    save_checkpoint(folder, marked)


def marks(checkpoint: Checkpoint) -> set[float]:
    weights = checkpoint.model.state_dict().values()
    values = {float(value) for w in weights for value in (w.min(), w.max())}
    return values | {float(checkpoint.spec.provenance["mark"])}


def test_a_checkpoint_that_is_replaced_while_it_is_loaded_is_no_mixture(tmp_path: Path) -> None:
    """Another process writes one model after the other; its end ends the test."""
    folder = tmp_path / "checkpoint"
    save_marked(folder, 0)

    def write() -> None:
        for mark in range(1, 13):
            save_marked(folder, mark)
            time.sleep(0.01)

    writer, loaded_marks, ended = fork(write), list[float](), (0, 0)
    while ended == (0, 0):
        ended = os.waitpid(writer, os.WNOHANG)
        checkpoint_marks = marks(load_checkpoint(folder, torch.device("cpu")))
        assert len(checkpoint_marks) == 1, "the options of one model, the weights of another"
        loaded_marks += checkpoint_marks
    assert ended == (writer, 0)
    assert (loaded_marks[-1], loaded_marks) == (12, sorted(loaded_marks))


def test_a_model_of_glosses_cannot_be_fed_with_landmarks() -> None:
    with pytest.raises(UserError, match=r"model\.source is glosses"):
        made(source="glosses")


def refusal(folder: Path, file: str) -> str:
    """Load; return the message of a refusal, which names the file, or nothing."""
    message = ""
    try:
        load_checkpoint(folder, torch.device("cpu"))
    except UserError as error:
        message = str(error)
    # What fits no weights is found where the two are compared.
    assert not message or file in message
    assert len(message) < 5_000, "it repeats the file"
    return message


@pytest.mark.parametrize(
    ("file", "seed", "count"),
    [
        ("checkpoint.json", 0, 100),
        ("tokenizer.json", 0, 40),
        pytest.param("checkpoint.json", 1, 2_000, marks=pytest.mark.slow),
        pytest.param("tokenizer.json", 1, 2_000, marks=pytest.mark.slow),
    ],
)
def test_damaged_json_is_refused(tmp_path: Path, file: str, seed: int, count: int) -> None:
    path = tiny.write_checkpoint(tmp_path) / file
    refused = 0
    for damage, text in damaged_texts(json.loads(path.read_text()), seed, count):
        path.write_text(text, encoding="latin-1")
        try:
            refused += bool(refusal(tmp_path, file))
        except Exception as error:
            raise AssertionError(f"{file}, {damage}") from error
    assert refused > count / 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 10**7}, "model.d_model: found 10000000, expected at most 16384"),
        ({"encoder_layers": 10**6}, "encoder_layers: found 1000000, expected at most 200"),
        ({"heads": 10**9}, "heads: found 1000000000, expected at most 1024"),
        ({"d_model": 16_384}, r"tensors differ: .*found \(.*16\), expected \(.*16384"),
        ({"d_ff": 65_536}, r"tensors differ: encoder.*found \(24, 16\), expected \(65536, 16\)"),
        ({"encoder_layers": 200}, "tensors differ: .*found none, expected"),
        ({"encoder_layers": 3}, "layers.2.*: found none, expected"),
        ({"encoder_layers": 1}, r"found \(.*\), expected none"),
    ],
)
def test_a_checkpoint_whose_options_do_not_fit_its_weights_takes_no_memory(
    tmp_path: Path, change: dict[str, int], message: str
) -> None:
    path = tiny.write_checkpoint(tmp_path) / "checkpoint.json"
    edit_json(path, model=json.loads(path.read_text())["model"] | change)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=message):
        load_checkpoint(tmp_path, torch.device("cpu"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 200_000


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, wrong: float) -> None:
    path = tiny.write_checkpoint(tmp_path) / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    weights["decoder.output.weight"][3, 5] = wrong
    safetensors.torch.save_file(weights, path)
    keep_hashes(path.parent)
    with pytest.raises(UserError, match=r"decoder\.output\.weight holds numbers that are not fin"):
        load_checkpoint(path.parent, torch.device("cpu"))


def test_weights_of_another_kind_or_torn_are_refused(tmp_path: Path) -> None:
    path = tiny.write_checkpoint(tmp_path) / "model.safetensors"
    content = path.read_bytes()
    for damaged in (
        b"",
        content[:100],
        content[:-1],
        b"\xff" * 100,
        content[:8] + b"[" * len(content),
    ):
        path.write_bytes(damaged)
        assert "found SHA-256" in refusal(tmp_path, path.name)
        keep_hashes(tmp_path)
        assert "or is torn" in refusal(tmp_path, path.name)
    path.write_bytes(content)
    weights = {k: v.to(torch.float16) for k, v in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(weights, path)
    keep_hashes(tmp_path)
    assert "found numbers of kind F16, expected F32" in refusal(tmp_path, path.name)
    edit_json(tmp_path / "checkpoint.json", format_version=7)
    assert "found format version 7" in refusal(tmp_path, "checkpoint.json")
    path.unlink()
    assert "model.safetensors missing" in refusal(tmp_path, path.name)


def test_what_a_model_reads_is_read_without_torch_and_only_as_it_was_sealed(
    tmp_path: Path,
) -> None:
    tiny.write_checkpoint(tmp_path)
    program = (
        "import sys; from pathlib import Path\n"
        "from signloom.checkpoint_file import parse_source, read_fields\n"
        "path = Path(sys.argv[1])\n"
        "print(parse_source(path, read_fields(path)).layout.name, 'torch' in sys.modules)"
    )
    path = tmp_path / SPEC
    command = [sys.executable, "-c", program, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    loaded = load_checkpoint(tmp_path, torch.device("cpu")).spec.source
    assert parse_source(path, read_fields(path)) == loaded
    assert printed.split() == [loaded.layout.name, "False"]  # type: ignore[attr-defined]
    path.write_bytes(path.read_bytes().replace(b'"d_model": ', b'"d_model":  '))
    with pytest.raises(UserError, match="found SHA-256"):
        read_fields(path)
