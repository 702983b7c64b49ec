"""`train.precision: auto`: float32 or bfloat16, whichever takes training steps faster here.

That a processor has instructions for bfloat16 does not say that they pay, so it is measured, and
the choice remembered: timings that lie close together would not choose the same twice.
"""

import hashlib
import json
import logging
import os
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import torch

from signloom.devices import pick_device
from signloom.errors import UserError
from signloom.features.batches import Batch
from signloom.files import write_file
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from signloom.paths import PRECISIONS
from signloom.training.devices import has_bfloat16
from signloom.training.loop import BatchLoss, real_rows
from signloom.training.options import TrainOptions

Chosen = Literal["float32", "bfloat16"]
PAYS = 0.9  # of float32's time: who gains less keeps its digits
MEASURE_S = 1.0
FRAMES, TOKENS, MOST_ROWS = 64, 16, 4_096  # of a clip, of its sentence; of the vocabulary
logger = logging.getLogger(__name__)


def choose_precision(
    model: ModelOptions, train: TrainOptions, *, input_width: int, vocab_size: int
) -> Chosen:
    """Return the precision of a training; what was measured before is read from the cache.

    Args:
        model: What is trained.
        train: How; another precision than `auto` is returned as it is.
        input_width: Features of a source frame, or rows of a source vocabulary.
        vocab_size: Rows of the target vocabulary.

    Raises:
        UserError: If several processes train together, which might choose differently.
    """
    if train.precision != "auto":
        return train.precision
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise UserError(
            "train.precision is auto, which each process would measure for itself; name bfloat16 "
            "or float32 where several train together"
        )
    device = pick_device(train.device)
    if device.type == "cpu" and not has_bfloat16():
        return "float32"
    deciding = [
        _processor(device), torch.__version__, torch.get_num_threads(), asdict(model),
        train.max_frames, input_width, vocab_size,
    ]  # fmt: skip
    key = hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]
    known = _read_choices(PRECISIONS)
    if key in known:
        return known[key]
    seconds = measure_steps(model, train, device, input_width=input_width, vocab_size=vocab_size)
    chosen: Chosen = "float32"
    if seconds["bfloat16"] < PAYS * seconds["float32"]:
        chosen = "bfloat16"
    logger.info(
        "train.precision auto is %s: a part of a step takes %.3f s in float32 and %.3f s in "
        "bfloat16; %s remembers it",
        chosen,
        seconds["float32"],
        seconds["bfloat16"],
        PRECISIONS,
    )
    try:
        write_file(PRECISIONS, json.dumps({**known, key: chosen}, indent=1) + "\n")
    except OSError as error:
        logger.warning("%s could not be written: %s", PRECISIONS, error)
    return chosen


def measure_steps(
    model: ModelOptions,
    train: TrainOptions,
    device: torch.device,
    *,
    input_width: int,
    vocab_size: int,
) -> dict[Chosen, float]:
    """Return the least seconds (of a CPU: its own) of a step of one layer each, by precision."""
    clips = max(1, train.max_frames // FRAMES)
    is_text = model.source == "tokens"
    shape = (clips, FRAMES) if is_text else (clips, FRAMES, input_width)
    source = torch.zeros(shape, dtype=torch.int64 if is_text else torch.float32, device=device)
    ids = torch.full((clips, TOKENS), 2, device=device)
    batch = Batch(
        src=source,
        src_valid=torch.ones(clips, FRAMES, dtype=torch.bool, device=device),
        tgt=ids,
        tgt_valid=torch.ones_like(ids, dtype=torch.bool),
        labels=ids[:, :1],
        label_lengths=torch.zeros(clips, dtype=torch.int64, device=device),
        clip_ids=(),
    )
    with torch.random.fork_rng():
        built = build_model(
            replace(model, encoder_layers=1, decoder_layers=1, streams=False, joints="none"),
            input_width=input_width,
            vocab_size=max(3, min(vocab_size, MOST_ROWS)),
            ctc_labels=0,
            eos=1,
        )
        step = BatchLoss(
            built.to(device).train(),
            replace(train, ctc_weight=0.0, token_drop=0.0, r_drop=0.0),
            pad=0,
            subsampling=model.subsampling,
        )
        rows = real_rows(batch)

        def take(precision: Chosen) -> float:
            step.zero_grad()
            start_s = _now(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                losses = step(batch, rows)
            losses.text.backward()
            return _now(device) - start_s

        found: dict[Chosen, list[float]] = {"float32": [], "bfloat16": []}
        end_s = time.monotonic() + MEASURE_S
        while len(found["float32"]) < 3 or time.monotonic() < end_s:
            for name, times in found.items():
                times.append(take(name))
    return {name: min(times[1:]) for name, times in found.items()}


def _now(device: torch.device) -> float:
    """Return a clock's time, seconds: of a CPU what this process has used, whatever else runs."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _processor(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    # ARM's says no name.
    named = [line for line in lines if line.startswith(("model name", "flags", "Features"))]
    return "\n".join(sorted(set(named))) or platform.processor()


def _read_choices(path: Path) -> dict[str, Chosen]:
    """Return what was chosen before; nothing where the file is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if value in ("float32", "bfloat16")}
