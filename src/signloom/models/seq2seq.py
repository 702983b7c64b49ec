"""The one interface of all model families: source features in, target logits out.

Shape letters: B clips, S source frames, M memory positions (S after subsampling), T target
tokens, F features, D model width, V vocabulary.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What a model is made of; the section `model` of params.yaml."""

    family: Literal["transformer"]  # architecture
    d_model: int  # model width, even, a multiple of heads
    heads: int  # attention heads, >= 1
    encoder_layers: int  # >= 1
    decoder_layers: int  # >= 1
    d_ff: int  # hidden width of the feed-forward blocks, >= 1
    dropout: float  # share of activations dropped in training, [0, 1)
    norm: Literal["pre", "post"]  # layer norm before each block or after its residual sum
    activation: Literal["gelu", "relu"]  # in the feed-forward blocks
    attention_bias: bool  # whether query, key and value projections have a bias
    subsampling: Literal[1, 2, 4]  # source frames for each encoder position

    def __post_init__(self) -> None:
        for name in ("d_model", "heads", "encoder_layers", "decoder_layers", "d_ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if self.d_model % self.heads:
            raise ValueError(
                f"d_model: {self.d_model} is not divisible by heads ({self.heads}); each head "
                f"gets d_model / heads numbers, so choose e.g. heads: "
                f"{max(h for h in range(1, self.heads) if self.d_model % h == 0)}"
            )
        if self.d_model % 2:
            raise ValueError(
                f"d_model: found {self.d_model}, expected an even number (positions are sine and "
                "cosine pairs)"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: found {self.dropout}, expected a share in [0, 1)")


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What the encoder hands to the decoder."""

    states: Float[Tensor, "B M D"]
    valid: Bool[Tensor, "B M"]  # True = real


class DecoderState(ABC):
    """What a decoder remembers between steps (keys and values, or a recurrent state)."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        """Return the state of the given rows, in that order; rows may repeat."""


class Seq2Seq(nn.Module, ABC):
    """A model that decoding and training can use without knowing its family."""

    @abstractmethod
    def encode(self, src: Float[Tensor, "B S F"], src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source; padded frames influence nothing."""

    @abstractmethod
    def decode(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the logits of every next token, given the true tokens before it."""

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Prepare step-by-step decoding; what depends on the source alone is computed here."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, " B"], state: DecoderState
    ) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """Feed one token a row and return the logits of the next one, and the new state."""

    @abstractmethod
    def ctc_logits(self, memory: Memory) -> Float[Tensor, "B M L"]:
        """Return the logits of the CTC labels (0 = blank) at each memory position.

        Raises:
            ValueError: If the model was built without a CTC head.
        """

    def forward(
        self,
        src: Float[Tensor, "B S F"],
        src_valid: Bool[Tensor, "B S"],
        tgt_in: Int[Tensor, "B T"],
    ) -> Float[Tensor, "B T V"]:
        """Encode and decode with teacher forcing."""
        return self.decode(self.encode(src, src_valid), tgt_in)
