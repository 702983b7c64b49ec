"""Export to ONNX models that need no PyTorch.

`encoder.onnx` turns features into what the decoder looks at, its keys and values for every layer
computed once; `decoder_step.onnx` takes a token and the keys and values of those before it.

Shape letters as in `seq2seq`, and L decoder layers, H heads, K width of a head, R rows: clips, or
their beams.
"""

import dataclasses
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.export import Dim

from signloom.checkpoint import TOKENIZER, Checkpoint
from signloom.errors import UserError
from signloom.files import check_output_folder, whole_folder
from signloom.models.attention import DistanceEncoding, KeyValue
from signloom.models.layers import PositionalEncoding
from signloom.models.transformer import Transformer, TransformerState
from signloom.provenance import library_versions

FORMAT_VERSION = 1
EXPORTABLE = ("transformer", "conformer")  # those whose decoder is the Transformer's
ENCODER, DECODER_STEP, META = "encoder.onnx", "decoder_step.onnx", "meta.json"
FILES = (ENCODER, DECODER_STEP, META, TOKENIZER)
MAX_POSITIONS = 4096  # of the memory, and of tokens: what lies beyond has no position
TOLERANCE = 1e-3  # of logits and keys: rounding of float32 in another order is a hundredth of it


class _Encoder(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, src: Float[Tensor, "B S F"], src_valid: Bool[Tensor, "B S"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        memory = self.model.encode(src, src_valid)
        pairs = self.model.project(memory)
        keys = torch.stack([pair.keys for pair in pairs])
        return keys, torch.stack([pair.values for pair in pairs]), memory.valid


class _DecoderStep(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        tokens: Int[Tensor, " R"],
        past_keys: Float[Tensor, "L R H T K"],
        past_values: Float[Tensor, "L R H T K"],
        memory_keys: Float[Tensor, "L R H M K"],
        memory_values: Float[Tensor, "L R H M K"],
        memory_valid: Bool[Tensor, "R M"],
    ) -> tuple[Tensor, Tensor, Tensor]:
        state = TransformerState(
            [KeyValue(k, v) for k, v in zip(past_keys, past_values, strict=True)],
            [KeyValue(k, v) for k, v in zip(memory_keys, memory_values, strict=True)],
            memory_valid,
        )
        # Not the model's own `step`, whose `len` would tie the graph to one number of rows.
        logits, after = self.model.decoder.step(tokens[:, None], state)
        keys = torch.stack([pair.keys for pair in after.past])
        return logits[:, 0], keys, torch.stack([pair.values for pair in after.past])


def export_onnx(checkpoint: Checkpoint, folder: Path) -> float:
    """Write the two models, the tokeniser and what a user must know of them, whole or not at all.

    Args:
        checkpoint: Of a model with the Transformer's decoder, in float32 on the CPU.
        folder: Made, or replaced if an earlier export is there.

    Returns:
        The greatest difference between what ONNX Runtime and PyTorch compute for a random clip.

    Raises:
        UserError: If the model is of another family, packages are missing, the folder holds
            something else, or ONNX Runtime does not compute what PyTorch does.
    """
    _check_possible(checkpoint, folder)
    model = cast(Transformer, checkpoint.model)
    with whole_folder(folder) as temporary:
        with torch.no_grad(), _quiet_exporter():
            _extend_positions(model, checkpoint.spec.model.d_model)
            _export_encoder(model, checkpoint, temporary / ENCODER)
            _export_decoder_step(model, checkpoint, temporary / DECODER_STEP)
            worst = _compare(model, checkpoint, temporary)
        checkpoint.tokenizer.save(temporary / TOKENIZER)
        text = json.dumps(_describe(checkpoint), indent=1, ensure_ascii=False, sort_keys=True)
        (temporary / META).write_text(text + "\n", encoding="utf-8")
    return worst


def _check_possible(checkpoint: Checkpoint, folder: Path) -> None:
    family, layers = checkpoint.spec.model.family, checkpoint.spec.model.decoder_layers
    if family not in EXPORTABLE or not layers:
        raise UserError(
            f"a model of family {family} with {layers} decoder layers cannot be exported to ONNX; "
            f"those with a Transformer's decoder can ({' and '.join(EXPORTABLE)}), and "
            "`--format mlflow` exports every family"
        )
    checkpoint.spec.source.landmarks(as_points=True)
    packages = ("onnx", "onnxscript", "onnxruntime")
    if lacking := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise UserError(f"{', '.join(lacking)} missing; run `pip install 'signloom[onnx]'`")
    check_output_folder(folder, [], FILES)


def _extend_positions(model: nn.Module, d_model: int) -> None:
    """Let the tables of positions grow to what the graph will hold: it cannot grow them."""
    for module in model.modules():
        if isinstance(module, (PositionalEncoding, DistanceEncoding)):
            module(torch.zeros(1, MAX_POSITIONS // 2, d_model))  # tables grow to twice the need


def _export_encoder(model: Transformer, checkpoint: Checkpoint, path: Path) -> None:
    most = MAX_POSITIONS * checkpoint.spec.model.subsampling
    clips, frames = Dim("clips", min=1), Dim("frames", min=2, max=most)
    src, valid = _random_source(checkpoint, [9, 5, 4])
    program = torch.onnx.export(
        _Encoder(model).eval(),
        (src, valid),
        dynamo=True,
        dynamic_shapes=({0: clips, 1: frames}, {0: clips, 1: frames}),
        input_names=["src", "src_valid"],
        output_names=["memory_keys", "memory_values", "memory_valid"],
        verbose=False,
    )
    assert program is not None, "the exporter returns a program unless it is given a file"
    _save(program, path)


def _export_decoder_step(model: Transformer, checkpoint: Checkpoint, path: Path) -> None:
    options = checkpoint.spec.model
    layers, heads, width = options.decoder_layers, options.heads, options.d_model // options.heads
    # A tensor of its own for each: the exporter takes one that is given twice for one input.
    tensors = [torch.zeros(layers, 3, heads, length, width) for length in (5, 5, 7, 7)]
    rows, tokens = Dim("rows", min=1), Dim("tokens_before", min=0, max=MAX_POSITIONS - 1)
    positions = Dim("positions", min=1, max=MAX_POSITIONS)
    of_past, of_memory = {1: rows, 3: tokens}, {1: rows, 3: positions}
    program = torch.onnx.export(
        _DecoderStep(model).eval(),
        (torch.zeros(3, dtype=torch.int64), *tensors, torch.ones(3, 7, dtype=torch.bool)),
        dynamo=True,
        dynamic_shapes=({0: rows}, of_past, of_past, of_memory, of_memory, {0: rows, 1: positions}),
        input_names=[
            "tokens",
            "past_keys",
            "past_values",
            "memory_keys",
            "memory_values",
            "memory_valid",
        ],
        output_names=["logits", "keys", "values"],
        verbose=False,
    )
    assert program is not None, "the exporter returns a program unless it is given a file"
    _save(program, path)


def _save(program: torch.onnx.ONNXProgram, path: Path) -> None:
    """Write a model without stack traces: they name folders of this machine."""
    for graph in (*program.model.graphs(), *program.model.functions.values()):
        for node in graph:
            node.metadata_props.clear()
    program.save(path)


def _compare(model: Transformer, checkpoint: Checkpoint, folder: Path) -> float:
    """Return the greatest difference of the logits of some steps, computed both ways.

    Raises:
        UserError: If it is above `TOLERANCE`.
    """
    import onnxruntime  # of the extra `onnx`

    src, valid = _random_source(checkpoint, [31, 12])
    tokens = torch.arange(8).reshape(2, 4) % checkpoint.tokenizer.vocab_size
    expected = model(src, valid, tokens).numpy()
    encoder, step = (
        onnxruntime.InferenceSession(folder / name, providers=["CPUExecutionProvider"])
        for name in (ENCODER, DECODER_STEP)
    )
    memory = encoder.run(None, {"src": src.numpy(), "src_valid": valid.numpy()})
    names = ("memory_keys", "memory_values", "memory_valid")
    feed = dict(zip(names, memory, strict=True))
    layers, rows, heads, _, width = memory[0].shape
    past = [np.zeros((layers, rows, heads, 0, width), np.float32)] * 2
    worst = 0.0
    for position in range(tokens.shape[1]):
        inputs = {
            "tokens": tokens[:, position].numpy(),
            "past_keys": past[0],
            "past_values": past[1],
        }
        logits, *past = step.run(None, {**inputs, **feed})
        worst = max(worst, float(np.abs(logits - expected[:, position]).max()))
    if not worst <= TOLERANCE:
        raise UserError(
            f"ONNX Runtime {onnxruntime.__version__} and PyTorch differ by {worst:.2g} for the "
            "same clip; install the versions of constraints.txt"
        )
    return worst


def _random_source(checkpoint: Checkpoint, lengths: list[int]) -> tuple[Tensor, Tensor]:
    width = checkpoint.spec.reader.width
    src = torch.randn(len(lengths), max(lengths), width, generator=torch.Generator().manual_seed(0))
    valid = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return src * valid[..., None], valid


def _describe(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what a user of the models must know; docs/translation.md names the parts."""
    spec, tokenizer, source = (
        checkpoint.spec,
        checkpoint.tokenizer,
        checkpoint.spec.source.landmarks(as_points=True),
    )
    options = spec.model
    return {
        "format_version": FORMAT_VERSION,
        "ids": {"pad": tokenizer.pad, "bos": tokenizer.bos, "eos": tokenizer.eos},
        "vocab_size": tokenizer.vocab_size,
        "features": dataclasses.asdict(spec.features),
        "feature_width": spec.reader.width,
        "layout": json.loads(source.layout.to_json()),
        "extractor": source.extractor,
        "decoder": {
            "layers": options.decoder_layers,
            "heads": options.heads,
            "head_width": options.d_model // options.heads,
        },
        "position_s": options.subsampling / spec.features.fps,
        "max_frames": MAX_POSITIONS * options.subsampling,
        "max_tokens": MAX_POSITIONS,
        "made_with": library_versions(),
        "provenance": spec.provenance,
    }


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Silence the messages of the exporter: none of them is about the model."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
