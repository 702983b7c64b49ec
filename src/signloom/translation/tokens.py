"""The next tokens of a search: what a score changes, what is banned, what is best.

Shape letters: R rows (beams of all clips), V vocabulary, K tokens taken of each row.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from signloom.errors import UserError
from signloom.models.seq2seq import Memory, Seq2Seq

ROWS_AT_ONCE = 4  # whose logits stay in the processor's cache while they are summed
GROUP = 128  # logits whose largest represents all in a first round
# Where the decoder's own language model is subtracted, a token needs this share of the best one's
# probability: among the others a small difference of small numbers would decide.
PLAUSIBLE = 0.02


class InternalLanguageModel:
    """A scorer of a search: subtracts a share of what the decoder expects without a source.

    Without one the decoder is a language model (Meng et al. 2021, "Internal language model
    estimation"), where it looks at what it wrote.
    """

    def __init__(self, model: Seq2Seq, memory: Memory, weight: float) -> None:
        """Take the decoder, a memory that is emptied and the share."""
        self._model, self._weight = model, weight
        self._state = model.start(memory.emptied())

    def rank(
        self, log_probs: Float[Tensor, "R V"], last: Int[Tensor, " R"]
    ) -> Float[Tensor, "R V"]:
        """Return logits that rank the next tokens, given the last token of each beam."""
        expected, self._state = self._model.step(last, self._state)
        return subtract(log_probs, expected, self._weight)

    def branch(self, parents: Int[Tensor, "B W"]) -> None:
        """Go on with the given beams of each clip."""
        self._state = self._state.branch(parents)

    def select(self, rows: Int[Tensor, " B"]) -> None:
        """Go on with the given clips."""
        self._state = self._state.select(rows)


class NotFiniteError(UserError):
    """A model whose numbers left the range of its precision: nothing follows from them."""


def check_finite(values: Tensor) -> None:
    """Refuse NaN and infinity.

    Raises:
        NotFiniteError: If there are some.
    """
    if not bool(values.isfinite().all()):
        raise NotFiniteError(
            "the model computes numbers that are not finite (NaN or infinity), so it translates "
            "nothing; train it again with a lower train.learning_rate, or copy it again"
        )


def mean_log_probs(every: Sequence[Float[Tensor, "... V"]]) -> Float[Tensor, "... V"]:
    """Return the logarithm of the mean of the probabilities that logits of models stand for."""
    rows = [logits.float().log_softmax(dim=-1) for logits in every]
    if len(rows) == 1:
        return rows[0]
    return torch.stack(rows).logsumexp(dim=0) - math.log(len(rows))


def subtract(
    log_probs: Float[Tensor, "R V"], expected: Float[Tensor, "R V"], weight: float
) -> Float[Tensor, "R V"]:
    """Lower each token's log-probability by a share of the one that it has without a source.

    Args:
        log_probs: Given the source.
        expected: Logits given the same tokens and no source.

    Returns:
        Logits. Those of a token with less than `PLAUSIBLE` of the best one's probability stay
        below all others (after Li et al. 2023, "Contrastive decoding", who drop it).
    """
    is_plausible = log_probs >= log_probs.amax(dim=-1, keepdim=True) + math.log(PLAUSIBLE)
    raised = -weight * expected.float().log_softmax(dim=-1)
    least = raised.masked_fill(~is_plausible, torch.inf).amin(dim=-1, keepdim=True)
    return log_probs + torch.where(is_plausible, raised, least)


def best_tokens(
    logits: Float[Tensor, "R V"],
    count: int,
    *,
    banned: Sequence[int],
) -> tuple[Float[Tensor, "R K"], Int[Tensor, "R K"]]:
    """Return the most likely tokens of each row, best first.

    The log-probabilities are those over the whole vocabulary: what is banned keeps its share.

    Args:
        logits: Overwritten.
        count: Tokens wanted of each row, at most V.
        banned: Tokens that no row may have: log-probability minus infinity.
    """
    total = _log_sum_exp(logits)
    logits[:, list(banned)] = -torch.inf
    best, tokens = _top(logits, count)
    return best.float() - total, tokens


def _log_sum_exp(logits: Float[Tensor, "R V"]) -> Float[Tensor, "R 1"]:
    """Return the logarithm of each row's sum, a few rows at a time."""
    sums = []
    for rows in torch.split(logits, ROWS_AT_ONCE):
        most = rows.amax(dim=-1, keepdim=True).float()
        sums.append((rows - most).exp_().sum(dim=-1, keepdim=True).log_() + most)
    total = torch.cat(sums)
    check_finite(total)
    return total


def _top(logits: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R K"], Tensor]:
    """Return the largest logits of each row and where they are.

    They lie in the groups with the largest maxima, and maxima are found faster than an order.
    """
    groups = logits.shape[1] // GROUP
    if groups <= count:
        return logits.topk(count, dim=-1)
    covered = groups * GROUP
    grouped = logits[:, :covered].view(len(logits), groups, GROUP)
    chosen = grouped.amax(dim=-1).topk(count, dim=-1).indices  # (R, K)
    some = grouped.gather(1, chosen[..., None].expand(-1, -1, GROUP)).flatten(1)
    positions = torch.arange(GROUP, device=logits.device) + chosen[..., None] * GROUP
    remaining = torch.arange(covered, logits.shape[1], device=logits.device).expand(len(logits), -1)
    best, where = torch.cat((some, logits[:, covered:]), dim=1).topk(count, dim=-1)
    return best, torch.cat((positions.flatten(1), remaining), dim=1).gather(1, where)
