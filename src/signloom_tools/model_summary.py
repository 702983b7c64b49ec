"""The parts of a model, their sizes, and what running it costs (`signloom summary`)."""

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from signloom.config import load_section
from signloom.corpus.landmarks import build_layout
from signloom.corpus.manifest import IMPORTED_SHARDS, CorpusOptions
from signloom.devices import pick_device
from signloom.errors import UserError
from signloom.features.features import FeatureOptions, feature_width
from signloom.features.glosses import NO_GLOSSES
from signloom.features.sources import open_source
from signloom.features.targets import read_glosses, read_labels
from signloom.features.tokenizer import Tokenizer
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from signloom.paths import LABELS, SHARDS, TARGETS, TOKENIZER
from signloom.progress import wrap
from signloom.training.options import TrainOptions
from signloom.translation.options import DECODING
from signloom.translation.search import SpecialIds, search

CLIP_S = 5.0  # length of a clip
TOKENS = 20  # of a sentence, T
DEPTH = 4  # of the tree that is printed
REPEATS = 7  # of each latency; the median is printed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a model is built for and fed with."""

    input_width: int  # features of a frame, F; rows of the source vocabulary if it reads tokens
    vocab_size: int  # rows of the output layer, V
    ctc_labels: int  # with the blank; 0 without that head
    frames: int  # of a clip at the features' rate, S
    is_shared: bool = False  # whether source ids are target ids


def summarise_model(params: Path, vocab: int | None, width: int | None) -> str:
    """Build the model of the parameters, untrained, and return what it consists of and costs."""
    model_options = load_section(params, "model", ModelOptions)
    sizes = find_sizes(params, model_options, vocab, width)
    torch.manual_seed(0)
    eos = sizes.vocab_size - 1  # any id will do
    model = build_model(
        model_options,
        input_width=sizes.input_width,
        vocab_size=sizes.vocab_size,
        ctc_labels=sizes.ctc_labels,
        eos=eos,
        is_shared=sizes.is_shared,
    ).eval()
    inputs = _random_inputs(sizes, model_options.source)
    parts, mult_adds = list_parts(model, inputs), count_mult_adds(model, inputs)
    device = pick_device("auto")  # as `signloom translate` does
    latency = measure_latency(model.to(device), [tensor.to(device) for tensor in inputs], eos)
    halves = ", ".join(f"{name} {number:,}" for name, number in count_by_half(model).items())
    parameters = parts[0].parameters
    output_bytes = sum(part.output_bytes for part in parts)
    counted = ", ".join(f"{name} {number / 1e6:,.1f} million" for name, number in mult_adds.items())
    shown = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in latency.items())
    source = f"a clip of {sizes.frames} frames with {sizes.input_width:,} features"
    if model_options.source == "glosses":
        source = f"{sizes.frames} of {sizes.input_width:,} source tokens"
    return "\n".join(
        (
            format_parts(parts),
            wrap(f"parameters: {parameters:,} ({4 * parameters / 1e6:.1f} MB): {halves}", ""),
            f"outputs of all layers: {output_bytes / 1e6:.1f} MB",
            f"input: {source}, {TOKENS} of {sizes.vocab_size:,} tokens, "
            f"{sizes.ctc_labels} CTC labels",
            f"mult-adds: {counted}",
            wrap(f"latency on {describe_device(device)}, median of {REPEATS}: {shown}", ""),
        )
    )


