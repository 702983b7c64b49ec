"""A model and its inputs come in; what it costs to run goes out: numbers, products, seconds."""

import time
from collections.abc import Callable, Sequence
from math import prod
from statistics import median
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from signloom.models.seq2seq import Seq2Seq

REPEATS = 7  # of each latency; the median is told


def measure_latency(model: Seq2Seq, inputs: list[torch.Tensor]) -> dict[str, float]:
    """Return seconds to encode, to feed one token, and to translate greedily."""
    src, valid, tgt = inputs

    def greedy() -> None:
        state, tokens = model.start(model.encode(src, valid)), tgt[:, 0]
        for _ in range(tgt.shape[1]):
            logits, state = model.step(tokens, state)
            tokens = logits.argmax(dim=-1)

    with torch.inference_mode():
        state = model.start(model.encode(src, valid))
        return {
            "encode": _time(lambda: model.encode(src, valid)),
            "step": _time(lambda: model.step(tgt[:, 0], state)),
            f"greedy_{tgt.shape[1]}": _time(greedy),
        }


def count_parameters(model: Seq2Seq) -> int:
    """Count the numbers that training changes."""
    return sum(parameter.numel() for parameter in model.parameters())


def count_mult_adds(model: Seq2Seq, inputs: list[torch.Tensor]) -> dict[str, int]:
    """Count the multiplications of all matrix products and convolutions, by half of the model."""
    src, valid, tgt = inputs
    fused = {torch.ops.aten.mkldnn_rnn_layer: _lstm_flops}

    def count(action: Callable[[], object]) -> int:
        # Fused attention is not in PyTorch's table; written out, its products are.
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping=fused) as counter,
        ):
            action()
        return int(counter.get_total_flops()) // 2  # a product and its sum

    with torch.inference_mode():
        memory = model.encode(src, valid)
        return {
            "encode": count(lambda: model.encode(src, valid)),
            "decode": count(lambda: model.decode(memory, tgt)),
        }


def _lstm_flops(
    x: Sequence[int], input_weight: Sequence[int], recurrent: Sequence[int], *_: Any, **__: Any
) -> int:
    """Operations of oneDNN's LSTM layer, which PyTorch's table lacks, from its shapes."""
    return 2 * prod(x[:-1]) * (prod(input_weight) + prod(recurrent))


def _time(action: Callable[[], object]) -> float:
    action()  # first uses allocate
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return median(seconds)
