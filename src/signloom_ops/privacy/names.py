"""Where a person is named and shown: deliveries, tables, JSON, Parquet.

Signloom writes names of people into fields alone: columns of signers and clips, keys of such in
JSON, folders in paths. There they are compared as a whole, and nowhere else: a name may be a number
(`7`), a word that sentences have (`rose`) or one that Signloom writes itself (`test`). Texts in
which people may have written a name are listed for a person to read.
"""

import contextlib
import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.config import checked_dataclass, explained
from signloom.corpus.manifest import SPLITS, parse_box, parse_segment
from signloom.detection.video import Box
from signloom.files import check_seal, hash_file, seal
from signloom.paths import METRICS
from signloom.tables import to_parquet
from signloom_ops.intake.deliveries import SIGNER_FILE, Candidate, ScanRequest, scan
from signloom_tools.importing.captions import READ_SUFFIXES, split_name
from signloom_tools.importing.column_sources import find_sources
from signloom_tools.importing.person_names import name_key
from signloom_tools.importing.separated_text import QUOTED, SEPARATORS

BLANK = "(forgotten)"  # replaces a name
OLD_SUFFIXES = (".ass", ".ssa")  # of captions that 0.2 took
CONSENTS = "consent.json"  # of a delivery: what each signer agreed to

Span = tuple[float | None, float | None, Box | None]
"""Start and end of a clip in its film, seconds, and its part of the picture; None: the film's."""

_MOST_TEXT = 10**7  # bytes: in longer files names are found only as they are written
_BY_SIGNER = "by_signer.csv"  # its columns `name` and `group` have signers
_SIGNER_KEYS = ("signer", "signers", "judge")
_CLIP_KEYS = ("clip_id", "clips", "missing", "rejected", "test", "answers")
_CLIP_MAPS = ("clips", "answers")  # the others may have maps that are not of clips
_PATH_KEYS = ("delivery", "source")


@checked_dataclass
class Person:
    """Who is to be forgotten, and by what they can be found."""

    signer: str  # the name, as `name_key` returns it
    request: str  # names this removal without naming the person
    clip_ids: tuple[str, ...]  # of all their clips
    videos: tuple[str, ...]  # SHA-256 of the videos that show no one else
    files: tuple[str, ...]  # where these videos lie in the corpus
    shared: tuple[str, ...]  # where the videos lie that also show others
    entries: tuple[str, ...]  # keys of their landmarks in the cache
    copies: tuple[str, ...] = ()  # films, texts and folders of theirs in deliveries, quoted
    shared_copies: tuple[str, ...] = ()  # films, captions of deliveries that also show others
    recordings: tuple[str, ...] = ()  # folders and files of the app
    alike: tuple[str, ...] = ()  # signers whose names are like theirs, and not the same

    @property
    def signer_names(self) -> set[str]:
        """Whole cells and values that name them among signers, by `name_key`."""
        return {self.signer, *(f"{split} {self.signer}" for split in SPLITS)}

    def signs_as(self, name: str) -> bool:
        """Return whether a name is theirs, however it is written."""
        return name_key(name) == name_key(self.signer)


@dataclass(frozen=True, slots=True)
class DeliveredTraces:
    """What some folders of deliveries hold of a person, read as `signloom ingest` reads them."""

    films: dict[Path, set[Span]]  # that show no one else, and their clips
    texts: tuple[Path, ...]  # captions of no other signer
    shared: tuple[Path, ...]  # films and captions of theirs that also name others
    folders: tuple[Path, ...]  # in which every clip is theirs


def find_delivered(folders: Sequence[Path], signer: str) -> DeliveredTraces:
    """Find the clips of a signer in folders of deliveries; a folder may be missing.

    A delivery that cannot be read names no signer, so nothing in it is taken for theirs.
    """
    films: dict[Path, set[Span]] = defaultdict(set)
    texts: dict[Path, set[bool]] = defaultdict(set)
    of_others: set[Path] = set()
    by_folder: dict[Path, list[bool]] = defaultdict(list)
    for source, candidate in _candidates(folders):
        is_theirs = name_key(candidate.values.get("signer", "")) == name_key(signer)
        place = Path(candidate.delivery)
        for above in (place, *place.parents):
            if above.resolve() == source.resolve():
                break
            by_folder[above].append(is_theirs)
        if candidate.captions:
            texts[candidate.captions].add(is_theirs)
        if candidate.video and is_theirs:
            start_s, end_s, _ = parse_segment(candidate.values)
            films[candidate.video].add((start_s, end_s, parse_box(candidate.values.get("box", ""))))
        elif candidate.video:
            of_others.add(candidate.video)
    return DeliveredTraces(
        films={path: spans for path, spans in films.items() if path not in of_others},
        texts=tuple(path for path, theirs in texts.items() if theirs == {True}),
        shared=tuple(sorted([*films.keys() & of_others, *(p for p in texts if len(texts[p]) > 1)])),
        folders=tuple(sorted(place for place, theirs in by_folder.items() if all(theirs))),
    )


