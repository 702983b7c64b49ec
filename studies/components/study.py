"""Study of the parts of a Transformer, each changed or taken out alone.

Questions: is order lost without positions, what are the feed-forward block, its width and its
activation worth, how many heads does it take, and what does layer drop do? Documents 000 to 003
say something of each.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Annotated, Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from signloom.config import checked_dataclass
from signloom.features.batches import pad_ids
from signloom.models.attention import MultiHeadAttention
from signloom.models.layers import FeedForward
from signloom.models.seq2seq import Seq2Seq
from signloom.translation.search import search
from studies.loss import token_loss
from studies.reversal.lab import (
    PAD,
    LabOptions,
    build_pairs,
    draw_sequences,
    read_lab,
    reverse_all,
    run_lab,
)

TESTED = 256  # sequences whose symbols are counted in any order, and of train
UNITS = 32  # of a feed-forward block that are cut one by one
NO_FEED_FORWARD = {"feed_forward": "none"}  # in the place of a variant's changes


@checked_dataclass
class ComponentsOptions:
    """The section `study`."""

    seeds: Annotated[list[int], Field(min_length=1)]  # of each variant
    # Name to changes of the section `model` (or, as `train.NAME`, of another), or
    # `feed_forward: none`.
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    reversal: list[str]  # changes to the reversal lab


class Nothing(nn.Module):
    """A block that adds nothing to its residual sum."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return zeros."""
        return torch.zeros_like(x)


def drop_feed_forward(model: nn.Module) -> None:
    """Take every feed-forward block out of a model, in place."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, FeedForward):
                setattr(parent, name, Nothing())


def train_components(options: ComponentsOptions) -> Iterator[dict[str, Any]]:
    """Train every variant on the reversal lab.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    for seed in options.seeds:
        for variant, changes in options.variants.items():
            without = changes == NO_FEED_FORWARD
            named = {} if without else changes
            assignments = [
                f"{key if '.' in key else f'model.{key}'}={json.dumps(value)}"
                for key, value in named.items()
            ]
            lab = read_lab([*options.reversal, f"train.seeds=[{seed}]", *assignments])
            yield {"variant": variant, "seed": seed, **_train(lab, variant, without=without)}


def _train(lab: LabOptions, variant: str, *, without: bool) -> dict[str, Any]:
    prepare = drop_feed_forward if without else None
    result = run_lab(lab, log=lambda record: None, prepare=prepare)
    train = draw_sequences(lab.task, lab.train.seed)["train"][:TESTED]
    is_right = reverse_all(result.model, train, lab.task, lab.decoding)
    return {
        "exact": round(result.exact, 4),
        "train_exact": round(sum(is_right.values()) / len(is_right), 4),
        "unordered": count_unordered(result.model, lab),
        "moved": measure_order(result.model, lab),
        "dev_loss": round(result.dev_loss, 4),
        **measure_cuts(result.model, lab),
        "parameters": sum(p.numel() for p in result.model.parameters()),
        "cpu_s": round(result.cpu_s, 1),
    }


@contextmanager
def without_columns(layer: nn.Linear, columns: slice) -> Iterator[None]:
    """Take what some inputs of a projection say out of its output."""
    weight = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight[:, columns] = 0
    try:
        yield
    finally:
        with torch.no_grad():
            layer.weight.copy_(weight)


@torch.no_grad()
def measure_cuts(model: Seq2Seq, lab: LabOptions) -> dict[str, float]:
    """Return by how much the dev loss rises where one head, or one hidden unit, is cut.

    Returns:
        `head` and `unit`, the mean rise in nats, and `worst_head` and `worst_unit`.
    """
    task = lab.task
    batch = build_pairs(draw_sequences(task, lab.train.seed)["dev"], task.ids, task.frames)

    def loss() -> float:
        logits = model(batch.src, batch.src_valid, batch.tgt[:, :-1])
        total = token_loss(logits, batch.tgt[:, 1:], batch.tgt_valid[:, 1:], label_smoothing=0.0)
        return float(total / batch.tgt_valid[:, 1:].sum())

    def cut(layer: nn.Linear, parts: int, tried: int) -> list[float]:
        width, rises = layer.in_features // parts, []
        for part in range(0, parts, max(1, parts // tried)):
            with without_columns(layer, slice(part * width, (part + 1) * width)):
                rises.append(loss() - base_loss)
        return rises

    base_loss = loss()
    heads: list[float] = []
    units: list[float] = []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            heads += cut(module.output, module.heads, module.heads)
        elif isinstance(module, FeedForward):
            units += cut(module.project, module.project.in_features, UNITS)
    rises = {"head": heads, "unit": units or [0.0]}  # a model may have no feed-forward block
    return {
        **{kind: round(mean(increases), 4) for kind, increases in rises.items()},
        **{f"worst_{kind}": round(max(increases), 4) for kind, increases in rises.items()},
    }


@torch.inference_mode()
def count_unordered(model: Seq2Seq, lab: LabOptions) -> float:
    """Return the share of test sequences whose symbols the model writes in whatever order."""
    sequences = draw_sequences(lab.task, lab.train.seed)["test"][:TESTED]
    memory = model.encode(*pad_ids(sequences, PAD))
    beams = search(model, memory, lab.task.ids, lab.decoding)
    right = [
        sorted(best.tokens) == sorted((*sequence, lab.task.ids.eos))
        for sequence, (best, *_) in zip(sequences, beams, strict=True)
    ]
    return round(sum(right) / len(right), 4)


@torch.inference_mode()
def measure_order(model: Seq2Seq, lab: LabOptions) -> float:
    """Return by how much a symbol's encoding changes when the source is turned round.

    A share of the encodings' length: nothing where the encoder cannot tell one order from another.
    """
    task, seed = lab.task, lab.train.seed
    test = draw_sequences(task, seed)["test"]
    src, valid = pad_ids([s for s in test if len(s) == task.max_length][:TESTED], PAD)
    states, turned = model.encode(src, valid).states, model.encode(src.flip(1), valid).states
    return float(f"{float((states - turned.flip(1)).norm() / states.norm()):.2g}")
