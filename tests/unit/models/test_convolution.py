"""The convolutional encoder: its batch norm sees what is real, and its neighbours are near."""

import pytest
import torch
from torch import nn

from signloom.models.convolution import BatchNorm
from tests.contract.variants import build
from tests.tiny import INPUT_WIDTH

LENGTHS = [9, 5, 1]


def padded(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    valid = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
    drawn = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(seed))
    return torch.where(valid[..., None], 2 + 3 * drawn, 100.0), valid


def test_a_batch_norm_is_that_of_torch_over_the_real_positions() -> None:
    ours, torchs = BatchNorm(4), nn.BatchNorm1d(4)
    for seed in range(3):
        x, valid = padded(seed)
        torch.testing.assert_close(ours(x, valid)[valid], torchs(x[valid]))
    assert ours(x, valid & False).isfinite().all()  # a batch of nothing
    theirs = torchs.state_dict()
    del theirs["num_batches_tracked"]
    torch.testing.assert_close(ours.state_dict(), theirs)
    ours.eval()
    alone, together = ours(x[:1], valid[:1]), ours(x, valid)
    torch.testing.assert_close(alone[0], together[0])


@pytest.mark.parametrize("causal", [False, True])
def test_a_position_sees_its_neighbours_alone(causal: bool) -> None:
    model = build(family="convolution", encoder_layers=1, causal_encoder=causal).model
    src = torch.randn(1, 60, INPUT_WIDTH, generator=torch.Generator().manual_seed(1))
    valid = torch.ones(1, 60, dtype=torch.bool)
    changed = src.clone()
    changed[0, 30] += 1
    moved = (model.encode(src, valid).states != model.encode(changed, valid).states).any(dim=2)[0]
    reached = (torch.arange(60)[moved] - 30).tolist()
    # Two kernels of five and one of seven.
    assert (min(reached), max(reached)) == ((0, 14) if causal else (-7, 7))
