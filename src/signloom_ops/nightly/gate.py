"""The gate: the rules by which a challenger becomes champion, their statistics, the decision.

A system is one model, or the same model trained with several seeds. Its score is the mean of the
seeds' corpus scores, taken in every resample of the clips; seeds that translate together are one
model. All models are scored on the same bootstrap resamples. Nothing is translated or written here.
docs/ops/nights.md explains each rule.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from signloom.evaluation.compare import Difference, compare
from signloom.evaluation.metric_names import (
    GLOSS_WER,
    SYSTEM_LABELS,
    TOO_FEW,
    Metric,
    System,
    are_few,
    metric_label,
    rounded,
)
from signloom.evaluation.metrics import (
    ScoreOptions,
    Statistics,
    count_bleu,
    count_chrf,
    count_exact,
    count_wer,
    measure,
    split_words,
)
from signloom.evaluation.summary import INPUT_METRIC, LENGTHS, SeenInTrain
from signloom.evaluation.systems import swap_clips
from signloom.features.targets import Target
from signloom_ops.options import GateOptions

FORMAT_VERSION = 2  # of decision.json; in version 1 the texts of rules name signers
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
    """Clip id to the sentence of each seed, the served model's first; to one of all together."""
    decoding: Mapping[str, Any]  # options of the search, for decision.json
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
    trained: SeenInTrain | None = None  # of today: tells unseen sentences and signers

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
    level / (j H) at most, H the sum of 1 / j up to 366: together at most at `level`, however
    the tests depend on each other. Where 366 were refused, nothing is promoted.

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
) -> Decision:
    """Decide whether a challenger becomes champion.

    Args:
        champion: None: there is none yet, and the challenger must beat the floors.
        challenger: Its sentences; like the champion's, one for every clip.
        clips: At least one test clip.
        score: Tokenizer, resamples and seed.
        refused: Challengers that were refused in the 365 days before.
    """
    tonight = level_tonight(options.level, refused)
    new = count_system(challenger.by_seed(clips.test), clips.texts, score)
    case = Case(
        clips=clips, challenger=challenger, new=new, options=options, score=score, tonight=tonight
    )
    if champion is None:
        judged = [rule(case) for rule in FIRST_RULES]
    else:
        old = count_system(champion.by_seed(clips.test), clips.texts, score)
        values = {field.name: getattr(case, field.name) for field in fields(case)}
        duel = Duel(**values, champion=champion, old=old)
        judged = [rule(duel) for rule in RULES]
    rules = tuple(rule for some, _ in judged for rule in some)
    figures = {
        "metric": options.metric,
        "level": options.level,
        "level_tonight": float(f"{tonight:.3g}"),
        "refused_in_a_year": refused,
        "clips": len(clips.test),
        "test": [clip.clip_id for clip in clips.test],
        "missing": list(clips.missing),
        "options": asdict(options),
        "uses_input": [],
        "decoding": {
            "champion": dict(champion.decoding) if champion else None,
            "challenger": dict(challenger.decoding),
        },
        "floors": [],
        "scores": {},
        "slices": [],
        "newest": None,
    }
    return Decision(
        version=challenger.version,
        champion=champion.version if champion else None,
        promote=all(rule.result != "failed" for rule in rules),
        rules=rules,
        figures=figures | {name: value for _, some in judged for name, value in some.items()},
    )


# --- What the rules read ---

SeedStatistics = tuple[Statistics, ...]
"""What was counted in the sentences of a system, by each of its seeds."""
Judged = tuple[list[Rule], dict[str, Any]]
"""What a function of the rules returns: its result, if it judges, and figures for decision.json."""


