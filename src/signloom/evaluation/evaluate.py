"""The evaluation of a checkpoint on a corpus.

In this order: the search is chosen on dev, every split is translated, systems and floors are scored
with the model, and its confidence is measured.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tqdm import tqdm

from signloom.config import Count, Gone, Natural, NonNegative, Share, checked_dataclass, get_map
from signloom.errors import UserError
from signloom.evaluation.calibrate import check_split, fit_confidence
from signloom.evaluation.floors import fit_linear_classifier, resample_clips
from signloom.evaluation.labelling import find_exchanged
from signloom.evaluation.metric_names import (
    LOOKUPS,
    Metric,
    System,
    describe_only,
    headline_metric,
    rounded,
)
from signloom.evaluation.metrics import (
    Score,
    ScoreOptions,
    Statistics,
    are_right,
    mean,
    measure,
    pick_clips,
    score_corpus,
    score_statistics,
    sentence_scores,
)
from signloom.evaluation.recognition import SignSearches, choose_searches, recognise
from signloom.evaluation.stress import has_no_warning, stress_row, try_changes
from signloom.evaluation.summary import (
    SeedScores,
    SeenInTrain,
    SplitEvaluation,
    break_down,
    check_input,
    score_seeds,
)
from signloom.evaluation.systems import Setup, SplitResult, plain_texts, run_systems, train_texts
from signloom.features.glosses import split_glosses
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.progress import progress_file
from signloom.tables import read_columns
from signloom.translation.confidence import Confidence, seed_folders
from signloom.translation.lookup import SignIndex
from signloom.translation.options import DecodingOptions, SignWeight
from signloom.translation.precision import Precision
from signloom.translation.translator import Alignment, Translator
from signloom.translation.word_signs import SignCoverage, fit_sign_coverage, learn_words

logger = logging.getLogger(__name__)
GridRow = dict[str, float]
"""One search and what it is worth on dev, as in grid.csv: `beam_size`, `length_penalty`, `bleu4`,
`exact`, `wer`, `chosen` (0 or 1), and `score`, the headline."""

ONE_SEED = "there is one model; train with train.seeds: [1, 2, 3], or set it to false"


@checked_dataclass
class GridOptions:
    """Searches tried on dev; the best by the headline is used. Empty: `decoding` as it is."""

    beam_sizes: tuple[Count, ...]  # tried with each length penalty
    length_penalties: tuple[NonNegative, ...]
    internal_lm_weights: tuple[Share, ...] = ()  # tried with the best of these; empty: decoding's
    # Then these, with the most of the beams, if the model reads signs; one is used as it is.
    sign_weights: tuple[SignWeight, ...] = ()
    # Weight of the n-gram of signs, and bonus of each sign, as `signloom outlook --folds` finds
    # them; empty: dev chooses, or the usual ones where it has few clips.
    ngram: tuple[NonNegative, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.beam_sizes) != bool(self.length_penalties):
            raise ValueError("give both beam_sizes and length_penalties, or leave both empty")
        if self.internal_lm_weights and not self.beam_sizes:
            raise ValueError("internal_lm_weights are tried with beam_sizes and length_penalties")
        if len(self.ngram) not in (0, 2):
            raise ValueError(f"ngram: found {list(self.ngram)}, expected weight and bonus, or []")


@checked_dataclass
class EvaluateOptions:
    """How the model searches and how what it finds is scored."""

    precision: Precision = "float32"  # of the weights while they translate
    decoding: DecodingOptions
    grid: GridOptions
    score: ScoreOptions
    # Clips of each split that are translated under real-life changes; of more, every n-th.
    stress: Natural = 0
    # All seeds are evaluated, and translate from then on, as an ensemble: their probabilities are
    # averaged, which multiplies the time by their number. False: the first is the model.
    together: bool = False

    GONE: ClassVar = {"commands": Gone({}, "score hypotheses.tsv with a program of your own")}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """What was measured of a model on a corpus."""

    corpus: str  # its name
    headline: Metric  # by which it is judged, as its train texts are
    options: EvaluateOptions
    decoding: DecodingOptions  # the search that was used
    grid: list[GridRow]  # the searches it was chosen from; empty if there was no choice
    splits: dict[str, SplitEvaluation]
    seeds: list[str]  # their names, the first one's first; empty of a single model
    confidence: Confidence  # what translations of the model are checked by
    exchanged: list[str]  # the signers of train who seem to have exchanged two single signs

    @property
    def metrics(self) -> dict[str, Any]:
        """What decides, as in reports/metrics.json, test first."""
        return {
            split: evaluation.to_metrics(corpus=self.corpus, metric=self.headline)
            for split, evaluation in sorted(self.splits.items(), reverse=True)
        }


def describe(translator: Translator, options: EvaluateOptions) -> str:
    """Return what tells this evaluation from others, its parts with commas between them."""
    model = translator.spec.model
    decoding = options.decoding
    train = translator.spec.provenance.get("params", {}).get("train", {})
    epochs = f"epochs {train['epochs']}, " if "epochs" in train else ""
    search = "best of grid" if options.grid.beam_sizes else f"beam {decoding.beam_size}"
    search = search if model.has_decoder else "CTC"
    return (
        f"d_model {model.d_model}, {epochs}{model.family} {model.encoder_layers}+"
        f"{model.decoder_layers}, {model.norm}-norm, {search}"
        f"{', all seeds as one' if options.together else ''}"
    )


def evaluate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    options: EvaluateOptions,
    *,
    corpus: str = "",
    seed_translators: Iterable[tuple[str, Translator]] = (),
    weights: str = "",
    seeds: Mapping[str, str] | None = None,
) -> Evaluation:
    """Translate dev and test from landmarks, or glosses, alone and score the sentences.

    No reference reaches the model; dev's references alone choose the search.

    Args:
        targets: The whole corpus.
        sequences: Clip id to landmarks or glosses, of all splits.
        corpus: Name of the corpus.
        seed_translators: The same model trained with other seeds, by name.
        weights: SHA-256 of the model's weights, for which alone the confidence holds.
        seeds: Those of the others', for which it holds if all are evaluated as an ensemble.

    Raises:
        UserError: If an ensemble is to be evaluated, and there is one seed alone.
    """
    rows = read_columns(targets, "split", "text", "gloss")
    glossed = [(text, gloss) for split, text, gloss in rows if split == "train" and gloss.split()]
    coverage = _fit_sign_coverage(translator, glossed)
    named = dict(seed_translators)
    if options.together and not named:
        raise UserError(f"evaluate.together is true, but {ONE_SEED}")
    setup = Setup(
        translator=translator.first_seed,
        targets=targets,
        sequences=sequences,
        decoding=options.decoding,
        score=options.score,
        metric=headline_metric(train_texts(targets)),
    )
    searches = choose_searches(setup, [*named.values()], options.grid.ngram)
    linear = fit_linear_classifier(setup.translator, targets, sequences)
    exchanged = _find_exchanged(setup) if linear else []
    translator, *further = (
        seed_translator.with_signs(searches.each, coverage, linear)
        for seed_translator in (setup.translator, *named.values())
    )
    if options.together:
        translator = translator.with_seeds(further).with_signs(searches.joint)
    setup = replace(setup, translator=translator)
    decoding, grid = try_searches(setup, options.grid)
    setup = replace(setup, decoding=decoding)
    splits, confidence = _evaluate_splits(setup, options, further, weights, searches)
    confidence = _add_searches(confidence, setup, glossed)
    return Evaluation(
        corpus=corpus,
        headline=setup.metric,
        options=options,
        decoding=decoding,
        grid=grid,
        splits=splits,
        seeds=[seed_name(translator.spec.provenance), *named] if named else [],
        confidence=replace(confidence, seeds=dict(seeds or {}) if options.together else {}),
        exchanged=exchanged,
    )


def _find_exchanged(setup: Setup) -> list[str]:
    """Name the signers of train who seem to have exchanged two single signs, with a warning."""
    train = setup.split("train")
    vectors = resample_clips(setup.translator, setup.sequences_of(train))
    cases = find_exchanged(vectors, [t.text for t in train], [t.signer for t in train])
    for case in cases:
        logger.warning("%s; compare their takes with the others', and correct the table", case)
    return cases


def _add_searches(
    confidence: Confidence, setup: Setup, glossed: Sequence[tuple[str, str]]
) -> Confidence:
    """Return a confidence with how the model searches, and with the words of train's signs."""
    translator = setup.translator
    return replace(
        confidence,
        decoding=setup.decoding,
        words=learn_words([text for text, _ in glossed], [gloss.split() for _, gloss in glossed]),
        signs=translator.sign_search if translator.spec.ctc.kind == "glosses" else None,
        signs_said=translator.sign_costs,
        linear=translator.linear,
    )


