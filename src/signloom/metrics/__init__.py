"""Hypotheses and references go in, scores with interval and signature come out.

The only package that knows sacreBLEU and jiwer. Pure: no files, no global random state.
"""

from signloom.metrics.compare import Difference, compare
from signloom.metrics.counted import LOWER_IS_BETTER, METRICS
from signloom.metrics.floors import best_constant
from signloom.metrics.options import Score, ScoreOptions, split_words
from signloom.metrics.scores import (
    Statistics,
    measure,
    score_corpus,
    score_statistics,
    sentence_scores,
)
from signloom.metrics.words import Confusion, WordEdit, align_words, count_confusions

__all__ = [
    "LOWER_IS_BETTER",
    "METRICS",
    "Confusion",
    "Difference",
    "Score",
    "ScoreOptions",
    "Statistics",
    "WordEdit",
    "align_words",
    "best_constant",
    "compare",
    "count_confusions",
    "measure",
    "score_corpus",
    "score_statistics",
    "sentence_scores",
    "split_words",
]
