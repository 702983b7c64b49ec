"""Study of gradients by depth and block.

Questions: how much of the gradient at the top of a stack of layers is left at its bottom, with and
without residual connections and layer norms, and which of these stacks learn? Document 000 prints
a table of the first.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import geometric_mean
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from signloom.config import Count, checked_dataclass
from signloom.models.layers import Residual
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.training.loop import DivergedError
from studies.loss import token_loss
from studies.reversal.lab import LabOptions, run_lab

Wiring = Literal["residual", "plain"]
Norm = Literal["post", "pre", "none"]
Initialization = Literal["torch", "xavier_each"]
WIRINGS: tuple[Wiring, ...] = ("residual", "plain")
NORMS: tuple[Norm, ...] = ("post", "pre", "none")
# Document 000 keeps what PyTorch draws, documents 001 and 002 draw Glorot's.
INITIALIZATIONS: tuple[Initialization, ...] = ("torch", "xavier_each")
NO_WARMUP = 1  # steps

# Share of the first layer in document 000's table, % by layers: 0.7 ** n and 0.7 * n.
PRINTED = {
    "plain": {3: 34.0, 6: 12.0, 12: 1.4, 24: 0.02},
    "residual": {3: 210.0, 6: 420.0, 12: 840.0, 24: 1680.0},
}


@checked_dataclass
class GradientOptions:
    """What is measured; `study.flow` of the study's parameters."""

    # Encoder layers, each >= 2.
    depths: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)]
    seeds: Count  # random models and inputs of each kind
    clips: Count  # in the batch
    frames: Annotated[int, Field(ge=2)]  # of each
    tokens: Count  # of each target
    input_width: Count  # features of a frame, F
    vocab_size: Count  # V


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What passes through one kind of stack; geometric means over the seeds.

    Attributes:
        depth: Encoder layers, N.
        initialization: Of the weights.
        norm: Before each block, after it, or nowhere.
        wiring: With the residual sums, or without.
        arriving: Length of the loss's gradient at the stack's input and at the output of each
            layer, N + 1 numbers.
        weights: Length of the gradient of each layer's parameters, N numbers.
        spread: How much the frames of a clip differ, at the same places as `arriving`: the length
            of the states' differences from their mean, as a share of the states' length.
    """

    depth: int
    initialization: Initialization
    norm: Norm
    wiring: Wiring
    arriving: list[float]
    weights: list[float]
    spread: list[float]

    @property
    def share(self) -> float:
        """The gradient at the stack's input, in % of that at its output."""
        return 100 * self.arriving[0] / self.arriving[-1]


