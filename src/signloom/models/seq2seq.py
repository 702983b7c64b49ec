"""The one interface of all model families: a source in, logits of target tokens out.

Shape letters: B clips, S source frames, M memory positions (S after subsampling), T target
tokens, F features, D model width, H heads, L layers (E of the encoder), V vocabulary, W beams of
a clip, R rows of clip and beam.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from signloom.config import NO_BOOL, Gone, ShareBelowOne, checked_dataclass
from signloom.errors import UserError

Family = Literal[
    "transformer",
    "conformer",
    "convolution",
    "lstm",
    "gru",
    "rnn",
    "encoder_only",
    "decoder_only",
    "pretrained",
]
# The ranges end beyond every model that one machine trains: a slip of a digit or a foreign file is
# refused before anything of that size is built.
Layers = Annotated[int, Field(ge=1, le=200)]
# A CTC head alone is enough for these.
NEED_NO_DECODER = ("transformer", "conformer", "convolution")
_ATTENDING = (
    "transformer",
    "conformer",
    "convolution",
    "encoder_only",
    "decoder_only",
    "pretrained",
)
_RECURRENT = ("lstm", "gru", "rnn")
# The families that read an option which others have no part for.
READ_BY: dict[str, tuple[str, ...]] = {
    "heads": _ATTENDING, "d_ff": _ATTENDING, "norm": _ATTENDING, "positions": _ATTENDING,
    "layer_drop": _ATTENDING, "activation": _ATTENDING, "attention_bias": _ATTENDING,
    "causal_encoder": _ATTENDING, "conv_kernel": ("conformer",),
    "decoder_norm": ("transformer", "conformer", "convolution", "decoder_only", "pretrained"),
    "bidirectional": _RECURRENT, "attention": _RECURRENT, "embedding_width": _RECURRENT,
    "text_encoder": ("pretrained",), "freeze": ("pretrained",),
    "ctc_feedback": ("transformer", "conformer", "convolution"),
}  # fmt: skip


@checked_dataclass
class ModelOptions:
    """What a model is made of; the section `model` of params.yaml.

    A family has no part for some of them, see `READ_BY`; `check_family` refuses a value that asks
    for such a part.
    "attending" below means the families transformer, conformer, convolution (its decoder),
    encoder_only and decoder_only, "recurrent" means rnn, gru and lstm.
    """

    family: Family  # architecture
    # vectors: of landmarks, or features of others; or ids such as those of glosses
    source: Literal["landmarks", "features", "glosses"]
    # model width, even, a multiple of heads
    d_model: Annotated[int, Field(ge=1, le=16_384, multiple_of=2)]
    heads: Annotated[int, Field(ge=1, le=1024)] = 4  # attending: attention heads
    encoder_layers: Layers
    # transformer, conformer, convolution: 0 for no decoder; the text is then what CTC reads
    decoder_layers: Annotated[int, Field(ge=0, le=200)]
    # attending: hidden width of the feed-forward blocks
    d_ff: Annotated[int, Field(ge=1, le=65_536)] = 256
    dropout: ShareBelowOne  # share of activations dropped in training
    layer_drop: ShareBelowOne = 0.0  # attending: chance of skipping a layer in training
    norm: Literal["pre", "post"] = "pre"  # attending: layer norm before each block or after its sum
    decoder_norm: bool = True  # attending: a last layer norm in the decoder
    activation: Literal["gelu", "relu", "swish"] = "gelu"  # attending: in the feed-forward blocks
    attention_bias: bool = True  # attending: biases in query, key and value projections
    # attending: how order is known
    positions: Literal["sinusoidal", "scaled", "relative", "none"] = "sinusoidal"
    causal_encoder: bool = False  # attending: the encoder's layers see no later frame
    embedding_scale: bool = True  # token embeddings times sqrt(d_model)
    tied_embeddings: bool = False  # target embedding and output projection share one matrix
    # of matrices: Glorot uniform, or PyTorch's own; xavier_each: keys and values each by itself
    initialization: Literal["xavier", "xavier_each", "torch"] = "xavier"
    subsampling: Annotated[Literal[1, 2, 4], NO_BOOL]  # source frames for each encoder position
    # conformer: width of the depthwise convolution, odd, positions
    conv_kernel: Annotated[int, Field(ge=1, le=1_023)] = 15
    bidirectional: bool = True  # recurrent: the encoder reads both ways
    # recurrent: how the decoder looks back
    attention: Literal["none", "dot", "general", "additive"] = "general"
    # Checkpoints of earlier versions lack the following.
    encoder_norm: bool = True  # a last layer norm in the encoder
    # recurrent: numbers of a token's embedding; 0: d_model
    embedding_width: Annotated[int, Field(ge=0, le=16_384)] = 0
    text_model: str = ""  # pretrained: folder of a text model
    # pretrained: our front end and the text model's encoder, instead of our encoder
    text_encoder: bool = False
    # pretrained: what keeps its weights: nothing, the text model's layers, its tokens' vectors, too
    freeze: Literal["none", "layers", "all"] = "none"
    # transformer, conformer, convolution: the decoder looks at what the CTC head reads, too
    ctc_feedback: bool = False

    GONE: ClassVar = {
        "streams": Gone(False, "no figure spoke for streams of hands, body and face"),
        "joints": Gone("none", "no figure spoke for graphs over joints"),
        "lora_rank": Gone(0, "text models are trained whole, or frozen (freeze)"),
    }

    def __post_init__(self) -> None:
        if self.family in _ATTENDING and self.d_model % self.heads:
            raise ValueError(
                f"d_model: {self.d_model} is not divisible by heads ({self.heads}); each head "
                f"gets d_model / heads numbers, so choose e.g. heads: "
                f"{max(h for h in range(1, self.heads) if self.d_model % h == 0)}"
            )
        if not self.decoder_layers and self.family not in NEED_NO_DECODER:
            raise ValueError(
                f"decoder_layers: found 0 with family {self.family}, expected 1 or more; "
                f"{', '.join(NEED_NO_DECODER)} need none"
            )
        if self.conv_kernel % 2 == 0:
            raise ValueError(
                f"conv_kernel: found {self.conv_kernel}, expected an odd number (as many "
                "positions before the middle one as after it)"
            )
        if self.tied_embeddings and self.embedding_width not in (0, self.d_model):
            raise ValueError(
                f"embedding_width: found {self.embedding_width} with tied_embeddings, whose matrix "
                f"projects states of {self.d_model} numbers; expected 0, or tied_embeddings: false"
            )
        if self.family == "decoder_only" and self.positions == "relative":
            raise ValueError(
                "positions: found relative for decoder_only, whose layers read source and target; "
                "expected sinusoidal, scaled or none"
            )
        if (self.family == "pretrained") != bool(self.text_model):
            raise ValueError(
                f"text_model: found {self.text_model!r} with family {self.family}; expected the "
                "folder of a text model (docs/models.md) with family pretrained, else none"
            )

    @property
    def has_decoder(self) -> bool:
        """Whether a decoder writes the text; else it is what CTC spells."""
        return self.decoder_layers > 0 and self.family != "encoder_only"


def find_unread(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of each option that asks for something which its family would ignore.

    Args:
        values: Options by name, the family among them; a default asks for nothing.
    """
    family, unread = values.get("family"), dict[str, Any]()
    for field in dataclasses.fields(ModelOptions):
        is_read = family is None or family in READ_BY.get(field.name, (family,))
        if not is_read and values.get(field.name, field.default) != field.default:
            unread[field.name] = field.default
    return unread


