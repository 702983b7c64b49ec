"""Options: sections of params.yaml as typed, checked dataclasses."""

import contextlib
import dataclasses
import difflib
import io
import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import ruamel.yaml

from signloom.errors import UserError
from signloom.files import write_file

T = TypeVar("T")


def load_section(path: Path, section: str, cls: type[T]) -> T:
    """Read one section of a parameters file into an options dataclass.

    Args:
        path: The parameters file (YAML).
        section: Its top-level key.
        cls: A dataclass whose fields are the section's keys; nested dataclasses are nested maps.

    Returns:
        The options; every field comes from the file, so a knob has one home.

    Raises:
        UserError: If the file or section is missing, a key is unknown, missing or of another
            type, or the dataclass itself refuses a value. All key problems come in one message.
    """
    values = load_params(path)
    if section not in values:
        raise UserError(f"{path}: section `{section}` is missing; {_hint(section, values)}")
    return parse_options(values[section], cls, where=f"{path}: {section}")


def load_params(path: Path) -> dict[str, Any]:
    """Read a whole parameters file as plain maps, for the record of a run.

    Raises:
        UserError: If the file is missing, is not YAML or is not a map.
    """
    try:
        # Unlike PyYAML, this loader refuses a key that stands twice.
        values = ruamel.yaml.YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; run from the project's root") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ruamel.yaml.error.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected a map of sections, found {type(values).__name__}")
    return values


def update_params(path: Path, overrides: Mapping[str, Mapping[str, object]]) -> tuple[str, str]:
    """Change values of a parameters file, keeping its comments and order.

    Returns:
        The file's text before and after.

    Raises:
        UserError: If the file lacks a section or key that is to change.
    """
    load_params(path)  # for its errors
    before = path.read_text(encoding="utf-8")
    editor = ruamel.yaml.YAML()  # unlike PyYAML, it remembers comments
    editor.preserve_quotes = True
    editor.width = 4096  # never wrap a line that was not wrapped
    content = editor.load(before)
    for section, values in overrides.items():
        for key, value in values.items():
            if key not in content.get(section, {}):
                raise UserError(f"{path} has no {section}.{key}, which was to become {value!r}")
            content[section][key] = value
    buffer = io.StringIO()
    editor.dump(content, buffer)
    after = buffer.getvalue()
    write_file(path, after)
    return before, after


def parse_options(values: object, cls: type[T], *, where: str) -> T:
    """Turn a plain map into an options dataclass; see `load_section` for the errors.

    Args:
        values: The map, e.g. from YAML or JSON.
        cls: The dataclass.
        where: How messages name the place, e.g. `params.yaml: train`.
    """
    if not isinstance(values, dict):
        raise UserError(f"{where}: expected a map of options, found {values!r}")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    problems = [
        f"{where}.{key} is not an option; {_hint(str(key), names)}"
        for key in values
        if key not in names
    ]
    problems += [f"{where}.{name} is missing" for name in names if name not in values]
    parsed: dict[str, object] = {}
    for name in names:
        if name in values:
            try:
                parsed[name] = parse_value(values[name], hints[name], where=f"{where}.{name}")
            except UserError as error:
                problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    try:
        return cls(**parsed)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def parse_value(value: object, hint: Any, *, where: str) -> object:
    """Check one value against a type, converting only what loses nothing.

    Raises:
        UserError: If the value is of another type, or a number is not finite.
    """
    if dataclasses.is_dataclass(hint):
        return parse_options(value, typing.cast("type[object]", hint), where=where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in args:
            return None
        (hint,) = [arg for arg in args if arg is not type(None)]
        return parse_value(value, hint, where=where)
    if origin is typing.Literal:
        # `True == 1` in Python, so the type is compared as well.
        if any(value == choice and type(value) is type(choice) for choice in args):
            return value
        raise UserError(f"{where}: found {value!r}, expected one of {', '.join(map(repr, args))}")
    if origin in (tuple, list) and isinstance(value, list):
        items = [parse_value(item, args[0], where=f"{where}[{i}]") for i, item in enumerate(value)]
        return tuple(items) if origin is tuple else items
    if origin is dict and isinstance(value, dict):
        return {
            str(key): parse_value(item, args[1], where=f"{where}.{key}")
            for key, item in value.items()
        }
    if hint is float and type(value) in (int, str):
        # Some YAML readers take `1e-3` for text: accept what Python calls a number.
        with contextlib.suppress(ValueError):
            value = float(typing.cast("int | str", value))
    if type(value) is float and not math.isfinite(value):
        raise UserError(f"{where}: found {value}, expected a finite number")
    if hint in (int, float, str, bool) and type(value) is hint:
        return value
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is Any:
        return value
    expected = getattr(hint, "__name__", str(hint))
    raise UserError(f"{where}: found {value!r} ({type(value).__name__}), expected {expected}")


def read_json(path: Path, *, hint: str) -> Any:
    """Read a JSON file that a stage wrote.

    Args:
        path: The file.
        hint: What to do if it is missing or torn, as the end of the message.

    Raises:
        UserError: If it is missing, cannot be read or is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {hint}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {hint}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); {hint}") from None


def check_version(path: Path, content: Any, expected: int, *, hint: str) -> None:
    """Refuse a file of another format version.

    Raises:
        UserError: If `content` has another `format_version`, or none.
    """
    found = content.get("format_version", "none") if isinstance(content, dict) else "none"
    if found != expected:
        raise UserError(
            f"{path}: found format version {found}, this Signloom reads {expected}; {hint}"
        )


def _hint(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them when none is near."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(sorted(known))}"
