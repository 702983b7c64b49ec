"""Runs of the stages that train and score nothing: extraction, tokens and the report."""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from signloom.config import get_map, load_params, load_section
from signloom.corpus.landmark_folder import QUALITY_NAME
from signloom.corpus.manifest import CorpusOptions
from signloom.files import hash_file, hash_folder
from signloom.paths import (
    CHECKPOINT,
    EVALUATION,
    FIGURES,
    LABELS,
    LANDMARKS,
    PARAMS,
    REJECTS,
    REPORT_PAGE,
    TARGETS,
    TOKENIZER,
)
from signloom.tracking.run import Run, RunOf, read_tracking


@dataclass(frozen=True, kw_only=True, slots=True)
class _StageRun:
    """What the run of a stage has in addition to the stage's section of params.yaml."""

    name: str  # of the run, from the options of the stage
    data: dict[str, Path] = field(default_factory=dict)  # what it read; empty: the manifest
    artifacts: tuple[Path, ...]


_STAGES = {
    "extract": _StageRun(name="{detector} {groups}", artifacts=(REJECTS, LANDMARKS / QUALITY_NAME)),
    "tokenize_targets": _StageRun(name="vocabulary {vocabulary}", artifacts=(TOKENIZER, LABELS)),
    "report": _StageRun(
        name="page",
        artifacts=(REPORT_PAGE, FIGURES),
        data={
            "landmarks": LANDMARKS,
            "targets": TARGETS,
            "checkpoint": CHECKPOINT,
            "evaluation": EVALUATION,
        },
    ),
}


@contextlib.contextmanager
def track_stage(stage: str) -> Iterator[None]:
    """Log a stage as a run, unless it logs its own or is part of another one.

    Raises:
        UserError: If params.yaml is missing or wrong.
    """
    if stage in _STAGES and len(sys.argv) == 1:  # with arguments it is a share of extraction
        with _track(stage, _STAGES[stage]):
            yield
    else:
        yield


@contextlib.contextmanager
def _track(stage: str, stage_run: _StageRun) -> Iterator[None]:
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    section = get_map(load_params(PARAMS), stage)
    options = read_tracking(PARAMS)
    paths = stage_run.data or {"manifest": corpus.path}
    hashed = paths if options.enabled else {}  # a hash reads every byte of the landmarks
    data = {
        name: hash_folder(path) if path.is_dir() else hash_file(path)
        for name, path in hashed.items()
        if path.exists()
    }
    values = {
        key: "+".join(map(str, value)) if isinstance(value, list) else value
        for key, value in section.items()
    }
    name = f"{corpus.name}, {stage_run.name.format_map(defaultdict(str, values))}"
    with Run.start(options, RunOf(stage=stage, name=name), data=data) as run:
        run.log_params({stage: section})
        yield
        for path in stage_run.artifacts:
            run.log_artifact(path)
