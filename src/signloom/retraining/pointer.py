"""Which version is the champion, and how it came to be: one small file, replaced as a whole."""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from signloom.config import UserError, check_version, parse_options, read_json
from signloom.retraining.durable import to_text, write_durably

FORMAT_VERSION = 1

Action = Literal["promote", "rollback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of champion."""

    version: int  # champion since then
    action: Action
    former: int | None
    time: str  # UTC, ISO 8601
    by: str  # who or what decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The content of champion.json."""

    champion: int | None
    challenger: int | None  # the newest version that was added and did not become champion
    history: tuple[Change, ...]

    @property
    def line(self) -> list[int]:
        """The champions that rollbacks lead through, the present one last."""
        line: list[int] = []
        for change in self.history:
            if change.action == "rollback":
                line.pop()
            else:
                line.append(change.version)
        return line

    def move(self, version: int, action: Action, by: str) -> "Pointer":
        """Return the pointer with another champion, now."""
        change = Change(
            version=version,
            action=action,
            former=self.champion,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            by=by,
        )
        challenger = None if self.challenger == version else self.challenger
        return Pointer(champion=version, challenger=challenger, history=(*self.history, change))

    def challenge(self, version: int) -> "Pointer":
        """Return the pointer with a challenger; a champion stays what it is."""
        return self if version == self.champion else replace(self, challenger=version)


def read_pointer(path: Path, *, mend: str) -> Pointer:
    """Read the file; without one there is no champion yet.

    Raises:
        UserError: If it is damaged or of another format version.
    """
    if not path.is_file():
        return Pointer(champion=None, challenger=None, history=())
    content = read_json(path, mend=mend)
    check_version(path, content, FORMAT_VERSION, mend="use the Signloom that wrote it")
    values = {name: value for name, value in content.items() if name != "format_version"}
    try:
        return parse_options(values, Pointer, where=str(path))
    except UserError as error:
        raise UserError(f"{error}\n{mend}") from None


def write_pointer(path: Path, pointer: Pointer) -> None:
    """Replace the file."""
    write_durably(path, to_text({"format_version": FORMAT_VERSION, **asdict(pointer)}))
