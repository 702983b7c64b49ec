"""A person's names come in; files that name or show them go away, or lose what names them.

Everything here may be done twice. What DVC has kept of a file goes before the file itself does, so
that a second call after a kill still knows what to look for.
"""

import csv
import functools
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.corpus.intake.workshop import replace_link
from signloom.reproducibility import hash_file
from signloom.retraining.durable import write_durably

JOURNAL = Path("data/.forget.json")  # of a removal; data/.* is ignored by Git
FORGOTTEN = "(forgotten)"  # stands where a name stood


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who is to be forgotten, and by what they can be found.

    Attributes:
        signer: The name, NFC.
        request: Names this removal without naming the person.
        clip_ids: Of all their clips.
        videos: SHA-256 of the videos that show nobody else.
        files: Where these videos lie in the corpus.
        shared: Where those lie that show others, too.
        entries: Keys of their landmarks in the cache.
    """

    signer: str
    request: str
    clip_ids: tuple[str, ...]
    videos: tuple[str, ...]
    files: tuple[str, ...]
    shared: tuple[str, ...]
    entries: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """Whole cells and values that name them or a clip of theirs."""
        splits = {f"{split} {self.signer}" for split in ("train", "dev", "test")}
        return {self.signer, *self.clip_ids, *self.files, *splits}


class DvcCache:
    """What DVC keeps of old versions on this machine; there may be no DVC."""

    @functools.cached_property
    def _folder(self) -> Path | None:
        said = ask_dvc("cache", "dir")  # takes a second, so not before something is removed
        return Path(said.strip()) if said else None

    def drop(self, path: Path) -> bool:
        """Remove what is kept of a file's present content; return whether there was something."""
        if not path.is_file() or self._folder is None:
            return False
        digest = _md5(path)
        kept = self._folder / "files" / "md5" / digest[:2] / digest[2:]
        if not kept.exists():
            return False
        if path.is_symlink() and path.resolve() == kept.resolve():
            replace_link(path)  # it would dangle, and who reads the file next would find none
        kept.unlink()
        return True


def ask_dvc(*arguments: str) -> str:
    """Return what a command of DVC's prints; nothing where the project does not use DVC."""
    if not Path(".dvc").is_dir():
        return ""
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def erase(path: Path, cache: DvcCache) -> None:
    """Remove a file, or a folder with all in it, and what DVC keeps of its present content."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        cache.drop(file)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def scrub(path: Path, person: Person, cache: DvcCache, *, columns: Sequence[str] = ()) -> bool:
    """Take a person out of a file of ours: rows and values that are theirs go, names are blanked.

    Args:
        path: A table, JSON, Markdown or Parquet; anything else stays as it is.
        person: Who.
        cache: Loses what it has of the file as it was.
        columns: Of a .tsv whose rows stay: in which columns names are blanked.

    Returns:
        Whether the file has changed.
    """
    if path.suffix == ".parquet":
        return _scrub_parquet(path, person, cache)
    if path.suffix not in (".json", ".jsonl", ".csv", ".tsv", ".md", ".txt", ".log"):
        return False
    before = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        after = _dump_like(before, _scrub_value(json.loads(before), person))
    elif columns:
        after = _blank_columns(before, person, columns)
    elif path.suffix in (".csv", ".tsv"):
        after = _scrub_table(before, person, "\t" if path.suffix == ".tsv" else ",")
    else:
        after = blank(before, person)
    if after == before:
        return False
    cache.drop(path)
    write_durably(path, after)
    return True


def blank(text: str, person: Person) -> str:
    """Return text in which the person's names, as whole words, are blanked."""
    names = sorted((person.signer, *person.clip_ids, *person.files), key=len, reverse=True)
    either = "|".join(map(re.escape, names))
    return re.sub(rf"(?<![\w-])(?:{either})(?![\w-])", FORGOTTEN, text)


def videos_like(folder: Path, person: Person) -> Iterator[Path]:
    """Yield the files below a folder that are the person's videos, by their bytes."""
    wanted = set(person.videos)
    for path in sorted(folder.rglob("*")) if wanted else ():
        if path.is_file() and hash_file(path) in wanted:
            yield path


def files_naming(
    folders: Sequence[Path], person: Person, patterns: Sequence[str] = ("*",)
) -> list[Path]:
    """Return the files below some folders whose bytes have the person's name or a clip's id."""
    names = [re.escape(n.encode()) for n in (person.signer, *person.clip_ids)]
    pattern = re.compile(rb"(?<![\w-])(?:" + b"|".join(names) + rb")(?![\w-])")
    found = {path for folder in folders for one in patterns for path in folder.rglob(one)}
    return [p for p in sorted(found) if p.is_file() and pattern.search(p.read_bytes())]


def tracked_files_naming(person: Person) -> list[str]:
    """Return the files of the Git repository that name the person; none outside of one."""
    command = ["git", "grep", "--cached", "-l", "-w", "-F", "-e", person.signer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _scrub_value(value: Any, person: Person) -> Any:
    """Return a JSON value without the list items and keys that are the person's."""
    names = person.names
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            if key not in names:
                kept[key] = _scrub_value(inner, person)
        return kept
    if isinstance(value, list):
        return [_scrub_value(item, person) for item in value if not _is_theirs(item, names)]
    return blank(value, person) if isinstance(value, str) else value


def _is_theirs(item: Any, names: set[str]) -> bool:
    """Return whether a list item is the person's: a name, or a map with one among its values."""
    values = item.values() if isinstance(item, dict) else [item]
    return any(isinstance(value, str) and value in names for value in values)


def _dump_like(before: str, value: Any) -> str:
    """Return JSON indented as it was."""
    second = before.split("\n", 2)[1] if "\n" in before.strip() else ""
    indent = len(second) - len(second.lstrip()) or None
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


def _scrub_table(text: str, person: Person, delimiter: str) -> str:
    """Return a table without the rows that have a cell with a name of the person's."""
    if delimiter == "\t":  # written without quotes
        lines = text.splitlines(keepends=True)
        kept = [line for line in lines if not person.names & set(line.rstrip("\n").split("\t"))]
        return blank("".join(kept), person)
    rows = list(csv.reader(io.StringIO(text)))
    kept_rows = [row for row in rows if not person.names & set(row)]
    if len(kept_rows) == len(rows):
        return text
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(kept_rows)
    return out.getvalue()


def _blank_columns(text: str, person: Person, columns: Sequence[str]) -> str:
    """Return a table with names blanked in some columns; a count elsewhere may look like one."""
    header, *lines = (line.split("\t") for line in text.split("\n"))
    for line in lines:
        for number, (name, cell) in enumerate(zip(header, line, strict=False)):
            line[number] = blank(cell, person) if name in columns else cell
    return "\n".join("\t".join(line) for line in [header, *lines])


def _scrub_parquet(path: Path, person: Person, cache: DvcCache) -> bool:
    table = pq.read_table(path)
    if "clip_id" not in table.column_names:
        return False
    theirs = pc.is_in(table["clip_id"], pa.array(person.clip_ids, pa.string()))
    kept = table.filter(pc.invert(theirs))
    if len(kept) == len(table):
        return False
    cache.drop(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    pq.write_table(kept, temporary, compression="zstd")
    temporary.replace(path)
    return True


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
