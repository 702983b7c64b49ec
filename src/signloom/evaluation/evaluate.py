"""The evaluation of a checkpoint on a corpus.

In this order: the search is chosen on dev, every split is translated, systems and floors are scored
beside the model, and how sure it may be is measured.

Learned metrics (BLEURT, COMET) need weights of gigabytes and libraries of their own. They stay
outside: whoever has them writes a few lines around them (docs/evaluation.md says what those read
and print).
"""

import functools
import json
import logging
import math
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from signloom.config import Count, Natural, NonNegative, Share, checked_dataclass, get_map
from signloom.errors import UserError
from signloom.evaluation.calibrate import Reliability, calibrate, stress_rows
from signloom.evaluation.metrics import (
    Score,
    ScoreOptions,
    Statistics,
    mean,
    measure,
    pick_clips,
    score_corpus,
    score_statistics,
    sentence_scores,
)
from signloom.evaluation.names import (
    LOOKUPS,
    Metric,
    System,
    describe_only,
    headline_metric,
    rounded,
)
from signloom.evaluation.signs import Recognition, recognise
from signloom.evaluation.stress import StressRow, try_changes
from signloom.evaluation.summary import (
    Counts,
    SeedScores,
    SplitScores,
    Trained,
    count,
    headline,
    score_seeds,
    score_split,
)
from signloom.evaluation.systems import SplitResult, plain_texts, run_systems
from signloom.features.glosses import split_glosses
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.progress import progress_file
from signloom.translation.confidence import Confidence, seed_folders
from signloom.translation.lookup import SignIndex
from signloom.translation.options import DecodingOptions, SignWeight
from signloom.translation.precision import Precision
from signloom.translation.translator import Alignment, Translator
from signloom.translation.words import SignsSaid, learn_signs_said, learn_words

logger = logging.getLogger(__name__)

# Columns of hypotheses.tsv and entries of metrics.json, which no command may overwrite.
TAKEN = {
    *Metric, *System, "clip_id", "split", "signer", "seen_in_train", "reference", "hypothesis",
    "bleu", "hands", "fps", "seconds", "log_prob", "score",
    "tokens", "clips", "missing", "seeds", "seen", "unseen", "signers", "novelty",
    "uses_input", "signature",
    "gloss", "unknown_glosses", "confidence", "familiar", "calibration_error", "unsure",
    "unfamiliar", "stress_worst", "only_sentence", "corpus", "clips_hash", "headline", *LOOKUPS,
    "gloss_wer", "gloss_substitutions", "gloss_deletions", "gloss_insertions", "together",
}  # fmt: skip
TAKEN_PREFIXES = tuple(f"{system.prefix}_" for system in System)
TAKEN_SUFFIXES = ("_low", "_high")
ONE_SEED = "there is one model; train with train.seeds: [1, 2, 3], or set it to false"


@checked_dataclass
class GridOptions:
    """Searches tried on dev; the best by the headline is used. Empty: `decoding` as it is."""

    beam_sizes: tuple[Count, ...]  # tried with each length penalty
    length_penalties: tuple[NonNegative, ...]
    internal_lm_weights: tuple[Share, ...] = ()  # tried with the best of these; empty: decoding's
    # Then these, with the most of the beams, if the model reads signs; one is used as it is.
    sign_weights: tuple[SignWeight, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.beam_sizes) != bool(self.length_penalties):
            raise ValueError("give both beam_sizes and length_penalties, or leave both empty")
        if self.internal_lm_weights and not self.beam_sizes:
            raise ValueError("internal_lm_weights are tried with beam_sizes and length_penalties")


