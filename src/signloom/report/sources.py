"""The files that the stages wrote come in, checked Python values for the report go out."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import UserError, check_version, read_json
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.corpus.targets import Target, read_targets

VERSIONS = {"scores.json": 1, "history.json": 1, "trials.json": 2, "checkpoint.json": 2}
Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPaths:
    """Where the stages wrote."""

    evaluation: Path  # folder with scores.json, hypotheses.tsv
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
    options: dict[str, Any]  # decoding and scoring
    hypotheses: list[Row]
    epochs: list[dict[str, Any]]
    best_epoch: int
    search: dict[str, Any] | None
    quality: list[ClipQuality]
    rejects: list[Row]
    targets: list[Target]
    checkpoint: dict[str, Any]


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
        hypotheses=_read_tsv(paths.evaluation / "hypotheses.tsv", stage="evaluate"),
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


def _read_tsv(path: Path, *, stage: str) -> list[Row]:
    lines = _read(path, stage).split("\n")
    rows = csv.DictReader((line for line in lines if line), delimiter="\t", quoting=csv.QUOTE_NONE)
    return list(rows)


def _read(path: Path, stage: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; run `dvc repro {stage}` first") from None
