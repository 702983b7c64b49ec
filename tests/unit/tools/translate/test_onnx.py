"""ONNX models decode as PyTorch does; exported and run as a person does it, in processes."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from signloom.checkpoint import load_checkpoint
from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.batches import pad_features
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer
from signloom.models.transformer import Transformer
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator
from signloom_tools.translate.onnx_export import _DecoderStep, _Encoder, export_onnx
from tests import tiny
from tests.tiny import write_checkpoint

ort = pytest.importorskip("onnxruntime", reason="needs signloom[onnx]")
GREEDY = dataclasses.replace(DECODING, beam_size=1, max_tokens=20)
MAIN = [sys.executable, "-c", "from signloom_tools.cli.main import main; main()", "export-model"]


def export(checkpoint: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [*MAIN, str(out), "--format", "onnx", "--checkpoint", str(checkpoint)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def assert_names_no_folder(folder: Path) -> None:
    for path in folder.glob("*.onnx"):
        content = path.read_bytes()
        assert b"File " not in content, path  # of a stack trace
        assert str(Path.home()).encode() not in content or str(Path.home()) == "/", path
        assert str(tiny.ROOT).encode() not in content, path


def decode_greedily(
    folder: Path, translator: Translator, clips: list[LandmarkSequence]
) -> list[list[int]]:
    """Greedy search with nothing but the exported files; features come from the translator."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    ids = meta["ids"]
    encoder, step = (
        ort.InferenceSession(folder / name) for name in ("encoder.onnx", "decoder_step.onnx")
    )
    src, valid = pad_features([translator.rows(clip) for clip in clips])
    memory = encoder.run(None, {"src": src.numpy(), "src_valid": valid.numpy()})
    feed: dict[str, Any] = dict(
        zip(("memory_keys", "memory_values", "memory_valid"), memory, strict=True)
    )
    sizes = meta["decoder"]
    nothing = np.zeros(
        (sizes["layers"], len(clips), sizes["heads"], 0, sizes["head_width"]), np.float32
    )
    feed |= {"past_keys": nothing, "past_values": nothing}
    tokens = np.full(len(clips), ids["bos"])
    sentences: list[list[int]] = [[] for _ in clips]
    for _ in range(GREEDY.max_tokens):
        logits, feed["past_keys"], feed["past_values"] = step.run(None, {"tokens": tokens, **feed})
        logits[:, [ids["pad"], ids["bos"]]] = -np.inf
        tokens = logits.argmax(axis=1)
        for row, token in zip(sentences, tokens, strict=True):
            if not row or row[-1] != ids["eos"]:
                row.append(int(token))
    return sentences


def assert_same_translations(checkpoint: Path, folder: Path, clips: list[LandmarkSequence]) -> None:
    translator = Translator.load(checkpoint, torch.device("cpu"))
    expected = translator.translate(clips, GREEDY)
    sentences = decode_greedily(folder, translator, clips)
    assert_names_no_folder(folder)
    assert [tuple(tokens) for tokens in sentences] == [x.hypothesis.tokens for x in expected]
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    assert [tokenizer.decode(tokens) for tokens in sentences] == [x.text for x in expected]


@pytest.mark.parametrize("family", ["transformer", "conformer"])
def test_what_is_exported_computes_what_the_model_does(tmp_path: Path, family: str) -> None:
    folder = write_checkpoint(
        tmp_path / "checkpoint", family=family, subsampling=2, ctc_feedback=True
    )
    model = cast(Transformer, load_checkpoint(folder, torch.device("cpu")).model)
    encoder, step = _Encoder(model).eval(), _DecoderStep(model).eval()
    clips = [tiny.sequence(seed, frames=9) for seed in range(2)]
    translator = Translator(load_checkpoint(folder, torch.device("cpu")), torch.device("cpu"))
    src, valid = pad_features([translator.rows(clip) for clip in clips])
    tokens = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
    with torch.no_grad():
        expected = model(src, valid, tokens)
        keys, values, positions = encoder(src, valid)
        past = [torch.zeros(*keys.shape[:3], 0, keys.shape[4])] * 2
        for number, column in enumerate(tokens.T):
            logits, *past = step(column, *past, keys, values, positions)
            torch.testing.assert_close(logits, expected[:, number], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": 4, "tied_embeddings": True, "ctc_feedback": True},
        {"norm": "post", "positions": "scaled", "causal_encoder": True, "subsampling": 2},
        {"family": "conformer", "positions": "relative", "attention_bias": False},
    ],
    ids=["transformer", "post-norm", "conformer"],
)
def test_onnx_runtime_translates_as_pytorch_does(tmp_path: Path, options: dict[str, Any]) -> None:
    """Quick twin: test_what_is_exported_computes_what_the_model_does."""
    checkpoint = write_checkpoint(tmp_path / "checkpoint", **options)
    process = export(checkpoint, tmp_path / "onnx")
    assert process.returncode == 0, process.stderr
    # Clips of several lengths, and other numbers of clips than the graph was traced with.
    for lengths in ([12, 40, 7, 3, 25], [300], [2]):
        clips = [tiny.sequence(seed, frames=frames) for seed, frames in enumerate(lengths)]
        assert_same_translations(checkpoint, tmp_path / "onnx", clips)


def test_a_recurrent_model_and_a_foreign_folder_are_refused(tmp_path: Path) -> None:
    lstm = write_checkpoint(tmp_path / "lstm", family="lstm")
    signs = CtcLabels(kind="glosses", names=("A", "B"))
    read = write_checkpoint(tmp_path / "read", ctc=signs, decoder_layers=0)
    for folder, problem in (
        (lstm, "family lstm with 2"),
        (read, "transformer with 0 decoder layers"),
    ):
        with pytest.raises(UserError, match=f"{problem} .*cannot be exported to ONNX"):
            export_onnx(load_checkpoint(folder, torch.device("cpu")), tmp_path / "out")
    transformer = write_checkpoint(tmp_path / "transformer")
    with pytest.raises(UserError, match="which this command does not make"):
        export_onnx(load_checkpoint(transformer, torch.device("cpu")), lstm)
    assert (lstm / "model.safetensors").is_file()
