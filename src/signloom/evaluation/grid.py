"""Searches to try and the dev clips come in, the best search goes out."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from tqdm import tqdm

from signloom.corpus.clips import SourceSequence
from signloom.corpus.progress import progress_file
from signloom.decoding import DecodingOptions
from signloom.evaluation.options import EvaluateOptions
from signloom.evaluation.systems import plain_texts
from signloom.metrics import score_corpus
from signloom.translator import Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One search and what it is worth on dev."""

    beam_size: int
    length_penalty: float
    bleu4: float
    wer: float
    chosen: bool


def try_searches(
    translator: Translator,
    sequences: Sequence[SourceSequence],
    refs: Sequence[str],
    options: EvaluateOptions,
) -> tuple[DecodingOptions, list[GridRow]]:
    """Translate dev with every search of the grid.

    Args:
        translator: The trained model.
        sequences: Of the dev clips; without any nothing is tried.
        refs: Their sentences.
        options: The grid, and what it does not vary.

    Returns:
        The search with the highest BLEU-4 (of equals the lower WER, then the first tried), and a
        row for each that was tried.
    """
    grid = options.grid
    pairs = [(size, penalty) for size in grid.beam_sizes for penalty in grid.length_penalties]
    if pairs and not refs:
        logger.warning("no dev clip to choose the search with: evaluate.decoding is used")
    if not pairs or not refs:
        return options.decoding, []
    scores: dict[tuple[int, float], tuple[float, float]] = {}
    for size, penalty in tqdm(
        pairs, desc="try searches on dev", unit="search", file=progress_file()
    ):
        if size == 1 and (size, grid.length_penalties[0]) in scores:
            # Greedy search has one hypothesis, which no penalty changes.
            scores[size, penalty] = scores[size, grid.length_penalties[0]]
            continue
        tried = replace(options.decoding, beam_size=size, length_penalty=penalty)
        said = plain_texts(translator.translate(sequences, tried))
        found = score_corpus(said, refs, options.score)
        scores[size, penalty] = found["bleu4"].value, found["wer"].value
    best = max(pairs, key=lambda pair: (scores[pair][0], -scores[pair][1]))
    rows = [
        GridRow(
            beam_size=pair[0],
            length_penalty=pair[1],
            bleu4=scores[pair][0],
            wer=scores[pair][1],
            chosen=pair == best,
        )
        for pair in pairs
    ]
    return replace(options.decoding, beam_size=best[0], length_penalty=best[1]), rows


def grid_table(rows: Sequence[GridRow], *, digits: int) -> list[dict[str, int | float]]:
    """Return the rows as plain maps."""
    return [
        {
            key: round(value, digits) if isinstance(value, float) else int(value)
            for key, value in asdict(row).items()
        }
        for row in rows
    ]