def check_family(options: ModelOptions, *, where: str) -> None:
    """Refuse what a person asks for and the family would ignore.

    Raises:
        UserError: Naming each such option with the families that read it.
    """
    if unread := find_unread(dataclasses.asdict(options)):
        raise UserError(
            "\n".join(
                f"{where}.{name}: found {getattr(options, name)!r}, which {options.family} does "
                f"not read, only {' and '.join(READ_BY[name])}; remove it or set it to {default!r}"
                for name, default in unread.items()
            )
        )


NO_DECODER = "the model has no decoder that looks at the source"
FloatArray = npt.NDArray[np.float32]
# Features of landmarks, or ids of source tokens.
SourceTensor = Float[Tensor, "B S F"] | Int[Tensor, "B S"]


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """What the encoder hands to the decoder."""

    states: Float[Tensor, "B M D"]
    valid: Bool[Tensor, "B M"]  # True = real

    def select(self, rows: Int[Tensor, " R"]) -> "Memory":
        """Return the memory of the given rows, in that order; rows may repeat."""
        return Memory(self.states.index_select(0, rows), self.valid.index_select(0, rows))

    def emptied(self) -> "Memory":
        """Return a memory of as many rows, each with one position of zeros: no source at all."""
        return Memory(torch.zeros_like(self.states[:, :1]), torch.ones_like(self.valid[:, :1]))


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMaps:
    """What each position gives each other one, by layer and head; None where a model has none.

    A row sums to 1 over what its position may see, and is all zero where that is nothing. A model
    whose decoder looks at source and target in one softmax has rows of `decoder` and `cross` that
    sum to 1 together.
    """

    encoder: Float[Tensor, "B E H M M"] | None = None
    decoder: Float[Tensor, "B L H T T"] | None = None
    cross: Float[Tensor, "B L H T M"] | None = None

    @classmethod
    def of(
        cls, encoder: Sequence[Tensor], decoder: Sequence[Tensor], cross: Sequence[Tensor]
    ) -> "AttentionMaps":
        """Stack the maps of layers, each (B, H, ...)."""
        return cls(*(torch.stack(list(x), dim=1) if x else None for x in (encoder, decoder, cross)))

    def of_clip(self, row: int) -> dict[str, FloatArray]:
        """Return the maps of one clip by name, those that there are, (L, H, rows, columns)."""
        parts = {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}
        return {
            name: part[row].float().cpu().numpy()
            for name, part in parts.items()
            if part is not None
        }