def delivered_signers(folders: Sequence[Path]) -> set[str]:
    """Return who is named as a signer in folders of deliveries."""
    return {
        candidate.values["signer"]
        for _, candidate in _candidates(folders)
        if candidate.values.get("signer")
    }


def _candidates(folders: Sequence[Path]) -> Iterator[tuple[Path, Candidate]]:
    for source in folders:
        if source.is_dir():
            candidates, _ = scan(ScanRequest(sources=[source], inbox=True))
            yield from ((source, candidate) for candidate in candidates)


def texts_of(film: Path) -> list[Path]:
    """Return the files next to a film that hold its sentences by its name."""
    return [
        path
        for path in sorted(film.parent.iterdir())
        if path != film
        and path.suffix.lower() in (".txt", *OLD_SUFFIXES, *READ_SUFFIXES)
        and film.stem in (path.stem, split_name(path)[0])
    ]


def videos_like(folder: Path, hashes: Set[str]) -> Iterator[Path]:
    """Yield the files below a folder that have one of some SHA-256."""
    for path in sorted(folder.rglob("*")) if hashes else ():
        if path.is_file() and hash_file(path) in hashes:
            yield path


def scrub_value(value: Any, person: Person, names: Set[str] = frozenset()) -> Any:
    """Return a JSON value without the keys and list items that are the person's.

    Args:
        value: Of JSON.
        names: The person's names among the keys, items or values that stand here, by `name_key`.
    """
    if isinstance(value, dict) and names and _is_by_split(value):
        return {split: scrub_value(inner, person, names) for split, inner in value.items()}
    if isinstance(value, dict):
        return {
            key: _scrub_field(key, inner, person)
            for key, inner in value.items()
            if name_key(key) not in names
        }
    if isinstance(value, list):
        return [scrub_value(item, person) for item in value if not _is_theirs(item, person, names)]
    return BLANK if isinstance(value, str) and name_key(value) in names else value


def _scrub_field(key: str, value: Any, person: Person) -> Any:
    # `model.source` is no path: a person called `glosses` changes no parameters.
    if key in _PATH_KEYS and isinstance(value, str) and "/" in value:
        return blank_folders(value, person)
    if key in _SIGNER_KEYS:
        return scrub_value(value, person, person.signer_names)
    if key in _CLIP_KEYS and (isinstance(value, list | str) or key in _CLIP_MAPS):
        return scrub_value(value, person, set(map(name_key, person.clip_ids)))
    return scrub_value(value, person)


def _is_by_split(value: Mapping[str, Any]) -> bool:
    """Return whether the keys are splits, and not people of such names with their scores."""
    inner = [part for part in value.values() if isinstance(part, dict)]
    has_scores = any(isinstance(number, float) for part in inner for number in part.values())
    return value.keys() <= set(SPLITS) and not has_scores


def _is_theirs(item: Any, person: Person, names: Set[str]) -> bool:
    """Return whether a list item is the person's: a name, or a map with one in its place."""
    if not isinstance(item, dict):
        return isinstance(item, str) and name_key(item) in names
    if "check" in item:
        return False  # what a check found stays, without the name
    is_of_signers = person.signer in names or item.get("kind") == "signer"
    keys = [*_SIGNER_KEYS, *(("group", "name") if is_of_signers else ())]
    named = {name_key(item[key]) for key in keys if isinstance(item.get(key), str)}
    return item.get("clip_id") in person.clip_ids or not named.isdisjoint(person.signer_names)


def blank_folders(paths: str, person: Person) -> str:
    """Return paths, with "; " between them, without the names of a person's folders."""
    return "; ".join(
        "/".join(BLANK if person.signs_as(folder) else folder for folder in path.split("/"))
        for path in paths.split("; ")
    )


def scrub_table(name: str, text: str, person: Person) -> str:
    """Return a table without the rows that have the person's name in a column of such.

    Args:
        text: Whose first line, except remarks (`#`), names the columns.
    """
    lines = list(io.StringIO(text, newline="\n"))
    start = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if start == len(lines):
        return text
    mark = max(SEPARATORS.values(), key=lines[start].count)
    (header, names), *rows = _split(lines[start:], mark)
    columns = _columns(name, names, person)
    remaining = [
        row
        for row, cells in rows
        if not any(n < len(cells) and name_key(cells[n]) in of for n, of in columns.items())
    ]
    return "".join([*lines[:start], header, *remaining])


