"""What a Transformer decoder remembers between steps, for all beams of a clip.

Shape letters as in `seq2seq`; N tree nodes of a clip: W for each step so far, fewer at first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from signloom.models.attention import KeyValue
from signloom.models.seq2seq import DecoderState


@dataclass(frozen=True, slots=True, eq=False)
class TransformerState(DecoderState):
    """Keys and values of the tokens so far and of the source, one pair a layer.

    The beams of a clip are a tree whose nodes share the axis of positions: a step appends one
    node a beam, and branching changes only which nodes each beam sees. No key is ever moved.
    """

    past: Sequence[KeyValue]  # empty before the first token
    memory: list[KeyValue]
    memory_valid: Bool[Tensor, "B M"]
    seen: Bool[Tensor, "B W N"] | None = None  # None: a single beam, which sees every node

    @property
    def length(self) -> int:
        """The number of tokens fed so far, to each beam."""
        if self.seen is not None:
            return int(self.seen[0, 0].sum())  # a beam's nodes
        return self.past[0].keys.shape[2] if self.past else 0

    def select(self, rows: Int[Tensor, " R"]) -> "TransformerState":
        """Return the state of the given clips with their beams, in that order."""
        return TransformerState(
            [pair.select(rows) for pair in self.past],
            [pair.select(rows) for pair in self.memory],
            self.memory_valid.index_select(0, rows),
            None if self.seen is None else self.seen.index_select(0, rows),
        )

    def branch(self, parents: Int[Tensor, "B W"]) -> "TransformerState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        seen = self.seen
        if seen is None:
            if parents.shape[1] == 1:
                return self
            seen = self.memory_valid.new_ones(len(parents), 1, self.length)
        nodes = parents[..., None].expand(-1, -1, seen.shape[2])
        return TransformerState(self.past, self.memory, self.memory_valid, seen.gather(1, nodes))

    def add_beams(self, width: int) -> "TransformerState":
        """Return the state in which each beam also sees the node that it is about to get."""
        if self.seen is None:
            return self
        own = torch.eye(width, dtype=torch.bool, device=self.seen.device)
        seen = torch.cat((self.seen, own.expand(len(self.seen), -1, -1)), dim=2)
        return TransformerState(self.past, self.memory, self.memory_valid, seen)
