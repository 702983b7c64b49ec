"""Options: sections of params.yaml as typed dataclasses that declare their ranges."""

import contextlib
import dataclasses
import datetime
import difflib
import errno
import functools
import json
import stat
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pydantic
import pydantic.dataclasses
import ruamel.yaml

from signloom.errors import UserError
from signloom.files import SEAL, check_seal

T = TypeVar("T")

Count = Annotated[int, pydantic.Field(ge=1)]
Natural = Annotated[int, pydantic.Field(ge=0)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**32)]  # what every library takes
Positive = Annotated[float, pydantic.Field(gt=0)]
NonNegative = Annotated[float, pydantic.Field(ge=0)]
ClipSeconds = Annotated[float, pydantic.Field(ge=0, le=3600)]  # of a clip, which has no hour
ChangeSize = Annotated[float, pydantic.Field(ge=0, le=10)]  # of clips in training
Share = Annotated[float, pydantic.Field(ge=0, le=1)]
ShareBelowOne = Annotated[float, pydantic.Field(ge=0, lt=1)]
MEMORY_MB = 2_000  # that the numbers of one file from elsewhere may take, 10^6 bytes
MIN_FPS, MAX_FPS = 1.0, 1000.0  # at another rate a clip would be resampled to millions of frames
FrameRate = Annotated[float, pydantic.Field(ge=MIN_FPS, le=MAX_FPS)]  # frames a second
MAX_SIDE = 32_768
Side = Annotated[int, pydantic.Field(ge=1, le=MAX_SIDE)]  # of a picture, pixels

