"""Deliveries: folders of new clips with their tables.

A folder with a table brings the rows of the table, whose videos lie anywhere below it. In a folder
without one, each video has a text file of its name, whose first line is the sentence, or
captions, whose cues are clips. Captions without a video correct clips that the corpus has.
"""

import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from signloom.corpus.manifest import VIDEO_SUFFIXES, read_table
from signloom.errors import ClipError, Problem, UserError, name_problem, readable_name
from signloom.extraction.pool import GuardedProcess
from signloom.grouping import group_pairs
from signloom_tools.importing.captioned import clip_name, deal_cues, measure_film
from signloom_tools.importing.captions import (
    READ_SUFFIXES,
    Cue,
    apply_rules,
    last_end_s,
    read_captions,
    split_name,
)
from signloom_tools.importing.cells import clean
from signloom_tools.importing.column_names import SPLIT_NAMES
from signloom_tools.importing.column_sources import Sources, find_sources
from signloom_tools.importing.new_corpus import VideoFolder, stem
from signloom_tools.importing.options import Choice, CueRules
from signloom_tools.importing.pictures import is_picture_folder
from signloom_tools.importing.user_tables import UserTable, build_table, read_user_table

_VERSION_MARK = b"# signloom-manifest"  # the first line of our own manifests
_FIELDS = (
    "clip_id",
    "video",
    "text",
    "signer",
    "split",
    "start_s",
    "end_s",
    "gloss",
    "language",
    "corpus",
    "box",
    "consent_until",
)
SIGNER_FILE = "signer.txt"
_NAMED_TABLES = ("table.tsv", "manifest.tsv")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_LIMIT_S, _BYTES_A_SECOND = 30.0, 1e6  # that reading a file may take, on a busy machine
_LONGEST_LINE = 10_000  # characters read of a sentence; more is none
_NOTES = ("readme", "license", "licence")  # texts that belong to no video


_LINK = Problem("it is a link, which may lead anywhere", "put the file itself in its place")
_NO_TABLE = Problem("the table is a link or no file", _LINK.hint)
_NO_VIDEO = Problem("no video of its name", "bring the video beside it")
_NO_SENTENCE = Problem("no sentence: no row of a table and no .txt file of its name", "add one")
_PICTURES = Problem("it is a folder of pictures", "make a video file of them, as by ffmpeg")
_SEVERAL = Problem("several videos have its name", "leave one of them")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A clip that a delivery means to bring."""

    delivery: str  # the folder, as a path
    where: str  # the file, or the table and its line
    video: Path | None = None  # None if there is none that may be read
    values: Mapping[str, str] = field(default_factory=dict)
    """Cells of a manifest by column; empty or missing: not said."""
    problems: tuple[Problem, ...] = ()  # what was found in the scan
    corrects: str = ""
    """The captions without a video that it is of: a clip that the corpus has, or a part of its
    film."""
    captions: Path | None = None  # the file that has its sentence

    @property
    def name(self) -> str:
        """What the clip is called."""
        return self.values.get("clip_id", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The folders to read, and what the caller says about them."""

    sources: Sequence[Path]
    table: Path | None = None  # table of the clips in the only source; None: look for tables
    signer: str | None = None
    """Who signs where no table says it; None: `signer.txt`, or the folder's name."""
    inbox: bool = False  # whether a source is no delivery itself, so that its name names no signer
    choice: Choice = field(default_factory=Choice)  # what to take of captions
    rules: CueRules = field(default_factory=CueRules)  # how their cues become clips
    settle_s: float = 0.0  # for how long a file must not have changed
    guard: GuardedProcess = field(default_factory=GuardedProcess)
    """A process that reads delivered files, so that no file can end or hold the others."""

    def __post_init__(self) -> None:
        if self.table is not None and len(self.sources) != 1:
            raise UserError(f"--table {self.table} describes one folder, found {len(self.sources)}")


def scan(request: ScanRequest) -> tuple[list[Candidate], list[Path]]:
    """Look through folders for new clips.

    Returns:
        The candidates, in the order of their folders, each once; files that changed a moment ago.

    Raises:
        UserError: If there is no such folder, or table, or its name is not UTF-8.
    """
    candidates: dict[tuple[str, str], Candidate] = {}  # sources may overlap
    waiting = []
    with request.guard:
        for source in request.sources:
            for entry in _scan_folders(source, request):
                if isinstance(entry, Path):
                    waiting.append(entry)
                else:
                    candidate = replace(
                        entry, delivery=from_project(Path(entry.delivery)).as_posix()
                    )
                    candidates[candidate.delivery, candidate.where] = candidate
    return list(candidates.values()), waiting


