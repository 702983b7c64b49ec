"""Pretrained text models (T5, mT5, ByT5, mBART, M2M100, NLLB) behind the interface of all families.

Their layers are those of the package `transformers`, which is imported when a model is built;
embedding and output projection are ours, so that a vocabulary may be trimmed. Shape letters as in
`seq2seq`; P width of the text model, U rows of its own vocabulary.
"""

import importlib.util
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import safetensors
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from signloom.config import checked_dataclass, read_json
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
SIZES = {
    "d_model": 16_384, "d_kv": 16_384, "d_ff": 65_536, "num_layers": 200, "num_heads": 1_024,
    "num_decoder_layers": 200, "relative_attention_num_buckets": 65_536,
    "relative_attention_max_distance": 65_536, "encoder_layers": 200, "decoder_layers": 200,
    "encoder_ffn_dim": 65_536, "decoder_ffn_dim": 65_536, "encoder_attention_heads": 1_024,
    "decoder_attention_heads": 1_024, "max_position_embeddings": 65_536,
}  # fmt: skip
CHOICES: dict[str, tuple[object, ...]] = {
    "feed_forward_proj": ("relu", "gated-gelu"),
    "activation_function": ("relu", "gelu"),
    "scale_embedding": (False, True),
}
# Names of the attention to the memory.
CROSS = ("EncDecAttention", "encoder_attn.")
EMBEDDINGS = ("shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight")
HEAD = "lm_head.weight"
_HINT = (
    "name a folder with config.json, tokenizer.json and weights as .safetensors; nothing is "
    "downloaded here: fetch one where there is a network, such as `hf download google-t5/t5-small "
    "config.json tokenizer.json model.safetensors README.md --local-dir data/text_models/t5-small`"
)

Pairs = tuple[tuple[Tensor, Tensor], ...]  # keys and values of each layer, (R, H, T, K)