def _evaluate_splits(
    setup: Setup,
    options: EvaluateOptions,
    further: Sequence[Translator],
    weights: str,
    searches: SignSearches,
) -> tuple[dict[str, SplitEvaluation], Confidence]:
    """Translate and measure every split; return also the confidence that dev was fitted with.

    Args:
        setup: The model, the corpus, and the search that was chosen.
        options: How many clips are changed.
        weights: SHA-256 of the model's weights.
    """
    results, train = run_systems(setup), SeenInTrain(setup.targets)
    counts = {result.split: _count_systems(result, setup.score) for result in results}
    right = {split: are_right(statistics[System.MODEL]) for split, statistics in counts.items()}
    changed_clips = {
        result.split: try_changes(setup, result.targets, most=options.stress) for result in results
    }
    dev = next((result for result in results if result.split == "dev"), None)
    confidence = fit_confidence(
        setup, weights, dev, right.get("dev", []), changed_clips.get("dev", [])
    )
    recognised = recognise(setup, counts, searches, further)
    look_up = _fit_lookup(setup)
    splits = {}
    for result in results:
        split, counted = result.split, counts[result.split]
        model = counted[System.MODEL]
        shown = [
            has_no_warning(change, setup.translator, confidence) for change in changed_clips[split]
        ]
        systems = {
            name: score_statistics(statistics, setup.score) for name, statistics in counted.items()
        }
        seeds = _score_seeds(setup, further, result, searches)
        if seeds and not options.together:
            systems[System.MODEL] = seeds.average(systems[System.MODEL])
        evaluated = SplitEvaluation(
            result=result,
            counts=counted,
            systems=systems,
            input_check=check_input(counted, setup.score, result.source),
            breakdowns=break_down(result, model, train, setup.score),
            seeds=seeds,
            reliability=check_split(setup.translator, confidence, result, right[split]),
            lookup=look_up(result) if look_up else {},
            recognition=recognised.get(split),
            stress=[stress_row(*pair) for pair in zip(changed_clips[split], shown, strict=True)],
            alignments=_align(setup, result, model),
        )
        splits[split] = evaluated.with_next_step(train, setup.metric)
        if (sentence := evaluated.only_sentence) is not None:
            logger.warning("%s: %s", split, describe_only(sentence, len(result.targets)))
    return splits, confidence


