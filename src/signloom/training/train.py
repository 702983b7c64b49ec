"""A training run: its options and what they forbid, the training of each seed, the results."""

import contextlib
import itertools
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import torch
from lightning_fabric import Fabric
from tqdm import tqdm

from signloom.checkpoint import (
    Checkpoint,
    CheckpointSpec,
    build_from_spec,
    check_source,
    save_checkpoint,
)
from signloom.config import checked_dataclass, load_section
from signloom.devices import peak_memory_mb, pick_device
from signloom.errors import UserError
from signloom.features.augment import AugmentOptions
from signloom.features.batches import FixedBatches, TrainingBatches, group_by_length
from signloom.features.features import FeatureOptions
from signloom.features.sources import Clips
from signloom.features.targets import NO_LABELS, Target
from signloom.files import to_sealed, write_file
from signloom.log import ONCE
from signloom.models.pretrained import TextModel
from signloom.models.registry import build_model, planned
from signloom.models.seq2seq import ModelOptions, check_family
from signloom.paths import HISTORY_NAME, START
from signloom.portable import is_portable
from signloom.progress import progress_file
from signloom.tables import read_columns
from signloom.training.data import TrainingData
from signloom.training.loop import BatchLoss, EpochRecord, Fit, StepReport, Trainer
from signloom.training.options import TrainOptions
from signloom.training.parallel import open_devices
from signloom.training.snapshots import Snapshots
from signloom.training.start_file import read_start
from signloom.training.warm_start import start_from_text_model, warm_start

SHOW_S = 0.3  # between two drawings of the bar
ESTIMATE_S, LONG_S = 20.0, 600.0  # of training after which its time is told, if it is so long
logger = logging.getLogger(__name__)


@checked_dataclass
class RunOptions:
    """The sections of params.yaml that decide the weights."""

    features: FeatureOptions
    augment: AugmentOptions
    model: ModelOptions
    train: TrainOptions


def read_run_options(params: Path) -> RunOptions:
    """Read what decides the weights: sections of a parameters file, and where a night starts from.

    Args:
        params: The parameters file. If a night wrote `data/start.yaml` next to it, that replaces
            `train.start_from`.

    Raises:
        UserError: If one of them is missing or wrong.
    """
    train = load_section(params, "train", TrainOptions)
    start = read_start(path := params.parent / START)
    if start is not None and start != train.start_from:
        logger.warning(
            "%s, which `signloom retrain` writes, replaces train.start_from (%s): training starts "
            "from %s; remove the file if that is not wanted",
            path,
            train.start_from or "scratch",
            start or "scratch",
            extra=ONCE,
        )
        train = replace(train, start_from=start)
    model = load_section(params, "model", ModelOptions)
    check_family(model, where=f"{params}: model")
    options = RunOptions(
        features=load_section(params, "features", FeatureOptions),
        augment=load_section(params, "augment", AugmentOptions),
        model=model,
        train=train,
    )
    check_without_decoder(options)
    return options


def check_without_decoder(options: RunOptions) -> None:
    """Raise a UserError where a model without a decoder lacks what the options ask of it."""
    if not options.model.decoder_layers and not options.train.ctc_weight:
        raise UserError(
            "model.decoder_layers: found 0 with train.ctc_weight 0, so that nothing writes a text; "
            "give the model a decoder, or, if it reads landmarks, set train.ctc_weight above 0"
        )
    if options.model.family == "encoder_only" and options.train.label_smoothing:
        logger.warning(
            "train.label_smoothing is %g, but encoder_only has no decoder whose targets it would "
            "smooth: it changes nothing",
            options.train.label_smoothing,
            extra=ONCE,
        )
    if options.train.consistency and not options.model.has_decoder:
        raise UserError(
            "train.consistency compares predictions of a decoder, and there is none; set it to 0"
        )


def from_scratch(options: RunOptions) -> RunOptions:
    """Return the options for models of any shape, which have no weights to start from."""
    return replace(options, train=replace(options.train, start_from=""))


def each_seed(options: RunOptions) -> list[RunOptions]:
    """Return the options of one training for each seed."""
    return [replace(options, train=replace(options.train, seeds=[s])) for s in options.train.seeds]