def count_system(
    texts: Sequence[Sequence[str]], refs: Sequence[str], score: ScoreOptions
) -> SeedStatistics:
    """Count what the reported metrics need.

    Args:
        texts: The sentences of each seed, one a clip.
        refs: The references, none empty.
        score: The tokenizer.
    """
    counters = (count_bleu, count_chrf, count_wer, count_exact)
    return tuple(measure(hyps, refs, score, counters) for hyps in texts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Case:
    """A challenger, on what it is judged, and by which limits."""

    clips: GateClips
    challenger: Translations
    new: SeedStatistics  # the challenger's, of the test clips
    options: GateOptions
    score: ScoreOptions
    tonight: float  # the level that a promotion has

    def compare(self, a: SeedStatistics, b: SeedStatistics, metric: str = "") -> Difference:
        """Compare two systems on the same clips, by the gate's metric or another one."""
        counted = _counted(metric or self.options.metric)
        level = self.options.level
        return compare(a, b, self.score, metrics=[counted], level=level)[counted]

    def is_lost(self, difference: Difference) -> bool:
        """Return whether a loss is too large and statistically significant."""
        return difference.gain < -self.options.slice_tolerance and difference.is_worse


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Duel(Case):
    """The same where there is a champion."""

    champion: Translations
    old: SeedStatistics  # the champion's, of the test clips


def _counted(metric: str) -> str:
    """Return what is counted for a metric: where the gate is about signs, the texts are signs."""
    return Metric.WER if metric == GLOSS_WER else metric


# --- Rules ---


def _judge(name: str, text: str, *, is_good: bool | None) -> Rule:
    """Return the result of a rule; None: it was not judged."""
    results: dict[bool | None, Result] = {True: "passed", False: "failed", None: "not judged"}
    return Rule(name=name, result=results[is_good], text=text)


def _better(duel: Duel) -> Judged:
    """Rule `better`: a significant gain, at tonight's level."""
    options, difference = duel.options, duel.compare(duel.old, duel.new)
    lowest = difference.lowest(duel.tonight)
    text = (
        f"{metric_label(options.metric)} {difference.a:.1f} and {difference.b:.1f}, {difference}, "
        f"p {difference.p_value:.3f}; {_at_least(lowest, duel.tonight)}; {duel.champion.label} "
        f"against {duel.challenger.label}, {len(duel.clips.test)} clips"
    )
    return [_judge("better", text, is_good=lowest > 0)], {}


def _at_least(lowest: float, tonight: float) -> str:
    if not math.isfinite(lowest):
        return f"at tonight's level of {tonight:.2g} {TOO_FEW}"
    return f"at tonight's level of {tonight:.2g} a gain of {lowest:+.1f} or more"


def _served(duel: Duel) -> Judged:
    """Rule `served`: no large loss of what translates for people, the first seed's model or all."""
    difference = duel.compare(duel.old[:1], duel.new[:1])
    text = f"what translates for people: {difference} {metric_label(duel.options.metric)}"
    return [_judge("served", text, is_good=not duel.is_lost(difference))], {}


def _slices(duel: Duel) -> Judged:
    """Rule `slices`: no large loss on any signer or length, on what is seen or unseen in train."""
    options = duel.options
    slices, worse, judged = [], [], 0
    for (kind, group), rows in sorted(_group(duel).items()):
        some = np.array(rows)
        old, new = ([seed.select(some) for seed in counts] for counts in (duel.old, duel.new))
        difference, result = duel.compare(tuple(old), tuple(new)), "few"
        if len(rows) >= options.slice_min_clips:
            judged += 1
            result = "ok"
            if duel.is_lost(difference):
                result = "worse"
                # The signer's name only in `slices`, so that `signloom forget` can remove it.
                name = "a signer" if kind == "signer" else f"{kind} {group}"
                worse.append(f"{name}: {difference} on {len(rows)} clips")
            elif difference.gain < -options.slice_tolerance:
                result = "unsure"  # worse on these clips, but the difference may be random
        figures = difference.to_map("champion", "challenger")
        slices.append(
            {"kind": kind, "group": group, "clips": len(rows), **figures, "result": result}
        )
    few = len(slices) - judged
    text = "; ".join(worse) or f"none of {judged} groups of clips is significantly worse"
    text += f"; {few} with fewer than {options.slice_min_clips} clips not judged" if few else ""
    rule = _judge("slices", text, is_good=not worse if judged else None)
    return [rule], {"slices": slices}


def _group(case: Case) -> dict[tuple[str, str], list[int]]:
    """Return the rows of the test clips by kind and name of a group."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, clip in enumerate(case.clips.test):
        train_groups = case.clips.trained.groups(clip) if case.clips.trained else {}
        length = _length_name(clip.text, case.score)
        for named in {"signer": clip.signer, "words": length, **train_groups}.items():
            groups[named].append(row)
    return groups


def _newest(duel: Duel) -> Judged:
    """Rule `newest`: no large loss on the held-out clips of the newest batches."""
    clips, options = duel.clips.newest, duel.options
    if not clips:
        text = "the newest batches have no dev or test clip"
        return [_judge("newest", text, is_good=None)], {}
    refs = [clip.text for clip in clips]
    systems = (duel.champion, duel.challenger)
    old, new = (count_system(system.by_seed(clips), refs, duel.score) for system in systems)
    difference = duel.compare(old, new)
    text = (
        f"{difference} {metric_label(options.metric)} on the {len(clips)} newest dev and test clips"
    )
    is_few = len(clips) < options.slice_min_clips
    text += f", fewer than {options.slice_min_clips}" if is_few else ""
    rule = _judge("newest", text, is_good=None if is_few else not duel.is_lost(difference))
    return [rule], {"newest": {"clips": len(clips), **difference.to_map("champion", "challenger")}}


def _uses_input(case: Case) -> Judged:
    """Rule `uses_input`: each seed's score must fall when it gets another clip's video."""
    refs, score = case.clips.texts, case.score
    partners = swap_clips(refs, np.random.default_rng([score.seed, *b"test"]))
    if partners is None:
        text = (
            "all test clips have one sentence, so this test cannot detect a model that ignores "
            "its input"
        )
        return [_judge("uses_input", text, is_good=False)], {}
    figures, blind = [], []
    for seed, texts in enumerate(case.challenger.by_seed(case.clips.test)):
        swapped = count_system([[texts[partner] for partner in partners]], refs, score)
        difference = case.compare(swapped, case.new[seed : seed + 1], INPUT_METRIC)
        fall = {"fall": difference.difference, "low": difference.low, "high": difference.high}
        figures.append({"seed": seed, **rounded(fall)})
        if not difference.is_better:
            blind.append(f"model {seed + 1} ignores its input")
    falls = ", ".join(
        f"{figure['fall']:.1f} [{figure['low']:.1f}, {figure['high']:.1f}]" for figure in figures
    )
    text = f"shown the video of another clip, chrF falls by {falls}"
    if are_few(len(refs), case.options.level):
        rule = _judge("uses_input", f"{text}; {TOO_FEW}", is_good=None)
    else:
        rule = _judge("uses_input", "; ".join([*blind, text]), is_good=not blind)
    return [rule], {"uses_input": figures}


def _floors(case: Case) -> Judged:
    """Rule `floors`: a first champion beats what can be had without learning."""
    figures, parts, is_above = [], [], True
    for name, texts in case.clips.floors.items():
        difference = case.compare(count_system([texts], case.clips.texts, case.score), case.new)
        lowest = difference.lowest(case.tonight)
        is_above &= lowest > 0
        figures.append({"name": name, **difference.to_map("value", "challenger")})
        parts.append(
            f"the {SYSTEM_LABELS[name]} {difference.a:.1f}, difference {difference}, "
            f"{_at_least(lowest, case.tonight)}"
        )
    metric = case.options.metric
    mean = np.mean([statistics.values()[_counted(metric)] for statistics in case.new])
    text = f"{metric_label(metric)} {mean:.1f}; {'; '.join(parts)}"
    return [_judge("floors", text, is_good=is_above)], {"floors": figures}


def _scores(case: Case) -> Judged:
    """Return every reported metric of both systems, with the value of each seed; judges nothing."""
    old = case.old if isinstance(case, Duel) else ()
    scores: dict[str, dict[str, Any]] = {}
    for metric in REPORTED:
        before, now = (
            [rounded(statistics.values()[metric]) for statistics in counts]
            for counts in (old, case.new)
        )
        scores[metric] = {
            "champion": None,
            "challenger": rounded(float(np.mean(now))),
            "champion_seeds": before,
            "challenger_seeds": now,
        }
        if old:
            scores[metric] |= case.compare(old, case.new, metric).to_map("champion", "challenger")
    return [], {"scores": scores}


FIRST_RULES: tuple[Callable[[Case], Judged], ...] = (_floors, _uses_input, _scores)
RULES: tuple[Callable[[Duel], Judged], ...] = (
    _better,
    _served,
    _slices,
    _uses_input,
    _newest,
    _scores,
)


def _length_name(text: str, score: ScoreOptions) -> str:
    words = len(split_words([text], score)[0])
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low}+" if high >= 10**9 else f"{low} to {high}"