@checked_dataclass
class EvaluateOptions:
    """How the model searches and how what it finds is scored."""

    precision: Precision = "float32"  # of the weights while they translate
    decoding: DecodingOptions
    grid: GridOptions
    score: ScoreOptions
    # Further metrics: name to a command that reads JSON lines (clip_id, source, hypothesis,
    # reference) and prints a number for each. Empty: none.
    commands: dict[str, str] = field(default_factory=dict)
    # Clips of each split that are translated under changes of real life; of more, every n-th.
    stress: Natural = 0
    # All seeds are evaluated, and translate from then on, as one model: their probabilities are
    # averaged, which takes as many times the time. False: the first is the model.
    together: bool = False

    def __post_init__(self) -> None:
        if self.decoding.temperature and self.grid.beam_sizes:
            raise ValueError(
                f"decoding.temperature: found {self.decoding.temperature}, which draws tokens, but "
                "grid compares beam searches; set grid.beam_sizes and grid.length_penalties to []"
            )
        for name, command in self.commands.items():
            is_taken = name.startswith(TAKEN_PREFIXES) or name.endswith(TAKEN_SUFFIXES)
            if name in TAKEN or is_taken or not name.isidentifier():
                raise ValueError(
                    f"commands: {name!r} cannot name a metric; use letters, digits and _, and no "
                    "name that metrics.json or hypotheses.tsv has already, such as comet"
                )
            if not command.strip():
                raise ValueError(f"commands.{name}: the command is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One search and what it is worth on dev."""

    beam_size: int
    length_penalty: float
    bleu4: float
    exact: float
    wer: float
    chosen: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """The sentences of all systems and their scores."""

    corpus: str  # its name
    headline: Metric  # by which it is judged, as its train texts are
    options: EvaluateOptions
    decoding: DecodingOptions  # the search that was used
    grid: list[GridRow]  # what it was chosen from; empty if there was no choice
    results: list[SplitResult]
    counts: dict[str, dict[System, Statistics]]  # of each split
    splits: dict[str, SplitScores]
    seeds: SeedScores | None  # None of a single model
    train_texts: frozenset[str]
    alignments: dict[str, Alignment]  # by clip id; empty for a model without attention
    confidence: Confidence  # what translations of the model are checked by
    reliability: dict[str, Reliability]  # how true that is, by split
    lookup: dict[str, dict[str, float]]  # `score_lookup`, by split; empty where texts are sentences
    stress: list[StressRow]  # each split under each change; empty where none was tried
    recognition: dict[str, Recognition]  # by split; empty of a model that reads no signs

    @property
    def metrics(self) -> dict[str, Any]:
        """The headline numbers, as in reports/metrics.json."""
        found = headline(self.splits, self.seeds, corpus=self.corpus, metric=self.headline)
        as_one = {"together": len(self.seeds.names)} if self.seeds and self.options.together else {}
        return {
            split: {
                **scores,
                **as_one,
                **self.reliability[split].to_metrics(),
                **self.lookup.get(split, {}),
                **(self.recognition[split].to_metrics() if split in self.recognition else {}),
                **_worst([row for row in self.stress if row.split == split]),
            }
            for split, scores in found.items()
        }


def describe(translator: Translator, options: EvaluateOptions) -> str:
    """Return a name by which a person tells this evaluation from others."""
    model = translator.spec.model
    decoding = options.decoding
    search = "best of grid" if options.grid.beam_sizes else f"beam {decoding.beam_size}"
    if decoding.temperature:
        search = f"drawn at temperature {decoding.temperature:g}"
    return (
        f"{model.family} {model.encoder_layers}+{model.decoder_layers}x{model.d_model} "
        f"{model.norm}-norm, {search}{', all seeds as one' if options.together else ''}"
    )


def evaluate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    options: EvaluateOptions,
    *,
    corpus: str = "",
    others: Iterable[tuple[str, Translator]] = (),
    weights: str = "",
    seeds: Mapping[str, str] | None = None,
) -> Evaluation:
    """Translate dev and test from landmarks, or glosses, alone and score the sentences.

    No reference ever reaches the model: what is scored is what it writes by itself. Only the
    choice of the search looks at references, and at those of dev alone.

    Args:
        translator: The trained model.
        targets: The whole corpus.
        sequences: Clip id to landmarks or glosses, of all splits.
        options: Search and scoring.
        corpus: Name of the corpus, for those who read the scores.
        others: The same model trained with other seeds, by name; their scores are summarised.
        weights: SHA-256 of the model's weights, for which alone the confidence holds.
        seeds: Those of the others', for which it holds where all are evaluated as one.

    Raises:
        UserError: If all are to be evaluated as one, and there is a single one.
    """
    glossed = [t for t in targets if t.split == "train" and t.gloss.split()]
    said = _learn_signs_said(translator, glossed)
    translator = translator.alone.holding(said)
    others = [(name, other.holding(said)) for name, other in others]
    if options.together:
        if not others:
            raise UserError(f"evaluate.together is true, but {ONE_SEED}")
        translator = translator.beside([other for _, other in others])
    dev = [t for t in targets if t.split == "dev" and t.clip_id in sequences]
    metric = headline_metric(target.text for target in targets if target.split == "train")
    decoding, grid = try_searches(
        translator, [sequences[t.clip_id] for t in dev], [t.text for t in dev], options, metric,
        are_glosses=bool(dev) and 2 * sum(t.gloss == t.text for t in dev) >= len(dev),
    )  # fmt: skip
    results = run_systems(translator, targets, sequences, decoding, options.score, metric)
    trained = Trained(targets)
    given = run_commands(options.commands, results)
    counts = count(results, options.score, given, options.commands)
    splits = {
        result.split: score_split(result, counts[result.split], trained, options.score)
        for result in results
    }
    for split, scored in splits.items():
        if scored.only_sentence is not None:
            logger.warning("%s: %s", split, describe_only(scored.only_sentence, scored.clips))
    tried = try_changes(
        translator, {one.split: one.targets for one in results}, sequences, decoding,
        options.score, metric, most=options.stress,
    )  # fmt: skip
    confidence, reliability = calibrate(
        translator, targets, sequences, results, counts, weights, tried
    )
    signs, recognition = recognise(
        translator, targets, sequences, results, options.score, [other for _, other in others]
    )
    return Evaluation(
        corpus=corpus,
        headline=metric,
        options=options,
        decoding=decoding,
        grid=grid,
        results=results,
        counts=counts,
        splits=splits,
        seeds=_score_seeds(translator, counts, others, results, sequences, options, decoding),
        train_texts=trained.texts,
        alignments=_align(translator, results, sequences, counts, options.score),
        confidence=replace(
            confidence,
            decoding=decoding,
            signs=signs,
            words=learn_words([t.text for t in glossed], [t.gloss.split() for t in glossed]),
            signs_said=said,
            seeds=dict(seeds or {}) if options.together else {},
        ),
        reliability=reliability,
        lookup=score_lookup(translator, targets, sequences, results, options.score)
        if metric == Metric.EXACT and translator.source.has_frames
        else {},
        stress=stress_rows(translator, confidence, tried),
        recognition=recognition,
    )