def deciding_options(options: RunOptions) -> dict[str, Any]:
    """Return the options that decide the weights.

    Options that only divide the work (device, parts of a batch, memory) are left out: they change
    nothing but rounding, and may change on resume.
    """
    values = asdict(options)
    for name in ("device", "accumulate", "cache_mb", "snapshot_s"):
        del values["train"][name]
    return values


def describe(options: RunOptions) -> str:
    """Return what tells this run from others, its parts with commas between them."""
    model, train = options.model, options.train
    return (
        f"d_model {model.d_model}, epochs {train.epochs}, {model.family} {model.encoder_layers}+"
        f"{model.decoder_layers}, {model.norm}-norm, learning_rate {train.learning_rate:g}, "
        f"seed {' '.join(map(str, train.seeds))}"
    )


def check_run(data: TrainingData, options: RunOptions) -> None:
    """Refuse what cannot be trained, before anything is built.

    Raises:
        UserError: If a GPU is asked for that is not there, another source than the clips have,
            features that they lack, or CTC without anything to spell.
    """
    pick_device(options.train.device)
    check_without_decoder(options)
    check_source(options.model, data.source)
    drawn = options.model.dropout, options.model.layer_drop, options.train.token_drop
    if options.train.consistency and not any(drawn):
        raise UserError(
            f"train.consistency is {options.train.consistency:g}, but its two passes are equal "
            "where model.dropout, model.layer_drop and train.token_drop are 0; set one of them, or "
            "set train.consistency to 0"
        )
    if not data.source.has_frames:
        check_glosses(options)
    reader = data.source.reader(options.features)  # refuses groups that there are not
    if options.train.ctc_weight and not data.labels:
        raise UserError(
            f"train.ctc_weight is {options.train.ctc_weight}, but no train clip has CTC labels; "
            "with tokenize_targets.ctc: glosses the manifest needs a gloss column, with none there "
            "are no labels; choose characters, or set train.ctc_weight: 0"
        )
    _check_room(data, options)
    check_warmup(reader.lengths(data.train), options.train)


def check_warmup(lengths: Sequence[int], options: TrainOptions) -> None:
    """Warn where training ends before the learning rate has risen.

    Args:
        lengths: Of the train clips, as batches count them.
        options: How training goes.
    """
    steps = len(group_by_length(lengths, options.max_frames, None))
    total = options.epochs * steps
    if (warmup := options.count_warmup(total)) > total:
        logger.warning(
            "train.warmup_steps is %s, and this training has %s steps (%d epochs of %d): the "
            "learning rate only rises, to %.0f %% of train.learning_rate. Write the warm-up as a "
            "share of the training, such as train.warmup_steps: 0.1",
            f"{warmup:,}",
            f"{total:,}",
            options.epochs,
            steps,
            100 * total / warmup,
            extra=ONCE,
        )


def check_glosses(options: RunOptions) -> None:
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
        raise UserError("model.source is glosses: " + "\n".join(problems))


def ctc_positions(labels: Sequence[int]) -> int:
    """Return how many positions CTC needs to spell labels: between equal ones stands a blank."""
    return len(labels) + sum(label == following for label, following in itertools.pairwise(labels))


def count_unwritable(
    targets: Sequence[Target], lengths: Sequence[int], options: RunOptions
) -> dict[str, tuple[int, int]]:
    """Return how many clips have more to spell by CTC than the encoder has positions for it.

    Args:
        lengths: Frames of each clip at the rate of the features, or tokens of its source.
        options: What spells: the CTC head, an encoder-only model, both or nothing.

    Returns:
        By what is spelt, the clips without room and the clips that spell anything.
    """
    columns = {}
    if options.train.ctc_weight:
        columns["CTC labels"] = "labels"
    if options.model.family == "encoder_only":
        columns["tokens"] = "ids"
    counts = {}
    for name, column in columns.items():
        without = spelling = 0
        for (ids,), length in zip(read_columns(targets, column), lengths, strict=True):
            labels = ids if column == "labels" else ids[1:-1]
            without += ctc_positions(labels) > math.ceil(length / options.model.subsampling)
            spelling += bool(labels)
        counts[name] = (without, spelling)
    return counts


