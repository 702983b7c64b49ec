"""Study of architectures: variants trained alike on a corpus.

Question: what do the architectures reach with equal epochs, and at what cost?
"""

import dataclasses
import time
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field

from signloom.config import Count, checked_dataclass
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.metrics import score_corpus
from signloom.features.targets import read_targets
from signloom.system import peak_memory_bytes
from signloom.training.data import TrainingFiles
from signloom.training.train import RunOptions
from signloom.translation.translator import Translator
from studies.runs import change_options, train_first_seed

SPLITS = ("dev", "test")


@checked_dataclass
class ArchitecturesOptions:
    """The section `study` of the study's parameters."""

    seeds: Annotated[list[int], Field(min_length=1)]  # of each variant on the corpus
    train: dict[str, Any]  # changes to the section `train` of params.yaml, the same for all
    # Name to changes of the section `model`.
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    learning_rates: dict[str, float]  # of variants that want another than the common one
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
        checkpoint, fit = train_first_seed(data, self.options)
        cpu_s, growth = time.process_time() - began, _peak_mb() - before
        translator = Translator(checkpoint, torch.device("cpu"), self.evaluate.precision)
        targets, sequences = read_targets(self.files.targets), read_shards(self.files.shards)
        measured: dict[str, Any] = {"scores": {}, "sentences": []}
        for split in SPLITS:
            chosen = [t for t in targets if t.split == split and t.clip_id in sequences]
            began = time.process_time()
            translations = translator.translate(
                [sequences[t.clip_id] for t in chosen], self.evaluate.decoding
            )
            translate_ms = 1000 * (time.process_time() - began) / len(chosen)
            hyps, refs = [t.text for t in translations], [t.text for t in chosen]
            scores = score_corpus(hyps, refs, self.evaluate.score)
            measured["scores"][split] = {
                **{name: round(scores[name].value, 3) for name in ("bleu4", "chrf", "wer")},
                "signature": scores["bleu4"].signature,
                "translate_ms": round(translate_ms, 2),
            }
            measured["sentences"] += [[split, r, h] for r, h in zip(refs, hyps, strict=True)]
        return measured | {
            "variant": self.variant,
            "seed": self.options.train.seed,
            "parameters": sum(p.numel() for p in checkpoint.model.parameters()),
            "epochs": len(fit.history),
            "best_epoch": fit.best_epoch,
            "dev_loss": round(fit.dev_loss, 4),
            "cpu_s": round(cpu_s, 1),
            "memory_mb": round(growth, 1),
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


def _peak_mb() -> float:
    """Return the largest memory this process has had so far, MB."""
    return peak_memory_bytes() / 1e6
