"""Checkpoints: weights, options, tokeniser and provenance of a model in one folder."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from signloom.checkpoint_file import (
    COPY_AGAIN,
    FORMAT_VERSION,
    SPEC,
    TRAIN_AGAIN,
    parse_source,
    read_fields,
)
from signloom.config import checked_dataclass, explained, parse_record, read_record
from signloom.errors import UserError
from signloom.features.features import FeatureOptions
from signloom.features.sources import Reader, Source
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file, to_sealed, whole_folder, write_file
from signloom.models.pretrained import TextModel
from signloom.models.registry import build_model, planned
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.paths import WEIGHTS_NAME

WEIGHTS, TOKENIZER = WEIGHTS_NAME, "tokenizer.json"
_TRIES, _PAUSE_S = 20, 0.02  # to read a folder that others replace
_MOST_NAMED = 3  # tensors in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSpec:
    """Everything but the weights and the tokeniser."""

    model: ModelOptions  # what the model is made of
    features: FeatureOptions
    """How landmarks become its input, so that mismatched features cannot happen."""
    source: Source  # what it reads: which landmarks and what found them, or which glosses
    ctc: CtcLabels  # what the labels of its CTC head mean; kind none without one
    provenance: dict[str, Any]  # what made the weights: parameters, data hashes, library versions
    text_model: TextModel | None = None
    """Of family `pretrained`, the text model that it was made from."""

    @property
    def reader(self) -> Reader:
        """What turns clips into the rows that the model reads."""
        return self.source.reader(self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A model with all it needs to translate."""

    spec: CheckpointSpec
    model: Seq2Seq
    tokenizer: Tokenizer


@checked_dataclass
class _CheckpointFile:
    """What checkpoint.json holds, without the fields of its source."""

    model: ModelOptions
    features: FeatureOptions
    ctc: CtcLabels
    provenance: dict[str, Any]
    text_model: TextModel | None = None


@checked_dataclass
class _Hashes:
    """What checkpoint.json holds of the files next to it, by name."""

    sha256: dict[str, str] = field(default_factory=dict)  # empty: of Signloom 0.2


def build_from_spec(spec: CheckpointSpec, tokenizer: Tokenizer) -> Seq2Seq:
    """Build the untrained model that a specification describes.

    Raises:
        UserError: If the model reads another source than there is.
    """
    check_source(spec.model, spec.source)
    return build_model(
        spec.model,
        input_width=spec.reader.width,
        vocab_size=tokenizer.vocab_size,
        ctc_labels=len(spec.ctc) + 1 if spec.ctc.kind != "none" else 0,
        eos=tokenizer.eos,
        text=spec.text_model,
        is_shared=spec.source.is_shared,
    )


