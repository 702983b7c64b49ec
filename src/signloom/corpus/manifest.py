"""The manifest of a corpus: a TSV, CSV or Parquet table with one row a clip.

The format is described in docs/data.md. Everything is checked before anything runs, and all the
problems of a file come in one error, each with its line.
"""

import csv
import difflib
import math
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from functools import cache
from itertools import chain
from pathlib import Path

from signloom.config import checked_dataclass
from signloom.corpus.words import find_words, is_unspaced
from signloom.errors import UserError, name_some
from signloom.files import disk_name, hash_file, whole_file
from signloom.paths import DEMO_CORPUS
from signloom.tables import Records, read_columns

MANIFEST_VERSION = 1
MOST_ROWS = 2_000_000  # of a Parquet table
LARGE_BYTES = 1_000_000  # a table from here on is read by Arrow, which takes 0.2 s to load

VERSION_LINE = re.compile(r'"?#\s*signloom-manifest\s+([^\s,"]+)[\s,"]*')  # spreadsheets pad
VERSION_KEY = b"signloom.manifest_version"  # in the schema metadata of a Parquet file
_UNWRITABLE = re.compile(r"(?P<control>[\x00-\x1f\x7f-\x9f\u2028\u2029])|[\ud800-\udfff]")
_DELIMITERS = {".tsv": "\t", ".csv": ","}
SUFFIXES = (*_DELIMITERS, ".parquet")

_LONGEST_WORD = 4  # characters of what is taken for one word in scripts without spaces

LineProblem = tuple[int, str]
"""Line (or row) number, what is wrong there."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of strings; an empty string means no value."""

    header: list[str]
    rows: list[tuple[int, list[str]]]  # line (row in Parquet) number from 1, fields
    problems: list[LineProblem]
    header_line: int
    unit: str  # what the numbers count: "line" or "row"


def read_table(path: Path) -> Table:
    """Read a .tsv, .csv or .parquet table.

    Raises:
        UserError: If nothing of the file can be read; `Table.problems` has lines that cannot.
    """
    return _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)


def is_manifest(text: str) -> bool:
    """Return whether the first line of a text marks it as a manifest of any version."""
    first = text.removeprefix("\ufeff").partition("\n")[0]
    return VERSION_LINE.fullmatch(first.removesuffix("\r")) is not None