def _learn_signs_said(translator: Translator, glossed: Sequence[Target]) -> SignsSaid:
    """Return what train's sentences with glosses say of the signs, as this model names them."""
    if not translator.reads_signs:
        return SignsSaid()
    # A CTC head knows the glosses as they are written, a source in lower case.
    by_head = translator.spec.ctc.kind == "glosses"
    split: Callable[[str], Sequence[str]] = str.split if by_head else split_glosses
    return learn_signs_said([t.text for t in glossed], [split(t.gloss) for t in glossed])


def _worst(rows: Sequence[StressRow]) -> dict[str, float]:
    """Return the lowest score under any change, for metrics.json."""
    if not rows:
        return {}
    return {"stress_worst": rounded(min(row.score for row in rows))}


def score_lookup(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    results: Sequence[SplitResult],
    options: ScoreOptions,
) -> dict[str, dict[str, float]]:
    """Look every clip up among those of train, as `signloom lookup` does.

    Returns:
        Of each split the share of clips, %, whose text is that of the nearest sign
        (`lookup_top1`), or of one of the five nearest (`lookup_top5`), with 95 % intervals; nothing
        of a split none of whose texts train has, in which nothing can be found.
    """
    train = [one for one in targets if one.split == "train" and one.clip_id in sequences]
    index = SignIndex.of_train(
        [one.clip_id for one in train],
        [one.text for one in train],
        translator.encode_signs([sequences[one.clip_id] for one in train]),
        len(translator.hand_columns),
    )
    found: dict[str, dict[str, float]] = {}
    there = {one.text for one in train}
    for result in results:
        if there.isdisjoint(one.text for one in result.targets):
            continue
        clips = translator.encode_signs([sequences[one.clip_id] for one in result.targets])
        signs = [[sign.text for sign in index.nearest(clip, max(LOOKUPS.values()))]
                 for clip in clips]  # fmt: skip
        hits = {
            name: [100.0 * (one.text in texts[:count])
                   for one, texts in zip(result.targets, signs, strict=True)]
            for name, count in LOOKUPS.items()
        }  # fmt: skip
        parts = tuple(mean(name, "mean:sentences", values) for name, values in hits.items())
        scores = score_statistics(Statistics(parts=parts), options)
        found[result.split] = {
            f"{name}{end}": rounded(value)
            for name, score in scores.items()
            for end, value in (("", score.value), ("_low", score.low), ("_high", score.high))
        }
    return found