def from_project(path: Path) -> Path:
    """Return a path as seen from the working folder, absolute if it lies elsewhere."""
    absolute = path.resolve()
    here = Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


Scanned = Iterable[Candidate | Path]
"""Candidates, and the files that have to wait since they changed a moment ago."""


def _scan_folders(source: Path, request: ScanRequest) -> Scanned:
    _check_exist(source, request.table)
    closed: list[OSError] = []
    for root, below, names in os.walk(source, onerror=closed.append):
        place = _Place(Path(root), source, request)
        yield from _misnamed(place, [*below, *names])
        below[:], names = _shown(below), _shown(names)
        noted = [place.folder / SIGNER_FILE] if SIGNER_FILE in names and not request.signer else []
        if fresh := _fresh(noted, request):
            yield from fresh
            below.clear()  # who signs here and below is not known yet
            continue
        for group in _classify(place, below, names):
            yield from _fresh(group.files, request) or group.read()
    for error in closed:
        folder = Path(error.filename)
        reason = f"the folder cannot be opened ({error.strerror})"
        problem = Problem(reason, "give it its permissions")
        yield from _Place(folder.parent, source, request).refuse(folder.name, problem)


def _check_exist(source: Path, table: Path | None) -> None:
    for path in (source, table):
        if path is not None and (problem := name_problem(path)):  # tables of ours name it
            raise UserError(f"{readable_name(path)}: {problem}")
    if not source.is_dir():
        raise UserError(f"{source}: no such folder; name one with videos and their sentences")
    if table is not None and not table.is_file():
        raise UserError(f"--table {table}: no such table")


def _shown(names: Sequence[str]) -> list[str]:
    """Return the names that are read, in order."""
    return sorted(name for name in names if not (name.startswith(".") or name_problem(name)))


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that is scanned."""

    folder: Path
    source: Path  # the folder of the request that it lies in
    request: ScanRequest

    def candidate(self, where: str, *problems: Problem | None, **more: Any) -> Candidate:
        """Return a candidate that was found here."""
        actual_problems = tuple(problem for problem in problems if problem)
        return Candidate(self.folder.as_posix(), where, problems=actual_problems, **more)

    def refuse(self, where: str, problem: Problem) -> list[Candidate]:
        """Return the only candidate of files that are no clip."""
        return [self.candidate(where, problem)]

    def find_signer(self) -> tuple[str, Problem | None]:
        """Return who signs in the videos with text files or captions here."""
        problem: Problem | None = None
        for folder in (self.folder, *self.folder.parents):
            named, odd = _read_signer(folder, self.request)
            problem = problem or odd
            if named:
                return named, problem
            if folder == self.source:
                break
        name = clean(self.folder.resolve().name)
        is_inbox = self.request.inbox and self.folder == self.source
        if not is_inbox and any(character.isalpha() for character in name):
            return name, problem  # `forget` finds it even where its file cannot be read
        reason = "no signer is named (its folder has no person's name)"
        return "", Problem(reason, f"put it into a folder of that name, or write {SIGNER_FILE}")


@dataclass(frozen=True, slots=True)
class _Found:
    """Files of a folder that belong together."""

    files: Sequence[Path]  # all must have settled before they are read
    read: Callable[[], Scanned]


def _classify(place: _Place, below: list[str], names: Sequence[str]) -> Iterator[_Found]:
    """Yield what a folder holds; `below` loses the folders that belong to its table."""
    folder, given_table = place.folder, place.request.table
    for name in below:
        if (folder / name).is_symlink():
            yield _Found((), partial(place.refuse, name, _LINK))
    folder_tables = [folder / n for n in names if n in _NAMED_TABLES or n.lower().endswith(".csv")]
    tables = [given_table] if given_table else folder_tables
    if not tables:
        pictures = [name for name in below if is_picture_folder(_names_in(folder / name))]
        yield from _group_by_name(place, names, pictures)
        return
    below.clear()  # their videos are the table's
    listed = ", ".join(path.name for path in tables)
    if len(tables) > 1:
        hint = "leave one of them, or name it with --table"
        problem = Problem(f"{len(tables)} tables in one folder", hint)
        yield _Found((), partial(place.refuse, listed, problem))
    elif not given_table and not _is_plain(tables[0]):
        yield _Found((), partial(place.refuse, listed, _NO_TABLE))
    else:
        yield _Found(tables, partial(_read_clips, place, tables[0]))


def _group_by_name(
    place: _Place, names: Sequence[str], pictures: Sequence[str]
) -> Iterator[_Found]:
    """Yield the videos of a folder with their texts or captions, then texts without a video."""
    folder = place.folder
    texts = {clean(Path(name).stem): folder / name for name in _ending(names, ".txt")}
    films = {name: stem(name) for name in _ending(names, VIDEO_SUFFIXES)}
    videos = films | {name: clean(name) for name in pictures}
    bases = Counter(videos.values())
    captions = _captions_by_base(folder, names, bases)
    unmatched = [base for base in captions if base not in bases]
    shared = _films_sharing_captions(films, unmatched, texts.keys() | captions.keys())
    for base, film_names in shared.items():
        files, paths = captions.pop(base), [folder / name for name in film_names]
        yield _Found((*files, *paths), partial(_read_captions, place, paths, files))
        videos = {name: base for name, base in videos.items() if name not in film_names}
    for name, base in videos.items():
        video, sentences = folder / name, [texts[base]] if base in texts else []
        if cues := captions.pop(base, []):
            read = partial(_read_captions, place, [video], [*cues, *sentences])
            yield _Found([*cues, video], read)
        else:
            problem = _SEVERAL if bases[base] > 1 else None
            read = partial(_read_video, place, video, base, texts.get(base), problem)
            yield _Found([video, *sentences], read)
    for files in captions.values():
        yield _Found(files, partial(_read_captions, place, [], files))
    for path in (path for base, path in texts.items() if base not in bases):
        if path.name != SIGNER_FILE and not path.name.lower().startswith(_NOTES):
            yield _Found([path], partial(place.refuse, path.name, _NO_VIDEO))


def _ending(names: Iterable[str], suffixes: str | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.lower().endswith(suffixes)]


def _captions_by_base(
    folder: Path, names: Sequence[str], video_bases: Container[str]
) -> dict[str, list[Path]]:
    """Return the captions of a folder by the name of their video, without a language's ending."""
    paths = [folder / name for name in _ending(names, READ_SUFFIXES)]
    return group_pairs(
        (base if (base := clean(path.stem)) in video_bases else clean(split_name(path)[0]), path)
        for path in paths
    )


