"""Study of the parts of a Transformer, each changed or taken out alone.

Questions: is order lost without positions, what are the feed-forward block, its width and its
activation worth, how many heads does it take, and what does layer drop do? Documents 000 to 003
say something of each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from pipeline.studies.options import change_options
from pipeline.studies.reversal.lab import PAD, LabOptions, draw_sequences, read_lab, run_lab
from signloom.config import checked_dataclass
from signloom.features.batches import pad_ids
from signloom.models.layers import FeedForward
from signloom.models.seq2seq import Seq2Seq
from signloom.translation.search import search

TESTED = 256  # sequences whose symbols are counted in any order
NO_FEED_FORWARD = {"feed_forward": "none"}  # in the place of a variant's changes


@checked_dataclass
class ComponentsOptions:
    """The section `study`."""

    seeds: Annotated[list[int], Field(min_length=1)]  # of each variant
    # Name to changes of the section `model`, or `feed_forward: none`.
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
        lab = read_lab([*options.reversal, f"train.seeds=[{seed}]"])
        for variant, changes in options.variants.items():
            yield {"variant": variant, "seed": seed, **_train(lab, variant, changes)}


def _train(lab: LabOptions, variant: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    without = changes == NO_FEED_FORWARD
    where = f"study.variants.{variant}"
    lab = replace(lab, model=change_options(lab.model, {} if without else changes, where))
    prepare = drop_feed_forward if without else None
    result = run_lab(lab, log=lambda record: None, prepare=prepare)
    return {
        "exact": round(result.exact, 4),
        "unordered": count_unordered(result.model, lab),
        "moved": measure_order(result.model, lab),
        "dev_loss": round(result.dev_loss, 4),
        "parameters": sum(p.numel() for p in result.model.parameters()),
        "cpu_s": round(result.cpu_s, 1),
    }


@torch.inference_mode()
def count_unordered(model: Seq2Seq, lab: LabOptions) -> float:
    """Return the share of test sequences whose symbols the model writes in whatever order."""
    sequences = draw_sequences(lab.task, lab.train.seed)["test"][:TESTED]
    memory = model.encode(*pad_ids(sequences, PAD))
    found = search(model, memory, lab.task.ids, lab.decoding)
    right = [
        sorted(best.tokens) == sorted((*sequence, lab.task.ids.eos))
        for sequence, (best, *_) in zip(sequences, found, strict=True)
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
