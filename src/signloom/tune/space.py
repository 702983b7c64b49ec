"""A search space as params.yaml has it comes in; drawn values and what they change go out."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import optuna

from signloom.config import parse_options, parse_value
from signloom.training.run import RunOptions

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


def current_values(base: RunOptions, space: Mapping[str, Parameter]) -> dict[str, Value]:
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


def overrides_of(base: RunOptions, values: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return what the values mean in params.yaml, by section: what was searched and what follows.

    Not the difference to `base`: by the time of adoption the file may say something else.
    """
    after = apply_values(base, values)
    names = {name for name in values if name != HEAD_WIDTH}
    if HEAD_WIDTH in values:
        names.add("model.heads")
    if "model.d_model" in values:
        names.add("model.d_ff")
    changes: dict[str, dict[str, Value]] = {}
    for section, key in sorted(name.split(".") for name in names):
        changes.setdefault(section, {})[key] = getattr(getattr(after, section), key)
    return changes
