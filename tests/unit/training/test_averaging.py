import copy

import pytest
import torch
from torch import nn

from signloom.training.optim import WeightAverage


def build() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))  # a buffer of integers, too


def move(model: nn.Module, by: float) -> None:
    """Take a step that anyone can add up."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += by
    model[1].num_batches_tracked += 1


def bias_of(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return weights["0.bias"]


def test_a_moving_average_by_hand() -> None:
    model = build()
    start = bias_of(model.state_dict()).clone()
    average = WeightAverage(model, ema_decay=0.2, average_last=0)
    expected, value = 0.0, 0.0
    # The ramp is 2/11 after one step, then 3/12, which is above the decay.
    for decay in (2 / 11, 0.2, 0.2):
        move(model, 1.0)
        value += 1.0
        average.after_step()
        expected = decay * expected + (1 - decay) * value
        torch.testing.assert_close(bias_of(average.weights()), start + expected)
    assert average.weights()["1.num_batches_tracked"].item() == 3


def test_the_mean_of_the_last_epochs() -> None:
    model = build()
    start = bias_of(model.state_dict()).clone()
    average = WeightAverage(model, ema_decay=0.0, average_last=3)
    for expected in (1.0, 1.5, 2.0, 3.0, 4.0):  # of 1; 1, 2; 1, 2, 3; 2, 3, 4; 3, 4, 5
        move(model, 1.0)
        average.after_step()
        average.after_epoch()
        torch.testing.assert_close(bias_of(average.weights()), start + expected)
    assert average.weights()["1.num_batches_tracked"].item() == 5


@pytest.mark.parametrize("options", [(0.9, 0), (0.0, 2)], ids=["moving", "last epochs"])
def test_a_model_has_the_average_for_a_while(options: tuple[float, int]) -> None:
    model = build()
    average = WeightAverage(model, ema_decay=options[0], average_last=options[1])
    for _ in range(2):
        move(model, 1.0)
        average.after_step()
        average.after_epoch()
    own = copy.deepcopy(model.state_dict())
    expected = copy.deepcopy(average.weights())
    with average.applied():
        assert not torch.equal(bias_of(model.state_dict()), bias_of(own))
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, expected[name])
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, own[name])
        assert torch.equal(average.weights()[name], expected[name])


@pytest.mark.parametrize("options", [(0.9, 0), (0.0, 2), (0.0, 0)])
def test_an_average_goes_on_from_its_state_to_the_bit(
    options: tuple[float, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("state") / "state.pt"
    model = build()
    average = WeightAverage(model, ema_decay=options[0], average_last=options[1])
    for epoch in range(5):
        if epoch == 3:
            torch.save((model.state_dict(), average.state_dict()), file)
        move(model, 0.3)
        average.after_step()
        average.after_epoch()
    resumed = build()
    again = WeightAverage(resumed, ema_decay=options[0], average_last=options[1])
    weights, state = torch.load(file, weights_only=True)
    resumed.load_state_dict(weights)
    again.load_state_dict(state)
    for _ in range(2):
        move(resumed, 0.3)
        again.after_step()
        again.after_epoch()
    for name, tensor in average.weights().items():
        assert torch.equal(tensor, again.weights()[name]), name


def test_without_an_average_the_weights_are_the_models_own() -> None:
    model = build()
    average = WeightAverage(model, ema_decay=0.0, average_last=0)
    move(model, 1.0)
    average.after_step()
    average.after_epoch()
    assert bias_of(average.weights()).data_ptr() == model[0].bias.data_ptr()
    with average.applied():
        assert torch.equal(bias_of(average.weights()), model[0].bias)
    assert average.state_dict() == {"steps": 0, "moving": {}, "epochs": []}


def test_two_averages_at_once_are_refused() -> None:
    with pytest.raises(ValueError, match=r"ema_decay 0\.9 and average_last 2; choose one"):
        WeightAverage(build(), ema_decay=0.9, average_last=2)