def _count_systems(result: SplitResult, options: ScoreOptions) -> dict[System, Statistics]:
    """Return what was counted in the sentences of each system of a split."""
    return {name: measure(texts, result.refs, options) for name, texts in result.texts.items()}


def _fit_sign_coverage(translator: Translator, glossed: Sequence[tuple[str, str]]) -> SignCoverage:
    """Return how train's sentences with glosses express the signs, as this model names them."""
    if not translator.reads_signs:
        return SignCoverage()
    # A CTC head has the glosses as they are written, a source in lower case.
    by_head = translator.spec.ctc.kind == "glosses"
    split: Callable[[str], Sequence[str]] = str.split if by_head else split_glosses
    return fit_sign_coverage([text for text, _ in glossed], [split(gloss) for _, gloss in glossed])


def _fit_lookup(setup: Setup) -> Callable[[SplitResult], dict[str, Score]] | None:
    """Index the training clips as `signloom lookup` does; None if texts are no single words.

    Returns:
        What looks the clips of a split up: the share, %, whose text is that of the nearest sign
        (`lookup_top1`), or of one of the five nearest (`lookup_top5`); nothing of a split none of
        whose texts train has, in which nothing can be found.
    """
    translator = setup.translator
    if setup.metric != Metric.EXACT or not translator.source.has_frames:
        return None
    train = setup.split("train")
    texts = [target.text for target in train]
    index = SignIndex.of_train(
        [target.clip_id for target in train],
        texts,
        translator.encode_signs(setup.sequences_of(train)),
        translator.hand_width,
    )

    def look_up(result: SplitResult) -> dict[str, Score]:
        if {*texts}.isdisjoint(result.refs):
            return {}
        signs = [
            [sign.text for sign in index.nearest(clip, max(LOOKUPS.values()))]
            for clip in translator.encode_signs(result.clips)
        ]
        hits = {
            name: [
                100.0 * (ref in near[:count]) for ref, near in zip(result.refs, signs, strict=True)
            ]
            for name, count in LOOKUPS.items()
        }
        parts = tuple(mean(name, "mean:sentences", values) for name, values in hits.items())
        return score_statistics(Statistics(parts=parts), setup.score)

    return look_up


