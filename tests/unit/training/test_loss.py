import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from signloom.training import loss as loss_module
from signloom.training.loss import consistency_loss, ctc_loss, head_loss, head_score
from signloom.translation.labels import weigh_labels

WIDTH = 8


def test_smoothed_cross_entropy_by_hand() -> None:
    logits = torch.log(torch.tensor([[0.7, 0.2, 0.1]]))
    spread = 0.1 / 3  # 0.1 of the target is spread over three tokens
    expected = -((0.9 + spread) * math.log(0.7) + spread * math.log(0.2) + spread * math.log(0.1))
    loss = head_loss(logits, torch.eye(3), None, torch.tensor([0]), label_smoothing=0.1)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_ctc_by_hand() -> None:
    # Two positions, one label: "x blank", "blank x" and "x x" all read as x.
    probabilities = torch.tensor([[[0.6, 0.4], [0.3, 0.7]]])
    expected = -math.log(0.4 * 0.3 + 0.6 * 0.7 + 0.4 * 0.7)
    loss, counted = ctc_loss(
        probabilities.log(),
        torch.ones(1, 2, dtype=torch.bool),
        torch.tensor([[1]]),
        torch.tensor([1]),
    )
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert counted.tolist() == [True]


def test_clips_without_labels_or_too_short_for_them_cost_nothing() -> None:
    logits = torch.randn(4, 3, 4, requires_grad=True)
    valid = torch.tensor([[True] * 3, [True, False, False], [True, True, False], [True] * 3])
    # Nothing to spell, two labels in one position, a repeated label in two, the same in three.
    labels = torch.tensor([[0, 0], [1, 2], [1, 1], [1, 1]])
    loss, counted = ctc_loss(logits, valid, labels, torch.tensor([0, 2, 2, 2]))
    assert counted.tolist() == [False, False, False, True]
    loss.backward()
    assert loss.item() > 0
    assert not logits.grad[:3].any()
    assert logits.grad[3].any()


def test_a_single_sign_is_trained_and_read_by_the_mean_of_its_logits() -> None:
    logits = torch.tensor([[[9.0, 1.0, 2.0], [0.0, 3.0, 5.0], [7.0, 8.0, 0.0]]])
    costs = [math.log(1 + math.exp(1.5)), math.log(1 + math.exp(-1.5))]  # means 2 and 3.5
    clip = loss_module.pool_labels(logits, torch.tensor([[True, True, False]]))
    losses = [ctc_loss(*clip, torch.tensor([[n]]), torch.tensor([1]))[0].item() for n in (1, 2)]
    assert losses == pytest.approx(costs)
    assert weigh_labels(logits[0, :2].log_softmax(dim=-1).numpy()) == pytest.approx(costs)


def test_consistency_is_that_by_hand_in_any_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = torch.Generator().manual_seed(1)
    head = torch.nn.Linear(4, 6)
    for weight in (head.weight, head.bias):
        torch.nn.init.normal_(weight, generator=drawn)
    first, second = (torch.randn(5, 4, generator=drawn, requires_grad=True) for _ in range(2))
    p, q = (head(states).softmax(dim=-1) for states in (first, second))
    expected = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    inputs = [first, second, head.weight, head.bias]
    gradients = torch.autograd.grad(expected, inputs, retain_graph=True)
    for rows in (2, 99):
        most = rows * 6 * 4 * loss_module.KEPT_OF_CONSISTENCY
        monkeypatch.setattr(loss_module, "CPU_LOGITS_BYTES", (0, most))
        loss = consistency_loss(head, first, second)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=0)
        for gradient, exact in zip(torch.autograd.grad(loss, inputs), gradients, strict=True):
            torch.testing.assert_close(gradient, exact, rtol=1e-4, atol=1e-6)


class LossCase:
    """A head and what it projects; gradients are wanted of all three."""

    def __init__(
        self, tokens: int, vocab: int, *, seed: int = 0, bias: bool = True, dtype: Any = None
    ) -> None:
        draw = torch.Generator().manual_seed(seed)
        kinds = {"generator": draw, "dtype": dtype or torch.float64}
        self.states = torch.randn(tokens, WIDTH, **kinds).requires_grad_()
        self.weight = torch.randn(vocab, WIDTH, **kinds).requires_grad_()
        self.bias = torch.randn(vocab, **kinds).requires_grad_() if bias else None
        self.targets = torch.randint(vocab, (tokens,), generator=draw)

    @property
    def inputs(self) -> list[torch.Tensor]:
        return [x for x in (self.states, self.weight, self.bias) if x is not None]

    def gradients(self, loss: torch.Tensor) -> list[torch.Tensor]:
        """Of a mean, as training takes it."""
        return list(torch.autograd.grad(loss / 7, self.inputs))

    def plain(self, label_smoothing: float) -> torch.Tensor:
        logits = functional.linear(self.states, self.weight, self.bias)
        return functional.cross_entropy(
            logits, self.targets, label_smoothing=label_smoothing, reduction="sum"
        )

    def chunked(self, label_smoothing: float, chunk_rows: int | None = None) -> torch.Tensor:
        parts = (self.states, self.weight, self.bias, self.targets)
        return head_loss(*parts, label_smoothing=label_smoothing, chunk_rows=chunk_rows)