@checked_dataclass
class TextModel:
    """What a pretrained text model is, without its weights; kept in a checkpoint."""

    kind: Kind
    sizes: dict[str, int | str | bool]  # of its config.json
    is_tied: bool  # embedding and output projection are one matrix
    is_scaled: bool  # T5: states are divided by the root of the width before that matrix
    name: str  # of its folder
    sha256: str  # of its folder
    licence: str  # as the folder says; empty: it says nothing

    def __post_init__(self) -> None:
        for name, value in {"d_model": None, **self.sizes}.items():
            most = SIZES.get(name, 0)
            is_size = isinstance(value, int) and 1 <= value <= most
            if not is_size and value not in CHOICES.get(name, ()):
                expected = CHOICES.get(name, f"a number from 1 to {most}")
                raise ValueError(f"config.json: {name}: found {value!r}, expected {expected}")

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
        content, names = _read_config(folder), set(_read_weights(folder, has_values=False))
        kind = content.get("model_type")
        if not isinstance(kind, str) or kind not in CLASSES:
            raise _wrong(folder, f"model_type is {kind!r}, expected {', '.join(CLASSES)}")
        is_one = content.get("tie_word_embeddings", True) is not False
        readme = folder / "README.md"
        readme_text = readme.read_text("utf-8", errors="replace") if readme.is_file() else ""
        licence = re.search(r"^licen[sc]e:[ \t]*(\S.*)$", readme_text, re.MULTILINE)
        terms = ", ".join(sorted(path.name for path in folder.glob("LICEN[SC]E*")))
        return cls(
            kind=kind,
            sizes={n: content[n] for n in (*SIZES, *CHOICES) if content.get(n) is not None},
            is_tied=HEAD not in names or names.isdisjoint(EMBEDDINGS),
            is_scaled=kind == "t5" and bool(content.get("scale_decoder_outputs", is_one)),
            name=folder.resolve().name,
            sha256=hash_folder(folder),
            licence=licence[1].strip()[:200] if licence else terms,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PretrainedState(DecoderState):
    """Keys and values of the tokens so far and of the source, both for each beam."""

    memory: Memory  # of each clip
    own: Pairs = ()
    cross: Pairs = ()

    @property
    def width(self) -> int:
        """Beams of a clip."""
        return len(self.own[0][0]) // len(self.memory.valid) if self.own else 1

    def select(self, rows: Int[Tensor, " R"]) -> "PretrainedState":
        """Return the state of the given clips with their beams, in that order."""
        beams = torch.arange(self.width, device=rows.device)
        every = (rows[:, None] * self.width + beams).flatten()
        own_pairs, cross = _take(self.own, every), _take(self.cross, every)
        return PretrainedState(self.memory.select(rows), own_pairs, cross)

    def branch(self, parents: Int[Tensor, "B W"]) -> "PretrainedState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        clips = torch.arange(len(parents), device=parents.device)[:, None]
        rows = (clips * self.width + parents).flatten()
        # The beams of a clip have the same source.
        cross = self.cross if parents.shape[1] == self.width else _take(self.cross, rows)
        return replace(self, own=_take(self.own, rows), cross=cross)


class PretrainedEncoder(nn.Module):
    """Our front end, which gives the text model's encoder vectors in the place of its tokens'."""

    def __init__(
        self, options: ModelOptions, input_width: int, text: TextModel, stack: nn.Module
    ) -> None:
        super().__init__()
        self.source = SourceEmbedding(options, input_width, width=text.width)
        self.stack, self.text = stack, text

    def forward(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> Memory:
        """Encode features or tokens; each layer puts its attention at the end of `maps`."""
        x, valid = self.source(src, src_valid)
        _check_length(self.text, x.shape[1], "raise model.subsampling")
        has_maps = maps is not None
        output = self.stack(inputs_embeds=x, attention_mask=valid, output_attentions=has_maps)
        if maps is not None:
            maps.extend(
                layer * valid.any(dim=1)[:, None, None, None] for layer in output.attentions
            )
        return Memory(output.last_hidden_state * valid[..., None], valid)


class PretrainedDecoder(nn.Module):
    """The text model's decoder between an embedding and a projection for our vocabulary."""

    def __init__(
        self, options: ModelOptions, vocab_size: int, text: TextModel, stack: nn.Module
    ) -> None:
        super().__init__()
        self.text, self.stack = text, stack
        # transformers 5.24 gave the argument another name; 5.40 will not take the earlier one.
        names = inspect.signature(stack.forward).parameters
        self.cache_name = "cache" if "cache" in names else "past_key_values"
        is_scaled = bool(text.sizes.get("scale_embedding", False))
        self.embedding = TokenEmbedding(vocab_size, text.width, is_scaled=is_scaled)
        self.output = build_output(self.embedding, text.width, is_tied=text.is_tied)
        has_bridge = not options.text_encoder and options.d_model != text.width
        self.bridge = nn.Linear(options.d_model, text.width) if has_bridge else nn.Identity()

    def read(
        self, tokens: Int[Tensor, "B T"], memory: Memory, cache: Any = None, **named: bool
    ) -> tuple[Float[Tensor, "B T P"], Any]:
        """Return what the output projects, and all that `transformers` says.

        Args:
            tokens: The new ones.
            memory: Over the bridge.
            cache: Keys and values of what came before; gets those of the tokens.
            named: Whether attention is wanted, too.
        """
        before = cache.get_seq_length() if cache is not None else 0
        _check_length(self.text, before + tokens.shape[1], "lower max_tokens, or split the clips")
        output = self.stack(
            inputs_embeds=self.embedding(tokens),
            encoder_hidden_states=memory.states,
            encoder_attention_mask=memory.valid,
            use_cache=cache is not None,
            **{self.cache_name: cache},
            **named,
        )
        scale = self.text.width**-0.5 if self.text.is_scaled else 1.0
        return output.last_hidden_state * scale, output


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
        encoder, decoder = _build_stacks(text, options)
        self.encoder: nn.Module
        if options.text_encoder:
            self.encoder = PretrainedEncoder(options, input_width, text, encoder)
        else:
            self.encoder = TransformerEncoder(options, input_width)
            initialise(self.encoder, options)
        self.decoder = PretrainedDecoder(options, vocab_size, text, decoder)
        width = text.width if options.text_encoder else options.d_model
        self.ctc = nn.Linear(width, ctc_labels) if ctc_labels else None
        for name, parameter in self.named_parameters() if options.freeze != "none" else ():
            is_layer = ".stack." in name
            # What reads our own encoder has never seen the like.
            is_new = not options.text_encoder and any(part in name for part in CROSS)
            is_row = name.startswith(("decoder.embedding.", "decoder.output."))
            if (is_layer and not is_new) or (is_row and options.freeze == "all"):
                parameter.requires_grad_(False)

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T P"]:
        """Return what the head projects at every position, given the true tokens before it."""
        return self.decoder.read(tgt_in, self.start(memory).memory)[0]

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
        states, _ = self.decoder.read(tokens[:, None], memory, cache)
        self_pairs, cross = (
            tuple((layer.keys, layer.values) for layer in layer_cache.layers)
            for layer_cache in (cache.self_attention_cache, cache.cross_attention_cache)
        )
        return self.head(states)[:, 0], PretrainedState(before.memory, self_pairs, cross)

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks, the mean over heads and layers."""
        return torch.stack(self._maps(memory, tgt_in)[1]).mean(dim=(0, 2))

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
        _, output = self.decoder.read(tgt_in, self.start(memory).memory, output_attentions=True)
        is_filled = memory.valid.any(dim=1)[:, None, None, None]
        return list(output.attentions), [layer * is_filled for layer in output.cross_attentions]


def load_text_weights(model: Seq2Seq, folder: Path, rows: Sequence[int]) -> None:
    """Give an untrained model the weights of the text model in a folder.

    Args:
        model: Of the family `pretrained`, built for this text model; changed in place.
        rows: For each row of the model's vocabulary after the first three (pad, begin, end) that
            of the text model's, or -1: such a row begins as the mean of the others.

    Raises:
        UserError: If a tensor is missing or has another shape.
    """
    target_model, content, weights = (
        cast(Pretrained, model),
        _read_config(folder),
        _read_weights(folder),
    )
    for part in (target_model.encoder, target_model.decoder):
        stack = getattr(part, "stack", None)
        if stack is None:
            continue
        prefix = "decoder." if part is target_model.decoder else "encoder."
        expected = stack.state_dict()
        tensors = {n: weights[prefix + n] for n in expected if prefix + n in weights}
        wrong = [n for n in expected if n not in tensors or tensors[n].shape != expected[n].shape]
        if wrong:
            some = ", ".join(prefix + n for n in wrong[:3])
            raise _wrong(folder, f"{len(wrong)} tensors are missing or differ in shape: {some}")
        stack.load_state_dict(tensors)
    embedding = next((weights[n] for n in (*EMBEDDINGS, HEAD) if n in weights), None)
    if embedding is None or embedding.shape[1:] != (target_model.decoder.text.width,):
        raise _wrong(
            folder, f"no tensor {EMBEDDINGS[0]} of {target_model.decoder.text.width} columns"
        )
    if weights.get(HEAD, embedding).shape != embedding.shape:
        raise _wrong(folder, f"{HEAD} has another shape than the embedding")
    end = content.get("eos_token_id")
    start = content.get("decoder_start_token_id", end)
    picked = [content.get("pad_token_id"), start, end, *rows]
    indices = [n if isinstance(n, int) and 0 <= n < len(embedding) else -1 for n in picked]
    bias = weights.get("final_logits_bias", torch.zeros(1, len(embedding)))[0]
    with torch.no_grad():
        target_model.decoder.embedding.weight.copy_(_pick(embedding, indices))
        target_model.decoder.output.bias.copy_(_pick(bias, indices))
        if not target_model.decoder.text.is_tied:
            target_model.decoder.output.weight.copy_(_pick(weights[HEAD], indices))


def _pick(rows: Float[Tensor, "U ..."], picked: Sequence[int]) -> Float[Tensor, "V ..."]:
    """Return some rows; where the number is -1, the mean of those picked."""
    numbers = torch.tensor(picked)
    mean = rows[numbers[numbers >= 0]].mean(dim=0, keepdim=True)
    return torch.cat((rows, mean))[numbers]


def _build_stacks(text: TextModel, options: ModelOptions) -> tuple[Any, Any]:
    """Build encoder and decoder with weights as the text model's authors draw them."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError(
            "model.family pretrained needs transformers; run `pip install 'signloom[text]'`"
        )
    import transformers  # takes seconds, and no other family needs it

    drop: dict[str, float] = {"dropout_rate": options.dropout}
    if text.kind in ("mbart", "m2m_100"):
        drop = {
            "dropout": options.dropout,
            "attention_dropout": options.dropout,
            "encoder_layerdrop": 0.0,
            "decoder_layerdrop": 0.0,
        }
    # Its own embeddings are thrown away. "eager" gives attention maps, and zeros for empty clips.
    fixed = {
        "vocab_size": 2,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "forced_eos_token_id": None,  # mBART's own is outside two rows: a warning
        "attn_implementation": "eager",
    }
    try:
        config = getattr(transformers, f"{CLASSES[text.kind]}Config")(**text.sizes, **drop, **fixed)
        built = getattr(transformers, f"{CLASSES[text.kind]}Model")(config)
    except Exception as error:  # sizes that do not fit raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(
            f"transformers {transformers.__version__} cannot build {text.name} with the sizes of "
            f"its config.json ({reason}); fetch the folder again"
        ) from None
    stacks = built.get_encoder(), built.get_decoder()
    for stack in stacks:
        stack.embed_tokens = nn.Identity()
    return stacks


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