def _films_sharing_captions(
    films: Mapping[str, str], caption_bases: Iterable[str], bases_with_text: Set[str]
) -> dict[str, list[str]]:
    """Return the films, one a person, that share captions by the name of those captions.

    Args:
        films: Names of films without their ending, by file name.
        caption_bases: Names of captions that have no film of the same name.
        bases_with_text: Names that have a text file or captions.
    """
    unclaimed = dict(films)
    shared: dict[str, list[str]] = {}
    for base in caption_bases:
        people = {name: film for name, film in unclaimed.items() if film.startswith(f"{base}_")}
        if len(people) > 1 and bases_with_text.isdisjoint(people.values()):
            shared[base] = list(people)
            unclaimed = {name: film for name, film in unclaimed.items() if name not in people}
    return shared


def _read_video(
    place: _Place, video: Path, base: str, text: Path | None, problem: Problem | None
) -> Scanned:
    """Yield the clip of a video with a text file."""
    sentence, odd = _read_line(text) if text else ("", _NO_SENTENCE)
    signer, no_signer = place.find_signer()
    link = _LINK if video.is_symlink() else None
    values = {"clip_id": base, "text": sentence, "signer": signer}
    problems = (link, _PICTURES if video.is_dir() else None, problem, odd, no_signer)
    path = None if link else video
    yield place.candidate(video.name, *problems, video=path, values=values)


def _read_captions(place: _Place, films: Sequence[Path], files: Sequence[Path]) -> Scanned:
    """Yield the cues of films' captions; of none, those that correct clips of the corpus."""
    path, request = files[0], place.request
    problem = _LINK if any(file.is_symlink() for file in (*files, *films)) else None
    if len(files) > 1 and not problem:
        listed = ", ".join(file.name for file in files)
        problem = Problem("several files have its sentences", "leave one of them", (listed,))
    cues: Sequence[tuple[Path | None, Cue]] = ()
    broken: Sequence[tuple[str, Problem]] = ()
    try:
        if not problem:
            cues, broken = request.guard.call(
                _cues_of, path, films, request.choice, request.rules, limit_s=_limit_s([path])
            )
    except (UserError, ClipError) as error:
        problem = Problem(_without_folder(error, path), "correct the captions")
    if problem:
        yield from place.refuse(path.name, problem)
    for where, why in broken:
        yield place.candidate(f"{path.name} {where}", why, captions=path)
    signer, no_signer = place.find_signer() if films else ("", None)
    for film, cue in cues:
        values = {
            "clip_id": clip_name(stem(film.name), cue) if film else cue.clip_id,
            "text": cue.text,
            "start_s": f"{cue.start_s:.3f}",
            "end_s": f"{cue.end_s:.3f}",
            "gloss": cue.gloss,
            "signer": cue.signer or signer,
            "language": cue.language,
        }
        yield place.candidate(
            f"{path.name} {cue.where}",
            None if values["signer"] else no_signer,
            video=film,
            values=values,
            corrects="" if film else path.name,
            captions=path,
        )


