"""CTC prefix scores: log-probabilities of label prefixes, for joint search.

Shape letters: B clips, W beams a clip, K beams taken of each clip, M memory positions, N = M + 1
times (before the first position and after each), L labels with the blank, C labels added at once.
"""

import codecs
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer

BLANK = 0
UNKNOWN = -1  # a character without a label
# The log-probability of what has no labels: finite, so that an attention decoder can still tell
# such beams apart, and far below any that a network gives.
IMPOSSIBLE = -1e4

# From the bytes of an unfinished character and a token to the labels of the characters that are
# then complete, and the bytes that are then unfinished. A negative label is `UNKNOWN`.
LabelsOf = Callable[[bytes, int], tuple[tuple[int, ...], bytes]]


class TokenLabels:
    """The CTC labels of tokens, one token at a time.

    A token may end inside a character, whose label comes with the token that completes it.
    """

    def __init__(self, tokenizer: Tokenizer, labels: CtcLabels) -> None:
        self._tokenizer = tokenizer
        self._label_of = {name: label for label, name in enumerate(labels.names, start=1)}
        self.labels_of = functools.cache(self._labels_of)  # few tokens come up, each very often

    def _labels_of(self, pending: bytes, token: int) -> tuple[tuple[int, ...], bytes]:
        """Return the labels of the characters that a token completes.

        Args:
            pending: The bytes of an incomplete character before it.
            token: Any token; those for control have none, and leave nothing pending.

        Returns:
            The labels, and the bytes that are pending after it.
        """
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        is_control = token in (self._tokenizer.pad, self._tokenizer.bos, self._tokenizer.eos)
        piece = b"" if is_control else self._tokenizer.piece(token)
        text = decoder.decode(pending + piece, final=is_control)
        rest, _ = decoder.getstate()
        return tuple(self._label_of.get(character, UNKNOWN) for character in text), rest


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrefixes:
    """A prefix of labels for each beam of each clip.

    Source: Watanabe et al. (2017), "Hybrid CTC/attention architecture for end-to-end speech
    recognition", algorithm 2; the recursion over positions is written as cumulative sums.

    Attributes:
        emissions: Log-probabilities of the labels at each position.
        by_label: Log-probability, at each time, of all alignments of the prefix that end there in
            a label, shape (B, W, N).
        by_blank: The same for those that end in a blank.
        last: The last label of each prefix; the blank where it is empty.
        log_probs: Of all label sequences that begin with the prefix.
    """

    emissions: Float[Tensor, "B M L"]
    by_label: Float[Tensor, "B W N"]
    by_blank: Float[Tensor, "B W N"]
    last: Int[Tensor, "B W"]
    log_probs: Float[Tensor, "B W"]

    @classmethod
    def start(cls, logits: Float[Tensor, "B M L"], valid: Bool[Tensor, "B M"]) -> "LabelPrefixes":
        """Return the empty prefix of each clip, one beam.

        Args:
            logits: Of the labels at each memory position.
            valid: Which positions are real.
        """
        emissions = logits.double().log_softmax(dim=-1)
        # In padding a blank is certain, which leaves every sum as it is.
        silence = torch.full_like(emissions[0, 0], IMPOSSIBLE)
        silence[BLANK] = 0.0
        emissions = torch.where(valid[..., None], emissions, silence)
        by_blank = functional.pad(emissions[..., BLANK].cumsum(dim=1), (1, 0))[:, None]
        nothing = by_blank[..., 0]
        last = torch.full_like(nothing, BLANK, dtype=torch.int64)
        return cls(
            emissions, torch.full_like(by_blank, -torch.inf), by_blank, last, nothing.clone()
        )

    def take(self, beams: Int[Tensor, "B K"]) -> "LabelPrefixes":
        """Return the given beams of each clip."""
        times = beams[..., None].expand(-1, -1, self.by_label.shape[2])
        return LabelPrefixes(
            self.emissions,
            self.by_label.gather(1, times),
            self.by_blank.gather(1, times),
            self.last.gather(1, beams),
            self.log_probs.gather(1, beams),
        )

    def select(self, rows: Int[Tensor, " R"]) -> "LabelPrefixes":
        """Return the prefixes of the given clips."""
        every = (self.emissions, self.by_label, self.by_blank, self.last, self.log_probs)
        return LabelPrefixes(*(x.index_select(0, rows) for x in every))

    def extend(self, labels: Int[Tensor, "B W C"]) -> "LabelPrefixes":
        """Append labels to each prefix, one after another.

        Args:
            labels: From 1. A blank appends nothing; a negative one is no label.
        """
        after = self
        for column in labels.unbind(dim=2):
            after = after._append(column)
        return after

    def end(self, is_whole: Bool[Tensor, "B W"]) -> "LabelPrefixes":
        """Make the log-probability of some prefixes that of nothing coming after them."""
        whole = torch.logaddexp(self.by_label[..., -1], self.by_blank[..., -1])
        log_probs = torch.where(is_whole, whole.clamp(min=IMPOSSIBLE), self.log_probs)
        return replace(self, log_probs=log_probs)

    def _append(self, labels: Int[Tensor, "B W"]) -> "LabelPrefixes":
        positions = self.emissions.shape[1]
        index = labels.clamp(min=0)[:, None].expand(-1, positions, -1)
        emit = self.emissions.gather(2, index).transpose(1, 2)  # (B, W, M)
        emit = emit.masked_fill(labels[..., None] < 0, IMPOSSIBLE)
        blank = self.emissions[:, None, :, BLANK].expand_as(emit)
        # A label may follow itself only after a blank.
        either = torch.logaddexp(self.by_label, self.by_blank)
        is_repeat = (labels == self.last)[..., None]
        before = torch.where(is_repeat, self.by_blank, either)[..., :-1]
        by_label = functional.pad(_carry(before, emit), (1, 0), value=-torch.inf)
        by_blank = functional.pad(_carry(by_label[..., :-1], blank), (1, 0), value=-torch.inf)
        log_probs = (before + emit).logsumexp(dim=-1).clamp(min=IMPOSSIBLE)
        is_new = labels != BLANK
        return LabelPrefixes(
            self.emissions,
            torch.where(is_new[..., None], by_label, self.by_label),
            torch.where(is_new[..., None], by_blank, self.by_blank),
            torch.where(is_new, labels, self.last),
            torch.where(is_new, log_probs, self.log_probs),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LabelledBeams:
    """The labels of each beam's tokens; bytes of an unfinished character are `pending`."""

    prefixes: LabelPrefixes
    pending: list[list[bytes]]

    @classmethod
    def start(cls, logits: Float[Tensor, "B M L"], valid: Bool[Tensor, "B M"]) -> "LabelledBeams":
        """Return one beam a clip, which has no token."""
        return cls(LabelPrefixes.start(logits, valid), [[b""] for _ in range(len(logits))])

    def take(self, beams: Int[Tensor, "B K"]) -> "LabelledBeams":
        """Return the given beams of each clip."""
        chosen = zip(self.pending, beams.tolist(), strict=True)
        pending = [[row[beam] for beam in taken] for row, taken in chosen]
        return LabelledBeams(self.prefixes.take(beams), pending)

    def select(self, rows: Int[Tensor, " R"]) -> "LabelledBeams":
        """Return the beams of the given clips."""
        return LabelledBeams(
            self.prefixes.select(rows), [self.pending[row] for row in rows.tolist()]
        )

    def extend(self, tokens: Int[Tensor, "B W"], labels_of: LabelsOf, eos: int) -> "LabelledBeams":
        """Append a token to each beam; after `eos` only the end may come."""
        steps = zip(self.pending, tokens.tolist(), strict=True)
        found = [[labels_of(*step) for step in zip(*row, strict=True)] for row in steps]
        most = max(len(labels) for row in found for labels, _ in row)
        padded = [[[*ls, *[BLANK] * (most - len(ls))] for ls, _ in row] for row in found]
        labels = torch.tensor(padded, dtype=torch.int64, device=tokens.device)
        prefixes = self.prefixes.extend(labels.view(*tokens.shape, most)).end(tokens == eos)
        return LabelledBeams(prefixes, [[rest for _, rest in row] for row in found])


def _carry(
    entering: Float[Tensor, "B W M"], kept: Float[Tensor, "B W M"]
) -> Float[Tensor, "B W M"]:
    """Return log r of r[t] = (r[t - 1] + entering[t]) kept[t], all in logarithms, r[-1] = 0."""
    total = kept.cumsum(dim=-1)
    return total + (entering - (total - kept)).logcumsumexp(dim=-1)