def _check_room(data: TrainingData, options: RunOptions) -> None:
    """Say how many train clips have more to spell than the encoder has positions for it.

    Raises:
        UserError: If all of them have.
    """
    train, has_frames = data.train, data.source.has_frames
    lengths = data.source.reader(options.features).lengths(train) if has_frames else train.frames
    for name, (without, spelling) in count_unwritable(train.targets, lengths, options).items():
        if not without:
            continue
        problem = f"{without} of {spelling} train clips have more {name} than memory positions"
        hint = "choose another model.family"
        if has_frames:
            problem += " (seconds x features.fps / model.subsampling)"
            hint = "lower model.subsampling or raise features.fps"
        if name == "tokens":
            consequence = "an encoder_only model cannot write their sentences"
            hint += ", or choose another model.family" * has_frames
        else:
            consequence = "they are left out of the CTC loss"
        if without == spelling:
            off = ", or set it to 0" * (name != "tokens")
            key = "model.family: encoder_only" if name == "tokens" else "train.ctc_weight"
            raise UserError(f"{problem}, so {key} teaches nothing; {hint}{off}")
        logger.warning("%s: %s; %s", problem, consequence, hint, extra=ONCE)


def train(
    data: TrainingData,
    options: RunOptions,
    *,
    provenance: dict[str, Any],
    log: Callable[[EpochRecord], None],
    watch: Callable[[StepReport], None] | None = None,
    fabric: Fabric | None = None,
    snapshots: Snapshots | None = None,
    is_checked: bool = False,
) -> tuple[Checkpoint, Fit]:
    """Train a model with the first seed.

    Args:
        provenance: Written into the checkpoint as it is.
        log: Called after every epoch.
        watch: Called now and then within an epoch.
        fabric: The devices; None: those that the options name.
        snapshots: Where snapshots are read and written; None: training starts from the
            beginning and writes none.
        is_checked: Whether `check_run` has passed these options already.

    Returns:
        The checkpoint of the epoch with the lowest dev loss, and how training went.

    Raises:
        UserError: If CTC is asked for and there is nothing for it to spell, or memory is too short.
        DivergedError: If the loss becomes infinite or not a number.
    """
    if not is_checked:
        check_run(data, options)
    fabric = fabric or open_devices(options.train)
    if fabric.world_size > 1 and options.model.family == "convolution":
        raise UserError(
            f"model.family convolution trains on one device, found {fabric.world_size}: batch norm "
            "would know a part of each batch; start `python -m pipeline.train` without torchrun"
        )
    checkpoint, source = prepare(data, options, provenance=provenance)
    pad, max_frames = data.tokenizer.pad, options.train.max_frames
    subsampling = options.model.subsampling
    objective = BatchLoss(checkpoint.model, options.train, pad=pad, subsampling=subsampling)
    objective.is_pooled = data.labels.kind == "texts"
    trainer = Trainer(
        objective,
        source,
        FixedBatches(_scored_dev(data, options), options.features, max_frames=max_frames, pad=pad),
        fabric=fabric,
        total_steps=options.train.epochs * source.steps,
        snapshots=snapshots,
    )
    result = trainer.fit(log, watch)
    checkpoint.model.load_state_dict(result.weights)
    checkpoint.model.eval()
    return checkpoint, result


def _scored_dev(data: TrainingData, options: RunOptions) -> Clips:
    """Return dev, with the labels by which a model without a decoder is scored.

    Raises:
        UserError: If it has none, and is to say when training stops.
    """
    if options.model.decoder_layers:
        return data.dev
    labels = [data.labels.spell(target.text, target.gloss) for target in data.dev.targets]
    if not any(labels):
        problem = (
            "no dev clip consists of what CTC learns to read in train, so dev_loss says nothing"
        )
        if options.train.patience:
            raise UserError(f"{problem} and training would not stop; set train.patience to 0")
        logger.warning("%s; hold out clips of signs that train has", problem)
    pairs = zip(data.dev.targets, labels, strict=True)
    return replace(data.dev, targets=[replace(target, labels=spelt) for target, spelt in pairs])


def prepare(
    data: TrainingData, options: RunOptions, *, provenance: dict[str, Any]
) -> tuple[Checkpoint, TrainingBatches]:
    """Return the model to be trained, with all that it needs to translate, and its batches.

    Raises:
        UserError: If it cannot be trained from the weights that it is to start from.
    """
    # Sums are made in another order by another number of threads, and by other instructions.
    machine = {
        "precision": options.train.precision,
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "portable": is_portable(),
    }
    spec = describe_model(data, options, provenance={**provenance, **machine})
    seed_everything(options.train.seed)
    model = build_from_spec(spec, data.tokenizer)
    checkpoint = Checkpoint(spec=spec, model=model, tokenizer=data.tokenizer)
    if options.model.text_model:
        start_from_text_model(checkpoint)
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


