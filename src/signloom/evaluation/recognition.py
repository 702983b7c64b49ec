"""Recognition: the signs that a model reads, scored as continuous sign recognition is.

The field's measure is the word error rate of glosses. It is compared with floors: the glosses of
the nearest training clip, the best constant line, and the model with its landmarks zeroed or with
another clip's. How signs are searched is chosen on dev.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.floors import fit_linear, fit_nearest
from signloom.evaluation.metric_names import GLOSS_WER, rounded
from signloom.evaluation.metrics import (
    GlossRules,
    Score,
    ScoreOptions,
    Statistics,
    align,
    clean_glosses,
    count_edits,
    count_gloss_wer,
    score_statistics,
    seed_interval,
    sentence_scores,
)
from signloom.evaluation.systems import Setup, swap_clips
from signloom.features.features import FloatArray
from signloom.features.targets import Target
from signloom.tables import read_columns, take_rows
from signloom.translation.labels import search_signs
from signloom.translation.ngram import count_ngrams
from signloom.translation.options import USUAL_NGRAM, SignSearch
from signloom.translation.recognised_signs import Sign, place_signs
from signloom.translation.translator import Translator

WEIGHTS = (0.0, 0.4, 0.8)  # of the n-gram, tried on dev with each bonus
BONUSES = (0.0, 1.0, 2.0)
SEARCHES = [SignSearch(weight=weight, bonus=bonus) for weight in WEIGHTS for bonus in BONUSES]
DECIDING = 100  # clips of dev below which a search must be clearly better than that
RECOMBINED = "several"  # the signer of what `signloom compose --recombine` makes
MODEL = "model"
SEEDS = "seeds"  # the mean of the models of all seeds
TOGETHER = "together"  # their ensemble: the probabilities are averaged
EDITS = {"substitute": "substitutions", "delete": "deletions", "insert": "insertions"}

Lines = list[tuple[str, ...]]  # glosses of clips
Floors = Callable[[Sequence[LandmarkSequence], Lines], dict[str, Lines]]
"""What gives clips, with their true glosses, the lines of each floor."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Recognition:
    """The signs of one split."""

    targets: list[Target]  # the clips that have glosses
    signs: list[list[Sign]]  # what the model reads of each
    systems: dict[str, Score]
    """Word error rate of the glosses of the model, its controls and floors."""
    edits: dict[str, float]
    """Substitutions, deletions and insertions of the model, in % of the signs."""
    seeds: list[float]  # the error rate of each seed's model; empty of a single one
    seen: dict[str, float]
    """Of clips whose glosses train has in this order: how many, and their error rate."""
    unseen: dict[str, float]  # of the others
    signers: dict[str, dict[str, float]]  # the same of each signer
    each: list[float]  # the model's error rate of each clip, %

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has of it."""
        systems = {name: score.interval for name, score in self.systems.items()}
        return dict(
            rounded(
                {
                    "clips": len(self.targets),
                    "systems": systems,
                    "signature": self.systems[MODEL].signature,
                    "edits": self.edits,
                    "seeds": list(self.seeds),
                    "seen": self.seen,
                    "unseen": self.unseen,
                    "signers": self.signers,
                }
            )
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SplitLabels:
    """What the models of all seeds read of the clips of a split that have glosses."""

    split: str
    targets: list[Target]
    clips: list[LandmarkSequence]
    seeds: list[list[FloatArray]]
    """Log-probabilities of the labels of each clip, shapes (M, K), by each seed."""

    @property
    def together(self) -> list[FloatArray]:
        """Log-probabilities of the mean of all seeds' probabilities."""
        return [np.log(np.mean(np.exp(clip), axis=0)) for clip in zip(*self.seeds, strict=True)]

    @property
    def glosses(self) -> Lines:
        """The glosses of each clip."""
        return glosses_of(self.targets)


class SignSearches(NamedTuple):
    """How signs are searched."""

    each: SignSearch  # of each seed's model
    joint: SignSearch  # of their ensemble
    dev: "SplitLabels | None"  # by which they were chosen


