"""Losses: cross-entropy in chunks of the vocabulary, CTC, label smoothing.

Shape letters: N target tokens, D model width, V vocabulary, R rows of a chunk; B clips, T target
positions, M memory positions, L labels, K CTC labels.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from signloom.models.layers import Head

# Logits held together, in bytes of float32: a tenth of all, but within these bounds. Fewer would
# cost a CPU time, and more gain it little (tests/bench/loss.py). A GPU's were chosen, not measured:
# its products must be large.
CPU_LOGITS_BYTES = 22 * 2**20, 64 * 2**20
GPU_LOGITS_BYTES = 512 * 2**20, 512 * 2**20
# Matrices of logits' size that autograd keeps of a consistency loss, measured.
KEPT_OF_CONSISTENCY = 6
# Ids of one matrix product: what a CPU's cache holds; again a GPU's are many.
CPU_BLOCK = 1024
GPU_BLOCK = 16_384


class HeadScore(NamedTuple):
    """Sums over target tokens."""

    loss: Float[Tensor, ""]  # plain cross entropy, nats
    right: Int[Tensor, ""]  # tokens predicted


def text_loss(
    head: nn.Module,
    states: Float[Tensor, "N D"],
    targets: Int[Tensor, " N"],
    label_smoothing: float,
) -> Float[Tensor, ""]:
    """Return the sum over target tokens of the smoothed cross entropy of a model's head, nats."""
    matrix = cast(Head, head)
    return head_loss(states, matrix.weight, matrix.bias, targets, label_smoothing=label_smoothing)


def text_score(
    head: nn.Module, states: Float[Tensor, "N D"], targets: Int[Tensor, " N"]
) -> HeadScore:
    """Return plain cross entropy and right predictions of a model's head."""
    matrix = cast(Head, head)
    return head_score(states, matrix.weight, matrix.bias, targets)


def head_loss(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    *,
    label_smoothing: float,
    chunk_rows: int | None = None,
) -> Float[Tensor, ""]:
    """Return the sum over target tokens of the label-smoothed cross entropy, in nats.

    The logits, states times weight plus bias, are made for some rows at a time and turned into
    gradients immediately, so that N x V numbers never exist: at 130,000 ids they would be most of a
    step's memory. Under autocast the matrix products run in its precision; softmax, loss and the
    sums of gradients over chunks stay in float32. It can be differentiated once.

    Args:
        states: What the head projects, at real target positions only: `states[valid]`.
        weight: Weight of the head, tied to an embedding or not.
        targets: The next token of each state.
        label_smoothing: Share of the target spread evenly over the vocabulary, [0, 1).
        chunk_rows: Rows of logits held together; None: what suits the device.

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4; gradients made in
    the forward pass, Hsu et al. (2024), "Liger Kernel".
    """
    inputs = (
        states,
        weight,
        bias,
        targets,
        label_smoothing,
        chunk_rows or _suitable_rows(weight, len(targets)),
    )
    if torch.is_grad_enabled():
        loss: Tensor = _HeadLoss.apply(*inputs)  # type: ignore[no-untyped-call]
        return loss
    return _loss_and_gradients(*inputs, needed=(False, False, False))[0]


@torch.no_grad()
def head_score(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
) -> HeadScore:
    """Return plain cross entropy and right predictions, made in chunks as those of `head_loss`."""
    head = _Head(weight, bias)
    loss = torch.zeros((), dtype=head.sum_dtype, device=weight.device)
    right = torch.zeros((), dtype=torch.int64, device=weight.device)
    for chunk, log_probs in head.log_probs(states, _suitable_rows(weight, len(targets))):
        truth = targets[chunk]
        loss -= log_probs.gather(1, truth[:, None]).sum()
        right += (log_probs.argmax(dim=1) == truth).sum()
    return HeadScore(loss, right)