def count_parameters(data: TrainingData, options: RunOptions) -> int:
    """Return the size of the model that training would build, without its memory."""
    with planned():
        model = build_model(
            options.model,
            input_width=data.source.reader(options.features).width,
            vocab_size=data.tokenizer.vocab_size,
            ctc_labels=len(data.labels) + 1 if options.train.ctc_weight else 0,
            eos=data.tokenizer.eos,
            is_shared=data.source.is_shared,
        )
    return sum(parameter.numel() for parameter in model.parameters())


def describe_model(
    data: TrainingData, options: RunOptions, *, provenance: dict[str, Any]
) -> CheckpointSpec:
    """Return what the checkpoint of a run will say of its model."""
    return CheckpointSpec(
        model=options.model,
        features=options.features,
        source=data.source,
        ctc=data.labels if options.train.ctc_weight else NO_LABELS,
        provenance=provenance,
        text_model=TextModel.read(Path(options.model.text_model))
        if options.model.text_model
        else None,
    )


def seed_everything(seed: int) -> None:
    """Seed torch and make it refuse operations whose result depends on timing.

    Our own randomness takes explicit generators; this is for what torch draws by itself
    (initial weights, dropout). Call it before the model is built.
    """
    # Needed by cuBLAS for reproducible matrix products; harmless elsewhere.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # It would also write NaN into all new memory. Nothing here reads what it has not written: with
    # and without the NaN training gives the same bytes (tests/unit/training/test_training.py).
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingResult:
    """What training with one seed gave."""

    seed: int
    checkpoint: Checkpoint
    fit: Fit


class TrainingBar:
    """A line that says how training goes: epoch, loss, rate, speed, padding, memory, time left.

    Time left is that of all epochs that are allowed; early stopping may need fewer.
    """

    def __init__(self, epochs: int, fabric: Fabric, seed: int) -> None:
        """Take how many epochs there are at most, and the devices: the first shows the bar."""
        self._device, self._dev, self._epochs = fabric.device, "", epochs
        self._bar = tqdm(
            total=epochs,
            desc=f"train, seed {seed}",
            unit="epoch",
            mininterval=0.3,
            disable=not fabric.is_global_zero,
            file=progress_file(),
            bar_format="{desc} {percentage:3.0f}%|{bar:10}| {elapsed}<{remaining}{postfix}",
        )
        self._start: StepReport | None = None  # of this epoch, in this process
        self._start_s = self._shown_s = 0.0
        self._first_s = 0.0  # when training began or went on; 0 once its time was estimated

    def watch(self, report: StepReport) -> None:
        """Show how far an epoch is."""
        epochs = report.epoch - 1 + round(report.step / report.steps, 3)
        if self._start is None:
            self._start, self._start_s = report, time.monotonic()
            if not self._bar.n:
                self._bar.initial = self._bar.n = epochs  # training went on from there
                self._first_s = self._start_s
            return
        step = f"step {report.step}/{report.steps}: "
        self._show(epochs, step, report.loss, report, self._speed(report))

    def end_epoch(self, record: EpochRecord) -> dict[str, float]:
        """Show the end of an epoch; return its speed (with dev and all) and memory."""
        self._dev = f" (dev {record.dev_loss:.3f})"
        speed, self._start = self._speed(record), None
        self._show(float(record.epoch), "", record.train_loss, record, speed)
        return speed

    def _show(
        self,
        epochs: float,
        step: str,
        loss: float,
        now: StepReport | EpochRecord,
        speed: dict[str, float],
    ) -> None:
        """Draw the line, at most a few times a second."""
        self._bar.n = epochs
        self._bar.set_postfix_str(
            f"epoch {now.epoch} {step}loss {loss:.3f}{self._dev} lr {now.lr:.2g}, "
            f"{speed['frames_per_s']:,.0f} frames/s, {speed['tokens_per_s']:,.0f} tokens/s, "
            f"{now.padding:.0%} padding, {speed['memory_mb']:,.0f} MB",
            refresh=False,
        )
        if time.monotonic() - self._shown_s >= SHOW_S or epochs == self._bar.total:
            self._shown_s = time.monotonic()
            self._bar.refresh()
            self._estimate(speed["memory_mb"])

    def _estimate(self, memory_mb: float) -> None:
        """Say once, as soon as it can be known, how long the rest takes where that is long."""
        trained_s, epochs = time.monotonic() - self._first_s, self._bar.n - self._bar.initial
        if not self._first_s or trained_s < ESTIMATE_S or not epochs:
            return
        self._first_s = 0.0
        if (rest_s := trained_s / epochs * (self._epochs - self._bar.n)) >= LONG_S:
            logger.info(
                "training takes about %s (hours:minutes:seconds) more if all %d epochs are needed, "
                "and %s MB of memory so far",
                tqdm.format_interval(rest_s),
                self._epochs,
                f"{memory_mb:,.0f}",
            )

    def _speed(self, now: StepReport | EpochRecord) -> dict[str, float]:
        """Return what was done since the epoch's start, or since training went on in it."""
        seconds = max(1e-9, time.monotonic() - self._start_s)
        frames, tokens = (self._start.frames, self._start.tokens) if self._start else (0, 0)
        return {
            "frames_per_s": (now.frames - frames) / seconds,
            "tokens_per_s": (now.tokens - tokens) / seconds,
            "epoch_s": seconds,
            "memory_mb": peak_memory_mb(self._device),
        }

    def close(self) -> None:
        """Leave the line as it is."""
        self._bar.close()