def try_searches(setup: Setup, grid: GridOptions) -> tuple[DecodingOptions, list[GridRow]]:
    """Translate dev with every search of a grid; without dev, grid or decoder nothing is tried.

    Args:
        setup: The model, the corpus and what the grid does not vary. The headline decides; where
            most texts of dev are glosses in their order, the lower WER.

    Returns:
        The search with the highest score (of equals the lower WER, then the first tried), and a
        row for each that was tried.
    """
    if not setup.translator.spec.model.has_decoder:
        return setup.decoding, []
    dev = setup.split("dev")
    pairs = [(size, penalty) for size in grid.beam_sizes for penalty in grid.length_penalties]
    if pairs and not dev:
        logger.warning("no dev clip to choose the search with: evaluate.decoding is used")
    if not pairs or not dev:
        return setup.decoding, []
    dev_scores = _DevScores(setup, dev)

    def search(size: int, penalty: float) -> DecodingOptions:
        # Greedy search has one hypothesis, which no penalty changes.
        used = grid.length_penalties[0] if size == 1 else penalty
        return replace(setup.decoding, beam_size=size, length_penalty=used)

    bar = tqdm(pairs, desc="try searches on dev", unit="search", file=progress_file())
    best = max(bar, key=lambda pair: dev_scores.rank(search(*pair)))
    chosen = _choose_weights(search(*best), grid, setup.translator, dev_scores)
    rows = []
    for pair in pairs:
        values = {name: score.value for name, score in dev_scores.of(search(*pair)).items()}
        rows.append(
            {
                "beam_size": pair[0],
                "length_penalty": pair[1],
                **{str(name): values[name] for name in (Metric.BLEU4, Metric.EXACT, Metric.WER)},
                "chosen": int(pair == (chosen.beam_size, best[1])),
                "score": values[setup.metric],
            }
        )
    return chosen, [rounded(row) for row in rows]


class _DevScores:
    """The scores of searches on dev, which is translated once with each."""

    def __init__(self, setup: Setup, dev: Sequence[Target]) -> None:
        self._setup, self._clips = setup, setup.sequences_of(dev)
        self._references = [target.text for target in dev]
        self._are_glosses = 2 * sum(target.gloss == target.text for target in dev) >= len(dev)
        self._scores: dict[DecodingOptions, Mapping[str, Score]] = {}

    def of(self, search: DecodingOptions) -> Mapping[str, Score]:
        """Return the score of every metric."""
        if search not in self._scores:
            texts = plain_texts(self._setup.translator.translate(self._clips, search))
            self._scores[search] = score_corpus(texts, self._references, self._setup.score)
        return self._scores[search]

    def headline(self, search: DecodingOptions) -> float:
        """Return the score of the metric that decides."""
        return self.of(search)[self._setup.metric].value

    def rank(self, search: DecodingOptions) -> tuple[float, float]:
        """Return what is larger for a better search."""
        wer = self.of(search)[Metric.WER].value
        return (-wer, self.headline(search)) if self._are_glosses else (self.headline(search), -wer)


