"""Translate dev and test, score them and their floors. DVC stage `evaluate`."""

import dataclasses
import os

from pipeline.inputs import check_trained_as_noted
from pipeline.stage import run
from signloom.checkpoint import WEIGHTS
from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.devices import restart_portable
from signloom.evaluation.evaluate import EvaluateOptions, describe, evaluate, load_seeds
from signloom.evaluation.floors import thin_train
from signloom.evaluation.results import write_evaluation
from signloom.features.targets import read_targets
from signloom.files import hash_file, hash_folder
from signloom.paths import (
    CHECKPOINT,
    EVALUATION,
    HISTORY,
    METRICS,
    PARAMS,
    REPORTS,
    SHARDS,
    TARGETS,
)
from signloom.tracking.run import Run, RunOf, name_run, read_tracking
from signloom.translation.confidence import hash_seeds
from signloom.translation.translator import Translator

NOTE = (
    "The numbers that decide: metrics; sort runs by `score/test`, which is the metric in the tag "
    "`headline`. Sentences and scores of every system: artifacts, `evaluation`."
)


def main() -> None:
    """Evaluate, write metrics and hypotheses, log the run."""
    options = load_section(PARAMS, "evaluate", EvaluateOptions)
    corpus = load_section(PARAMS, "corpus", CorpusOptions).name
    tracking = read_tracking(PARAMS)
    translator = Translator.load(CHECKPOINT, precision=options.precision)
    if "DVC_STAGE" in os.environ:
        check_trained_as_noted(translator.spec.provenance)
    if translator.spec.provenance.get("params", {}).get("train", {}).get("portable"):
        restart_portable()  # scores follow from a model as its weights do from the data
    seed_translators = load_seeds(CHECKPOINT, options.precision)
    targets = read_targets(TARGETS)
    sequences = translator.source.read(thin_train(targets), SHARDS)
    hashes = {
        "landmarks": hash_folder(SHARDS),
        "targets": hash_file(TARGETS),
        "checkpoint": hash_folder(CHECKPOINT),
    }
    weights = hash_file(CHECKPOINT / WEIGHTS)
    name = name_run(f"{describe(translator, options)}, weights {weights[:6]}")
    of = RunOf(stage="evaluate", name=name)
    with Run.start(tracking, of, data=hashes, note=NOTE) as log:
        log.log_params({"evaluate": dataclasses.asdict(options)})
        log.log_params(translator.spec.provenance.get("params", {}))
        evaluation = evaluate(
            translator,
            targets,
            sequences,
            options,
            corpus=corpus,
            seed_translators=seed_translators,
            weights=weights,
            seeds=hash_seeds(CHECKPOINT),
        )
        write_evaluation(REPORTS, evaluation, HISTORY)
        log.log_metrics(evaluation.metrics)
        headline = evaluation.headline
        log.set_tags({"headline": headline})
        log.log_metrics(
            {"score": {s: values[headline] for s, values in evaluation.metrics.items()}}
        )
        log.log_artifact(METRICS)
        log.log_artifact(EVALUATION, folder="evaluation")


if __name__ == "__main__":
    run(main)
