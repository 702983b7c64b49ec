"""All 128,815 ids of the tokeniser: a model trains, exactly resumable, by the rows that it uses."""

import dataclasses
from pathlib import Path

import pytest
import torch

from signloom.features.tokenizer import Tokenizer
from signloom.training.data import TrainingData
from signloom.training.loop import EpochRecord
from signloom.training.snapshots import Snapshots
from signloom.training.train import RunOptions, train
from tests import tiny
from tests.tiny import hold_clips


def full_data() -> TrainingData:
    """Return the tiny corpus in the ids of the unpruned tokeniser."""
    data, tokenizer = tiny.training_data(), Tokenizer.build(tiny.SENTENCES, "full")

    def respell(split: str) -> object:
        examples = []
        for example in tiny.examples_of(getattr(data, split)):
            ids = [tokenizer.bos, *tokenizer.encode(example.target.text), tokenizer.eos]
            target = dataclasses.replace(example.target, ids=ids)
            examples.append(example._replace(target=target))
        return hold_clips(examples)

    return dataclasses.replace(
        data, train=respell("train"), dev=respell("dev"), tokenizer=tokenizer
    )


def options(**changes: object) -> RunOptions:
    chosen = tiny.run_options(epochs=3, snapshot_s=0.0, token_drop=0.0, **changes)
    return dataclasses.replace(chosen, model=dataclasses.replace(chosen.model, d_model=4))


def test_training_goes_on_to_the_bit(tmp_path: Path) -> None:
    data, chosen = full_data(), options()
    checkpoint, fit = train(data, chosen, provenance={}, log=lambda _: None)
    losses = [record.dev_loss for record in fit.history]
    assert losses == sorted(losses, reverse=True)

    def die(record: EpochRecord) -> None:
        if record.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data, chosen, provenance={}, log=die, snapshots=Snapshots(tmp_path))
    again, _ = train(data, chosen, provenance={}, log=lambda _: None, snapshots=Snapshots(tmp_path))
    expected = checkpoint.model.state_dict()
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
