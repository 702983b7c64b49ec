"""Contrastive pretraining: an encoder learns to know a clip again, whatever chance did to it.

The mean of its states over a clip, projected, must be nearer to that of another view of the clip
than to those of all other clips of the batch. Source: Chen et al. (2020), "SimCLR".
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from signloom.checkpoint import Checkpoint
from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.batches import pad_features
from signloom.features.features import FloatArray
from signloom.training.data import TrainingData
from signloom.training.run import RunOptions, prepare

STEPS = 150
HALF = 64  # clips of a batch that are takes, and as many that are videos
CROP = 0.5  # most of a clip that a view leaves out at its ends
TEMPERATURE = 0.1
RATE = 0.002  # highest


def contrast(data: TrainingData, options: RunOptions) -> Checkpoint:
    """Train an encoder on views of the clips, drawn as `options.augment` says.

    Args:
        data: Those of `load_pretraining`: the corpus' own clips, and others, which have a name.
        options: Those of `pretraining_options`.
    """
    checkpoint, _ = prepare(data, options, provenance={})
    model, width = checkpoint.model.train(), options.model.d_model
    head = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, 64))
    weights = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=STEPS, pct_start=0.1
    )
    chance = np.random.default_rng(options.train.seed)
    for _ in range(STEPS):
        means = []
        for rows in draw_views(data, options, chance):  # of like length
            memory = model.encode(*pad_features(rows))
            real = memory.valid[..., None]
            means.append((memory.states * real).sum(dim=1) / real.sum(dim=1))
        optimizer.zero_grad()
        contrast_loss(head(torch.cat(means))).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    return checkpoint


def draw_views(
    data: TrainingData, options: RunOptions, chance: np.random.Generator
) -> Iterator[list[FloatArray]]:
    """Yield features of takes, then of videos: two views of each clip, side by side."""
    clips = data.train
    for are_others in (False, True):
        group = [n for n, target in enumerate(clips.targets) if bool(target.corpus) == are_others]
        chosen = chance.choice(group, HALF, replace=False)
        yield [
            np.asarray(
                clips.source.augmented_rows(
                    crop(sequence, chance), options.features, options.augment, chance
                )
            )
            for sequence in clips.read(np.repeat(chosen, 2).tolist())
            if isinstance(sequence, LandmarkSequence)
        ]


def crop(sequence: LandmarkSequence, chance: np.random.Generator) -> LandmarkSequence:
    """Return a part of a clip, at least `1 - CROP` of it."""
    frames = len(sequence.points)
    kept = math.ceil(frames * (1 - CROP * chance.random()))
    span = slice(start := int(chance.integers(frames - kept + 1)), start + kept)
    return dataclasses.replace(
        sequence, points=sequence.points[span], present=sequence.present[span]
    )


def contrast_loss(views: Float[Tensor, "N D"]) -> Float[Tensor, ""]:
    """Return the cross entropy of finding each view's partner, its neighbour, among all others."""
    units = functional.normalize(views, dim=1)
    likeness = (units @ units.T / TEMPERATURE).fill_diagonal_(-math.inf)
    return functional.cross_entropy(likeness, torch.arange(len(units)) ^ 1)
