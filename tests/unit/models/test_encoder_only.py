"""Encoder-only models spell the tokens of a sentence by CTC."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from signloom.features.batches import FixedBatches
from signloom.models.encoder_only import EncoderOnly
from signloom.training.loop import BatchLoss, real_rows
from signloom.translation.labels import search_signs
from signloom.translation.options import SignSearch
from signloom.translation.translator import Translator
from tests import tiny

MODEL = dataclasses.replace(tiny.MODEL, family="encoder_only")


def test_the_loss_of_a_sentence_is_that_of_its_tokens_with_eos_for_the_blank() -> None:
    data = tiny.training_data()
    (batch,) = FixedBatches(data.train, tiny.FEATURES, max_frames=200, pad=data.tokenizer.pad)
    checkpoint = tiny.checkpoint(data.tokenizer, model=MODEL, ctc=data.labels)
    assert isinstance(checkpoint.model, EncoderOnly)
    objective = BatchLoss(checkpoint.model, tiny.TRAIN, pad=data.tokenizer.pad, subsampling=1)
    losses = objective(batch, real_rows(batch))
    states = checkpoint.model.encode(batch.src, batch.src_valid).states
    lengths = batch.tgt_valid.sum(dim=1) - 2
    expected = functional.ctc_loss(
        checkpoint.model.emit(states).log_softmax(dim=-1).transpose(0, 1),
        batch.tgt[:, 1:],
        batch.src_valid.sum(dim=1),
        lengths,
        blank=data.tokenizer.eos,
        reduction="sum",
    )
    torch.testing.assert_close(losses.text, expected)
    assert objective.count(batch)[0] == lengths.sum()
    assert losses.ctc > 0  # the labels of the signs
    checkpoint.model.ctc = None
    alone = BatchLoss(
        checkpoint.model, tiny.run_options(ctc_weight=0.0).train, pad=0, subsampling=1
    )
    loss, tokens, _, _ = alone.score(batch, real_rows(batch)).tolist()
    assert (loss, tokens) == (pytest.approx(expected.item(), rel=1e-5), lengths.sum())


def test_what_the_positions_spell_is_the_sentence() -> None:
    checkpoint = tiny.checkpoint(model=MODEL)
    translator, clip = Translator(checkpoint, torch.device("cpu")), tiny.sequence()
    (log_probs,) = translator._paces([translator.rows(clip)], "text")
    assert log_probs[:, checkpoint.tokenizer.eos + 1].max() < -9e3  # no position ends a sentence
    tokens = [label - 1 for label in search_signs(log_probs, SignSearch())]
    (translation,) = translator.translate([clip], tiny.decoding())
    assert translation.hypothesis.tokens == (*tokens, checkpoint.tokenizer.eos)
