"""Clips with landmarks and targets come in, padded batches of tensors go out.

Shape letters: B clips, S source frames, T target tokens, F features, L labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from signloom.corpus.augment import AugmentOptions, augment, augmented_frames
from signloom.corpus.features import FeatureOptions, build_features, compute_features, prepare
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.normalise import FloatArray
from signloom.corpus.targets import Target


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One clip ready for training."""

    target: Target
    sequence: LandmarkSequence


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Clips padded to the longest of them."""

    src: Float[Tensor, "B S F"] | Int[Tensor, "B S"]  # features, or ids of source tokens
    src_valid: Bool[Tensor, "B S"]  # True = real
    tgt: Int[Tensor, "B T"]  # with bos and eos
    tgt_valid: Bool[Tensor, "B T"]
    labels: Int[Tensor, "B L"]  # CTC labels, filled with the blank
    label_lengths: Int[Tensor, " B"]  # 0 where a clip has none
    clip_ids: tuple[str, ...]

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on a device."""
        return Batch(
            src=self.src.to(device),
            src_valid=self.src_valid.to(device),
            tgt=self.tgt.to(device),
            tgt_valid=self.tgt_valid.to(device),
            labels=self.labels.to(device),
            label_lengths=self.label_lengths.to(device),
            clip_ids=self.clip_ids,
        )


def group_by_length(
    lengths: Sequence[int], max_frames: int, generator: np.random.Generator | None
) -> list[list[int]]:
    """Group clips of like length so that no padded batch exceeds a frame budget.

    Args:
        lengths: Frames of each clip.
        max_frames: Budget of a batch, clips times longest clip. A clip longer than the budget
            makes a batch of its own.
        generator: Shuffles clips of like length and the batches; None keeps ascending order.

    Returns:
        Indices of the clips of each batch; every clip is in exactly one.
    """
    keys = np.asarray(lengths, dtype=np.float64)
    if generator is not None:
        # A tenth of disorder mixes neighbours from epoch to epoch and costs little padding.
        keys = keys * generator.uniform(0.95, 1.05, len(keys))
    groups: list[list[int]] = [[]]
    longest = 0
    for index in np.argsort(keys, kind="stable").tolist():
        longest = max(longest, lengths[index])
        if groups[-1] and longest * (len(groups[-1]) + 1) > max_frames:
            groups.append([])
            longest = lengths[index]
        groups[-1].append(index)
    if generator is not None:
        generator.shuffle(groups)
    return groups


def build_batch(examples: Sequence[Example], matrices: Sequence[FloatArray], pad: int) -> Batch:
    """Pad feature matrices and targets to a batch.

    Args:
        examples: The clips.
        matrices: Their features, each (S, F).
        pad: Id that fills the targets.
    """
    tgt, tgt_valid = pad_ids([example.target.ids for example in examples], pad)
    labels, labels_valid = pad_ids([example.target.labels for example in examples], 0)
    src, src_valid = pad_features(matrices)
    return Batch(
        src=src,
        src_valid=src_valid,
        tgt=tgt,
        tgt_valid=tgt_valid,
        labels=labels,
        label_lengths=labels_valid.sum(dim=1),
        clip_ids=tuple(example.target.clip_id for example in examples),
    )


def pad_features(
    matrices: Sequence[FloatArray],
) -> tuple[Float[Tensor, "B S F"], Bool[Tensor, "B S"]]:
    """Stack feature matrices of different lengths, zeros behind the shorter ones."""
    longest = max(len(matrix) for matrix in matrices)
    src = torch.zeros(len(matrices), longest, matrices[0].shape[1])
    valid = torch.zeros(len(matrices), longest, dtype=torch.bool)
    for row, matrix in enumerate(matrices):
        src[row, : len(matrix)] = torch.from_numpy(matrix)
        valid[row, : len(matrix)] = True
    return src, valid


def pad_ids(
    sequences: Sequence[Sequence[int]], pad: int
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Stack id sequences of different lengths, `pad` behind the shorter ones."""
    longest = max(len(sequence) for sequence in sequences)
    ids = torch.full((len(sequences), longest), pad, dtype=torch.int64)
    valid = torch.zeros(len(sequences), longest, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
        valid[row, : len(sequence)] = True
    return ids, valid


def training_batches(
    examples: Sequence[Example],
    features: FeatureOptions,
    augmentation: AugmentOptions,
    *,
    max_frames: int,
    pad: int,
    seed: int,
) -> Callable[[int], Iterator[Batch]]:
    """Return a function from the epoch's number to its augmented, shuffled batches.

    An epoch depends on the seed and its number alone, so that training can resume at any epoch.
    """
    prepared = [prepare(example.sequence, features) for example in examples]

    def chance(epoch: int, index: int) -> np.random.Generator:
        # One generator a clip: how the clips are grouped must not change the draws.
        return np.random.default_rng([seed, epoch, index])

    def epoch_batches(epoch: int) -> Iterator[Batch]:
        # Grouped by the length that each clip will have, so that no batch exceeds the budget.
        lengths = [
            augmented_frames(len(clip.points), augmentation, chance(epoch, index))
            for index, clip in enumerate(prepared)
        ]
        order = np.random.default_rng([seed, epoch])
        for group in group_by_length(lengths, max_frames, order):
            changed = [augment(prepared[i], augmentation, chance(epoch, i)) for i in group]
            matrices = [build_features(sequence, features) for sequence in changed]
            yield build_batch([examples[i] for i in group], matrices, pad)

    return epoch_batches


def fixed_batches(
    examples: Sequence[Example], features: FeatureOptions, *, max_frames: int, pad: int
) -> list[Batch]:
    """Return unaugmented batches in order of length, for dev loss."""
    matrices = [compute_features(example.sequence, features) for example in examples]
    groups = group_by_length([len(matrix) for matrix in matrices], max_frames, None)
    return [
        build_batch([examples[i] for i in group], [matrices[i] for i in group], pad)
        for group in groups
    ]