def choose_searches(
    setup: Setup, further: Sequence[Translator] = (), weights: Sequence[float] = ()
) -> SignSearches:
    """Return the searches with the fewest errors on dev; the plainest where no signs are read.

    Args:
        setup: The trained model, or the ensemble of all seeds, and the corpus.
        further: The same model trained with other seeds.
        weights: As for `choose_search`.
    """
    translator = setup.translator
    if translator.spec.ctc.kind != "glosses":
        return SignSearches(SignSearch(), SignSearch(), None)
    dev = _read_split([translator.first_seed, *further], setup, "dev")
    ngrams = count_signed(translator, _glossed(setup))

    def choose(seeds: Sequence[Sequence[FloatArray]]) -> SignSearch:
        parts = [
            HeldOutLabels(log_probs, dev.targets if dev else [], ngrams) for log_probs in seeds
        ]
        return choose_search(translator, parts, setup.score.gloss_rules, weights)

    chosen = choose(dev.seeds if dev else [[]])
    joint = choose([dev.together] if dev else [[]]) if further else chosen
    return SignSearches(chosen, joint, dev)


def recognise(
    setup: Setup,
    splits: Iterable[str],
    searches: SignSearches,
    further: Sequence[Translator] = (),
) -> dict[str, Recognition]:
    """Read the signs of some splits and score them; no gloss of these reaches the model.

    Args:
        setup: The trained model, or the ensemble of all seeds, and the corpus.
        searches: As `choose_searches` has chosen them.
        further: The same model trained with other seeds.

    Returns:
        A recognition of each split whose clips have glosses; nothing of a model that reads no
        signs.
    """
    if setup.translator.spec.ctc.kind != "glosses":
        return {}
    train = glosses_of(_glossed(setup))
    floors = _build_floors(setup, train)
    models = [setup.translator.first_seed, *further]
    every = (
        searches.dev if split == "dev" else _read_split(models, setup, split) for split in splits
    )
    return {
        labels.split: _recognise_split(setup, labels, searches, floors, train)
        for labels in every
        if labels
    }


def _glossed(setup: Setup) -> Sequence[Target]:
    pairs = enumerate(read_columns(setup.targets, "split", "gloss"))
    numbers = [n for n, (split, gloss) in pairs if split == "train" and gloss.split()]
    return take_rows(setup.targets, numbers)


def _read_split(models: Sequence[Translator], setup: Setup, split: str) -> SplitLabels | None:
    """Read the signs of a split; None where no clip has glosses."""
    targets = setup.split(split)
    pairs = zip(targets, setup.sequences_of(targets), strict=True)
    # What reads glosses has no CTC head.
    some = [(t, c) for t, c in pairs if t.gloss.split() and isinstance(c, LandmarkSequence)]
    if not some:
        return None
    clips = [clip for _, clip in some]
    return SplitLabels(
        split=split,
        targets=[target for target, _ in some],
        clips=clips,
        seeds=[model.label_log_probs(clips) for model in models],
    )


def _recognise_split(
    setup: Setup,
    labels: SplitLabels,
    searches: SignSearches,
    floors: Floors,
    train: Lines,
) -> Recognition:
    """Score the signs of a split."""
    translator, rules, score = setup.translator, setup.score.gloss_rules, setup.score
    together = labels.together if len(labels.seeds) > 1 else labels.seeds[0]
    used, log_probs = (
        (searches.joint, together) if translator.is_joint else (searches.each, labels.seeds[0])
    )
    lines = _names(translator, log_probs, used)
    systems = {MODEL: lines}
    if len(labels.seeds) > 1:
        systems[TOGETHER] = _names(translator, together, searches.joint)
    systems |= _controls(setup, labels, lines, used) | floors(labels.clips, labels.glosses)
    references = clean_glosses(labels.glosses, rules)
    counts = {name: _count_errors(system, references, score) for name, system in systems.items()}
    scores = {name: score_statistics(counted, score)[GLOSS_WER] for name, counted in counts.items()}
    seed_rates: list[float] = []
    if len(labels.seeds) > 1:
        seed_rates, interval = _score_seeds(setup, labels, searches.each, references)
        low, high = interval
        scores[SEEDS] = replace(scores[MODEL], value=mean(seed_rates), low=low, high=high)
    train_lines = {*clean_glosses(train, rules)}
    is_seen = [line in train_lines for line in references]
    model = counts[MODEL]
    placed = zip(labels.clips, log_probs, strict=True)
    return Recognition(
        targets=labels.targets,
        signs=[place_signs(translator, clip, log_probs, used) for clip, log_probs in placed],
        systems=scores,
        seeds=seed_rates,
        edits=_count_edits(clean_glosses(lines, rules), references),
        seen=_score_rows(model, is_seen, score),
        unseen=_score_rows(model, [not was_seen for was_seen in is_seen], score),
        signers=_score_signers(model, [target.signer for target in labels.targets], score),
        each=sentence_scores(model)[GLOSS_WER].tolist(),
    )


