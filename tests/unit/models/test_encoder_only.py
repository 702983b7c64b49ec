"""Encoder-only models against PyTorch's CTC loss and every alignment."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from signloom.models.encoder_only import IMPOSSIBLE, EncoderOnly, LabelPrefixes
from tests import tiny
from tests.contract.variants import EOS, build

BOS = 1


def encoder_only(**changes: object) -> EncoderOnly:
    model = build(family="encoder_only", **changes).model
    assert isinstance(model, EncoderOnly)
    return model


@pytest.mark.parametrize("sentence", [[5], [5, 6, 7], [5, 5, 6], [], [8, 8, 8]])
def test_the_cross_entropy_of_a_sentence_is_its_ctc_loss(sentence: list[int]) -> None:
    model = encoder_only()
    src, valid = tiny.source(1, [9, 7])
    memory = model.encode(src, valid)
    log_probs = model(src, valid, torch.tensor([[BOS, *sentence]] * 2)).double()
    truth = torch.tensor([[*sentence, EOS]] * 2)
    found = -log_probs.gather(2, truth[..., None]).sum(dim=(1, 2))
    expected = functional.ctc_loss(
        model.emit(memory.states).double().log_softmax(dim=-1).transpose(0, 1),
        torch.tensor([sentence] * 2, dtype=torch.int64),
        valid.sum(dim=1),
        torch.tensor([len(sentence)] * 2),
        blank=EOS,
        reduction="none",
    )
    # The logits are float32.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_sentence_longer_than_its_clip_is_impossible_and_teaches_numbers() -> None:
    model = encoder_only()
    src, valid = tiny.source(1, [2])
    log_probs = model(src, valid, torch.tensor([[BOS, 5, 6, 7]]))
    loss = functional.nll_loss(log_probs[0], torch.tensor([5, 6, 7, EOS]), reduction="sum")
    assert loss > 50
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_continuations_equal_the_sum_over_alignments() -> None:
    logits = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(5))
    probs = logits[0].double().softmax(dim=-1)
    prefix = (1,)
    sums = {0: 0.0, 1: 0.0, 2: 0.0}  # 0: nothing follows
    for alignment in itertools.product(range(3), repeat=4):
        spelt = tuple(label for label, _ in itertools.groupby(alignment) if label)
        if spelt[:1] == prefix:
            p = math.prod(probs[m, label].item() for m, label in enumerate(alignment))
            sums[spelt[1] if len(spelt) > 1 else 0] += p
    prefixes = LabelPrefixes.start(logits, torch.ones(1, 4, dtype=torch.bool))
    found = prefixes.extend(torch.tensor([[[1]]])).continuations()[0, 0].exp()
    expected = torch.tensor([sums[k] for k in range(3)]).double() / sum(sums.values())
    torch.testing.assert_close(found, expected)


def test_what_no_label_stands_for_is_impossible_and_stays_so() -> None:
    start = LabelPrefixes.start(torch.randn(2, 5, 3), torch.ones(2, 5, dtype=torch.bool))
    found = start.extend(torch.tensor([1, -1, 2]).expand(2, 1, 3))
    assert found.log_probs.tolist() == [[IMPOSSIBLE]] * 2
