"""Padded batches of clips of like length.

Shape letters: B clips, S source frames or tokens, T target tokens, F features, L labels.
"""

import functools
import gc
import logging
import shutil
import warnings
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast, overload

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from signloom.errors import UserError
from signloom.features.augment import AugmentOptions
from signloom.features.features import FeatureOptions
from signloom.features.glosses import SOURCE_PAD
from signloom.features.sources import Clips, Rows, SourceSequence
from signloom.features.targets import Target
from signloom.log import ONCE
from signloom.tables import take_rows

# A seed stream of its own for draws over a whole epoch.
DURATION_STREAM = 4
SHARED_MEMORY = "/dev/shm"  # where batches lie that another process has built
logger = logging.getLogger(__name__)
# An epoch and some of its clips.
_Key = tuple[int, tuple[int, ...]]


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
        """Return the batch on a device; from pinned memory without waiting for it."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=tensor.is_pinned()))

    def pin_memory(self) -> "Batch":
        """Return the batch in memory from which a GPU copies while this process goes on."""
        return self._each(torch.Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        names = [field.name for field in fields(self) if field.name != "clip_ids"]
        tensors: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        return replace(self, **tensors)


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


def deal_batch(clips: Sequence[int], parts: int) -> list[list[int]]:
    """Deal the clips of a batch out to devices, or to parts of gradient accumulation.

    Clips of a batch are of like length, in nearly ascending order; dealt like cards, every part
    gets as many, short and long ones alike.

    Args:
        clips: Of a batch, as planned.
        parts: How many, at least 1.

    Returns:
        As many lists as `parts`; some are empty where there are fewer clips.
    """
    return [list(clips[part::parts]) for part in range(parts)]


def build_batch(targets: Sequence[Target], rows: Sequence[Rows], pad: int) -> Batch:
    """Pad sources and targets to a batch.

    Args:
        rows: Features of each clip, (S, F), or source ids, (S,).
        pad: Id that fills the targets.
    """
    tgt, tgt_valid = pad_ids([target.ids for target in targets], pad)
    labels, labels_valid = pad_ids([target.labels for target in targets], 0)
    src, src_valid = pad_source(rows)
    return Batch(
        src=src,
        src_valid=src_valid,
        tgt=tgt,
        tgt_valid=tgt_valid,
        labels=labels,
        label_lengths=labels_valid.sum(dim=1),
        clip_ids=tuple(target.clip_id for target in targets),
    )


def pad_source(
    rows: Sequence[Rows],
) -> tuple[Float[Tensor, "B S F"] | Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Stack the features, or the source ids, of clips of different lengths."""
    if rows[0].ndim == 1:
        return pad_ids([ids.tolist() for ids in rows], SOURCE_PAD)
    return pad_features(rows)


def pad_features(matrices: Sequence[Rows]) -> tuple[Float[Tensor, "B S F"], Bool[Tensor, "B S"]]:
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


class EpochBatches(ABC):
    """The batches of training: `plan` lists those of an epoch, `build` makes one.

    A plan follows from a seed and the epoch's number, and what chance does to a clip from these
    and the clip, not from the rest of its batch. So training goes on at any step without building
    what is past, and a batch may be built in parts, here or on other devices.
    """

    @abstractmethod
    def plan(self, epoch: int) -> list[list[int]]:
        """Return the clips of each batch of an epoch, in the order of the steps."""

    @abstractmethod
    def lengths(self, epoch: int) -> list[int]:
        """Return how long each clip will be in an epoch, as batches count it."""

    @abstractmethod
    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        """Return some clips, at least one, as they are in an epoch, padded to a batch."""

    def expect(self, epoch: int, parts: Sequence[Sequence[int]]) -> None:  # noqa: B027  may do nothing
        """Announce the batches of an epoch that are needed next, in this order."""


