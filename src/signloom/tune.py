"""A search space comes in, the parameters with the lowest dev loss go out.

The only module that knows Optuna. Finished trials are kept in a database beside the project, so a
search that died goes on where it stopped.
"""

import dataclasses
import hashlib
import json
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna

from signloom.config import UserError, parse_options, parse_value
from signloom.reproducibility import hash_folder, library_versions
from signloom.tracking import Run
from signloom.training.loop import DivergedError, EpochRecord
from signloom.training.run import RunOptions, TrainingData, check_run, train

FORMAT_VERSION = 1
STORAGE = "sqlite:///optuna.db"
OBJECTIVE = "dev_loss"
HEAD_WIDTH = "model.head_width"
Value = int | float | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One dimension of the search: choices, or a range between two numbers, both included."""

    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    is_int: bool = False

    def suggest(self, trial: optuna.Trial, name: str) -> Value:
        """Draw a value for a trial."""
        if self.choices:
            chosen: Value = trial.suggest_categorical(name, self.choices)
            return chosen
        if self.is_int:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def holds(self, value: Value) -> bool:
        """Return whether a value lies in this dimension."""
        if self.choices:
            return value in self.choices
        return not isinstance(value, str) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The section `tune` of params.yaml."""

    seed: int  # of the search; each trial trains with train.seed
    trials: int  # finished trials, >= 1
    epochs: int  # of a trial, at most, >= 1
    space: dict[str, Any]  # from `section.key` to {choices: [...]} or {low, high, log}

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed: found {self.seed}, expected 0 or more")
        for name in ("trials", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        parse_space(self.space)


def parse_space(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Check a search space.

    Raises:
        ValueError: If a name is not an option, or a dimension is malformed; all in one message.
    """
    hints = {
        f"{section.name}.{name}": hint
        for section in dataclasses.fields(RunOptions)
        for name, hint in typing.get_type_hints(section.type).items()
    } | {HEAD_WIDTH: int}
    parsed, problems = {}, []
    for name, content in space.items():
        if name not in hints:
            problems.append(f"space.{name} is not an option that training reads")
            continue
        try:
            parsed[name] = _parse_parameter(content, hints[name])
        except ValueError as error:
            problems.append(f"space.{name}: {error}")
    if not space:
        problems.append("space is empty; name at least one parameter")
    if HEAD_WIDTH in space and "model.heads" in space:
        problems.append(f"space has {HEAD_WIDTH} and model.heads; each decides the other")
    if problems:
        raise ValueError("\n".join(problems))
    return parsed


def _parse_parameter(content: object, hint: Any) -> Parameter:
    if not isinstance(content, dict) or not (
        set(content) == {"choices"} or {"low", "high"} <= set(content) <= {"low", "high", "log"}
    ):
        raise ValueError(f"found {content!r}, expected {{choices: [...]}} or {{low, high, log}}")
    if "choices" in content:
        choices = content["choices"]
        if not isinstance(choices, list) or not choices:
            raise ValueError(f"choices: found {choices!r}, expected a list of values")
        return Parameter(choices=tuple(parse_value(v, hint, where="choices") for v in choices))
    log = content.get("log", False)
    if hint not in (int, float):
        raise ValueError("only a number has a range; give {choices: [...]}")
    is_int = hint is int
    low, high = (
        typing.cast(float, parse_value(content[key], hint, where=key)) for key in ("low", "high")
    )
    if not low < high:
        raise ValueError(f"found low {low!r} and high {high!r}, expected low < high")
    if log and low <= 0:
        raise ValueError(f"found low {low} on a logarithmic scale, expected more than 0")
    return Parameter(low=float(low), high=float(high), log=bool(log), is_int=is_int)


def apply_values(base: RunOptions, values: Mapping[str, Value]) -> RunOptions:
    """Return the options with some values replaced.

    Heads follow from the head width, and d_ff keeps its ratio to d_model unless it is a value.

    Raises:
        ValueError: If the values do not fit together.
    """
    values = dict(values)
    d_model = int(values.get("model.d_model", base.model.d_model))
    if HEAD_WIDTH in values:
        width = int(values.pop(HEAD_WIDTH))
        if width < 1 or d_model % width:
            raise ValueError(f"model.d_model {d_model} is not a multiple of head width {width}")
        values["model.heads"] = d_model // width
    if d_model != base.model.d_model:
        values.setdefault("model.d_ff", base.model.d_ff * d_model // base.model.d_model)
    sections: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        section, key = name.split(".")
        sections.setdefault(section, {})[key] = value
    changed = {}
    for section, content in sections.items():
        before = getattr(base, section)
        # Through the parser, which knows that 1 is a float and "pre" one of two words.
        merged = dataclasses.asdict(before) | content
        changed[section] = parse_options(merged, type(before), where=f"trial: {section}")
    return replace(base, **changed)


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
        study.enqueue_trial(_current_values(base, parse_space(options.space)))
    return study


def _current_values(base: RunOptions, space: Mapping[str, Parameter]) -> dict[str, Value]:
    """Return the current parameters as far as they lie in the space; Optuna draws the others."""
    values: dict[str, Value] = {}
    for name, parameter in space.items():
        section, key = name.split(".")
        current: Value = (
            base.model.d_model // base.model.heads
            if name == HEAD_WIDTH
            else getattr(getattr(base, section), key)
        )
        if parameter.holds(current):
            values[name] = current
    return values


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return study.get_trials(deepcopy=False, states=states)


def _code_hash() -> str:
    """Return a hash of the package: other code is another study, whatever it is called."""
    return hash_folder(Path(__file__).parent, pattern="*.py")


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
        stops = (optuna.TrialPruned,)
        with self.run.child(f"trial {self.finished}", stops=stops) as child:
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
                try:
                    options = apply_values(self.base, values)
                except ValueError as error:  # values that do not fit together
                    raise _pruned(trial, error) from error
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
        "best": {**best, "overrides": _overrides(base, best["params"])},
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


def _overrides(base: RunOptions, values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return what the values mean in params.yaml, by section: what was searched and what follows.

    Not the difference to `base`: by the time of adoption the file may say something else.
    """
    after = apply_values(base, values)
    names = {name for name in values if name != HEAD_WIDTH}
    if HEAD_WIDTH in values:
        names.add("model.heads")
    if "model.d_model" in values:
        names.add("model.d_ff")
    overrides: dict[str, dict[str, Value]] = {}
    for section, key in sorted(name.split(".") for name in names):
        overrides.setdefault(section, {})[key] = getattr(getattr(after, section), key)
    return overrides
