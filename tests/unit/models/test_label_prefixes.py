import itertools
import math

import pytest
import torch

from signloom.models.encoder_only import BLANK, IMPOSSIBLE, LabelPrefixes

LABELS, POSITIONS = 3, 5  # with the blank


def collapse(alignment: tuple[int, ...]) -> tuple[int, ...]:
    """Return what an alignment spells: repeats merged, then blanks removed."""
    return tuple(label for label, _ in itertools.groupby(alignment) if label != BLANK)


def sequence_probabilities(logits: torch.Tensor) -> dict[tuple[int, ...], float]:
    """Sum the probability of every alignment, by what it spells."""
    probs = logits.double().softmax(dim=-1)
    found: dict[tuple[int, ...], float] = {}
    for alignment in itertools.product(range(logits.shape[1]), repeat=len(logits)):
        p = math.prod(probs[m, label].item() for m, label in enumerate(alignment))
        found[collapse(alignment)] = found.get(collapse(alignment), 0.0) + p
    return found


def clips() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(2, POSITIONS, LABELS, generator=generator)
    return logits, torch.tensor([[True] * POSITIONS, [True] * 3 + [False] * 2])


@pytest.mark.parametrize("length", range(5))
def test_prefixes_have_the_probability_of_all_alignments(length: int) -> None:
    logits, valid = clips()
    start = LabelPrefixes.start(logits, valid)
    for prefix in itertools.product(range(1, LABELS), repeat=length):
        labels = torch.tensor(prefix, dtype=torch.int64).expand(2, 1, length)
        found = start.extend(labels)
        whole = found.end(torch.ones(2, 1, dtype=torch.bool))
        for clip in range(2):
            every = sequence_probabilities(logits[clip][valid[clip]])
            begins = sum(p for spelt, p in every.items() if spelt[:length] == prefix)
            for got, expected in (
                (found.log_probs[clip, 0], begins),
                (whole.log_probs[clip, 0], every.get(prefix, 0.0)),
            ):
                log_prob = math.log(expected) if expected else IMPOSSIBLE
                assert got.item() == pytest.approx(log_prob, abs=1e-8)


def test_labels_together_are_labels_one_by_one() -> None:
    logits, valid = clips()
    start = LabelPrefixes.start(logits, valid)
    at_once = start.extend(torch.tensor([1, BLANK, 2, 2]).expand(2, 1, 4))
    one_by_one = start
    for label in (1, 2, 2):
        one_by_one = one_by_one.extend(torch.full((2, 1, 1), label))
    assert torch.equal(at_once.log_probs, one_by_one.log_probs)
    assert torch.equal(at_once.by_blank, one_by_one.by_blank)


def test_what_no_label_stands_for_is_impossible_and_stays_so() -> None:
    start = LabelPrefixes.start(*clips())
    found = start.extend(torch.tensor([1, -1, 2]).expand(2, 1, 3))
    assert found.log_probs.tolist() == [[IMPOSSIBLE]] * 2
