"""A new corpus from a user's table and folder of videos (`signloom init`)."""

import contextlib
import filecmp
import hashlib
import os
import re
import shutil
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath

from tqdm import tqdm

from signloom.corpus.landmarks import FEATURES, choices_of
from signloom.corpus.manifest import (
    IMPORTED_SHARDS,
    PLAIN_ID,
    SPLITS,
    VIDEO_SUFFIXES,
    Clip,
    clip_of_cells,
    field_problem,
    has_ended,
    id_problem,
    is_manifest,
    parse_consent,
    parse_segment,
    read_manifest,
    write_manifest,
)
from signloom.errors import ClipError, Problem, UserError, name_problem
from signloom.files import disk_name, flush_to_disk, half_written, hash_file, whole_file, write_file
from signloom.grouping import group_pairs
from signloom.progress import progress_file
from signloom.system import link_file
from signloom.tables import tsv_text
from signloom_tools.importing.cells import clean
from signloom_tools.importing.column_names import SPLIT_NAMES
from signloom_tools.importing.column_sources import FieldSource
from signloom_tools.importing.dealing import deal_clips
from signloom_tools.importing.file_names import without_ending
from signloom_tools.importing.pictures import (
    PACKED_SUFFIX,
    PictureFolder,
    describe_gaps,
    is_picture,
    is_picture_folder,
    open_pictures,
)
from signloom_tools.importing.user_tables import TableRow, how_to_use
from signloom_tools.outputs import begins_as_ours

VIDEOS = "videos"  # folder in the corpus for videos that lie elsewhere


# The id at the end of a name that yt-dlp or youtube-dl gives, `Title [id].mp4`, `Title-id.mp4`.
_WEB_ID = re.compile(r"\[([^\[\]]+)\]$|-([\w-]{11})$")