def try_searches(
    translator: Translator,
    sequences: Sequence[SourceSequence],
    refs: Sequence[str],
    options: EvaluateOptions,
    metric: Metric,
    are_glosses: bool = False,
) -> tuple[DecodingOptions, list[GridRow]]:
    """Translate dev with every search of the grid.

    Args:
        translator: The trained model.
        sequences: Of the dev clips; without any nothing is tried.
        refs: Their sentences.
        options: The grid, and what it does not vary.
        metric: BLEU-4 or exact match, which decides.
        are_glosses: The texts are signs in their order: the lower WER decides.

    Returns:
        The search with the highest score (of equals the lower WER, then the first tried), and a
        row for each that was tried.
    """
    grid = options.grid
    pairs = [(size, penalty) for size in grid.beam_sizes for penalty in grid.length_penalties]
    if pairs and not refs:
        logger.warning("no dev clip to choose the search with: evaluate.decoding is used")
    if not pairs or not refs:
        return options.decoding, []

    def search(size: int, penalty: float) -> DecodingOptions:
        # Greedy search has one hypothesis, which no penalty changes.
        used = grid.length_penalties[0] if size == 1 else penalty
        return replace(options.decoding, beam_size=size, length_penalty=used)

    @functools.cache
    def score(tried: DecodingOptions) -> Mapping[str, Score]:
        texts = plain_texts(translator.translate(sequences, tried))
        return score_corpus(texts, refs, options.score)

    def rank(tried: DecodingOptions) -> tuple[float, float]:
        value, wer = score(tried)[metric].value, score(tried)[Metric.WER].value
        return (-wer, value) if are_glosses else (value, -wer)

    bar = tqdm(pairs, desc="try searches on dev", unit="search", file=progress_file())
    best = max(bar, key=lambda pair: rank(search(*pair)))
    chosen = _choose_weights(search(*best), grid, translator, rank, lambda one: score(one)[metric])
    names = (Metric.BLEU4, Metric.EXACT, Metric.WER)
    return chosen, [
        GridRow(
            beam_size=pair[0],
            length_penalty=pair[1],
            chosen=pair == (chosen.beam_size, best[1]),
            **{str(name): score(search(*pair))[name].value for name in names},
        )
        for pair in pairs
    ]


def _choose_weights(
    chosen: DecodingOptions,
    grid: GridOptions,
    translator: Translator,
    rank: Callable[[DecodingOptions], tuple[float, float]],
    score: Callable[[DecodingOptions], Score],
) -> DecodingOptions:
    """Return a search with the weights that rank best on dev, one after the other."""
    if weighted := [replace(chosen, internal_lm_weight=one) for one in grid.internal_lm_weights]:
        chosen = max(weighted, key=rank)
        values = (f"{one.internal_lm_weight:g} {score(one).value:.1f}" for one in weighted)
        logger.info("internal_lm_weight and dev's score: %s", ", ".join(values))
    widest = max(grid.beam_sizes)  # the more beams, the likelier one of them says the signs
    knows_signs = translator.reads_signs and translator.signs_said.costs
    if knows_signs and widest > 1 and grid.sign_weights:
        held = [
            replace(chosen, beam_size=widest if weight else chosen.beam_size, sign_weight=weight)
            for weight in grid.sign_weights
        ]
        chosen = max(held, key=rank)
        values = (
            f"{one.sign_weight:g} with {one.beam_size} beams {score(one).value:.1f}" for one in held
        )
        logger.info("sign_weight and dev's score: %s", ", ".join(values))
    return chosen


def run_commands(
    commands: Mapping[str, str], results: Sequence[SplitResult]
) -> dict[str, dict[tuple[str, System], list[float]]]:
    """Let every command score every sentence of every system.

    A command runs once, so that it loads its model once. Its lines on standard input have
    `clip_id`, `source` (the glosses, empty if there are none), `hypothesis` and `reference`.

    Args:
        commands: Name of the metric to command line; it is split as a shell would, and run
            without one.
        results: Sentences of all systems.

    Returns:
        Name to (split, system) to a number for each clip.

    Raises:
        UserError: If a command cannot be run, fails, or prints anything but a number a line.
    """
    every = [
        (result, system, texts) for result in results for system, texts in result.texts.items()
    ]
    lines = [
        {"clip_id": one.clip_id, "source": one.gloss, "hypothesis": text, "reference": one.text}
        for result, _, texts in every
        for one, text in zip(result.targets, texts, strict=True)
    ]
    found: dict[str, dict[tuple[str, System], list[float]]] = {}
    for name, command in commands.items():
        numbers = iter(_ask(name, command, lines))
        found[name] = {
            (result.split, system): [next(numbers) for _ in texts]
            for result, system, texts in every
        }
    return found


