"""Logits over a vocabulary come in, the best tokens and their log-probabilities go out.

Shape letters: R rows, V vocabulary, K tokens kept of each row.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

ROWS_AT_ONCE = 4  # whose logits stay in the processor's cache while they are summed
GROUP = 128  # logits of which the largest stands for all in a first round


def best_tokens(
    logits: Float[Tensor, "R V"],
    count: int,
    *,
    banned: Sequence[int],
    banned_pairs: Int[Tensor, "N 2"] | None = None,
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """Return the most likely tokens of each row, best first.

    The log-probabilities are those over the whole vocabulary: what is banned keeps its share.

    Args:
        logits: Overwritten.
        count: Tokens wanted of each row, at most V.
        banned: Tokens that no row may have: log-probability minus infinity.
        banned_pairs: Further bans: row and token.
    """
    total = _log_sum_exp(logits)
    logits[:, list(banned)] = -torch.inf
    if banned_pairs is not None:
        logits[banned_pairs[:, 0], banned_pairs[:, 1]] = -torch.inf
    best, tokens = _top(logits, count)
    return best.float() - total, tokens


def _log_sum_exp(logits: Float[Tensor, "R V"]) -> Float[Tensor, "R 1"]:
    """Return the logarithm of each row's sum, a few rows at a time."""
    sums = []
    for rows in torch.split(logits, ROWS_AT_ONCE):
        most = rows.amax(dim=-1, keepdim=True).float()
        sums.append((rows - most).exp_().sum(dim=-1, keepdim=True).log_() + most)
    return torch.cat(sums)


def _top(logits: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R K"], Tensor]:
    """Return the largest logits of each row and where they are.

    They lie in the groups with the largest maxima, and maxima are found faster than an order.
    """
    groups = logits.shape[1] // GROUP
    if groups <= count:
        return logits.topk(count, dim=-1)
    whole = groups * GROUP
    grouped = logits[:, :whole].view(len(logits), groups, GROUP)
    chosen = grouped.amax(dim=-1).topk(count, dim=-1).indices  # (R, K)
    some = grouped.gather(1, chosen[..., None].expand(-1, -1, GROUP)).flatten(1)
    places = torch.arange(GROUP, device=logits.device) + chosen[..., None] * GROUP
    rest = torch.arange(whole, logits.shape[1], device=logits.device).expand(len(logits), -1)
    best, where = torch.cat((some, logits[:, whole:]), dim=1).topk(count, dim=-1)
    return best, torch.cat((places.flatten(1), rest), dim=1).gather(1, where)


def repeats(history: Int[Tensor, "R T"], size: int) -> Int[Tensor, "N 2"]:
    """Return the row and token of each continuation that would repeat a run of `size` tokens."""
    if history.shape[1] < size:
        return history.new_empty(0, 2)
    runs = history.unfold(1, size, 1)  # (R, T - size + 1, size)
    last = history[:, history.shape[1] - size + 1 :]
    is_same = (runs[..., :-1] == last[:, None]).all(dim=-1)
    rows, starts = torch.nonzero(is_same, as_tuple=True)
    return torch.stack((rows, runs[rows, starts, -1]), dim=1)
