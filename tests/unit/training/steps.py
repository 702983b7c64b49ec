"""A model without dropout and its batches, for the tests of a step."""

import torch

from signloom.features.batches import TrainingBatches
from signloom.models.registry import build_model
from signloom.training.loop import BatchLoss
from tests import tiny


def setting(**changes: object) -> tuple[BatchLoss, TrainingBatches]:
    """Return a model without dropout and its batches."""
    options, data = tiny.run_options(token_drop=0.0, **changes), tiny.training_data(9)
    torch.manual_seed(0)

    model = build_model(
        options.model,
        input_width=data.source.reader(options.features).width,
        vocab_size=data.tokenizer.vocab_size,
        ctc_labels=len(data.labels) + 1,
    )
    source = TrainingBatches(
        data.train,
        options.features,
        options.augment,
        max_frames=200,
        pad=data.tokenizer.pad,
        seed=1,
    )
    loss = BatchLoss(
        model, options.train, pad=data.tokenizer.pad, subsampling=options.model.subsampling
    )
    return loss, source
