"""CTC labels of beams of tokens, for joint search.

Shape letters: B clips, W beams a clip, K beams taken of each clip, M memory positions, N = M + 1
times (before the first position and after each), L labels with the blank, C labels added at once.
"""

import codecs
import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer
from signloom.models.encoder_only import BLANK, LabelPrefixes

UNKNOWN = -1  # a character without a label

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
