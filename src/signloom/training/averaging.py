"""The weights of steps or epochs come in, their mean goes out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


class WeightAverage:
    """The weights by which dev is scored and which are saved: a mean, or the model's own.

    Either an exponential moving average over steps (`ema_decay`), or the mean over the ends of the
    last epochs (`average_last`). Early on the moving average reaches back less far, as decay is
    at most (1 + steps) / (10 + steps); it costs a pass over all weights a step. Neither: the
    model's own weights, at no cost.

    Source: Polyak and Juditsky (1992); the ramp of TensorFlow's ExponentialMovingAverage; the mean
    over checkpoints, Vaswani et al. (2017), section 6.1, and auto_avsr.
    """

    def __init__(self, model: nn.Module, *, ema_decay: float, average_last: int) -> None:
        if ema_decay and average_last:
            raise ValueError(
                f"found ema_decay {ema_decay} and average_last {average_last}; choose one, 0 is off"
            )
        self._model, self._decay, self._last = model, ema_decay, average_last
        self._steps = 0
        self._moving: Weights = _copy(model.state_dict()) if ema_decay else {}
        self._epochs: list[Weights] = []

    @torch.no_grad()
    def after_step(self) -> None:
        """Take in the weights after an optimiser step."""
        if not self._decay:
            return
        self._steps += 1
        share = 1 - min(self._decay, (1 + self._steps) / (10 + self._steps))
        for name, weights in self._model.state_dict().items():
            if weights.is_floating_point():
                self._moving[name].lerp_(weights, share)
            else:
                self._moving[name].copy_(weights)

    def after_epoch(self) -> None:
        """Take in the weights after an epoch, before `weights` is asked for them."""
        if self._last:
            self._epochs = [*self._epochs, _copy(self._model.state_dict())][-self._last :]

    def weights(self) -> Weights:
        """Return the weights to score and save; copy them if they are to stay as they are."""
        if self._decay:
            return self._moving
        return _mean(self._epochs) if self._epochs else self._model.state_dict()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the averaged weights for a while."""
        if not self._decay and not self._epochs:
            yield
            return
        own = _copy(self._model.state_dict())
        self._model.load_state_dict(self.weights())
        try:
            yield
        finally:
            self._model.load_state_dict(own)

    def state_dict(self) -> dict[str, Any]:
        """Return what goes on where training does."""
        return {"steps": self._steps, "moving": self._moving, "epochs": self._epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, which may lie on another device."""
        own = self._model.state_dict()
        moving, *epochs = (
            {name: tensor.to(own[name].device, copy=True) for name, tensor in weights.items()}
            for weights in (state["moving"], *state["epochs"])
        )
        self._steps, self._moving, self._epochs = state["steps"], moving, epochs


def _copy(weights: Weights) -> Weights:
    """Return weights that no later step changes."""
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


@torch.no_grad()
def _mean(epochs: list[Weights]) -> Weights:
    """Return the mean of floating-point tensors, and of others the last."""
    total = _copy(epochs[-1])
    for name, tensor in total.items():
        if tensor.is_floating_point():
            for weights in epochs[:-1]:
                tensor += weights[name]
            tensor /= len(epochs)
    return total