class VideoFolder:
    """All videos below a folder, found by path, by name, or by name without its ending.

    A folder of pictures is one of its name, where no file has that name; a picture alone is one
    where the pattern or the rows name it. How accents are written, and capitals if no other name
    fits, make no difference.
    """

    def __init__(
        self, folder: Path, pattern: re.Pattern[str] | None = None, *, follow_links: bool = True
    ) -> None:
        if not folder.is_dir():
            raise UserError(f"--videos {folder}: no such folder")
        self.folder = folder
        self.pattern = pattern
        """Of the paths of videos without their endings; its `clip` is also a name of theirs."""
        self._by_stem: dict[str, list[Path]] = defaultdict(list)
        self._pictures: dict[str, list[Path]] = defaultdict(list)  # folders of them, one a clip
        self._by_pattern: dict[str, list[Path]] = defaultdict(list)
        self._alone: dict[str, list[Path]] = defaultdict(list)  # pictures that are a clip each
        self._by_web_id: dict[str, list[Path]] = defaultdict(list)
        self.beside_films: list[Path] = []
        """Pictures that fit the pattern, but lie next to films, whose thumbnails they may be."""
        self._parts: dict[Path, tuple[str, ...]] = {}  # of their paths, as they are seen
        visited: set[tuple[int, int]] = set()
        for root, folders, names in os.walk(folder, followlinks=follow_links):
            below, status = Path(root).relative_to(folder), Path(root).stat()
            if (status.st_dev, status.st_ino) in visited:  # links that lead in a circle
                folders.clear()
                continue
            visited.add((status.st_dev, status.st_ino))
            folders[:] = [name for name in folders if not name_problem(name)]
            paths = [below / name for name in sorted(names) if not name_problem(name)]
            films = [path for path in paths if path.suffix.lower() in VIDEO_SUFFIXES]
            fitting = [p for p in paths if is_picture(p.name) and self._fields(_read_parts(p))]
            for path in films:
                self._add(self._by_stem, path)
            for path in fitting:
                if not films:
                    self._add(self._alone, path)
                elif not path.name.startswith(tuple(stem(film.name) for film in films)):
                    self.beside_films.append(path)
            if fitting:
                continue
            if is_picture_folder(names):
                self._add(self._pictures, below)

    def _add(self, index: dict[str, list[Path]], path: Path) -> None:
        self._parts[path] = _read_parts(path)
        index[self._parts[path][-1].casefold()].append(path)
        if web_id := _WEB_ID.search(self._parts[path][-1]):
            self._by_web_id[(web_id[1] or web_id[2]).casefold()].append(path)
        if clip := self.fields_of(path).get("clip"):
            self._by_pattern[clip.casefold()].append(path)

    def all(self, *, pictures: bool = False) -> list[Path]:
        """Return the paths of all videos below the folder, in order; and folders of pictures."""
        folders = [*self._pictures.values(), *self._alone.values()] if pictures else ()
        groups = [*self._by_stem.values(), *folders]
        return sorted(path for paths in groups for path in paths)

    def fields_of(self, path: Path) -> dict[str, str]:
        """Return what the path of a video says by the pattern; nothing if it does not fit."""
        return self._fields(self._parts[path])

    def _fields(self, parts: Sequence[str]) -> dict[str, str]:
        match = self.pattern and self.pattern.fullmatch("/".join(parts))
        return match.groupdict() if match else {}

    def take_alone(self, names: Iterable[str]) -> None:
        """Take each picture as a clip where cells name several pictures of one folder."""
        by_folder = group_pairs((self.find(name)[0], name) for name in names if is_picture(name))
        for folder, cells in by_folder.items():
            if folder and len(cells) > 1 and (self.folder / folder).is_dir():
                # Or a cell whose picture is missing would mean all of them.
                self._pictures[self._parts[folder][-1].casefold()].remove(folder)
                for path in sorted((self.folder / folder).iterdir()):
                    if is_picture(path.name):
                        self._add(self._alone, folder / path.name)

    def find(self, name: str) -> tuple[Path | None, str]:
        """Return the path below the folder of the video that a cell means, or None and why not.

        Of several videos with the name, the one counts whose path ends as the cell says.
        """
        cell_path = self._read_path(name)
        key = cell_path.name.casefold()
        names = self._by_stem, self._alone, self._pictures, self._by_pattern, self._by_web_id
        paths = next((index[key] for index in names if key in index), [])
        if len(paths) > 1:
            parts = cell_path.parts
            ends = [path for path in paths if self._parts[path][-len(parts) :] == parts]
            # In capitals, or films that have moved.
            ends = ends or [path for path in paths if self._is_at(path, name)]
            ending = clean(PurePosixPath(name.replace("\\", "/")).name)
            paths = [path for path in ends if clean(path.name) == ending] or ends or paths
        if len(paths) == 1:
            return paths[0], ""
        if paths:
            return None, f"{len(paths)} videos have its name"
        return None, "no video of its name"

    def _is_at(self, path: Path, name: str) -> bool:
        """Tell whether a video lies where a cell says, as far as both say it."""
        place, cell_place = "/".join(("", *self._parts[path])).casefold(), self._read_place(name)
        return place.endswith(cell_place) or (cell_place.endswith(place) and place.count("/") > 1)

    def find_all(self, names: Iterable[str]) -> dict[str, tuple[Path | None, str]]:
        """Return what `find` does of each cell.

        A cell whose path is not its video's has none, where other cells mean the same video.
        """
        videos = {name: self.find(name) for name in names}
        cells = group_pairs((path, name) for name, (path, _) in videos.items())
        for path, of in cells.items():
            if path and len({*map(self._read_place, of)}) > 1:
                astray = [name for name in of if not self._is_at(path, name)]
                videos |= dict.fromkeys(astray, (None, "no video at its path"))
        return videos

    def _read_path(self, cell: str) -> PurePosixPath:
        """Return the path that a cell says, without its ending."""
        path = PurePosixPath(clean(cell.replace("\\", "/")))
        if is_picture(path.name):  # PHOENIX's tables say NAME/1/*.png
            path = path.with_suffix("") if path.stem.casefold() in self._alone else path.parent
        return path.parent / stem(path.name)

    def _read_place(self, cell: str) -> str:
        return f"/{self._read_path(cell).as_posix().lstrip('/')}".casefold()


def _read_parts(path: PurePath) -> tuple[str, ...]:
    """Return the parts of a path without the ending of a film or picture, as they are seen."""
    name = PurePosixPath(path.name).stem if is_picture(path.name) else stem(path.name)
    return tuple(map(clean, (*path.parts[:-1], name)))


def find_as_written(path: Path) -> Path:
    """Return a path with the accents of its names as the disk has them."""
    if path.exists() or path == path.parent:
        return path
    parent, name = find_as_written(path.parent), clean(path.name)
    below = parent.iterdir() if parent.is_dir() else ()
    return next((entry for entry in below if clean(entry.name) == name), path)


