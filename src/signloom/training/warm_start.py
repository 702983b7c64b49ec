"""Warm start: the weights of a trained checkpoint in an untrained model.

Between the two trainings the corpus may have grown or shrunk. What has a row for each token or
label (source embedding of glosses, target embedding, output projection, CTC head) follows its
names: a row that is known keeps its weights to the bit, a new one begins as the mean of all the old
ones, one whose name is gone is dropped. Nothing else may differ.
"""

import importlib.metadata
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from signloom.checkpoint import Checkpoint, CheckpointSpec, load_checkpoint
from signloom.errors import UserError
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import read_source
from signloom.files import hash_folder
from signloom.models.layers import TokenEmbedding
from signloom.models.pretrained import TextModel, load_text_weights
from signloom.paths import START

# Tensors with a row for each source token of a model of glosses, for each target token, and for
# each CTC label; a tied model has no `output.weight`, one without a CTC head no `ctc`.
SOURCE_ROWS = ("encoder.source.projection.weight",)
TOKEN_ROWS = (
    "emit.weight",
    "emit.bias",
    "decoder.embedding.weight",
    "decoder.output.weight",
    "decoder.output.bias",
)
LABEL_ROWS = ("ctc.weight", "ctc.bias", "feedback.weight")
# Options that may differ between two models: they do not change what a weight means.
FREE = ("dropout", "layer_drop", "initialization", "text_model", "freeze")

logger = logging.getLogger(__name__)


def describe_start(folder: str, text_model: str = "") -> dict[str, Any]:
    """Return what identifies the starting weights; nothing where training starts from scratch.

    Args:
        folder: `train.start_from`.
        text_model: `model.text_model`.

    Raises:
        UserError: If there is no such folder.
    """
    start: dict[str, Any] = {}
    if folder:
        _check_exists(Path(folder))
        start["start"] = {"folder": folder, "sha256": hash_folder(Path(folder))}
    if text_model:
        text = TextModel.read(Path(text_model))
        version = importlib.metadata.version("transformers")
        start["text_model"] = {
            "folder": text_model,
            "sha256": text.sha256,
            "licence": text.licence,
            "transformers": version,
        }
    return start


def start_from_text_model(checkpoint: Checkpoint) -> None:
    """Give an untrained model of family `pretrained` the weights of its text model.

    Its encoder then reads glosses by the vectors that it reads text by, if their ids are shared.

    Raises:
        UserError: If they do not fit, or the text was cut into tokens by another tokeniser.
    """
    folder, tokenizer = Path(checkpoint.spec.model.text_model), checkpoint.tokenizer
    if tokenizer.source_json != read_source(folder) or tokenizer.vocabulary != "pruned":
        raise UserError(
            f"model.text_model is {folder}, but the sentences are not in its tokens; set "
            f"tokenize_targets.tokenizer: {folder} and tokenize_targets.vocabulary: pruned"
        )
    load_text_weights(checkpoint.model, folder, tokenizer.source_rows)
    if checkpoint.spec.source.is_shared and checkpoint.spec.model.text_encoder:
        source, target = (
            cast(TokenEmbedding, checkpoint.model.get_submodule(name))
            for name in ("encoder.source.projection", "decoder.embedding")
        )
        source.load_state_dict({"weight": target.weight * (target.scale / source.scale)})
    logger.info("training starts from the text model %s", folder)


