"""Options, landmarks and targets come in, a trained checkpoint with its history goes out."""

import itertools
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from signloom.checkpoint import Checkpoint, CheckpointSpec, build_from_spec
from signloom.config import UserError, load_section
from signloom.corpus.augment import AugmentOptions
from signloom.corpus.batches import (
    Example,
    fixed_batches,
    group_by_length,
    training_batches,
)
from signloom.corpus.features import FeatureOptions, check_groups
from signloom.corpus.targets import NO_LABELS, CtcLabels
from signloom.corpus.tokenizer import Tokenizer
from signloom.models.seq2seq import ModelOptions
from signloom.training.loop import EpochRecord, Fit, TrainOptions, fit
from signloom.translator import pick_device

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingData:
    """What every training run of a corpus reads."""

    train: Sequence[Example]
    dev: Sequence[Example]
    tokenizer: Tokenizer
    labels: CtcLabels  # empty where there are none
    extractor: dict[str, Any]  # from the shards: what found the landmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The sections of params.yaml that decide the weights."""

    features: FeatureOptions
    augment: AugmentOptions
    model: ModelOptions
    train: TrainOptions


def read_run_options(params: Path) -> RunOptions:
    """Read the sections of a parameters file that decide the weights.

    Raises:
        UserError: If one of them is missing or wrong.
    """
    return RunOptions(
        features=load_section(params, "features", FeatureOptions),
        augment=load_section(params, "augment", AugmentOptions),
        model=load_section(params, "model", ModelOptions),
        train=load_section(params, "train", TrainOptions),
    )


def describe(options: RunOptions) -> str:
    """Return a name by which a person tells this run from others."""
    model, train = options.model, options.train
    return (
        f"{model.family} {model.encoder_layers}+{model.decoder_layers}x{model.d_model} "
        f"{model.norm}-norm lr {train.learning_rate:g} seed {train.seed}"
    )


def train(
    data: TrainingData,
    options: RunOptions,
    *,
    provenance: dict[str, Any],
    log: Callable[[EpochRecord], None],
) -> tuple[Checkpoint, Fit]:
    """Train a model.

    Args:
        data: The corpus.
        options: What to train and how.
        provenance: Written into the checkpoint as it is.
        log: Called after every epoch.

    Returns:
        The checkpoint of the epoch with the lowest dev loss, and how training went.

    Raises:
        UserError: If CTC is asked for and there is nothing for it to spell.
        DivergedError: If the loss becomes infinite or not a number.
    """
    check_run(data, options)
    spec = CheckpointSpec(
        model=options.model,
        features=options.features,
        layout=data.train[0].sequence.layout,
        extractor=data.extractor,
        ctc=data.labels if options.train.ctc_weight else NO_LABELS,
        # Sums are made in another order by another number of threads.
        provenance={**provenance, "threads": torch.get_num_threads()},
    )
    seed_everything(options.train.seed)
    model = build_from_spec(spec, data.tokenizer)
    pad, max_frames = data.tokenizer.pad, options.train.max_frames
    result = fit(
        model,
        training_batches(
            data.train,
            options.features,
            options.augment,
            max_frames=max_frames,
            pad=pad,
            seed=options.train.seed,
        ),
        fixed_batches(data.dev, options.features, max_frames=max_frames, pad=pad),
        options.train,
        device=pick_device(options.train.device),
        total_steps=options.train.epochs * _steps_per_epoch(data.train, options),
        pad=pad,
        log=log,
    )
    model.load_state_dict(result.weights)
    model.eval()
    return Checkpoint(spec=spec, model=model, tokenizer=data.tokenizer), result


def check_run(data: TrainingData, options: RunOptions) -> None:
    """Refuse what cannot be trained, before anything is built.

    Raises:
        UserError: If a GPU is asked for that is not there, another source than landmarks, features
            that they lack, or CTC without anything to spell.
    """
    pick_device(options.train.device)
    check_groups(options.features, data.train[0].sequence.layout)
    if options.model.source != "landmarks":
        raise UserError(
            f"model.source is {options.model.source}, but the pipeline trains on landmarks; set "
            "model.source: landmarks (`signloom task` trains on tokens)"
        )
    if not options.train.ctc_weight:
        return
    if not data.labels:
        raise UserError(
            f"train.ctc_weight is {options.train.ctc_weight}, but no train clip has CTC labels; "
            "with tokenize_targets.ctc: glosses the manifest needs a gloss column, with none there "
            "are no labels; choose characters, or set train.ctc_weight: 0"
        )
    _check_room(data, options)


def _check_room(data: TrainingData, options: RunOptions) -> None:
    """Say how many train clips have more CTC labels than the encoder has positions for them.

    Raises:
        UserError: If all of them have.
    """
    spelt = [example for example in data.train if example.target.labels]
    crowded = 0
    for example in spelt:
        labels = example.target.labels
        repeats = sum(one == other for one, other in itertools.pairwise(labels))
        frames = max(1, round(example.sequence.seconds * options.features.fps))
        crowded += len(labels) + repeats > math.ceil(frames / options.model.subsampling)
    if not crowded:
        return
    found = (
        f"{crowded} of {len(spelt)} train clips have more CTC labels than memory positions "
        "(seconds x features.fps / model.subsampling)"
    )
    mend = "lower model.subsampling or raise features.fps"
    if crowded == len(spelt):
        raise UserError(f"{found}, so train.ctc_weight teaches nothing; {mend}, or set it to 0")
    logger.warning("%s: they are left out of the CTC loss; %s", found, mend)


def seed_everything(seed: int) -> None:
    """Seed torch and make it refuse operations whose result depends on timing.

    Our own randomness takes explicit generators; this is for what torch draws by itself
    (initial weights, dropout). Call it before the model is built.
    """
    # Needed by cuBLAS for reproducible matrix products; harmless elsewhere.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)


def _steps_per_epoch(examples: Sequence[Example], options: RunOptions) -> int:
    """Return the batches of an epoch, give or take the disorder of lengths."""
    lengths = [max(1, round(e.sequence.seconds * options.features.fps)) for e in examples]
    return len(group_by_length(lengths, options.train.max_frames, None))