class BuiltAhead(EpochBatches):
    """Batches of another source, built by other processes before they are asked for.

    A large GPU takes batches faster than one process builds them. What another process has built is
    equal to the bit.
    """

    def __init__(self, source: EpochBatches, processes: int) -> None:
        """Take what builds the batches, and how many processes may do it at most."""
        self._source, self._processes = source, processes
        self._keys: list[_Key] = []  # what the processes are to build
        self._coming: deque[_Key] = deque()
        self._built: Iterator[Batch | UserError] = iter(())
        self._loader: DataLoader[Batch | UserError] | None = None

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the clips of each batch of an epoch."""
        return self._source.plan(epoch)

    def lengths(self, epoch: int) -> list[int]:
        """Return how long each clip will be in an epoch."""
        return self._source.lengths(epoch)

    def expect(self, epoch: int, parts: Sequence[Sequence[int]]) -> None:
        """Let the processes build these batches; they are started once."""
        self._keys[:] = [(epoch, tuple(part)) for part in parts]
        self._coming = deque(self._keys)
        if self._loader is None and self._processes and self._keys:
            lengths = self._source.lengths(epoch)
            self._loader = self._start(
                self._source.build(
                    *max(self._keys, key=lambda key: len(key[1]) * max(lengths[n] for n in key[1]))
                )
            )
        if self._loader is None:
            return
        # Keeps forked workers from freeing this process's GPU memory.
        gc.collect()
        gc.freeze()
        try:
            with warnings.catch_warnings():  # Python 3.12: they touch nothing that has threads
                warnings.filterwarnings("ignore", "This process .*fork", DeprecationWarning)
                self._built = iter(self._loader)
        finally:
            gc.unfreeze()

    def close(self) -> None:
        """End the processes."""
        self._built, self._loader, self._coming = iter(()), None, deque()

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        """Return a batch: the next one that was built, or one that was not announced."""
        if self._processes and self._coming and self._coming[0] == (epoch, tuple(clips)):
            self._coming.popleft()
            batch = next(self._built)
            if isinstance(batch, UserError):
                raise batch
            return batch
        return self._source.build(epoch, clips)

    def _start(self, batch: Batch) -> "DataLoader[Batch | UserError] | None":
        """Return what builds batches up to the size of one, as far as shared memory holds them."""
        tensors = [
            getattr(batch, field.name) for field in fields(batch) if field.name != "clip_ids"
        ]
        size = sum(tensor.nbytes for tensor in tensors)
        # Linux has it; elsewhere batches are built one after another.
        has_room = Path(SHARED_MEMORY).is_dir()
        free = shutil.disk_usage(SHARED_MEMORY).free if has_room else 0
        # Of each process one is in work and two wait; half of the room is left to others.
        self._processes = min(self._processes, free // (6 * size))
        if not self._processes:
            logger.warning(
                "%s has room for %d MB, a batch takes %d MB: batches are built one after another, "
                "which a GPU may wait for; give a container more (docker run --shm-size=8g)",
                SHARED_MEMORY,
                free // 10**6,
                size // 10**6,
                extra=ONCE,
            )
            return None
        return DataLoader(
            _Keyed(self._source),
            sampler=cast(Any, self._keys),
            batch_size=None,
            num_workers=self._processes,
            persistent_workers=True,
            multiprocessing_context="fork",
            generator=torch.Generator(),  # not torch's own, which training draws from
        )


class _Keyed(Dataset[Batch | UserError]):
    """The batches of a source, by their keys."""

    def __init__(self, source: EpochBatches) -> None:
        self._source = source

    def __getitem__(self, key: _Key) -> Batch | UserError:
        try:
            return self._source.build(*key)
        except UserError as error:
            return error  # raised where it is taken, with its own words


class TrainingBatches(EpochBatches):
    """Augmented landmarks, or glosses as they are, in batches of like length."""

    def __init__(
        self,
        clips: Clips,
        features: FeatureOptions,
        augmentation: AugmentOptions,
        *,
        max_frames: int,
        pad: int,
        seed: int,
    ) -> None:
        """Take the clips and how to change them.

        Args:
            clips: Landmarks or glosses, and targets.
            features: What the model sees of the landmarks.
            augmentation: What chance may do to them.
            max_frames: Budget of a batch, clips times longest clip: its frames, or the tokens of
                its glosses and its sentence together, which then take about as long.
            pad: Id that fills the targets.
            seed: Of order and augmentation.
        """
        self._clips, self._reader = clips, clips.source.reader(features)
        self._augmentation = augmentation
        self._max_frames, self._pad, self._seed = max_frames, pad, seed
        self._lengths = self._reader.lengths(clips)
        # What is read of each clip, 0 until it was read once: a third of the time of a batch.
        self._parts = np.zeros((len(clips), 3), np.int32)
        self._durations = functools.lru_cache(maxsize=2)(self._draw_durations)  # asked by batch

    @property
    def steps(self) -> int:
        """The batches of an epoch, before rests are added: the demo takes a fifth more."""
        return len(group_by_length(self._lengths, self._max_frames, None))

    def plan(self, epoch: int) -> list[list[int]]:
        """Group clips by the length that they will have, so that no batch exceeds the budget."""
        order = np.random.default_rng([self._seed, epoch])
        return group_by_length(self.lengths(epoch), self._max_frames, order)

    def lengths(self, epoch: int) -> list[int]:
        """Return the length of each clip after augmentation."""
        return self._reader.augmented_lengths(
            list(self._lengths), self._augmentation, self._durations(epoch)
        )

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        """Read, augment and pad some clips."""
        # One generator a clip: how they are grouped must not change the draws.
        chances = [np.random.default_rng([self._seed, epoch, clip]) for clip in clips]
        durations = self._durations(epoch)
        rows = [
            self._reader.augmented_rows(
                self._trim(clip, sequence), self._augmentation, chance, durations[clip]
            )
            for clip, sequence, chance in zip(clips, self._clips.read(clips), chances, strict=True)
        ]
        return build_batch(list(take_rows(self._clips.targets, clips)), rows, self._pad)

    def _trim(self, clip: int, sequence: SourceSequence) -> SourceSequence:
        if not self._parts[clip].any():
            self._parts[clip] = self._reader.find_part(sequence)
        start, stop, is_turned = self._parts[clip].tolist()
        return self._reader.trim(sequence, (start, stop, bool(is_turned)))

    def _draw_durations(self, epoch: int) -> Sequence[float]:
        """Return the duration that chance gives each clip, 0 to 1, see `augment`."""
        drawn = np.random.default_rng([self._seed, epoch, len(self._clips), DURATION_STREAM])
        return array("d", drawn.random(len(self._clips)).tobytes())


class FixedBatches(Sequence[Batch]):
    """Unaugmented batches in order of length, for dev loss; built when first asked for."""

    def __init__(
        self, clips: Clips, features: FeatureOptions, *, max_frames: int, pad: int
    ) -> None:
        """Plan the batches; arguments as for `TrainingBatches`."""
        self._clips, self._pad, self._reader = clips, pad, clips.source.reader(features)
        self._groups = group_by_length(self._reader.lengths(clips), max_frames, None)
        clip_count = 50_000_000 // (max_frames * self._reader.width)  # batches of 200 MB
        self._built = functools.lru_cache(maxsize=clip_count)(self._build)

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...

    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        """Build a batch, or several."""
        if isinstance(index, slice):
            return [self._built(tuple(group)) for group in self._groups[index]]
        return self._built(tuple(self._groups[index]))

    def _build(self, group: tuple[int, ...]) -> Batch:
        rows = [self._reader.rows(clip) for clip in self._clips.read(group)]
        return build_batch(list(take_rows(self._clips.targets, group)), rows, self._pad)
