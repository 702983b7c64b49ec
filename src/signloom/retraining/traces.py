"""A person's names come in; files that name or show them go away, or lose what names them.

Everything here may be done twice. What DVC has kept of a file goes before the file itself does, so
that a second call after a kill still knows what to look for.
"""

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.corpus.intake.deliveries import SIGNER_FILE
from signloom.corpus.intake.workshop import replace_link
from signloom.reproducibility import hash_file
from signloom.retraining.durable import write_durably
from signloom.retraining.naming import (
    FORGOTTEN,
    Person,
    blank,
    blank_columns,
    is_word,
    naming_pattern,
    scrub_table,
    scrub_value,
)

JOURNAL = Path("data/.forget.json")  # of a removal; data/.* is ignored by Git
_LINKED = (Path("data"), Path("reports"))  # where DVC puts files


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
        for link in self._links.get(kept.resolve(), ()):
            replace_link(link)  # it would dangle, and who reads the file next would find none
        kept.unlink()
        return True

    @functools.cached_property
    def _links(self) -> dict[Path, list[Path]]:
        """Which files are links to what (`cache.type symlink`): files that are alike share one."""
        found = defaultdict(list)
        for folder in _LINKED:
            for path in folder.rglob("*"):
                if path.is_symlink():
                    found[path.resolve()].append(path)
        return found


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
        after = _dump_like(before, scrub_value(json.loads(before), person))
    elif columns:
        after = blank_columns(before, person, columns)
    elif path.suffix in (".csv", ".tsv"):
        after = scrub_table(path.name, before, person)
    elif path.name == SIGNER_FILE and before.strip() == person.signer:
        after = f"{FORGOTTEN}\n"
    else:
        after = blank(before, person)
    if after == before:
        return False
    cache.drop(path)
    write_durably(path, after)
    return True


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
    pattern = re.compile(naming_pattern(person).encode())
    found = {path for folder in folders for one in patterns for path in folder.rglob(one)}
    return [p for p in sorted(found) if p.is_file() and pattern.search(p.read_bytes())]


def tracked_files_naming(person: Person) -> list[str]:
    """Return the files of the Git repository that name the person; none outside of one.

    Nor for a name that is a number, which stands in all of them.
    """
    if not is_word(person.signer):
        return []
    command = ["git", "grep", "--cached", "-l", "-w", "-F", "-e", person.signer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _dump_like(before: str, value: Any) -> str:
    """Return JSON indented as it was."""
    second = before.split("\n", 2)[1] if "\n" in before.strip() else ""
    indent = len(second) - len(second.lstrip()) or None
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


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