class DecoderState(ABC):
    """What a decoder remembers between steps (keys and values, or a recurrent state).

    A clip may have several beams, all clips the same number, one at the start. What depends on
    the clip alone is kept once for all of them.
    """

    @abstractmethod
    def select(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        """Return the state of the given clips with their beams, in that order; they may repeat."""

    @abstractmethod
    def branch(self, parents: Int[Tensor, "B W"]) -> "DecoderState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""


class Seq2Seq(nn.Module):
    """A model that decoding and training can use without knowing its family."""

    ctc: nn.Linear | None  # over the labels of the source, on the memory
    has_decoder = True  # False: the text is what `text_logits` spells, and no method decodes
    spells_tokens = False  # whether that is tokens of the target, not labels of the source
    # Whether some clips at a time may be encoded and the parts put together.
    encodes_in_parts = False
    has_int8 = True  # whether its matrices may be multiplied in int8

    def encode(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source.

        Args:
            src: Features (B, S, F), or token ids (B, S), as `ModelOptions.source` says.
            src_valid: Which positions are real; padding comes after them and influences nothing.
        """
        memory: Memory = self.get_submodule("encoder")(src, src_valid)
        return memory

    @property
    def head(self) -> nn.Module:
        """The projection of decoder states to logits; a `Head` unless precision is reduced."""
        if not self.has_decoder:
            raise ValueError(NO_DECODER)
        return self.get_submodule("decoder.output")

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return what the head projects at every position, given the true tokens before it."""
        raise ValueError(NO_DECODER)

    def decode_rows(
        self, memory: Memory, tgt_in: Int[Tensor, "B T"], rows: Int[Tensor, " N"]
    ) -> Float[Tensor, "N D"]:
        """Return `decode_states` of some of all B x T positions.

        Args:
            memory: As for `decode_states`.
            tgt_in: As for `decode_states`.
            rows: Where they are; with one, all positions of its clip before it.
        """
        return self.decode_states(memory, tgt_in).flatten(0, 1).index_select(0, rows)

    def decode(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the logits of every next token, given the true tokens before it.

        Raises:
            ValueError: If memory and tokens are not of as many clips.
        """
        if (clips := len(memory.valid)) != len(tgt_in):
            raise ValueError(f"tgt_in: found {len(tgt_in)} clips, expected {clips}, as the memory")
        return self.head(self.decode_states(memory, tgt_in))

    def start(self, memory: Memory) -> DecoderState:
        """Prepare step-by-step decoding; what depends on the source alone is computed here."""
        raise ValueError(NO_DECODER)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], DecoderState]:
        """Feed one token a row and return the logits of the next one, and the new state.

        Rows are the beams of the first clip, those of the second, and so on: R = B times W.
        """
        raise ValueError(NO_DECODER)

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks: one weight for each memory position.

        The mean over all heads and layers that look at the memory. A row sums to 1 over the real
        positions; it is all zero where a clip has none.

        Raises:
            ValueError: If the model's decoder does not look at the memory.
        """
        raise ValueError(NO_DECODER)

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of every layer and head while the model reads and writes.

        Args:
            src: As for `encode`.
            src_valid: As for `encode`.
            tgt_in: The tokens before each target position.

        Returns:
            Nothing of a model without attention, which says so in its documentation.
        """
        return AttentionMaps()

    def ctc_logits(self, memory: Memory) -> Float[Tensor, "B M L"]:
        """Return the logits of the CTC labels (0 = blank) at each memory position.

        Raises:
            ValueError: If the model was built without a CTC head.
        """
        if self.ctc is None:
            raise ValueError("this model was built without a CTC head (train.ctc_weight was 0)")
        return self.ctc(memory.states)

    def text_logits(self, memory: Memory) -> Float[Tensor, "B M K"]:
        """Return the logits of what a text is spelt in at each memory position, the blank first.

        Of a model without a decoder: the labels of its CTC head, or tokens (`spells_tokens`).
        """
        return self.ctc_logits(memory)

    def forward(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B _ _"]:
        """Encode and decode with teacher forcing; without a decoder, return `text_logits`."""
        memory = self.encode(src, src_valid)
        return self.decode(memory, tgt_in) if self.has_decoder else self.text_logits(memory)
