"""Study of the bottleneck: what a decoder knows of a long source.

Questions: how does quality fall with the length of a sentence where the decoder gets nothing but
the encoder's last state, which end of the source is forgotten, and what do gates, a second
direction and attention change? Document 001 says that it falls beyond 20 to 30 words and that the
first words are forgotten.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from signloom.config import Count, checked_dataclass
from signloom.features.batches import Batch
from signloom.models.seq2seq import Seq2Seq
from studies.loss import token_loss
from studies.reversal.lab import (
    LabOptions,
    ReverseOptions,
    Symbols,
    build_pairs,
    draw_sequences,
    read_lab,
    run_lab,
)
from studies.runs import change_options

DRAWN = 32  # sequences by which an untrained model is differentiated


@checked_dataclass
class BottleneckOptions:
    """The section `study`."""

    seeds: Annotated[list[int], Field(min_length=1)]  # of each variant
    # Name to changes of the section `model`.
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    reversal: list[str]  # changes to the reversal lab
    gradient_symbols: Count  # of the sequences by which untrained models are differentiated
    text_variants: list[str]  # which of them translate glosses
    text_model: dict[str, Any]  # changes to `model` of the study gloss_to_text
    text_train: dict[str, Any]  # changes to its `train`
    lengths: list[int]  # most words of each group of sentences but the last
    contextual: str  # the variant whose states are compared
    # Gloss to names of what it may mean; each is a pattern that the translation then has.
    senses: dict[str, dict[str, str]]


def train_reversal(options: BottleneckOptions) -> Iterator[dict[str, Any]]:
    """Train every variant on the reversal lab; yield what it learnt and what it forgot.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    for seed in options.seeds:
        lab = read_lab([*options.reversal, f"train.seeds=[{seed}]"])
        for variant, changes in options.variants.items():
            model = change_options(lab.model, changes, f"study.variants.{variant}")
            measured = _reverse(replace(lab, model=model), options.gradient_symbols)
            yield {"variant": variant, "seed": seed, **measured}


def _reverse(lab: LabOptions, symbols: int) -> dict[str, Any]:
    task, seed = lab.task, lab.train.seed
    drawn = np.random.default_rng(seed).integers(1, task.symbols + 1, (DRAWN, symbols))
    long = build_pairs([tuple(row) for row in drawn.tolist()], task.ids)
    started: list[list[float]] = []
    result = run_lab(
        lab,
        log=lambda record: None,
        prepare=lambda model: started.append(differentiate(model, long)),
    )
    longest = build_pairs(_longest(draw_sequences(task, seed)["test"], task), task.ids)
    return {
        "exact": round(result.exact, 4),
        "by_length": {str(k): round(v, 4) for k, v in result.by_length.items()},
        "wrong": count_wrong(result.model, longest),
        "gradient": {"start": started[0], "trained": differentiate(result.model, longest)},
        "dev_loss": round(result.dev_loss, 4),
        "cpu_s": round(result.cpu_s, 1),
    }


def _longest(sequences: Sequence[Symbols], task: ReverseOptions) -> list[Symbols]:
    return [sequence for sequence in sequences if len(sequence) == task.max_length]


def count_wrong(model: Seq2Seq, batch: Batch) -> list[float]:
    """Return the share of wrong symbols at each target position but the last, which ends.

    Every symbol is guessed from the true ones before it, so no mistake causes another.
    """
    with torch.inference_mode():
        logits = model(batch.src, batch.src_valid, batch.tgt[:, :-1])
    wrong = (logits.argmax(dim=-1) != batch.tgt[:, 1:]).double().mean(dim=0)
    return [round(share, 4) for share in wrong[:-1].tolist()]


def differentiate(model: Seq2Seq, batch: Batch) -> list[float]:
    """Return the loss's gradient at each source position, as a share of the strongest.

    The length of the gradient by what the source's embedding gives, a mean over the sequences, all
    of which are of one length.
    """
    embedded: list[Tensor] = []

    def keep(module: torch.nn.Module, inputs: object, output: Tensor) -> None:
        output.retain_grad()
        embedded.append(output)

    embedding = next(m for m in model.modules() if isinstance(m, torch.nn.Embedding))
    handle = embedding.register_forward_hook(keep)
    logits = model(batch.src, batch.src_valid, batch.tgt[:, :-1])
    handle.remove()
    loss = token_loss(logits, batch.tgt[:, 1:], batch.tgt_valid[:, 1:], label_smoothing=0.0)
    loss.backward()  # type: ignore[no-untyped-call]
    model.zero_grad()
    assert embedded[0].grad is not None
    lengths = embedded[0].grad.norm(dim=-1).mean(dim=0)
    return [float(f"{value:.3g}") for value in (lengths / lengths.max()).tolist()]