def place_video(source: Path | PictureFolder, target: Path, *, copy: bool, force: bool) -> None:
    """Link or copy a video, or pack a folder of pictures, to where the manifest names it.

    Raises:
        UserError: If another file is there and `force` does not allow to replace it.
    """
    if isinstance(source, PictureFolder):
        with whole_file(target) as temporary:
            source.pack(temporary)
            if target.exists() and not force and not filecmp.cmp(temporary, target, shallow=False):
                raise UserError(f"{target} already exists; --force replaces it")
        return
    source = source.resolve()
    if target.is_symlink() or target.exists():
        is_same = target.resolve() == source or (
            target.is_file() and filecmp.cmp(source, target, shallow=False)
        )
        if is_same and target.is_symlink() != copy:  # as when a copy was interrupted
            return
        if not force:
            raise UserError(f"{target} already exists; --force replaces it")
    with whole_file(target, flush=copy) as temporary:
        if copy:
            shutil.copyfile(source, temporary)
        else:
            link_file(temporary, source)


def stem(name: str) -> str:
    """Return a file's name without the ending of a video, as it is seen; other dots stay."""
    start, dot, ending = name.rpartition(".")
    is_video = dot + ending.lower() in VIDEO_SUFFIXES and start[-1:] not in ("", "/")
    return clean(start if is_video else name)


_NO_SPLIT = SPLITS[0]  # used until the clips are dealt


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """How rows become clips."""

    sources: Mapping[str, FieldSource]
    """Where each field comes from."""
    split_names: Mapping[str, str] = field(default_factory=dict)
    """What the table calls its splits, beyond the usual names, and train, dev or test."""
    fps: float | None = None
    """Frames a second of start_frame and end_frame, and of folders of pictures."""
    unspaced: bool = False
    """Take the spaces out of the text, for scripts without them."""
    shares: Sequence[float] | None = None
    """Deal the clips to train, dev and test in these shares; None: the table says the split."""
    by: str = "auto"
    """What to deal, of `dealing.UNITS`, or `auto`."""
    text_only: bool = False
    """Make a text corpus: every clip needs glosses, none a video."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that becomes no clip."""

    table: str
    line: int
    clip_id: str
    problem: Problem

    @property
    def detail(self) -> str:
        """What the problem concerns."""
        return "; ".join(self.problem.concerns)


@dataclass(slots=True)
class CorpusPlan:
    """What a corpus will hold."""

    clips: list[Clip] = field(default_factory=list)
    refusals: list[RefusedRow] = field(default_factory=list)
    videos: dict[Path, Path | PictureFolder] = field(default_factory=dict)
    """Where a video belongs in the corpus, and where it lies now."""
    rows: dict[str, TableRow] = field(default_factory=dict)  # of the table, by clip
    renamed: int = 0  # clips whose id is not the table's name, since it could name no clip
    dealt_by: str = ""  # of `dealing.UNITS`, where the clips were dealt
    notes: list[str] = field(default_factory=list)  # what a person should look at
    _sources: dict[str, Path | PictureFolder] = field(default_factory=dict)  # of `videos`

    def place(self, target: Path, source: Path | PictureFolder) -> Path:
        """Note where a video belongs; return its path, whose name no other video has.

        Names that differ by case alone count as one: some disks ignore it.
        """
        if self._sources.setdefault(disk_name(target), source) != source:
            place = source if isinstance(source, Path) else source.path
            digest = hashlib.sha256(place.as_posix().encode()).hexdigest()[:8]
            target = target.with_stem(f"{target.stem}-{digest}")
        self.videos[target] = source
        return target

    def gaps(self) -> str:
        """Say which folders lack pictures; empty if none does."""
        return describe_gaps(
            video for video in self.videos.values() if isinstance(video, PictureFolder)
        )

    def shared_signers(self) -> dict[str, list[str]]:
        """Return the signers who are in several splits, and in which."""
        splits_by_signer: dict[str, set[str]] = defaultdict(set)
        for clip in self.clips:
            splits_by_signer[clip.signer].add(clip.split)
        return {
            who: sorted(of, key=SPLITS.index)
            for who, of in sorted(splits_by_signer.items())
            if len(of) > 1
        }

    def shared_films(self) -> int:
        """Return how many videos have clips in several splits."""
        splits_by_film: dict[Path, set[str]] = defaultdict(set)
        for clip in self.clips:
            if clip.video:
                splits_by_film[clip.video].add(clip.split)
        return sum(len(splits) > 1 for splits in splits_by_film.values())


