"""Parts of models, their sizes and costs."""

import pytest
import torch

from signloom_tools.model_summary import count_by_half, count_mult_adds, list_parts
from tests import tiny
from tests.contract.variants import build


@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_no_part_counts_twice(family: str) -> None:
    subject = build(family=family, tied_embeddings=True)
    tgt = torch.zeros(2, 5, dtype=torch.int64)
    whole, *parts = list_parts(subject.model, [*subject.source([9, 9]), tgt])
    assert len({part.name for part in parts}) == len(parts)
    assert sum(part.parameters for part in parts if part.depth == 1) == whole.parameters
    by_name = {part.name: part for part in parts}
    assert by_name["encoder"].output == [2, 9, 16]
    assert by_name["decoder.output"].parameters == tiny.VOCAB  # its matrix is the embedding's
    halves = count_by_half(subject.model)
    assert sum(halves.values()) == whole.parameters
    assert halves["head"] == tiny.VOCAB
    assert halves["encoder"] == by_name["encoder"].parameters


def test_mult_adds_by_hand() -> None:
    model = tiny.model(ctc_labels=0)
    src, valid = tiny.source(0, [9, 9])
    tgt = torch.zeros(2, 5, dtype=torch.int64)
    b, s, t, f, d, ff, v = 2, 9, 5, tiny.INPUT_WIDTH, 16, 24, tiny.VOCAB
    layer = 4 * d * d + 2 * d * ff  # query, key, value, output; feed-forward
    encode = s * f * d + 2 * (s * layer + 2 * s * s * d)
    cross = 2 * t * d * d + 2 * s * d * d + 2 * t * s * d
    decode = 2 * (t * layer + 2 * t * t * d + cross) + t * d * v
    assert count_mult_adds(model, [src, valid, tgt]) == {"encode": b * encode, "decode": b * decode}


@pytest.mark.parametrize("bidirectional", [True, False])
def test_mult_adds_of_recurrence_by_hand(bidirectional: bool) -> None:
    subject = build(family="lstm", bidirectional=bidirectional, ctc_labels=0)
    b, s, t, f, d, v = 2, 9, 5, tiny.INPUT_WIDTH, 16, tiny.VOCAB
    width = d // 2 if bidirectional else d
    encode = s * f * d + 2 * s * (d // width) * 4 * width * (d + width)  # 4 gates of x and h
    # The keys, scores, means, what combines them with the states, and the output.
    attend = s * d * d + 2 * t * s * d + t * 2 * d * d + t * d * v
    inputs = [*subject.source([9, 9]), torch.zeros(2, 5, dtype=torch.int64)]
    found = count_mult_adds(subject.model, inputs)
    assert found == {"encode": b * encode, "decode": b * (2 * t * 4 * d * 2 * d + attend)}
