"""The section `tune` of params.yaml; `tune.space`, the search space, is read and checked."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import optuna
from pydantic import Field

from signloom.config import Count, Gone, Natural, checked_dataclass, parse_options
from signloom.errors import UserError
from signloom.evaluation.metric_names import Metric, headline_metric
from signloom.models.seq2seq import READ_BY, ModelOptions
from signloom.training.train import RunOptions, check_without_decoder

HEAD_WIDTH = "model.head_width"
D_FF_RATIO = "model.d_ff_ratio"
DECIDES = {HEAD_WIDTH: "model.heads", D_FF_RATIO: "model.d_ff"}
SET_BY_SEARCH = ("train.epochs", "train.patience", "train.seeds", "train.device")
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

    @property
    def ends(self) -> tuple[Any, ...]:
        """The choices, or both ends of the range."""
        kind = int if self.is_int else float
        return self.choices or (kind(self.low), kind(self.high))

    def holds(self, value: Value) -> bool:
        """Return whether a value lies in this dimension."""
        if self.choices:
            return value in self.choices
        return not isinstance(value, str) and self.low <= value <= self.high

    def nearest(self, value: Value) -> Value:
        """Return a value that this dimension holds, or of numbers the one that is nearest to it.

        Raises:
            ValueError: If there is none near it.
        """
        if self.holds(value):
            return value
        if any(isinstance(end, str | bool) for end in (value, *self.ends)):
            raise ValueError(f"{value!r} lies outside its range")
        number = float(value)
        if self.choices:
            nearest: Value = min(self.choices, key=lambda choice: abs(choice - number))
            return nearest
        return type(self.ends[0])(min(max(number, self.low), self.high))


def parse_space(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Check a search space.

    Raises:
        ValueError: If a name is not an option, or a dimension is malformed; all in one message.
    """
    hints = _hints()
    parsed, problems = {}, []
    for name, content in space.items():
        if name not in hints:
            problems.append(f"space.{name} is not an option that training reads")
            continue
        if name in SET_BY_SEARCH:
            problems.append(f"space.{name}: the search itself decides it")
            continue
        try:
            parsed[name] = _parse_parameter(content, hints[name])
        except ValueError as error:
            problems.append(f"space.{name}: {error}")
    if not space:
        problems.append("space is empty; name at least one parameter")
    for name, decided in DECIDES.items():
        if name in space and decided in space:
            problems.append(f"space has {name} and {decided}; each decides the other")
    problems += _misfits(parsed)
    if problems:
        raise ValueError("\n".join(problems))
    return parsed


def _misfits(space: Mapping[str, Parameter]) -> list[str]:
    """Name widths and head widths that can be drawn together and do not fit."""
    widths, heads = space.get("model.d_model"), space.get(HEAD_WIDTH)
    if widths is None or heads is None:
        return []
    return [
        f"space: model.d_model {width} is not a multiple of {HEAD_WIDTH} {head}"
        for width in widths.choices
        for head in heads.choices
        if head < 1 or width % head
    ]


def _hints() -> dict[str, Any]:
    """Return the type of each option that training reads."""
    return {
        f"{section.name}.{name}": hint
        for section in dataclasses.fields(RunOptions)
        for name, hint in typing.get_type_hints(section.type).items()
    } | {HEAD_WIDTH: int, D_FF_RATIO: float}


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """A configuration that is tried first."""

    values: dict[str, Value]  # of the space
    others: dict[str, Value]
    """Of options that are not searched; none where the space has no room for it."""
    note: str  # what is tried instead where there is no room; empty: it is tried as it is


def parse_first(first: Sequence[Mapping[str, Any]], space: Mapping[str, Parameter]) -> list[First]:
    """Return the configurations that are to be tried first, as far as the space has room for them.

    Raises:
        ValueError: If a name is no option, or a value outside its dimension has none near it.
    """
    return [nearest_in(space, values, f"first[{number}]") for number, values in enumerate(first)]


def nearest_in(
    space: Mapping[str, Parameter], preset_values: Mapping[str, Any], where: str
) -> First:
    """Return the configuration of a space that is nearest to a given one; see `parse_first`."""
    hints, values = _hints(), {}
    for name, value in preset_values.items():
        if name not in hints or name in SET_BY_SEARCH:
            raise ValueError(f"{where}.{name} is not an option that a search can set")
        for ratio, decided in DECIDES.items():
            if name == decided and ratio in space:
                raise ValueError(f"{where}.{name}: the space has {ratio}; give that instead")
        if name in space:
            try:
                values[name] = space[name].nearest(value)
            except ValueError as error:
                raise ValueError(f"{where}.{name}: {error}") from None
    outside = {name: value for name, value in preset_values.items() if name not in space}
    moved = [
        f"{n} {value} instead of {preset_values[n]}"
        for n, value in values.items()
        if value != preset_values[n]
    ]
    if not moved:
        return First(values=values, others=outside, note="")
    note = f"The configuration tune.{where} lies outside tune.space. Tried instead: "
    note += ", ".join(moved)
    if outside:
        note += f"; of {', '.join(outside)} the current values"
    return First(values=values, others={}, note=note)