# More ids than a matrix product takes at once, so that blocks meet, too.
SIZES = st.tuples(st.integers(0, 9), st.sampled_from([2, 3, 50, loss_module.CPU_BLOCK + 5]))


@settings(deadline=None, max_examples=60)
@given(
    sizes=SIZES,
    rows=st.sampled_from([None, 1, 2, 4, 9, 100]),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    bias=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    seed=st.integers(0, 99),
)
def test_chunks_have_the_plain_loss_and_its_gradients(
    sizes: tuple[int, int],
    rows: int | None,
    smoothing: float,
    bias: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    case = LossCase(*sizes, seed=seed, bias=bias, dtype=dtype)
    expected = case.plain(smoothing)
    loss = case.chunked(smoothing, rows)
    # Sums over at most 9 x 1029 numbers around 1 in another order.
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {}
    torch.testing.assert_close(loss, expected, **close)
    for gradient, expected_gradient in zip(
        case.gradients(loss), case.gradients(expected), strict=True
    ):
        assert gradient.dtype == dtype
        torch.testing.assert_close(gradient, expected_gradient, **close)


@pytest.mark.parametrize("tokens", [0, 1, 11])
def test_a_score_is_the_plain_loss_and_the_right_guesses(tokens: int) -> None:
    case = LossCase(tokens, 30, dtype=torch.float32)
    guesses = functional.linear(case.states, case.weight, case.bias).argmax(dim=1)
    case.targets[::2] = guesses[::2]
    score = head_score(case.states, case.weight, case.bias, case.targets)
    torch.testing.assert_close(score.loss, case.plain(0.0).detach())
    assert score.right.item() == (guesses == case.targets).sum().item()
    assert not score.loss.requires_grad


class LargestTensor(TorchDispatchMode):
    """Sees how large new tensors are, in the forward and the backward pass."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        memories = {memory_of(x) for x in args if isinstance(x, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor) and memory_of(tensor) not in memories:
                self.numbers = max(self.numbers, tensor.numel())
        return result


def memory_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_the_logits_of_all_tokens_never_exist_together() -> None:
    case = LossCase(300, 5000)
    with LargestTensor() as largest:
        case.gradients(case.plain(0.1))
    assert largest.numbers == 300 * 5000
    with LargestTensor() as chunked:
        case.gradients(case.chunked(0.1, chunk_rows=16))
    assert chunked.numbers == 16 * 5000  # more than the weight's 8 x 5000


@pytest.mark.parametrize(("tokens", "rows"), [(8, 8), (90, 10), (150, 15), (300, 20)])
def test_logits_held_are_bounded(tokens: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CPU_LOGITS_BYTES", (4 * 5000 * 10, 4 * 5000 * 20))
    case = LossCase(tokens, 5000)
    case.weight.requires_grad_(False)
    with LargestTensor() as chunked:
        torch.autograd.grad(case.chunked(0.1), [case.states])
    assert chunked.numbers == rows * 5000
    with LargestTensor() as scored:
        head_score(case.states, case.weight, case.bias, case.targets)
    assert scored.numbers == rows * 5000


def test_no_gradient_is_made_where_none_is_wanted() -> None:
    case = LossCase(20, 5000)
    case.weight.requires_grad_(False)
    with LargestTensor() as largest:
        (by_states,) = torch.autograd.grad(case.chunked(0.1, chunk_rows=2), [case.states])
    assert largest.numbers < case.weight.numel()
    case.weight.requires_grad_()
    expected = torch.autograd.grad(case.chunked(0.1, chunk_rows=2), case.inputs)[0]
    torch.testing.assert_close(by_states, expected)
    with torch.no_grad():
        assert not case.chunked(0.1).requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_rounds_products_and_no_sums(smoothing: float) -> None:
    case = LossCase(200, 3000, dtype=torch.float32)
    exact = case.gradients(case.plain(smoothing))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = case.chunked(smoothing, chunk_rows=5)
        plain = functional.linear(case.states, case.weight, case.bias).float()
        expected = functional.cross_entropy(
            plain, case.targets, label_smoothing=smoothing, reduction="sum"
        )
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(case.plain(smoothing).item(), rel=2e-3)
    for ours, plainly, true in zip(
        case.gradients(loss), case.gradients(expected), exact, strict=True
    ):
        assert ours.dtype == torch.float32
        # 8 bits: 0.4 % of each product. 40 chunks must not add to what one product loses.
        error, reference = (ours - true).norm() / true.norm(), (plainly - true).norm() / true.norm()
        assert error < max(1.1 * reference, 0.01)


def test_a_gradient_becomes_the_parameters_own_without_a_copy() -> None:
    case = LossCase(30, 5000)
    weight = torch.nn.Parameter(case.weight.detach())
    loss = head_loss(case.states, weight, None, case.targets, label_smoothing=0.0)
    with LargestTensor() as backward:
        loss.backward()
    assert weight.grad is not None
    assert backward.numbers < weight.numel()
