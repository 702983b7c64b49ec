"""Optimisers, clipping, learning rates and averages of weights, against their formulas."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from signloom.training import optim
from signloom.training.optim import (
    OptimizerName,
    Schedule,
    ScheduleName,
    build_optimizer,
    clip_gradients,
)

IDS, WIDTH = 12, 4
EVERY = torch.arange(IDS).repeat(2)  # each id twice, so that its rows must be added up


class Model(nn.Module):
    """An embedding and a head."""

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(IDS, WIDTH)
        self.head = nn.Linear(WIDTH, IDS)
        if tied:
            self.head.weight = self.embedding.weight

    def backward(self, tokens: torch.Tensor) -> None:
        logits = self.head(self.embedding(tokens))
        nn.functional.cross_entropy(logits, (tokens + 1) % IDS).backward()


def optimiser_of(
    model: nn.Module, monkeypatch: pytest.MonkeyPatch, *, sparse: bool, name: OptimizerName
) -> torch.optim.Optimizer:
    monkeypatch.setattr(optim, "SPARSE_ROWS", IDS if sparse else IDS + 1)
    return build_optimizer(model, optimizer=name, learning_rate=0.01, weight_decay=0.1)


def train(
    model: Model, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Take a step with each batch; return the gradients' lengths."""
    norms = []
    for tokens in batches:
        optimizer.zero_grad()
        model.backward(tokens)
        norms.append(clip_gradients(model.parameters(), 0.5))
        optimizer.step()
    return norms


def assert_same(first: nn.Module, second: nn.Module) -> None:
    for (name, weight), expected in zip(first.named_parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, msg=name)


@pytest.mark.parametrize("name", ["adamw", "adam"])
@pytest.mark.parametrize("tied", [False, True])
def test_a_sparse_update_of_every_row_is_the_dense_one(
    name: OptimizerName, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense, sparse = Model(tied=tied), Model(tied=tied)
    batches = [EVERY, EVERY.flip(0), EVERY]
    by_dense = optimiser_of(dense, monkeypatch, sparse=False, name=name)
    expected = train(dense, by_dense, batches)
    by_rows = optimiser_of(sparse, monkeypatch, sparse=True, name=name)
    torch.testing.assert_close(train(sparse, by_rows, batches), expected)
    assert sparse.embedding.weight.grad is not None
    assert sparse.embedding.weight.grad.is_sparse == (not tied)  # the head's gradient is dense
    assert_same(sparse, dense)


def test_a_row_by_hand() -> None:
    table = nn.Embedding(optim.SPARSE_ROWS, 1)
    nn.init.constant_(table.weight, 2.0)
    optimizer = build_optimizer(table, optimizer="adamw", learning_rate=0.1, weight_decay=0.5)
    mean = square = 0.0
    expected = 2.0
    for steps, times in enumerate((3, 1), start=1):
        optimizer.zero_grad()
        table(torch.tensor([7] * times)).sum().backward()
        optimizer.step()
        mean = 0.9 * mean + 0.1 * times
        square = 0.98 * square + 0.02 * times**2
        size = math.sqrt(square / (1 - 0.98**steps)) + 1e-8
        expected += -0.1 * 0.5 * expected - 0.1 * mean / (1 - 0.9**steps) / size
    assert table.weight[7].item() == pytest.approx(expected, rel=1e-5)
    assert table.weight[8].item() == 2.0


@pytest.mark.parametrize(("first", "second"), [(True, True), (True, False), (False, True)], ids=str)
def test_a_state_is_resumed(first: bool, second: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    optimizer = optimiser_of(model, monkeypatch, sparse=first, name="adamw")
    train(model, optimizer, [EVERY, EVERY[:5]])
    weights, state = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, [EVERY])
    resumed = Model()
    resumed.load_state_dict(weights)
    restored = optimiser_of(resumed, monkeypatch, sparse=second, name="adamw")
    restored.load_state_dict(state)
    train(resumed, restored, [EVERY])
    assert_same(resumed, model)
    if first == second:
        for weight, another in zip(resumed.parameters(), model.parameters(), strict=True):
            assert torch.equal(weight, another)


def test_processes_together_give_dense_gradients(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = nn.Embedding(optim.SPARSE_ROWS, 1)
    file = tmp_path_factory.mktemp("together") / "store"
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(file), 1), rank=0, world_size=1
    )
    try:
        build_optimizer(table, optimizer="adamw", learning_rate=0.1, weight_decay=0.0)
    finally:
        torch.distributed.destroy_process_group()
    assert not table.sparse


@pytest.mark.parametrize("max_norm", [0.1, 100.0])
def test_clipping_sees_dense_and_sparse_gradients_alike(max_norm: float) -> None:
    dense, sparse = Model(), Model()
    sparse.embedding.sparse = True
    for model in (dense, sparse):
        model.backward(torch.tensor([2, 3, 2, 2]))
    expected = nn.utils.clip_grad_norm_(dense.parameters(), max_norm)
    torch.testing.assert_close(clip_gradients(sparse.parameters(), max_norm), expected)
    for sparse_weight, dense_weight in zip(sparse.parameters(), dense.parameters(), strict=True):
        assert sparse_weight.grad is not None
        torch.testing.assert_close(sparse_weight.grad.to_dense(), dense_weight.grad)


STEPS: dict[str, Callable[[float], float]] = {
    # Weight 2, gradient 1, rate 0.1, decay 0.5: AdamW's first step is the rate, after its decay.
    "adamw": lambda weight: weight - 0.1 * 0.5 * weight - 0.1,
    # A first step of Adam is the rate, however large gradient and decay are.
    "adam": lambda weight: weight - 0.1,
}


@pytest.mark.parametrize("name", STEPS)
def test_the_first_step_by_hand(name: OptimizerName) -> None:
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, 2.0)
    nn.init.constant_(model.bias, 2.0)
    optimizer = build_optimizer(model, optimizer=name, learning_rate=0.1, weight_decay=0.5)
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert model.weight.item() == pytest.approx(STEPS[name](2.0), rel=1e-5)
    # Biases have no decay.
    assert model.bias.item() == pytest.approx(1.9, rel=1e-5)


def schedule_of(name: ScheduleName, *, warmup: int = 10, total: int = 100) -> Schedule:
    optimizer = build_optimizer(
        nn.Linear(2, 2), optimizer="adamw", learning_rate=0.1, weight_decay=0.5
    )
    return Schedule(optimizer, schedule=name, warmup_steps=warmup, total_steps=total)


def rates_of(schedule: Schedule, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(schedule.lr)
        schedule.step()
    return rates


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # At steps 0, 4, 9, 10, 54, 55, 100 and 200. The cosine's middle is half between 1 and .05.
        ("cosine", [0.01, 0.05, 0.1, 0.1, 0.0541577, 0.0525, 0.005, 0.005]),
        (
            "inverse_sqrt",
            [0.01, 0.05, 0.1] + [0.1 * math.sqrt(10 / step) for step in (11, 55, 56, 101, 201)],
        ),
        ("constant", [0.01, 0.05, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]),
    ],
)
def test_rates_rise_in_a_line_and_fall_as_named(name: ScheduleName, expected: list[float]) -> None:
    rates = rates_of(schedule_of(name), 201)
    at = (0, 4, 9, 10, 54, 55, 100, 200)
    assert [rates[step] for step in at] == pytest.approx(expected, rel=1e-5)
    assert max(rates) == pytest.approx(0.1)