def _parse_parameter(content: object, hint: Any) -> Parameter:
    if not isinstance(content, dict) or not (
        set(content) == {"choices"} or {"low", "high"} <= set(content) <= {"low", "high", "log"}
    ):
        raise ValueError(f"found {content!r}, expected {{choices: [...]}} or {{low, high, log}}")
    if "choices" in content:
        choices = content["choices"]
        if not isinstance(choices, list) or not choices:
            raise ValueError(f"choices: found {choices!r}, expected a list of values")
        if any(isinstance(choice, list | dict) for choice in choices):
            raise ValueError(f"choices: found {choices!r}; a list or map cannot be searched")
        return Parameter(choices=tuple(parse_options(v, hint, where="choices") for v in choices))
    log = content.get("log", False)
    hint = next((kind for kind in typing.get_args(hint) if kind in (int, float)), hint)
    if hint not in (int, float):
        raise ValueError("only a number has a range; give {choices: [...]}")
    is_int = hint is int
    low, high = (
        typing.cast(float, parse_options(content[key], hint, where=key)) for key in ("low", "high")
    )
    if not low < high:
        raise ValueError(f"found low {low!r} and high {high!r}, expected low < high")
    if log and low <= 0:
        raise ValueError(f"found low {low} on a logarithmic scale, expected more than 0")
    return Parameter(low=float(low), high=float(high), log=bool(log), is_int=is_int)


def apply_values(base: RunOptions, values: Mapping[str, Value]) -> RunOptions:
    """Return the options with some values replaced.

    Heads follow from the head width, and d_ff from its ratio to d_model, which stays what it is
    unless it, or d_ff, is a value.

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
    if D_FF_RATIO in values:
        values["model.d_ff"] = round(float(values.pop(D_FF_RATIO)) * d_model)
    elif d_model != base.model.d_model:
        values.setdefault("model.d_ff", base.model.d_ff * d_model // base.model.d_model)
    changed = {}
    for section, content in _by_section(values).items():
        before = getattr(base, section)
        # Through the parser, which reads 1 as a float and "pre" as one of two words.
        checked = parse_options(_as_read(before) | content, type(before), where=f"trial: {section}")
        changed[section] = checked
    options = replace(base, **changed)
    check_without_decoder(options)
    return options


def _as_read(options: Any) -> dict[str, Any]:
    """Return options as params.yaml has them, where there are lists and no tuples."""
    values = dataclasses.asdict(options)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


def check_fit(base: RunOptions, space: Mapping[str, Parameter], objective: str = "") -> None:
    """Refuse values that no trial could train with.

    A value may need a certain other one, as a width needs its heads: so each is tried with the
    current parameters, and if they refuse it, with each value of the other dimensions.

    Raises:
        UserError: If a choice or an end of a range is refused every time, or the objective is a
            loss of which there are two kinds; all in one message.
    """
    ends = [(name, value) for name, parameter in space.items() for value in parameter.ends]
    problems = []
    for name, value in ends:
        reason = _refusal(base, {name: value})
        if reason and all(_refusal(base, {name: value, n: v}) for n, v in ends if n != name):
            problems.append(f"tune.space.{name}: {value!r} cannot be trained with ({reason})")
        if objective != "dev_loss" or reason:
            continue
        if apply_values(base, {name: value}).model.has_decoder != base.model.has_decoder:
            problems.append(
                f"tune.space.{name}: {value!r} has no dev loss like the current model's"
                ": one is of tokens, one of CTC; set tune.objectives"
            )
    if problems:
        raise UserError("\n".join(problems))


def _refusal(base: RunOptions, values: Mapping[str, Value]) -> str:
    try:
        apply_values(base, values)
    except ValueError as error:
        return str(error)
    return ""


def current_values(base: RunOptions, space: Mapping[str, Parameter]) -> dict[str, Value]:
    """Return the current parameters as far as they lie in the space; Optuna draws the others."""
    current = _values_of(base)
    return {
        name: current[name] for name, parameter in space.items() if parameter.holds(current[name])
    }


def _values_of(options: RunOptions) -> dict[str, Any]:
    """Return every value by its name in a space."""
    sections, model = dataclasses.asdict(options), options.model
    values = {f"{name}.{key}": value for name in sections for key, value in sections[name].items()}
    ratios = {HEAD_WIDTH: model.d_model // model.heads, D_FF_RATIO: model.d_ff / model.d_model}
    return values | ratios


def overrides_of(base: RunOptions, values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return what the values mean in params.yaml, by section: what was searched and what follows.

    Not the difference to `base`: by the time of adoption the file may have other values.
    """
    after = _values_of(apply_values(base, values))
    names = {DECIDES.get(name, name) for name in values}
    if "model.d_model" in values:
        names.add("model.d_ff")
    return _by_section({name: after[name] for name in sorted(names)})