class Plain(nn.Module):
    """A block with its norm and without the sum, in the place of a `Residual`."""

    def __init__(self, residual: Residual) -> None:
        super().__init__()
        self.norm, self.dropout, self.is_pre = residual.norm, residual.dropout, residual.is_pre

    def forward(
        self, x: Float[Tensor, "B T D"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        """Apply the block alone."""
        if self.is_pre:
            return self.dropout(block(self.norm(x)))
        return self.norm(self.dropout(block(x)))


def rewire(stack: nn.Module, *, norm: Norm, wiring: Wiring) -> None:
    """Take residual sums or norms out of every layer of a stack, in place."""
    for parent in list(stack.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Residual):
                if norm == "none":
                    child.norm = nn.Identity()  # type: ignore[assignment]
                if wiring == "plain":
                    setattr(parent, name, Plain(child))


def measure_flows(model: ModelOptions, options: GradientOptions) -> Iterator[Flow]:
    """Measure every initialisation, depth, norm and wiring, at the start of training.

    Args:
        model: Width and kind of layers; the rest is varied.
        options: How much is measured.
    """
    for initialization, depth, norm, wiring in product(
        INITIALIZATIONS, options.depths, NORMS, WIRINGS
    ):
        kind = _vary(model, depth, norm, initialization)
        runs = [
            _measure(kind, options, seed, norm=norm, wiring=wiring)
            for seed in range(1, options.seeds + 1)
        ]
        arriving, weights, spread = (
            [geometric_mean(column) for column in zip(*rows, strict=True)]
            for rows in zip(*runs, strict=True)
        )
        yield Flow(
            depth=depth,
            initialization=initialization,
            norm=norm,
            wiring=wiring,
            arriving=arriving,
            weights=weights,
            spread=spread,
        )


def _measure(
    model_options: ModelOptions, options: GradientOptions, seed: int, *, norm: Norm, wiring: Wiring
) -> tuple[list[float], list[float], list[float]]:
    """Return `arriving`, `weights` and `spread` of one random model and batch."""
    torch.manual_seed(seed)
    model = build_model(
        model_options, input_width=options.input_width, vocab_size=options.vocab_size, ctc_labels=0
    ).double()  # what is left after many layers may be too small for single precision
    stack = model.get_submodule("encoder.layers")
    rewire(stack, norm=norm, wiring=wiring)
    layers = list(stack.children())
    states: list[Tensor] = []

    def keep(state: Tensor) -> None:
        state.retain_grad()
        states.append(state)

    layers[0].register_forward_pre_hook(lambda _, inputs: keep(inputs[0]))
    for layer in layers:
        layer.register_forward_hook(lambda _, inputs, output: keep(output))
    src = torch.randn(options.clips, options.frames, options.input_width).double()
    valid = torch.ones(options.clips, options.frames, dtype=torch.bool)
    tgt = torch.randint(options.vocab_size, (options.clips, options.tokens + 1))
    logits = model(src, valid, tgt[:, :-1])
    every = torch.ones_like(tgt[:, 1:], dtype=torch.bool)
    loss = token_loss(logits, tgt[:, 1:], every, label_smoothing=0.0) / every.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    arriving = [_gradient_length([state]) for state in states]
    weights = [_gradient_length(layer.parameters()) for layer in layers]
    return arriving, weights, [_spread(state) for state in states]


def _gradient_length(tensors: Iterable[Tensor]) -> float:
    """Return the Euclidean length of the gradients of all of these as one vector."""
    squares = (float(t.grad.square().sum()) for t in tensors if t.grad is not None)
    return math.sqrt(sum(squares))


def _spread(states: Float[Tensor, "B S D"]) -> float:
    """Return how much the frames of a clip differ, 0 (all alike) to 1."""
    away = states - states.mean(dim=1, keepdim=True)
    return float((away.norm() / states.norm()).detach())


def train_stacks(
    lab: LabOptions, depths: Iterable[int], seeds: Iterable[int]
) -> Iterator[dict[str, Any]]:
    """Train encoders of each kind on the reversal lab.

    A gradient that arrives is worth nothing unless it teaches, so what counts is what is learnt.

    Args:
        lab: Sequences, model and recipe; the encoder is varied.
        depths: Encoder layers.
        seeds: Of each kind.
    """
    for kind in product(seeds, INITIALIZATIONS, depths, NORMS, WIRINGS):
        seed, initialization, depth, norm, wiring = kind
        model = _vary(lab.model, depth, norm, initialization)
        yield _train(replace(lab, model=model), seed, norm=norm, wiring=wiring)


def train_deep(
    lab: LabOptions, depths: Iterable[int], seeds: Iterable[int]
) -> Iterator[dict[str, Any]]:
    """Train deep encoders, post-norm and pre-norm, with the lab's warm-up and without.

    Args:
        lab: Sequences, model and recipe; the encoder's weights are PyTorch's, as document 000's.
        depths: Encoder layers.
        seeds: Of each kind.
    """
    norms: tuple[Norm, Norm] = ("post", "pre")
    for seed, depth, norm, warmup in product(
        seeds, depths, norms, (lab.train.warmup_steps, NO_WARMUP)
    ):
        model = _vary(lab.model, depth, norm, "torch")
        recipe = replace(lab.train, warmup_steps=warmup)
        yield _train(replace(lab, model=model, train=recipe), seed, norm=norm, wiring="residual")


def _vary(
    model: ModelOptions, depth: int, norm: Norm, initialization: Initialization
) -> ModelOptions:
    return replace(
        model,
        encoder_layers=depth,
        norm="post" if norm == "none" else norm,
        initialization=initialization,
    )


def _train(lab: LabOptions, seed: int, *, norm: Norm, wiring: Wiring) -> dict[str, Any]:
    """Train one model whose encoder is rewired; return what it was and how well it learnt."""

    def prepare(built: Seq2Seq) -> None:
        rewire(built.get_submodule("encoder.layers"), norm=norm, wiring=wiring)

    facts: dict[str, Any] = {
        "initialization": lab.model.initialization,
        "depth": lab.model.encoder_layers,
        "norm": norm,
        "wiring": wiring,
        "warmup_steps": lab.train.warmup_steps,
        "seed": seed,
    }
    options = replace(lab, train=replace(lab.train, seeds=[seed]))
    try:
        result = run_lab(options, log=lambda record: None, prepare=prepare)
    except DivergedError:
        return facts | {"exact": 0.0, "dev_loss": None}
    return facts | {"exact": round(result.exact, 4), "dev_loss": round(result.dev_loss, 4)}


def summarise_flows(flows: Iterable[Flow]) -> list[dict[str, Any]]:
    """Return plain values for JSON."""
    return [{**asdict(flow), "share": flow.share} for flow in flows]
