"""Clips as long as those of real corpora, drawn from a seed: what the training benches run on."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.features.augment import AugmentOptions
from signloom.features.batches import Batch, EpochBatches
from signloom.features.features import FeatureOptions
from signloom.features.sources import Clips
from signloom.features.targets import Target
from signloom.models.seq2seq import ModelOptions
from signloom.training.options import TrainOptions
from tests import tiny
from tests.tiny import hold_clips

FPS = 25.0
# The 126 numbers of document 000: both hands, three coordinates each.
FEATURES = FeatureOptions(
    fps=FPS,
    groups=("hands",),
    normalise="picture",
    hand_origin="body",
    differences=0,
    presence=False,
    max_gap_s=0.0,
)
FEATURE_WIDTH = 126
NO_AUGMENT: AugmentOptions = tiny.NO_AUGMENT
BOS, EOS, PAD = 1, 2, 0

# Document 000: post norm, no bias in the projections, nothing scaled, nothing tied.
DOCUMENT = ModelOptions(
    family="transformer",
    source="landmarks",
    d_model=512,
    heads=8,
    encoder_layers=6,
    decoder_layers=6,
    d_ff=2048,
    dropout=0.1,
    layer_drop=0.0,
    norm="post",
    decoder_norm=False,
    activation="gelu",
    attention_bias=False,
    positions="sinusoidal",
    causal_encoder=False,
    embedding_scale=False,
    tied_embeddings=False,
    initialization="torch",
    subsampling=1,
    conv_kernel=15,
    bidirectional=True,
    attention="general",
)
RECIPE = dataclasses.replace(
    DOCUMENT,
    norm="pre",
    decoder_norm=True,
    attention_bias=True,
    embedding_scale=True,
    initialization="xavier",
    subsampling=4,
)
TRAIN = TrainOptions(
    seeds=[1],
    start_from="",
    device="cpu",
    precision="float32",
    epochs=1,
    patience=1,
    max_frames=1_500,
    accumulate=1,
    cache_mb=4_000,
    snapshot_s=1e9,
    optimizer="adamw",
    learning_rate=1e-4,
    schedule="constant",
    warmup_steps=1,
    weight_decay=0.0,
    label_smoothing=0.0,
    ctc_weight=0.0,
    token_drop=0.0,
)


def draw_lengths(count: int, seed: int) -> list[int]:
    """Return log-normal numbers of frames, 30 to 250, of 90 in the mean."""
    drawn = np.exp(np.random.default_rng(seed).normal(4.4, 0.5, count))
    return drawn.astype(int).clip(30, 250).tolist()


def draw_sequence(frames: int, seed: int) -> LandmarkSequence:
    """Return a signer whose hands wander; the left one is away for a while."""
    generator = np.random.default_rng(seed)
    points = np.empty((frames, HANDS_POSE.points, 3), dtype=np.float32)
    path = np.cumsum(generator.normal(0, 0.01, (frames, 1, 3)), axis=0)
    points[:] = generator.uniform(0.3, 0.7, (1, HANDS_POSE.points, 3)) + path
    points[:, HANDS_POSE.index("pose", "left_shoulder")] = (0.62, 0.45, 0)
    points[:, HANDS_POSE.index("pose", "right_shoulder")] = (0.38, 0.45, 0)
    present = np.ones((frames, len(HANDS_POSE.groups)), dtype=np.bool_)
    lost = slice(frames // 2, frames // 2 + frames // 10)
    points[lost, HANDS_POSE.slice("left_hand")] = np.nan
    present[lost, HANDS_POSE.group("left_hand")] = False
    # As shards have them.
    halves = points.astype(np.float16).astype(np.float32)
    return LandmarkSequence(points=halves, present=present, fps=FPS, width=320, height=240)


def draw_target(number: int, vocab_size: int, *, split: str = "train") -> Target:
    """Return a sentence of 14 to 34 tokens."""
    generator = np.random.default_rng([number, vocab_size])
    words = generator.integers(3, vocab_size, generator.integers(12, 33)).tolist()
    return Target(
        clip_id=f"{split}-{number:06d}",
        split=split,
        signer=split,
        text="",
        ids=[BOS, *words, EOS],
        gloss="",
        labels=[],
    )


def draw_clips(count: int, seed: int, vocab_size: int) -> Clips:
    """Return clips in memory."""
    lengths = draw_lengths(count, seed)
    return hold_clips(
        [
            tiny.Example(draw_target(number, vocab_size), draw_sequence(frames, number))
            for number, frames in enumerate(lengths)
        ]
    )


class SampledBatches(EpochBatches):
    """Some batches of another source's epoch, evenly spread over their lengths.

    An epoch of few clips would have to pad too much, one of many takes too long.
    """

    def __init__(self, source: EpochBatches, batches: int) -> None:
        self.source, self.batches = source, batches

    def plan(self, epoch: int) -> list[list[int]]:
        lengths = self.source.lengths(epoch)
        plan = sorted(self.source.plan(epoch), key=lambda g: max(lengths[clip] for clip in g))
        share = len(plan) / self.batches
        return [plan[int((number + 0.5) * share)] for number in range(self.batches)]

    def lengths(self, epoch: int) -> list[int]:
        return self.source.lengths(epoch)

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        return self.source.build(epoch, clips)

    def frames(self, epoch: int) -> int:
        """Return the real frames of the sample."""
        lengths = self.lengths(epoch)
        return sum(lengths[clip] for clips in self.plan(epoch) for clip in clips)


class BuiltBatches(EpochBatches):
    """Another source's batches, made before the clock runs."""

    def __init__(self, source: EpochBatches, epoch: int) -> None:
        self.source = source
        self.batches = {tuple(clips): source.build(epoch, clips) for clips in source.plan(epoch)}

    def plan(self, epoch: int) -> list[list[int]]:
        return [list(clips) for clips in self.batches]

    def lengths(self, epoch: int) -> list[int]:
        return self.source.lengths(epoch)

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        return self.batches[tuple(clips)]
