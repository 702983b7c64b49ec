"""Nearest neighbours: what followed in train after states like the decoder's.

Shape letters: N states of train, R rows of decoding, D model width, V vocabulary, K neighbours.

Source: Khandelwal et al. (2021), "Nearest neighbor machine translation".
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from signloom.checkpoint import load_checkpoint
from signloom.features.batches import FixedBatches
from signloom.features.targets import Target
from signloom.training.loop import real_rows
from signloom.translation.translator import Translator

# Chosen on dev; TEMPERATURE is of squared distances.
NEIGHBOURS, SHARE, TEMPERATURE = 16, 0.4, 20.0
BLOCK = 64  # states of which the nearest is found first
MAX_TOKENS = 2_000  # of a batch of train
FAR = -1e9  # of states that only fill the last block


class NeighbourHead(nn.Module):
    """A decoder's head that mixes the model's guess with that of the nearest states of train."""

    def __init__(
        self, head: nn.Module, states: Float[Tensor, "N D"], tokens: Int[Tensor, " N"]
    ) -> None:
        """Take what projects states to logits, states of train and the token that followed each."""
        super().__init__()
        self.head, self.states, self.tokens = head, states, tokens
        # q k - |k|² / 2 is greatest where |q - k|² is least; half precision finds candidates.
        halves = torch.cat((states, -(states**2).sum(dim=1, keepdim=True) / 2), dim=1)
        filled = functional.pad(halves, (0, 0, 0, -len(states) % BLOCK))
        filled[len(states) :, -1] = FAR
        self.keys = filled.bfloat16()

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Return the logarithms of the mixed probabilities, which are their own logits."""
        logits: Tensor = self.head(x)
        rows = x.reshape(-1, x.shape[-1]).float()
        near = self._find(rows)
        distances = ((self.states[near] - rows[:, None]) ** 2).sum(dim=2)
        weights = (-distances / TEMPERATURE).softmax(dim=1)
        followed = weights.new_zeros(len(rows), logits.shape[-1])
        followed.scatter_add_(1, self.tokens[near], weights)
        guess = (1 - SHARE) * logits.float().softmax(dim=-1)
        return (guess + SHARE * followed.view(guess.shape)).log()

    def _find(self, rows: Float[Tensor, "R D"]) -> Int[Tensor, "R K"]:
        """Return where the nearest states are: all lie in the blocks whose nearest are nearest."""
        queries = functional.pad(rows, (0, 1), value=1.0).bfloat16()
        scores = (queries @ self.keys.t()).view(len(rows), -1, BLOCK)
        count = min(NEIGHBOURS, len(self.states))
        blocks = scores.amax(dim=2).topk(min(count, scores.shape[1]), dim=1).indices
        chosen = scores.gather(1, blocks[..., None].expand(-1, -1, BLOCK)).flatten(1)
        best = chosen.topk(count, dim=1).indices
        return blocks.gather(1, best // BLOCK) * BLOCK + best % BLOCK


@torch.inference_mode()
def load_with_neighbours(folder: Path, targets: Sequence[Target], shards: Path) -> Translator:
    """Load a Transformer and lay beside it what its decoder makes of train.

    Args:
        folder: Its checkpoint.
        targets: Of all clips, of which those of train are taken.
        shards: Landmarks of the clips.
    """
    device = torch.device("cpu")
    checkpoint = load_checkpoint(folder, device)
    model, source, pad = checkpoint.model, checkpoint.spec.source, checkpoint.tokenizer.pad
    clips, _ = source.open_clips(targets, shards, cache_mb=0)
    states, tokens = [], []
    for batch in FixedBatches(clips, checkpoint.spec.features, max_frames=MAX_TOKENS, pad=pad):
        rows = real_rows(batch)
        memory = model.encode(batch.src, batch.src_valid)
        states.append(model.decode_rows(memory, batch.tgt[:, :-1], rows))
        tokens.append(batch.tgt[:, 1:].flatten()[rows])
    decoder = model.get_submodule("decoder")
    decoder.output = NeighbourHead(model.head, torch.cat(states), torch.cat(tokens))
    return Translator(checkpoint, device)
