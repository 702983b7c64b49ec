"""The loss of models that studies train by hand."""

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
    """Return the sum over valid tokens of the label-smoothed cross entropy, nats.

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4.
    """
    return functional.cross_entropy(
        logits[valid].float(), targets[valid], label_smoothing=label_smoothing, reduction="sum"
    )
