"""The sequence-reversal task: a task with a known answer, to see that a model learns.

A toy that any right sequence-to-sequence model learns in seconds, with the real models, training
loop and search: source 5 7 3, target 3 7 5. Source: document 004.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.config import Count, checked_dataclass, load_params, parse_options, read_json
from signloom.errors import UserError
from signloom.features.batches import Batch, EpochBatches, pad_ids
from signloom.grouping import group_pairs
from signloom.models.registry import build_model
from signloom.models.seq2seq import FloatArray, ModelOptions, Seq2Seq
from signloom.training.loop import BatchLoss, EpochRecord, Fit, Trainer
from signloom.training.options import TrainOptions
from signloom.training.parallel import open_devices
from signloom.training.train import seed_everything
from signloom.translation.labels import search_signs
from signloom.translation.options import DecodingOptions, SignSearch
from signloom.translation.search import SpecialIds, search
from signloom.translation.translator import Ensemble
from signloom_tools.presets import read_preset

DEFAULTS = Path(__file__).with_name("reversal.yaml")
# A lab of some 3 CPU-s a model, for comparing many of them.
REDUCED = (
    "task.symbols=10",
    "task.max_length=6",
    "task.train=2000",
    "task.dev=100",
    "task.test=300",
    "model.d_model=64",
    "model.d_ff=128",
    "train.epochs=6",
    "train.learning_rate=0.004",
    "train.warmup_steps=40",
    "train.max_frames=192",
    "decoding.max_tokens=8",
)
PAD = 0  # symbols are 1 to V, then bos and eos
DECODED_AT_ONCE = 256

Symbols = tuple[int, ...]


@checked_dataclass
class ReverseOptions:
    """Which sequences are drawn."""

    symbols: Count  # kinds of symbols, V
    min_length: Count  # symbols of the shortest sequence
    max_length: int  # symbols of the longest
    train: Count  # sequences
    dev: Count  # sequences
    test: Count  # sequences
    frames: Count = 1  # source positions of each symbol; CTC needs 2 where symbols may repeat

    def __post_init__(self) -> None:
        if self.max_length < self.min_length:
            raise ValueError(
                f"max_length: found {self.max_length}, expected at least min_length "
                f"({self.min_length})"
            )
        total = self.train + self.dev + self.test
        exist = sum(self.symbols**n for n in range(self.min_length, self.max_length + 1))
        if 2 * total > exist:
            # Drawing distinct ones takes ever longer as fewer of them are left.
            raise ValueError(
                f"{total} distinct sequences were asked for, but only {exist} exist; ask for at "
                "most half of them, or for more symbols or longer sequences"
            )

    @property
    def ids(self) -> SpecialIds:
        """The control symbols."""
        return SpecialIds(pad=PAD, bos=self.symbols + 1, eos=self.symbols + 2)

    @property
    def vocab_size(self) -> int:
        """Symbols with padding, bos and eos."""
        return self.symbols + 3


@checked_dataclass
class LabOptions:
    """The sections of the lab's parameters."""

    task: ReverseOptions
    model: ModelOptions
    train: TrainOptions
    decoding: DecodingOptions


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LabResult:
    """What the model does with test sequences, none of which is in train or dev."""

    exact: float  # share turned round without a mistake
    by_length: dict[int, float]  # the same, by symbols of the sequence
    history: list[EpochRecord]
    dev_loss: float  # nats a symbol, of the epoch that was kept
    cpu_s: float  # of training
    model: Seq2Seq  # with the weights of that epoch


def read_lab(
    assignments: Sequence[str], params: Path = DEFAULTS, *, preset: str = ""
) -> LabOptions:
    """Read the lab's parameters with some of them changed.

    Args:
        assignments: Such as `model.family=lstm`; values as in JSON, anything else is text.
        params: A file with sections task, model, train and decoding.
        preset: Whose model and training come before the assignments; empty: those of `params`.

    Raises:
        UserError: If an assignment names no parameter, its value is refused, or there is no such
            preset.
    """
    values = load_params(params)
    preset_values = read_preset(preset) if preset else {}
    for section in ("model", "train"):
        values[section].update(preset_values.get(section, {}))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        section, _, name = key.partition(".")
        if not equals or name not in values.get(section, {}):
            parameters = ", ".join(f"{s}.{n}" for s, names in values.items() for n in names)
            raise UserError(
                f"{assignment!r} sets nothing; write section.name=value with one of {parameters}"
            )
        try:
            values[section][name] = json.loads(text)
        except ValueError:
            values[section][name] = text
    assigned = {assignment.partition("=")[0] for assignment in assignments}
    if values["model"]["family"] == "encoder_only" and "task.frames" not in assigned:
        values["task"]["frames"] = 2  # CTC writes a blank between equal symbols
    return parse_options(values, LabOptions, where=str(params.name))


