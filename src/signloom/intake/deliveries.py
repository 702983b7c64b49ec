"""Deliveries: folders of new clips with their tables.

A folder with a table brings the rows of the table, whose videos lie anywhere below it. In a folder
without one, each video has a text file of its name beside it, whose first line is the sentence.
"""

import math
import os
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from signloom.corpus.manifest import VIDEO_SUFFIXES, read_table
from signloom.errors import UserError
from signloom.importing.new_corpus import NAMES, VideoFolder, stem
from signloom.importing.user_tables import Row, Sources, UserTable, find_sources, read_user_table

_VERSION_MARK = b"# signloom-manifest"  # the first line of our own manifests
_FIELDS = ("clip_id", "video", "text", "signer", "split", "start_s", "end_s", "gloss", "language")

TableRow = tuple[str, dict[str, str], list[tuple[str, str]]]
"""Where it stands, its cells by the manifest's columns, what is wrong with it and what to do."""


def read_delivery_table(path: Path) -> Iterator[TableRow]:
    """Yield the rows of a table; if it cannot be read at all, one that says why."""
    try:
        table = _read(path)
        sources = _find_columns(table)
    except UserError as error:
        yield path.name, {}, [(" ".join(str(error).split()), "mend the table")]
        return
    for line, why in table.torn:
        yield (
            f"{path.name} line {line}",
            {},
            [(f"its cells cannot be told apart: {why}", "mend it")],
        )
    for row in table.rows:
        values = {
            name: " ".join(source.of(row.cells).split())
            for name, source in sources.items()
            if name in _FIELDS
        }
        yield f"{path.name} line {row.line}", values, []


def _read(path: Path) -> UserTable:
    """Read any table that `signloom init` understands, or a manifest."""
    with path.open("rb") as file:
        is_manifest = _VERSION_MARK in file.readline(100)
    if not is_manifest:
        return read_user_table(path, None, None)
    found = read_table(path)
    if found.problems:
        raise UserError(f"{path}: " + "; ".join(f"line {n}: {bad}" for n, bad in found.problems))
    rows, torn = [], []
    for line, cells in found.rows:
        if len(cells) == len(found.header):
            rows.append(Row(path.name, line, dict(zip(found.header, cells, strict=True))))
        else:
            torn.append((line, f"{len(cells)} cells, but {len(found.header)} columns"))
    return UserTable(path, "manifest", found.header, rows, torn)


def _find_columns(table: UserTable) -> Sources:
    """Settle by their names which columns hold what; nobody is there to be asked."""
    sources = find_sources(table.header, {}, {}, {}, None)
    listed = ", ".join(table.header)
    if "text" not in sources:
        raise UserError(f"no column of the sentences; found {listed}, expected one named text")
    if not {"clip_id", "video"} & sources.keys():
        raise UserError(f"no column of the videos; found {listed}, expected one named video")
    if {"start_frame", "end_frame"} & sources.keys():
        raise UserError(
            "start_frame and end_frame are numbers of frames; give seconds in start_s and end_s"
        )
    return sources


SIGNER_FILE = "signer.txt"
_NAMED_TABLES = ("table.tsv", "manifest.tsv")
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_LONGEST_LINE = 10_000  # characters read of a sentence; more is none
_NOTES = ("readme", "license", "licence")  # texts that belong to no video

Fault = tuple[str, str]
"""What is wrong, what to do."""