def _columns(name: str, header: Sequence[str], person: Person) -> dict[int, Set[str]]:
    """Return which columns have names, and which of the person's occur there, by `name_key`."""
    sources = find_sources(header)
    fields = {
        "clip_id": set(map(name_key, person.clip_ids)),
        "video": set(map(name_key, person.files)),
        "signer": person.signer_names,
    }
    columns: dict[int, Set[str]] = {
        header.index(column): names
        for field, names in fields.items()
        if field in sources and (column := sources[field].column) is not None
    }
    if name == _BY_SIGNER:
        columns |= {header.index(c): person.signer_names for c in ("name", "group") if c in header}
    return columns


def _split(lines: Sequence[str], mark: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each row as it is written, and its cells."""
    if mark not in QUOTED:
        yield from ((line, [cell.strip() for cell in line.split(mark)]) for line in lines)
        return
    reader, begin = csv.reader(lines, delimiter=mark), 0
    for row in reader:  # a quoted cell may span lines
        yield "".join(lines[begin : reader.line_num]), [cell.strip() for cell in row]
        begin = reader.line_num


def scrub_file(path: Path, person: Person) -> str | bytes | None:
    """Return what a file of ours is without a person; None where nothing changes.

    Args:
        path: A table, JSON, Parquet or `signer.txt`; anything else stays as it is.
    """
    if path.suffix == ".parquet":
        return _scrub_parquet(path, person)
    is_ours = path.suffix in (".json", ".jsonl", ".csv", ".tsv") or path.name == SIGNER_FILE
    if not is_ours or path.name == METRICS.name:  # whose signers are the seen and the unseen ones
        return None
    before = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        after = _scrub_json(path.name, before, person)
    elif path.suffix == ".jsonl":
        lines = before.split("\n")
        scrubbed = (_scrub_json(path.name, line, person) for line in lines)
        after = "\n".join(line.removesuffix("\n") for line in scrubbed)
    elif path.name == SIGNER_FILE:
        after = f"{BLANK}\n" if person.signs_as(before.partition("\n")[0]) else before
    else:
        after = scrub_table(path.name, before, person)
    if after == before:
        return None
    was, scrubbed_bytes = (
        text.encode("utf-8", errors="surrogateescape") for text in (before, after)
    )
    with contextlib.suppress(ValueError):  # what is damaged stays so
        check_seal(was)
        return seal(scrubbed_bytes)
    return scrubbed_bytes


def _scrub_json(name: str, before: str, person: Person) -> str:
    """Return JSON without the person; what is torn, too deep or not ours stays as it is."""
    try:
        content = json.loads(before)
        after = scrub_value(content, person)
    except (ValueError, RecursionError):
        return before
    if name == CONSENTS and isinstance(after, dict):
        after = {name: inner for name, inner in after.items() if not person.signs_as(name)}
    return before if after == content else _dump_like(before, after)


def _scrub_parquet(path: Path, person: Person) -> bytes | None:
    with explained(path, "bring it back with `dvc checkout`, or make it again"):
        check_seal(path.read_bytes())
    table = pq.read_table(path)
    if "clip_id" not in table.column_names:
        return None
    theirs = pc.is_in(table["clip_id"], pa.array(person.clip_ids, pa.string()))
    remaining = table.filter(pc.invert(theirs))
    if len(remaining) == len(table):
        return None
    return to_parquet(remaining)


def _dump_like(before: str, value: Any) -> str:
    """Return JSON indented as it was."""
    second = before.split("\n", 2)[1] if "\n" in before.strip() else ""
    indent = len(second) - len(second.lstrip()) or None
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


def is_word(name: str) -> bool:
    """Return whether a name can be distinguished from a number."""
    return any(character.isalpha() for character in name)


def files_naming(
    folders: Sequence[Path], person: Person, patterns: Sequence[str] = ("*",)
) -> list[Path]:
    """Return the files below some folders whose bytes have the person's name or a clip's id.

    A name without a letter is not looked for: every count would look like it.
    """
    names = filter(is_word, (person.signer, *person.clip_ids, *person.files))
    words = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or "(?!)"
    word = rf"(?<![\w-])(?:{words})(?![\w-])"
    pattern, normal = re.compile(word.encode()), re.compile(word)
    paths = {path for folder in folders for glob in patterns for path in folder.rglob(glob)}

    def has_name(path: Path) -> bool:
        raw = path.read_bytes()
        text = raw.decode(errors="ignore") if len(raw) < _MOST_TEXT else ""
        return bool(pattern.search(raw) or normal.search(name_key(text)))

    return [path for path in sorted(paths) if path.is_file() and has_name(path)]
