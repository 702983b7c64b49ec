"""The contrastive loss of study ksl77 by its written-out formula."""

import math
import operator

import pytest
import torch

from labs.pretraining.contrast import TEMPERATURE, contrast_loss


def test_each_view_is_compared_with_all_others_and_finds_its_neighbour() -> None:
    views = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    units = (views / views.norm(dim=1, keepdim=True)).tolist()
    near = [[math.exp(sum(map(operator.mul, x, y)) / TEMPERATURE) for y in units] for x in units]
    losses = [
        -math.log(near[row][partner] / (sum(near[row]) - near[row][row]))
        for row, partner in enumerate([1, 0, 3, 2, 5, 4])
    ]
    assert float(contrast_loss(views)) == pytest.approx(sum(losses) / 6, rel=1e-9)