def plan_corpus(
    rows: Sequence[tuple[TableRow, str | None]],
    options: RowOptions,
    corpus: Path,
    videos: VideoFolder | None,
    imported: Collection[str] | None,
) -> CorpusPlan:
    """Decide what becomes of each row; nothing is written.

    Args:
        rows: Each with the split that its table was given for, if any.
        videos: Where to look for videos; None: not looked for.
        imported: Clips whose landmarks are in the corpus; None: it is a corpus of videos.

    Raises:
        UserError: If the clips cannot be dealt to the splits.
    """
    read = [_values(row, split, options) for row, split in rows]
    names = _name_clips(read)
    if imported is not None:  # which has names of its own
        names = [
            values.get("clip_id") or stem(PurePosixPath(values.get("video", "")).name)
            for values in read
        ]
    entries = [
        (row, name, values) for (row, _), name, values in zip(rows, names, read, strict=True)
    ]
    alike = _named_alike(entries, imported) if imported else {}
    video_names = dict.fromkeys(values.get("video") or name for _, name, values in entries)
    if videos:
        videos.take_alone(video_names)
    by_cell = videos.find_all(video_names) if videos else {}
    inside = _find_inside(corpus, videos.folder) if videos else None
    plan = CorpusPlan()
    planner = _Planner(options, corpus, videos, imported, alike, by_cell, inside, plan)
    for row, name, values in entries:
        clip = planner.clip_of_row(row, name, values)
        if isinstance(clip, RefusedRow):
            plan.refusals.append(clip)
            continue
        plan.rows[clip.clip_id] = row
        plan.renamed += clip.clip_id != name
        plan.clips.append(clip)
    if options.shares and plan.clips:
        dealt, plan.dealt_by = deal_clips(plan.clips, options.shares, options.by)
        plan.clips = [replace(clip, split=dealt[clip.clip_id]) for clip in plan.clips]
    return plan


@dataclass(frozen=True, slots=True)
class _Planner:
    """What decides whether a row becomes a clip; see `plan_corpus`."""

    options: RowOptions
    corpus: Path
    videos: VideoFolder | None
    imported: Collection[str] | None
    alike: Mapping[str, Problem]
    by_cell: Mapping[str, tuple[Path | None, str]]  # its video, or why there is none
    inside: Path | None  # the folder of the videos, where it lies in the corpus
    plan: CorpusPlan  # of the rows before
    places: dict[tuple[str, str | None], Path | Problem] = field(default_factory=dict)
    """Of videos, as `_place` returns them, by what a row says of its video."""

    def clip_of_row(self, row: TableRow, name: str, values: Mapping[str, str]) -> Clip | RefusedRow:
        """Return the clip of a row with its name and the fields of a manifest, or why it is none.

        Where its video has to come from is noted in the plan.
        """
        clip_id, imported = clip_id_of(name), self.imported
        if imported is not None and clip_id not in imported:
            # Tables name files, with their endings and folders.
            clip_id = next(
                (file_id for file_id in _file_ids(name, values) if file_id in imported), clip_id
            )
        before = self.plan.rows.get(clip_id)
        problem = self.alike.get(clip_id) or _problem(clip_id, values, before, self.options)
        if problem is None and imported is not None and clip_id not in imported:
            hint = f"imported are {len(imported)}, named as {min(imported, default='')}"
            problem = Problem("no landmarks of its name were imported", hint, (name,))
        path: Path | Problem | None = None
        if self.videos and not problem:
            key = values.get("video") or name, values.get("fps")
            if key not in self.places:
                self.places[key] = self._place(self.videos, *key)
            path = self.places[key]
        if problem := problem or (path if isinstance(path, Problem) else None):
            return RefusedRow(row.table, row.line, clip_id or name, problem)
        assert not isinstance(path, Problem), "refused above"
        return clip_of_cells({**values, "clip_id": clip_id}, path)[0]

    def _place(self, videos: VideoFolder, video_name: str, fps: str | None) -> Path | Problem:
        """Return the path of a row's video in the corpus, or why there is none."""
        video, reason = self.by_cell[video_name]
        if video is None:
            return Problem(reason, "", (video_name,))
        if (videos.folder / video).is_dir() or is_picture(video.name):
            try:
                pictures = open_pictures(videos.folder / video, fps or self.options.fps)
            except ClipError as error:
                return replace(error.problem, concerns=(video_name,))
            target = self.corpus / VIDEOS / video.parent / f"{video.name}{PACKED_SUFFIX}"
            return self.plan.place(target, pictures)
        if self.inside is not None:
            return self.inside / video
        return self.plan.place(self.corpus / VIDEOS / video, videos.folder / video)