def _take(pairs: Pairs, rows: Int[Tensor, " R"]) -> Pairs:
    return tuple((k.index_select(0, rows), v.index_select(0, rows)) for k, v in pairs)


def _check_length(text: TextModel, length: int, hint: str) -> None:
    """Refuse more positions than a table of learnt ones has."""
    most = int(text.sizes.get("max_position_embeddings", 1024))
    if text.kind == "mbart" and length > most:
        raise UserError(f"{text.name} has {most} positions, but {length} are needed; {hint}")


def _read_config(folder: Path) -> dict[str, Any]:
    content = read_json(folder / "config.json", hint=_HINT)
    if not isinstance(content, dict):
        raise _wrong(folder, "config.json is no JSON object")
    return content


def _read_weights(folder: Path, *, has_values: bool = True) -> dict[str, Tensor]:
    """Return all tensors, in float32 or without their values, by their names in the model."""
    paths, weights = sorted(folder.glob("*.safetensors")), {}
    if not paths:
        pickled = sorted(path.name for path in folder.glob("*.bin"))
        why = f"{pickled[0]} is a pickle, which may run code" if pickled else "there are none"
        raise _wrong(folder, f"no weights as .safetensors ({why})")
    for path in paths:
        try:
            with safetensors.safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118
                    tensor = file.get_tensor(name).float() if has_values else torch.empty(0)
                    weights[name.removeprefix("model.")] = tensor
        except (safetensors.SafetensorError, OSError) as error:
            raise _wrong(folder, f"{path.name} is torn ({error})") from None
    # Without values a model is only planned, on a device that compares nothing.
    wrong = [n for n, tensor in weights.items() if has_values and not tensor.isfinite().all()]
    if wrong:
        raise _wrong(folder, f"values of {wrong[0]} are no numbers")
    return weights


def _wrong(folder: Path, problem: str) -> UserError:
    return UserError(f"model.text_model: {folder}: {problem}; {_HINT}")
