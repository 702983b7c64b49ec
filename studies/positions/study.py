"""Study of kinds of positions.

Questions: what do the encodings of order look like, which positions can influence which, and does a
model that learnt on short sequences work on longer ones, as document 001 says of sinusoids?
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from signloom.models.attention import relative_shift
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from studies.reversal.lab import (
    LabOptions,
    draw_sequences,
    reverse_all,
    run_lab,
    share_by_length,
)

BoolMatrix = npt.NDArray[np.bool_]
FloatMatrix = npt.NDArray[np.float64]
FEATURES, VOCAB = 6, 10  # of the models whose sight is measured


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sight:
    """Which inputs can change which outputs of a model, found by differentiating it.

    Attributes:
        encoder: Memory positions by source frames, (M, S).
        decoder: Next-token logits by target tokens, (T, T).
        memory: Next-token logits by memory positions, (T, M).
    """

    encoder: BoolMatrix
    decoder: BoolMatrix
    memory: BoolMatrix


def measure_sight(options: ModelOptions, *, frames: int, padded_to: int, tokens: int) -> Sight:
    """Differentiate every output of a random model by every input.

    Args:
        options: The model; its width should be small.
        frames: Real frames of the clip.
        padded_to: Frames of the batch, at least as many.
        tokens: Target tokens.
    """
    torch.manual_seed(0)
    model = build_model(options, input_width=FEATURES, vocab_size=VOCAB, ctc_labels=0)
    model.double().eval()
    src = torch.randn(1, padded_to, FEATURES).double().requires_grad_()
    valid = torch.arange(padded_to)[None, :] < frames
    memory = model.encode(src, valid)
    embedded: list[Tensor] = []
    embedding = next(m for m in model.modules() if isinstance(m, torch.nn.Embedding))
    embedding.register_forward_hook(lambda _, inputs, output: embedded.append(output))
    logits = model.decode(memory, torch.randint(VOCAB, (1, tokens)))
    return Sight(
        encoder=_influence(memory.states, src),
        decoder=_influence(logits, embedded[0]),
        memory=_influence(logits, memory.states),
    )


def _influence(outputs: Tensor, inputs: Tensor) -> BoolMatrix:
    """Return where the gradient of an output position by an input position is not zero."""
    rows = []
    for position in range(outputs.shape[1]):
        # Squared, or the sum over normalised features would always be the same.
        (gradient,) = torch.autograd.grad(
            outputs[:, position].square().sum(), inputs, retain_graph=True, materialize_grads=True
        )
        rows.append(gradient[0].abs().sum(dim=-1) > 0)
    return torch.stack(rows).numpy()


def shift_distances(length: int) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the distances that relative attention scores, before and after the shift.

    Returns:
        By query and column, (M, 2 M - 1), and by query and key, (M, M); as shares of M - 1.
    """
    distances = torch.arange(length - 1, -length, -1, dtype=torch.float64) / (length - 1)
    before = distances.repeat(length, 1)
    return before.numpy(), relative_shift(before[None, None])[0, 0].numpy()


def train_positions(
    lab: LabOptions, kinds: Sequence[str], seeds: Sequence[int], longest: int
) -> Iterator[dict[str, Any]]:
    """Train on the lab's lengths, test on longer sequences too.

    Args:
        lab: Sequences, model and recipe.
        kinds: Values of `model.positions`.
        seeds: Of each kind.
        longest: Symbols of the longest sequences tested.
    """
    beyond = replace(lab.task, min_length=lab.task.max_length + 1, max_length=longest)
    decoding = replace(lab.decoding, max_tokens=longest + 2)
    for kind in kinds:
        for seed in seeds:
            model = replace(lab.model, positions=kind)  # type: ignore[arg-type]
            recipe = replace(lab.train, seeds=[seed])
            result = run_lab(replace(lab, model=model, train=recipe), log=lambda record: None)
            longer = draw_sequences(beyond, seed)["test"]
            is_right = reverse_all(result.model, longer, beyond, decoding)
            every = {**result.by_length, **share_by_length(is_right)}
            yield {
                "positions": kind,
                "seed": seed,
                "exact": round(result.exact, 4),
                "by_length": {str(k): round(v, 4) for k, v in every.items()},
                "alphas": {
                    name: round(float(value.detach()), 3)
                    for name, value in result.model.named_parameters()
                    if name.endswith("alpha")
                },
            }
