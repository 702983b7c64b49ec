"""A search space comes in, the parameters with the lowest dev loss go out.

The only module that knows Optuna. Finished trials are kept in a database beside the project, so a
search that died goes on where it stopped.
"""

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna

from signloom.config import UserError
from signloom.reproducibility import hash_folder, library_versions
from signloom.tracking import Run
from signloom.training.loop import DivergedError, EpochRecord
from signloom.training.run import RunOptions, TrainingData, check_run, train
from signloom.tune.space import (
    Parameter,
    TuneOptions,
    apply_values,
    current_values,
    overrides_of,
    parse_space,
)

FORMAT_VERSION = 1
STORAGE = "sqlite:///optuna.db"
OBJECTIVE = "dev_loss"


def search(
    data: TrainingData,
    base: RunOptions,
    options: TuneOptions,
    *,
    data_hash: str,
    run: Run,
    progress: Callable[[int, int], None],
    storage: str = STORAGE,
) -> dict[str, Any]:
    """Search until the wanted number of trials has finished.

    Trial n draws from a sampler seeded with the search's seed and n, so a search that was
    interrupted and goes on ends like one that was not.

    Args:
        data: The corpus.
        base: The current parameters, tried first.
        options: The space and its limits.
        data_hash: Of landmarks and tokens; another hash is another study.
        run: MLflow run that gets a child for each trial.
        progress: Called with epochs done since the last call and trials finished so far.
        storage: Optuna storage URL.

    Returns:
        The content of trials.json.
    """
    space = parse_space(options.space)
    base = replace(base, train=replace(base.train, epochs=options.epochs, patience=options.epochs))
    check_run(data, base)
    with _quiet():
        study = _open_study(base, options, data_hash=data_hash, storage=storage)
        while (finished := len(_finished(study))) < options.trials:
            study.sampler = optuna.samplers.TPESampler(seed=options.seed + 1_000 * finished)
            objective = _Objective(data, base, space, run, progress, finished)
            study.optimize(objective, n_trials=1)
        return _summary(study, base, space, options.trials)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide Optuna's own notices of experimental parts and of every trial."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def _open_study(
    base: RunOptions, options: TuneOptions, *, data_hash: str, storage: str
) -> optuna.Study:
    """Open the study of exactly this search, new or interrupted."""
    identity = json.dumps(
        [
            dataclasses.asdict(base),
            options.space,
            options.seed,
            data_hash,
            _code_hash(),
            library_versions(),
        ],
        sort_keys=True,
    )
    name = f"signloom-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction="minimize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(
            n_startup_trials=3, n_warmup_steps=max(1, options.epochs // 3)
        ),
    )
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        # Left by a process that died; its place in the sequence is taken again.
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    waiting = study.get_trials(states=(optuna.trial.TrialState.WAITING,))
    if not waiting and not _finished(study):
        study.enqueue_trial(current_values(base, parse_space(options.space)))
    return study


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return study.get_trials(deepcopy=False, states=states)


def _code_hash() -> str:
    """Return a hash of the package: other code is another study, whatever it is called."""
    return hash_folder(Path(__file__).parents[1], pattern="*.py")


@dataclass(frozen=True, slots=True)
class _Objective:
    """Train with a trial's values and return its best dev loss."""

    data: TrainingData
    base: RunOptions
    space: Mapping[str, Parameter]
    run: Run
    progress: Callable[[int, int], None]
    finished: int

    def __call__(self, trial: optuna.Trial) -> float:
        values = {name: parameter.suggest(trial, name) for name, parameter in self.space.items()}
        try:
            options = apply_values(self.base, values)
        except ValueError as error:  # values that do not fit together
            raise _pruned(trial, error) from error
        with self.run.child(f"trial {self.finished}", stops=(optuna.TrialPruned,)) as child:
            child.log_params(values)
            epochs = 0

            def log(record: EpochRecord) -> None:
                nonlocal epochs
                epochs = record.epoch
                child.log_metrics(dataclasses.asdict(record), step=record.epoch)
                trial.report(record.dev_loss, record.epoch)
                self.progress(1, self.finished)
                if record.epoch < self.base.train.epochs and trial.should_prune():
                    raise optuna.TrialPruned(f"after epoch {record.epoch}")

            try:
                _, result = train(self.data, options, provenance={}, log=log)
            except DivergedError as error:
                raise _pruned(trial, error) from error
            finally:
                self.progress(self.base.train.epochs - epochs, self.finished + 1)
            return result.dev_loss


def _pruned(trial: optuna.Trial, error: ValueError) -> optuna.TrialPruned:
    trial.set_user_attr("reason", str(error))
    return optuna.TrialPruned(str(error))


def _summary(
    study: optuna.Study, base: RunOptions, space: Mapping[str, Parameter], count: int
) -> dict[str, Any]:
    """Return what the report and `signloom adopt` need; no clock values."""
    trials: list[dict[str, Any]] = []
    # A study may hold more trials than are asked for now.
    for number, trial in enumerate(_finished(study)[:count]):
        trials.append(
            {
                "number": number,
                "state": trial.state.name,
                "value": trial.value,
                "params": {name: trial.params[name] for name in space},
                "intermediate": {str(k): v for k, v in trial.intermediate_values.items()},
                "reason": trial.user_attrs.get("reason"),
            }
        )
    complete = [trial for trial in trials if trial["state"] == "COMPLETE"]
    if not complete:
        raise UserError(
            f"no trial of the search finished with a dev loss; the first said: "
            f"{trials[0]['reason']}. Lower train.learning_rate's range or raise tune.epochs"
        )
    best = min(complete, key=lambda trial: trial["value"])
    return {
        "format_version": FORMAT_VERSION,
        "study": study.study_name,
        "objective": OBJECTIVE,
        "best": {**best, "overrides": overrides_of(base, best["params"])},
        "trials": trials,
        "importance": _importance(study, len(complete)),
    }


def _importance(study: optuna.Study, complete: int) -> dict[str, float]:
    """Return each parameter's share in the spread of the results (PED-ANOVA)."""
    if complete < 2:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    with warnings.catch_warnings():
        # Optuna warns that its answer means nothing: then there is none.
        warnings.simplefilter("error", UserWarning)
        try:
            return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))
        except (ValueError, RuntimeError, UserWarning):
            return {}
