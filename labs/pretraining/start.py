"""Start a training from the encoder of a pretrained checkpoint."""

import logging
from dataclasses import replace
from pathlib import Path

import torch

from signloom.checkpoint import Checkpoint
from signloom.errors import UserError
from signloom.features.features import feature_names
from signloom.features.sources import LandmarkSource
from signloom.models.seq2seq import ModelOptions
from signloom.training.warm_start import FREE, option_differences, refuse

PRETRAINED = "pretrained"  # in the provenance of a checkpoint of which only the encoder is trained
ENCODER = ("encoder.",)  # beginnings of the names of its tensors; the stack of a decoder-only
STACK = (*ENCODER, "decoder.layers.")  # model reads the source, too
FEATURE_COLUMNS = "encoder.source.projection.weight"
# What else may differ after pretraining: it makes nothing of the encoder, or columns have names.
FREE_AFTER_PRETRAINING = (
    "decoder_layers", "decoder_norm", "tied_embeddings", "embedding_scale", "attention",
    "ctc_feedback", "groups", "presence", "differences",
)  # fmt: skip

logger = logging.getLogger(__name__)


def without_text_model(model: ModelOptions) -> ModelOptions:
    """Return the options of a Transformer with the encoder that a text model's decoder looks at."""
    if model.family != "pretrained" or model.text_encoder:
        return model
    return replace(model, family="transformer", text_model="", freeze="none")


def take_encoder(old: Checkpoint, checkpoint: Checkpoint, folder: Path) -> None:
    """Give an untrained model the encoder of a pretrained one; the rest stays as it was drawn."""
    was, now = old.spec, checkpoint.spec
    if not isinstance(now.source, LandmarkSource) or not isinstance(was.source, LandmarkSource):
        raise UserError(
            f"train.start_from: {folder} is pretrained on landmarks, the model reads "
            f'{now.source.name}; start from scratch with train.start_from: ""'
        )
    before = feature_names(was.features, was.source.layout)
    after = feature_names(now.features, now.source.layout)
    own = replace(now, model=without_text_model(now.model))
    problems = [*option_differences(was, own, (*FREE, *FREE_AFTER_PRETRAINING))]
    refuse(folder, problems)
    beginnings = STACK if now.model.family == "decoder_only" else ENCODER
    weights = checkpoint.model.state_dict()
    taken = {name: tensor for name, tensor in old.model.state_dict().items()
             if name.startswith(beginnings) and name in weights}  # fmt: skip
    # What pretraining never saw says nothing at first.
    columns = torch.nn.functional.pad(taken[FEATURE_COLUMNS], (0, 1))
    column_of = {name: column for column, name in enumerate(before)}
    chosen = [column_of.get(name, len(before)) for name in after]
    taken[FEATURE_COLUMNS] = columns[:, chosen]
    checkpoint.model.load_state_dict({**weights, **taken})
    logger.info("training starts from the pretrained encoder of %s", folder)
    known = len(set(before) & set(after))
    logger.info("  features: %d kept, %d new", known, len(after) - known)
