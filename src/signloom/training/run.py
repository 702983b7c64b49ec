"""Options and the clips of a corpus come in, a trained checkpoint with its history goes out."""

import itertools
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from signloom.checkpoint import Checkpoint, CheckpointSpec, build_from_spec
from signloom.config import UserError, load_section
from signloom.corpus.augment import AugmentOptions
from signloom.corpus.batches import FixedBatches, TrainingBatches
from signloom.corpus.clips import Clips
from signloom.corpus.features import FeatureOptions, check_groups, prepared_frames
from signloom.corpus.glosses import NO_GLOSSES, GlossVocabulary
from signloom.corpus.targets import NO_LABELS, CtcLabels
from signloom.corpus.tokenizer import Tokenizer
from signloom.models.seq2seq import ModelOptions
from signloom.training.devices import open_devices
from signloom.training.loop import fit, ignore
from signloom.training.options import TrainOptions
from signloom.training.records import EpochRecord, Fit, StepReport
from signloom.training.snapshots import Snapshots
from signloom.training.warm_start import warm_start
from signloom.translator import pick_device

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingData:
    """What every training run of a corpus reads."""

    train: Clips
    dev: Clips
    tokenizer: Tokenizer
    labels: CtcLabels  # empty where there are none
    extractor: dict[str, Any]  # from the shards: what found the landmarks
    glosses: GlossVocabulary = NO_GLOSSES  # what source ids mean, where the clips are of glosses


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


def from_scratch(options: RunOptions) -> RunOptions:
    """Return the options for models of any shape, which have no weights to start from."""
    return replace(options, train=replace(options.train, start_from=""))


def describe(options: RunOptions) -> str:
    """Return a name by which a person tells this run from others."""
    model, train = options.model, options.train
    return (
        f"{model.family} {model.encoder_layers}+{model.decoder_layers}x{model.d_model} "
        f"{model.norm}-norm lr {train.learning_rate:g} seed {', '.join(map(str, train.seeds))}"
    )


def train(
    data: TrainingData,
    options: RunOptions,
    *,
    provenance: dict[str, Any],
    log: Callable[[EpochRecord], None],
    watch: Callable[[StepReport], None] = ignore,
    fabric: Fabric | None = None,
    snapshots: Snapshots | None = None,
) -> tuple[Checkpoint, Fit]:
    """Train a model with the first seed.

    Args:
        data: The corpus.
        options: What to train and how.
        provenance: Written into the checkpoint as it is.
        log: Called after every epoch.
        watch: Called now and then within an epoch.
        fabric: The devices; None: those that the options name.
        snapshots: Where to go on from and to; None: training starts anew and leaves nothing.

    Returns:
        The checkpoint of the epoch with the lowest dev loss, and how training went.

    Raises:
        UserError: If CTC is asked for and there is nothing for it to spell, or memory is too short.
        DivergedError: If the loss becomes infinite or not a number.
    """
    checkpoint, source = prepare(data, options, provenance=provenance)
    pad, max_frames = data.tokenizer.pad, options.train.max_frames
    result = fit(
        checkpoint.model,
        source,
        FixedBatches(data.dev, options.features, max_frames=max_frames, pad=pad),
        options.train,
        fabric=fabric or open_devices(options.train),
        total_steps=options.train.epochs * source.steps,
        pad=pad,
        subsampling=options.model.subsampling,
        log=log,
        watch=watch,
        snapshots=snapshots,
    )
    checkpoint.model.load_state_dict(result.weights)
    checkpoint.model.eval()
    return checkpoint, result


def prepare(
    data: TrainingData, options: RunOptions, *, provenance: dict[str, Any]
) -> tuple[Checkpoint, TrainingBatches]:
    """Return the model to be trained, with all that it needs to translate, and its batches.

    Raises:
        UserError: If it cannot be trained, or not from the weights that it is to start from.
    """
    check_run(data, options)
    # Sums are made in another order by another number of threads.
    spec = describe_model(
        data, options, provenance={**provenance, "threads": torch.get_num_threads()}
    )
    seed_everything(options.train.seed)
    model = build_from_spec(spec, data.tokenizer)
    checkpoint = Checkpoint(spec=spec, model=model, tokenizer=data.tokenizer)
    if options.train.start_from:
        warm_start(checkpoint, Path(options.train.start_from), seed=options.train.seed)
    source = TrainingBatches(
        data.train,
        options.features,
        options.augment,
        max_frames=options.train.max_frames,
        pad=data.tokenizer.pad,
        seed=options.train.seed,
    )
    return checkpoint, source


def describe_model(
    data: TrainingData, options: RunOptions, *, provenance: dict[str, Any]
) -> CheckpointSpec:
    """Return what the checkpoint of a run will say of its model."""
    return CheckpointSpec(
        model=options.model,
        features=options.features,
        layout=data.train.layout,
        extractor=data.extractor,
        ctc=data.labels if options.train.ctc_weight else NO_LABELS,
        provenance=provenance,
        glosses=data.glosses,
    )


def check_run(data: TrainingData, options: RunOptions) -> None:
    """Refuse what cannot be trained, before anything is built.

    Raises:
        UserError: If a GPU is asked for that is not there, another source than the clips have,
            features that they lack, or CTC without anything to spell.
    """
    pick_device(options.train.device)
    if (options.model.source == "tokens") != data.train.are_glosses:
        there = "glosses" if data.train.are_glosses else "landmarks"
        raise UserError(
            f"model.source is {options.model.source}, but the clips were read as {there}; a search "
            "cannot vary model.source, set it in params.yaml"
        )
    if data.train.are_glosses:
        _check_glosses(options)
        return
    check_groups(options.features, data.train.layout)
    if not options.train.ctc_weight:
        return
    if not data.labels:
        raise UserError(
            f"train.ctc_weight is {options.train.ctc_weight}, but no train clip has CTC labels; "
            "with tokenize_targets.ctc: glosses the manifest needs a gloss column, with none there "
            "are no labels; choose characters, or set train.ctc_weight: 0"
        )
    _check_room(data, options)


def _check_glosses(options: RunOptions) -> None:
    """Refuse what makes no sense for a model of glosses.

    Raises:
        UserError: If anything does not; all of it in one message.
    """
    problems = []
    if options.train.ctc_weight:
        problems.append(
            f"train.ctc_weight is {options.train.ctc_weight}, but CTC spells what is signed, which "
            "here is the source itself; set it to 0"
        )
    if options.model.subsampling > 1:
        problems.append(
            f"model.subsampling is {options.model.subsampling}, but glosses are no frames of which "
            "some could be left out; set it to 1"
        )
    if problems:
        raise UserError("model.source is tokens: " + "\n".join(problems))


def _check_room(data: TrainingData, options: RunOptions) -> None:
    """Say how many train clips have more CTC labels than the encoder has positions for them.

    Raises:
        UserError: If all of them have.
    """
    train = data.train
    spelt = [number for number, target in enumerate(train.targets) if target.labels]
    crowded = 0
    for number in spelt:
        labels = train.targets[number].labels
        repeats = sum(one == other for one, other in itertools.pairwise(labels))
        frames = prepared_frames(train.frames[number], train.fps[number], options.features)
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