def _cues_of(
    path: Path, films: Sequence[Path], choice: Choice, rules: CueRules
) -> tuple[list[tuple[Path | None, Cue]], list[tuple[str, Problem]]]:
    """Return the cues of captions with their films, and what is no clip of one and why."""
    captions = read_captions(path, choice)
    broken = list(captions.broken)
    if not films:
        return [(None, cue) for cue in captions.cues], broken
    parts: Mapping[Path | str, Sequence[Cue]] = {Path(films[0].name): captions.cues}
    film_cues: list[tuple[Path | None, Cue]] = []
    if len(films) > 1:
        if len({cue.signer for cue in captions.cues}) > 1:
            _, parts = deal_cues(VideoFolder(path.parent, follow_links=False), captions)
        else:  # nothing says which of the films they are of
            film_cues, parts = [(None, cue) for cue in captions.cues], {}
        broken += [(film.name, _NO_SENTENCE) for film in films if Path(film.name) not in parts]
    for film, cues in parts.items():
        if isinstance(film, str):
            why = Problem(film.partition(";")[0], "call the films by who signs in them")
            broken += [(cue.where, why) for cue in cues]
            continue
        duration_s = measure_film(path.parent / film, last_end_s(cues) + rules.shift_s)
        accepted, left_out = apply_rules(cues, rules, duration_s)
        film_cues += [(path.parent / film, cue) for cue in accepted]
        broken += [(cue.where, why) for cue, why in left_out]
    return film_cues, broken


def _read_clips(place: _Place, table: Path) -> Scanned:
    """Yield the rows of a table, and the videos of its folder that none of them names."""
    folder, request = place.folder, place.request
    videos = VideoFolder(folder, follow_links=False)
    named: set[Path] = set()
    signer = _read_signer(folder, request)
    try:
        rows = request.guard.call(_rows_of, table, limit_s=_limit_s([table]))
    except ClipError as error:
        rows = [(table.name, {}, [error.problem])]
    for where, values, problems in rows:
        cell = _settle_row(values, problems, *signer)
        path: Path | None = None
        if not problems or cell:
            path, problem = _find_video(videos, cell)
            problems += [problem] if problem else []
        if path is not None:
            named.add(path)
            if fresh := _fresh([path], request):
                yield from fresh
                continue
            problems += [_PICTURES] if path.is_dir() else []
        yield place.candidate(where, *problems, video=path, values=values)
    for root, below, names in os.walk(folder):
        if Path(root) != folder:  # whose own were named before
            yield from _misnamed(_Place(Path(root), place.source, request), [*below, *names])
        below[:] = _shown(below)
        films = [Path(root, name) for name in _ending(_shown(names), VIDEO_SUFFIXES)]
        for path in [*films, *([Path(root)] if is_picture_folder(names) else [])]:
            if path not in named:
                problem = Problem(f"no row of {table.name} names it", "add its row")
                problem = _PICTURES if path.is_dir() else problem
                yield from place.refuse(path.relative_to(folder).as_posix(), problem)


def _settle_row(
    values: dict[str, str], problems: list[Problem], signer: str, no_signer: Problem | None
) -> str:
    """Fill in the signer, split and name of a row's clip; return the cell that means its video."""
    values["signer"] = clean(values.get("signer") or signer)
    if not values["signer"] and no_signer:
        problems.append(no_signer)
    elif not values["signer"] and not problems:
        hint = f"add a column signer, write {SIGNER_FILE}, or say --signer"
        problems.append(Problem("no signer is named", hint))
    split = values.get("split", "")
    values["split"] = SPLIT_NAMES.get(split.lower(), split)
    cell = values.get("video") or values.get("clip_id", "")
    values["clip_id"] = stem(values.get("clip_id") or PurePosixPath(cell).name)
    return cell


def _misnamed(place: _Place, names: Sequence[str]) -> Iterator[Candidate]:
    """Yield what no table can name."""
    for name in sorted(names):
        if not name.startswith(".") and (problem := name_problem(name)):
            yield from place.refuse(readable_name(name), problem)