def check_source(model: ModelOptions, source: Source) -> None:
    """Refuse a model that reads another source than there is.

    Raises:
        UserError: If it does.
    """
    if model.source != source.kind:
        raise UserError(
            f"model.source is {model.source}, but the clips were read as {source.name}; a search "
            "cannot vary model.source, set it in params.yaml"
        )


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint folder, whole or not at all; the same model gives the same bytes."""
    spec = checkpoint.spec
    content = {
        "format_version": FORMAT_VERSION,
        "model": asdict(spec.model),
        "features": asdict(spec.features),
        "ctc": asdict(spec.ctc),
        "provenance": spec.provenance,
        **spec.source.to_fields(),
    }
    if spec.text_model is not None:
        content["text_model"] = asdict(spec.text_model)
    weights = {k: v.detach().cpu().contiguous() for k, v in checkpoint.model.state_dict().items()}
    with whole_folder(folder) as temporary:
        checkpoint.tokenizer.save(temporary / TOKENIZER)
        safetensors.torch.save_file(weights, temporary / WEIGHTS)
        content["sha256"] = {name: hash_file(temporary / name) for name in (TOKENIZER, WEIGHTS)}
        write_file(temporary / SPEC, to_sealed(content, sort_keys=True))
        # safetensors makes it for its owner alone; others of the machine translate with it too.
        (temporary / WEIGHTS).chmod((temporary / SPEC).stat().st_mode)


def load_checkpoint(folder: Path, device: torch.device) -> Checkpoint:
    """Read a checkpoint folder; the model is in evaluation mode.

    A folder that is replaced meanwhile is read again: the result is the old or the new model.

    Raises:
        UserError: If a file is missing or torn, or the format version is another.
    """
    problem: Exception
    for _ in range(_TRIES):
        before = _identity(folder)
        try:
            loaded = _load_once(folder, device)
        except (UserError, FileNotFoundError) as error:
            problem = error
            if None not in before and before == _identity(folder):
                break
        else:
            if before == _identity(folder):
                return loaded
            problem = UserError(f"{folder} is replaced again and again; wait until it is whole")
        time.sleep(_PAUSE_S)
    raise problem


def _identity(folder: Path) -> list[tuple[int, int, int] | None]:
    """Return what differs when a file of a checkpoint is replaced; None for a missing one."""
    identity: list[tuple[int, int, int] | None] = []
    for name in (SPEC, TOKENIZER, WEIGHTS):
        try:
            state = (folder / name).stat()
        except OSError:
            identity.append(None)
        else:
            identity.append((state.st_ino, state.st_size, state.st_mtime_ns))
    return identity


def _load_once(folder: Path, device: torch.device) -> Checkpoint:
    """Read a checkpoint folder that is not replaced meanwhile.

    Raises:
        UserError: If a file is missing or torn, or the format version is another.
    """
    missing = [name for name in (SPEC, TOKENIZER, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder} is not a checkpoint: {', '.join(missing)} missing; train one with "
            "`dvc repro train` or give another folder"
        )
    spec = _load_spec(folder / SPEC)
    check_hashes(folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    try:
        _check_sizes(folder / WEIGHTS, spec, tokenizer)
        stored = safetensors.torch.load_file(folder / WEIGHTS)
        weights = {_name_now(name): tensor for name, tensor in stored.items()}
        for name, tensor in weights.items():
            if not tensor.isfinite().all():
                raise ValueError(f"{name} holds numbers that are not finite")
        model = build_from_spec(spec, tokenizer)
        model.load_state_dict(weights)
    except (safetensors.SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{folder / WEIGHTS} does not fit {SPEC} and {TOKENIZER}, or is torn: {error}\n"
            "train again with `dvc repro train`, or copy the whole folder again"
        ) from None
    return Checkpoint(spec=spec, model=model.to(device).eval(), tokenizer=tokenizer)


def check_hashes(folder: Path) -> None:
    """Compare the weights and the tokeniser of a checkpoint with their SHA-256 in checkpoint.json.

    One of Signloom 0.2 has none.

    Raises:
        UserError: If a file is missing or is not the one that was trained.
    """
    hashes = read_record(folder / SPEC, _Hashes, hint=COPY_AGAIN).sha256
    for name in (TOKENIZER, WEIGHTS):
        with explained(folder / name, COPY_AGAIN):
            digest = hash_file(folder / name)
            if digest != (expected := hashes.get(name, digest)):
                raise ValueError(f"found SHA-256 {digest[:16]}, expected {expected[:16]}")


def _name_now(name: str) -> str:
    """Return the name of a tensor that may be from when every recurrence was an LSTM."""
    return name.replace(".lstm.", ".recurrence.")


def _check_sizes(path: Path, spec: CheckpointSpec, tokenizer: Tokenizer) -> None:
    """Compare the model with the tensors that are stored, before either takes memory.

    Raises:
        ValueError: If they differ.
    """
    with safetensors.safe_open(path, "pt") as file:
        parts = {
            _name_now(name): file.get_slice(name)
            for name in file.keys()  # noqa: SIM118
        }
        stored = {name: tuple(part.get_shape()) for name, part in parts.items()}
        kinds = {part.get_dtype() for part in parts.values()}
    if kinds - {"F32"}:
        raise ValueError(f"found numbers of kind {', '.join(sorted(kinds))}, expected F32")
    with planned():
        plan = build_from_spec(spec, tokenizer).state_dict()
    expected = {name: tuple(tensor.shape) for name, tensor in plan.items()}
    differing = [n for n in {**expected, **stored} if expected.get(n) != stored.get(n)]
    if differing:
        some = "; ".join(
            f"{name}: found {stored.get(name, 'none')}, expected {expected.get(name, 'none')}"
            for name in differing[:_MOST_NAMED]
        )
        raise ValueError(f"{len(differing)} tensors differ: {some}")


def _load_spec(path: Path) -> CheckpointSpec:
    content = read_fields(path)
    record = parse_record(content, _CheckpointFile, where=str(path), hint=TRAIN_AGAIN)
    return CheckpointSpec(
        model=record.model,
        features=record.features,
        source=parse_source(path, content),
        ctc=record.ctc,
        provenance=record.provenance,
        text_model=record.text_model,
    )
