"""Optimisers, gradient clipping and learning-rate schedules."""

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Embeddings of at least this many rows are updated by the rows that a batch uses. A pruned
# vocabulary has fewer and is updated in the usual way, which is too slow for the full one
# (tests/bench/loss.py).
SPARSE_ROWS = 65_536
BETAS = (0.9, 0.98)
FLOOR = 0.05  # least share of the highest rate, of the schedule cosine

CLIP_NORM = 1.0  # longest gradient
OptimizerName = Literal["adamw", "adam"]
ScheduleName = Literal["cosine", "inverse_sqrt", "constant"]


def build_optimizer(
    model: nn.Module, *, optimizer: OptimizerName, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Build an optimiser whose weight decay spares biases and norms.

    On a CPU that trains alone, large embeddings are marked to give sparse gradients, and are
    updated as `RowAdam` says unless a head is tied to them, whose gradient is dense. A GPU is fast
    enough without, and processes that train together add up dense gradients.

    Args:
        model: On the device on which it is trained.
        optimizer: `adamw` decays weights apart from the gradient, `adam` as a part of it.
        learning_rate: Highest.
        weight_decay: Weight decay of matrices.

    Source: Kingma and Ba (2015), with the second moment's rate of Vaswani et al. (2017); Loshchilov
    and Hutter (2019).
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() > 1]
    vectors = [parameter for parameter in trained if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    is_alone = not (torch.distributed.is_available() and torch.distributed.is_initialized())
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = (
                is_alone
                and module.weight.device.type == "cpu"
                and module.num_embeddings >= SPARSE_ROWS
            )
    return RowAdam(groups, learning_rate=learning_rate, is_decoupled=optimizer == "adamw")


class RowAdam(torch.optim.Adam):
    """Fused Adam that updates, of parameters with sparse gradients, only the rows they have.

    Where a dense step reads and writes every weight, gradient and moment, this one costs what the
    batch uses. It differs in rows that no token of the batch uses: they keep weights and moments,
    while a dense step would let the moments fade, move the row by what is left of them, and decay
    it. Used rows are updated as in a dense step, with the bias correction of all steps so far. The
    state is that of `torch.optim.AdamW`, so training may go on from the one with the other.

    Source: Kingma and Ba (2015); rows as in the LazyAdam of TensorFlow Addons.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], *, learning_rate: float, is_decoupled: bool
    ) -> None:
        super().__init__(
            groups, lr=learning_rate, betas=BETAS, fused=True, decoupled_weight_decay=is_decoupled
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the parameters by their gradients, which stay."""
        sparse = [
            (group, parameter, parameter.grad.coalesce())
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and parameter.grad.is_sparse
        ]
        for _, parameter, _ in sparse:
            parameter.grad = None  # hidden from the dense step
        super().step(closure)
        for group, parameter, gradient in sparse:
            self._update_rows(group, parameter, gradient)
            parameter.grad = gradient

    def _update_rows(self, group: dict[str, Any], parameter: nn.Parameter, grad: Tensor) -> None:
        """Take a step with the rows of a coalesced sparse gradient."""
        state = self.state[parameter]
        if not state:  # as the dense step would make it
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        steps, (beta1, beta2) = state["step"].item(), group["betas"]
        rows, values = grad.indices()[0], grad.values()
        weights = parameter[rows]
        if group["decoupled_weight_decay"]:
            weights *= 1 - group["lr"] * group["weight_decay"]
        else:
            values = values.add(weights, alpha=group["weight_decay"])
        mean = state["exp_avg"][rows].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        size = (square.sqrt() / math.sqrt(1 - beta2**steps)).add_(group["eps"])
        weights.addcdiv_(mean, size, value=-group["lr"] / (1 - beta1**steps))
        state["exp_avg"].index_copy_(0, rows, mean)
        state["exp_avg_sq"].index_copy_(0, rows, square)
        parameter.index_copy_(0, rows, weights)


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Float[Tensor, ""]:
    """Shorten the gradients, dense and sparse, to a joint length.

    Returns:
        The length that they had; infinite or NaN if one of them was.
    """
    dense, values = [], []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # Rows that are there twice add up before they have a length.
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            dense.append(parameter)
    norm = nn.utils.get_total_norm([*(p.grad for p in dense if p.grad is not None), *values])
    nn.utils.clip_grads_with_norm_(dense, max_norm, norm)
    for rows in values:
        rows *= (max_norm / (norm + 1e-6)).clamp(max=1.0)  # as torch does
    return norm


class Schedule:
    """Sets the learning rate of every optimiser step: up in a line, then as its name says.

    `cosine` falls along a cosine to a twentieth of the highest rate at the last step;
    `inverse_sqrt` falls with the root of the steps (Vaswani et al., 2017, section 5.3);
    `constant` stays.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        schedule: ScheduleName,
        warmup_steps: int,
        total_steps: int,
    ) -> None:
        self._optimizer, self._name = optimizer, schedule
        self._warmup_steps, self._total_steps = warmup_steps, total_steps
        self.steps = 0  # taken so far
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self._apply()

    @property
    def lr(self) -> float:
        """The rate of the next step."""
        return float(self._optimizer.param_groups[0]["lr"])

    def step(self) -> None:
        """Count a step that was taken."""
        self.steps += 1
        self._apply()

    def state_dict(self) -> dict[str, int]:
        """Return what goes on where training does."""
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a state; the optimiser's must have been loaded before."""
        self.steps = state["steps"]
        self._apply()

    def _apply(self) -> None:
        """Set the rate of the next step."""
        for group in self._optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self._factor(self.steps)

    def _factor(self, step: int) -> float:
        """Return the share of the highest rate, at a step counted from 0."""
        if step < self._warmup_steps:
            return (step + 1) / self._warmup_steps
        match self._name:
            case "cosine":
                decay_steps = max(1, self._total_steps - self._warmup_steps)
                share = min(1.0, (step - self._warmup_steps) / decay_steps)
                return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * share))
            case "inverse_sqrt":
                return math.sqrt(self._warmup_steps / (step + 1))
            case "constant":
                return 1.0
