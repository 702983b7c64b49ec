"""Logits and truth come in, the loss to minimise goes out.

Shape letters: B clips, T target tokens, V vocabulary, M memory positions, L labels, K CTC labels.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


def token_loss(
    logits: Float[Tensor, "B T V"],
    targets: Int[Tensor, "B T"],
    valid: Bool[Tensor, "B T"],
    *,
    label_smoothing: float,
) -> Float[Tensor, ""]:
    """Return the sum over real tokens of the label-smoothed cross entropy, in nats.

    Args:
        logits: Of each next token.
        targets: The next tokens.
        valid: Which of them are real; the others count nothing.
        label_smoothing: Share of the target spread evenly over the vocabulary, [0, 1).

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4.
    """
    # Selecting the real rows first spares the softmax of padding.
    return functional.cross_entropy(
        logits[valid].float(), targets[valid], label_smoothing=label_smoothing, reduction="sum"
    )


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
        logits: Of the labels at each memory position.
        valid: Which positions are real.
        labels: From 1; filled with the blank, 0.
        label_lengths: Labels of each clip.

    Returns:
        The sum, and which clips it counts.

    Source: Graves et al. (2006); for glosses in translation Camgöz et al. (2020).
    """
    repeats = (labels[:, 1:] == labels[:, :-1]) & (labels[:, 1:] != 0)
    has_room = label_lengths + repeats.sum(dim=1) <= valid.sum(dim=1)
    counted = has_room & (label_lengths > 0)
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