class _HeadLoss(torch.autograd.Function):
    """The loss of `head_loss`, whose gradients are ready when it is."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Compute loss and gradients; the inputs are those of `_loss_and_gradients`."""
        loss, ctx.gradients = _loss_and_gradients(*inputs, needed=ctx.needs_input_grad[:3])
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients."""
        if ctx.gradients is None:
            raise RuntimeError("head_loss was differentiated a second time; compute it again")
        # Handed over, not kept: autograd then makes them the parameters' own without a copy.
        gradients, ctx.gradients = ctx.gradients, None
        scaled = (None if gradient is None else gradient.mul_(grads[0]) for gradient in gradients)
        return (*scaled, None, None, None)


def _loss_and_gradients(
    states: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    targets: Int[Tensor, " N"],
    smoothing: float,
    rows: int,
    *,
    needed: tuple[bool, ...],
) -> tuple[Float[Tensor, ""], tuple[Tensor | None, ...]]:
    """Return the loss and its gradients by states, weight and bias, where they are needed."""
    head = _Head(weight, bias)
    loss = torch.zeros((), dtype=head.sum_dtype, device=weight.device)
    by_states, by_weight, by_bias = (
        torch.zeros_like(x, dtype=head.sum_dtype) if x is not None and is_needed else None
        for x, is_needed in zip((states, weight, bias), needed, strict=True)
    )
    for chunk, log_probs in head.log_probs(states, rows):
        truth = torch.arange(len(log_probs), device=loss.device), targets[chunk]
        loss -= (1 - smoothing) * log_probs[truth].sum()
        if smoothing:
            loss -= smoothing * log_probs.mean(dim=1).sum()
        if not any(needed):
            continue
        # From here the same memory holds the gradient by the logits: prediction less truth.
        by_logits = log_probs.exp_()
        if smoothing:
            by_logits -= smoothing / weight.shape[0]
        by_logits[truth] -= 1 - smoothing
        if by_bias is not None:
            by_bias += by_logits.sum(dim=0)
        head.add_gradients(
            by_logits, states[chunk], None if by_states is None else by_states[chunk], by_weight
        )
    gradients = zip((by_states, by_weight, by_bias), (states, weight, bias), strict=True)
    return loss, tuple(None if g is None or x is None else g.to(x.dtype) for g, x in gradients)


class _Head:
    """A projection to logits, multiplied block by block in the precision of autocast."""

    def __init__(self, weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None) -> None:
        kind = weight.device.type
        is_cast = torch.is_autocast_enabled(kind) and weight.dtype != torch.float64
        self.dtype = torch.get_autocast_dtype(kind) if is_cast else weight.dtype
        # float32 or better, in any precision of the products.
        self.sum_dtype = torch.promote_types(self.dtype, torch.float32)
        self.weight = weight.detach().to(self.dtype)
        self.bias = None if bias is None else bias.detach().to(self.dtype)
        step = CPU_BLOCK if kind == "cpu" else GPU_BLOCK
        self.blocks = [slice(i, i + step) for i in range(0, weight.shape[0], step)]

    def log_probs(
        self, states: Float[Tensor, "N D"], rows: int
    ) -> Iterator[tuple[slice, Float[Tensor, "R V"]]]:
        """Give some rows of log probabilities at a time, in memory that may be written to."""
        shape = min(rows, len(states)), len(self.weight)
        products = torch.empty(shape, dtype=self.dtype, device=states.device)
        # The same memory where no other precision is needed.
        wide = products.to(self.sum_dtype)
        for start in range(0, len(states), rows):
            chunk = slice(start, min(start + rows, len(states)))
            logits, log_probs = products[: len(states[chunk])], wide[: len(states[chunk])]
            x = states[chunk].detach().to(self.dtype)
            for block in self.blocks:
                torch.mm(x, self.weight[block].t(), out=logits[:, block])
                if self.bias is not None:
                    logits[:, block] += self.bias[block]
            if self.dtype != self.sum_dtype:
                log_probs.copy_(logits)
            yield chunk, torch.log_softmax(log_probs, dim=1, out=log_probs)

    def add_gradients(
        self,
        by_logits: Float[Tensor, "R V"],
        states: Float[Tensor, "R D"],
        by_states: Float[Tensor, "R D"] | None,
        by_weight: Float[Tensor, "V D"] | None,
    ) -> None:
        """Add to the gradients by states and weight what some rows of logits give them."""
        x = states.detach().to(self.dtype)
        for block in self.blocks:
            factor = by_logits[:, block].to(self.dtype)
            if by_states is not None:
                _add_product(by_states, factor, self.weight[block])
            if by_weight is not None:
                _add_product(by_weight[block], factor.t(), x)


def _add_product(
    total: Float[Tensor, "I K"], left: Float[Tensor, "I J"], right: Float[Tensor, "J K"]
) -> None:
    """Add a matrix product to a total, in the total's precision."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _logits_bytes(device: torch.device) -> tuple[int, int]:
    return CPU_LOGITS_BYTES if device.type == "cpu" else GPU_LOGITS_BYTES


