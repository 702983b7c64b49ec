"""Hypothesis and reference come in; which words differ, and how often, goes out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from signloom.metrics.edits import align
from signloom.metrics.options import ScoreOptions, split_words


@dataclass(frozen=True, slots=True)
class WordEdit:
    """A stretch of words that agree or differ between reference and hypothesis."""

    kind: Literal["equal", "substitute", "insert", "delete"]
    reference: tuple[str, ...]
    """Empty for an insertion."""
    hypothesis: tuple[str, ...]
    """Empty for a deletion."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word that was taken for another, added or left out."""

    kind: Literal["substitute", "insert", "delete"]
    reference: str
    """Empty for an insertion."""
    hypothesis: str
    """Empty for a deletion."""
    count: int


def align_words(hyp: str, ref: str, options: ScoreOptions) -> list[WordEdit]:
    """The cheapest edits that turn the reference into the hypothesis; each costs 1.

    Words and their case count as for WER; they are returned as they are written.
    """
    edits = _align(*split_words([hyp, ref], options))
    said, meant = map(iter, split_words([hyp, ref], options, keep_case=True))
    return [
        WordEdit(
            edit.kind,
            tuple(islice(meant, len(edit.reference))),
            tuple(islice(said, len(edit.hypothesis))),
        )
        for edit in edits
    ]


def count_confusions(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> list[Confusion]:
    """Count how each word was got wrong, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    for hyp, ref in pairs:
        for edit in _align(hyp, ref):
            length = max(len(edit.reference), len(edit.hypothesis))
            # Of a substitution both sides are equally long, of the others one is empty.
            said = edit.hypothesis or ("",) * length
            meant = edit.reference or ("",) * length
            if edit.kind != "equal":
                counts.update((edit.kind, *pair) for pair in zip(meant, said, strict=True))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*words, count) for words, count in ordered]  # type: ignore[arg-type]


def _align(hyp: Sequence[str], ref: Sequence[str]) -> list[WordEdit]:
    return [
        WordEdit(
            chunk.type,
            tuple(ref[chunk.ref_start_idx : chunk.ref_end_idx]),
            tuple(hyp[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in align([hyp], [ref])[0]
    ]
