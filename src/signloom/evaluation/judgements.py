"""Judgements: people compare the sentences of two systems without knowing which is whose.

A task is prepared once; each judge has a file of their own next to it, so that none overwrites
another's.
"""

import hashlib
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from signloom.config import Natural, checked_dataclass, read_record
from signloom.errors import UserError
from signloom.evaluation.compare import PastRun, compare_runs, enlarge
from signloom.evaluation.metric_names import rounded
from signloom.evaluation.metrics import (
    INTERVAL,
    Estimate,
    FloatArray,
    ScoreOptions,
    Statistics,
    mean,
)
from signloom.files import to_text, write_file
from signloom.paths import JUDGEMENTS

FORMAT_VERSION = 1
TASK = "task.json"
PREFERENCES = {"a": -1.0, "equal": 0.0, "b": 1.0}  # what B gains by an answer
_HINT = "remove it, and prepare it again with `signloom judge A B --name NAME`"
_LONGEST_NAME = 100  # characters of a judge's name

_README = "`signloom judge` puts its tasks here; `dvc repro report` shows what came of them.\n"

Preference = Literal["a", "b", "equal"]
Points = Annotated[int, Field(ge=0, le=100)]


@checked_dataclass
class JudgedSystem:
    """Who wrote one of the two sentences."""

    name: str  # as `signloom compare` takes it
    weights: str  # SHA-256 of the model's weights; empty: its evaluation does not say


@checked_dataclass
class Pair:
    """The two sentences of a clip."""

    clip_id: str
    a: str
    b: str


@checked_dataclass
class JudgeTask:
    """What people are asked; the pairs lie in the order in which they are shown."""

    a: JudgedSystem
    b: JudgedSystem
    split: str
    seed: Natural  # of the order of clips and, within each, of the two sentences
    score: ScoreOptions  # resamples of the intervals, and their seed
    pairs: list[Pair]

    def order(self, judge: str, clip_id: str) -> tuple[Literal["a", "b"], Literal["a", "b"]]:
        """Return whose sentence of a clip a judge reads first, and whose second."""
        drawn = hashlib.sha256(f"{self.seed}\0{judge}\0{clip_id}".encode()).digest()[0]
        return ("b", "a") if drawn % 2 else ("a", "b")


@checked_dataclass
class Answer:
    """What a judge says of a clip."""

    preferred: Preference
    a: Points
    b: Points


@checked_dataclass
class Answers:
    """The answers of one judge, by clip id."""

    judge: str
    answers: dict[str, Answer]


@checked_dataclass
class BlindAnswer:
    """A judge's answer; the two sentences are known only as first and second."""

    judge: str
    clip_id: str
    preferred: Literal["first", "second", "equal"]
    scores: tuple[Points, Points]  # of the first sentence and of the second


def make_judgements(root: Path = JUDGEMENTS) -> None:
    """Make the folder of tasks, which the report reads, where a project has none yet."""
    if not root.is_dir():
        write_file(root / "README.md", _README)


def show_blind(task: JudgeTask, sheet: Answers) -> list[dict[str, Any]]:
    """Return the clips as a judge may see them: nothing in it says which system is which."""
    shown = []
    for pair in task.pairs:
        order = task.order(sheet.judge, pair.clip_id)
        texts, preference = asdict(pair), None
        if (answer := sheet.answers.get(pair.clip_id)) is not None:
            wording = {order[0]: "first", order[1]: "second", "equal": "equal"}
            points = asdict(answer)
            preference = {
                "preferred": wording[answer.preferred],
                "scores": [points[system] for system in order],
            }
        sentences = [texts[system] for system in order]
        shown.append({"clip_id": pair.clip_id, "sentences": sentences, "answer": preference})
    return shown


def prepare_task(
    a: PastRun, b: PastRun, split: str, *, clips: int, seed: int, differing: bool
) -> JudgeTask:
    """Draw the clips on which two systems are to be compared by people.

    Args:
        clips: How many, at most.
        seed: Of the draw and of the order of the sentences.
        differing: Leave out the clips of which both say the same.

    Raises:
        UserError: If they were not scored alike or on the same clips, or never differ.
    """
    comparison = compare_runs(a, b, split)
    if comparison.left_out:
        raise UserError(
            f"{a.name} and {b.name} were not evaluated on the same clips of {split}: "
            f"{comparison.left_out} are in one of them alone; evaluate both on one corpus"
        )
    rows = [row for row in comparison.sentences if not differing or row["a"] != row["b"]]
    if not rows:
        raise UserError(f"{a.name} and {b.name} say the same of all {len(comparison.clips)} clips")
    chosen = np.random.default_rng(seed).permutation(len(rows))[:clips]
    pairs = [Pair(**{key: rows[n][key] for key in ("clip_id", "a", "b")}) for n in chosen]
    first, second = (JudgedSystem(name=run.name, weights=run.weights) for run in (a, b))
    return JudgeTask(a=first, b=second, split=split, seed=seed, score=a.options, pairs=pairs)