def _by_section(values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    sections: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        section, key = name.split(".")
        sections.setdefault(section, {})[key] = value
    return sections


Objective = Literal["auto", "dev_loss", "bleu4", "exact", "wer", "gloss_wer"]
HIGHER_IS_BETTER = ("bleu4", "exact")
DECODED = ("bleu4", "exact", "wer", "gloss_wer")  # need the sentences of dev
MAX_SEED = 2**32 - 1  # of NumPy's generator, which Optuna seeds


@checked_dataclass
class TrialLimits:
    """What a trial may cost at most; null sets no limit. A trial beyond it does not train."""

    parameters: Count | None = None  # of the model

    GONE: ClassVar = {
        name: Gone(None, "MLflow has what each trial took") for name in ("memory_mb", "seconds")
    }


@checked_dataclass
class ConfirmOptions:
    """How the best trials are trained again with other seeds, so that no lucky seed wins."""

    top: Natural  # trials confirmed besides the current parameters; 0: none
    seeds: Count  # trainings of each


@checked_dataclass
class TuneOptions:
    """The section `tune` of params.yaml."""

    # Of the search; each trial trains with the first of train.seeds.
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] = 1
    trials: Natural  # finished trials; 0: no search
    epochs: Count  # of a trial, at most
    # A list of one. auto: exact match where the texts are single words, else the dev loss.
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1)]
    storage: str = "sqlite:///optuna.db"  # sqlite:///FILE, or postgresql://USER@HOST/DATABASE
    workers: Count = 1  # processes on this machine
    heartbeat_s: Count = 20  # seconds between a trial's signs of life; dead after three missing
    limits: TrialLimits = TrialLimits()
    confirm: ConfirmOptions = ConfirmOptions(top=1, seeds=2)
    # Of bleu4, see evaluate.score.
    tokenizer: Literal["13a", "intl", "char", "zh", "none", "phoenix_legacy"] = "13a"
    # Tried after the current parameters, from `section.key` to value; if it lies outside the space,
    # what is nearest in it.
    first: list[dict[str, Any]]
    space: dict[str, Any]  # from `section.key` to {choices: [...]} or {low, high, log}

    GONE: ClassVar = {
        "decoding": Gone(None, "bleu4 and wer are of greedy search; remove it"),
        "gloss_rules": Gone("none", "a search compares signs as they are written"),
        "pruner": Gone.fixed("median"),
    }

    def __post_init__(self) -> None:
        if len(self.objectives) > 1:
            raise ValueError(f"objectives: found {', '.join(self.objectives)}, expected one")
        if not self.storage.startswith(("sqlite:///", "postgresql")):
            raise ValueError(
                f"storage: found {self.storage!r}, expected sqlite:///FILE or "
                "postgresql://USER@HOST/DATABASE"
            )
        parse_first(self.first, parse_space(self.space))

    def settle_objective(self, train_texts: Iterable[str]) -> "TuneOptions":
        """Return the options with an objective that fits the training texts instead of `auto`."""
        are_words = headline_metric(train_texts) == Metric.EXACT
        chosen: Objective = "exact" if are_words else "dev_loss"
        return replace(self, objectives=(chosen,)) if self.objective == "auto" else self

    def for_model(self, model: ModelOptions) -> tuple["TuneOptions", list[str]]:
        """Return the options without what such models do not read, and the names of that."""
        if "model.family" in self.space:
            return self, []
        family = model.family
        unread = {
            name
            for values in (self.space, *self.first)
            for name in values
            if family not in READ_BY.get(DECIDES.get(name, name).removeprefix("model."), (family,))
            # One with a decoder has another dev loss.
            or (name == "model.decoder_layers" and not model.decoder_layers)
        }
        space, *first = (
            {name: value for name, value in values.items() if name not in unread}
            for values in (self.space, *self.first)
        )
        return replace(self, space=space, first=first), sorted(unread & self.space.keys())

    @property
    def objective(self) -> Objective:
        """What a trial is judged by."""
        return self.objectives[0]

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        """How the objective is better, in Optuna's words."""
        return "maximize" if self.objective in HIGHER_IS_BETTER else "minimize"
