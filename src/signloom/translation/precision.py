"""Models with fewer bits: bfloat16 and int8 weights.

docs/translation.md says what it costs and gains.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from signloom.errors import UserError
from signloom.models.layers import TiedProjection
from signloom.models.seq2seq import Seq2Seq

# The least side of a matrix that oneDNN is given in float32, too: smaller ones gain little by it.
PACKED_SIDE = 256
Precision = Literal["float32", "bfloat16", "int8"]
MOST = 127  # of a weight
# Of an activation, either side of zero: 7 bits, because processors without VNNI add products of
# two in 16 bits, which 8 would overflow.
MOST_ACTIVATION = 63


def reduce_precision(model: Seq2Seq, precision: Precision) -> Seq2Seq:
    """Return the model with its weights in the given precision, for inference only.

    Args:
        model: In float32, in evaluation mode; changed in place.
        precision: float32 leaves its numbers as they are, and has oneDNN multiply by large
            matrices on a CPU; bfloat16 computes in it; int8 multiplies by
            matrices in it, on a CPU, and keeps everything else (norms, recurrences) in float32.

    Raises:
        UserError: If int8 is asked for and the model is not on a CPU, or of a family without.
    """
    device = next(model.parameters()).device
    if precision == "float32":
        has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        if device.type == "cpu" and has_onednn and model.has_int8:
            _replace_linear(model, PackedLinear, PACKED_SIDE)
        return model
    if precision == "bfloat16":
        return model.to(torch.bfloat16)
    if not model.has_int8:
        raise UserError(
            "precision int8 is not there for a pretrained text model; choose float32 or bfloat16"
        )
    if device.type != "cpu":
        raise UserError(
            f"precision int8 is for CPUs, and the model is on {device}; choose bfloat16 there"
        )
    _replace_linear(model, Int8Linear, 1)
    return model


def _replace_linear(
    model: Seq2Seq, layer: "type[Int8Linear | PackedLinear]", least_side: int
) -> None:
    """Put another layer in for each projection whose matrix has no smaller side."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if (
                isinstance(child, nn.Linear | TiedProjection)
                and min(child.weight.shape) >= least_side
            ):
                parent.register_module(name, layer(child.weight, child.bias))


class PackedLinear(nn.Module):
    """A linear layer whose float32 weights lie as oneDNN reads them.

    So no product has to arrange them first, which is much of a product with the few rows of a step
    of decoding.
    """

    def __init__(self, weight: Float[Tensor, "O D"], bias: Float[Tensor, " O"] | None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B O"]:
        """Return x W' + b."""
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.packed, self.bias, "none", [], ""
        )
        return product


class Int8Linear(nn.Module):
    """A linear layer whose weights are int8, a scale each output; inputs a scale each row.

    Rows are rounded when they come ("dynamic" quantisation), so that no data is needed to prepare
    it. The product is oneDNN's, by the operator that torch.compile puts in for a quantised layer.
    """

    def __init__(self, weight: Float[Tensor, "O D"], bias: Float[Tensor, " O"] | None) -> None:
        super().__init__()
        weight = weight.detach()
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / MOST
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        self.scales = scales
        self.zeros = torch.zeros(len(scales), dtype=torch.int64)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B O"]:
        """Return x W' + b."""
        rows = x.reshape(-1, x.shape[-1])
        # The largest magnitude, in two passes that write nothing of the size of the rows.
        largest = torch.maximum(rows.amax(1, keepdim=True), rows.amin(1, keepdim=True).neg_())
        steps = largest.div_(MOST_ACTIVATION).clamp_(min=torch.finfo(torch.float32).tiny)
        # 0 to 126 has the same bits in int8 as in uint8, which a processor converts to five times
        # as slowly.
        rounded = (rows / steps).round_().add_(MOST_ACTIVATION).to(torch.int8).view(torch.uint8)
        product = torch.ops.onednn.qlinear_pointwise(
            rounded,
            1.0,
            MOST_ACTIVATION,
            self.packed,
            self.scales,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        product = product.mul_(steps)
        if self.bias is not None:
            product += self.bias
        return product.view(*x.shape[:-1], -1)