def _suitable_rows(weight: Float[Tensor, "V D"], tokens: int) -> int:
    """Return how many rows of logits a device should hold at a time."""
    least, most = _logits_bytes(weight.device)
    row = weight.shape[0] * 4
    return max(1, min(most, max(least, tokens * row // 10)) // row)


def consistency_loss(
    head: nn.Module, first: Float[Tensor, "N D"], second: Float[Tensor, "N D"]
) -> Float[Tensor, ""]:
    """Return the sum over target tokens of how far two predictions of a head are apart, nats.

    It is the mean of the Kullback-Leibler divergences in both directions. Where autograd would keep
    more than a device should hold, logits are made for some rows at a time, and again for the
    gradients.

    Args:
        head: A model's.
        first: States from which it predicts the next tokens.
        second: Those of the same tokens in another pass.

    Source: Wu et al. (2021), "R-Drop", equation 2.
    """

    def apart(first: Float[Tensor, "R D"], second: Float[Tensor, "R D"]) -> Float[Tensor, ""]:
        p, q = (head(states).float().log_softmax(dim=-1) for states in (first, second))
        return ((p.exp() - q.exp()) * (p - q)).sum() / 2

    vocab = cast(Head, head).weight.shape[0]
    _, most = _logits_bytes(first.device)
    rows = max(1, most // (KEPT_OF_CONSISTENCY * vocab * 4))
    if rows >= len(first):
        return apart(first, second)
    spans = (slice(start, start + rows) for start in range(0, len(first), rows))
    parts = [checkpoint(apart, first[span], second[span], use_reentrant=False) for span in spans]
    return torch.stack(parts).sum()


def ctc_loss(
    logits: Float[Tensor, "B M K"],
    valid: Bool[Tensor, "B M"],
    labels: Int[Tensor, "B L"],
    label_lengths: Int[Tensor, " B"],
) -> tuple[Float[Tensor, ""], Bool[Tensor, " B"]]:
    """Return the sum over clips of the connectionist temporal classification loss, in nats.

    Clips without labels, and clips too short for theirs (each label needs a position, and a blank
    before it if it repeats the one before), count nothing and get no gradient.

    Args:
        logits: Logits of the labels at each memory position.
        valid: Which positions are real.
        labels: From 1; filled with the blank, 0.

    Returns:
        The sum, and which clips it counts.

    Source: Graves et al. (2006); for glosses in translation Camgöz et al. (2020).
    """
    counted = has_ctc_room(valid, labels, label_lengths)
    # (M, B, K), as torch wants it. On the CPU always: its gradient on a GPU adds up in an order
    # that changes from run to run, which torch refuses when it must be deterministic.
    log_probs = logits.float().log_softmax(dim=-1).transpose(0, 1).cpu()
    losses = functional.ctc_loss(
        log_probs,
        labels.cpu(),
        valid.sum(dim=1).cpu(),
        label_lengths.cpu(),
        blank=0,
        reduction="none",
        zero_infinity=True,
    )
    return losses[counted.cpu()].sum().to(logits.device), counted


def pool_labels(
    logits: Float[Tensor, "B M K"], valid: Bool[Tensor, "B M"]
) -> tuple[Float[Tensor, "B 1 K"], Bool[Tensor, "B 1"]]:
    """Return the mean of the real positions as a single position that is no blank, for `ctc_loss`.

    Its loss is then the cross entropy of the label. A clip of one sign needs no alignment, and
    without one a few clips teach more (docs/log/2026-11-26.md).
    """
    real = logits.float()[..., 1:].masked_fill(~valid[..., None], 0)
    means = real.sum(dim=1, keepdim=True) / valid.sum(dim=1).clamp(min=1)[:, None, None]
    return functional.pad(means, (1, 0), value=-1e4), valid.any(dim=1, keepdim=True)


def count_read(
    logits: Float[Tensor, "B M K"],
    valid: Bool[Tensor, "B M"],
    labels: Int[Tensor, "B L"],
    label_lengths: Int[Tensor, " B"],
) -> Int[Tensor, ""]:
    """Return how many labels are those of clips whose likeliest path spells all of theirs."""
    paths = logits.argmax(dim=-1).masked_fill(~valid, 0)
    count = torch.zeros((), dtype=torch.int64, device=labels.device)
    for path, expected, length in zip(paths, labels, label_lengths, strict=True):
        read = path.unique_consecutive()
        count += length * torch.equal(read[read > 0], expected[:length])
    return count


def has_ctc_room(
    valid: Bool[Tensor, "B M"], labels: Int[Tensor, "B L"], label_lengths: Int[Tensor, " B"]
) -> Bool[Tensor, " B"]:
    """Return which clips `ctc_loss` counts: those with labels and with room for them."""
    repeats = (labels[:, 1:] == labels[:, :-1]) & (labels[:, 1:] != 0)
    has_room = label_lengths + repeats.sum(dim=1) <= valid.sum(dim=1)
    return has_room & (label_lengths > 0)
