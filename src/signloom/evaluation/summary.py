"""Scores of an evaluation: of all systems, of groups of clips, of seeds, without the input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any, Self

import numpy as np

from signloom.corpus.words import KnownSentences
from signloom.errors import count_of
from signloom.evaluation.calibrate import Reliability
from signloom.evaluation.compare import Difference, compare
from signloom.evaluation.metric_names import (
    FLOORS,
    GLOSS_WER,
    LEAST_SIGNERS,
    MAIN_METRICS,
    Metric,
    System,
    are_few,
    rounded,
)
from signloom.evaluation.metrics import (
    Score,
    ScoreOptions,
    Statistics,
    score_statistics,
    seed_interval,
    split_words,
)
from signloom.evaluation.recognition import Recognition
from signloom.evaluation.stress import StressRow
from signloom.evaluation.systems import SplitResult, train_texts
from signloom.features.sources import Source
from signloom.features.targets import Target
from signloom.grouping import group_pairs
from signloom.tables import read_columns
from signloom.translation.translator import Alignment

INPUT_METRIC = Metric.CHRF  # of the check whether a model uses its input: it tells weak ones apart
LENGTHS = ((1, 3), (4, 6), (7, 9), (10, 14), (15, 20), (21, 10**9))  # words of a reference
KINDS = ("sentence", "novelty", "new_signer", "words", "signer", "language", "corpus")
"""Of groups of clips. `novelty`: what is new in unseen sentences; `new_signer`: whether train has
the signer."""
SEEN, UNSEEN, KNOWN = "seen in train", "unseen", "known sentences"
GROUP_METRICS = (*MAIN_METRICS, Metric.CER)
COLUMNS = (
    "group",
    "clips",
    *GROUP_METRICS,
    *(f"{metric}_{end}" for metric in MAIN_METRICS for end in ("low", "high")),
)


class SeenInTrain:
    """What a model's training showed: sentences and signers."""

    def __init__(self, targets: Sequence[Target]) -> None:
        """Take the train clips of some targets."""
        train = train_texts(targets)
        signers = {*read_columns(targets, "split", "signer")}
        self.clips, self.texts = len(train), frozenset(train)
        self.signers = frozenset(signer for split, signer in signers if split == "train")
        self._sentences = KnownSentences(self.texts)

    def groups(self, target: Target) -> dict[str, str]:
        """Return the group of a clip in each kind that train decides."""
        return {
            "sentence": SEEN if target.text in self.texts else UNSEEN,
            "novelty": self._sentences.novelty(target.text) or KNOWN,
            "new_signer": SEEN if target.signer in self.signers else UNSEEN,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """The model's scores on a group of clips; of one or two clips their intervals say little."""

    group: str  # names sort as text
    clips: int
    scores: dict[str, Score]

    def to_map(self) -> dict[str, Any]:
        """Return the row of a table with `COLUMNS`."""
        row: dict[str, Any] = {"group": self.group, "clips": self.clips}
        row |= {str(name): rounded(self.scores[name].value) for name in GROUP_METRICS}
        for name in MAIN_METRICS:
            row |= self.scores[name].named(name)
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCheck:
    """How far the score falls when the source of every clip is replaced by another clip's.

    A model that writes fluent sentences for any input scores the same either way: the 95 %
    interval of the fall (paired bootstrap) then reaches down to 0.
    """

    fall: Difference  # from the swapped system (A) to the model (B), by `INPUT_METRIC`
    shown: str  # what was replaced, in a word

    @property
    def uses_input(self) -> bool:
        """Whether the score falls significantly."""
        return self.fall.is_better

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has."""
        fall = self.fall
        result = "the model looks at" if self.uses_input else "this model ignores"
        figures = {
            "model": fall.b,
            "swapped": fall.a,
            "fall": fall.difference,
            "low": fall.low,
            "high": fall.high,
            "p_value": fall.p_value,
        }
        return {
            "metric": str(INPUT_METRIC),
            **rounded(figures),
            "uses_input": self.uses_input,
            "text": f"Shown the {self.shown} of another clip, chrF goes from {fall.b:.1f} to "
            f"{fall.a:.1f}, a fall of {fall.difference:.1f} [{fall.low:.1f}, {fall.high:.1f}]: "
            f"{result} its input.",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedScores:
    """Scores on one split of models that differ in their seed alone, two or more."""

    values: dict[str, list[float]]  # of each seed, the first one first
    intervals: dict[str, tuple[float, float]]  # of their mean, 95 % over seeds and clips
    texts: list[list[str]]  # the sentences of each seed, in the same order
    together: dict[Metric, Score]  # of the ensemble of all seeds: the mean of their probabilities

    def average(self, scores: Mapping[str, Score]) -> dict[str, Score]:
        """Return the scores of the first seed as means of all."""
        return {
            name: replace(score, value=mean(self.values[name]), low=low, high=high)
            for name, score in scores.items()
            for low, high in [self.intervals[name]]
        }

    def spread(self, metric: Metric) -> dict[str, Any]:
        """Return mean, its interval, standard deviation (n - 1), number and values of a metric."""
        (low, high), values = self.intervals[metric], self.values[metric]
        figures = {"mean": mean(values), "low": low, "high": high, "std": stdev(values)}
        return dict(rounded({**figures, "n": len(values), "values": values}))


def score_seeds(
    seeds: Sequence[Statistics],
    together: Statistics,
    options: ScoreOptions,
    texts: Sequence[list[str]],
) -> SeedScores:
    """Return the metrics of each seed, and the interval of their mean.

    Args:
        seeds: What was counted in the sentences of each seed.
        together: In those of the ensemble of all seeds.
        options: For the resamples.
        texts: The sentences of each seed.
    """
    drawn, every = (
        [statistics.resample(options) for statistics in seeds],
        [statistics.values() for statistics in seeds],
    )
    joint = score_statistics(together, options)
    return SeedScores(
        values={name: [values[name] for values in every] for name in joint},
        intervals={
            name: seed_interval([values[name] for values in drawn], options) for name in joint
        },
        together={name: joint[name] for name in MAIN_METRICS},
        texts=list(texts),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SplitEvaluation:
    """One split: the sentences of all systems, their scores, and what else was measured."""

    result: SplitResult
    counts: dict[System, Statistics]  # what was counted in the sentences
    systems: dict[System, dict[str, Score]]
    """System to metric to score; of seeds that are not one model the model's is their mean."""
    input_check: InputCheck | None  # None where all have one sentence, or clips are too few
    breakdowns: dict[str, list[GroupScores]]
    """Each of `KINDS` to its groups; language and corpus only where there are several."""
    seeds: SeedScores | None  # None of a single model
    reliability: Reliability  # how true the confidence is
    lookup: dict[str, Score]  # of the look-up among train's clips; empty where texts are sentences
    recognition: Recognition | None  # None of a model that reads no signs
    stress: list[StressRow]  # under each change; empty where none was tried
    alignments: dict[str, Alignment]  # by clip id; empty for a model without attention
    next_step: str = ""  # what helps a model that is not clearly better than its floors

    @property
    def only_sentence(self) -> str | None:
        """What the model writes for every clip, though they say different things; else None."""
        written = set(self.result.texts[System.MODEL])
        return written.pop() if len(written) == 1 and len(set(self.result.refs)) > 1 else None

    @property
    def remarks(self) -> dict[str, Any]:
        """What scores.json has where it is so: the only sentence, unknown glosses, a look-up."""
        remarks: dict[str, Any] = {}
        if self.only_sentence is not None:
            remarks["only_sentence"] = self.only_sentence
        if not self.result.source.has_frames:
            remarks["unknown_glosses"] = sum(len(fact.unknown or ()) for fact in self.result.facts)
        if self.next_step:
            remarks["next_step"] = self.next_step
        if self.lookup:
            remarks["lookup"] = {name: score.interval for name, score in self.lookup.items()}
        return remarks

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has of the scores."""
        return {
            "clips": len(self.result.targets),
            "missing": self.result.missing,
            "clips_hash": self.result.clips_hash,
            "constant_sentence": self.result.texts[System.CONSTANT][0],
            "systems": {
                str(system): {str(name): score.to_map() for name, score in scores.items()}
                for system, scores in self.systems.items()
            },
            "input_check": self.input_check.to_map() if self.input_check else None,
            "breakdowns": {
                kind: [group.to_map() for group in groups]
                for kind, groups in self.breakdowns.items()
            },
            **self.remarks,
        }

    def to_metrics(self, *, corpus: str, metric: Metric) -> dict[str, Any]:
        """Return what reports/metrics.json has: what decides, in the headline metric.

        Args:
            corpus: Its name.
            metric: The headline; it comes first.
        """
        systems = self.systems
        metrics = systems[System.MODEL][metric].named(metric)
        metrics[Metric.WER] = systems[System.MODEL][Metric.WER].value
        if self.recognition:
            metrics[GLOSS_WER] = self.recognition.systems[System.MODEL].value
        metrics["best_floor"] = self._best_floor(metric)
        controls = [system for system in (System.BLIND, System.SWAPPED) if system in systems]
        metrics |= {str(system): systems[system][metric].value for system in controls}
        if self.stress:  # the lowest score under any change
            metrics["stress_worst"] = min(row.score for row in self.stress)
        return {
            **rounded(metrics),
            "clips": len(self.result.targets),
            # By these, scores of two runs can be compared.
            "missing": len(self.result.missing),
            "headline": str(metric),
            "corpus": corpus,
            "clips_hash": self.result.clips_hash,
            "signature": systems[System.MODEL][metric].signature,
        }

    def with_next_step(self, train: SeenInTrain, metric: Metric) -> Self:
        """Return the same with what to record next, if the score is not clearly above the floors.

        Args:
            train: What the model learnt from.
            metric: The headline.
        """
        if self.systems[System.MODEL][metric].low > self._best_floor(metric):
            return self
        people = len(train.signers)
        outlook = (
            "`signloom outlook` says what they would bring"
            if people >= LEAST_SIGNERS
            else f"with {LEAST_SIGNERS} signers `signloom outlook` says what more of them bring"
        )
        return replace(
            self,
            next_step="next: the model is not clearly better than the best floor. If dev's loss "
            "still falls at the end, raise train.epochs. Else add to train, which has "
            f"{count_of(train.clips, 'clip')} of {count_of(people, 'signer')}, as many again of "
            f"{count_of(people, 'new signer')}; {outlook} (docs/troubleshooting.md)",
        )

    def _best_floor(self, metric: str) -> float:
        systems = self.systems
        return max(systems[system][metric].value for system in FLOORS if system in systems)


def check_input(
    counts: Mapping[System, Statistics], options: ScoreOptions, source: Source
) -> InputCheck | None:
    """Compare the model with the model that was shown other clips, if it was and clips suffice.

    Args:
        counts: Of `MODEL` and, where there is another sentence, `SWAPPED`.
        options: For the resamples.
        source: What was exchanged between clips.
    """
    if System.SWAPPED not in counts or are_few(len(counts[System.MODEL])):
        return None
    comparison = compare(
        [counts[System.SWAPPED]], [counts[System.MODEL]], options, metrics=[INPUT_METRIC]
    )
    shown = "video" if source.has_frames else source.name
    return InputCheck(fall=comparison[INPUT_METRIC], shown=shown)


def break_down(
    result: SplitResult, statistics: Statistics, train: SeenInTrain, options: ScoreOptions
) -> dict[str, list[GroupScores]]:
    """Score the model on groups of clips, each of `KINDS`."""
    group_of = [
        {
            **train.groups(target),
            "words": _length_name(len(split_words([target.text], options)[0])),
            "signer": target.signer,
            "language": target.language or "none",
            "corpus": target.corpus or "none",
        }
        for target in result.targets
    ]
    # Targets have these two only where there are several.
    single = [kind for kind in KINDS[-2:] if not any(getattr(t, kind) for t in result.targets)]
    by_kind: dict[str, list[GroupScores]] = {}
    for kind in (kind for kind in KINDS if kind not in single):
        groups = group_pairs((names[kind], index) for index, names in enumerate(group_of))
        by_kind[kind] = [
            GroupScores(
                group=group,
                clips=len(indices),
                scores=score_statistics(statistics.select(np.array(indices)), options),
            )
            for group, indices in sorted(groups.items())
        ]
    return by_kind


def _length_name(words: int) -> str:
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low:02}+" if high >= 10**9 else f"{low:02}-{high:02}"
