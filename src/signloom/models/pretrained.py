"""Pretrained text models (T5, mT5, ByT5, mBART, M2M100, NLLB) behind the interface of all families.

Their layers are those of the package `transformers`, which is imported when a model is built;
embedding and output projection are ours, so that a vocabulary may be trimmed. Shape letters as in
`seq2seq`; P width of the text model, U rows of its own vocabulary.
"""

import importlib.util
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import safetensors
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from signloom.config import checked_dataclass
from signloom.errors import UserError
from signloom.files import hash_folder
from signloom.models.layers import SourceEmbedding, TokenEmbedding, build_output, initialise
from signloom.models.seq2seq import (
    AttentionMaps,
    DecoderState,
    Memory,
    ModelOptions,
    Seq2Seq,
    SourceTensor,
)
from signloom.models.transformer import TransformerEncoder

Kind = Literal["t5", "mt5", "mbart", "m2m_100"]  # ByT5 is a T5 of bytes, NLLB an M2M100
CLASSES: dict[Kind, str] = {"t5": "T5", "mt5": "MT5", "mbart": "MBart", "m2m_100": "M2M100"}
# What of config.json is read, and the most of it: a foreign file is refused before anything of its
# size is built, and nothing in it names code.
_T5_SIZES = {
    "d_kv": 65_536, "d_ff": 65_536, "num_layers": 200, "num_decoder_layers": 200,
    "num_heads": 1_024, "relative_attention_num_buckets": 65_536,
    "relative_attention_max_distance": 65_536,
}  # fmt: skip
_BART_SIZES = {
    "encoder_layers": 200, "decoder_layers": 200, "encoder_ffn_dim": 65_536,
    "decoder_ffn_dim": 65_536, "encoder_attention_heads": 1_024, "decoder_attention_heads": 1_024,
    "max_position_embeddings": 65_536,
}  # fmt: skip
_WORDS = {"feed_forward_proj": ("relu", "gated-gelu"), "activation_function": ("relu", "gelu")}
MOST_WIDE = 16_384
# Matrices beside which low-rank ones are learnt (Hu et al., 2022, section 4.2); and the attention
# to the memory, which has to learn a new kind of memory.
_ADAPTED = ("q", "v", "q_proj", "v_proj")
_CROSS = ("EncDecAttention", "encoder_attn.")
_EMBEDDINGS = ("shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
_HEAD = "lm_head.weight"
_TERMS = ("LICENSE*", "LICENCE*", "COPYING*")
_README_LICENCE = re.compile(r"^licen[sc]e:\s*(\S.*)$", re.MULTILINE)
_HINT = (
    "name a folder with config.json, tokenizer.json and weights as .safetensors; nothing is "
    "downloaded here: fetch one where there is a network, such as `hf download google-t5/t5-small "
    "config.json tokenizer.json model.safetensors README.md --local-dir data/text_models/t5-small`"
)


@checked_dataclass
class TextModel:
    """What a pretrained text model is, without its weights; kept in a checkpoint."""

    kind: Kind
    sizes: dict[str, int | float | str | bool]  # of its config.json
    is_tied: bool  # embedding and output projection are one matrix
    is_scaled: bool  # T5: states are divided by the root of the width before that matrix
    name: str  # of its folder
    sha256: str  # of its folder
    licence: str  # as the folder says; empty: it says nothing

    def __post_init__(self) -> None:
        limits = {"d_model": MOST_WIDE, **self._limits()}
        for name, value in self.sizes.items():
            if name in _WORDS:
                is_right = value in _WORDS[name]
            elif name in ("scale_embedding", "layer_norm_epsilon"):
                is_right = 0 <= float(value) <= 1
            else:
                is_right = isinstance(value, int) and 1 <= value <= limits.get(name, 0)
            if not is_right:
                raise ValueError(f"config.json: {name}: found {value!r}, which no {self.kind} has")
        if "d_model" not in self.sizes:
            raise ValueError("config.json: d_model is missing")

    def _limits(self) -> dict[str, int]:
        return _T5_SIZES if self.kind in ("t5", "mt5") else _BART_SIZES

    @property
    def width(self) -> int:
        """Numbers of a state, P."""
        return int(self.sizes["d_model"])

    @classmethod
    def read(cls, folder: Path) -> "TextModel":
        """Read what the model in a folder is.

        Raises:
            UserError: If the folder has no such model, or only pickled weights, which may run code.
        """
        content = _read_config(folder)
        names = _tensor_names(folder)
        kind = content.get("model_type")
        if kind not in CLASSES:
            raise _wrong(folder, f"model_type is {kind!r}, expected {', '.join(CLASSES)}")
        limits = _T5_SIZES if kind in ("t5", "mt5") else _BART_SIZES
        kept = ("d_model", *limits, *_WORDS, "scale_embedding", "layer_norm_epsilon")
        is_one = content.get("tie_word_embeddings", True) is not False
        return cls(
            kind=kind,
            sizes={name: content[name] for name in kept if content.get(name) is not None},
            is_tied=_HEAD not in names or not names & set(_EMBEDDINGS),
            is_scaled=kind == "t5" and bool(content.get("scale_decoder_outputs", is_one)),
            name=folder.resolve().name,
            sha256=hash_folder(folder),
            licence=_licence(folder),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedState(DecoderState):
    """Keys and values of the tokens so far, of each beam, and of the source, likewise."""

    memory: Memory  # of each clip
    own: tuple[tuple[Tensor, Tensor], ...] = ()  # of each layer, (R, H, T, K)
    cross: tuple[tuple[Tensor, Tensor], ...] = ()  # (R, H, M, K)

    @property
    def width(self) -> int:
        """Beams of a clip."""
        return len(self.own[0][0]) // len(self.memory.valid) if self.own else 1

    def select(self, rows: Int[Tensor, " R"]) -> "PretrainedState":
        """Return the state of the given clips with their beams, in that order."""
        beams = torch.arange(self.width, device=rows.device)
        every = (rows[:, None] * self.width + beams).flatten()
        return PretrainedState(
            self.memory.select(rows), _take(self.own, every), _take(self.cross, every)
        )

    def branch(self, parents: Int[Tensor, "B W"]) -> "PretrainedState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        clips = torch.arange(len(parents), device=parents.device)[:, None]
        rows = (clips * self.width + parents).flatten()
        # The beams of a clip have the same source.
        is_same = parents.shape[1] == self.width
        cross = self.cross if is_same else _take(self.cross, rows)
        return replace(self, own=_take(self.own, rows), cross=cross)


class LowRankLinear(nn.Linear):
    """A linear layer with a product of two thin matrices beside its own.

    Source: Hu et al. (2022), "LoRA"; their alpha is the rank.
    """

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None)
        self.weight, self.bias = layer.weight, layer.bias
        self.down = nn.Parameter(torch.empty(rank, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B O"]:
        """Return x W' + b + x A' B'."""
        return super().forward(x) + functional.linear(functional.linear(x, self.down), self.up)


class PretrainedEncoder(nn.Module):
    """Our front end, which gives the text model's encoder vectors in the place of its tokens'."""

    def __init__(self, options: ModelOptions, input_width: int, text: TextModel, stack: Any):
        super().__init__()
        self.source = SourceEmbedding(options, input_width, width=text.width)
        self.stack, self.text = stack, text

    def forward(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> Memory:
        """Encode features or tokens; each layer puts its attention at the end of `maps`."""
        x, valid = self.source(src, src_valid)
        _check_length(self.text, x.shape[1], "raise model.subsampling")
        with _attention_of(self.stack, maps is not None):
            found = self.stack(
                inputs_embeds=x, attention_mask=valid, output_attentions=maps is not None
            )
        if maps is not None:
            maps.extend(layer * valid.any(dim=1)[:, None, None, None] for layer in found.attentions)
        return Memory(found.last_hidden_state * valid[..., None], valid)


class PretrainedDecoder(nn.Module):
    """The text model's decoder between an embedding and a projection for our vocabulary."""

    def __init__(self, options: ModelOptions, vocab_size: int, text: TextModel, stack: Any) -> None:
        super().__init__()
        self.text, self.stack = text, stack
        is_scaled = bool(text.sizes.get("scale_embedding", False))
        self.embedding = TokenEmbedding(vocab_size, text.width, is_scaled=is_scaled)
        self.output = build_output(self.embedding, text.width, is_tied=text.is_tied)
        has_bridge = not options.text_encoder and options.d_model != text.width
        self.bridge = nn.Linear(options.d_model, text.width) if has_bridge else nn.Identity()

    def read(
        self,
        tokens: Int[Tensor, "B T"],
        memory: Memory,
        cache: Any = None,
        *,
        has_maps: bool = False,
    ) -> Any:
        """Return what `transformers` says of tokens; `memory` went over the bridge."""
        before = cache.get_seq_length() if cache is not None else 0
        _check_length(self.text, before + tokens.shape[1], "lower max_tokens, or split the clips")
        with _attention_of(self.stack, has_maps):
            found = self.stack(
                inputs_embeds=self.embedding(tokens),
                encoder_hidden_states=memory.states,
                encoder_attention_mask=memory.valid,
                past_key_values=cache,
                use_cache=cache is not None,
                output_attentions=has_maps,
            )
        return found

    def states(self, found: Any) -> Float[Tensor, "B T P"]:
        """Return what the output projects."""
        states: Tensor = found.last_hidden_state
        return states * self.text.width**-0.5 if self.text.is_scaled else states


class Pretrained(Seq2Seq):
    """A pretrained text model that reads landmarks, features or glosses.

    Its decoder looks at the memory of our encoder; or, with `text_encoder`, its own encoder reads
    what our front end makes of the source.

    Source: Raffel et al. (2020), T5; Xue et al. (2021), mT5; Xue et al. (2022), ByT5; Liu et al.
    (2020), mBART; Fan et al. (2021), M2M100; NLLB team (2022).
    """

    has_int8 = False

    def __init__(
        self,
        options: ModelOptions,
        *,
        input_width: int,
        vocab_size: int,
        ctc_labels: int,
        text: TextModel,
    ) -> None:
        super().__init__()
        encoder, decoder = _build_stacks(text, options.dropout)
        self.encoder: nn.Module
        if options.text_encoder:
            self.encoder = PretrainedEncoder(options, input_width, text, encoder)
        else:
            self.encoder = TransformerEncoder(options, input_width)
            initialise(self.encoder, options)
        self.decoder = PretrainedDecoder(options, vocab_size, text, decoder)
        width = text.width if options.text_encoder else options.d_model
        self.ctc = nn.Linear(width, ctc_labels) if ctc_labels else None
        if options.lora_rank:
            _add_low_rank(self, options.lora_rank)
        self._freeze(options)

    def _freeze(self, options: ModelOptions) -> None:
        """Keep the weights from training that `freeze` names."""
        if options.freeze == "none":
            return
        for name, parameter in self.named_parameters():
            is_layer = ".stack." in name and not name.endswith((".down", ".up"))
            # What reads our own encoder has never seen the like.
            is_new = not options.text_encoder and any(part in name for part in _CROSS)
            is_row = name.startswith(("decoder.embedding.", "decoder.output."))
            if (is_layer and not is_new) or (is_row and options.freeze == "all"):
                parameter.requires_grad_(False)

    def encode(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source; padding influences nothing."""
        return self.encoder(src, src_valid)

    @property
    def head(self) -> nn.Module:
        """The projection of decoder states to logits."""
        return self.decoder.output

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T P"]:
        """Return what the head projects at every position, given the true tokens before it."""
        return self.decoder.states(self.decoder.read(tgt_in, self.start(memory).memory))

    def start(self, memory: Memory) -> PretrainedState:
        """Bring the memory to the width of the text model."""
        # Where a clip has no real position, its padding is looked at.
        states = self.decoder.bridge(memory.states) * memory.valid[..., None]
        return PretrainedState(Memory(states, memory.valid))

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], PretrainedState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        before = cast(PretrainedState, state)
        memory, cache = before.memory, _fill_cache(before)
        if before.own:  # of the memory only the shape is asked for, its keys are in the state
            rows = torch.arange(len(memory.valid), device=tokens.device)
            shape = Memory(memory.states[..., :1], memory.valid)
            memory = shape.select(rows.repeat_interleave(before.width))
        found = self.decoder.read(tokens[:, None], memory, cache)
        own, cross = (
            tuple((layer.keys, layer.values) for layer in kept.layers)
            for kept in (cache.self_attention_cache, cache.cross_attention_cache)
        )
        logits = self.head(self.decoder.states(found))[:, 0]
        return logits, PretrainedState(before.memory, own, cross)

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks, the mean over heads and layers."""
        _, cross = self._maps(memory, tgt_in)
        return torch.stack(cross).mean(dim=(0, 2))

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of every layer and head."""
        encoder: list[Tensor] = []
        memory = self.encoder(src, src_valid, encoder)
        return AttentionMaps.of(encoder, *self._maps(memory, tgt_in))

    def _maps(
        self, memory: Memory, tgt_in: Int[Tensor, "B T"]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the attention of each layer to the target and to the memory."""
        found = self.decoder.read(tgt_in, self.start(memory).memory, has_maps=True)
        is_filled = memory.valid.any(dim=1)[:, None, None, None]
        return list(found.attentions), [layer * is_filled for layer in found.cross_attentions]


def load_text_weights(model: Seq2Seq, folder: Path, rows: Sequence[int]) -> None:
    """Give an untrained model the weights of the text model in a folder.

    Args:
        model: Of the family `pretrained`, built for this text model; changed in place.
        folder: The text model.
        rows: For each row of the model's vocabulary after the first three (pad, begin, end) that
            of the text model's, or -1: such a row begins as the mean of the others.

    Raises:
        UserError: If a tensor is missing or has another shape.
    """
    own, content = cast(Pretrained, model), _read_config(folder)
    weights = _read_weights(folder)
    name = next((name for name in (*_EMBEDDINGS, _HEAD) if name in weights), None)
    if name is None:
        raise _wrong(folder, f"no tensor {_EMBEDDINGS[0]}")
    stacks = {"decoder": own.decoder.stack, "encoder": getattr(own.encoder, "stack", None)}
    for part, stack in stacks.items():
        if stack is None:
            continue
        found = {n.removeprefix(f"{part}."): t for n, t in weights.items() if n.startswith(part)}
        expected = {n: t for n, t in stack.state_dict().items() if not n.endswith((".down", ".up"))}
        wrong = [n for n in expected if n not in found or found[n].shape != expected[n].shape]
        if wrong:
            raise _wrong(folder, f"{len(wrong)} tensors of its {part} are missing or differ: "
                         f"{', '.join(wrong[:3])}")  # fmt: skip
        stack.load_state_dict({n: found[n] for n in expected}, strict=False)
    start = content.get("decoder_start_token_id", content.get("eos_token_id"))
    every = [content.get("pad_token_id"), start, content.get("eos_token_id"), *rows]
    size = len(weights[name])
    picked = torch.tensor(
        [row if isinstance(row, int) and 0 <= row < size else -1 for row in every]
    )
    with torch.no_grad():
        own.decoder.embedding.weight.copy_(_pick(weights[name], picked))
        if not own.decoder.text.is_tied:
            own.decoder.output.weight.copy_(_pick(weights[_HEAD], picked))
        bias = weights.get("final_logits_bias", torch.zeros(1, size))
        own.decoder.output.bias.copy_(_pick(bias[0], picked))


def _pick(rows: Float[Tensor, "U ..."], picked: Int[Tensor, " V"]) -> Float[Tensor, "V ..."]:
    """Return some rows; where the number is -1, the mean of those picked."""
    known = rows[picked[picked >= 0]]
    return torch.cat((rows, known.mean(dim=0, keepdim=True)))[picked]


def _build_stacks(text: TextModel, dropout: float) -> tuple[Any, Any]:
    """Build encoder and decoder with weights as the text model's authors draw them."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError(
            "model.family pretrained needs the package transformers; run "
            "`pip install 'signloom[text]'`"
        )
    import transformers  # seconds, and nobody else needs it

    name = CLASSES[text.kind]
    chances = {"dropout": dropout, "attention_dropout": dropout, "encoder_layerdrop": 0.0,
               "decoder_layerdrop": 0.0}  # fmt: skip
    if text.kind in ("t5", "mt5"):
        chances = {"dropout_rate": dropout}
    try:
        # Its own embeddings are of two rows, and thrown away.
        ids = {"vocab_size": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 0}
        config = getattr(transformers, f"{name}Config")(**text.sizes, **chances, **ids)
        built = getattr(transformers, f"{name}Model")(config)
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"the text model {text.name}: transformers {transformers.__version__} cannot build "
            f"it: {error}"
        ) from None
    stacks = built.get_encoder(), built.get_decoder()
    for stack in stacks:
        stack.embed_tokens = nn.Identity()
    return stacks


def _add_low_rank(model: nn.Module, rank: int) -> None:
    """Put `LowRankLinear` in the place of the adapted matrices of the text model."""
    for path, parent in list(model.named_modules()):
        for name, child in list(parent.named_children()):
            if ".stack." in path and name in _ADAPTED and isinstance(child, nn.Linear):
                setattr(parent, name, LowRankLinear(child, rank))


@contextmanager
def _attention_of(stack: Any, has_maps: bool) -> Iterator[None]:
    """Let a stack keep its attention for a while, which the fast path never computes."""
    before = stack.config._attn_implementation
    stack.config._attn_implementation = "eager" if has_maps else before
    try:
        yield
    finally:
        stack.config._attn_implementation = before


def _fill_cache(state: PretrainedState) -> Any:
    """Return what `transformers` keeps keys and values in, without a copy of any."""
    from transformers.cache_utils import DynamicCache, DynamicLayer, EncoderDecoderCache

    caches = DynamicCache(), DynamicCache()
    for cache, pairs in zip(caches, (state.own, state.cross), strict=True):
        for keys, values in pairs:
            layer = DynamicLayer()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            cache.layers.append(layer)
    return EncoderDecoderCache(*caches)


def _take(
    pairs: tuple[tuple[Tensor, Tensor], ...], rows: Int[Tensor, " R"]
) -> tuple[tuple[Tensor, Tensor], ...]:
    return tuple((k.index_select(0, rows), v.index_select(0, rows)) for k, v in pairs)


def _check_length(text: TextModel, length: int, hint: str) -> None:
    """Refuse more positions than a table of learnt ones has."""
    most = int(text.sizes.get("max_position_embeddings", 1024))
    if text.kind == "mbart" and length > most:
        raise UserError(
            f"the text model {text.name} has {most} positions, but {length} are needed; {hint}"
        )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_bytes())
    except OSError as error:
        raise _wrong(folder, f"config.json cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise _wrong(folder, f"config.json is no JSON ({error})") from None
    if not isinstance(content, dict):
        raise _wrong(folder, "config.json is no object")
    return content


def _weight_files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        pickled = [p.name for p in sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt"))]
        raise _wrong(
            folder,
            f"found weights in {pickled[0]} alone, a pickle, which may run code: it is not read"
            if pickled
            else "no weights (*.safetensors)",
        )
    return found


def _tensor_names(folder: Path) -> set[str]:
    names: set[str] = set()
    for path in _weight_files(folder):
        with _open_weights(path) as file:
            names.update(name.removeprefix("model.") for name in file.keys())  # noqa: SIM118
    return names


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Return all tensors, in float32, by the names that they have inside the model."""
    weights = {}
    for path in _weight_files(folder):
        with _open_weights(path) as file:
            for name in file.keys():  # noqa: SIM118
                weights[name.removeprefix("model.")] = file.get_tensor(name).float()
    return weights


@contextmanager
def _open_weights(path: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except (safetensors.SafetensorError, OSError) as error:
        raise _wrong(path.parent, f"{path.name} is torn: {error}") from None


def _licence(folder: Path) -> str:
    """Return what a folder says of its licence, in a line."""
    readme = folder / "README.md"
    if readme.is_file():
        text = readme.read_text(encoding="utf-8", errors="replace")
        if found := _README_LICENCE.search(text):
            return found[1].strip()[:200]
    for path in (path for pattern in _TERMS for path in sorted(folder.glob(pattern))):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip()[:200] for line in lines if line.strip()), "")
    return ""


def _wrong(folder: Path, found: str) -> UserError:
    return UserError(f"model.text_model: {folder or '(empty)'}: {found}; {_HINT}")