class Judgements:
    """The tasks of a project and what was answered."""

    def __init__(self, root: Path = JUDGEMENTS) -> None:
        self._root, self._writing = root, threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all tasks."""
        return sorted(path.parent.name for path in self._root.glob(f"*/{TASK}"))

    def add(self, name: str, task: JudgeTask) -> Path:
        """Keep a task under a name; the same one again changes nothing.

        Raises:
            UserError: If the name cannot be one of a folder, or is that of another task.
        """
        if not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise UserError(f"--name {name}: use letters, digits, '.', '_' and '-'")
        path = self._root / name / TASK
        if path.is_file() and self.read(name) != task:
            raise UserError(
                f"{path.parent} holds another task: give this one another name with --name, or "
                "remove that folder with what was answered"
            )
        write_file(path, to_text({"format_version": FORMAT_VERSION, **asdict(task)}))
        return path

    def read(self, name: str) -> JudgeTask:
        """Return a task.

        Raises:
            UserError: If there is none of this name, or its file is damaged.
        """
        path = self._folder(name) / TASK
        return read_record(path, JudgeTask, hint=_HINT, version=FORMAT_VERSION)

    def sheet(self, name: str, judge: str) -> Answers:
        """Return what a judge has answered so far.

        Raises:
            UserError: If the judge has no name, or the file is damaged.
        """
        judge = " ".join(judge.split())
        if not judge or len(judge) > _LONGEST_NAME:
            raise UserError(f"a judge needs a name, of at most {_LONGEST_NAME} characters")
        path = self._path(name, judge)
        return _read_sheet(path) if path.is_file() else Answers(judge=judge, answers={})

    def sheets(self, name: str) -> list[Answers]:
        """Return what all judges of a task have answered."""
        return [_read_sheet(path) for path in sorted(self._folder(name).glob("judge-*.json"))]

    def answer(self, name: str, blind_answer: BlindAnswer) -> Answers:
        """Keep an answer in the place of an earlier one; return all of that judge's.

        Raises:
            UserError: If the judge has no name, or the clip is not one of the task's.
        """
        task = self.read(name)
        if blind_answer.clip_id not in {pair.clip_id for pair in task.pairs}:
            raise UserError(f"{blind_answer.clip_id!r} is no clip of {name}")
        with self._writing:
            sheet = self.sheet(name, blind_answer.judge)
            order = task.order(sheet.judge, blind_answer.clip_id)
            preferred = dict(zip(("first", "second"), order, strict=True))
            points = dict(zip(order, blind_answer.scores, strict=True))
            answer = Answer(
                preferred=preferred.get(blind_answer.preferred, "equal"),
                a=points["a"],
                b=points["b"],
            )
            sheet = replace(sheet, answers={**sheet.answers, blind_answer.clip_id: answer})
            content = {"format_version": FORMAT_VERSION, **asdict(sheet)}
            write_file(self._path(name, sheet.judge), to_text(content))
        return sheet

    def results(self, names: Iterable[str] | None = None) -> list["JudgementResult"]:
        """Return the results of tasks that somebody has answered, all of them if none is named."""
        tasks = ((name, self.read(name), self.sheets(name)) for name in names or self.names())
        results = [summarise(*task) for task in tasks]
        return [result for result in results if result is not None]

    def results_of(self, weights: str) -> list["JudgementResult"]:
        """Return the results in which the model of some weights took part."""
        return [
            result
            for result in self.results()
            if weights and weights in (result.weights_a, result.weights_b)
        ]

    def _folder(self, name: str) -> Path:
        if name not in (names := self.names()):
            listed = ", ".join(names) or "none; `signloom judge A B` prepares one"
            raise UserError(f"there is no task {name!r} (there: {listed})")
        return self._root / name

    def _path(self, name: str, judge: str) -> Path:
        """Return the file of a judge, whose name never becomes part of a path."""
        return self._folder(name) / f"judge-{hashlib.sha256(judge.encode()).hexdigest()[:16]}.json"


def _read_sheet(path: Path) -> Answers:
    return read_record(path, Answers, hint="remove it and judge again", version=FORMAT_VERSION)


# --- What came of it ---


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementResult:
    """What people said of two systems, A and B.

    Each clip counts once, with the mean of its judges. Agreement is Krippendorff's alpha: 1 is
    perfect, 0 that of chance; None where no two judged a clip, or all answers are one.
    """

    task: str
    a: str
    b: str
    weights_a: str
    weights_b: str
    judges: int
    clips: int  # that were judged, of those of the task
    of: int
    answers: int
    wins: int  # clips in which B was preferred
    losses: int
    ties: int
    preference: Estimate  # share of clips for B less share for A, %
    score_a: float
    score_b: float
    difference: Estimate  # of the scores, B - A; a judge who is strict is so with both
    alpha_preference: float | None
    alpha_scores: float | None

    def __str__(self) -> str:
        """Return all figures in a sentence."""
        alphas = (
            "none" if alpha is None else f"{alpha:.2f}"
            for alpha in (self.alpha_preference, self.alpha_scores)
        )
        return (
            f"{self.judges} judges, {self.clips} of {self.of} clips: B better in {self.wins}, "
            f"worse in {self.losses}, equal in {self.ties} (preference {self.preference} %); "
            f"scores {self.score_a:.1f} and {self.score_b:.1f}, {self.difference}; Krippendorff's "
            "alpha {} (preference), {} (scores)".format(*alphas)
        )


def summarise(name: str, task: JudgeTask, sheets: Sequence[Answers]) -> JudgementResult | None:
    """Return what came of a task; None before the first answer.

    Intervals are those of the bootstrap over clips by which `signloom compare` decides. Answers
    about clips that are in the task no more are left out.
    """
    shape = (len(sheets), len(task.pairs))
    preferred, of_a, of_b = (np.full(shape, np.nan) for _ in range(3))
    for row, sheet in enumerate(sheets):
        for column, pair in enumerate(task.pairs):
            if (answer := sheet.answers.get(pair.clip_id)) is not None:
                preferred[row, column] = PREFERENCES[answer.preferred]
                of_a[row, column], of_b[row, column] = answer.a, answer.b
    judged = ~np.isnan(preferred).all(axis=0)
    if not judged.any():
        return None
    preference, score_a, score_b = (
        np.nanmean(values[:, judged], axis=0) for values in (preferred, of_a, of_b)
    )
    values = {"preference": 100 * preference, "difference": score_b - score_a}
    parts = tuple(mean(key, "", ratings.tolist()) for key, ratings in values.items())
    drawn = Statistics(parts=parts).resample(task.score)
    estimates = {}
    for key, ratings in values.items():
        centre, ends = float(ratings.mean()), np.quantile(drawn[key], INTERVAL)
        low, high = np.clip(enlarge(centre, ends, len(ratings)), -100, 100)
        estimates[key] = Estimate(centre, float(low), float(high))
    return JudgementResult(
        task=name,
        a=task.a.name,
        b=task.b.name,
        weights_a=task.a.weights,
        weights_b=task.b.weights,
        judges=int((~np.isnan(preferred)).any(axis=1).sum()),
        clips=int(judged.sum()),
        of=len(task.pairs),
        answers=int((~np.isnan(preferred)).sum()),
        wins=int((preference > 0).sum()),
        losses=int((preference < 0).sum()),
        ties=int((preference == 0).sum()),
        score_a=float(score_a.mean()),
        score_b=float(score_b.mean()),
        **estimates,
        alpha_preference=krippendorff_alpha(preferred, "ordinal"),
        alpha_scores=krippendorff_alpha(np.concatenate([of_a, of_b], axis=1), "interval"),
    )


def to_map(result: JudgementResult) -> dict[str, Any]:
    """Return the figures for JSON."""
    return dict(rounded(asdict(result)))


def krippendorff_alpha(values: FloatArray, level: Literal["ordinal", "interval"]) -> float | None:
    """Return how far judges agree beyond chance.

    Args:
        values: What each judge said of each unit, shape (judges, units); NaN: nothing.
        level: Ordinal values differ by the ranks between them, interval values by their distance.

    Returns:
        1 for perfect agreement, 0 for that of chance; None where no unit has two values, or all
        values are the same.

    Source: Krippendorff (2011), Computing Krippendorff's alpha-reliability.
    """
    units = values[:, (~np.isnan(values)).sum(axis=0) >= 2]
    rated = np.unique(units[~np.isnan(units)])
    if len(rated) < 2:
        return None
    counts = (units[:, :, None] == rated).sum(axis=0).astype(np.float64)  # units x values
    weighted = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = weighted.T @ counts - np.diag(weighted.sum(axis=0))
    marginals = coincidences.sum(axis=1)
    ranks = np.cumsum(marginals) - marginals / 2 if level == "ordinal" else rated
    distances = np.square(ranks[:, None] - ranks)
    by_chance = (np.outer(marginals, marginals) * distances).sum() / (marginals.sum() - 1)
    return float(1 - (coincidences * distances).sum() / by_chance)