def draw_sequences(options: ReverseOptions, seed: int) -> dict[str, list[Symbols]]:
    """Draw train, dev and test: every length alike likely, no sequence twice."""
    generator = np.random.default_rng(seed)
    drawn: dict[Symbols, None] = {}  # in order
    while len(drawn) < options.train + options.dev + options.test:
        length = int(generator.integers(options.min_length, options.max_length + 1))
        drawn[tuple(generator.integers(1, options.symbols + 1, length).tolist())] = None
    every = list(drawn)
    dev_end = options.train + options.dev
    return {
        "train": every[: options.train],
        "dev": every[options.train : dev_end],
        "test": every[dev_end:],
    }


def run_lab(
    options: LabOptions,
    *,
    log: Callable[[EpochRecord], None],
    prepare: Callable[[Seq2Seq], object] | None = None,
) -> LabResult:
    """Train a model to turn sequences round and test it on others.

    Args:
        options: Sequences, model and recipe.
        log: Called after every epoch.
        prepare: Changes the model before it is trained.

    Raises:
        DivergedError: If the loss becomes infinite or not a number.
    """
    task, seed = options.task, options.train.seed
    splits = draw_sequences(task, seed)
    seed_everything(seed)
    model = build_model(
        options.model,
        input_width=task.vocab_size,
        vocab_size=task.vocab_size,
        ctc_labels=0,
        eos=task.ids.eos,
    )
    if prepare:
        prepare(model)
    began = time.process_time()
    result = _train(model, splits, options, log)
    cpu_s = time.process_time() - began
    model.load_state_dict(result.weights)
    right = reverse_all(model.eval(), splits["test"], task, options.decoding)
    return LabResult(
        exact=sum(right.values()) / len(right),
        by_length=share_by_length(right),
        history=result.history,
        dev_loss=result.dev_loss,
        cpu_s=cpu_s,
        model=model,
    )


class ReverseBatches(EpochBatches):
    """Sequences in an order of each epoch's own.

    Lengths are mixed in a batch: the last positions are learnt from the longest sequences alone,
    which batches of like length would show in one step out of ten.
    """

    def __init__(
        self, sequences: Sequence[Symbols], task: ReverseOptions, size: int, seed: int
    ) -> None:
        """Take the sequences, how many make a batch, and the seed of their order."""
        self.sequences, self.task, self.size, self.seed = sequences, task, size, seed

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the sequences of each batch."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.sequences)).tolist()
        return [order[start : start + self.size] for start in range(0, len(order), self.size)]

    def lengths(self, epoch: int) -> list[int]:
        """Return the symbols of each sequence."""
        return [len(sequence) * self.task.frames for sequence in self.sequences]

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        """Return some sequences and their reverses."""
        return build_pairs(
            [self.sequences[clip] for clip in clips], self.task.ids, self.task.frames
        )