_LINK: Fault = ("it is a link, which may lead anywhere", "put the file itself in its place")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A clip that a delivery means to bring.

    Attributes:
        delivery: The folder, as a path.
        where: The file, or the table and its line.
        video: None if there is none that may be read.
        values: Cells of a manifest by column; empty or missing: not said.
        faults: What was found in collecting it.
    """

    delivery: str
    where: str
    video: Path | None = None
    values: dict[str, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    @property
    def name(self) -> str:
        """What the clip is called."""
        return self.values.get("clip_id", "")


@dataclass(slots=True)
class Collected:
    """What lies in some folders."""

    candidates: list[Candidate] = field(default_factory=list)
    waiting: list[Path] = field(default_factory=list)  # changed a moment ago


class Collector:
    """Looks through folders.

    Args:
        signer: Who signs where a table does not say it; None: `signer.txt`, or the folder's name.
        nameless: A folder whose own name names no signer; None: there is none.
        settle_s: A file must not have changed for so many seconds.
    """

    def __init__(self, *, signer: str | None, nameless: Path | None, settle_s: float) -> None:
        self._signer = signer
        self._nameless = nameless
        self._settle_s = settle_s
        self.found = Collected()

    def collect(self, source: Path, table: Path | None = None) -> None:
        """Add what lies in a folder.

        Args:
            source: The folder.
            table: Of the clips in it; None: look for one in each folder.

        Raises:
            UserError: If there is no such folder, or table.
        """
        if not source.is_dir():
            raise UserError(f"{source}: no such folder; name one with videos and their sentences")
        if table is not None and not table.is_file():
            raise UserError(f"--table {table}: no such table")
        for root, folders, names in os.walk(source, onerror=self._note_closed):
            folder = Path(root)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            names = sorted(name for name in names if not name.startswith("."))
            for name in [name for name in folders if (folder / name).is_symlink()]:
                self._fault(folder, name, _LINK)
            tables = [table] if table else _find_tables(folder, names)
            if len(tables) > 1:
                listed = ", ".join(path.name for path in tables)
                mend = "leave one of them, or name it with --table"
                self._fault(folder, listed, (f"{len(tables)} tables in one folder", mend))
            if tables:
                folders.clear()  # their videos are the table's
            if len(tables) == 1:
                self._take_table(folder, tables[0])
            elif not tables:
                self._take_sidecars(folder, names, source)

    def _take_table(self, folder: Path, table: Path) -> None:
        if not self._is_settled(table):
            return
        videos = VideoFolder(folder, follow_links=False)
        named: set[Path] = set()
        signer = self._signer or self._read_signer(folder)
        for where, values, faults in read_delivery_table(table):
            values["signer"] = unicodedata.normalize("NFC", values.get("signer") or signer)
            if not values["signer"] and not faults:
                mend = f"add a column signer, write {SIGNER_FILE}, or say --signer"
                faults.append(("nobody is named as the signer", mend))
            said = values.get("split", "")
            values["split"] = NAMES.get(said.lower(), said)
            cell = values.get("video") or values.get("clip_id", "")
            values["clip_id"] = stem(values.get("clip_id") or PurePosixPath(cell).name)
            path = None
            if not faults or cell:
                path, fault = _find_video(videos, cell)
                faults += [fault] if fault else []
            if path is not None:
                named.add(path)
                if not self._is_settled(path):
                    continue
            self.found.candidates.append(
                Candidate(folder.as_posix(), where, path, values, tuple(faults))
            )
        for path in _videos_below(folder):
            if path not in named:
                reason = f"no row of {table.name} names it"
                self._fault(folder, path.relative_to(folder).as_posix(), (reason, "add its row"))

    def _take_sidecars(self, folder: Path, names: Sequence[str], source: Path) -> None:
        texts = {Path(name).stem: name for name in names if name.lower().endswith(".txt")}
        videos = {name: stem(name) for name in names if name.lower().endswith(VIDEO_SUFFIXES)}
        for name, base in videos.items():
            text = texts.get(base)
            if not self._is_settled(folder / name, *([folder / text] if text else [])):
                continue
            values, faults = {"clip_id": base}, list[Fault]()
            if (folder / name).is_symlink():
                faults.append(_LINK)
            if list(videos.values()).count(base) > 1:
                faults.append((f"several videos have the name {base!r}", "leave one of them"))
            values["text"], fault = _read_line(folder, text)
            faults += [fault] if fault else []
            values["signer"], fault = self._signer_of(folder, source)
            faults += [fault] if fault else []
            video = None if _LINK in faults else folder / name
            self.found.candidates.append(
                Candidate(folder.as_posix(), name, video, values, tuple(faults))
            )
        for base, name in texts.items():
            is_note = name == SIGNER_FILE or name.lower().startswith(_NOTES)
            if not is_note and base not in videos.values() and self._is_settled(folder / name):
                self._fault(folder, name, ("no video of its name", "bring the video beside it"))

    def _signer_of(self, folder: Path, source: Path) -> tuple[str, Fault | None]:
        """Return who signs in a folder of videos with text files."""
        for place in (folder, *folder.parents):
            if named := self._signer or self._read_signer(place):
                return named, None
            if place == source:
                break
        name = unicodedata.normalize("NFC", " ".join(folder.resolve().name.split()))
        if folder != self._nameless and any(character.isalpha() for character in name):
            return name, None
        reason = f"nobody is named as the signer (the folder's name {name!r} is not one)"
        return "", (reason, f"put it into a folder of the signer's name, or write {SIGNER_FILE}")

    def _read_signer(self, folder: Path) -> str:
        if not (folder / SIGNER_FILE).is_file():
            return ""
        return unicodedata.normalize("NFC", _read_line(folder, SIGNER_FILE)[0])

    def _is_settled(self, *paths: Path) -> bool:
        """Return whether files are whole, as far as the system's clock can tell; else they wait."""
        fresh = [path for path in paths if _age_s(path) < self._settle_s]
        self.found.waiting += fresh
        return not fresh

    def _note_closed(self, error: OSError) -> None:
        folder = Path(error.filename)
        fault = (f"the folder cannot be opened ({error.strerror})", "give it its permissions")
        self._fault(folder.parent, folder.name, fault)

    def _fault(self, folder: Path, where: str, fault: Fault) -> None:
        self.found.candidates.append(Candidate(folder.as_posix(), where, faults=(fault,)))


