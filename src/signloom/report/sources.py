"""The files that the stages wrote come in, checked Python values for the report go out."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import UserError, check_version, read_json
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.corpus.targets import Target, read_targets
from signloom.metrics import ScoreOptions
from signloom.report.baseline import read_baseline

VERSIONS = {
    "scores.json": 2, "history.json": 1, "trials.json": 2, "checkpoint.json": 4, "retrain.json": 1,
}  # fmt: skip
Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """Where the stages wrote."""

    evaluation: Path  # folder with scores.json, hypotheses.tsv, confusions.csv
    baseline: (
        Path  # metrics of the run to compare with, see `signloom scores --keep`; may be missing
    )
    retrain: Path  # what the last night of `signloom retrain` did; may be missing or {}
    tune: Path  # folder with trials.json; may be missing
    landmarks: Path  # folder with shards/, quality.parquet, rejects.tsv
    targets: Path  # targets.parquet
    checkpoint: Path  # folder with checkpoint.json, history.json

    @property
    def shards(self) -> Path:
        """Folder of landmark shards."""
        return self.landmarks / "shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the report is made of."""

    splits: dict[str, Any]  # scores by split, see signloom.evaluation.summary
    options: dict[str, Any]  # scoring, and decoding before the grid
    decoding: dict[str, Any]  # as it was done
    grid: list[dict[str, Any]]  # what else was tried on dev; empty if nothing
    seeds: dict[str, Any] | None  # means and spreads of several models
    before: dict[str, Any]  # reports/metrics.json of the kept run; empty if none is kept
    retrain: dict[str, Any]  # night, drift, decision; empty before the first night
    hypotheses: list[Row]
    confusions: list[Row]
    epochs: list[dict[str, Any]]
    best_epoch: int
    search: dict[str, Any] | None
    quality: list[ClipQuality]
    rejects: list[Row]
    targets: list[Target]
    checkpoint: dict[str, Any]

    @property
    def reads_glosses(self) -> bool:
        """Whether the model translates glosses: then nothing is said of landmarks and videos."""
        return bool(self.checkpoint["model"].get("source") == "tokens")

    @property
    def scoring(self) -> ScoreOptions:
        """How sentences were scored, which says what a word is."""
        return ScoreOptions(**self.options["score"])


def read_sources(paths: ReportPaths) -> Sources:
    """Read everything but the landmarks themselves.

    Raises:
        UserError: If a file is missing or of another format version; says which stage writes it.
    """
    scores = _read_json(paths.evaluation / "scores.json", stage="evaluate")
    history = _read_json(paths.checkpoint / "history.json", stage="train")
    trials = paths.tune / "trials.json"
    return Sources(
        splits=scores["splits"],
        options=scores["options"],
        decoding=scores["decoding"],
        grid=scores["grid"],
        seeds=scores["seeds"],
        before=read_baseline(paths.baseline),
        retrain=_read_retrain(paths.retrain),
        hypotheses=_read_tsv(paths.evaluation / "hypotheses.tsv", stage="evaluate"),
        confusions=_read_csv(paths.evaluation / "confusions.csv", stage="evaluate"),
        epochs=history["epochs"],
        best_epoch=history["best_epoch"],
        search=_read_json(trials, stage="tune") if trials.is_file() else None,
        quality=read_quality(paths.landmarks / "quality.parquet"),
        rejects=_read_tsv(paths.landmarks / "rejects.tsv", stage="extract"),
        targets=read_targets(paths.targets),
        checkpoint=_read_json(paths.checkpoint / "checkpoint.json", stage="train"),
    )


def _read_json(path: Path, *, stage: str) -> dict[str, Any]:
    mend = f"run `dvc repro {stage}` again"
    content: dict[str, Any] = read_json(path, mend=mend)
    check_version(path, content, VERSIONS[path.name], mend=mend)
    return content


def _read_retrain(path: Path) -> dict[str, Any]:
    mend = "`signloom retrain` writes it; put {} into it to leave the night out"
    if not path.is_file() or read_json(path, mend=mend) == {}:
        return {}
    content: dict[str, Any] = read_json(path, mend=mend)
    check_version(path, content, VERSIONS[path.name], mend=mend)
    return content


def _read_csv(path: Path, *, stage: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(_read(path, stage), newline="")))


def _read_tsv(path: Path, *, stage: str) -> list[Row]:
    lines = _read(path, stage).split("\n")
    rows = csv.DictReader((line for line in lines if line), delimiter="\t", quoting=csv.QUOTE_NONE)
    return list(rows)


def _read(path: Path, stage: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; run `dvc repro {stage}` first") from None