def _choose_weights(
    chosen: DecodingOptions, grid: GridOptions, translator: Translator, dev_scores: _DevScores
) -> DecodingOptions:
    """Return a search with the weights that rank best on dev, one after the other."""
    if weighted := [
        replace(chosen, internal_lm_weight=weight) for weight in grid.internal_lm_weights
    ]:
        chosen = max(weighted, key=dev_scores.rank)
        values = (
            f"{search.internal_lm_weight:g} {dev_scores.headline(search):.1f}"
            for search in weighted
        )
        logger.info("internal_lm_weight and dev's score: %s", ", ".join(values))
    widest = max(grid.beam_sizes)  # the more beams, the likelier one of them says the signs
    if translator.ranks_by_signs and widest > 1 and grid.sign_weights:
        held = [
            replace(chosen, beam_size=widest if weight else chosen.beam_size, sign_weight=weight)
            for weight in grid.sign_weights
        ]
        chosen = max(held, key=dev_scores.rank)
        values = (
            f"{search.sign_weight:g} with {search.beam_size} beams "
            f"{dev_scores.headline(search):.1f}"
            for search in held
        )
        logger.info("sign_weight and dev's score: %s", ", ".join(values))
    return chosen


def load_seeds(checkpoint: Path, precision: Precision) -> Iterator[tuple[str, Translator]]:
    """Load the models of the further seeds one after another, each with its seed's name."""
    for folder in seed_folders(checkpoint):
        yield folder.name, Translator.load(folder, precision=precision)


def seed_name(provenance: Mapping[str, Any]) -> str:
    """Return the seed of a checkpoint, from its record of how it was made."""
    seeds = get_map(get_map(provenance, "params"), "train").get("seeds")
    return str(seeds[0]) if isinstance(seeds, list) and seeds else "first"


def _score_seeds(
    setup: Setup,
    further: Sequence[Translator],
    result: SplitResult,
    searches: SignSearches,
) -> SeedScores | None:
    """Score the models of further seeds on a split, and all together.

    Args:
        setup: The model, or the ensemble of all seeds.
        result: The clips.
    """
    if not further:
        return None
    translator = joint = single = setup.translator
    if translator.is_joint:
        single = translator.first_seed.with_signs(searches.each)
    else:
        joint = translator.with_seeds(further).with_signs(searches.joint)
    *texts, together = (
        result.texts[System.MODEL]
        if model is translator
        else plain_texts(model.translate(result.clips, setup.decoding))
        for model in (single, *further, joint)
    )
    seeds = [measure(written, result.refs, setup.score) for written in texts]
    joint_counts = measure(together, result.refs, setup.score)
    return score_seeds(seeds, joint_counts, setup.score, texts)


def _align(setup: Setup, result: SplitResult, counted: Statistics) -> dict[str, Alignment]:
    """Return where the model looked while it wrote some translations of a split, by clip id.

    They are those that the report shows: the best, the median and the worst. Empty for a model
    without attention.
    """
    singly = sentence_scores(counted)
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
    picked = [row["row"] for _, row in pick_clips(rows, 1, setup.score)]
    shown = [result.clips[row] for row in picked], [result.translations[row] for row in picked]
    try:
        aligned = setup.translator.align(*shown)
    except ValueError as error:
        logger.info("no alignments: %s", error)
        return {}
    return {
        result.targets[row].clip_id: alignment
        for row, alignment in zip(picked, aligned, strict=True)
    }