def _find_tables(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / n for n in names if n in _NAMED_TABLES or n.lower().endswith(".csv")]


def _find_video(videos: VideoFolder, cell: str) -> tuple[Path | None, Fault | None]:
    """Return the video that a cell means; None and why not."""
    parts = PurePosixPath(cell.replace("\\", "/")).parts
    if ".." in parts or parts[:1] == ("/",) or _DRIVE.match(cell):
        return None, (f"the path {cell!r} leads out of the delivery", "write it from the table on")
    below, reason = videos.find(cell)
    for form in _FORMS:  # some systems take accents apart in the names of files
        if below is None:
            below, _ = videos.find(unicodedata.normalize(form, cell))
    if below is None:
        return None, (f"{reason} ({cell!r})", "bring it into the table's folder")
    path = videos.folder / below
    return (None, _LINK) if path.is_symlink() else (path, None)


def _videos_below(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(VIDEO_SUFFIXES) and not name.startswith("."):
                yield Path(root, name)


def _age_s(path: Path) -> float:
    """Return how long ago a file changed; one that has just gone changes now."""
    try:
        # The inode's time, which copies cannot bring along as they do that of the content.
        return time.time() - path.lstat().st_ctime
    except OSError:
        return -math.inf


def _read_line(folder: Path, name: str | None) -> tuple[str, Fault | None]:
    """Return the first line of a text file."""
    if name is None:
        return "", ("no sentence: no row of a table and no .txt file of its name", "add one")
    path = folder / name
    if path.is_symlink() or not path.is_file():
        return "", (f"{name} is a link or no file", _LINK[1])
    try:
        with path.open(encoding="utf-8-sig") as file:
            return " ".join(file.readline(_LONGEST_LINE).split()), None
    except (OSError, UnicodeDecodeError) as error:
        return "", (f"{name} cannot be read ({error})", "save it as UTF-8")
