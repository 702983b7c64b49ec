"""A model comes in, its optimiser and learning-rate schedule go out."""

import math

import torch
from torch import nn


def build_optimizer(
    model: nn.Module, *, learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """Build AdamW whose weight decay spares biases and norms.

    Source: Loshchilov and Hutter (2019).
    """
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), fused=True)


def build_schedule(
    optimizer: torch.optim.Optimizer, *, warmup_steps: int, total_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """Build a schedule that rises linearly, then falls along a cosine to a twentieth."""

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        share = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