def _ask(name: str, command: str, lines: Sequence[Mapping[str, str]]) -> list[float]:
    where = f"evaluate.commands.{name} ({command})"
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    try:
        done = subprocess.run(
            shlex.split(command), input=text.encode(), stdout=subprocess.PIPE, check=False
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"{where} cannot be run: {error}; a learned metric needs its program and its model on "
            "this machine, nothing is downloaded. Give its full path, or take the line out"
        ) from None
    if done.returncode:
        raise UserError(f"{where} ended with exit code {done.returncode}; what it printed is above")
    printed = done.stdout.decode(errors="replace").split("\n")
    rows = [line for line in printed if line.strip()]
    if len(rows) != len(lines):
        raise UserError(f"{where} printed {len(rows)} lines for {len(lines)} sentences")
    numbers = []
    for number, row in enumerate(rows, start=1):
        try:
            numbers.append(float(row))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise UserError(f"{where}: line {number} is {row!r}, expected a finite number")
    return numbers


def load_seeds(checkpoint: Path, precision: Precision) -> Iterator[tuple[str, Translator]]:
    """Load the models of the further seeds one after another, each with its seed's name."""
    for folder in seed_folders(checkpoint):
        yield folder.name, Translator.load(folder, precision=precision)


def seed_name(provenance: Mapping[str, Any]) -> str:
    """Return the seed of a checkpoint, from its record of how it was made."""
    seeds = get_map(get_map(provenance, "params"), "train").get("seeds")
    return str(seeds[0]) if isinstance(seeds, list) and seeds else "first"


def _score_seeds(
    translator: Translator,
    counts: Counts,
    others: Sequence[tuple[str, Translator]],
    results: Sequence[SplitResult],
    sequences: Mapping[str, SourceSequence],
    options: EvaluateOptions,
    decoding: DecodingOptions,
) -> SeedScores | None:
    """Score the models of further seeds on the clips that were evaluated, and all together."""
    if not others:
        return None
    models = [other for _, other in others]
    joint = translator if translator.is_joint else translator.beside(models)
    splits, together = {}, {}
    for result in results:
        clips = [sequences[target.clip_id] for target in result.targets]
        refs = [target.text for target in result.targets]
        counted = [
            counts[result.split][System.MODEL]
            if one is translator
            else measure(plain_texts(one.translate(clips, decoding)), refs, options.score)
            for one in (translator.alone, *models, joint)
        ]
        splits[result.split] = counted[:-1]
        together[result.split] = score_statistics(counted[-1], options.score)
    names = [seed_name(translator.spec.provenance), *(name for name, _ in others)]
    return score_seeds(names, splits, together, options.score)


def _align(
    translator: Translator,
    results: Sequence[SplitResult],
    sequences: Mapping[str, SourceSequence],
    counts: Counts,
    options: ScoreOptions,
) -> dict[str, Alignment]:
    """Ask where the model looked while it wrote each translation.

    Of the best, median and worst clip of each split with every layer and head, for the report.
    """
    found: dict[str, Alignment] = {}
    for result in results:
        clips = [sequences[target.clip_id] for target in result.targets]
        try:
            aligned = translator.align(clips, result.translations)
        except ValueError as error:
            logger.info("no alignments: %s", error)
            return {}
        ids = [target.clip_id for target in result.targets]
        found |= zip(ids, aligned, strict=True)
        singly = sentence_scores(counts[result.split][System.MODEL])
        rows: list[dict[str, Any]] = [
            {
                "clip_id": target.clip_id,
                "reference": target.text,
                # As in hypotheses.tsv, from which the report picks.
                "wer": rounded(float(singly[Metric.WER][row])),
                "bleu": rounded(float(singly[Metric.BLEU4][row])),
                "row": row,
            }
            for row, target in enumerate(result.targets)
        ]
        picked = [row["row"] for _, row in pick_clips(rows, 1, options)]
        shown = [clips[row] for row in picked], [result.translations[row] for row in picked]
        with_heads = translator.align(*shown, every_head=True)
        for row, alignment in zip(picked, with_heads, strict=True):
            found[ids[row]] = replace(found[ids[row]], maps=alignment.maps)
    return found