def _count_errors(lines: Lines, references: Lines, score: ScoreOptions) -> Statistics:
    return Statistics(parts=(count_gloss_wer(lines, references, score),))


def _score_seeds(
    setup: Setup, labels: SplitLabels, search: SignSearch, references: Lines
) -> tuple[list[float], tuple[float, float]]:
    """Return the error rate of each seed's model, and the interval of their mean."""
    lines = [_names(setup.translator, log_probs, search) for log_probs in labels.seeds]
    counts = [_count_errors(seed_lines, references, setup.score) for seed_lines in lines]
    resampled = [counted.resample(setup.score)[GLOSS_WER] for counted in counts]
    rates = [counted.values()[GLOSS_WER] for counted in counts]
    return rates, seed_interval(resampled, setup.score)


def _score_signers(
    counted: Statistics, signers: Sequence[str], score: ScoreOptions
) -> dict[str, dict[str, float]]:
    return {
        name: _score_rows(counted, [signer == name for signer in signers], score)
        for name in sorted({*signers})
    }


def _controls(
    setup: Setup, labels: SplitLabels, lines: Lines, used: SignSearch
) -> dict[str, Lines]:
    """Return the signs of other clips for each clip, and those that are read of nothing."""
    controls: dict[str, Lines] = {}
    dice = np.random.default_rng([setup.score.seed, *labels.split.encode()])
    if swapped := swap_clips([target.gloss for target in labels.targets], dice):
        controls["swapped"] = [lines[partner] for partner in swapped]
    nothing = setup.translator.label_log_probs(labels.clips, blind=True)
    return {**controls, "blind": _names(setup.translator, nothing, used)}


def _score_rows(
    counted: Statistics, chosen: Sequence[bool], score: ScoreOptions
) -> dict[str, float]:
    """Return how many clips were chosen, and their error rate."""
    rows = np.flatnonzero(chosen)
    scores: dict[str, float] = {"clips": len(rows)}
    if len(rows):
        wer = score_statistics(counted.select(rows), score)[GLOSS_WER]
        scores |= {GLOSS_WER: wer.value, "low": wer.low, "high": wer.high}
    return scores


def _build_floors(setup: Setup, train: Lines) -> Floors:
    as_texts = [
        replace(t, text=" ".join(t.gloss.split()))
        for split in ("train", "dev")
        for t in setup.split(split)
        if t.gloss.split()
    ]
    fitted = {
        name: fit(setup.translator, as_texts, setup.sequences)
        for name, fit in (("retrieval", fit_nearest), ("linear", fit_linear))
    }

    def floors(clips: Sequence[LandmarkSequence], references: Lines) -> dict[str, Lines]:
        lines = {
            name: [tuple(line.split()) for line in floor(clips)]
            for name, floor in fitted.items()
            if floor
        }
        return {**lines, "floor": _constant(train, references)}

    return floors