_MOST_YAML, _MOST_JSON = 2_000_000, 500_000_000  # bytes of a file that is read as a whole
_MOST_SHOWN = 200  # characters of a wrong value
_MOST_NAMED = 5  # wrong values of a damaged file
_WRITABLE = (str, int, float, types.NoneType)  # by JSON and DVC; bool is an int
_STRICT = pydantic.ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Gone(typing.NamedTuple):
    """A removed option: a file that has it switched off is read, any other is not."""

    off: object
    instead: str  # what to do

    @classmethod
    def fixed(cls, value: object) -> "Gone":
        """Return what became of an option that is a constant now."""
        return cls(value, f"it is always {value}")


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def checked_dataclass(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose values are checked against its types and ranges.

    What several fields must be together is checked by a `__post_init__`. A class whose
    files may hold a key that it has no more names it in `GONE`, with a `Gone`.
    """
    make = pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=_STRICT)
    options_class: Any = make(cls)
    accept = options_class.__init__

    @functools.wraps(accept)
    def __init__(self: Any, **values: Any) -> None:  # noqa: N807
        try:
            accept(self, **values)
        except pydantic.ValidationError as error:
            raise UserError(
                "\n".join(_describe(e, options_class, "") for e in error.errors())
            ) from None

    options_class.__init__ = __init__
    return typing.cast("type[T]", options_class)


def shape(**fields: Any) -> Any:
    """Return what a map of a file must have, for `check_shape`.

    Args:
        fields: Types by key; in a pair with its default what may be missing.
    """
    hints: dict[str, Any] = {
        name: hint if isinstance(hint, tuple) else (hint, ...) for name, hint in fields.items()
    }
    config = pydantic.ConfigDict(strict=True, extra="ignore")
    return pydantic.create_model("Shape", __config__=config, **hints)


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"found {value}, expected a number")
    return value


NO_BOOL = pydantic.BeforeValidator(_no_bool)  # with a Literal of numbers: True == 1 in Python


def load_section(path: Path, section: str, cls: type[T]) -> T:
    """Read one section of a parameters file.

    Args:
        cls: Made by `checked_dataclass`; its fields are the section's keys, classes in it are
            nested maps.

    Returns:
        The options. A field with a default may be missing in the file: few people change it.

    Raises:
        UserError: If the file or section is missing, a key is unknown or missing, or a value is of
            another type or out of range. All problems come in one message.
    """
    values = load_params(path)
    if section not in values:
        raise UserError(f"{path}: section `{section}` is missing; {_suggest(section, values)}")
    return parse_options(values[section], cls, where=f"{path}: {section}")


_kept_texts: dict[Path, str] = {}


def keep_params(path: Path) -> None:
    """Read a parameters file for the rest of this process: `load_params` gives what it holds now.

    So a stage that compares its parameters with the file at its end works with what it compares.

    Raises:
        UserError: If the file cannot be read.
    """
    if path.is_file():
        _kept_texts[path.resolve()] = _read_text(path, _MOST_YAML)


def load_params(path: Path, *, may_be_empty: bool = False, is_anew: bool = False) -> dict[str, Any]:
    """Read a whole parameters file as plain maps, for the record of a run.

    Args:
        may_be_empty: Whether a file without a key is an empty map, and no error.
        is_anew: Whether it is read as it is now, also after `keep_params`.

    Raises:
        UserError: If the file is missing, is not YAML, is not a map, or holds what neither DVC nor
            JSON can write: dates without quotes, above all.
    """
    with explained(path, "correct it, or run from the project's root", fault="is not valid YAML"):
        text = None if is_anew else _kept_texts.get(path.resolve())
        values = read_yaml(_read_text(path, _MOST_YAML) if text is None else text)
        json.dumps(values, default=str, skipkeys=True)  # refuses circles
    if problems := [f"{path}: {problem}" for problem in _find_unwritable(values, "")]:
        raise UserError("\n".join(problems))
    if values is None and may_be_empty:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected a map of sections, found {type(values).__name__}")
    return values


def _find_unwritable(value: object, position: str) -> Iterator[str]:
    """Describe the keys and values of a YAML file that DVC and JSON cannot write."""
    if isinstance(value, dict):
        for key, content in value.items():
            if isinstance(key, _WRITABLE):
                yield from _find_unwritable(content, f"{position}.{key}".lstrip("."))
            else:
                yield _describe_unwritable(key, position, "text as a key")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unwritable(item, f"{position}[{index}]")
    elif not isinstance(value, _WRITABLE):
        yield _describe_unwritable(value, position, "text, a number, a list or a map")


def _describe_unwritable(value: object, position: str, expected: str) -> str:
    if isinstance(value, datetime.date):
        found = f"the date {value.isoformat()}"
    else:
        found = f"a {type(value).__name__}, {_shorten(value)}"
    return f"{position}: found {found}, expected {expected}; put it in quotes".lstrip(": ")


@contextlib.contextmanager
def explained(path: Path, hint: str, *, fault: str = "is damaged") -> Iterator[None]:
    """Turn what can go wrong with reading a file into the message of a user's error."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {hint}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; {hint}") from None
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is 0x{error.object[error.start]:02x}, expected UTF-8"
        raise UserError(f"{path}: {problem}; {hint}") from None
    except RecursionError:
        raise UserError(f"{path}: maps or lists are nested too deeply; {hint}") from None
    except (ruamel.yaml.error.YAMLError, TypeError, ValueError) as error:
        raise UserError(f"{path} {fault} ({error}); {hint}") from None


def _read_text(path: Path, most_bytes: int) -> str:
    """Read a whole file, but no device or pipe, which may have no end.

    Raises:
        OSError: If it cannot be read, is no regular file or is larger than any that is meant.
    """
    state = path.stat()
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file but a device, pipe or socket")
    if state.st_size > most_bytes:
        raise OSError(
            errno.EFBIG, f"found {state.st_size:,} bytes, expected at most {most_bytes:,}"
        )
    return path.read_text(encoding="utf-8")


def read_yaml(text: str) -> Any:
    """Return the content of a YAML text; unlike PyYAML, a key that occurs twice is refused."""
    return ruamel.yaml.YAML(typ="safe", pure=True).load(text)


def parse_options(values: object, kind: type[T], *, where: str) -> T:
    """Turn what a YAML or JSON file says into a typed value; see `load_section` for the errors.

    Args:
        values: Plain maps, lists, numbers and texts.
        kind: A class made by `checked_dataclass`, or any other type.
        where: How messages name the position, e.g. `params.yaml: train`.

    Raises:
        UserError: If a key is unknown or missing, or a value is of another type or out of range;
            a line for each problem.
    """
    config = None if dataclasses.is_dataclass(kind) else _STRICT
    adapter = pydantic.TypeAdapter(kind, config=config)
    text = json.dumps(values, default=str)
    try:
        # As JSON, strictly: a list becomes a tuple and a text a path, but true is not 1.
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        problems = error.errors()
    # Some YAML readers take `1e-3` for text: accept what Python calls a number.
    plain = {"": json.loads(text)}
    texts = [("", *problem["loc"]) for problem in problems if problem["type"] == "float_type"]
    messages = [
        _drop_gone(plain, problem, kind) for problem in problems
    ]  # all, not up to the first
    if any([_make_number(plain, path) for path in texts] + messages):
        return parse_options(plain[""], kind, where=where)
    raise UserError("\n".join(_describe(problem, kind, where) for problem in problems))


def parse_number(text: str, kind: Any) -> Any:
    """Turn what a person typed into a number.

    Args:
        kind: Type and range, as `Count` and the fields of options have them.

    Raises:
        UserError: If it is of another type or out of range.
    """
    try:
        config = pydantic.ConfigDict(allow_inf_nan=False)
        return pydantic.TypeAdapter(kind, config=config).validate_strings(text)
    except pydantic.ValidationError as error:
        raise UserError(_describe(error.errors()[0], kind, "").lstrip(": ")) from None


def _make_number(values: Any, position: Sequence[int | str]) -> bool:
    """Turn a text that is a number into it, in its place; return whether it is one."""
    *path, last = position
    for part in path:
        values = values[part]
    if isinstance(values[last], str):
        with contextlib.suppress(ValueError):
            values[last] = float(values[last])
    return isinstance(values[last], float)


def _drop_gone(values: Any, problem: Mapping[str, Any], kind: Any) -> bool:
    """Drop a removed option that is switched off; return whether it is one."""
    if problem["type"] != "unexpected_keyword_argument":
        return False
    *path, name = problem["loc"]
    former = getattr(_class_at(kind, path), "GONE", {}).get(name)
    if former is None or problem["input"] != former.off:
        return False
    for part in ("", *path):
        values = values[part]
    del values[name]
    return True


_EXPECTED = {
    "int_type": "a whole number", "float_type": "a number", "bool_type": "true or false",
    "int_parsing": "a whole number", "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number", "float_parsing": "a number",
    "finite_number": "a finite number", "string_type": "text", "list_type": "a list",
    "tuple_type": "a list", "dict_type": "a map", "dataclass_type": "a map of options",
    "model_type": "a map",
    "greater_than": "more than {gt:.10g}", "greater_than_equal": "at least {ge:.10g}",
    "less_than": "less than {lt:.10g}", "less_than_equal": "at most {le:.10g}",
    "too_short": "{min_length} or more", "multiple_of": "a multiple of {multiple_of}",
    "literal_error": "{expected}",
}  # fmt: skip


def _describe(problem: Mapping[str, Any], kind: Any, where: str) -> str:
    """Return one of pydantic's errors in our words."""
    *path, name = problem["loc"] or [""]
    position = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"])
    subject = f"{where}{position}".replace(": .", ": ").strip(".: ")
    value = problem["input"]
    if problem["type"] == "unexpected_keyword_argument":
        owner = _class_at(kind, path)
        if name in (former := getattr(owner, "GONE", {})):
            return f"{subject} is no option any more; {former[name].instead}"
        names = [field.name for field in dataclasses.fields(owner)]
        return f"{subject} is not an option; {_suggest(name, names)}"
    if problem["type"] == "missing":
        return f"{subject} is missing"
    if problem["type"] == "value_error":
        return f"{subject}: {problem['ctx']['error']}".lstrip(": ")
    if problem["type"] in _EXPECTED:
        expected = _EXPECTED[problem["type"]].format_map(problem.get("ctx", {}))
        return f"{subject}: found {_shorten(value)}, expected {expected}"
    return f"{subject}: found {_shorten(value)}: {problem['msg']}"


def _shorten(value: object) -> str:
    """Return a value as a message shows it: a file may hold a megabyte where a number belongs."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _class_at(kind: Any, path: Sequence[int | str]) -> Any:
    """Return the dataclass at a position of nested options."""
    for part in path:
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind)[str(part)]
        else:  # list[X], tuple[X, ...] or dict[str, X]
            kind = typing.get_args(kind)[0 if isinstance(part, int) else 1]
        if isinstance(kind, types.UnionType):  # a dataclass or None
            kind = typing.get_args(kind)[0]
    return kind


def read_json(path: Path, *, hint: str) -> Any:
    """Read a JSON file that a stage wrote.

    Args:
        hint: What to do if it is missing or torn, as the end of the message.

    Raises:
        UserError: If it is missing, cannot be read, is not JSON or differs from its checksum.
    """
    with explained(path, hint):
        text = _read_text(path, _MOST_JSON)
        check_seal(text.encode())
        content = json.loads(text)
        if isinstance(content, dict):
            content.pop(SEAL, None)
        return content


def read_text(path: Path, *, hint: str) -> str:
    """Read a text file that a person wrote, in UTF-8 with a mark at its begin or without.

    Args:
        hint: What to do if it cannot be read, as the end of the message.

    Raises:
        UserError: If it is missing, too large, no file or not UTF-8.
    """
    with explained(path, hint):
        return _read_text(path, _MOST_JSON).removeprefix("\ufeff")


def read_record(path: Path, kind: type[T], *, hint: str, version: int | None = None) -> T:
    """Read a JSON file whose keys and types are known; other keys are ignored.

    Args:
        kind: Made by `checked_dataclass`: the keys that are read.
        hint: What to do if it is missing, torn or wrong, as the end of the message.
        version: The `format_version` that is read, if the file has one.

    Raises:
        UserError: If it cannot be read, is of another version, or a key is missing or of another
            type; all of it in one message.
    """
    content = read_json(path, hint=hint)
    if version is not None:
        check_version(path, content, version, hint=hint)
    return parse_record(content, kind, where=str(path), hint=hint)


def parse_record(content: object, kind: type[T], *, where: str, hint: str) -> T:
    """Turn what a JSON file says into a typed value; arguments and errors as of `read_record`."""
    if isinstance(content, dict):
        names = {field.name for field in dataclasses.fields(typing.cast("Any", kind))}
        content = {name: value for name, value in content.items() if name in names}
    try:
        return parse_options(content, kind, where=f"{where}: ")
    except UserError as error:
        raise UserError(f"{error}\n{hint}") from None


def check_shape(content: object, kind: Any, *, where: Path, hint: str) -> Any:
    """Return what a file that a command wrote holds, as it is, if readers can rely on it.

    Args:
        content: Plain maps, lists, numbers and texts.
        kind: Of `shape`: the keys that are read; others may be there.
        where: The file.
        hint: What to do if it is damaged, as the end of the message.

    Raises:
        UserError: If a key is missing or of another type.
    """
    try:
        # Half a character, as names of files that are not UTF-8 have it, is a text like any other.
        text = json.dumps(content, ensure_ascii=False).encode(errors="replace")
        pydantic.TypeAdapter(kind).validate_json(text)
    except pydantic.ValidationError as error:
        wrong_first = sorted(error.errors(), key=lambda problem: problem["type"] == "missing")
        messages = [_describe(problem, kind, f"{where}: ") for problem in wrong_first]
        more = [f"and {len(messages) - _MOST_NAMED} more"] * (len(messages) > _MOST_NAMED)
        listed = "\n".join([*messages[:_MOST_NAMED], *more])
        raise UserError(f"{listed}\nthe file is damaged; {hint}") from None
    return content


def get_map(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a section of `load_params`; an empty one where there is none or it is no map."""
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def flatten(values: Mapping[str, Any], *, separator: str = ".") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested maps with their keys joined by the separator."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            inner = flatten(value, separator=separator)
            yield from ((f"{key}{separator}{name}", leaf) for name, leaf in inner)
        else:
            yield str(key), value


def check_version(path: Path, content: Any, expected: int, *, hint: str) -> None:
    """Refuse a file of another format version.

    Raises:
        UserError: If `content` has another `format_version`, or none.
    """
    version = content.get("format_version", "none") if isinstance(content, dict) else "none"
    if version != expected:
        raise UserError(
            f"{path}: found format version {str(version)[:20]}, this Signloom reads {expected}; "
            f"{hint}"
        )


def _suggest(name: str, names: Iterable[str]) -> str:
    """The nearest known name, or all of them when none is near."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(sorted(names))}"
