"""Options of a study: the project's parameters with changes."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from signloom.config import parse_options
from signloom.models.seq2seq import ModelOptions
from signloom.training.options import TrainOptions

T = TypeVar("T", ModelOptions, TrainOptions)


def change_options(options: T, changes: Mapping[str, Any], where: str) -> T:
    """Return options with some of them changed, checked as if they stood in a file.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return parse_options({**values, **changes}, type(options), where=where)