def count_signed(translator: Translator, glossed: Sequence[Target]) -> tuple[tuple[int, ...], ...]:
    """Return how often signs follow each other, without recombined sentences."""
    number = translator.spec.ctc.numbers
    return count_ngrams([[number[name] for name in line] for line in glosses_of(drop_new(glossed))])


def drop_new(targets: Sequence[Target]) -> Sequence[Target]:
    """Return the clips that are no new sentences of pieces (`--recombine`); all if none is left."""
    # `signloom merge` puts a corpus's name in front of a signer's.
    signers = enumerate(read_columns(targets, "signer"))
    numbers = [n for n, (name,) in signers if not f"-{name}".endswith(f"-{RECOMBINED}")]
    return take_rows(targets, numbers) or targets


class HeldOutLabels(NamedTuple):
    """What a model reads of clips that it has not learnt from."""

    log_probs: Sequence[FloatArray]  # of the labels of each clip
    targets: Sequence[Target]
    ngrams: tuple[tuple[int, ...], ...]  # of the clips that it has learnt from


def choose_search(
    translator: Translator,
    parts: Sequence[HeldOutLabels],
    rules: GlossRules = "none",
    weights: Sequence[float] = (),
) -> SignSearch:
    """Return the search with the fewest errors; of equals the first, the plainest.

    Where an n-gram helps and the clips are few, the usual weights are kept unless they make more
    errors than the best by a standard error.

    Args:
        translator: Has the names of the labels.
        parts: Dev by each seed's model, since the signs of few clips, read once, choose badly; or
            the folds of train. The first one's n-gram is in what is returned.
        rules: As for scoring.
        weights: Weight and bonus, if dev is not to choose them.
    """

    def errors(search: SignSearch) -> int:
        hypotheses = read_lines(translator, parts, search)
        pairs = zip(clean_glosses(hypotheses, rules), clean_glosses(references, rules), strict=True)
        return sum(Levenshtein.distance(*pair) for pair in pairs)

    references = glosses_of([target for part in parts for target in part.targets])
    best = min(SEARCHES, key=errors) if references else SignSearch()
    fewest, usual = errors(best), SignSearch(weight=USUAL_NGRAM[0], bonus=USUAL_NGRAM[1])
    is_open = len({t.clip_id for part in parts for t in part.targets}) < DECIDING
    if best.weight and is_open and errors(usual) <= fewest + math.sqrt(fewest):
        best = usual
    if weights:
        best = SignSearch(weight=weights[0], bonus=weights[1])
    return replace(best, ngrams=parts[0].ngrams) if best.weight else best


def read_lines(translator: Translator, parts: Sequence[HeldOutLabels], search: SignSearch) -> Lines:
    """Return the glosses of all clips by a search with the n-grams of each model."""
    return [
        line
        for part in parts
        for line in _names(translator, part.log_probs, replace(search, ngrams=part.ngrams))
    ]


def glosses_of(targets: Sequence[Target]) -> Lines:
    """Return the glosses of clips, as signed."""
    return [tuple(gloss.split()) for (gloss,) in read_columns(targets, "gloss")]


def _names(translator: Translator, log_probs: Sequence[FloatArray], search: SignSearch) -> Lines:
    names = translator.spec.ctc.names
    return [
        tuple(names[n - 1] for n in search_signs(clip_log_probs, search))
        for clip_log_probs in log_probs
    ]


def _constant(train: Lines, references: Lines) -> Lines:
    """Return the training line with the fewest errors if every clip gets it."""
    lines = sorted(set(train))
    errors = cdist(lines, references, scorer=Levenshtein.distance, dtype=np.int32).sum(axis=1)
    return [lines[int(errors.argmin())]] * len(references)


def _count_edits(lines: Lines, references: Lines) -> dict[str, float]:
    """Return substitutions, deletions and insertions in % of the signs."""
    edits = dict.fromkeys(EDITS, 0)
    for chunk in (chunk for chunks in align(lines, references) for chunk in chunks):
        if chunk.type in edits:
            edits[chunk.type] += count_edits(chunk)
    return {EDITS[kind]: 100 * count / sum(map(len, references)) for kind, count in edits.items()}
