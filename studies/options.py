"""Options of a study: its own, and the project's parameters with changes."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from signloom.config import load_params, parse_options
from signloom.models.seq2seq import ModelOptions
from signloom.training.options import TrainOptions

T = TypeVar("T", ModelOptions, TrainOptions)
S = TypeVar("S")


def change_options(options: T, changes: Mapping[str, Any], where: str) -> T:
    """Return options with some of them changed, checked as if they stood in a file.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return parse_options({**values, **changes}, type(options), where=where)


def load_study(params: Path, kind: type[S], *, over: str = "") -> S:
    """Read the section `study` of a study's parameters.

    Args:
        params: Its params.yaml.
        kind: Made by `checked_dataclass`.
        over: A section to put over it, such as `long`, whose settings take hours; empty: none.

    Raises:
        UserError: If something is missing or refused.
    """
    values = load_params(params)
    study = {**values["study"], **(values[over] if over else {})}
    return parse_options(study, kind, where=f"{params}: study")
