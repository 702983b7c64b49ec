"""The gate: the rules by which a challenger becomes champion, their statistics, the decision.

A system is one model, or the same model trained with several seeds. Its score is the mean of the
seeds' corpus scores, taken in every resample of the clips; seeds that translate as one are one
model. All models are scored on the same bootstrap resamples. Nothing is translated or written here.
docs/ops/nights.md explains each rule.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import stats

from signloom.evaluation.judge import JudgementResult, to_map
from signloom.evaluation.metrics import (
    FloatArray,
    ScoreOptions,
    Statistics,
    count_bleu,
    count_chrf,
    count_exact,
    count_wer,
    split_words,
)
from signloom.evaluation.names import (
    GLOSS_WER,
    LOWER_IS_BETTER,
    SYSTEM_LABELS,
    Metric,
    System,
    metric_label,
)
from signloom.evaluation.summary import INPUT_METRIC, LENGTHS, Trained
from signloom.evaluation.systems import swap_clips
from signloom.features.targets import Target
from signloom_ops.options import GateOptions

FORMAT_VERSION = 2  # of decision.json; in version 1 the texts of rules name signers
DECIMALS = 4
YEAR_DAYS = 365  # refusals count for so long
TESTS = YEAR_DAYS + 1  # most challengers in a year whose levels add up to the stated one
_SHARES = math.fsum(1 / number for number in range(1, TESTS + 1))
REPORTED = (Metric.CHRF, Metric.BLEU4, Metric.WER, Metric.EXACT)

Result = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Translations:
    """The sentences of a version's models."""

    version: int
    texts: Mapping[str, Sequence[str]]
    """Clip id to the sentence of each seed, the served model's first; to one of all as one."""
    decoding: Mapping[str, Any]  # options of the search, for decision.json
    parameters: int  # number of parameters of what is served
    as_one: int = 1  # seeds that write each sentence together

    @property
    def label(self) -> str:
        """What its scores are of."""
        seeds = len(next(iter(self.texts.values()), ()))
        return f"{self.as_one} seeds as one" if self.as_one > 1 else f"mean of {seeds} seeds"

    def by_seed(self, clips: Sequence[Target]) -> list[list[str]]:
        """Return the sentences of each seed, one a clip."""
        rows = [self.texts[clip.clip_id] for clip in clips]
        return [list(texts) for texts in zip(*rows, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClips:
    """The clips on which two versions are compared."""

    test: Sequence[Target]  # the frozen test clips that still exist
    missing: Sequence[str]  # ids of the frozen test clips that were removed
    newest: Sequence[Target]  # dev and test clips of the newest batches
    floors: Mapping[System, Sequence[str]]
    """Sentences of the floors `constant` and `retrieval` for each test clip; for a first champion.
    """
    trained: Trained | None = None  # of today: tells unseen sentences and signers
    stress: Mapping[str, tuple[Sequence[str], Sequence[str]]] = field(default_factory=dict)
    """Change of real life to what the served models of champion and challenger write of each test
    clip under it; for a challenger."""

    @property
    def texts(self) -> list[str]:
        """The references of the test clips."""
        return [clip.text for clip in self.test]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The result of one rule.

    `text` never contains a signer's name; names appear only in the field `slices`.
    """

    name: str
    result: Result
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether the challenger becomes champion, and why."""

    version: int
    champion: int | None
    promote: bool
    rules: tuple[Rule, ...]
    figures: Mapping[str, Any]

    @property
    def reasons(self) -> list[str]:
        """One line for each rule."""
        return [f"{rule.name} {rule.result}: {rule.text}" for rule in self.rules]

    @property
    def verdict(self) -> str:
        """The decision in a sentence."""
        if self.promote:
            over = f"takes the place of version {self.champion}"
            return f"version {self.version} {over if self.champion else 'is the first champion'}"
        failed = ", ".join(rule.name for rule in self.rules if rule.result == "failed")
        stays = f"version {self.champion} stays champion" if self.champion else "there is none yet"
        return f"version {self.version} does not become champion ({failed}); {stays}"

    def to_map(self) -> dict[str, Any]:
        """Return everything as plain maps for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "version": self.version,
            "champion": self.champion,
            "promote": self.promote,
            "verdict": self.verdict,
            "reasons": self.reasons,
            "rules": [asdict(rule) for rule in self.rules],
            **self.figures,
        }


def level_tonight(level: float, refused: int) -> float:
    """Return the error probability that a promotion may have tonight.

    Each refusal of the last 365 days lowers it, a promotion does not. Of a year's challengers that
    are not better, all but the first to be promoted were refused, so the j-th of them is tested at
    level / (j H) at most, H the sum of 1 / j up to 366: together at most at `level`, whatever the
    dependence of the tests. Where 366 were refused, nothing is promoted.

    Args:
        level: The chance that any of a year's promotions is wrong.
        refused: Challengers that were refused in the 365 days before.

    Source: Tian and Ramdas (2021), Online control of the familywise error rate, whose fallback
    likewise hands on the level of what was rejected.
    """
    return level / (_SHARES * (refused + 1)) if refused < TESTS else 0.0


def decide(
    champion: Translations | None,
    challenger: Translations,
    clips: GateClips,
    options: GateOptions,
    score: ScoreOptions,
    *,
    refused: int,
    measure_cpu_s: Callable[[], tuple[float, float]],
    people: JudgementResult | None = None,
) -> Decision:
    """Decide whether a challenger becomes champion.

    Args:
        champion: None: there is none yet, and the challenger must beat the floors.
        challenger: Its sentences; like the champion's, one for every clip.
        clips: At least one test clip.
        options: Limits of the rules.
        score: Tokenizer, resamples and seed.
        refused: Challengers that were refused in the 365 days before.
        measure_cpu_s: Returns the CPU time of champion and challenger for the same clips; called
            only where it can matter.
        people: What judges said of the champion (A) and the challenger (B), if anybody was asked.
    """
    tonight = level_tonight(options.level, refused)
    new = count_system(challenger.by_seed(clips.test), clips.texts, score)
    input_rule, input_figures = _uses_input(challenger, clips.test, new, options, score)
    if champion is None:
        floors_rule, floors = _floors(clips, new, options, score, tonight)
        rules = [floors_rule, input_rule]
        cost: dict[str, Any] = {
            "parameters": {"champion": None, "challenger": challenger.parameters}, "cpu_s": None,
        }  # fmt: skip
        figures: dict[str, Any] = {"floors": floors, "scores": _scores(None, new), "slices": [],
                                   "newest": None, "cost": cost}  # fmt: skip
    else:
        old = count_system(champion.by_seed(clips.test), clips.texts, score)
        pair = _Pair(clips=clips.test, old=old, new=new, options=options, score=score)
        gain_rules, cost = _gain(pair, champion, challenger, tonight, measure_cpu_s)
        slices_rule, slices = _slices(pair, clips.trained)
        newest_rule, newest = _newest(champion, challenger, clips.newest, options, score)
        stress_rule, stress = _stress(pair, clips.stress)
        rules = [*gain_rules, _served(pair), slices_rule, stress_rule, input_rule, newest_rule]
        figures = {"floors": [], "scores": _scores(pair, new), "slices": slices,
                   "newest": newest, "cost": cost, "stress": stress}  # fmt: skip
    if people is not None:
        rules.append(_people(people, options))
        figures["people"] = to_map(people)
    return Decision(
        version=challenger.version,
        champion=champion.version if champion else None,
        promote=not _failed(rules),
        rules=tuple(rules),
        figures={
            "metric": options.metric,
            "level": options.level,
            "level_tonight": float(f"{tonight:.3g}"),
            "refused_in_a_year": refused,
            "clips": len(clips.test),
            "test": [clip.clip_id for clip in clips.test],
            "missing": list(clips.missing),
            "options": asdict(options),
            "uses_input": input_figures,
            "decoding": {
                "champion": dict(champion.decoding) if champion else None,
                "challenger": dict(challenger.decoding),
            },
            **figures,
        },
    )


def _failed(rules: Sequence[Rule]) -> set[str]:
    """Return the names of the rules that keep a challenger from becoming champion."""
    failed = {rule.name for rule in rules if rule.result == "failed"}
    if any(rule.name == "equal_and_cheaper" and rule.result == "passed" for rule in rules):
        failed.discard("better")  # one of the two is enough
    return failed


# --- Statistics of systems ---


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SystemCounts:
    """What was counted in the sentences of each seed of a system."""

    seeds: tuple[Statistics, ...]

    def select(self, rows: Sequence[int]) -> "SystemCounts":
        """Return the counts of some clips."""
        return SystemCounts(seeds=tuple(one.select(np.array(rows)) for one in self.seeds))

    def values(self, metric: str) -> list[float]:
        """Return the score of each seed."""
        return [one.values()[_counted(metric)] for one in self.seeds]

    def resample(self, metric: str, score: ScoreOptions) -> FloatArray:
        """Return the mean over the seeds in each of R resamples, shape (R,)."""
        metric = _counted(metric)
        alone = [
            Statistics(parts=tuple(part for part in one.parts if metric in part.signatures))
            for one in self.seeds
        ]
        drawn = np.stack([one.resample(score)[metric] for one in alone])
        mean: FloatArray = drawn.mean(axis=0)
        return mean


def _counted(metric: str) -> str:
    """Return what is counted for a metric: where the gate is about signs, the texts are signs."""
    return Metric.WER if metric == GLOSS_WER else metric


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemDifference:
    """A metric of systems A and B on the same clips."""

    a: float  # mean over A's seeds
    b: float  # mean over B's seeds
    low: float  # lower end of the paired bootstrap interval of B - A
    high: float  # upper end
    p_value: float
    """Twice the smaller share of resamples on one side of no difference. It is below the level
    exactly when the interval of that level does not contain 0."""
    spread: float  # standard deviation of B - A in the resamples
    clips: int
    resamples: int
    is_error: bool = False  # lower is better

    def lowest(self, tail: float) -> float:
        """Return what B is surely better by than A, but for a chance of `tail`.

        No resampling shows a chance of 1 in 50,000, so this is Student's interval with the
        bootstrap's standard error; fewer degrees of freedom for few clips and few resamples. It
        says nothing where not even n clips that all speak for B would: the sign test has 2^-n.

        Source: Hesterberg (2015), What teachers should know about the bootstrap, 4.3 and 5.
        """
        if not tail or 0.5**self.clips > tail:
            return -math.inf
        freedom = 1 / (1 / (self.clips - 1) + 1 / (self.resamples - 1))
        error = self.spread * math.sqrt(self.clips / (self.clips - 1))
        return self.gain - float(stats.t.isf(tail, freedom)) * error

    @property
    def change(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def gain(self) -> float:
        """By how much B is better."""
        return -self.change if self.is_error else self.change

    @property
    def is_surely_worse(self) -> bool:
        """Whether the interval holds losses alone."""
        return self.low > 0 if self.is_error else self.high < 0

    def __str__(self) -> str:
        """Return the change with its interval."""
        return f"{self.change:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"

    def to_map(self, a: str, b: str) -> dict[str, float]:
        """Return the figures for JSON, the two systems under names."""
        found = {
            a: self.a, b: self.b, "difference": self.change,
            "low": self.low, "high": self.high, "p_value": self.p_value,
        }  # fmt: skip
        return {name: round(value, DECIMALS) for name, value in found.items()}


def count_system(
    texts: Sequence[Sequence[str]], refs: Sequence[str], score: ScoreOptions
) -> SystemCounts:
    """Count what the reported metrics need.

    Args:
        texts: The sentences of each seed, one a clip.
        refs: The references, none empty.
        score: The tokenizer.
    """
    counters = (count_bleu, count_chrf, count_wer, count_exact)
    return SystemCounts(
        seeds=tuple(
            Statistics(parts=tuple(counter(hyps, refs, score) for counter in counters))
            for hyps in texts
        )
    )


def measure_difference(
    a: SystemCounts, b: SystemCounts, metric: str, score: ScoreOptions, level: float
) -> SystemDifference:
    """Compare two systems by the paired bootstrap over clips.

    Args:
        a: Counts of A.
        b: Counts of B on the same clips in the same order; it may have another number of seeds.
        metric: One of `REPORTED`, or gloss_wer, where the texts are signs.
        score: Resamples and their seed.
        level: 0.05 for a 95 % interval.
    """
    drawn = b.resample(metric, score) - a.resample(metric, score)
    low, high = (float(end) for end in np.quantile(drawn, (level / 2, 1 - level / 2)))
    fewer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return SystemDifference(
        a=float(np.mean(a.values(metric))),
        b=float(np.mean(b.values(metric))),
        low=low,
        high=high,
        p_value=min(1.0, 2 * (fewer + 1) / (len(drawn) + 1)),
        spread=float(drawn.std(ddof=1)),
        clips=len(a.seeds[0]),
        resamples=len(drawn),
        is_error=metric in LOWER_IS_BETTER,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Pair:
    """Champion (old) and challenger (new), counted on the same clips."""

    clips: Sequence[Target]
    old: SystemCounts
    new: SystemCounts
    options: GateOptions
    score: ScoreOptions

    def difference(
        self, rows: Sequence[int] | None = None, *, metric: str | None = None
    ) -> SystemDifference:
        """Compare them on all clips or on some rows, by the gate's metric or another."""
        rows = range(len(self.clips)) if rows is None else rows
        old, new = self.old.select(rows), self.new.select(rows)
        metric = metric or self.options.metric
        return measure_difference(old, new, metric, self.score, self.options.level)


def _is_worse(found: SystemDifference, options: GateOptions) -> bool:
    """Return whether a loss is too large and statistically significant."""
    return found.gain < -options.slice_tolerance and found.is_surely_worse


# --- Rules: each returns its result and its figures for decision.json ---


def _judge(name: str, text: str, *, is_good: bool | None) -> Rule:
    """Return the result of a rule; None: it was not judged."""
    results: dict[bool | None, Result] = {True: "passed", False: "failed", None: "not judged"}
    return Rule(name=name, result=results[is_good], text=text)


def _gain(
    pair: _Pair,
    champion: Translations,
    challenger: Translations,
    tonight: float,
    measure_cpu_s: Callable[[], tuple[float, float]],
) -> tuple[list[Rule], dict[str, Any]]:
    """Rules `better` and `equal_and_cheaper`: a better model, or an equal one that costs less."""
    options, found = pair.options, pair.difference()
    name = metric_label(options.metric)
    seeds = f"{champion.label} against {challenger.label}"
    lowest = found.lowest(tonight)
    is_better = lowest > 0
    figures = f"{name} {found.a:.1f} and {found.b:.1f}, {found}, p {found.p_value:.3f}"
    text = f"{figures}; {_at_least(lowest, tonight)}; {seeds}, {len(pair.clips)} clips"
    better = _judge("better", text, is_good=is_better)
    sizes = {"champion": champion.parameters, "challenger": challenger.parameters}
    cost: dict[str, Any] = {"parameters": sizes, "cpu_s": None}
    equal = partial(_judge, "equal_and_cheaper")
    if is_better:
        return [better, equal("it is better", is_good=None)], cost
    if lowest <= -options.equal_margin:
        worse = f"{-lowest:.1f} {name}" if math.isfinite(lowest) else "much"
        text = f"it may be {worse} worse, at most {options.equal_margin:g} is equal"
        return [better, equal(text, is_good=False)], cost
    most = 1 - options.saving
    share = challenger.parameters / champion.parameters
    if share <= most:
        return [better, equal(f"{share:.2f} of the parameters", is_good=True)], cost
    cpu_old, cpu_new = measure_cpu_s()
    cost["cpu_s"] = {"champion": round(cpu_old, DECIMALS), "challenger": round(cpu_new, DECIMALS)}
    pace = cpu_new / cpu_old
    text = f"equal, with {share:.2f} of the parameters and {pace:.2f} of the CPU time; asked for: "
    return [better, equal(f"{text}{most:.2f} of either", is_good=pace <= most)], cost


def _at_least(lowest: float, tonight: float) -> str:
    if not math.isfinite(lowest):
        return f"at tonight's level of {tonight:.2g} too few clips to tell"
    return f"at tonight's level of {tonight:.2g} a gain of {lowest:+.1f} or more"


def _served(pair: _Pair) -> Rule:
    """Rule `served`: no large loss of what translates for people, the first seed's model or all."""
    options = pair.options
    old, new = (SystemCounts(seeds=one.seeds[:1]) for one in (pair.old, pair.new))
    found = measure_difference(old, new, options.metric, pair.score, options.level)
    text = f"what translates for people: {found} {metric_label(options.metric)}"
    return _judge("served", text, is_good=not _is_worse(found, options))


def _slices(pair: _Pair, trained: Trained | None) -> tuple[Rule, list[dict[str, Any]]]:
    """Rule `slices`: no large loss on any signer or length, on what is seen or unseen in train."""
    options = pair.options
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, clip in enumerate(pair.clips):
        groups["signer", clip.signer].append(row)
        groups["words", _length_name(clip.text, pair.score)].append(row)
        for kind, group in trained.groups(clip).items() if trained else ():
            groups[kind, group].append(row)
    slices, worse, judged = [], [], 0
    for (kind, group), rows in sorted(groups.items()):
        found, result = pair.difference(rows), "few"
        if len(rows) >= options.slice_min_clips:
            judged += 1
            result = "ok"
            if _is_worse(found, options):
                result = "worse"
                # The signer's name only in `slices`, so that `signloom forget` can remove it.
                name = "a signer" if kind == "signer" else f"{kind} {group}"
                worse.append(f"{name}: {found} on {len(rows)} clips")
            elif found.gain < -options.slice_tolerance:
                result = "unsure"  # worse on these clips, but the difference may be random
        figures = found.to_map("champion", "challenger")
        slices.append(
            {"kind": kind, "group": group, "clips": len(rows), **figures, "result": result}
        )
    few = len(slices) - judged
    text = "; ".join(worse) or f"none of {judged} groups of clips is surely worse"
    text += f"; {few} with fewer than {options.slice_min_clips} clips not judged" if few else ""
    return _judge("slices", text, is_good=not worse if judged else None), slices


def _stress(
    pair: _Pair, found: Mapping[str, tuple[Sequence[str], Sequence[str]]]
) -> tuple[Rule, list[dict[str, Any]]]:
    """Rule `stress`: no large loss under any change of real life, of the models that translate.

    The level is shared among the changes (Bonferroni), so that chance alone refuses nobody.
    """
    options = pair.options
    if not found or len(pair.clips) < options.slice_min_clips:
        return _judge("stress", f"{len(pair.clips)} test clips are too few", is_good=None), []
    refs = [clip.text for clip in pair.clips]
    figures, worse = [], []
    for change, texts in found.items():
        old, new = (count_system([each], refs, pair.score) for each in texts)
        level = options.level / len(found)
        one = measure_difference(old, new, options.metric, pair.score, level)
        figures.append({"change": change, **one.to_map("champion", "challenger")})
        if _is_worse(one, options):
            worse.append(f"{change}: {one}")
    text = "; ".join(worse) or f"surely worse under none of {len(found)} changes of real life"
    return _judge("stress", text, is_good=not worse), figures


def _newest(
    champion: Translations,
    challenger: Translations,
    clips: Sequence[Target],
    options: GateOptions,
    score: ScoreOptions,
) -> tuple[Rule, dict[str, Any] | None]:
    """Rule `newest`: no large loss on the held-out clips of the newest batches."""
    if not clips:
        text = "the newest batches have no dev or test clip"
        return _judge("newest", text, is_good=None), None
    refs = [clip.text for clip in clips]
    old, new = (count_system(one.by_seed(clips), refs, score) for one in (champion, challenger))
    found = measure_difference(old, new, options.metric, score, options.level)
    figures = {"clips": len(clips), **found.to_map("champion", "challenger")}
    text = f"{found} {metric_label(options.metric)} on the {len(clips)} newest dev and test clips"
    if len(clips) < options.slice_min_clips:
        text += f", fewer than {options.slice_min_clips}"
        return _judge("newest", text, is_good=None), figures
    return _judge("newest", text, is_good=not _is_worse(found, options)), figures


def _uses_input(
    challenger: Translations,
    clips: Sequence[Target],
    counts: SystemCounts,
    options: GateOptions,
    score: ScoreOptions,
) -> tuple[Rule, list[dict[str, Any]]]:
    """Rule `uses_input`: each seed's score must fall when it gets another clip's video."""
    refs = [clip.text for clip in clips]
    others = swap_clips(refs, np.random.default_rng([score.seed, *b"test"]))
    if others is None:
        text = (
            "all test clips have one sentence, so this test cannot detect a model that ignores "
            "its input"
        )
        return _judge("uses_input", text, is_good=False), []
    figures, blind = [], []
    for seed, texts in enumerate(challenger.by_seed(clips)):
        swapped = count_system([[texts[other] for other in others]], refs, score)
        own = SystemCounts(seeds=counts.seeds[seed : seed + 1])
        found = measure_difference(swapped, own, INPUT_METRIC, score, options.level)
        fall = {"fall": found.change, "low": found.low, "high": found.high}
        figures.append({"seed": seed, **{k: round(v, DECIMALS) for k, v in fall.items()}})
        if found.low <= 0:
            blind.append(f"model {seed + 1} ignores its input")
    falls = ", ".join(f"{one['fall']:.1f} [{one['low']:.1f}, {one['high']:.1f}]" for one in figures)
    text = f"shown the video of another clip, chrF falls by {falls}"
    text = "; ".join([*blind, text])
    return _judge("uses_input", text, is_good=not blind), figures


def _people(found: JudgementResult, options: GateOptions) -> Rule:
    """Rule `people`: judges do not surely prefer the champion's sentences (A)."""
    if found.clips < options.slice_min_clips:
        return _judge("people", f"{found}; fewer than {options.slice_min_clips}", is_good=None)
    return _judge("people", str(found), is_good=found.preference.high >= 0)


def _floors(
    clips: GateClips, new: SystemCounts, options: GateOptions, score: ScoreOptions, tonight: float
) -> tuple[Rule, list[dict[str, Any]]]:
    """Rule `floors`: a first champion beats what can be had without learning."""
    refs = clips.texts
    figures, parts, is_above = [], [], True
    for name, texts in clips.floors.items():
        floor = count_system([texts], refs, score)
        found = measure_difference(floor, new, options.metric, score, options.level)
        lowest = found.lowest(tonight)
        is_above &= lowest > 0
        figures.append({"name": name, **found.to_map("value", "challenger")})
        parts.append(
            f"the {SYSTEM_LABELS[name]} {found.a:.1f}, difference {found}, "
            f"{_at_least(lowest, tonight)}"
        )
    mean = float(np.mean(new.values(options.metric)))
    text = f"{metric_label(options.metric)} {mean:.1f}; {'; '.join(parts)}"
    return _judge("floors", text, is_good=is_above), figures


def _scores(pair: _Pair | None, new: SystemCounts) -> dict[str, dict[str, Any]]:
    """Return every reported metric of both systems, with the value of each seed."""
    found: dict[str, dict[str, Any]] = {}
    for metric in REPORTED:
        values = [round(value, DECIMALS) for value in new.values(metric)]
        found[metric] = {"champion": None, "challenger": round(float(np.mean(values)), DECIMALS),
                         "champion_seeds": [], "challenger_seeds": values}  # fmt: skip
        if pair is not None:
            old = [round(value, DECIMALS) for value in pair.old.values(metric)]
            figures = pair.difference(metric=metric).to_map("champion", "challenger")
            found[metric] |= {**figures, "champion_seeds": old}
    return found


def _length_name(text: str, score: ScoreOptions) -> str:
    words = len(split_words([text], score)[0])
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low}+" if high >= 10**9 else f"{low} to {high}"
