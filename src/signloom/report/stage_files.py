"""The files that the stages wrote, read and checked for the report."""

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import check_shape, check_version, explained, read_json, shape
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.evaluation import schemas
from signloom.evaluation.compare import read_weights
from signloom.evaluation.judgements import JudgementResult, Judgements
from signloom.evaluation.metric_names import Metric, metric_label, reads_glosses, shown_metrics
from signloom.evaluation.metrics import ScoreOptions
from signloom.features.targets import Target, read_targets
from signloom.paths import HISTORY_NAME, HYPOTHESES_NAME, JUDGEMENTS, SCORES_NAME, SIGNS_NAME
from signloom.provenance import committed
from signloom.tables import read_rows

VERSIONS = {
    SCORES_NAME: 2,
    HISTORY_NAME: 1,
    "trials.json": 2,
    "checkpoint.json": 4,
}
COLUMNS = {  # that are read; there may be others
    HYPOTHESES_NAME: ("clip_id", "split", "signer", "seen_in_train", "reference", "hypothesis",
                       "wer", "bleu", "log_prob"),
    SIGNS_NAME: ("clip_id", "reference", "signs", "wer", "spans_s", "posteriors"),
    "confusions.csv": ("split", "kind", "reference", "hypothesis", "count"),
    "rejects.tsv": ("clip_id", "reason", "hint"),
}  # fmt: skip
NUMBERS = ("wer", "bleu", "log_prob", "count")
_ANY = shape(trials=list[Any])  # of trials.json, also where there was no search
Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """Where the stages wrote."""

    evaluation: Path  # folder with scores.json, hypotheses.tsv, confusions.csv
    tune: Path  # folder with trials.json; may be missing
    landmarks: Path  # folder with shards/, quality.parquet, rejects.tsv
    targets: Path  # targets.parquet
    checkpoint: Path  # folder with checkpoint.json, history.json
    judgements: Path = JUDGEMENTS  # what people said of two systems; may be missing

    @property
    def shards(self) -> Path:
        """Folder of landmark shards."""
        return self.landmarks / "shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the report is made of."""

    corpus: str  # its name; empty of an evaluation that did not note it
    headline: Metric  # by which the model is judged
    splits: dict[str, Any]  # scores by split, see signloom.evaluation.summary
    options: dict[str, Any]  # scoring, and decoding before the grid
    decoding: dict[str, Any]  # as it was done
    grid: list[dict[str, Any]]  # what else was tried on dev; empty if nothing
    confidence: dict[str, Any]  # how true it is, by split; empty of older evaluations
    stress: list[Row]  # `StressRow`, each split under each change; empty where none was tried
    recognition: dict[str, Any]  # error rates of the signs, by split; empty where none are read
    signs: dict[str, Row]  # those that were read, by clip; likewise
    exchanged: list[str]  # signers who seem to have exchanged two single signs
    seeds: dict[str, Any] | None  # means and spreads of several models
    hypotheses: list[Row]
    confusions: list[Row]
    epochs: list[dict[str, Any]]
    best_epoch: int
    search: dict[str, Any] | None  # None: there was none
    quality: Sequence[ClipQuality]
    rejects: list[Row]
    targets: Sequence[Target]  # their clip ids, splits, signers and texts; the rest is empty
    checkpoint: dict[str, Any]
    weights: str  # SHA-256 of the model's; empty of older evaluations
    judgements: list[JudgementResult]  # in which this model took part

    @property
    def is_joint(self) -> bool:
        """Whether the ensemble of all seeds was evaluated."""
        return bool(self.seeds and self.options.get("together"))

    @property
    def reads_glosses(self) -> bool:
        """Whether the model translates glosses: then nothing is said of landmarks and videos."""
        return reads_glosses(self.checkpoint)

    @property
    def shows_signer(self) -> bool:
        """Whether the model reads landmarks, which can be drawn."""
        return self.checkpoint["model"].get("source") not in ("features", "glosses")

    @property
    def scoring(self) -> ScoreOptions:
        """How sentences were scored, which says what a word is."""
        return ScoreOptions(**self.options["score"])