def warm_start(checkpoint: Checkpoint, folder: Path, *, seed: int) -> None:
    """Replace the weights of an untrained model by those of a trained one.

    Args:
        checkpoint: What is to be trained; its model is changed in place.
        seed: Which of its models, if it has several: the one of this seed, else the first.

    Raises:
        UserError: If it is missing or torn, or anything but the vocabulary and the CTC labels
            differs; all of it in one message.
    """
    _check_exists(folder)
    chosen = folder / "seeds" / str(seed)
    old = load_checkpoint(chosen if chosen.is_dir() else folder, torch.device("cpu"))
    problems = list(_differences(old.spec, checkpoint.spec))
    sources = [model_checkpoint.tokenizer.source_sha256 for model_checkpoint in (old, checkpoint)]
    if len(set(sources)) > 1:  # the same id is another token
        problems.append(
            "tokenize_targets.tokenizer: trained with a file of SHA-256 {:.12}, now {:.12}".format(
                *sources
            )
        )
    refuse(folder, problems)
    was, now = old.spec, checkpoint.spec
    rows = {
        "source tokens": (SOURCE_ROWS, was.source.row_names, now.source.row_names),
        "tokens": (TOKEN_ROWS, old.tokenizer.row_names, checkpoint.tokenizer.row_names),
        "CTC labels": (LABEL_ROWS, label_names(was.ctc), label_names(now.ctc)),
    }
    weights = old.model.state_dict()
    for tensors, before, after in rows.values():
        for name in tensors if before else ():
            if name in weights:
                weights[name] = carry_rows(weights[name], before, after)
    checkpoint.model.load_state_dict(weights)
    logger.info("training starts from the weights of %s", folder)
    for kind, (_, before, after) in rows.items():
        if before:
            common = len({*before} & {*after})
            new, missing = len(after) - common, len(before) - common
            logger.info("  %s: %d kept, %d new, %d gone", kind, common, new, missing)


def refuse(folder: Path, problems: Sequence[str]) -> None:
    """Raise the problems that keep a checkpoint from being a start, if there are any."""
    if problems:
        raise UserError(
            f"{_said_by(folder)}: {folder} does not fit what is to be trained:\n"
            + "".join(f"  {problem}\n" for problem in problems)
            + f'change these back, or start from scratch with {_said_by(folder)}: "" '
            "(or with `signloom retrain --start scratch`)"
        )


def carry_rows(
    old: Float[Tensor, "N ..."], before: Sequence[str], after: Sequence[str]
) -> Float[Tensor, "M ..."]:
    """Return a tensor whose rows are in another order, with new rows among them.

    New rows are the mean of the old: the logit of a new token is then the mean of the others', so
    however many are new, none is ever the most likely one before it was seen, and together they
    take no more of the probability than as many average tokens had. Rows as an untrained model has
    them promise nothing: the logits of a trained one may all lie below 0.

    Args:
        old: A row for each name.
        before: The names of the old rows.
        after: Those of the new ones; which of them are known is a matter of the name alone.

    Source: Hewitt (2021), "Initializing new word embeddings for pretrained language models".
    """
    row_of = {name: row for row, name in enumerate(before)}
    rows = torch.tensor([row_of.get(name, len(before)) for name in after])
    return torch.cat((old, old.mean(dim=0, keepdim=True)))[rows]


def label_names(labels: CtcLabels) -> tuple[str, ...]:
    """Return a name for each row of a CTC head: the blank's, which no label has, then theirs."""
    return ("", *labels.names) if labels.kind != "none" else ()


def _check_exists(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(
            f"{_said_by(folder)}: {folder} does not exist; name the checkpoint folder of a model "
            "version, such as data/models/0001/checkpoint (not data/checkpoint itself: DVC removes "
            f'it before it trains), or start from scratch with {_said_by(folder)}: ""'
        )


def _said_by(folder: Path) -> str:
    """Return what says where to start from: a night's file replaces the parameter."""
    content = START.read_text("utf-8", errors="replace") if START.is_file() else ""
    return (
        f"{START}: start_from" if json.dumps(folder.as_posix()) in content else "train.start_from"
    )


def _differences(old: CheckpointSpec, new: CheckpointSpec) -> Iterator[str]:
    """Say what a trained model was made with and what is now asked for, where they differ."""
    yield from option_differences(old, new, FREE)
    yield from old.source.differences(new.source)
    if old.text_model and new.text_model and old.text_model.sizes != new.text_model.sizes:
        yield f"model.text_model: trained with another than {new.text_model.name}"
    if old.ctc.kind != new.ctc.kind:
        yield f"CTC labels: trained with {old.ctc.kind}, now {new.ctc.kind}"


def option_differences(
    old: CheckpointSpec, new: CheckpointSpec, free: Sequence[str]
) -> Iterator[str]:
    """Name the options of model and features that differ and are not free to."""
    for section in ("model", "features"):
        before, after = asdict(getattr(old, section)), asdict(getattr(new, section))
        for name, value in before.items():
            if value != after[name] and name not in free:
                yield f"{section}.{name}: trained with {value!r}, now {after[name]!r}"