def _find_inside(corpus: Path, videos: Path) -> Path | None:
    """Return the path of a folder of videos in the corpus; None: it lies elsewhere."""
    folder, root = videos.resolve(), corpus.resolve()
    return corpus / folder.relative_to(root) if folder.is_relative_to(root) else None


def _named_alike(
    entries: Iterable[tuple[TableRow, str, Mapping[str, str]]], imported: Collection[str]
) -> dict[str, Problem]:
    """Return the names by which rows mean files of several folders, and what is wrong with them."""
    files: dict[str, set[str]] = defaultdict(set)  # that rows mean, by their bare names
    for _, name, values in entries:
        ids = _file_ids(name, values)
        if ids and not any(file_id in imported for file_id in ids[:-1]):
            files[ids[-1]].add(ids[0])
    reason, hint = "files of several folders have its name", "import all at once"
    return {
        name: Problem(reason, hint, (", ".join(sorted(paths)[:2]),))
        for name, paths in files.items()
        if len(paths) > 1
    }


def _file_ids(name: str, values: Mapping[str, str]) -> list[str]:
    """Return what the import may call a row's file: by its path, less and less of it."""
    parts = PurePosixPath(
        without_ending(values.get("clip_id") or values.get("video") or name)
    ).parts
    return [clip_id_of("_".join(parts[first:])) for first in range(len(parts))]


def clip_id_of(name: str) -> str:
    """Return an id that a manifest takes for a name that it may not: paths, odd signs, dashes."""
    if re.fullmatch(PLAIN_ID, name):
        return name
    name = unicodedata.normalize("NFC", name)
    legal = "".join(c if unicodedata.category(c)[0] in "LMN" or c in " ._-" else "_" for c in name)
    return f"_{legal}" if legal[:1] in ("-", ".") else legal


def count_reasons(rows: Sequence[RefusedRow]) -> list[tuple[str, int, RefusedRow]]:
    """Return each problem with how many rows have it and the first of them, the most first."""
    first = {str(row.problem): row for row in reversed(rows)}
    counts = Counter(str(row.problem) for row in rows)
    return [(reason, count, first[reason]) for reason, count in counts.most_common()]


# What the protocols of mDGS write behind each gloss, as in WETTER1/2/9: the frames that it lasts.
_SPAN = re.compile(r"(?<=\S)([/:|])\d+\1\d+(?!\S)")


def _values(row: TableRow, split: str | None, options: RowOptions) -> dict[str, str]:
    """Return the fields of a manifest of a row."""
    values = row.values(options.sources)
    if options.unspaced:
        values["text"] = values["text"].replace(" ", "")
    if options.shares:
        values["split"] = _NO_SPLIT
    else:
        split_name = split or values.get("split", "")
        values["split"] = options.split_names.get(split_name) or SPLIT_NAMES.get(
            split_name.lower(), split_name
        )
    if gloss := values.get("gloss"):
        values["gloss"] = _SPAN.sub("", gloss)
        if values.get("text") == gloss:
            values["text"] = values["gloss"]
    for edge in ("start", "end"):
        frame = values.pop(f"{edge}_frame", "")
        if frame not in ("", "-1") and options.fps:  # -1: the whole
            whole = re.fullmatch(r"(\d+)(?:\.0+)?", frame)
            seconds = f"{int(whole[1]) / options.fps:.6f}" if whole else f"frame {frame}"
            values[f"{edge}_s"] = seconds
    return values


