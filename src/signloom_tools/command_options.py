"""Options of commands, each declared once: as a field of a dataclass."""

import argparse
import math
import types
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from signloom.config import parse_number
from signloom.errors import UserError

T = TypeVar("T")
_OPTION, _GROUP = "option", "group"  # keys of a field's metadata


def option(
    meaning: str,
    default: Any = MISSING,
    *,
    flag: str = "",
    kind: Any = None,
    read: Callable[[Any], Any] | None = None,
    **more: Any,
) -> Any:
    """Declare a field that an option of a command fills; its type says how argparse reads it.

    Args:
        meaning: For the help.
        default: Without one the option must be given.
        flag: Other than `--` and the field's name; the name itself for a positional argument.
        kind: Type and range of what is typed; None: the field's.
        read: Turns what was typed into the field's value.
        more: Further arguments of `add_argument`.
    """
    shown = default not in (MISSING, None, "", (), {}, False, math.inf)
    meaning += f" ({default})" if shown else ""
    more = {"help": meaning, **(_how_to_read(kind) if kind else {}), **more}
    metadata = {_OPTION: (flag, default, read, more)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def argument(meaning: str, metavar: str, **more: Any) -> Any:
    """Declare a field that a positional argument of a command fills."""
    default = None if more.get("nargs") == "?" else MISSING
    return option(meaning, default, flag="positional", metavar=metavar, **more)


def group(
    options: type, title: str = "", *, only: Collection[str] = (), exclusive: bool = False
) -> Any:
    """Declare a field that is a dataclass of options itself.

    Args:
        options: The dataclass, whose fields all have defaults.
        title: Heading in the help; empty: none.
        only: Names of the options that this command has; empty: all.
        exclusive: Whether at most one of them may be given.
    """
    return field(default_factory=options, metadata={_GROUP: (title, only, exclusive)})


def describe_command(parser: argparse.ArgumentParser, run: Callable[[Any], None]) -> None:
    """Give a parser the options of a function, which are its only argument, and their help."""
    (options,) = (kind for name, kind in typing.get_type_hints(run).items() if name != "return")
    parser.description = options.__doc__
    add_options(parser, options)
    parser.set_defaults(run=lambda namespace: run(read_options(options, namespace)))


def add_options(parser: Any, options: type, only: Collection[str] = ()) -> None:
    """Add the options that a dataclass declares, or those of some names, to a parser."""
    kinds = typing.get_type_hints(options, include_extras=True)
    for declared in _declared(options, only):
        if _GROUP in declared.metadata:
            title, inner, exclusive = declared.metadata[_GROUP]
            has_title = title and isinstance(parser, argparse.ArgumentParser)  # a group has none
            target = parser.add_argument_group(title) if has_title else parser
            target = target.add_mutually_exclusive_group() if exclusive else target
            add_options(target, kinds[declared.name], inner or only)
            continue
        flag, default, _, more = declared.metadata[_OPTION]
        how = {"default": None, **_how_to_read(kinds[declared.name]), **more}
        if flag == "positional":
            parser.add_argument(declared.name, **how)
        else:
            how |= {"dest": declared.name, "required": default is MISSING}
            parser.add_argument(flag or _flag(declared.name), **how)


def read_options(options: type[T], namespace: argparse.Namespace, only: Collection[str] = ()) -> T:
    """Return the options that were given on the command line."""
    kinds = typing.get_type_hints(options)
    values = {}
    for declared in _declared(options, only):
        if _GROUP in declared.metadata:
            inner = declared.metadata[_GROUP][1] or only
            values[declared.name] = read_options(kinds[declared.name], namespace, inner)
            continue
        value, (flag, _, read, _) = getattr(namespace, declared.name), declared.metadata[_OPTION]
        if value is None:
            continue  # the field's default
        if read:
            value = read(value)
        elif typing.get_origin(kinds[declared.name]) is dict:
            value = read_pairs(value, flag or _flag(declared.name))
        values[declared.name] = value
    return options(**values)


def given_flags(options: Any) -> Iterator[str]:
    """Yield the flags of the options whose values differ from their defaults."""
    for declared in _declared(type(options)):
        if _GROUP in declared.metadata:
            yield from given_flags(getattr(options, declared.name))
        elif getattr(options, declared.name) != declared.metadata[_OPTION][1]:
            yield declared.metadata[_OPTION][0] or _flag(declared.name)


def read_pairs(
    texts: Sequence[str], flag: str, allowed: Sequence[str] = (), *, may_be_empty: bool = False
) -> dict[str, str]:
    """Parse `KEY=VALUE` arguments of a flag.

    Raises:
        UserError: If one is not of that form, or its key is not allowed or occurs twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if (
            not mark
            or not (value or may_be_empty)
            or key in pairs
            or (allowed and key not in allowed)
        ):
            allowed_keys = f"; KEY is one of {', '.join(allowed)}" if allowed else ""
            raise UserError(
                f"{flag}: found {text!r}, expected KEY=VALUE, each key once{allowed_keys}"
            )
        pairs[key] = value
    return pairs


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _declared(options: Any, only: Collection[str] = ()) -> Iterator[Field[Any]]:
    """Yield the fields that are options, all or those of some names, and groups of options."""
    for declared in fields(options):
        if _GROUP in declared.metadata or (
            _OPTION in declared.metadata and (not only or declared.name in only)
        ):
            yield declared


def _how_to_read(kind: Any) -> dict[str, Any]:
    """Return the arguments of `add_argument` that follow from a field's type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _how_to_read(next(member for member in inner if member is not type(None)))
    if origin is Literal:
        return {"choices": inner}
    if origin is Sequence:
        return {"nargs": "+", **_how_to_read(inner[0])}
    if kind is bool:
        return {"action": "store_true"}
    if origin is dict:
        return {"nargs": "+", "action": "extend"}
    if kind in (str, Path):
        return {"type": kind}
    return {"type": number_of(kind)}


def number_of(kind: Any) -> Callable[[str], Any]:
    """Return the `type` of an option that is a number of a type with a range."""

    def read(text: str) -> Any:
        try:
            return parse_number(text, kind)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
