"""A checkpoint and a corpus come in; what it says, and what that is worth, goes out."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from signloom.corpus.clips import SourceSequence
from signloom.corpus.targets import Target
from signloom.decoding import DecodingOptions
from signloom.evaluation.commands import run_commands
from signloom.evaluation.grid import GridRow, try_searches
from signloom.evaluation.options import EvaluateOptions
from signloom.evaluation.seeds import METRICS, seed_name, summarise_seeds
from signloom.evaluation.summary import DECIMALS, count, headline, summarise
from signloom.evaluation.systems import SplitResult, plain_texts, run_systems
from signloom.metrics import ScoreOptions, Statistics, score_corpus
from signloom.translator import Alignment, Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """What the systems said and what it is worth."""

    options: EvaluateOptions
    decoding: DecodingOptions  # the search that was used
    grid: list[GridRow]  # what it was chosen from; empty if there was no choice
    results: list[SplitResult]
    counts: dict[str, dict[str, Statistics]]  # split to system
    splits: dict[str, Any]  # see `summarise`
    seeds: dict[str, Any] | None  # see `summarise_seeds`
    train_texts: frozenset[str]
    alignments: dict[str, Alignment]  # by clip id; empty for a model without attention

    @property
    def metrics(self) -> dict[str, Any]:
        """The headline numbers, as in reports/metrics.json."""
        return headline(self.splits, self.seeds)


def describe(translator: Translator, options: EvaluateOptions) -> str:
    """Return a name by which a person tells this evaluation from others."""
    model = translator.spec.model
    search = "best of grid" if options.grid.beam_sizes else f"beam {options.decoding.beam_size}"
    return (
        f"{model.family} {model.encoder_layers}+{model.decoder_layers}x{model.d_model} "
        f"{model.norm}-norm, {search}"
    )


def evaluate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    options: EvaluateOptions,
    *,
    others: Iterable[tuple[str, Translator]] = (),
) -> Evaluation:
    """Translate dev and test from landmarks, or glosses, alone and score the sentences.

    No reference ever reaches the model: what is scored is what it writes by itself. Only the
    choice of the search looks at references, and at those of dev alone.

    Args:
        translator: The trained model.
        targets: The whole corpus.
        sequences: Clip id to landmarks or glosses, of all splits.
        options: Search and scoring.
        others: The same model trained with other seeds, by name; their scores are summarised.
    """
    dev = [t for t in targets if t.split == "dev" and t.clip_id in sequences]
    decoding, grid = try_searches(
        translator, [sequences[t.clip_id] for t in dev], [t.text for t in dev], options
    )
    results = run_systems(translator, targets, sequences, decoding, options.score)
    train_texts = frozenset(target.text for target in targets if target.split == "train")
    given = run_commands(options.commands, results)
    counts = count(results, options.score, given, options.commands)
    splits = summarise(results, counts, train_texts, options.score)
    scores = {
        seed_name(translator.spec.provenance): {
            split: {name: found["systems"]["model"][name]["value"] for name in METRICS}
            for split, found in splits.items()
        }
    }
    for name, other in others:
        scores[name] = _score_model(other, results, sequences, decoding, options.score)
    return Evaluation(
        options=options,
        decoding=decoding,
        grid=grid,
        results=results,
        counts=counts,
        splits=splits,
        seeds=summarise_seeds(scores, digits=DECIMALS),
        train_texts=train_texts,
        alignments=_align(translator, results, sequences),
    )


def _score_model(
    translator: Translator,
    results: Sequence[SplitResult],
    sequences: Mapping[str, SourceSequence],
    decoding: DecodingOptions,
    score: ScoreOptions,
) -> dict[str, dict[str, float]]:
    """Score a model by itself on the clips that were evaluated."""
    found: dict[str, dict[str, float]] = {}
    for result in results:
        clips = [sequences[target.clip_id] for target in result.targets]
        said = plain_texts(translator.translate(clips, decoding))
        scores = score_corpus(said, [target.text for target in result.targets], score)
        found[result.split] = {name: scores[name].value for name in METRICS}
    return found


def _align(
    translator: Translator,
    results: Sequence[SplitResult],
    sequences: Mapping[str, SourceSequence],
) -> dict[str, Alignment]:
    """Ask where the model looked while it wrote each translation."""
    found: dict[str, Alignment] = {}
    for result in results:
        clips = [sequences[target.clip_id] for target in result.targets]
        try:
            aligned = translator.align(clips, result.translations)
        except ValueError as error:
            logger.info("no alignments: %s", error)
            return {}
        found |= {
            target.clip_id: alignment
            for target, alignment in zip(result.targets, aligned, strict=True)
        }
    return found
