"""The objective of a trial: train with drawn values, measure what it is worth and costs."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import optuna
import torch

from signloom.checkpoint import Checkpoint
from signloom.corpus.landmarks import LandmarkSequence
from signloom.devices import peak_memory_mb, pick_device, reset_peak_memory
from signloom.evaluation.metric_names import GLOSS_WER, Metric
from signloom.evaluation.metrics import (
    ScoreOptions,
    Statistics,
    count_gloss_wer,
    score_corpus,
)
from signloom.features.sources import SourceSequence
from signloom.tracking.run import Run
from signloom.training.data import TrainingData
from signloom.training.loop import DivergedError, EpochRecord
from signloom.training.train import RunOptions, count_parameters, train
from signloom.translation.options import DECODING, SignSearch
from signloom.translation.recognised_signs import read_signs
from signloom.translation.translator import Translator
from signloom.tune.space import (
    DECODED,
    HIGHER_IS_BETTER,
    Parameter,
    TuneOptions,
    Value,
    apply_values,
)
from signloom.tune.storage import DRAWN, REASON, claim_slot

MEASURES = "measures"  # user attribute of a trial: what it was worth and what it cost
GREEDY = replace(DECODING, beam_size=1)  # quick, and trials are compared with each other only
OpenRun = Callable[[optuna.Trial], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTrainer:
    """Trains the model of a trial, logs its run, holds the limits."""

    data: TrainingData
    tune: TuneOptions
    open_run: OpenRun
    progress: Callable[[], None]  # called after each epoch

    def train(
        self, trial: optuna.Trial, options: RunOptions, values: Mapping[str, Any], *, prunes: bool
    ) -> float:
        """Return the objective of a trial.

        Args:
            trial: It has claimed its slot.
            values: Those of the options that are the trial's own.
            prunes: Whether to stop when the other trials were better by now.

        Raises:
            optuna.TrialPruned: If it was stopped, diverged or broke a limit.
        """
        with self.open_run(trial) as run:
            run.log_params(dataclasses.asdict(options))
            run.set_tags({name: str(value) for name, value in values.items()})
            device, start_s = pick_device(options.train.device), time.monotonic()
            reset_peak_memory(device)

            def cost() -> dict[str, float]:
                return {
                    "seconds": time.monotonic() - start_s,
                    "memory_mb": peak_memory_mb(device),
                }

            try:
                measures = self._train(trial, options, run, prunes=prunes)
            except BaseException as error:
                is_stop = isinstance(error, (optuna.TrialPruned, DivergedError))
                reason = str(error) if is_stop else f"{type(error).__name__}: {error}"
                trial.set_user_attr(REASON, reason)
                run.log_metrics(cost())
                if isinstance(error, (DivergedError, torch.OutOfMemoryError)):
                    raise optuna.TrialPruned(reason) from error
                raise
            trial.set_user_attr(MEASURES, measures)
            run.log_metrics({**measures, **cost()})
        return measures[self.tune.objective]

    def _train(
        self, trial: optuna.Trial, options: RunOptions, run: Run, *, prunes: bool
    ) -> dict[str, float]:
        parameters, limit = count_parameters(self.data, options), self.tune.limits.parameters
        if limit is not None:
            trial.set_constraint("parameters", parameters / limit - 1)
            if parameters > limit:
                raise optuna.TrialPruned(f"parameters {parameters} is beyond the limit of {limit}")

        def log(record: EpochRecord) -> None:
            run.log_metrics(dataclasses.asdict(record), step=record.epoch)
            # Optuna compares in the study's direction; the curve is always dev loss.
            sign = -1 if self.tune.objective in HIGHER_IS_BETTER else 1
            trial.report(sign * record.dev_loss, record.epoch)
            self.progress()
            if prunes and record.epoch < options.train.epochs and trial.should_prune():
                raise optuna.TrialPruned(f"after epoch {record.epoch}")

        checkpoint, result = train(self.data, options, provenance={}, log=log)
        measures = {"dev_loss": result.dev_loss, "parameters": float(parameters)}
        if self.tune.objective in DECODED:
            measures |= self._translate(checkpoint, options)
        return measures

    def _translate(self, checkpoint: Checkpoint, options: RunOptions) -> dict[str, float]:
        """Return the scores of dev."""
        translator = Translator(checkpoint, pick_device(options.train.device))
        clips = self.data.dev.read(range(len(self.data.dev)))
        # An untrained model never ends a sentence: it may write none longer than train has.
        longest = max(len(target.ids) for target in self.data.train.targets)
        greedy = replace(GREEDY, max_tokens=min(longest, GREEDY.max_tokens))
        translations = translator.translate(clips, greedy)
        scores = score_corpus(
            [translation.text for translation in translations],
            [target.text for target in self.data.dev.targets],
            ScoreOptions(tokenizer=self.tune.tokenizer, resamples=100, seed=0),
        )
        measures: dict[str, float] = {
            name: scores[name].value for name in (Metric.BLEU4, Metric.EXACT, Metric.WER)
        }
        if self.tune.objective == GLOSS_WER:
            glosses = [target.gloss.split() for target in self.data.dev.targets]
            measures[GLOSS_WER] = measure_gloss_wer(translator, clips, glosses)
        return measures


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchObjective:
    """Train with values drawn from the space."""

    trainer: TrialTrainer
    base: RunOptions
    space: Mapping[str, Parameter]
    slots: int
    others: Mapping[int, Mapping[str, Value]]  # of a slot: what it sets outside the space

    def __call__(self, trial: optuna.Trial) -> float:
        """Return the objective of a trial."""
        further_values = self.others.get(claim_slot(trial, self.slots), {})
        values = {name: parameter.suggest(trial, name) for name, parameter in self.space.items()}
        values |= further_values
        trial.set_user_attr(DRAWN, values)
        try:
            options = apply_values(self.base, values)
        except ValueError as error:  # values that do not fit together
            trial.set_user_attr(REASON, str(error))
            raise optuna.TrialPruned(str(error)) from error
        return self.trainer.train(trial, options, values, prunes=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmObjective:
    """Train a candidate with the seed of its slot."""

    trainer: TrialTrainer
    candidates: list[RunOptions]
    slots: int

    def __call__(self, trial: optuna.Trial) -> float:
        """Return the objective of a candidate with one seed."""
        number, seed = divmod(claim_slot(trial, self.slots), self.trainer.tune.confirm.seeds)
        options = self.candidates[number]
        # The seed of the search is left out: with it the candidate was chosen.
        train_seed = options.train.seed + 1 + seed
        options = replace(options, train=replace(options.train, seeds=[train_seed]))
        return self.trainer.train(trial, options, {"train.seed": train_seed}, prunes=False)


def measure_gloss_wer(
    translator: Translator, clips: Sequence[SourceSequence], glosses: Sequence[Sequence[str]]
) -> float:
    """Return the word error rate of the signs that CTC alone reads of clips, %."""
    landmarks = [clip for clip in clips if isinstance(clip, LandmarkSequence)]
    read = read_signs(translator, landmarks, SignSearch())
    lines = [
        [sign.gloss for sign in signs] if line else []
        for signs, line in zip(read, glosses, strict=True)
    ]
    options = ScoreOptions(tokenizer="none", resamples=100, seed=0)
    return Statistics(parts=(count_gloss_wer(lines, glosses, options),)).values()[GLOSS_WER]
