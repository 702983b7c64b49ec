"""Encoder-only Transformer: a sentence is what the frames spell by CTC, one token after another.

Shape letters as in `seq2seq`, and K tokens with the blank.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from signloom.models.layers import initialise
from signloom.models.seq2seq import AttentionMaps, Memory, ModelOptions, Seq2Seq, SourceTensor
from signloom.models.transformer import TransformerEncoder

IMPOSSIBLE = -1e4  # a logit that every precision can hold


class EncoderOnly(Seq2Seq):
    """A Transformer encoder that emits at most one token of the target at each position.

    The probability of a sentence is that of all alignments (CTC). A sentence of more tokens than
    positions is impossible.

    Document 004 compares it with decoder-only and encoder-decoder, document 001 names it (BERT).

    Source: Graves et al. (2006).
    """

    has_decoder = False
    spells_tokens = True

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int, eos: int
    ) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(options, input_width)
        # No position emits eos, so its row is the blank's.
        self.emit = nn.Linear(options.d_model, vocab_size)
        self.eos = eos
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        initialise(self, options)

    def text_logits(self, memory: Memory) -> Float[Tensor, "B M K"]:
        """Return the logits of the blank and of each token, whose id is one less than its place."""
        logits = self.emit(memory.states)
        eos = torch.tensor([self.eos], device=logits.device)
        blank = logits.index_select(2, eos)
        return torch.cat((blank, logits.index_fill(2, eos, IMPOSSIBLE)), dim=-1)

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of the encoder; there is no decoder that attends."""
        maps: list[Tensor] = []
        self.encoder(src, src_valid, maps)
        return AttentionMaps.of(maps, [], [])
