"""Sentences for each CPU second of our decoder and of others, on models of the documents' size.

Width 512, 6 + 6 layers, 250 source frames, every sentence forced to 20 tokens, random weights: the
work is the same whatever the weights say. The ways take turns, one thread, CPU time, medians. The
other two decode a Marian model of the same size, whose source is tokens; its encoder has an
embedding where ours has a projection of features.
"""

import dataclasses
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch

from signloom.models.registry import build_model
from signloom.models.seq2seq import Seq2Seq
from signloom.translation.precision import reduce_precision
from signloom.translation.search import SpecialIds, search
from signloom.translation.translator import encode_in_parts
from tests import tiny
from tests.bench.figures import Figure
from tests.contract.variants import DOCUMENT_000

SIZES: dict[str, Any] = {
    "d_model": 512,
    "heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "d_ff": 2048,
}
FRAMES, FEATURES, TOKENS, BATCH, ROUNDS = 250, 126, 20, 32, 2
IDS = SpecialIds(pad=0, bos=1, eos=2)
Way = Callable[[], int]  # decodes; returns the number of sentences


@functools.cache
def ours(vocab: int, subsampling: int, precision: str) -> Seq2Seq:
    return reduce_precision(build.__wrapped__(vocab, subsampling), precision)


@functools.cache
def build(vocab: int, subsampling: int) -> Seq2Seq:
    torch.manual_seed(0)
    changes = {**DOCUMENT_000, **SIZES, "subsampling": subsampling}
    options = dataclasses.replace(tiny.MODEL, **changes)
    return build_model(options, input_width=FEATURES, vocab_size=vocab, ctc_labels=0).eval()


def source(clips: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(clips, FRAMES, FEATURES), torch.ones(clips, FRAMES, dtype=torch.bool)


@torch.inference_mode()
def as_the_documents(vocab: int, clips: int) -> int:
    """One clip at a time: encode it, then decode the whole prefix again for every token."""
    model = build(vocab, 1)
    src, valid = source(clips)
    for clip in range(clips):
        memory = model.encode(src[clip : clip + 1], valid[clip : clip + 1])
        prefix = torch.tensor([[IDS.bos]])
        for _ in range(TOKENS):
            logits = model.decode(memory, prefix)[:, -1]
            logits[:, [IDS.pad, IDS.bos, IDS.eos]] = -torch.inf
            prefix = torch.cat((prefix, logits.argmax(dim=-1, keepdim=True)), dim=1)
    return clips


@torch.inference_mode()
def by_search(vocab: int, beam: int, subsampling: int = 1, precision: str = "float32") -> int:
    model = ours(vocab, subsampling, precision)
    options = tiny.decoding(beam_size=beam, min_tokens=TOKENS, max_tokens=TOKENS)
    beams = search(model, encode_in_parts(model, *source(BATCH)), IDS, options)
    assert all(len(best.tokens) == TOKENS for (best,) in beams)
    return BATCH


@functools.cache
def marian(vocab: int) -> Any:
    """Build a random Marian model of the same size; id 0 is eos, the last one is pad."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocab,
        d_model=512,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        activation_function="gelu",
        max_position_embeddings=512,
        pad_token_id=vocab - 1,
        eos_token_id=0,
        decoder_start_token_id=vocab - 1,
        forced_eos_token_id=None,
        scale_embedding=True,
        init_std=0.05,
    )
    return MarianMTModel(config).eval()


def token_source(vocab: int) -> torch.Tensor:
    return torch.randint(1, vocab - 1, (BATCH, FRAMES), generator=torch.Generator().manual_seed(1))


@torch.inference_mode()
def by_transformers(vocab: int, beam: int) -> int:
    ids = token_source(vocab)
    tokens = marian(vocab).generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=beam,
        do_sample=False,
        min_new_tokens=TOKENS,
        max_new_tokens=TOKENS,
    )
    assert tokens.shape == (BATCH, TOKENS + 1)
    return BATCH


@functools.cache
def translator(vocab: int, compute_type: str) -> Any:
    """Convert the Marian model without tokeniser files and load it."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    names = {("</s>" if i == 0 else f"t{i}"): i for i in range(vocab - 1)}
    tokenizer = SimpleNamespace(
        get_vocab=lambda: {**names, "<pad>": vocab - 1}, eos_token="</s>", unk_token="t1"
    )
    with tempfile.TemporaryDirectory() as folder:
        with torch.no_grad():
            spec = MarianMTLoader()(marian(vocab), tokenizer)
        spec.validate()
        spec.optimize()
        spec.save(folder)
        return ctranslate2.Translator(
            folder, compute_type=compute_type, inter_threads=1, intra_threads=1
        )


def by_ctranslate2(vocab: int, beam: int, compute_type: str = "float32") -> int:
    tokens = [[f"t{i}" for i in row] for row in token_source(vocab).tolist()]
    results = translator(vocab, compute_type).translate_batch(
        tokens,
        beam_size=beam,
        min_decoding_length=TOKENS,
        max_decoding_length=TOKENS,
        max_batch_size=BATCH,
    )
    assert all(len(result.hypotheses[0]) == TOKENS for result in results)
    return BATCH


def ways() -> dict[str, Way]:
    few = 3_000
    part = functools.partial
    return {
        "documents": part(as_the_documents, few, 2),
        "greedy": part(by_search, few, 1),
        "transformers": part(by_transformers, few, 5),
        "beam": part(by_search, few, 5),
        "CTranslate2": part(by_ctranslate2, few, 5),
        "int8": part(by_search, few, 5, 1, "int8"),
        "CTranslate2 int8": part(by_ctranslate2, few, 5, "int8"),
        "stem and int8": part(by_search, few, 5, 4, "int8"),
    }


BARS = [  # a way, how many times another one it must reach
    ("greedy", 6.0, "documents"),
    ("beam", 1.4, "transformers"),
    ("beam", 1.0, "CTranslate2"),
    ("int8", 1.0, "CTranslate2 int8"),
    ("stem and int8", 1.0, "CTranslate2"),
]


def measure() -> list[Figure]:
    """Return sentences a CPU second of every way, and ratios; the first round warms up."""
    torch.set_num_threads(1)
    every = ways()
    speeds: dict[str, list[float]] = {name: [] for name in every}
    for number in range(ROUNDS + 1):
        for name, way in every.items():
            start = time.process_time()
            sentences = way()
            if number:
                speeds[name].append(sentences / (time.process_time() - start))
    figures = [
        Figure(f"{name}, sentences a CPU-s", statistics.median(values))
        for name, values in speeds.items()
    ]
    for way, bar, baseline in BARS:
        ratios = [a / b for a, b in zip(speeds[way], speeds[baseline], strict=True)]
        figures.append(
            Figure(f"{way}, times {baseline}'s", statistics.median(ratios), at_least=bar)
        )
    return figures