def _read_signer(folder: Path, request: ScanRequest) -> tuple[str, Problem | None]:
    """Return who signs in a folder, as the caller or its file says; empty: neither does."""
    if request.signer or not os.path.lexists(folder / SIGNER_FILE):
        return request.signer or "", None
    line, problem = _read_line(folder / SIGNER_FILE)
    return clean(line), problem


def _fresh(paths: Sequence[Path], request: ScanRequest) -> list[Path]:
    """Return which files may not be whole yet, as far as the system's clock can tell."""
    return [path for path in paths if _age_s(path) < request.settle_s]


def _without_folder(error: Exception, path: Path) -> str:
    """Return a message on a file in one line that names the file alone."""
    return " ".join(str(error).replace(str(path), path.name).split())


TableRow = tuple[str, dict[str, str], list[Problem]]
"""Line of the row, its cells by the manifest's columns, its problems."""


def read_delivery_table(path: Path) -> Iterator[TableRow]:
    """Yield the rows of a table; if it cannot be read at all, one that says why."""
    try:
        table = _read(path)
        columns = _find_columns(table)
        sources = {name: columns[name] for name in columns if name in _FIELDS}
    except UserError as error:
        yield path.name, {}, [Problem(_without_folder(error, path), "correct the table")]
        return
    for line, why in table.torn:
        problem = Problem(f"its cells cannot be separated: {why}", "correct it")
        yield f"{path.name} line {line}", {}, [problem]
    for row in table.rows:
        yield f"{path.name} line {row.line}", row.values(sources), []


def _rows_of(path: Path) -> list[TableRow]:
    return list(read_delivery_table(path))


def _limit_s(files: Sequence[Path]) -> float:
    """Return how long reading some files may take."""
    return _LIMIT_S + sum(path.lstat().st_size for path in files) / _BYTES_A_SECOND


def _read(path: Path) -> UserTable:
    """Read any table that `signloom init` understands, or a manifest."""
    with path.open("rb") as file:
        is_manifest = _VERSION_MARK in file.readline(100)
    if not is_manifest:
        return read_user_table(path, None, None)
    table = read_table(path)
    if table.problems:
        raise UserError(f"{path}: " + "; ".join(f"line {n}: {bad}" for n, bad in table.problems))
    return build_table(path, "manifest", table.header, table.rows)


def _find_columns(table: UserTable) -> Sources:
    """Choose the columns by their names alone: no person is there to ask."""
    sources = find_sources(table.header)
    listed = ", ".join(table.header)
    if not {"text", "gloss"} & sources.keys():
        raise UserError(
            f"no column of the sentences; found {listed}, expected one named text, or gloss"
        )
    if not {"clip_id", "video"} & sources.keys():
        raise UserError(f"no column of the videos; found {listed}, expected one named video")
    if {"start_frame", "end_frame"} & sources.keys():
        raise UserError(
            "start_frame and end_frame are numbers of frames; give seconds in start_s and end_s"
        )
    return sources


def _is_plain(path: Path) -> bool:
    """Return whether it is a file itself: a link may lead anywhere, a pipe is never at its end."""
    return path.is_file() and not path.is_symlink()


def _find_video(videos: VideoFolder, cell: str) -> tuple[Path | None, Problem | None]:
    """Return the video that a cell means; None and why not."""
    parts = PurePosixPath(cell.replace("\\", "/")).parts
    if ".." in parts or parts[:1] == ("/",) or _DRIVE.match(cell):
        hint = "write it as seen from the table's folder"
        return None, Problem("its path leads out of the delivery", hint, (cell,))
    below, reason = videos.find(cell)
    if below is None:
        return None, Problem(reason, "bring it into the table's folder", (cell,))
    path = videos.folder / below
    return (None, _LINK) if path.is_symlink() else (path, None)


def _names_in(folder: Path) -> list[str]:
    try:
        return [] if folder.is_symlink() else [path.name for path in folder.iterdir()]
    except OSError:  # the walk reports it
        return []


def _age_s(path: Path) -> float:
    """Return how long ago a file changed; one that has just gone changes now."""
    try:
        # The inode's time, which copies cannot bring along as they do that of the content.
        return time.time() - path.lstat().st_ctime
    except OSError:
        return -math.inf


def _read_line(path: Path) -> tuple[str, Problem | None]:
    """Return the first line of a text file."""
    label = SIGNER_FILE if path.name == SIGNER_FILE else "its text file"
    if not _is_plain(path):
        return "", Problem(f"{label} is a link or no file", _LINK.hint)
    try:
        with path.open(encoding="utf-8-sig") as file:
            return " ".join(file.readline(_LONGEST_LINE).split()), None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return "", Problem(f"{label} cannot be read ({why})", "save it as UTF-8")
