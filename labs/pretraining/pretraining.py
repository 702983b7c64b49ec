"""Pretraining without sentences: the encoder guesses the landmarks that are hidden from it.

In spans of each clip a hand, or the whole frame, is set to 0, as if it had not been found. From
the memory a linear layer guesses what was there: the features, where a landmark is present, and
whether it is. Loop, snapshots, optimiser and batches are those of every training.

Source: masked spans of speech, Baevski et al. (2020), "wav2vec 2.0"; hidden joints of signing
hands, Hu et al. (2021), "SignBERT". Shape letters: B clips, S source frames, F features, V values
(features that are neither changes nor presence), G presence bits.
"""

import functools
import hashlib
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn import functional

from labs.pretraining.start import PRETRAINED, without_text_model
from signloom.checkpoint import Checkpoint
from signloom.config import Natural, Positive, Share, checked_dataclass
from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.corpus.shards import shards_metadata
from signloom.errors import UserError
from signloom.features.augment import AugmentOptions
from signloom.features.batches import Batch, EpochBatches, FixedBatches
from signloom.features.features import HANDS, FeatureOptions, FloatArray, feature_names, has_choice
from signloom.features.sources import Clips, LandmarkSource, SourceSequence, StoredLandmarks
from signloom.features.targets import Target, read_targets
from signloom.files import hash_folder
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.devices import open_devices
from signloom.training.loop import Counts, EpochRecord, Fit, Losses, Objective, StepReport, Trainer
from signloom.training.options import TrainOptions
from signloom.training.run import RunOptions, check_run, prepare
from signloom.training.snapshots import Snapshots

HIDING_STREAM = 3  # extra seed number: what is hidden is drawn apart from augmentation
MEASURED = 256  # train clips by which values are brought to one size
LEAST_SCALE = 0.01  # of a value that hardly moves, shoulder widths
logger = logging.getLogger(__name__)


@checked_dataclass
class PretrainOptions:
    """The section `pretrain` of params.yaml."""

    epochs: Natural  # at most; 0: no pretraining
    corpora: Path  # folder: of every `shards` below it the clips are read beside the train clips
    mask_share: Share  # of the frames, in which a hand or everything is hidden
    span_s: Positive  # of hidden frames, seconds


def pretraining_options(options: RunOptions, own: PretrainOptions) -> RunOptions:
    """Return the options of the pretraining before a training: one seed, from scratch, no text."""
    seeds = [options.train.seed]
    section = replace(options.train, epochs=own.epochs, seeds=seeds, start_from="", ctc_weight=0.0)
    return replace(options, model=without_text_model(options.model), train=section)


@dataclass(frozen=True, kw_only=True)
class MixedSource(LandmarkSource):
    """Landmarks of any layout, as features of this one; what a layout lacks is 0, as if absent."""

    def rows(self, sequence: SourceSequence, features: FeatureOptions) -> FloatArray:
        """Return the features, shape (S, F)."""
        layout = self._check(sequence).layout
        own = shared_features(features, layout)
        return self._place(super().rows(sequence, own), feature_names(own, layout), features)

    def augmented_rows(
        self,
        sequence: SourceSequence,
        features: FeatureOptions,
        augmentation: AugmentOptions,
        generator: np.random.Generator,
        duration: float | None = None,
    ) -> FloatArray:
        """Return features of augmented landmarks."""
        layout = self._check(sequence).layout
        own = shared_features(features, layout)
        rows = super().augmented_rows(sequence, own, augmentation, generator, duration)
        return self._place(rows, feature_names(own, layout), features)

    def _check(self, sequence: SourceSequence) -> LandmarkSequence:
        assert isinstance(sequence, LandmarkSequence)
        return sequence

    def _place(
        self, rows: FloatArray, names: tuple[str, ...], features: FeatureOptions
    ) -> FloatArray:
        wanted = feature_names(features, self.layout)
        if names == wanted:
            return rows
        matrix = np.zeros((len(rows), len(wanted)), dtype=np.float32)
        there, here = _same_columns(wanted, names)
        matrix[:, there] = rows[:, here]
        return matrix