def _name_clips(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what rows call their clips, the file and no more of its path than tells it apart.

    Clips of one video whose table has no names for them are also named by their starts.
    """
    paths = [(row.get("clip_id") or row.get("video", "")).replace("\\", "/") for row in rows]
    parts = {path: _split_path(stem(path)) for path in {*paths}}
    files = Counter(pieces[-1] for pieces in {*parts.values()})
    alike = {pieces for pieces in parts.values() if files[pieces[-1]] > 1}
    counts = Counter(parts[path] for path in paths)
    shared = min(count_shared([*alike]), min(map(len, alike)) - 1) if alike else 0
    names = []
    for path, row in zip(paths, rows, strict=True):
        pieces = parts[path]
        name = "/".join(pieces[shared:]) if pieces in alike else pieces[-1]
        start_s = None if counts[pieces] == 1 or row.get("clip_id") else parse_segment(row)[0]
        names.append(name if start_s is None else name_cue(name, start_s))
    return names


def _split_path(path: str) -> tuple[str, ...]:
    if "/" not in path and path != ".":  # most tables have names, and a Path costs more
        return (path,)
    return PurePosixPath(path).parts or ("",)


def count_shared(names: Sequence[Sequence[str]]) -> int:
    """Return how many first characters, or parts of paths, names have in common."""
    pairs = enumerate(zip(*names, strict=False))
    return next((n for n, column in pairs if len({*column}) > 1), min(map(len, names)))


def name_cue(film: str, start_s: float) -> str:
    """Return what a part of a film is called that has no name of its own."""
    return f"{film}-{round(start_s * 1000):08d}"


def _problem(
    clip_id: str, values: Mapping[str, str], earlier: TableRow | None, options: RowOptions
) -> Problem | None:
    """Say what is wrong with a row."""
    for name in ("text", "signer", "split", *(["gloss"] if options.text_only else [])):
        if not values.get(name):
            return Problem(f"{name} is empty", "")
    if not clip_id:
        return Problem("clip_id is empty", "")
    if bad := id_problem(clip_id):
        return Problem("its name can name no clip", "", (bad,))
    if values["split"] not in SPLITS:
        hint = "--splits NAME=train says what it is"
        return Problem("its split is not known", hint, (values["split"],))
    for name, value in values.items():
        if bad := field_problem(value, ".tsv"):
            return Problem(f"{name} {bad}", "", (value,))
    if problems := parse_segment(values)[2]:
        if problems[0].startswith("box"):
            return Problem("its box is none", COCO, (problems[0],))
        return Problem("its start and end are no segment", "", (problems[0],))
    until, odd = parse_consent(values)
    if odd or has_ended(until):
        last_day = until or odd[0]
        return Problem("its signer's consent has ended, or its last day is no day", "", (last_day,))
    if earlier is not None:
        where = f"{earlier.table} line {earlier.line}"
        return Problem("an earlier row has its clip_id", "", (where,))
    return None


COCO = "COCO's left, top, width and height are read from a column named bbox_xywh"
_MOST_BOXES = 0.01  # of the clips have a box that is none; more are in another order, as all are


def check_plan(plan: CorpusPlan) -> None:
    """Refuse a plan that is no corpus.

    Raises:
        UserError: If no row can be taken, or a split that training needs has no clip, or
            boxes are in another order than they are read in.
    """
    if not plan.clips and not plan.refusals:
        raise UserError("the table has no row after its header")
    if not plan.clips:
        reason, count, refusal = count_reasons(plan.refusals)[0]
        raise UserError(
            f"no row can be taken; {count} of {len(plan.refusals)}: {reason} ({refusal.table} line "
            f"{refusal.line}: {refusal.detail or refusal.clip_id})"
        )
    boxes = [refusal for refusal in plan.refusals if refusal.problem.hint == COCO]
    if len(boxes) > _MOST_BOXES * len(plan.clips):
        raise UserError(
            f"{boxes[0].table} line {boxes[0].line}: {boxes[0].detail}, and so are {len(boxes)} of "
            f"{len(plan.clips) + len(boxes)} boxes; {COCO}"
        )
    splits = {clip.split for clip in plan.clips}
    if missing := [name for name in ("train", "dev") if name not in splits]:
        raise UserError(
            f"no clip is in the split {' or '.join(missing)}. Give tables for them (--table "
            "dev=FILE), name them (--splits NAME=dev), or have the clips dealt: --shares 80 10 10"
        )


MANIFEST = "manifest.tsv"
REFUSED = "refused.tsv"
_REFUSED_HEADER = "table\tline\tclip_id\treason\tdetail"


_UNFINISHED = ".unfinished"  # in a corpus until its manifest, landmarks and recipe are written


@contextlib.contextmanager
def unfinished(corpus: Path) -> Iterator[None]:
    """Note that a corpus is being made, so that the same command makes it anew after a kill."""
    corpus.mkdir(parents=True, exist_ok=True)
    if not (corpus / MANIFEST).exists():  # else --force replaces it, also the next time
        (corpus / _UNFINISHED).touch()
    try:
        yield
    except BaseException:
        if not any((corpus / name).exists() for name in (MANIFEST, IMPORTED_SHARDS)):
            (corpus / _UNFINISHED).unlink(missing_ok=True)  # nothing was begun
        raise
    (corpus / _UNFINISHED).unlink(missing_ok=True)


def write_new_manifest(corpus: Path, clips: Sequence[Clip]) -> None:
    """Write the manifest; one that is edited before the corpus is finished is not made anew."""
    write_manifest(corpus / MANIFEST, clips)
    if (corpus / _UNFINISHED).exists():
        write_file(corpus / _UNFINISHED, hash_file(corpus / MANIFEST))


def check_free(corpus: Path, *, landmarks: bool = False) -> None:
    """Refuse a folder that has a manifest or, where some will be written, landmarks.

    Raises:
        UserError: Says what is there, and how it is used.
    """
    path = corpus / MANIFEST
    if not path.exists() and landmarks:
        path = corpus / IMPORTED_SHARDS
    note = corpus / _UNFINISHED
    is_edited = path.is_file() and note.is_file() and note.read_text() not in ("", hash_file(path))
    if not path.exists() or (note.exists() and not is_edited):
        return
    problem = "already exists"
    if path.name == MANIFEST and is_manifest(path.read_text(encoding="utf-8", errors="replace")):
        problem = f"already exists, a Signloom manifest. {how_to_use(path)}"
    raise UserError(f"{path} {problem}; --force replaces it, --dry-run only looks")


def write_corpus(plan: CorpusPlan, corpus: Path, *, copy: bool, force: bool) -> None:
    """Put the videos in place, then the manifest: it is there only when they are.

    Args:
        plan: With at least one clip.
        corpus: The folder, made if need be.
        copy: Copy videos that lie elsewhere; else they are linked.
        force: Replace what is there.

    Raises:
        UserError: If a file is in the way, or too few pictures can be packed.
    """
    if not (force or begins_as_ours(corpus / REFUSED, _REFUSED_HEADER)):
        raise UserError(f"{corpus / REFUSED} is there and no list of ours; --force replaces it")
    corpus.mkdir(parents=True, exist_ok=True)
    for leftover in [*half_written(corpus / VIDEOS, "**/.*.tmp")]:
        leftover.unlink()
    places = tqdm(plan.videos.items(), "placing", unit=" videos", delay=1.0, file=progress_file())
    for target, source in places:
        try:
            place_video(source, target, copy=copy, force=force)
        except ClipError as error:  # of pictures, none of which was opened before
            lost = [clip for clip in plan.clips if clip.video == target]
            plan.refusals += [RefusedRow("", 0, clip.clip_id, error.problem) for clip in lost]
            plan.clips = [clip for clip in plan.clips if clip.video != target]
    for folder in {target.parent for target in plan.videos if target.parent.is_dir()}:
        flush_to_disk(folder)
    check_plan(plan)
    _write_refusals(corpus / REFUSED, plan)
    write_new_manifest(corpus, plan.clips)
    read_manifest(corpus / MANIFEST, signer_disjoint=not plan.shared_signers())  # as stages will


def imported_clips(corpus: Path) -> frozenset[str] | None:
    """Return the clips whose landmarks were imported into the folder; None if none were."""
    shards = corpus / IMPORTED_SHARDS
    if not shards.is_dir():
        return None
    from signloom.corpus.shards import read_clip_frames  # pyarrow loads slowly

    return frozenset(read_clip_frames(shards))


def imported_groups(corpus: Path) -> list[str]:
    """Return what was imported: some of `GROUP_CHOICES`, or features; nothing for videos."""
    shards = corpus / IMPORTED_SHARDS
    if not shards.is_dir():
        return []
    from signloom.corpus.shards import shards_metadata

    layout = shards_metadata(shards).layout
    return [FEATURES] if layout.group_names == (FEATURES,) else choices_of(layout)


def _write_refusals(path: Path, plan: CorpusPlan) -> None:
    """Write the rows that were left out, or remove the list of an earlier time."""
    if not plan.refusals:
        path.unlink(missing_ok=True)
        return
    rows = ([r.table, r.line, r.clip_id, r.problem, r.detail] for r in plan.refusals)
    write_file(path, tsv_text(_REFUSED_HEADER.split("\t"), rows))
