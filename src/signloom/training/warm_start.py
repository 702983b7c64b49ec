"""A trained checkpoint and an untrained model come in, the model with the trained weights goes out.

Between the two trainings the corpus may have grown or shrunk. Whatever has a row for each token or
label (target embedding, output projection, CTC head) follows its names: a row that is known keeps
its weights to the bit, a new one begins as the mean of all the old ones, one whose name is gone is
dropped. Nothing else may differ.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from signloom.checkpoint import Checkpoint, CheckpointSpec, load_checkpoint
from signloom.config import UserError
from signloom.corpus.targets import CtcLabels
from signloom.corpus.tokenizer import Tokenizer, load_source
from signloom.reproducibility import hash_folder

# Tensors with a row for each target token, and with one for each CTC label; a tied model has no
# `output.weight`, one without a CTC head no `ctc`.
TOKEN_ROWS = ("decoder.embedding.weight", "decoder.output.weight", "decoder.output.bias")
LABEL_ROWS = ("ctc.weight", "ctc.bias")
# What may differ: it steers training and what is drawn before, and makes no weight mean anything
# else.
FREE = ("dropout", "layer_drop", "initialization")
_MOST_NAMED = 8  # new or dropped names in a message

logger = logging.getLogger(__name__)


def describe_start(folder: str) -> dict[str, Any]:
    """Return what identifies the starting weights; nothing where training starts from scratch.

    Args:
        folder: `train.start_from`.

    Raises:
        UserError: If there is no such folder.
    """
    if not folder:
        return {}
    _check_there(Path(folder))
    return {"start": {"folder": folder, "sha256": hash_folder(Path(folder))}}


def warm_start(checkpoint: Checkpoint, folder: Path, *, seed: int) -> None:
    """Replace the weights of an untrained model by those of a trained one.

    Args:
        checkpoint: What is to be trained; its model is changed in place.
        folder: The trained checkpoint.
        seed: Which of its models, if it has several: the one of this seed, else the first.

    Raises:
        UserError: If it is missing or torn, or anything but the vocabulary and the CTC labels
            differs; all of it in one message.
    """
    _check_there(folder)
    chosen = folder / "seeds" / str(seed)
    old = load_checkpoint(chosen if chosen.is_dir() else folder, torch.device("cpu"))
    if problems := list(_differences(old.spec, checkpoint.spec)):
        raise UserError(
            f"train.start_from: {folder} does not fit what is to be trained:\n"
            + "".join(f"  {problem}\n" for problem in problems)
            + 'change these back, or start from scratch with train.start_from: ""'
        )
    tokens = token_names(old.tokenizer), token_names(checkpoint.tokenizer)
    labels = label_names(old.spec.ctc), label_names(checkpoint.spec.ctc)
    named = {name: tokens for name in TOKEN_ROWS} | {name: labels for name in LABEL_ROWS}
    weights = {
        name: carry_rows(value, *named[name]) if name in named else value
        for name, value in old.model.state_dict().items()
    }
    checkpoint.model.load_state_dict(weights)
    logger.info("training starts from the weights of %s", folder)
    spelt = _spell(old.tokenizer, tokens[0]) | _spell(checkpoint.tokenizer, tokens[1])
    _tell("tokens", *tokens, spelt)
    _tell("CTC labels", *labels, {})


def carry_rows(
    old: Float[Tensor, "N ..."], before: Sequence[str], after: Sequence[str]
) -> Float[Tensor, "M ..."]:
    """Return a tensor whose rows stand in another order, with new rows among them.

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


def token_names(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return a name for each row of a vocabulary, the same in a pruned and in the whole one."""
    if tokenizer.vocabulary == "pruned":
        bytes_ = [f"byte {byte}" for byte in range(256)]
        return ("pad", "bos", "eos", *bytes_, *(f"id {token}" for token in tokenizer.source_ids))
    names = [f"id {token}" for token in range(tokenizer.vocab_size)]
    names[tokenizer.pad], names[tokenizer.bos], names[tokenizer.eos] = "pad", "bos", "eos"
    for byte, token in enumerate(load_source().byte_ids):
        names[token] = f"byte {byte}"
    return tuple(names)


def label_names(labels: CtcLabels) -> tuple[str, ...]:
    """Return a name for each row of a CTC head: the blank's, which no label has, then theirs."""
    return ("", *labels.names) if labels.kind != "none" else ()


def _check_there(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(
            f"train.start_from: {folder} does not exist; name the checkpoint folder of a model "
            "version, such as data/models/0001/checkpoint (not data/checkpoint itself: DVC removes "
            'it before it trains), or start from scratch with train.start_from: ""'
        )


def _differences(old: CheckpointSpec, new: CheckpointSpec) -> Iterator[str]:
    """Say what a trained model was made with and what is now asked for, where they differ."""
    for section in ("model", "features"):
        before, after = asdict(getattr(old, section)), asdict(getattr(new, section))
        for name, value in before.items():
            if value != after[name] and name not in FREE:
                yield f"{section}.{name}: trained with {value!r}, now {after[name]!r}"
    if old.layout != new.layout:
        one, other = (
            f"{layout.name} version {layout.version} ({', '.join(layout.group_names)})"
            for layout in (old.layout, new.layout)
        )
        yield f"landmarks: trained on {one}, now {other}"
    for name in sorted({*old.extractor, *new.extractor}):
        if old.extractor.get(name) != new.extractor.get(name):
            was, is_now = old.extractor.get(name), new.extractor.get(name)
            yield f"what found the landmarks, {name}: trained with {was!r}, now {is_now!r}"
    if old.ctc.kind != new.ctc.kind:
        yield f"CTC labels: trained with {old.ctc.kind}, now {new.ctc.kind}"


def _spell(tokenizer: Tokenizer, names: Sequence[str]) -> dict[str, str]:
    """Return the text behind each name of a token."""
    texts = (tokenizer.piece(row).decode(errors="replace") for row in range(3, len(names)))
    return dict(zip(names[3:], texts, strict=True))


def _tell(kind: str, before: Sequence[str], after: Sequence[str], spelt: Mapping[str, str]) -> None:
    """Log how many rows are known, new and gone, and name some of them."""
    known = set(before) & set(after)
    parts = [f"{len(known)} kept"]
    for verb, names in (("new", after), ("gone", before)):
        others = [name for name in names if name not in known]
        if others:
            shown = ", ".join(repr(spelt.get(name, name)) for name in others[:_MOST_NAMED])
            more = ", ..." if len(others) > _MOST_NAMED else ""
            parts.append(f"{len(others)} {verb} ({shown}{more})")
    if before:
        logger.info("  %s: %s", kind, ", ".join(parts))
