"""Which column of a table the values of each field come from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from signloom.errors import UserError
from signloom_tools.importing.cells import BOX_ORDER, COCO_BOX_ORDER, MS_ASL_BOX_ORDER
from signloom_tools.importing.column_names import IN_MS, INDEX, KNOWN_NAMES, plain_name

_NUMBERED = {"video": "1", "text": "2"}  # of tables of two columns that nothing names


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where the values of a field come from: a column, or one value for every row."""

    column: str | None
    value: str = ""
    pattern: re.Pattern[str] | None = None  # its first group is the value
    guessed: bool = False
    in_ms: bool = False  # a time
    order: str = ""  # of the numbers of a box

    def of(self, cells: Mapping[str, str]) -> str:
        """Return the value of a row; empty where it has none."""
        text = self.value if self.column is None else cells.get(self.column, "")
        if self.pattern is None:
            return text
        match = self.pattern.search(text)
        return (match[1] or "") if match else ""

    def __str__(self) -> str:
        """How a person would say it."""
        if self.column is None:
            return f"{self.value!r} in every row"
        picked = f", what {self.pattern.pattern!r} finds in it" if self.pattern else ""
        order = f": {self.order}" if self.order else ""
        order += ", milliseconds" if self.in_ms else ""
        return self.column + order + picked + (" (guessed)" if self.guessed else "")


Sources = dict[str, FieldSource]


def find_sources(
    header: Sequence[str],
    columns: Mapping[str, str] = MappingProxyType({}),
    constants: Mapping[str, str] = MappingProxyType({}),
    patterns: Mapping[str, str] = MappingProxyType({}),
) -> Sources:
    """Decide where each field comes from: as given, or by a known name.

    Args:
        columns: Field and column, as given; `start_ms` and such are times in milliseconds.
        constants: Field and value of every row, as given.
        patterns: Field and regular expression with one group, as given.

    Raises:
        UserError: If a given column does not exist, or a pattern is none.
    """
    for field, column in columns.items():
        if column not in header:
            raise UserError(
                f"--column {field}={column}: no such column; the table has {', '.join(header)}"
            )
    given_sources = {
        IN_MS.get(name, name): FieldSource(column, in_ms=name in IN_MS)
        for name, column in columns.items()
    }
    given_sources |= {name: FieldSource(None, value) for name, value in constants.items()}
    sources = {**_guess(header, given_sources), **given_sources}
    for field, pattern in patterns.items():
        source = sources.get(field)
        if source is None or source.column is None:
            raise UserError(f"--pick {field}: say with --column {field}=COLUMN where to look")
        compiled = compile_expression(f"--pick {field}", pattern)
        if compiled.groups != 1:
            raise UserError(f"--pick {field}: {pattern!r} needs one pair of round brackets")
        sources[field] = replace(source, pattern=compiled, guessed=False)
    if box := sources.get("box"):
        sources["box"] = replace(box, order=_order_of_box(box.column or "", header))
    if "duration_s" in sources and ("start_s" not in sources or "end_s" in sources):
        if not sources["duration_s"].guessed:
            raise UserError(
                "--column duration_s: a duration counts from a start where the table has no end; "
                "give --column start_s=COLUMN, and neither end_s nor a column of its name"
            )
        del sources["duration_s"]  # of the film
    for name in {*IN_MS.values()} & sources.keys():
        if (sources[name].column or "").lower().endswith("_ms"):
            sources[name] = replace(sources[name], in_ms=True)
    return {name: sources[name] for name in KNOWN_NAMES if name in sources}


def _order_of_box(column: str, header: Sequence[str]) -> str:
    """Return in which order a column has the edges of a box."""
    if plain_name(column) == "bbox_xywh":
        return COCO_BOX_ORDER
    return MS_ASL_BOX_ORDER if column == "box" and "org_text" in header else BOX_ORDER


def _guess(header: Sequence[str], given_sources: Mapping[str, FieldSource]) -> Sources:
    """Return fields whose column has a known name and is not given to another field."""
    used_columns = {source.column for source in given_sources.values()}
    plain = {plain_name(name): name for name in header if name not in used_columns}
    sources: Sources = {}
    for field, names in KNOWN_NAMES.items():
        known_names = (
            (*names, _NUMBERED.get(field, "")) if {"1", "3"} & {*header} == {"1"} else names
        )
        match = next((plain[name] for name in known_names if name in plain), None)
        if field not in given_sources and match is not None:
            sources[field] = FieldSource(match, guessed=True)
            plain = {key: name for key, name in plain.items() if name != match}
    if INDEX in plain and not {"clip_id", "video"} & {*given_sources, *sources}:
        sources["clip_id"] = FieldSource(INDEX, guessed=True)
    return sources


def compile_expression(option: str, pattern: str) -> re.Pattern[str]:
    """Return the regular expression that an option gives.

    Raises:
        UserError: If it is none.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(f"{option}: {pattern!r} is no regular expression ({error})") from None
