"""Comparison of two systems or runs on the same clips, with its significance."""

import math
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit  # scipy.stats takes 0.5 s to load

from signloom.config import explained, parse_options, read_json
from signloom.errors import UserError
from signloom.evaluation.metric_names import LEVEL, LOWER_IS_BETTER, Metric, are_few, rounded
from signloom.evaluation.metrics import (
    FloatArray,
    ScoreOptions,
    Statistics,
    count_gloss_wer,
    measure,
    sentence_scores,
)
from signloom.paths import (
    EVALUATION,
    HYPOTHESES_NAME,
    SCORES_NAME,
    SEED_COLUMN,
    SIGNS_NAME,
)
from signloom.tables import read_rows

GIT = "git:"  # before the name of a revision or of a DVC experiment
VERSIONS = (1, 2)  # of scores.json; what is read here is the same in both
SENTENCE_METRIC = Metric.CHRF  # by which single sentences count as better or worse
TIE = 1e-9  # two sentences' scores that differ by less are the same
_HINT = "run `dvc repro evaluate` there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric of two systems, A and B, on the same sentences."""

    name: str
    a: float  # the mean of A's seeds
    b: float
    low: float  # of B - A: lower end of the paired bootstrap interval, enlarged as Student's
    high: float
    p_value: float
    """sacreBLEU's: how often equally good systems would differ by more, in one direction."""
    spread: float  # standard deviation of B - A in the resamples
    clips: int
    resamples: int
    level: float  # of the interval: 0.05 for 95 %
    wins: int  # sentences in which B is better
    losses: int
    ties: int

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def gain(self) -> float:
        """By how much B is better."""
        return -self.difference if self.name in LOWER_IS_BETTER else self.difference

    @property
    def is_better(self) -> bool:
        """Whether B is significantly better: the interval has gains alone, and clips suffice."""
        gains = self.high < 0 if self.name in LOWER_IS_BETTER else self.low > 0
        return gains and not are_few(self.clips, self.level)

    @property
    def is_worse(self) -> bool:
        """Whether B is significantly worse."""
        losses = self.low > 0 if self.name in LOWER_IS_BETTER else self.high < 0
        return losses and not are_few(self.clips, self.level)

    def lowest(self, tail: float) -> float:
        """Return by how much B is better than A at least, except with a chance of `tail`.

        No resampling shows a chance of 1 in 50,000, so this is Student's interval with the
        bootstrap's standard error; fewer degrees of freedom for few clips and few resamples. Minus
        infinity where the clips are too few for this chance.

        Source: Hesterberg (2015), What teachers should know about the bootstrap, 4.3 and 5.
        """
        if not tail or are_few(self.clips, 2 * tail):
            return -math.inf
        freedom = 1 / (1 / (self.clips - 1) + 1 / (self.resamples - 1))
        error = self.spread * math.sqrt(self.clips / (self.clips - 1))
        return self.gain + float(stdtrit(freedom, tail)) * error

    def __str__(self) -> str:
        """Return the difference with its interval."""
        return f"{self.difference:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"

    def to_map(self, a: str = "a", b: str = "b") -> dict[str, float]:
        """Return the figures for JSON, the two systems under names."""
        return dict(
            rounded(
                {
                    a: self.a,
                    b: self.b,
                    "difference": self.difference,
                    "low": self.low,
                    "high": self.high,
                    "p_value": self.p_value,
                }
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredSentence:
    """One clip of an evaluation."""

    reference: str
    hypothesis: str
    seeds: tuple[str, ...] = ()  # the hypotheses of further seeds, of which the score is the mean
    glosses: tuple[str, ...] = ()  # of a model that reads signs: the true ones
    signs: tuple[str, ...] = ()  # and those that it read


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """What an evaluation left behind."""

    name: str
    options: ScoreOptions
    splits: dict[str, dict[str, ScoredSentence]]  # split to clip id
    weights: str = ""  # SHA-256 of the model's weights; empty: not known

    @property
    def title(self) -> str:
        """The name, and what the scores are where there are several seeds."""
        further = {len(clip.seeds) for clips in self.splits.values() for clip in clips.values()}
        return self.name + "".join(f" (mean of {n + 1} seeds)" for n in further if n)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitComparison:
    """Two runs on the clips of a split that both have translated."""

    clips: list[str]
    left_out: int  # clips that only one of them has
    differences: dict[str, Difference]
    sentences: list[dict[str, Any]]  # clip_id, reference, a, b, and SENTENCE_METRIC of both


def compare(
    a: Sequence[Statistics],
    b: Sequence[Statistics],
    options: ScoreOptions,
    *,
    metrics: Collection[str] = (),
    level: float = LEVEL,
) -> dict[str, Difference]:
    """Compare two systems by the paired bootstrap over clips, on the metrics that both have.

    The score of a system is the mean of its seeds, in every resample. The interval, by which a
    difference is significant, is that of `enlarge`. The p-value is sacreBLEU's
    (`sacrebleu --paired-bs`), except that systems with equal scores get 1, where sacreBLEU's count
    of larger differences would make the difference significant. Of a clear difference it counts one
    tail only, so it can be below 0.05 where the 95 % interval holds 0.

    Args:
        a: Counts of A's sentences, by each of its seeds.
        b: Counts of B's, in the same order of references; it may have more or fewer seeds.
        options: Resamples and their seed.
        metrics: Those to compare; empty: all.
        level: 0.05 for a 95 % interval.

    Raises:
        ValueError: If the numbers of sentences differ.

    Source: Koehn (2004), Statistical significance tests for machine translation evaluation.
    """
    if len(a[0]) != len(b[0]):
        raise ValueError(f"{len(a[0])} sentences of A and {len(b[0])} of B")
    scores_a, scores_b = (
        _score_system([_only(seed, metrics) for seed in seeds], options) for seeds in (a, b)
    )
    names = [name for name in metrics or scores_a.values if name in scores_b.values]
    return {name: _difference(name, scores_a, scores_b, level) for name in names}


@dataclass(frozen=True, slots=True)
class _SystemScores:
    """The scores of a system by metric, each the mean of its seeds."""

    values: dict[str, np.float64]
    resampled: dict[str, FloatArray]  # of each resample, shape (R,)
    sentences: dict[str, FloatArray]  # of each sentence, shape (N,)


def _score_system(seeds: Sequence[Statistics], options: ScoreOptions) -> _SystemScores:
    return _SystemScores(
        values=_mean_of([statistics.values() for statistics in seeds]),
        resampled=_mean_of([statistics.resample(options) for statistics in seeds]),
        sentences=_mean_of([sentence_scores(statistics) for statistics in seeds]),
    )


def _difference(name: str, a: _SystemScores, b: _SystemScores, level: float) -> Difference:
    """Return how two systems differ by a metric."""
    drawn = b.resampled[name] - a.resampled[name]
    gain = b.sentences[name] - a.sentences[name]
    gain = -gain if name in LOWER_IS_BETTER else gain
    wins, losses = int((gain > TIE).sum()), int((gain < -TIE).sum())
    before, now = float(a.values[name]), float(b.values[name])
    ends = np.quantile(drawn, (level / 2, 1 - level / 2))
    low, high = enlarge(now - before, ends, len(gain), level)
    return Difference(
        name=name,
        a=before,
        b=now,
        low=low,
        high=high,
        p_value=p_value(drawn, now - before),
        spread=float(drawn.std(ddof=1)),
        clips=len(gain),
        resamples=len(drawn),
        level=level,
        wins=wins,
        losses=losses,
        ties=len(gain) - wins - losses,
    )


def _only(counts: Statistics, metrics: Collection[str]) -> Statistics:
    """Return what some metrics need, so that nothing else is resampled."""
    parts = [part for part in counts.parts if not metrics or part.signatures.keys() & {*metrics}]
    return Statistics(parts=tuple(parts))


def _mean_of(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.mean([values[name] for values in seeds], axis=0) for name in seeds[0]}


def enlarge(
    value: float, ends: Iterable[float], units: int, level: float = LEVEL
) -> tuple[float, float]:
    """Return an interval of bootstrap resamples that holds what it promises with few units, too.

    The resamples of n units fall short of their spread by the root of (n - 1) / n, and know nothing
    of Student's tails: on 6 clips, they would tell 13 % of equal systems apart.

    Args:
        value: What was measured.
        ends: Quantiles of the resamples at level / 2 and 1 - level / 2.
        units: Clips or people that were resampled; one counts as two.
        level: 0.05 for a 95 % interval.

    Source: Hesterberg (2015), What teachers should know about the bootstrap, 4.3 and 5.
    """
    units = max(units, 2)
    student = math.sqrt(units / (units - 1)) * stdtrit(units - 1, level / 2)
    factor = student / ndtri(level / 2)
    low, high = (value + float(factor * (end - value)) for end in ends)
    return low, high


def p_value(drawn: FloatArray, difference: float) -> float:
    """Return sacreBLEU's p-value of a difference from those of resamples; 1 for no difference."""
    if difference == 0:
        return 1.0
    sizes = np.abs(drawn)
    # Centred on its mean, the bootstrap represents two systems that are equally good.
    larger = int((sizes - sizes.mean() > abs(difference)).sum())
    return (larger + 1) / (len(drawn) + 1)


def read_run(where: str) -> PastRun:
    """Read the sentences of a run.

    Args:
        where: A folder with hypotheses.tsv and scores.json, or with `evaluation/` or
            `reports/evaluation/` in it; or `git:` and a revision or a DVC experiment of the
            project in the working folder.

    Raises:
        UserError: If there is no evaluation.
    """
    if not where.startswith(GIT):
        return _read_folder(where, _find(Path(where)))
    with tempfile.TemporaryDirectory() as folder:
        return _read_folder(where, _fetch(where.removeprefix(GIT), Path(folder)))


def _find(folder: Path) -> Path:
    folders = (folder, folder / EVALUATION.name, folder / EVALUATION)
    evaluations = [folder for folder in folders if (folder / HYPOTHESES_NAME).is_file()]
    if not evaluations:
        raise UserError(
            f"{folder} holds no evaluation (hypotheses.tsv), nor does evaluation/ or {EVALUATION}/ "
            f"in it; {_HINT}, or name a commit or an experiment of DVC: git:HEAD"
        )
    return evaluations[0]


def _fetch(revision: str, folder: Path) -> Path:
    """Bring the evaluation of a revision, of which Git holds only the hash, from DVC's cache."""
    command = [sys.executable, "-m", "dvc", "get", ".", str(EVALUATION), "--rev", revision]
    process = subprocess.run(
        [*command, "-o", str(folder / EVALUATION)], capture_output=True, text=True, check=False
    )
    if process.returncode:
        error, _, _ = process.stderr.strip().partition("\n\n")  # below: where DVC's help is
        raise UserError(
            f"{GIT}{revision}: DVC cannot give its {EVALUATION}: {error}\n"
            "`git log` and `dvc exp show` name what there is, `dvc fetch` gets it from a remote"
        )
    return folder / EVALUATION


def _read_folder(name: str, folder: Path) -> PastRun:
    content = read_json(folder / SCORES_NAME, hint=_HINT)
    version = content.get("format_version", "none") if isinstance(content, dict) else "none"
    if version not in VERSIONS:
        raise UserError(
            f"{name}: scores.json has format version {version}, this Signloom reads "
            f"{' and '.join(map(str, VERSIONS))}; {_HINT} with this one"
        )
    try:
        score = content["options"]["score"]
        tables = content.get("tables", {})  # unknown before version 0.3
        with explained(folder / HYPOTHESES_NAME, _HINT):
            rows = read_rows(folder / HYPOTHESES_NAME, tables.get(HYPOTHESES_NAME, ""))
        splits = _split_sentences(rows)
        if (signs := folder / SIGNS_NAME).is_file():
            with explained(signs, _HINT):
                rows = read_rows(signs, tables.get(SIGNS_NAME, ""))
            _add_signs(splits, rows)
    except (KeyError, TypeError, ValueError) as error:  # torn lines give None
        raise UserError(f"{name} holds a damaged evaluation ({error!r}); {_HINT}") from None
    options = parse_options(score, ScoreOptions, where=f"{name}: scores.json: options.score")
    return PastRun(name=name, options=options, splits=splits, weights=read_weights(folder))


def read_weights(folder: Path) -> str:
    """Return the SHA-256 of the weights that were evaluated; empty where it was not noted."""
    path = folder / "confidence.json"
    content = read_json(path, hint=_HINT) if path.is_file() else {}
    return str(content.get("weights", "")) if isinstance(content, dict) else ""


def _split_sentences(rows: Iterable[Mapping[str, str]]) -> dict[str, dict[str, ScoredSentence]]:
    splits: dict[str, dict[str, ScoredSentence]] = {}
    for row in rows:
        splits.setdefault(row["split"], {})[row["clip_id"]] = ScoredSentence(
            reference=row["reference"],
            hypothesis=row["hypothesis"],
            seeds=tuple(text for name, text in row.items() if name.startswith(SEED_COLUMN)),
        )
    return splits


def _add_signs(
    splits: dict[str, dict[str, ScoredSentence]], rows: Iterable[Mapping[str, str]]
) -> None:
    for row in rows:
        clips = splits[row["split"]]
        clips[row["clip_id"]] = replace(
            clips[row["clip_id"]],
            glosses=tuple(row["reference"].split()),
            signs=tuple(row["signs"].split()),
        )


def common_clips(a: PastRun, b: PastRun, split: str) -> list[str]:
    """Return the clips of a split that both runs have, in the order of the first.

    Raises:
        UserError: If they were scored differently, share no clip or differ in a reference.
    """
    if a.options.tokenizer != b.options.tokenizer:
        raise UserError(
            f"{a.name} was scored with tokenizer {a.options.tokenizer}, {b.name} with "
            f"{b.options.tokenizer}: such numbers cannot be compared; set "
            "evaluate.score.tokenizer and evaluate again"
        )
    of_a, of_b = a.splits.get(split, {}), b.splits.get(split, {})
    clips = [clip for clip in of_a if clip in of_b]
    if not clips:
        raise UserError(
            f"{a.name} and {b.name} share no clip of {split} ({len(of_a)} and {len(of_b)} clips)"
        )
    differing = [clip for clip in clips if of_a[clip].reference != of_b[clip].reference]
    if differing:
        raise UserError(
            f"{split}: clip {differing[0]} has the reference {of_a[differing[0]].reference!r} in "
            f"{a.name}, {of_b[differing[0]].reference!r} in {b.name} "
            f"({len(differing)} clips differ); "
            "evaluate both on one corpus"
        )
    _check_glosses(a, b, split, clips)
    return clips


def _check_glosses(a: PastRun, b: PastRun, split: str, clips: Sequence[str]) -> None:
    """Refuse signs that were compared by other rules, or with other glosses."""
    of_a, of_b = a.splits[split], b.splits[split]
    glossed = [clip for clip in clips if of_a[clip].glosses and of_b[clip].glosses]
    if glossed and a.options.gloss_rules != b.options.gloss_rules:
        raise UserError(
            f"the signs of {a.name} were compared by the rules {a.options.gloss_rules}, those "
            f"of {b.name} by {b.options.gloss_rules}: such numbers cannot be compared; set "
            "evaluate.score.gloss_rules and evaluate again"
        )
    differing = [clip for clip in glossed if of_a[clip].glosses != of_b[clip].glosses]
    if differing:
        of_clip = (" ".join(run[differing[0]].glosses) for run in (of_a, of_b))
        raise UserError(
            f"{split}: clip {differing[0]} has the glosses {next(of_clip)!r} in {a.name}, "
            f"{next(of_clip)!r} in {b.name} ({len(differing)} clips differ); evaluate both on one "
            "corpus"
        )


def compare_runs(a: PastRun, b: PastRun, split: str) -> SplitComparison:
    """Compare two runs on a split by the paired bootstrap, with the settings of A.

    Raises:
        UserError: If they were scored differently, share no clip or differ in a reference.
    """
    clips = common_clips(a, b, split)
    of_a, of_b = a.splits[split], b.splits[split]
    counts_a, counts_b = (_count_sentences(run, clips, a.options) for run in (of_a, of_b))
    differences = compare(counts_a, counts_b, a.options)
    is_read = [bool(of_a[clip].glosses and of_b[clip].glosses) for clip in clips]
    if any(is_read):  # the signs of the first seed alone are kept
        signs_a, signs_b = (
            _count_signs([run[clip] for clip in clips], is_read, a.options) for run in (of_a, of_b)
        )
        differences |= compare([signs_a], [signs_b], a.options)
    single_a, single_b = (sentence_scores(c[0])[SENTENCE_METRIC] for c in (counts_a, counts_b))
    return SplitComparison(
        clips=clips,
        left_out=len(of_a) + len(of_b) - 2 * len(clips),
        differences=differences,
        sentences=[
            {
                "clip_id": clip,
                "reference": of_a[clip].reference,
                "a": of_a[clip].hypothesis,
                "b": of_b[clip].hypothesis,
                f"{SENTENCE_METRIC}_a": rounded(float(single_a[row])),
                f"{SENTENCE_METRIC}_b": rounded(float(single_b[row])),
            }
            for row, clip in enumerate(clips)
        ],
    )


def _count_sentences(
    sentences: Mapping[str, ScoredSentence], clips: Sequence[str], options: ScoreOptions
) -> list[Statistics]:
    """Count what the metrics need in some clips, for each seed."""
    chosen = [sentences[clip] for clip in clips]
    refs = [sentence.reference for sentence in chosen]
    seeds = zip(*((sentence.hypothesis, *sentence.seeds) for sentence in chosen), strict=True)
    return [measure(list(hypotheses), refs, options) for hypotheses in seeds]


def _count_signs(
    clips: Sequence[ScoredSentence],
    is_read: Sequence[bool],
    options: ScoreOptions,
) -> Statistics:
    """Count the signs that were read; a clip whose signs one run alone has counts none."""
    pairs = list(zip(clips, is_read, strict=True))
    read = [clip.signs if is_glossed else () for clip, is_glossed in pairs]
    signs = count_gloss_wer(
        read, [clip.glosses if is_glossed else () for clip, is_glossed in pairs], options
    )
    return Statistics(parts=(signs,))


def comparison_map(
    a: PastRun, b: PastRun, comparisons: dict[str, SplitComparison]
) -> dict[str, Any]:
    """Return comparisons by split as plain maps for JSON."""
    return {
        "format_version": 1,
        "a": a.name,
        "b": b.name,
        "score": asdict(a.options),
        "splits": {
            split: {
                "clips": len(part.clips),
                "left_out": part.left_out,
                "metrics": {
                    name: {
                        "difference": rounded(difference.difference),
                        **difference.to_map(),
                        "wins": difference.wins,
                        "losses": difference.losses,
                        "ties": difference.ties,
                    }
                    for name, difference in part.differences.items()
                },
                "sentences": part.sentences,
            }
            for split, part in comparisons.items()
        },
    }