def train_seed(
    data: TrainingData,
    options: RunOptions,
    provenance: Mapping[str, Any],
    fabric: Fabric,
    snapshots: Snapshots,
    log: Callable[..., None] | None = None,
) -> TrainingResult:
    """Train with the first seed and show a progress bar; `check_run` has passed the options.

    Args:
        provenance: Written into the checkpoint, with the options.
        snapshots: Where to go on from and to.
        log: Called after every epoch with its record, its speed and its number as `step`, and at
            the end with the best epoch.
    """
    with contextlib.closing(TrainingBar(options.train.epochs, fabric, options.train.seed)) as bar:

        def log_epoch(record: EpochRecord) -> None:
            speed = bar.end_epoch(record)
            if log is not None:
                # MLflow shows what begins with `system/` apart, below losses and scores.
                log({**asdict(record), "system": speed}, step=record.epoch)

        checkpoint, fit = train(
            data,
            options,
            provenance={"params": asdict(options), **provenance},
            log=log_epoch,
            watch=bar.watch,
            fabric=fabric,
            snapshots=snapshots,
            is_checked=True,
        )
    if log is not None:
        log({"best_epoch": fit.best_epoch, "best_dev_loss": fit.dev_loss})
    return TrainingResult(seed=options.train.seed, checkpoint=checkpoint, fit=fit)


def write_results(folder: Path, results: Sequence[TrainingResult]) -> None:
    """Write the checkpoint of the first seed, below it those of the others.

    Of several seeds `seeds/N/` has the checkpoint of each seed N but the first.

    Raises:
        UserError: If the disk is full, or something else forbids writing.
    """
    first, *further = results
    try:
        _write_result(folder, first)
        for result in further:
            _write_result(folder / "seeds" / str(result.seed), result)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"the trained model could not be written to {folder}: {error}; make room, then run "
            "the same command: it goes on from the last snapshot and only writes"
        ) from error


def _write_result(folder: Path, result: TrainingResult) -> None:
    save_checkpoint(folder, result.checkpoint)
    write_history(folder / HISTORY_NAME, result.fit)


def write_history(path: Path, fit: Fit) -> None:
    """Write the epochs of a training run as JSON."""
    content = {
        "format_version": 1,
        "best_epoch": fit.best_epoch,
        "epochs": [asdict(record) for record in fit.history],
    }
    write_file(path, to_sealed(content))


def spread(results: Sequence[TrainingResult]) -> dict[str, float]:
    """Return mean and standard deviation of the dev losses; nothing of a single one."""
    losses = [result.fit.dev_loss for result in results]
    if len(losses) == 1:
        return {}
    return {"mean": statistics.mean(losses), "deviation": statistics.stdev(losses)}