def write_table(path: Path, names: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows of cells, as many as names, atomically, under the manifest's version.

    Raises:
        ValueError: If a field cannot be written so that it is read back (see `field_problem`).
    """
    with whole_file(path) as temporary:
        if path.suffix == ".parquet":
            _write_parquet(temporary, names, [row for row, _ in _check_fields(path, names, rows)])
        else:
            lines = (cells for _, cells in _check_fields(path, names, rows))
            _write_text(temporary, chain([names], lines), path.suffix)


def _check_fields(
    path: Path, names: Sequence[str], rows: Iterable[Iterable[object]]
) -> Iterator[tuple[Iterable[object], list[str]]]:
    """Yield each row, and as text; the fields of one without odd characters are not looked at."""
    suffix = path.suffix  # which a Path finds anew each time
    for row in rows:
        cells = ["" if value is None else str(value) for value in row]
        text = "".join(cells)
        if not text.isprintable() or '""' in text:
            for name, value, cell in zip(names, row, cells, strict=True):
                if problem := field_problem(cell, suffix):
                    raise ValueError(f"{path}: {name} {value!r} {problem}")
        yield row, cells


def field_problem(field: str, suffix: str) -> str | None:
    """Say why a field cannot be written in a table of this kind, if it cannot."""
    # Controls and Unicode's own line ends cut the tables that later stages write. Other characters
    # without a shape (the joiners of Persian or Hindi) belong to texts.
    if not field.isprintable() and (bad := _UNWRITABLE.search(field)):
        if bad.lastgroup == "control":
            return f"has the control character {bad[0]!r}; write it without"
        return f"contains an unpaired surrogate ({bad[0]!r}); retype the cell"
    if suffix == ".tsv" and field[:1] == field[-1:] == '"' and '""' in field[1:-1]:
        return "looks quoted; a .tsv has no quoting (write it plainly, or use .csv)"
    return None


def _read_text(path: Path) -> Table:
    lines, problems = _decode_lines(path)
    first = 0
    if lines and lines[0].lstrip('"').startswith("#"):
        match = VERSION_LINE.fullmatch(lines[0])
        _check_version(path, match[1] if match else lines[0])
        first = 1
    rows = list(_split_fields(lines, first, path.suffix, problems))
    if not rows:
        raise UserError(f"{path}: the file is empty; expected a header line and a line a clip")
    line, header = rows[0]
    return Table(header, rows[1:], problems, header_line=line, unit="line")


def _decode_lines(path: Path) -> tuple[list[str], list[LineProblem]]:
    raw = path.read_bytes()
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path}: the file is UTF-16; save it as UTF-8")
    lines: list[str] = []
    problems: list[LineProblem] = []
    # Not splitlines(), which also cuts at characters inside a field. Excel writes a BOM.
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append((number, f"byte {error.start + 1} is not UTF-8; save it as UTF-8"))
            text = line.removesuffix(b"\r").decode("utf-8", errors="replace")
        lines.append(text)
    return lines, problems


def _split_fields(
    lines: list[str], first: int, suffix: str, problems: list[LineProblem]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the stripped fields of every line that is not blank."""
    if suffix == ".tsv":
        for number, line in enumerate(lines[first:], start=first + 1):
            if line.strip():
                yield number, [field.strip() for field in line.split("\t")]
        return
    reader = csv.reader((line + "\n" for line in lines[first:]), strict=True)
    number = first + 1
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield number, [field.strip() for field in row]
            number = first + reader.line_num + 1  # a quoted field may span lines
    except csv.Error as error:
        problems.append((number, f"not CSV ({error}); the lines after it were not read"))


def _check_version(path: Path, version: str) -> None:
    if version != str(MANIFEST_VERSION):
        raise UserError(
            f"{path}: found manifest version {version!r}, this program reads version "
            f"{MANIFEST_VERSION} (first line `# signloom-manifest {MANIFEST_VERSION}`, or none)"
        )


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # Here, so that a text manifest does not load it.
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            if (rows_there := file.metadata.num_rows) > MOST_ROWS:  # some kB may say billions
                raise UserError(
                    f"{path}: has {rows_there:,} rows, expected at most {MOST_ROWS:,}, a row a clip"
                )
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file: {error}") from None
    metadata = table.schema.metadata or {}
    _check_version(path, metadata.get(VERSION_KEY, b"1").decode(errors="replace"))
    problems: list[LineProblem] = []
    columns: list[list[str]] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if not pa.types.is_floating(field.type):
            try:
                column = column.cast(pa.large_string())
            except pa.ArrowException:
                text = f"column {field.name!r} is {field.type}; expected text or numbers"
                problems.append((0, text))
                column = pa.nulls(len(column))
        # pandas writes a missing number as NaN
        columns.append(["" if v is None or v != v else str(v).strip() for v in column.to_pylist()])
    rows = [(number, list(row)) for number, row in enumerate(zip(*columns, strict=True), start=1)]
    return Table(table.schema.names, rows, problems, header_line=0, unit="row")


def _write_text(path: Path, lines: Iterable[Sequence[str]], suffix: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# signloom-manifest {MANIFEST_VERSION}\n")
        if suffix == ".tsv":
            file.writelines("\t".join(cells) + "\n" for cells in lines)
        else:
            csv.writer(file, lineterminator="\n").writerows(lines)


def _write_parquet(path: Path, names: Sequence[str], rows: Sequence[Iterable[object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = map(list, zip(*rows, strict=True))
    table = pa.table(dict(zip(names, columns, strict=True)))
    version = {VERSION_KEY: str(MANIFEST_VERSION).encode()}
    pq.write_table(table.replace_schema_metadata(version), path)


_MAX_ID_BYTES = 200  # ids become parts of file names, which end at 255 bytes
PLAIN_ID = r"[A-Za-z0-9_][A-Za-z0-9 ._-]{0,199}"
"""Most ids, which need no look at each character."""


def parse_segment(row: Mapping[str, str]) -> tuple[float | None, float | None, list[str]]:
    """Return start_s and end_s of a row, None where empty, and what is wrong with them or a box."""
    seconds: dict[str, float | None] = {"start_s": None, "end_s": None}
    problems = []
    for name in seconds:
        text = row.get(name, "")
        try:
            number = float(text) if text else None
        except ValueError:
            number = math.nan
        if number is None or (math.isfinite(number) and number >= 0 and "_" not in text):
            seconds[name] = number
        else:
            problems.append(f"{name} {text!r} is not a number of seconds, 0 or more, as in 3.25")
    start_s, end_s = seconds.values()
    if end_s is not None and end_s <= (start_s or 0.0) and not problems:
        problems.append(f"end_s {row['end_s']} is not after start_s {row.get('start_s') or 0}")
    if (box := row.get("box")) and parse_box(box) is None:
        problems.append(f"box {box!r} is not left, top, right and bottom, as in {BOX_EXAMPLE}")
    return start_s, end_s, problems


BOX_EXAMPLE = "640 0 1280 720 (pixels) or 0.5 0 1 1 (shares of the picture)"


def parse_box(text: str) -> tuple[float, float, float, float] | None:
    """Return left, top, right and bottom; None if the text is no box.

    Numbers up to 1 are shares of the picture's width and height, others pixels.
    """
    try:
        left, top, right, bottom = map(float, text.split())
    except ValueError:
        return None
    is_box = 0 <= left < right < math.inf and 0 <= top < bottom < math.inf
    return (left, top, right, bottom) if is_box else None


def parse_consent(row: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Return the last day that a row's signer agreed to, None: no end, and what is wrong."""
    text = row.get("consent_until", "")
    try:
        return read_day(text).isoformat() if text else None, []
    except ValueError:
        return None, [f"consent_until {text!r} is not a day, as in 2027-12-31"]


def read_day(text: str) -> date:
    """Return a day, written as in 2027-12-31 and in no other way.

    Raises:
        ValueError: If it is none.
    """
    day = date.fromisoformat(text)
    if day.isoformat() != text:  # 20271231, 2027-W01-1
        raise ValueError(text)
    return day


def has_ended(consent_until: str | None) -> bool:
    """Return whether the last day of a consent is over."""
    return bool(consent_until) and date.fromisoformat(str(consent_until)) < date.today()


def id_problem(clip_id: str) -> str | None:
    """Say why this cannot name a clip, if it cannot."""
    if re.fullmatch(PLAIN_ID, clip_id):
        return None
    bad = sorted(
        {c for c in clip_id if unicodedata.category(c)[0] not in "LMN" and c not in " ._-"}
    )
    if bad:
        return f"has {' '.join(map(repr, bad))}; use letters, digits, space, '.', '_' and '-'"
    if clip_id[0] in ".-":
        return f"starts with {clip_id[0]!r}; start it with a letter or a digit"
    if len(clip_id.encode()) > _MAX_ID_BYTES:
        return f"is longer than {_MAX_ID_BYTES} bytes"
    return None


class VideoPaths:
    """Looks paths of videos up, each of their folders once.

    Args:
        folder: The manifest's.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._inside: dict[Path, bool] = {}  # by the folder of a video, links and all
        self._inside_names: dict[str, bool] = {}  # likewise, by its name
        self._spellings: dict[str, str] = {}  # of videos, by `disk_name`

    def has(self, video: str) -> bool:
        """Return whether `problem` finds none, in a tenth of the time; spellings aside."""
        path = f"{self._folder}/{video}"
        if video.startswith("/") or not os.path.isfile(path):  # noqa: PTH113  a Path costs more
            return self.problem(video) is None
        name = video.rpartition("/")[0]
        if name not in self._inside_names:
            self._inside_names[name] = self._is_inside(self._folder / name)
        return self._inside_names[name]

    def problem(self, video: str) -> str | None:
        """Say why this is no path of a video in the manifest's folder, if it is none."""
        if "\0" in video or field_problem(video, ""):
            return None  # named already
        if video.startswith("/"):
            return f"is an absolute path; write it relative to the manifest's folder {self._folder}"
        path = self._folder / video
        try:
            inside = self._is_inside(path.parent) and path.name != ".."
            is_file = inside and path.is_file()
        except (OSError, RuntimeError) as error:  # a name too long, a loop of links
            return f"cannot be looked up ({error}); correct the path"
        if not inside:
            return f"leaves the manifest's folder {self._folder}; put the manifest above its videos"
        if not is_file:
            hint = "; write / between folders" if "\\" in video else ""
            if path.is_dir():
                hint = "; `signloom init` makes video files of folders of pictures"
            return f"is not a file in {self._folder}{hint}; restore it or remove the row"
        spelling = self._spellings.setdefault(disk_name(video), video)
        if spelling != video and path.samefile(self._folder / spelling):
            hint = "give one of them another name, where the disk has both"
            return f"is one file with {spelling!r}, since the disk ignores case; {hint}"
        return None

    def _is_inside(self, parent: Path) -> bool:
        # The folder is resolved, the file is not: DVC may keep big files as links to its cache.
        if parent not in self._inside:
            self._inside[parent] = parent.resolve().is_relative_to(self._folder)
        return self._inside[parent]


SPLITS = ("train", "dev", "test")
REQUIRED = ("clip_id", "text", "signer", "split")
OF_VIDEOS = ("video", "start_s", "end_s", "box")  # not of a corpus of imported landmarks
OPTIONAL = (*OF_VIDEOS, "gloss", "language", "corpus", "batch", "consent_until")
VIDEO_SUFFIXES = (
    ".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".flv", ".3gp",
    ".ogv", ".ts", ".gif", ".mts", ".m2ts", ".m2t", ".mxf", ".vob", ".dv", ".3g2", ".f4v", ".qt",
    ".asf", ".ogm", ".divx", ".mpe", ".m2v", ".mjpg", ".mod", ".tod", ".rm", ".rmvb", ".nut",
    ".ivf", ".y4m", ".h264", ".h265", ".hevc", ".264", ".265", ".apng", ".mj2", ".wtv",
)  # fmt: skip
"""Files that are taken for videos in a folder; a file that is named itself may end in anything."""

IMPORTED_SHARDS = Path("landmarks", "shards")  # in the corpus folder; see `signloom import`

_MAX_LISTED = 50  # problems in one message

_Numbered = tuple[int, "Clip"]  # line (or row) number, clip


@checked_dataclass
class CorpusOptions:
    """Section `corpus` of params.yaml."""

    folder: Path
    """Folder of the manifest and its videos, from the project's root; DVC watches all of it."""
    manifest: str
    """File name of the manifest in it; .tsv, .csv or .parquet."""
    signer_disjoint: bool = True
    """Refuse a signer in two splits. False only for corpora whose official splits share signers."""

    def __post_init__(self) -> None:
        name = Path(self.manifest)
        if name.suffix not in SUFFIXES or name.name != self.manifest:
            raise ValueError(
                f"manifest: found {self.manifest!r}, expected the name of a "
                f"{' or '.join(SUFFIXES)} file in corpus.folder"
            )
        if "\0" in str(self.folder):
            raise ValueError(f"folder: found {str(self.folder)!r}, expected a path without NUL")

    @property
    def name(self) -> str:
        """What people call the corpus; see `corpus_name`."""
        return corpus_name(self.folder)

    @property
    def is_drawn(self) -> bool:
        """Whether it is the demo's, whose language is invented and whose signers are drawn."""
        return self.folder == DEMO_CORPUS

    @property
    def path(self) -> Path:
        """The manifest."""
        return self.folder / self.manifest

    @property
    def imported_shards(self) -> Path:
        """The landmarks of a corpus without videos."""
        return self.folder / IMPORTED_SHARDS


def corpus_name(folder: Path) -> str:
    """Return the name of a corpus: of its folder, or of the one around a folder named `corpus`."""
    parts = folder.resolve().parts
    return parts[-2] if parts[-1] == "corpus" and len(parts) > 2 else parts[-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """One signed utterance, its sentence and its place in the corpus."""

    clip_id: str
    # Joined with the manifest's folder; None: its landmarks are imported, or there are none.
    video: Path | None
    text: str
    signer: str
    split: str  # train, dev or test
    start_s: float | None = None  # None: from the first frame
    end_s: float | None = None  # None: to the last frame
    gloss: str | None = None  # signs separated by spaces
    language: str | None = None  # of the text
    corpus: str | None = None  # that it comes from, where several are one: `signloom merge`
    batch: str | None = (
        None  # delivery that brought it, see `signloom ingest`; None: from the start
    )
    consent_until: str | None = None  # last day that its signer agreed to, ISO 8601; None: no end
    box: str | None = None  # where its signer is in the picture, see `parse_box`; None: anywhere


def clip_of_cells(row: Mapping[str, str], video: Path | None) -> tuple[Clip, list[str]]:
    """Return the clip of a manifest's cells, and what is wrong with its times and its consent."""
    start_s, end_s, problems = parse_segment(row)
    consent_until, odd = parse_consent(row)
    clip = Clip(
        clip_id=row["clip_id"],
        video=video,
        text=row["text"],
        signer=row["signer"],
        split=row["split"],
        start_s=start_s,
        end_s=end_s,
        gloss=row.get("gloss") or None,
        language=row.get("language") or None,
        corpus=row.get("corpus") or None,
        batch=row.get("batch") or None,
        consent_until=consent_until,
        box=row.get("box") or None,
    )
    return clip, problems + odd


def read_manifest(path: Path, signer_disjoint: bool = True) -> Sequence[Clip]:
    """Read and check a manifest.

    Args:
        path: A .tsv, .csv or .parquet table.
        signer_disjoint: Refuse a signer who appears in two splits.

    Returns:
        The clips in the order of the file.

    Raises:
        UserError: Everything that is wrong with the file, a line for each problem.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such manifest, so there is no corpus. Run `make demo` to draw the demo "
            "corpus, or make one of your own videos with `signloom init` and name it in "
            "params.yaml (corpus.folder, corpus.manifest); docs/data.md has the format."
        )
    if path.suffix not in SUFFIXES:
        raise UserError(f"{path}: a manifest ends in {' or '.join(SUFFIXES)}")
    if path.stat().st_size >= LARGE_BYTES:
        from signloom.corpus.large_manifest import read_large_manifest

        if (columns := read_large_manifest(path, signer_disjoint)) is not None:
            return columns
    table = read_table(path)
    problems = [*table.problems, *header_problems(table, path)]
    clips: list[_Numbered] = []
    if set(REQUIRED) <= set(table.header):
        clips = _parse_rows(table, path, problems)
        problems += _duplicate_problems(clips, table.unit)
        if signer_disjoint:
            problems += _signer_problems(clips, table.unit)
        problems += _empty_problems(table, clips)
    if problems:
        raise UserError(_message(path, table.unit, problems))
    return [clip for _, clip in clips]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The clips of a corpus, and which manifest they were read from."""

    clips: Sequence[Clip]
    sha256: str  # of the file


def load_manifest(corpus: CorpusOptions, former: Manifest | None = None) -> Manifest:
    """Read the manifest of a corpus, unless it is `former` and has not changed since.

    Raises:
        UserError: As `read_manifest`.
    """
    # Hashed before it is read: an edit between the two is found by the next comparison.
    sha256 = hash_file(corpus.path) if corpus.path.is_file() else ""
    if former is not None and former.sha256 == sha256:
        return former
    return Manifest(read_manifest(corpus.path, corpus.signer_disjoint), sha256)


def check_splits(path: Path, clips: Sequence[Clip]) -> None:
    """Refuse a corpus that cannot be trained on, before days of extraction.

    Raises:
        UserError: If a split that training needs has no clip.
    """
    splits = {split for (split,) in read_columns(clips, "split")}
    if missing := [split for split in ("train", "dev") if split not in splits]:
        raise UserError(
            f"{path}: no clip is in the split {' or '.join(missing)}; train is what the model "
            "learns from, dev decides when training stops. Give some signers that split."
        )


def is_text_corpus(corpus: CorpusOptions, clips: Sequence[Clip]) -> bool:
    """Return whether a corpus has glosses and sentences only: neither videos nor landmarks."""
    return clips[0].video is None and not corpus.imported_shards.is_dir()


def write_manifest(path: Path, clips: Sequence[Clip]) -> None:
    """Write a manifest, atomically; its kind follows from the suffix.

    Args:
        path: The .tsv, .csv or .parquet file; videos are written relative to its folder.
        clips: At least one; an optional column is written if any clip has a value for it.

    Raises:
        ValueError: If a field would not be read back as it was.
    """
    names = [
        field.name
        for field in fields(Clip)
        if field.name in REQUIRED
        or any(value is not None for (value,) in read_columns(clips, field.name))
    ]
    rows = read_columns(clips, *names)
    if "video" in names:
        name_film = cache(lambda film: film and film.relative_to(path.parent).as_posix())
        rows = ((clip_id, name_film(film), *rest) for clip_id, film, *rest in rows)
    write_table(path, names, rows)


def add_clips(folder: Path, clips: Sequence[Clip], new: Sequence[Clip]) -> Sequence[Clip]:
    """Return clips of a manifest in a folder with others after them; columns stay columns."""
    if not isinstance(clips, Records):
        return [*clips, *new]
    films = [clip.video and clip.video.relative_to(folder).as_posix() for clip in new]
    return clips.append(
        [{**asdict(clip), "video": film} for clip, film in zip(new, films, strict=True)]
    )


def header_problems(table: Table, path: Path) -> list[LineProblem]:
    """Say what is wrong with the columns of a manifest."""
    problems = []
    for name in dict.fromkeys(table.header):
        if table.header.count(name) > 1:
            problems.append(f"column {name!r} is there {table.header.count(name)} times")
        if name not in REQUIRED + OPTIONAL:
            near = difflib.get_close_matches(name.lower(), REQUIRED + OPTIONAL, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "remove it"
            problems.append(f"unknown column {name!r}; {hint}")
    missing = [name for name in REQUIRED if name not in table.header]
    if missing:
        problems.append(f"missing column {', '.join(missing)}; found {', '.join(table.header)}")
    problems += _kind_problems(table.header, path.parent / IMPORTED_SHARDS)
    return [(table.header_line, problem) for problem in problems]


def _kind_problems(header: Sequence[str], imported: Path) -> list[str]:
    """Say where a corpus is not one of videos, of imported landmarks or of text, or several."""
    is_imported = imported.is_dir()
    if "video" in header:
        hint = "a corpus has one or the other: remove the column or the folder"
        problem = f"column 'video' is there, and imported landmarks in {imported}; {hint}"
        return [problem] if is_imported else []
    if not is_imported and "gloss" not in header:
        hint = "it names the videos; landmarks without videos are brought in by `signloom import`"
        return [f"missing column video; {hint}, and a text corpus has a column gloss instead"]
    why = "the landmarks are imported" if is_imported else "there is no column video"
    extra = [name for name in OF_VIDEOS if name in header]
    return [f"column {name!r} cuts videos, but {why}" for name in extra]


def _parse_rows(table: Table, path: Path, problems: list[LineProblem]) -> list[_Numbered]:
    """Return the clips of all rows that have an id, a signer and a split; note what is wrong."""
    videos = VideoPaths(path.parent)
    # What every row needs: a text corpus has nothing but glosses to translate.
    source = "video" if "video" in table.header else "gloss"
    is_imported = (path.parent / IMPORTED_SHARDS).is_dir()
    needed = [*REQUIRED, *([] if is_imported else [source])]
    clips = []
    for line, cells in table.rows:
        if len(cells) != len(table.header):
            problems.append((line, f"{len(cells)} fields, but {len(table.header)} columns"))
            continue
        row = dict(zip(table.header, cells, strict=True))
        for name in ("clip_id", "signer"):
            # One name may be typed in two ways, which must not count as two people in two splits.
            row[name] = unicodedata.normalize("NFC", row[name])
        video = row.get("video")
        clip, problems_of_row = clip_of_cells(row, path.parent / video if video else None)
        problems_of_row += _row_problems(row, needed, path.suffix)
        if video and (bad := videos.problem(video)):
            problems_of_row.append(f"video {video!r} {bad}")
        problems += [(line, problem) for problem in problems_of_row]
        clips.append((line, clip))
    return clips


def _row_problems(row: Mapping[str, str], needed: Sequence[str], suffix: str) -> Iterator[str]:
    """Say what is wrong with the cells of a row, each by itself."""
    yield from (f"{name} is empty" for name in needed if name in row and not row[name])
    for name, value in row.items():
        if bad := field_problem(value, suffix):
            yield f"{name} {bad}"
    if row["clip_id"] and (bad := id_problem(row["clip_id"])):
        yield f"clip_id {row['clip_id']!r} {bad}"
    if row["split"] and row["split"] not in SPLITS:
        yield f"split {row['split']!r} is not {', '.join(SPLITS[:2])} or {SPLITS[2]}"


def _duplicate_problems(clips: Iterable[_Numbered], unit: str) -> list[LineProblem]:
    first: dict[str, int] = {}
    problems = []
    for line, clip in clips:
        if clip.clip_id and first.setdefault(clip.clip_id, line) != line:
            where = f"{unit} {first[clip.clip_id]}"
            problems.append((line, f"clip_id {clip.clip_id!r} is in {where} already"))
    return problems


def _signer_problems(clips: Iterable[_Numbered], unit: str) -> list[LineProblem]:
    lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for line, clip in clips:
        if clip.signer and clip.split in SPLITS:
            lines[clip.signer][clip.split].append(line)
    problems = []
    for signer, splits in lines.items():
        if len(splits) > 1:
            parts = [f"{split} ({unit}s {name_some(numbers)})" for split, numbers in splits.items()]
            text = f"signer {signer!r} is in {' and '.join(parts)}; give each signer one split"
            hint = ", or set corpus.signer_disjoint to false if the splits are the corpus's own"
            problems.append((min(min(numbers) for numbers in splits.values()), text + hint))
    return problems


def _empty_problems(table: Table, clips: list[_Numbered]) -> list[LineProblem]:
    if not table.rows:
        return [(table.header_line, "no clip follows the header")]
    if len(clips) < len(table.rows):
        return []  # a row that could not be read may be the one
    if clips and all(clip.split in SPLITS[1:] for _, clip in clips):
        return [(table.header_line, "no clip is in the split train, so nothing can be learned")]
    return []


def _message(path: Path, unit: str, problems: list[LineProblem]) -> str:
    ordered = sorted(problems, key=lambda problem: problem[0])  # stable within a line
    count = f"{len(problems)} problem{'s' * (len(problems) > 1)}"
    lines = [f"{path}: {count}; the format is in docs/data.md"]
    for number, text in ordered[:_MAX_LISTED]:
        lines.append(f"  {path.name} {f'{unit} {number}' if number else 'header'}: {text}")
    if len(ordered) > _MAX_LISTED:
        lines.append(f"  ... and {len(ordered) - _MAX_LISTED} more")
    return "\n".join(lines)


def is_single_word(text: str) -> bool:
    """Return whether a text is a single word, as the name of a sign is."""
    if len(text.split()) != 1:
        return False
    return not is_unspaced(text) or len(find_words(text)) <= _LONGEST_WORD
