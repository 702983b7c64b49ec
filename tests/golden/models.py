"""Parameter counts and logits of untrained models, as they should stay.

`python -m tests.golden.models` writes `models.json` anew; a change of it wants a line under
*Numbers* in CHANGELOG.md.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from signloom.models.registry import build_model
from tests import tiny
from tests.contract.variants import DOCUMENT_000, DOCUMENT_003, build

PATH = Path(__file__).with_name("models.json")
# Document 000's sizes, 126 landmark coordinates in, its 130,000 tokens out.
SIZES = {"d_model": 512, "heads": 8, "encoder_layers": 6, "decoder_layers": 6, "d_ff": 2048}
INPUT_WIDTH, VOCAB_SIZE = 126, 130_000
LSTM = {"family": "lstm"}

MODELS: dict[str, dict[str, Any]] = {
    "transformer of document 000": DOCUMENT_000,
    "transformer of document 002": {"activation": "relu"},
    "transformer of document 002, tied": {"activation": "relu", "tied_embeddings": True},
    "transformer, relative positions": {"positions": "relative"},
    "conformer of document 003": {**DOCUMENT_003, "conv_kernel": 15},
    "lstm without attention": {**LSTM, "attention": "none"},
    "lstm, dot": {**LSTM, "attention": "dot"},
    "lstm, general": {**LSTM, "attention": "general"},
    "lstm, additive": {**LSTM, "attention": "additive"},
}


def count_parameters(changes: dict[str, Any]) -> dict[str, int]:
    """Return the parameters of a full-sized model's encoder and decoder."""
    options = dataclasses.replace(tiny.MODEL, **SIZES, **changes)
    with torch.device("meta"):  # counted, not allocated
        model = build_model(options, input_width=INPUT_WIDTH, vocab_size=VOCAB_SIZE, ctc_labels=0)
    return {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in model.named_children()
    }


def first_logits(changes: dict[str, Any]) -> list[float]:
    """Return the logits after the last token of a tiny model with seed 0, to 5 digits."""
    subject = build(**changes)
    with torch.inference_mode():
        logits = subject.model(*subject.source([7]), torch.tensor([[1, 5, 6]]))
    return [round(value, 5) for value in logits[0, -1, :6].tolist()]


def compute() -> dict[str, Any]:
    """Return everything that the file holds."""
    return {
        name: {"parameters": count_parameters(changes), "logits": first_logits(changes)}
        for name, changes in MODELS.items()
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(compute(), indent=1) + "\n", encoding="utf-8")
