"""Scores of an evaluation: of all systems, of groups of clips, of seeds, without the input."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np

from signloom.corpus.novelty import KnownSentences
from signloom.evaluation.compare import Difference, compare
from signloom.evaluation.metrics import (
    INTERVAL,
    FloatArray,
    Score,
    ScoreOptions,
    Statistics,
    measure,
    score_statistics,
    split_words,
)
from signloom.evaluation.names import (
    MAIN_METRICS,
    WITH_INTERVAL,
    Metric,
    System,
    are_few,
    rounded,
)
from signloom.evaluation.systems import ClipFacts, SplitResult
from signloom.features.targets import Target

INPUT_METRIC = Metric.CHRF  # of the check whether a model uses its input: it tells weak ones apart
LENGTHS = ((1, 3), (4, 6), (7, 9), (10, 14), (15, 20), (21, 10**9))  # words of a reference
HAND_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)  # lower ends: share of the frames with a hand
RATES = (0.0, 12.0, 18.0, 24.0, 27.0, 45.0)  # lower ends: frames a second, the usual ones inside
KINDS = (
    "sentence",
    "novelty",
    "new_signer",
    "words",
    "signer",
    "hands",
    "fps",
    "language",
    "corpus",
)
"""Of groups of clips. `novelty`: what is new in unseen sentences; `new_signer`: whether train has
the signer."""
SEEN, UNSEEN, KNOWN = "seen in train", "unseen", "known sentences"
OF_LANDMARKS = ("hands", "fps")  # kinds without groups where the clips are glosses
GROUP_METRICS = (*MAIN_METRICS, Metric.CER)
COLUMNS = (
    "group", "clips", *GROUP_METRICS,
    *(f"{metric}_{end}" for metric in MAIN_METRICS for end in ("low", "high")),
)  # fmt: skip

# Of each split and system, what was counted in its sentences.
Counts = Mapping[str, Mapping[System, Statistics]]


class Trained:
    """What a model's training showed: sentences and signers."""

    def __init__(self, targets: Iterable[Target]) -> None:
        """Look at the train clips of some."""
        train = [target for target in targets if target.split == "train"]
        self.texts = frozenset(target.text for target in train)
        self.signers = frozenset(target.signer for target in train)
        self._sentences = KnownSentences(self.texts)

    def groups(self, target: Target) -> dict[str, str]:
        """Return the group of a clip in each kind that train decides."""
        return {
            "sentence": SEEN if target.text in self.texts else UNSEEN,
            "novelty": self._sentences.judge(target.text) or KNOWN,
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
        row |= {str(name): self.scores[name].value for name in GROUP_METRICS}
        for name in MAIN_METRICS:
            row |= {f"{name}_low": self.scores[name].low, f"{name}_high": self.scores[name].high}
        return dict(rounded(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCheck:
    """How far the score falls when the source of every clip is replaced by another clip's.

    A model that writes fluent sentences whatever it sees scores the same either way: the 95 %
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
            "model": fall.b, "swapped": fall.a, "fall": fall.difference, "low": fall.low,
            "high": fall.high, "p_value": fall.p_value,
        }  # fmt: skip
        return {
            "metric": str(INPUT_METRIC),
            **rounded(figures),
            "uses_input": self.uses_input,
            "text": f"Shown the {self.shown} of another clip, chrF goes from {fall.b:.1f} to "
            f"{fall.a:.1f}, a fall of {fall.difference:.1f} [{fall.low:.1f}, {fall.high:.1f}]: "
            f"{result} its input.",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitScores:
    """The scores of a split."""

    clips: int  # how many were scored
    missing: list[str]  # ids of those without landmarks or glosses
    clips_hash: str  # what identifies the clips of the split with their sentences
    constant_sentence: str  # the sentence of the floor `constant`
    systems: dict[System, dict[str, Score]]  # system to metric to score
    input_check: InputCheck | None  # None where all have one sentence, or clips are too few
    breakdowns: dict[str, list[GroupScores]]
    """Each of `KINDS` to its groups; language and corpus only where there are several."""
    only_sentence: str | None
    """What the model writes for every clip, though they say different things; None where it writes
    different sentences."""
    unknown_glosses: int | None
    """How many of the glosses train lacks; None for a model of landmarks."""

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has."""
        content = {
            "clips": self.clips,
            "missing": self.missing,
            "clips_hash": self.clips_hash,
            "constant_sentence": self.constant_sentence,
            "systems": {
                str(system): {str(name): _score_map(score) for name, score in scores.items()}
                for system, scores in self.systems.items()
            },
            "input_check": self.input_check.to_map() if self.input_check else None,
            "breakdowns": {
                kind: [group.to_map() for group in groups]
                for kind, groups in self.breakdowns.items()
            },
        }
        if self.only_sentence is not None:
            content["only_sentence"] = self.only_sentence
        if self.unknown_glosses is not None:
            content["unknown_glosses"] = self.unknown_glosses
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedScores:
    """Scores of models that differ in their seed alone, two or more."""

    names: list[str]  # of the seeds, the first one first
    splits: dict[str, dict[Metric, list[float]]]  # split to metric to a value for each seed
    intervals: dict[str, dict[Metric, tuple[float, float]]]
    """Likewise, of their mean, 95 % over seeds and clips."""
    together: dict[str, dict[Metric, Score]]
    """Likewise, of all seeds translating as one: the mean of their probabilities."""

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has: mean, its interval, standard deviation (n - 1), values."""
        splits = {
            split: {
                str(metric): _spread(values, self.intervals[split][metric])
                for metric, values in found.items()
            }
            for split, found in self.splits.items()
        }
        together = {
            split: {str(metric): _score_map(score) for metric, score in found.items()}
            for split, found in self.together.items()
        }
        return {"names": self.names, "splits": splits, "together": together}


def score_seeds(
    names: list[str],
    counted: Mapping[str, Sequence[Statistics]],
    together: Mapping[str, Mapping[str, Score]],
    options: ScoreOptions,
) -> SeedScores:
    """Return each metric of each seed, and the interval of their mean.

    Args:
        names: Of the seeds.
        counted: Of each split what was counted in the sentences of each seed.
        together: Scores of all seeds as one model.
        options: For the resamples.
    """
    values: dict[str, dict[Metric, list[float]]] = {}
    intervals: dict[str, dict[Metric, tuple[float, float]]] = {}
    for split, seeds in counted.items():
        resampled = [one.resample(options) for one in seeds]
        values[split], intervals[split] = {}, {}
        for metric in MAIN_METRICS:
            values[split][metric] = [one.values()[metric] for one in seeds]
            found = [one[metric] for one in resampled]
            intervals[split][metric] = seed_interval(found, options)
    joint = {
        split: {metric: scores[metric] for metric in MAIN_METRICS}
        for split, scores in together.items()
    }
    return SeedScores(names=names, splits=values, intervals=intervals, together=joint)


def seed_interval(seeds: Sequence[FloatArray], options: ScoreOptions) -> tuple[float, float]:
    """Return the interval of the mean of a metric over seeds, of resamples of clips and seeds.

    In each resample the clips are drawn anew and so are the seeds; their deviations are enlarged by
    the root of n / (n - 1), for which the resamples of so few fall short.

    Args:
        seeds: Of each seed the metric in every resample of the clips, shape (R,).
        options: For the resamples.
    """
    n = len(seeds)
    drawn = np.random.default_rng(options.seed).integers(0, n, (options.resamples, n))
    rows = np.stack(seeds, axis=1)
    means = rows.mean(axis=1)
    offsets = np.take_along_axis(rows, drawn, axis=1).mean(axis=1) - means
    enlarged = means + math.sqrt(n / (n - 1)) * offsets
    # Enlarged, some would be below 0 % or above 100.
    low, high = np.quantile(enlarged, INTERVAL).clip(rows.min(), rows.max())
    return float(low), float(high)


def count(
    results: Sequence[SplitResult],
    options: ScoreOptions,
    given: Mapping[str, Mapping[tuple[str, System], Sequence[float]]],
    commands: Mapping[str, str],
) -> dict[str, dict[System, Statistics]]:
    """Count what the metrics need in every sentence of every system.

    Args:
        results: Sentences of all systems.
        options: The tokenizer.
        given: Further metrics, as `run_commands` returns them.
        commands: Their command lines, which are their signatures.
    """
    counts: dict[str, dict[System, Statistics]] = {}
    for result in results:
        refs = [target.text for target in result.targets]
        counts[result.split] = {}
        for system, hyps in result.texts.items():
            statistics = measure(hyps, refs, options)
            for name, found in given.items():
                signature = f"nrefs:1|mean:sentences|command:{commands[name]}"
                statistics = statistics.extend(name, found[result.split, system], signature)
            counts[result.split][system] = statistics
    return counts


def score_split(
    result: SplitResult,
    counts: Mapping[System, Statistics],
    trained: Trained,
    options: ScoreOptions,
) -> SplitScores:
    """Score every system on a split, and the model on groups of its clips.

    Args:
        result: Sentences of all systems.
        counts: What was counted in them.
        trained: Tells which sentences and signers were seen in training.
        options: For the intervals.
    """
    return SplitScores(
        clips=len(result.targets),
        missing=result.missing,
        clips_hash=result.clips_hash,
        constant_sentence=result.texts[System.CONSTANT][0],
        systems={s: score_statistics(counted, options) for s, counted in counts.items()},
        input_check=check_input(
            counts, options, "video" if result.source.has_frames else result.source.name
        ),
        breakdowns=_break_down(result, counts[System.MODEL], trained, options),
        only_sentence=_only_sentence(result),
        unknown_glosses=None
        if result.source.has_frames
        else sum(len(f.unknown or ()) for f in result.facts),
    )


def _only_sentence(result: SplitResult) -> str | None:
    said, wanted = set(result.texts[System.MODEL]), {target.text for target in result.targets}
    return said.pop() if len(said) == 1 and len(wanted) > 1 else None


def check_input(
    counts: Mapping[System, Statistics], options: ScoreOptions, shown: str
) -> InputCheck | None:
    """Compare the model with the model that was shown other clips, if it was and clips suffice.

    Args:
        counts: Of `MODEL` and, where there is another sentence, `SWAPPED`.
        options: For the resamples.
        shown: What was replaced, in a word.
    """
    if System.SWAPPED not in counts or are_few(len(counts[System.MODEL])):
        return None
    found = compare(
        [counts[System.SWAPPED]], [counts[System.MODEL]], options, metrics=[INPUT_METRIC]
    )
    return InputCheck(fall=found[INPUT_METRIC], shown=shown)


def headline(
    splits: Mapping[str, SplitScores], seeds: SeedScores | None, *, corpus: str, metric: Metric
) -> dict[str, Any]:
    """Pick what `dvc metrics show` prints: the content of reports/metrics.json.

    Args:
        splits: Scores by split.
        seeds: None for a single model.
        corpus: Its name.
        metric: What a person compares first, and so comes first.
    """
    metrics: dict[str, Any] = {}
    for split in sorted(splits, reverse=True):  # test first
        found = splits[split].to_map()
        model = found["systems"][System.MODEL]
        names = dict.fromkeys([metric, Metric.BLEU4, *Metric, *model])
        values: dict[str, Any] = {str(name): model[name]["value"] for name in names}
        for name in WITH_INTERVAL:
            values |= {f"{name}_low": model[name]["low"], f"{name}_high": model[name]["high"]}
        for system in System:
            if system != System.MODEL and system in found["systems"]:
                scores = found["systems"][system]
                values |= {f"{system.prefix}_{n}": scores[n]["value"] for n in MAIN_METRICS}
        for row in found["breakdowns"]["sentence"]:
            values[row["group"].split()[0]] = _brief(row)  # seen or unseen
        values["signers"] = {
            row["group"].split()[0]: _brief(row) for row in found["breakdowns"]["new_signer"]
        }
        values["novelty"] = {
            row["group"].replace(" ", "_"): _brief(row)
            for row in found["breakdowns"]["novelty"]
            if row["group"] != KNOWN
        }
        if seeds:
            values["seeds"] = _brief_seeds(seeds, split)
        values |= {"clips": found["clips"], "missing": len(found["missing"])}
        if check := found.get("input_check"):
            values["uses_input"] = int(check["uses_input"])
        values |= {key: found[key] for key in ("only_sentence", "unknown_glosses") if key in found}
        values["signature"] = model[metric]["signature"]
        values |= {"headline": str(metric), "corpus": corpus, "clips_hash": found["clips_hash"]}
        metrics[split] = values
    return metrics


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("clips", "bleu4", "wer", "exact")}


def _brief_seeds(seeds: SeedScores, split: str) -> dict[str, Any]:
    spreads, together = seeds.to_map()["splits"][split], seeds.together.get(split, {})
    return {
        name: {key: spread[key] for key in ("mean", "low", "high", "std", "n")}
        | ({"together": together[Metric(name)].value} if together else {})
        for name, spread in spreads.items()
    }


def _score_map(score: Score) -> dict[str, float | str]:
    found = {"value": score.value, "low": score.low, "high": score.high}
    return {**rounded(found), "signature": score.signature}


def _spread(values: Sequence[float], interval: tuple[float, float]) -> dict[str, Any]:
    found = {
        "mean": mean(values), "low": interval[0], "high": interval[1], "std": stdev(values),
        "n": len(values), "values": list(values),
    }  # fmt: skip
    return dict(rounded(found))


def _break_down(
    result: SplitResult, statistics: Statistics, trained: Trained, options: ScoreOptions
) -> dict[str, list[GroupScores]]:
    """Score the model on groups of clips, each of `KINDS`."""
    of_train = {target.clip_id: trained.groups(target) for target in result.targets}
    group_of: dict[str, Callable[[Target, ClipFacts], str]] = {
        "sentence": lambda target, _: of_train[target.clip_id]["sentence"],
        "novelty": lambda target, _: of_train[target.clip_id]["novelty"],
        "new_signer": lambda target, _: of_train[target.clip_id]["new_signer"],
        "words": lambda target, _: _length_name(len(split_words([target.text], options)[0])),
        "signer": lambda target, _: target.signer,
        "hands": lambda _, facts: _hands_name(facts),
        "fps": lambda _, facts: _rate_name(facts),
        "language": lambda target, _: target.language or "none",
        "corpus": lambda target, _: target.corpus or "none",
    }
    # Targets have these two only where there are several.
    single = [kind for kind in KINDS[-2:] if not any(getattr(t, kind) for t in result.targets)]
    found: dict[str, list[GroupScores]] = {}
    for kind in (kind for kind in KINDS if kind not in single):
        groups: dict[str, list[int]] = {}
        if result.source.has_frames or kind not in OF_LANDMARKS:
            for index, (target, facts) in enumerate(zip(result.targets, result.facts, strict=True)):
                groups.setdefault(group_of[kind](target, facts), []).append(index)
        found[kind] = [
            GroupScores(
                group=group,
                clips=len(indices),
                scores=score_statistics(statistics.select(np.array(indices)), options),
            )
            for group, indices in sorted(groups.items())
        ]
    return found


def _length_name(words: int) -> str:
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low:02}+" if high >= 10**9 else f"{low:02}-{high:02}"


def _hands_name(facts: ClipFacts) -> str:
    if facts.hands is None:
        return "no hands in the layout"
    low, high = _bounds(facts.hands, HAND_SHARES)
    return f"{100 * low:02.0f}-{100 * (1 if high is None else high):02.0f} %"


def _rate_name(facts: ClipFacts) -> str:
    low, high = _bounds(facts.fps or 0.0, RATES)
    return f"{low:02.0f}+" if high is None else f"{low:02.0f}-{high:02.0f}"


def _bounds(value: float, ends: Sequence[float]) -> tuple[float, float | None]:
    last = max(index for index, low in enumerate(ends) if value >= low)
    return ends[last], ends[last + 1] if last + 1 < len(ends) else None