@functools.lru_cache(maxsize=64)
def _same_columns(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Return where the names that both have stand in each."""
    shared = sorted({*names} & {*others})
    return [names.index(name) for name in shared], [others.index(name) for name in shared]


def shared_features(features: FeatureOptions, layout: Layout) -> FeatureOptions:
    """Return the options with those groups alone that a layout has.

    Raises:
        UserError: If it has none of them.
    """
    groups = tuple(name for name in features.groups if has_choice(layout, name))
    if not groups:
        raise UserError(
            f"the landmarks have {', '.join(layout.group_names)}, but features.groups asks for "
            f"{', '.join(features.groups)}"
        )
    return replace(features, groups=groups)


def find_corpora(folder: Path) -> list[Path]:
    """Return the folders named `shards` below a folder, sorted.

    Raises:
        UserError: If there is none.
    """
    files = folder.rglob("*.parquet")
    found = sorted({path.parent for path in files if path.parent.name == "shards"})
    if not found:
        raise UserError(
            f"pretrain.corpora: {folder} has no folder `shards` of landmarks below it; name the "
            "folder of a corpus that `signloom import` made, or one with several of them"
        )
    return found


def load_pretraining(
    files: TrainingFiles, options: RunOptions, own: PretrainOptions
) -> TrainingData:
    """Read the train clips and those of the other corpora, and the dev clips.

    Clips named like one of this corpus are left out of the others: they are train clips, which are
    there, or dev and test clips, which nothing may be learnt from.

    Raises:
        UserError: If a file is missing or damaged, a corpus has none of the groups of landmarks, or
            the model reads no landmarks.
    """
    if options.model.source != "landmarks":
        raise UserError(
            f"pretrain.epochs is {own.epochs}, but model.source is {options.model.source}: only "
            "models of landmarks are pretrained; set pretrain.epochs: 0"
        )
    folders = find_corpora(own.corpora)
    cache_mb = options.train.cache_mb // (len(folders) + 1)
    data = files.load(cache_mb=cache_mb)
    assert isinstance(data.source, LandmarkSource)
    source = MixedSource(layout=data.source.layout, extractor=data.source.extractor)
    known = {target.clip_id for target in read_targets(files.targets)}
    parts = [data.train]
    for folder in folders:
        layout = shards_metadata(folder).layout
        try:
            shared_features(options.features, layout)
        except UserError as error:
            raise UserError(f"pretrain.corpora: {folder}: {error}; take it out of there") from None
        stored = StoredLandmarks(folder, replace(source, layout=layout), cache_mb=cache_mb)
        ids = sorted(stored.frames.keys() - known)
        left = len(stored.frames) - len(ids)
        logger.info("%s: %d clips, %d are named like clips of the corpus", folder, len(ids), left)
        stored.keep(ids)
        nothing = Target(
            clip_id="", split="train", signer="", text="", gloss="", labels=[],
            ids=[data.tokenizer.bos, data.tokenizer.eos],
        )  # fmt: skip
        named = replace(nothing, corpus=folder.as_posix())
        parts.append(stored.clips([replace(named, clip_id=clip_id) for clip_id in ids]))
    return replace(data, train=join_clips(parts, source), dev=replace(data.dev, source=source))


def hash_corpora(own: PretrainOptions) -> str:
    """Return a hash of what pretraining reads beside the corpus."""
    hashes = [hash_folder(folder) for folder in find_corpora(own.corpora)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def join_clips(parts: Sequence[Clips], source: LandmarkSource) -> Clips:
    """Return the clips of several corpora, one after the other."""
    places = [(part, number) for part in parts for number in range(len(part))]

    def read(numbers: Sequence[int]) -> list[SourceSequence]:
        found: dict[int, SourceSequence] = {}
        for part in parts:
            own = [number for number in numbers if places[number][0] is part]
            read_here = part.read([places[number][1] for number in own]) if own else []
            found.update(zip(own, read_here, strict=True))
        return [found[number] for number in numbers]

    return Clips(
        targets=[*itertools.chain(*(part.targets for part in parts))],
        frames=[*itertools.chain(*(part.frames for part in parts))],
        fps=[*itertools.chain(*(part.fps for part in parts))],
        source=source,
        read=read,
    )


@dataclass(frozen=True, slots=True, eq=False)
class MaskedBatch(Batch):
    """A batch in whose source something is hidden."""

    whole: Float[Tensor, "B S F"]  # the source before
    hidden: Bool[Tensor, "B S F"]  # True = hidden


class Mask:
    """Hides spans of a hand or of everything."""

    def __init__(self, names: Sequence[str], features: FeatureOptions, own: PretrainOptions):
        """Take the names of the features, as `feature_names` gives them."""
        self.span = max(1, round(own.span_s * features.fps))
        self.share = own.mask_share
        parts = [name.rpartition(" ") for name in names]  # `1 left_hand.wrist.x` is a change
        orders = np.array([int(order or 0) for order, _, _ in parts])
        is_presence = np.array([name.endswith(".present") for name in names])
        self.values = np.flatnonzero((orders == 0) & ~is_presence)
        self.presence = np.flatnonzero(is_presence)
        kinds = [[name.startswith(f"{hand}.") for _, _, name in parts] for hand in HANDS]
        # A change still shows what was hidden until as many frames later as its order.
        self._kinds = [
            [(order, np.flatnonzero(np.array(kind) & (orders == order))) for order in range(3)]
            for kind in (*(kind for kind in kinds if any(kind)), [True] * len(names))
        ]

    def hide(self, batch: Batch, chances: Sequence[np.random.Generator]) -> MaskedBatch:
        """Return the batch with spans hidden, as the generator of each clip draws them."""
        hidden = np.zeros(batch.src.shape, dtype=np.bool_)
        for row, frames, chance in zip(
            hidden, batch.src_valid.sum(1).tolist(), chances, strict=True
        ):
            for _ in range(max(1, round(self.share * frames / self.span))):
                start = int(chance.integers(max(1, frames - self.span + 1)))
                for order, columns in self._kinds[int(chance.integers(len(self._kinds)))]:
                    row[start : min(frames, start + self.span + order), columns] = True
        mask = torch.from_numpy(hidden)
        given = {field.name: getattr(batch, field.name) for field in fields(batch)}
        given["src"] = batch.src.masked_fill(mask, 0.0)
        return MaskedBatch(**given, whole=batch.src, hidden=mask)


class MaskedBatches(EpochBatches):
    """Batches of training, in each of which something else is hidden."""

    def __init__(self, source: EpochBatches, mask: Mask, seed: int) -> None:
        """Take the batches and what hides."""
        self._source, self._mask, self._seed = source, mask, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the clips of each batch."""
        return self._source.plan(epoch)

    def lengths(self, epoch: int) -> list[int]:
        """Return how long each clip will be."""
        return self._source.lengths(epoch)

    def build(self, epoch: int, clips: Sequence[int]) -> MaskedBatch:
        """Return some clips with spans hidden that follow from epoch and clip."""
        seeds = [[self._seed, epoch, clip, HIDING_STREAM] for clip in clips]
        return self._mask.hide(
            self._source.build(epoch, clips), [*map(np.random.default_rng, seeds)]
        )


class MaskedDev(FixedBatches):
    """Dev batches in which always the same is hidden."""

    mask: Mask

    def _build(self, group: Sequence[int]) -> MaskedBatch:
        chances = [np.random.default_rng([0, clip, HIDING_STREAM]) for clip in group]
        return self.mask.hide(super()._build(group), chances)


class MaskedModel(nn.Module):
    """An encoder, and the layer that guesses the frames around each position of its memory."""

    def __init__(self, seq2seq: Seq2Seq, options: ModelOptions, width: int) -> None:
        """Take the model, what it is made of, and how many numbers of a frame are guessed."""
        super().__init__()
        self.seq2seq, self._width = seq2seq, width
        self.guess = nn.Linear(options.d_model, options.subsampling * width)

    def forward(
        self, src: Float[Tensor, "B S F"], src_valid: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S VG"]:
        """Return the guessed values and the logits of presence of every frame."""
        states = self.seq2seq.encode(src, src_valid).states
        return self.guess(states).view(len(src), -1, self._width)[:, : src.shape[1]]


class MaskedLoss(Objective):
    """How far the guesses of what is hidden are off: values, and presence.

    Of a value the smooth absolute difference (Huber's, which does not follow outliers), in its
    standard deviations; of presence cross entropy. A value that is exactly 0 is absent, or says
    nothing (a wrist relative to itself), and counts nothing.
    """

    centre: Tensor
    scale: Tensor
    values: Tensor
    presence: Tensor

    def __init__(
        self, model: MaskedModel, options: TrainOptions, mask: Mask, size: dict[str, FloatArray]
    ) -> None:
        """Take the model, how it is trained, what is guessed and its mean and scale, (V,) each."""
        super().__init__()
        self.model, self.options = model, options
        columns = {"values": mask.values, "presence": mask.presence}
        for name, array in {**columns, **size}.items():
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def forward(self, batch: Batch, rows: Int[Tensor, " N"]) -> Losses:
        """Return the losses of a part of a batch."""
        values, truth, logits, bits = self._compare(batch)
        presence = functional.binary_cross_entropy_with_logits(logits, bits, reduction="sum")
        return Losses(functional.smooth_l1_loss(values, truth, reduction="sum"), presence)

    def count(self, batch: Batch) -> Float[Tensor, " 5"]:
        """Count hidden values as tokens, hidden presence bits as labels."""
        assert isinstance(batch, MaskedBatch)
        values, presence = self._hidden(batch, self.values.cpu(), self.presence.cpu())
        frames, padded = batch.src_valid.sum(), torch.tensor(batch.src_valid.numel())
        return torch.stack((values.sum(), presence.sum(), frames * 0, frames, padded)).double()

    def mean(self, losses: Losses, counts: Counts) -> Float[Tensor, ""]:
        """Return the share of a part in the sum of both mean losses."""
        values, bits = (torch.as_tensor(n).clamp(min=1).to(losses.text.dtype)
                        for n in (counts.tokens, counts.labels))  # fmt: skip
        return losses.text / values + losses.ctc / bits

    def score(self, batch: Batch, rows: Int[Tensor, " N"]) -> Float[Tensor, " 4"]:
        """Return the loss of the values, and how often presence is guessed right."""
        values, truth, logits, bits = self._compare(batch)
        right = ((logits > 0) == bits.bool()).sum()
        loss = functional.smooth_l1_loss(values, truth, reduction="sum")
        one, other = (loss.new_tensor(max(1, x.numel())) for x in (truth, bits))
        return torch.stack((loss, one, right, other)).double()

    def _compare(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what is hidden: guessed and true values, guessed and true presence."""
        assert isinstance(batch, MaskedBatch)
        guesses = self.model(batch.src, batch.src_valid).float()
        count = len(self.values)
        values, presence = self._hidden(batch, self.values, self.presence)
        whole = (batch.whole[..., self.values] - self.centre) / self.scale
        logits, bits = guesses[..., count:], batch.whole[..., self.presence]
        return guesses[..., :count][values], whole[values], logits[presence], bits[presence]

    def _hidden(
        self, batch: MaskedBatch, values: Tensor, presence: Tensor
    ) -> tuple[Bool[Tensor, "B S V"], Bool[Tensor, "B S G"]]:
        shown = batch.whole[..., values] != 0
        return batch.hidden[..., values] & shown, batch.hidden[..., presence]


def measure_values(
    clips: Clips, features: FeatureOptions, columns: npt.NDArray[np.int64]
) -> dict[str, FloatArray]:
    """Return mean and standard deviation of some features, where they are there, shape (V,) each.

    Of clips from all over the list, not augmented.
    """
    sums = np.zeros((3, len(columns)))
    for number in range(0, len(clips), math.ceil(len(clips) / MEASURED)):
        rows = clips.source.rows(clips.read([number])[0], features)[:, columns].astype(np.float64)
        sums += ((rows != 0).sum(0), rows.sum(0), (rows**2).sum(0))
    count = np.maximum(1, sums[0])
    mean = sums[1] / count
    scale = np.sqrt(np.maximum(0, sums[2] / count - mean**2))
    found = {"centre": mean, "scale": np.maximum(scale, LEAST_SCALE)}
    return {name: array.astype(np.float32) for name, array in found.items()}


def pretrain(
    data: TrainingData,
    options: RunOptions,
    *,
    own: PretrainOptions,
    provenance: dict[str, Any],
    log: Callable[[EpochRecord], None],
    watch: Callable[[StepReport], None] | None = None,
    fabric: Fabric | None = None,
    snapshots: Snapshots | None = None,
) -> tuple[Checkpoint, Fit]:
    """Train an encoder on clips without their sentences, as `train` does with them.

    `data` are those of `load_pretraining`, `options` those of `pretraining_options`; `own` says
    what is hidden.

    Returns:
        A whole model, of which only the encoder is trained, and how pretraining went: of the
        records `train_loss` and `dev_loss` are mean losses of a hidden value, `train_ctc_loss` that
        of presence, `dev_accuracy` the share of presence that is guessed right, `tokens` values.
    """
    hidden = {**asdict(own), "corpora": str(own.corpora)}
    check_run(data, options)
    checkpoint, source = prepare(data, options, provenance={**provenance, PRETRAINED: hidden})
    features, section = options.features, options.train
    assert isinstance(data.source, LandmarkSource)
    mask = Mask(feature_names(features, data.source.layout), features, own)
    model = MaskedModel(checkpoint.model, options.model, len(mask.values) + len(mask.presence))
    dev = MaskedDev(data.dev, features, max_frames=section.max_frames, pad=data.tokenizer.pad)
    dev.mask = mask
    trainer = Trainer(
        MaskedLoss(model, section, mask, measure_values(data.train, features, mask.values)),
        MaskedBatches(source, mask, section.seed),
        dev,
        fabric=fabric or open_devices(section),
        total_steps=section.epochs * source.steps,
        snapshots=snapshots,
    )
    result = trainer.fit(log, watch)
    model.load_state_dict(result.weights)
    checkpoint.model.eval()
    return checkpoint, result