def _train(
    model: Seq2Seq,
    splits: Mapping[str, list[Symbols]],
    options: LabOptions,
    log: Callable[[EpochRecord], None],
) -> Fit:
    task, dev = options.task, splits["dev"]
    size = max(1, options.train.max_frames // task.max_length)
    starts = range(0, len(dev), DECODED_AT_ONCE)
    trainer = Trainer(
        BatchLoss(model, options.train, pad=PAD, subsampling=options.model.subsampling),
        ReverseBatches(splits["train"], task, size, options.train.seed),
        [
            build_pairs(dev[start : start + DECODED_AT_ONCE], task.ids, task.frames)
            for start in starts
        ],
        fabric=open_devices(options.train),
        total_steps=options.train.epochs * math.ceil(task.train / size),
    )
    return trainer.fit(log)


def share_by_length(right: Mapping[Symbols, bool]) -> dict[int, float]:
    """Return the share that is right of each length, ascending."""
    pairs = sorted(right.items(), key=lambda item: len(item[0]))
    by_length = group_pairs((len(sequence), is_right) for sequence, is_right in pairs)
    return {length: sum(flags) / len(flags) for length, flags in by_length.items()}


def reverse_all(
    model: Seq2Seq, sequences: Sequence[Symbols], task: ReverseOptions, decoding: DecodingOptions
) -> Mapping[Symbols, bool]:
    """Let the model write the reverse of each sequence; return which are right."""
    ids, right = task.ids, {}
    device = next(model.parameters()).device
    with torch.inference_mode():
        for start in range(0, len(sequences), DECODED_AT_ONCE):
            part = sequences[start : start + DECODED_AT_ONCE]
            src, valid = pad_ids([hold(sequence, task.frames) for sequence in part], PAD)
            memory = model.encode(src.to(device), valid.to(device))
            if model.has_decoder:
                every = [beam[0].tokens for beam in search(model, memory, ids, decoding)]
            else:
                read = Ensemble([model], device).log_probs([memory], "text")
                labels = [search_signs(log_probs, SignSearch()) for log_probs in read]
                every = [(*(label - 1 for label in line), ids.eos) for line in labels]
            for sequence, tokens in zip(part, every, strict=True):
                right[sequence] = tokens == (*reversed(sequence), ids.eos)
    return right


def hold(sequence: Symbols, frames: int) -> Symbols:
    """Repeat each symbol, as a sign lasts for some frames."""
    return tuple(symbol for symbol in sequence for _ in range(frames))


def build_pairs(sequences: Sequence[Symbols], ids: SpecialIds, frames: int = 1) -> Batch:
    """Pad sequences, each symbol for so many positions, and their reverses to a batch."""
    src, src_valid = pad_ids([hold(sequence, frames) for sequence in sequences], ids.pad)
    tgt, tgt_valid = pad_ids([(ids.bos, *reversed(s), ids.eos) for s in sequences], ids.pad)
    nothing = torch.zeros(len(sequences), dtype=torch.int64)
    return Batch(
        src=src,
        src_valid=src_valid,
        tgt=tgt,
        tgt_valid=tgt_valid,
        labels=nothing[:, None],
        label_lengths=nothing,
        clip_ids=tuple(" ".join(map(str, sequence)) for sequence in sequences),
    )


def is_result(path: Path) -> bool:
    """Return whether a file is what `summarise_lab` once gave, so that it may be replaced."""
    try:
        content = read_json(path, hint="")
    except UserError:
        return False
    return isinstance(content, dict) and {"exact", "by_length", "epochs"} <= content.keys()


def attend(
    model: Seq2Seq, sequence: Symbols, task: ReverseOptions
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return what the model looks at while it is given the reverse of a sequence.

    Returns:
        Where each target position looks, shape (T, M), zeros of a model without a decoder, and the
        maps of every layer and head.

    Raises:
        ValueError: If its decoder does not look at the source.
    """
    device = next(model.parameters()).device
    batch = build_pairs([sequence], task.ids, task.frames)
    src, valid, tgt_in = (x.to(device) for x in (batch.src, batch.src_valid, batch.tgt[:, :-1]))
    with torch.inference_mode():
        if model.has_decoder:
            looked = model.align(model.encode(src, valid), tgt_in)[0].float().cpu().numpy()
        else:
            looked = np.zeros((tgt_in.shape[1], src.shape[1]), np.float32)
        return looked, model.attention_maps(src, valid, tgt_in).of_clip(0)


def summarise_lab(options: LabOptions, result: LabResult) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {
        "format_version": 1,
        "family": options.model.family,
        "seed": options.train.seed,
        "exact": round(result.exact, 4),
        "by_length": {str(k): round(v, 4) for k, v in result.by_length.items()},
        "dev_loss": round(result.dev_loss, 6),
        "cpu_s": round(result.cpu_s, 1),
        "epochs": [
            {"epoch": r.epoch, "train_loss": r.train_loss, "dev_loss": r.dev_loss}
            for r in result.history
        ],
    }
