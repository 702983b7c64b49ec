"""Study of lip reading on drawn mouths.

Question: does the use of document 003 (lips in, Arabic text out, a Conformer encoder), here with
vowel signs and CTC on characters, work from landmarks to report, for people whom the model has
never seen?
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline.studies.lip_reading.mouths import LAYOUT, LipCorpusOptions, draw_lip_corpus
from signloom.config import load_section
from signloom.corpus.landmark_folder import write_landmarks
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions, evaluate
from signloom.evaluation.results import write_evaluation
from signloom.features.targets import (
    TokenizeOptions,
    build_targets,
    read_targets,
    write_labels,
    write_targets,
)
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
from signloom.training.data import TrainingFiles
from signloom.training.loop import EpochRecord
from signloom.training.run import Result, read_run_options, train, write_results
from signloom.translation.translator import Translator

Drawn = tuple[Clip, LandmarkSequence]


def run_lip_reading(
    params: Path, folder: Path, log: Callable[[EpochRecord], None]
) -> dict[str, Any]:
    """Draw, tokenise, train, evaluate and report.

    Args:
        params: Sections as in the project's params.yaml, and `study` for the drawn corpus.
        folder: Everything is written there: landmarks, tokens, checkpoint, report (index.html).
        log: Called after every epoch.

    Returns:
        The scores by split, as in metrics.json.
    """
    corpus = draw_lip_corpus(load_section(params, "study", LipCorpusOptions))
    write_drawn(folder / "landmarks", corpus)
    write_tokens(
        folder / "tokens", corpus, load_section(params, "tokenize_targets", TokenizeOptions)
    )
    options = read_run_options(params)
    files = TrainingFiles(shards=folder / "landmarks/shards", tokens=folder / "tokens")
    data = files.load(cache_mb=options.train.cache_mb)
    checkpoint, fit = train(data, options, provenance={}, log=log)
    result = Result(seed=options.train.seed, checkpoint=checkpoint, fit=fit)
    write_results(folder / "checkpoint", [result])
    return write_report(params, folder)


def write_report(params: Path, folder: Path) -> dict[str, Any]:
    """Evaluate the checkpoint of the folder and build the page; return the scores by split."""
    paths = ReportPaths(
        evaluation=folder / "evaluation",
        baseline=folder / "baseline.json",
        retrain=folder / "retrain.json",
        tune=folder / "tune",
        landmarks=folder / "landmarks",
        targets=folder / "tokens/targets.parquet",
        checkpoint=folder / "checkpoint",
    )
    options = load_section(params, "evaluate", EvaluateOptions)
    evaluation = evaluate(
        Translator.load(paths.checkpoint, precision=options.precision),
        read_targets(paths.targets),
        read_shards(paths.shards),
        options,
    )
    write_evaluation(folder, evaluation, paths.checkpoint / "history.json")
    build_report(paths, folder, load_section(params, "report", ReportOptions))
    return evaluation.metrics


def write_tokens(folder: Path, corpus: Sequence[Drawn], options: TokenizeOptions) -> None:
    """Write what the stage `tokenize_targets` writes."""
    tokenizer, labels, targets = build_targets([clip for clip, _ in corpus], options)
    write_targets(folder / "targets.parquet", targets)
    write_labels(folder / "labels.json", labels)
    tokenizer.save(folder / "tokenizer.json")


def write_drawn(folder: Path, corpus: Sequence[Drawn]) -> None:
    """Write what the stage `extract` writes."""
    sequences = {clip.clip_id: sequence for clip, sequence in corpus}
    write_landmarks(
        folder,
        {name: len(sequence.points) for name, sequence in sequences.items()},
        [],
        sequences.__getitem__,
        layout=LAYOUT,
        extractor=json.dumps({"detector": "drawn lips"}),
        frames_per_shard=25_000,
    )