def read_sources(paths: ReportPaths) -> Sources:
    """Read everything but the landmarks themselves.

    Raises:
        UserError: If a file is missing or of another format version; says which stage writes it.
    """
    scores = read_scores(paths.evaluation / SCORES_NAME)
    history = _read_json(paths.checkpoint / HISTORY_NAME, schemas.HISTORY, hint=_rerun("train"))
    trials = paths.tune / "trials.json"
    search = _read_json(trials, _ANY, hint=_rerun("tune")) if trials.is_file() else {"trials": []}
    if search["trials"]:
        check_shape(search, schemas.TRIALS, where=trials, hint=_rerun("tune"))
    corpus, tables = scores.get("corpus", ""), scores.get("tables", {})
    weights = read_weights(paths.evaluation)
    return Sources(
        corpus=corpus,
        headline=Metric(scores.get("headline", Metric.BLEU4)),
        splits=_test_first(scores["splits"]),
        options=scores["options"],
        decoding=scores["decoding"],
        grid=scores["grid"],
        confidence=_test_first(scores.get("confidence", {})),
        stress=scores.get("stress", []),
        recognition=_test_first(scores.get("recognition", {})),
        signs=_read_signs(paths.evaluation / SIGNS_NAME, tables),
        exchanged=scores.get("exchanged", []),
        seeds=scores["seeds"],
        hypotheses=read_table(
            paths.evaluation / HYPOTHESES_NAME, stage="evaluate", checksums=tables
        ),
        confusions=read_table(
            paths.evaluation / "confusions.csv", stage="evaluate", checksums=tables
        ),
        epochs=history["epochs"],
        best_epoch=history["best_epoch"],
        search=search if search["trials"] else None,
        quality=read_quality(paths.landmarks / "quality.parquet"),
        rejects=read_table(paths.landmarks / "rejects.tsv", stage="extract"),
        targets=read_targets(paths.targets, ("clip_id", "split", "signer", "text")),
        checkpoint=_read_json(
            paths.checkpoint / "checkpoint.json", schemas.SPEC, hint=_rerun("train")
        ),
        weights=weights,
        judgements=Judgements(paths.judgements).results_of(weights),
    )


def read_scores(path: Path) -> dict[str, Any]:
    """Return the content of scores.json.

    Raises:
        UserError: If it is missing, damaged or of another format version.
    """
    return _read_json(path, schemas.SCORES, hint=_rerun("evaluate"))


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the content of metrics.json; errors as of `read_scores`."""
    hint = "run `dvc repro evaluate` first"
    return dict(check_shape(read_json(path, hint=hint), schemas.KEPT, where=path, hint=hint))


def _test_first(splits: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(splits.items(), reverse=True))


def _read_signs(path: Path, checksums: Mapping[str, str]) -> dict[str, Row]:
    has_signs = path.is_file()
    rows = read_table(path, stage="evaluate", checksums=checksums) if has_signs else []
    return {row["clip_id"]: row for row in rows}


def _rerun(stage: str) -> str:
    return f"run `dvc repro {stage}` again"


def _read_json(path: Path, kind: Any, *, hint: str) -> dict[str, Any]:
    content = read_json(path, hint=hint)
    check_version(path, content, VERSIONS[path.name], hint=hint)
    return dict(check_shape(content, kind, where=path, hint=hint))


def read_table(path: Path, *, stage: str, checksums: Mapping[str, str] = {}) -> list[Row]:
    """Read a table that a stage wrote.

    Args:
        checksums: SHA-256 of tables by name; one without is not compared.

    Raises:
        UserError: It is missing or damaged; the message names the stage to run.
    """
    with explained(path, _rerun(stage)):
        rows = read_rows(path, checksums.get(path.name, ""))
        for row in rows:
            for name in COLUMNS[path.name]:
                if name not in row:
                    raise ValueError(f"no column {name}")
                if name in NUMBERS and not math.isfinite(float(row[name])):
                    raise ValueError(f"found {row[name]!r} as {name}")
        return rows


def read_committed(path: Path) -> dict[str, Any]:
    """Return the metrics file of the last commit; empty if there is none, or no Git."""
    try:
        content = json.loads(committed(path))
        return dict(check_shape(content, schemas.KEPT, where=path, hint=""))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One score of a split, before and now."""

    split: str
    metric: str
    before: float
    now: float


def score_of(scores: Mapping[str, Any], metric: str) -> float:
    """Return a score of metrics.json; of seeds that are not one model their mean, as reported."""
    seeds = {} if scores.get("together") else scores.get("seeds", {})
    return float(seeds.get(metric, {}).get("mean", scores[metric]))


def list_changes(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[MetricChange]:
    """Return what changed, of the splits and metrics that both have and that can be compared."""
    return [
        MetricChange(split, metric, score_of(before[split], metric), score_of(metrics, metric))
        for split, metrics in now.items()
        if split in before and not why_not_comparable(metrics, before[split])
        for metric in shown_metrics(metrics.get("headline", Metric.BLEU4))
        if isinstance(metrics.get(metric), int | float)
        and isinstance(before[split].get(metric), int | float)
    ]


def why_not_comparable(now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return why the scores of a split cannot be compared with another run's; empty: they can.

    Args:
        now: A split of reports/metrics.json.
        before: The same split of the other run.
    """
    if any(now.get(key) != before.get(key) for key in ("clips_hash", "missing")):
        names = [scores.get("corpus") or "a corpus that was not noted" for scores in (before, now)]
        if names[0] != names[1]:
            return f"they are of {names[0]}, these of {names[1]}"
        return "the split's clips or sentences, or those that could be read, have changed since"
    headlines = [scores.get("headline", Metric.BLEU4) for scores in (before, now)]
    if headlines[0] == headlines[1] and now.get("signature") != before.get("signature"):
        label = metric_label(headlines[0])
        return f"{label} was computed in another way: {before['signature']}"
    return ""
