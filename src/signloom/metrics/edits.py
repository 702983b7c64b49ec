"""Metrics of whole words in their order: TER, WER, CER, ROUGE-L and exact match."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import jiwer
from sacrebleu.metrics.ter import TER

from signloom.metrics.counted import Counted, mean, ratio
from signloom.metrics.ngrams import sacrebleu_signature
from signloom.metrics.options import ScoreOptions, split_words

Words = Sequence[Sequence[str]]


def count_ter(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Translation edit rate: a block of words that stands elsewhere costs one edit."""
    is_chinese = options.words != "words"
    ter = TER(normalized=is_chinese, asian_support=is_chinese)
    counts = ter._extract_corpus_statistics(hyps, [refs])
    edits, lengths = zip(*counts, strict=True)
    return ratio("ter", sacrebleu_signature(ter, options), edits, lengths)


def count_wer(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Word error rate; each edit costs 1."""
    return _error_rate(
        "wer", options.words, split_words(hyps, options), split_words(refs, options), options
    )


def count_cer(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Character error rate; each edit costs 1, a space is a character."""

    def split(texts: Sequence[str]) -> Words:
        cased = [text.lower() for text in texts] if options.lowercase else texts
        return [list(" ".join(text.split())) for text in cased]

    return _error_rate("cer", "characters", split(hyps), split(refs), options)


def count_rouge_l(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """ROUGE-L: F1 of the longest common subsequence of words, in any script.

    Source: Lin (2004); as the package rouge-score, which however drops all but a to z and digits.
    """
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    # 2 P R / (P + R) with P = common / hyp and R = common / ref.
    values = [200 * _common(hyp, ref) / (len(hyp) + len(ref)) for hyp, ref in pairs]
    return mean("rouge_l", _own_signature(options, "f:1"), values)


def count_exact(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Share of the sentences that are right in every word."""
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    return mean("exact", _own_signature(options), [100.0 * (hyp == ref) for hyp, ref in pairs])


def align(hyps: Words, refs: Words) -> list[list[Any]]:
    """Return jiwer's chunks for each pair, on exactly these words."""
    output = jiwer.process_words(
        [""] * len(refs), [""] * len(hyps),
        reference_transform=lambda _: refs, hypothesis_transform=lambda _: hyps,
    )  # fmt: skip
    alignments: list[list[Any]] = output.alignments
    return alignments


def _error_rate(name: str, tokens: str, hyps: Words, refs: Words, options: ScoreOptions) -> Counted:
    edits = [
        sum(
            max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)
            for chunk in chunks
            if chunk.type != "equal"
        )
        for chunks in align(hyps, refs)
    ]
    signature = _join(
        {
            "nrefs": "1",
            "case": "lc" if options.lowercase else "mixed",
            "norm": "none",
            "tok": tokens,
            "cost": "sub1+ins1+del1",
            **options.mode,
            "version": f"jiwer-{version('jiwer')}",
        }
    )
    return ratio(name, signature, edits, [len(ref) for ref in refs])


def _common(hyp: Sequence[str], ref: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(ref) + 1)
    for word in hyp:
        before = 0  # of the row above, one column to the left
        for column, other in enumerate(ref, start=1):
            above = row[column]
            row[column] = before + 1 if word == other else max(above, row[column - 1])
            before = above
    return row[-1]


def _own_signature(options: ScoreOptions, *extra: str) -> str:
    parts = {
        "nrefs": "1",
        "case": "lc" if options.lowercase else "mixed",
        "tok": options.words,
        **dict(part.split(":") for part in extra),
        "mean": "sentences",
        **options.mode,
        "version": f"signloom-{version('signloom')}",
    }
    return _join(parts)


def _join(parts: dict[str, str]) -> str:
    return "|".join(f"{key}:{value}" for key, value in parts.items())
