"""Study of architectures: variants trained alike on a corpus and on the reversal lab.

Question: what do the architectures reach with equal epochs, at what cost, and does a decoder that
gets only the encoder's last state fail on long sentences, as document 001 says?
"""

import dataclasses
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field

from pipeline.studies.options import change_options
from signloom.config import Count, checked_dataclass
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.metrics import score_corpus
from signloom.features.targets import read_targets
from signloom.reversal import LabOptions, read_lab, run_lab
from signloom.training.data import TrainingFiles
from signloom.training.run import RunOptions, train
from signloom.translation.translator import Translator

SPLITS = ("dev", "test")


@checked_dataclass
class ArchitecturesOptions:
    """The section `study` of the study's parameters."""

    seeds: Annotated[list[int], Field(min_length=1)]  # of each variant on the corpus
    train: dict[str, Any]  # changes to the section `train` of params.yaml, the same for all
    # Name to changes of the section `model`.
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    learning_rates: dict[str, float]  # of variants that want another than the common one
    reversal: list[str]  # changes to the reversal lab, such as train.epochs=4
    reversal_seeds: list[int]  # of each variant on the reversal lab
    workers: Count  # runs at a time; 1 where processor time is to mean something

    def __post_init__(self) -> None:
        if unknown := sorted(self.learning_rates.keys() - self.variants.keys()):
            raise ValueError(f"learning_rates: found {unknown}, expected names of variants")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusJob:
    """One training on the corpus."""

    variant: str
    options: RunOptions
    evaluate: EvaluateOptions
    files: TrainingFiles

    def run(self) -> dict[str, Any]:
        """Train, translate dev and test, measure."""
        torch.set_num_threads(1)
        data = self.files.load(cache_mb=self.options.train.cache_mb)
        before, began = _peak_mb(), time.process_time()
        checkpoint, fit = train(data, self.options, provenance={}, log=lambda record: None)
        cpu_s, growth = time.process_time() - began, _peak_mb() - before
        translator = Translator(checkpoint, torch.device("cpu"), self.evaluate.precision)
        targets, sequences = read_targets(self.files.targets), read_shards(self.files.shards)
        found: dict[str, Any] = {"scores": {}, "sentences": []}
        for split in SPLITS:
            chosen = [t for t in targets if t.split == split and t.clip_id in sequences]
            began = time.process_time()
            said = translator.translate(
                [sequences[t.clip_id] for t in chosen], self.evaluate.decoding
            )
            translate_ms = 1000 * (time.process_time() - began) / len(chosen)
            hyps, refs = [t.text for t in said], [t.text for t in chosen]
            scores = score_corpus(hyps, refs, self.evaluate.score)
            found["scores"][split] = {
                **{name: round(scores[name].value, 3) for name in ("bleu4", "chrf", "wer")},
                "signature": scores["bleu4"].signature,
                "translate_ms": round(translate_ms, 2),
            }
            found["sentences"] += [[split, r, h] for r, h in zip(refs, hyps, strict=True)]
        return found | {
            "variant": self.variant,
            "seed": self.options.train.seed,
            "parameters": sum(p.numel() for p in checkpoint.model.parameters()),
            "epochs": len(fit.history),
            "best_epoch": fit.best_epoch,
            "dev_loss": round(fit.dev_loss, 4),
            "cpu_s": round(cpu_s, 1),
            "memory_mb": round(growth, 1),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalJob:
    """One training on the reversal lab."""

    variant: str
    options: LabOptions

    def run(self) -> dict[str, Any]:
        """Train and test."""
        torch.set_num_threads(1)
        result = run_lab(self.options, log=lambda record: None)
        return {
            "variant": self.variant,
            "seed": self.options.train.seed,
            "exact": round(result.exact, 4),
            "by_length": {str(k): round(v, 4) for k, v in result.by_length.items()},
            "dev_loss": round(result.dev_loss, 4),
            "cpu_s": round(result.cpu_s, 1),
        }


def plan_corpus(
    options: ArchitecturesOptions, base: RunOptions, evaluate: EvaluateOptions, files: TrainingFiles
) -> list[CorpusJob]:
    """Return the trainings on the corpus, seed by seed, so that early results cover every variant.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    jobs = []
    for seed in options.seeds:
        recipe = change_options(base.train, {**options.train, "seeds": [seed]}, "study.train")
        for variant, changes in options.variants.items():
            model = change_options(base.model, changes, f"study.variants.{variant}")
            rate = options.learning_rates.get(variant, recipe.learning_rate)
            train_options = dataclasses.replace(recipe, learning_rate=rate)
            run = dataclasses.replace(base, model=model, train=train_options)
            jobs.append(CorpusJob(variant=variant, options=run, evaluate=evaluate, files=files))
    return jobs


def plan_reversal(options: ArchitecturesOptions) -> list[ReversalJob]:
    """Return the trainings on the reversal lab.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    jobs = []
    for seed in options.reversal_seeds:
        base = read_lab([*options.reversal, f"train.seeds=[{seed}]"])
        for variant, changes in options.variants.items():
            model = change_options(base.model, changes, f"study.variants.{variant}")
            jobs.append(
                ReversalJob(variant=variant, options=dataclasses.replace(base, model=model))
            )
    return jobs


def run_jobs(
    jobs: Sequence[CorpusJob | ReversalJob], workers: int, log: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Run each job in a process of its own, whose memory and time are the job's alone."""
    with ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for found in pool.map(_run, jobs):
            log(found)
            yield found


def _run(job: CorpusJob | ReversalJob) -> dict[str, Any]:
    return job.run()


def _peak_mb() -> float:
    """Return the largest memory this process has had so far, MB (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