def describe_device(device: torch.device) -> str:
    """Return as text what a latency was measured on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"this CPU, {torch.get_num_threads()} threads"


def find_sizes(
    params: Path, model: ModelOptions, vocab: int | None, width: int | None = None
) -> Sizes:
    """Take sizes that are not given from the outputs of the stages, or from the parameters.

    Raises:
        UserError: If neither these nor `vocab` give the size of the vocabulary.
    """
    features = load_section(params, "features", FeatureOptions)
    tokenizer, labels, shards, targets = (
        params.parent / path for path in (TOKENIZER, LABELS, SHARDS, TARGETS)
    )
    if vocab is None and not tokenizer.is_file():
        raise UserError(
            f"{tokenizer} does not exist, so the vocabulary is unknown; run `dvc repro "
            "tokenize_targets` first or give --vocab"
        )
    vocab = vocab or Tokenizer.load(tokenizer).vocab_size
    corpus = params.parent / load_section(params, "corpus", CorpusOptions).folder
    folders = [path for path in (shards, corpus / IMPORTED_SHARDS) if path.is_dir()]
    glosses = read_glosses(targets) if targets.is_file() else NO_GLOSSES
    has_ctc = load_section(params, "train", TrainOptions).ctc_weight > 0
    if width is None and model.source == "glosses":
        width = glosses.size or vocab
    if width is None and folders:
        width = open_source(model.source, shards=folders[0], targets=targets).reader(features).width
    count = len(read_labels(labels)) + 1 if has_ctc and labels.is_file() else 0
    return Sizes(
        input_width=width or feature_width(features, build_layout(features.groups)),
        vocab_size=vocab,
        ctc_labels=count or 2 * (not model.decoder_layers),  # what has no decoder has labels
        frames=round(CLIP_S * features.fps),
        is_shared=glosses.kind == "shared",
    )


def _random_inputs(sizes: Sizes, source: str) -> list[torch.Tensor]:
    """Source, validity and target of full length."""
    shape = (1, sizes.frames)
    src = torch.randn(*shape, sizes.input_width)
    if source == "glosses":
        src = torch.randint(sizes.input_width, shape)
    tgt = torch.randint(sizes.vocab_size, (1, TOKENS))
    return [src, torch.ones(shape, dtype=torch.bool), tgt]


@dataclasses.dataclass(slots=True, kw_only=True)
class ModelPart:
    """A module of a model, with all that is in it."""

    name: str  # as in the checkpoint's weights; of the whole model its class
    class_name: str
    depth: int  # 0: the whole model
    parameters: int
    input: list[int] | None = None  # shape of the first tensor that it was called with, if it was
    output: list[int] | None = None
    output_bytes: int = 0  # of all its calls; 0 where it only calls others


def list_parts(model: Seq2Seq, inputs: list[torch.Tensor]) -> list[ModelPart]:
    """Run a model once; return its modules, each once, in the order in which they were made."""
    parts: list[ModelPart] = []
    hooks = []

    def record(
        module: torch.nn.Module, arguments: object, result: object, *, part: ModelPart
    ) -> None:
        output_tensor, input_tensor = _first_tensor(result), _first_tensor(arguments)
        if output_tensor is None:
            return
        if part.output is None:
            part.input = None if input_tensor is None else list(input_tensor.shape)
            part.output = list(output_tensor.shape)
        if not any(module.children()):
            part.output_bytes += output_tensor.nbytes

    for name, module in model.named_modules():
        part = ModelPart(
            name=name or type(model).__name__,
            class_name=type(module).__name__,
            depth=name.count(".") + 1 if name else 0,
            parameters=sum(parameter.numel() for parameter in module.parameters()),
        )
        parts.append(part)
        hooks.append(module.register_forward_hook(functools.partial(record, part=part)))
    with torch.inference_mode():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return parts


def format_parts(parts: Sequence[ModelPart]) -> str:
    """Return a table for a person, of the parts down to `DEPTH` that do or hold something."""
    rows = [("part", "input", "output", "parameters")]
    for part in parts:
        if part.depth <= DEPTH and (part.parameters or part.output):
            input_shape, output_shape = (
                "x".join(map(str, shape or ())) for shape in (part.input, part.output)
            )
            short_name = part.name.rpartition(".")[2]
            title = f"{short_name} ({part.class_name})" if part.depth else short_name
            rows.append(
                (2 * part.depth * " " + title, input_shape, output_shape, f"{part.parameters:,}")
            )
    *widths, last = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([*map(str.ljust, row[:-1], widths), row[-1].rjust(last)]) for row in rows
    )


def _first_tensor(value: object) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    items = value if isinstance(value, list | tuple) else []
    return next((tensor for item in items if (tensor := _first_tensor(item)) is not None), None)


def measure_latency(model: Seq2Seq, inputs: list[torch.Tensor], eos: int) -> dict[str, float]:
    """Return seconds to encode, to feed one token, and to write whole sentences of that length.

    Greedily, the least that a sentence costs, and with a beam of 4.
    """
    src, valid, tgt = inputs
    length = tgt.shape[1]
    decoding = dataclasses.replace(DECODING, min_tokens=length, max_tokens=length)
    ids = SpecialIds(pad=0, bos=1, eos=eos)

    def greedy() -> None:
        state, tokens = model.start(model.encode(src, valid)), tgt[:, 0]
        for _ in range(tgt.shape[1]):
            logits, state = model.step(tokens, state)
            tokens = logits.argmax(dim=-1)

    with torch.inference_mode():
        if not model.has_decoder:
            return {"encode": _time(lambda: model.encode(src, valid), src.device)}
        state = model.start(model.encode(src, valid))
        return {
            "encode": _time(lambda: model.encode(src, valid), src.device),
            "step": _time(lambda: model.step(tgt[:, 0], state), src.device),
            f"greedy_{length}": _time(greedy, src.device),
            f"beam_{decoding.beam_size}_{length}": _time(
                lambda: search(model, model.encode(src, valid), ids, decoding), src.device
            ),
        }


def count_by_half(model: Seq2Seq) -> dict[str, int]:
    """Count them by encoder, decoder, the head that writes tokens, and the CTC head.

    What halves share, as a matrix of embeddings that is the head's too, counts where it comes
    first.
    """
    head = set(model.head.parameters()) if model.has_decoder else set()
    counted: set[torch.nn.Parameter] = set()
    counts: dict[str, int] = {}
    for name, child in model.named_children():
        for parameter in child.parameters():
            if parameter not in counted:
                half = "head" if parameter in head else name
                counts[half] = counts.get(half, 0) + parameter.numel()
                counted.add(parameter)
    return counts


def count_mult_adds(model: Seq2Seq, inputs: list[torch.Tensor]) -> dict[str, int]:
    """Count the multiplications of all matrix products and convolutions, by half of the model."""
    src, valid, tgt = inputs
    fused = {torch.ops.aten.mkldnn_rnn_layer: _lstm_flops}

    def count(action: Callable[[], object]) -> int:
        # Fused attention is not in PyTorch's table; written out, its products are.
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False, custom_mapping=fused) as counter,
        ):
            action()
        return int(counter.get_total_flops()) // 2  # a product and its sum

    with torch.inference_mode():
        memory = model.encode(src, valid)
        counts = {"encode": count(lambda: model.encode(src, valid))}
        if model.has_decoder:
            counts["decode"] = count(lambda: model.decode(memory, tgt))
    return counts


def _lstm_flops(
    x: Sequence[int], input_weight: Sequence[int], recurrent: Sequence[int], *_: Any, **__: Any
) -> int:
    """Operations of oneDNN's LSTM layer, which PyTorch's table lacks, from its shapes."""
    return 2 * prod(x[:-1]) * (prod(input_weight) + prod(recurrent))


def _time(action: Callable[[], object], device: torch.device) -> float:
    def run() -> None:
        action()
        if device.type == "cuda":  # which works on while Python goes on
            torch.cuda.synchronize(device)

    run()  # first uses allocate
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return median(seconds)
