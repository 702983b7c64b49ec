"""Small tables beside the manifest: deliveries, rejects, withdrawn clips."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar, cast

from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.tables import tsv_text

DELIVERIES = "deliveries.tsv"
INTAKE_REJECTS = "intake_rejects.tsv"
WITHDRAWN = "withdrawn.tsv"

IN, OUT = "in", "withdrawn"  # states of a delivery


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one ingest brought into the corpus."""

    batch: str
    day: str
    clips: int
    rejects: int  # that were new with it
    source: str  # folders, separated by "; "
    state: str  # in or withdrawn
    reason: str  # of the withdrawal


@dataclass(frozen=True, slots=True)
class IntakeReject:
    """A clip, or a file, that was left where it is."""

    delivery: str  # folder
    where: str  # file or line in it
    clip_id: str
    reason: str  # names no person and no clip
    hint: str  # what to do about it
    fingerprint: str  # of all that was looked at, so that nothing is tried twice in vain
    concerns: str  # clips, signers and files that the reason means, separated by "; "

    @property
    def key(self) -> tuple[str, str, str]:
        """What was rejected: the same file with the same content is the same reject."""
        return self.delivery, self.where, self.fingerprint


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A video that was taken out of the corpus and does not come in again."""

    sha256: str
    file: str
    batch: str
    reason: str


LedgerRow = TypeVar("LedgerRow", Delivery, IntakeReject, Withdrawn)


def read_deliveries(corpus: CorpusOptions) -> list[Delivery]:
    """Return what came into a corpus after its founding, the oldest first."""
    return read_ledger(corpus.folder / DELIVERIES, Delivery)


def read_withdrawn(corpus: CorpusOptions) -> dict[str, Withdrawn]:
    """Return what must not come in again, by the SHA-256 of the video."""
    return {row.sha256: row for row in read_ledger(corpus.folder / WITHDRAWN, Withdrawn)}


def read_rejects(corpus: CorpusOptions) -> list[IntakeReject]:
    """Return what was left out so far and has not been corrected."""
    return read_ledger(corpus.folder / INTAKE_REJECTS, IntakeReject)


def read_ledger(path: Path, kind: type[LedgerRow]) -> list[LedgerRow]:
    """Read the rows of a table; there are none where it does not exist.

    Raises:
        UserError: If it is damaged.
    """
    if not path.is_file():
        return []
    build = cast("Callable[..., LedgerRow]", kind)
    names = [field.name for field in fields(kind)]
    counts = {field.name for field in fields(kind) if field.type in (int, "int")}
    header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    rows = [line.split("\t") for line in lines]
    try:
        if header.split("\t") != names:
            raise ValueError(f"found the columns {header!r}, expected {', '.join(names)}")
        return [
            build(*(int(v) if n in counts else v for n, v in zip(names, row, strict=True)))
            for row in rows
        ]
    except ValueError as error:
        hint = "restore it with `dvc checkout`, or from a backup"
        if path.name == INTAKE_REJECTS:
            hint = "remove it: the next `signloom ingest` lists again what it leaves out"
        raise UserError(f"{path} is damaged ({error}); {hint}") from None


def ledger_text(rows: Sequence[LedgerRow], kind: type[LedgerRow]) -> str:
    """Return the table of some rows; line ends and tabs within a cell become spaces."""
    return tsv_text([field.name for field in fields(kind)], (asdict(row).values() for row in rows))


def changed_ledgers(corpus: CorpusOptions, ledgers: Mapping[str, str]) -> dict[str, str]:
    """Return the tables, by file name, that differ from what lies in the corpus.

    A table without rows is not made for its own sake.
    """
    changed = {}
    for name, text in ledgers.items():
        path = corpus.folder / name
        there = path.read_text(encoding="utf-8") if path.is_file() else None
        if text != there and not (there is None and text.count("\n") == 1):
            changed[name] = text
    return changed
