"""Training steps beside document 000's loop: real frames a CPU-second, and peak memory.

Batches of 16 clips, 30 to 250 frames (log-normal), 14 to 34 tokens, one thread. The documents pad
every clip to 250 frames; the project's variants train with its own `Trainer`, from landmarks to
updated weights, on 4 batches spread over the lengths of 512 clips. Each measurement has its own
process, variants take turns, figures are medians of the rounds. Memory is the process's peak beyond
what its imports take, weights and optimiser included. A step of the document takes 6 to 28 CPU-s
and 6 GB.
"""

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from signloom.features.batches import FixedBatches, TrainingBatches, pad_ids
from signloom.features.features import compute_features
from signloom.features.sources import Clips
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from signloom.training.loop import BatchLoss, Trainer
from signloom.training.options import TrainOptions
from signloom.training.parallel import has_bfloat16, open_devices
from signloom.training.train import seed_everything
from tests.bench.document_000 import DROPOUT, LONGEST, SIZES, VOCABULARY, Document000, build_loop
from tests.bench.figures import Figure, in_new_process
from tests.bench.synthetic import (
    DOCUMENT,
    FEATURE_WIDTH,
    FEATURES,
    NO_AUGMENT,
    PAD,
    RECIPE,
    TRAIN,
    SampledBatches,
    draw_clips,
)
from tests.tiny import hold_clips

CLIPS, BATCH, SAMPLE, PRUNED = 512, 16, 4, 3_000
ROUNDS = 2


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way of training."""

    text: str
    measure: Callable[[], tuple[float, float]]  # real frames, CPU seconds
    least_speed: float | None = None  # wanted, times the document's
    most_memory: float | None = None  # wanted, share of the document's


PRECISION = "bfloat16" if has_bfloat16() else "float32"
TRAIN_FAST = dataclasses.replace(TRAIN, precision=PRECISION, label_smoothing=0.1)
TIED = dataclasses.replace(RECIPE, tied_embeddings=True)


def pad_all(clips: Clips) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return features, which frames are real, and targets, all clips padded to 250 frames."""
    src = torch.zeros(len(clips), LONGEST, FEATURE_WIDTH)
    valid = torch.zeros(len(clips), LONGEST, dtype=torch.bool)
    for row, example in enumerate(clips):
        matrix = compute_features(example.sequence, FEATURES)
        src[row, : len(matrix)] = torch.from_numpy(matrix)
        valid[row, : len(matrix)] = True
    tgt, _ = pad_ids([target.ids for target in clips.targets], PAD)
    return src, valid, tgt


def measure_loop(family: type[nn.Module]) -> tuple[float, float]:
    """Time one step of the plain loop; all its steps cost the same."""
    clips = draw_clips(CLIPS, 0, VOCABULARY)
    data = pad_all(hold_clips(clips[:BATCH]))
    model = family(FEATURE_WIDTH, VOCABULARY, dropout=DROPOUT, **SIZES)
    take_step = build_loop(model)
    take_step(*(part[:1] for part in data))  # makes the optimiser's state
    start = time.process_time()
    take_step(*data)
    seconds = time.process_time() - start
    return BATCH * sum(clips.frames) / len(clips), seconds


def measure_ours(
    model_options: ModelOptions,
    options: TrainOptions,
    vocab_size: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """Time some steps of the project's trainer."""
    clips = draw_clips(CLIPS, 0, vocab_size)
    options = dataclasses.replace(options, max_frames=BATCH * sum(clips.frames) // len(clips))
    seed_everything(1)
    model = build_model(
        model_options, input_width=FEATURE_WIDTH, vocab_size=vocab_size, ctc_labels=0
    )
    dev = FixedBatches(clips, FEATURES, max_frames=options.max_frames, pad=PAD)

    def sample(some: Clips, batches: int) -> SampledBatches:
        source = TrainingBatches(
            some, FEATURES, NO_AUGMENT, max_frames=options.max_frames, pad=PAD, seed=1
        )
        return SampledBatches(source, batches)

    first, source = sample(draw_clips(2, 1, vocab_size), 1), sample(clips, SAMPLE)
    trainer = Trainer(
        BatchLoss(model, options, pad=PAD, subsampling=model_options.subsampling),
        first,
        dev,
        fabric=open_devices(options),
        total_steps=100,
    )
    trainer.train_epoch()  # makes the optimiser's state
    trainer.source, trainer.progress.step = source, 0
    start = clock()
    trainer.train_epoch()
    return source.frames(1), clock() - start


VARIANTS = {
    "document": Variant("document 000, its loop", lambda: measure_loop(Document000)),
    "exact": Variant(
        "same mathematics, float32, pruned vocabulary",
        lambda: measure_ours(DOCUMENT, TRAIN, PRUNED),
        least_speed=3.5,
    ),
    "full": Variant(
        f"130,000 rows kept: tied head in chunks, stride-4 stem, {PRECISION}",
        lambda: measure_ours(TIED, TRAIN_FAST, VOCABULARY),
        least_speed=4.0,
        most_memory=0.5,
    ),
    "recipe": Variant(
        f"recommended: pre norm, stride-4 stem, pruned vocabulary, {PRECISION}",
        lambda: measure_ours(RECIPE, TRAIN_FAST, PRUNED),
        least_speed=15.0,
        most_memory=0.25,
    ),
}


def measure_one(name: str) -> tuple[float, float]:
    """Return real frames a CPU second, and the most memory beyond the imports', MB."""
    torch.set_num_threads(1)
    imports_mb = peak_mb()
    frames, seconds = VARIANTS[name].measure()
    return frames / seconds, peak_mb() - imports_mb


def peak_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure() -> list[Figure]:
    """Measure the variants in turn, each in a new process; medians of the ratios."""
    rounds = [{name: in_new_process(measure_one, name) for name in VARIANTS} for _ in range(ROUNDS)]
    figures = []
    for name, variant in VARIANTS.items():
        speed = statistics.median(trial[name][0] / trial["document"][0] for trial in rounds)
        memory = statistics.median(trial[name][1] / trial["document"][1] for trial in rounds)
        figures.append(Figure(f"{variant.text}, speed", speed, at_least=variant.least_speed))
        figures.append(Figure(f"{variant.text}, memory", memory, at_most=variant.most_memory))
    return figures
