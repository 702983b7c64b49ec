"""Import of landmark files: they become shards in a corpus folder."""

import contextlib
import json
import math
import pickle
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import numpy as np
from tqdm import tqdm

from signloom.config import MAX_SIDE, MIN_FPS
from signloom.corpus.landmarks import (
    FEATURES,
    GROUP_CHOICES,
    LandmarkSequence,
    Layout,
    choices_of,
)
from signloom.corpus.manifest import IMPORTED_SHARDS, SUFFIXES, id_problem, read_table
from signloom.corpus.rejects import REJECTS_HEADER, REJECTS_NAME, Reject, write_rejects
from signloom.corpus.shards import FRAMES_PER_SHARD, write_shards
from signloom.detection.detector import DetectorOptions
from signloom.errors import (
    ClipError,
    Problem,
    UserError,
    count_of,
    name_problem,
    readable_name,
)
from signloom.files import check_output_folder, whole_folder, write_file
from signloom.progress import progress_file
from signloom.tables import tsv_text
from signloom_tools.importing import keypoints, numpy_arrays
from signloom_tools.importing.feature_files import read_features
from signloom_tools.importing.file_names import FORMATS, MOST_GAPS, SIZES, ending_of, without_ending
from signloom_tools.importing.foreign import (
    CORRECT_KEYS,
    ClipSource,
    ForeignClip,
    layout_of,
    to_sequence,
)
from signloom_tools.importing.kaggle import read_kaggle
from signloom_tools.importing.keypoints import read_keypoint_frames, read_keypoints
from signloom_tools.importing.new_corpus import clip_id_of
from signloom_tools.importing.numpy_arrays import (
    PART_NAMES,
    read_array_frames,
    read_arrays,
    read_part_files,
)
from signloom_tools.importing.options import (
    MIN_SCORE,
    ImportOptions,
    SourceDefaults,
    compile_pattern,
)
from signloom_tools.importing.pose_files import read_pose
from signloom_tools.importing.skeletons import FLAT
from signloom_tools.outputs import begins_as_ours

IMPORT_VERSION = 1  # raise it when the same file gives other landmarks
_READERS: dict[str, Callable[[Path, SourceDefaults], Iterator[ClipSource]]] = {
    "pose": read_pose,
    "kaggle": read_kaggle,
    "numpy": read_arrays,
    "keypoints": read_keypoints,
    "features": read_features,
}
_ODD = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_NO_CELL = str.maketrans(dict.fromkeys("\t\r\n", " "))  # would cut a table
CLIPS_NAME, _CLIPS_HEADER = "clips.tsv", "clip_id\tframes\tfps\tlabel\tsource"
IMPORTED = (CLIPS_NAME, REJECTS_NAME, IMPORTED_SHARDS.name)  # what an import writes
_WITH_PATTERN = f"{_CLIPS_HEADER}\tsigner\tsplit"  # of a pattern's fields
_FRAME_NAME = re.compile(r"(.*?)[_-]?([0-9]+)(_keypoints)?")  # of a file that holds one frame
ELSEWHERE = "move it, or say --pattern"  # the hint of every file whose path has another form
_MOST_STRAY = 0.8  # of the takes lie so deep at least; the others are rejected by their paths
_MOST_DATED_FPS = 60.0  # faster, files were copied
_SAME_RATE = 1.2  # times: recorders are not even


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the sources."""

    layout: Layout
    clips: int
    frames: int
    rejects: list[Reject]
    notes: list[str]  # what was taken for what, for a person to check


@dataclass(frozen=True, slots=True)
class _SourceFile:
    """A file, or a folder with a file for each frame of one clip."""

    path: Path  # of the file or the clip
    below: PurePosixPath  # its path from the folder that was named, without its ending
    frames: tuple[Path | None, ...] = ()  # the files of the frames, in order; None: it is missing
    parts: Mapping[str, Path] = field(default_factory=dict)  # files of arrays, one a part

    @property
    def dated_fps(self) -> float:
        """Frames a second by the dates of the files, as a recorder left them; 0: they say none."""
        dates = [path.stat().st_mtime for path in self.frames if path]
        step_s = float(np.median(np.diff(dates))) if len(dates) > 1 else 0.0
        return 1 / step_s if MIN_FPS <= 1 / max(step_s, 1e-6) <= _MOST_DATED_FPS else 0.0

    @property
    def suffix(self) -> str:
        return ending_of((next(filter(None, self.frames), self.path)).name)


def guess_pattern(sources: Sequence[Path]) -> re.Pattern[str]:
    """Return what the paths of landmark files say, a pattern: SIGN/TAKE or PERSON/SIGN/TAKE.

    Args:
        sources: Folders; a take is a file, or a folder with a file for each frame.

    Raises:
        UserError: If the files lie at other depths.
    """
    depths = Counter(len(source.below.parts) for source in _find_files(sources, "auto"))
    patterns = {2: "{text}/{clip}", 3: "{signer}/{text}/{clip}"}
    (depth, count), *_ = depths.most_common(1)
    if count > _MOST_STRAY * depths.total() and depth in patterns:
        return compile_pattern(patterns[depth])
    raise UserError(
        f"{', '.join(map(str, sources))}: expected takes in folders SIGN/TAKE or PERSON/SIGN/TAKE; "
        "say what their paths are with --pattern, as in {text}/{signer}_{clip}"
    )


@dataclass(slots=True)
class _ReadClip:
    """A clip that was read, and where its numbers wait."""

    offset: int
    frames: int
    fps: float
    label: str
    source: Path
    path_fields: dict[str, str]  # by the path: text, signer, split


@dataclass(slots=True)
class _ReadClips:
    """What has been read so far; landmarks wait in a file, so that memory holds one clip."""

    spool: IO[bytes]
    layout: Layout | None = None
    rows: dict[str, _ReadClip] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    skeletons: Counter[str] = field(default_factory=Counter)
    crowded: int = 0  # clips with several people
    shown: Counter[str] = field(default_factory=Counter)  # frames with each group

    def add(
        self,
        clip_id: str,
        clip: ForeignClip,
        source: Path,
        path_fields: dict[str, str],
        options: ImportOptions,
    ) -> None:
        """Convert a clip and keep it with what its path says: text, signer, split.

        Raises:
            ClipError: If it cannot be kept.
        """
        clip_id = clip_id_of(clip_id)  # as `init` names what tables call so
        if problem := id_problem(clip_id):
            raise ClipError(f"its name {clip_id!r} {problem}", "rename the file")
        if clip_id in self.rows:
            earlier_source = self.rows[clip_id].source
            raise ClipError(
                f"{earlier_source} has a clip of this name already", "rename one of them"
            )
        layout = self.layout or layout_of(clip, options.groups)
        sequence = to_sequence(clip, layout, allow_outside=options.defaults.allow_outside)
        self.layout = layout  # not before the clip is known to be good
        self.skeletons[clip.skeleton] += 1
        self.crowded += clip.people > 1
        self.shown.update(dict(zip(layout.group_names, sequence.present.sum(axis=0), strict=True)))
        label = clip.label or path_fields.get("text", "")
        self.rows[clip_id] = _ReadClip(
            self.spool.tell(), len(sequence.points), clip.fps, label, source, path_fields
        )
        points = sequence.points.astype(np.float16)
        pickle.dump((points, sequence.present, clip.fps, clip.width, clip.height), self.spool)

    @property
    def frames(self) -> dict[str, int]:
        """Number of frames of each clip."""
        return {clip_id: row.frames for clip_id, row in self.rows.items()}

    def notes(self) -> list[str]:
        """Say what was taken for what."""
        assert self.layout is not None, "no clip was kept"
        frames = sum(row.frames for row in self.rows.values())
        landmarks = {
            group.name: group.landmarks for groups in GROUP_CHOICES.values() for group in groups
        }
        notes = [
            f"points of {name}: {count_of(count, 'clip')}" for name, count in self.skeletons.items()
        ]
        for group in self.layout.groups:
            share = self.shown[group.name] / frames
            if group.name not in landmarks:  # features
                continue
            of = f"{len(group.landmarks)} of {len(landmarks[group.name])} landmarks"
            notes.append(f"{group.name}: {of}, in {share:.0%} of the frames")
        hands = [name for name in self.layout.group_names if name.endswith("hand")]
        if hands and not any(self.shown[name] for name in hands):
            notes.append("warning: no frame shows a hand; are they among other points of the file?")
        if self.layout.name.endswith(FLAT):
            notes.append("no depth: z is 0 everywhere")
        rates = Counter(row.fps for row in self.rows.values())
        rate = ", ".join(
            f"{fps:g} ({count_of(count, 'clip')})" for fps, count in rates.most_common(5)
        )
        notes.append(f"frames a second: {rate}" + ", ..." * (len(rates) > 5))
        if self.crowded:
            notes.append(
                f"{self.crowded} clips show several people: taken is who was tracked over most of "
                "the picture, or the largest, followed to the nearest from frame to frame"
            )
        return notes

    def load(self, clip_id: str) -> LandmarkSequence:
        """Return a clip that was kept."""
        assert self.layout is not None, "no clip was kept"
        self.spool.seek(self.rows[clip_id].offset)
        points, present, fps, width, height = pickle.load(self.spool)
        return LandmarkSequence(
            points=points.astype(np.float32),
            present=present,
            layout=self.layout,
            fps=fps,
            width=width,
            height=height,
        )


def import_landmarks(
    sources: Sequence[Path], corpus: Path, options: ImportOptions, *, force: bool = False
) -> Imported:
    """Turn landmark files into the shards of a corpus without videos.

    Writes the folder `landmarks` of the corpus, whole or not at all: `shards`, `clips.tsv` (what to
    write a manifest from) and `rejects.tsv`. The bytes depend on the files and options only.

    Args:
        sources: Files, or folders with files of `FORMATS`.
        corpus: The corpus folder; made if need be.
        force: Replace an earlier import.

    Raises:
        UserError: If nothing can be imported (the folder then has only `rejects.tsv`, unless there
            was an earlier import), or there is something that may not be replaced.
    """
    folder, is_there = corpus / IMPORTED_SHARDS.parent, (corpus / IMPORTED_SHARDS).exists()
    check_place(sources, corpus, force=force)
    files, names = _find_files(sources, options.format), dict[PurePosixPath, str]()
    if options.pattern or len({source.below.name for source in files}) < len(files):
        names = {source.below: "_".join(source.below.parts) for source in files}
    with whole_folder(folder) as temporary, tempfile.TemporaryFile(dir=temporary) as spool:
        batch = _ReadClips(spool)
        with tqdm(files, "reading", unit=" files", file=progress_file()) as bar:
            for source in bar:
                try:
                    _read_file(source, names.get(source.below), options, batch)
                except UserError as error:
                    raise UserError(f"{error}{_name_further(source, options)}") from None
                bar.set_postfix_str(f"{len(batch.rows)} clips, {len(batch.rejects)} rejected")
        write_rejects(temporary / REJECTS_NAME, batch.rejects)
        if batch.layout:
            _write_clips(temporary / CLIPS_NAME, batch.rows, options.pattern is not None)
            write_shards(
                temporary / IMPORTED_SHARDS.name,
                batch.frames,
                batch.load,
                layout=batch.layout,
                extractor=_fingerprint(files, options, batch.layout),
                frames_per_shard=FRAMES_PER_SHARD,
            )
        elif is_there:
            raise _nothing_imported(batch, files[0], options)
    if not batch.layout:
        raise _nothing_imported(batch, files[0], options)
    notes = batch.notes()
    paths = [without_ending(source.path.as_posix()).split("/") for source in files]
    ends = {"/".join(parts[n:]) for parts in paths for n in range(len(parts))}
    if lost := [name for name in options.defaults.rates if name not in ends]:
        notes.append(f"warning: {len(lost)} rows of --rates name no file, such as {lost[0]}")
    if names:
        notes.append(f"clips are named by their paths, as in {next(iter(batch.rows))}")
    notes += _note_frames(files, options.defaults.fps)
    frames = batch.frames
    return Imported(batch.layout, len(frames), sum(frames.values()), batch.rejects, notes)


def _note_frames(files: Sequence[_SourceFile], fps: float | None) -> Iterator[str]:
    """Say what clips of a file a frame lack, and at what rate they were recorded."""
    if torn := [source for source in files if None in source.frames]:
        lost, first = sum(source.frames.count(None) for source in torn), torn[0].path
        yield f"warning: {lost} frames are missing within {len(torn)} takes (first {first})"
    dated = float(np.median([source.dated_fps for source in files if source.dated_fps] or [0.0]))
    if dated and fps and not 1 / _SAME_RATE < dated / fps < _SAME_RATE:
        yield (
            f"warning: by the dates of the files, takes were recorded at {dated:.0f} frames a "
            f"second, not at {fps:g}; say --fps {dated:.0f}"
        )
    elif fps and not dated and any(source.frames for source in files):
        yield (
            f"{fps:g} frames a second are the camera's; a loop that finds landmarks meanwhile "
            "records 8 to 15: time a take, and say its rate with --fps"
        )


def _nothing_imported(batch: _ReadClips, source: _SourceFile, options: ImportOptions) -> UserError:
    first = batch.rejects[0]
    is_key = first.problem.hint.startswith(CORRECT_KEYS)  # most often of the rate or the size
    return UserError(
        f"no clip could be imported; {REJECTS_NAME} lists why, the first is {first.video}: "
        f"{first.problem}{_name_further(source, options, first.problem) if is_key else ''}"
    )


def _name_further(
    source: _SourceFile, options: ImportOptions, problem: Problem | None = None
) -> str:
    """Say what else is wrong with a file, were its frame rate and its picture's size known."""
    given = options.defaults
    sizes = replace(
        given,
        fps=given.fps or MIN_FPS,
        width=given.width or MAX_SIDE,  # which holds any pixel
        height=given.height or MAX_SIDE,
        keys={ours: theirs for ours, theirs in given.keys.items() if ours not in SIZES},
    )
    with contextlib.suppress(UserError), tempfile.TemporaryFile() as spool:
        _read_file(source, None, replace(options, defaults=sizes), batch := _ReadClips(spool))
        further = next((str(reject.problem) for reject in batch.rejects), "")
        if further and further != str(problem):
            for unknown in (f" of {MAX_SIDE}x{MAX_SIDE}", f" ({MAX_SIDE}?)"):
                further = further.replace(unknown, "")
            return f". Also: {further}"
    return ""


def check_place(sources: Sequence[Path], corpus: Path, *, force: bool) -> None:
    """Refuse to import into a corpus of videos, or over something that is not of an import.

    Raises:
        UserError: If there is an earlier import, unless it may be replaced by `force`; if a source
            would be; or there is something that no import makes.
    """
    folder, shards = corpus / IMPORTED_SHARDS.parent, corpus / IMPORTED_SHARDS
    if shards.exists() and not force:
        raise UserError(
            f"{shards} already exists; --force imports again in its place (all sources of a "
            "corpus in one go), or import into another folder"
        )
    for path in (corpus / f"manifest{suffix}" for suffix in SUFFIXES):
        if path.is_file() and "video" in read_table(path).header:
            raise UserError(
                f"{path} names videos, and a corpus has them or imported landmarks: import into "
                "another folder"
            )
    inside = [
        source for source in sources if force or source.resolve().is_relative_to(folder.resolve())
    ]
    check_output_folder(folder, inside, IMPORTED)
    for name, header in ((CLIPS_NAME, _CLIPS_HEADER), (REJECTS_NAME, REJECTS_HEADER)):
        earlier = header.removesuffix("hint") + "mend"  # what the column of rejects was called
        if not any(
            begins_as_ours(folder / name, heading) for heading in (header, earlier, _WITH_PATTERN)
        ):
            raise UserError(
                f"{folder / name} is there and no list of an import: move it, or "
                "import into another folder"
            )


def read_foreign(
    path: Path, layout: Layout, defaults: SourceDefaults
) -> Iterator[tuple[str, LandmarkSequence | Reject]]:
    """Yield the clips of a landmark file in a layout, or what is wrong with them.

    Raises:
        UserError: If the ending is unknown, or something that the file does not say is missing.
    """
    rejects: list[Reject] = []
    with _noting(rejects, path.stem, path):
        kind = FEATURES if layout.name.startswith(FEATURES) else "auto"
        for clip_id, make in _READERS[_format_of(kind, path)](path, defaults):
            sequence: LandmarkSequence | None = None
            with _noting(rejects, clip_id, path):
                sequence = to_sequence(make(), layout, allow_outside=defaults.allow_outside)
            yield clip_id, sequence or rejects.pop()
    yield from ((reject.clip_id, reject) for reject in rejects)


def _find_files(sources: Sequence[Path], name: str) -> list[_SourceFile]:
    """List the files in the order of their paths; the frames of one clip are one file."""
    every = (end for ends in FORMATS.values() for end in ends)
    suffixes = FORMATS.get(name) or tuple(dict.fromkeys(every))
    files: dict[Path, _SourceFile] = {}
    for source in sources:
        if source.is_dir():
            inside = sorted(path for path in source.rglob("*") if path.is_file())
            paths = [path for path in inside if ending_of(path.name) in suffixes]
            # Next to other landmarks, JSON and CSV most often describe them.
            for telling in ((".csv",), FORMATS["keypoints"] if name == "auto" else ()):
                paths = [path for path in paths if ending_of(path.name) not in telling] or paths
            joined = _join_parts(paths, source) if name in ("auto", "numpy") else []
            files |= {file.path: file for file in joined or _join_frames(paths, source, name)}
        elif source.is_file():
            files[source] = _SourceFile(source, PurePosixPath(without_ending(source.name)))
        else:
            raise UserError(f"{source}: no such file or folder")
    if not files:
        names = ", ".join(map(str, sources))
        raise UserError(f"{names}: no file there ends in {', '.join(suffixes)}")
    return list(files.values())


def _join_frames(files: Sequence[Path], source: Path, kind: str) -> Iterator[_SourceFile]:
    """Yield files as they are, but those of one frame each as the clip that they make."""
    series: dict[tuple[Path, str, str], list[tuple[int, Path]]] = defaultdict(list)
    for path in files:
        match = _FRAME_NAME.fullmatch(path.stem) if path.suffix in (".npy", ".json") else None
        key = (path.parent, match[1], path.suffix) if match else (path, "", "")
        series[key].append((int(match[2]) if match else 0, path))
    for (parent, prefix, _), numbered in series.items():
        is_series = kind != "features" and numbered[0][1] != parent
        # A torn frame does not say whether the others are frames.
        states = (state for _, file in numbered if (state := _is_frame(file)) is not None)
        if is_series and next(states, False):
            below = PurePosixPath(parent.relative_to(source).as_posix())
            path = parent / prefix if prefix else parent
            name = below / prefix if prefix else below if below.name else PurePosixPath(source.name)
            yield _SourceFile(path, name, _place_frames(sorted(numbered)))
            continue
        for _, path in numbered:
            yield _SourceFile(
                path, PurePosixPath(without_ending(path.relative_to(source).as_posix()))
            )


def _place_frames(numbered: Sequence[tuple[int, Path]]) -> tuple[Path | None, ...]:
    """Return the files at the times that their numbers say, every one or every second and so on."""
    numbers = [number for number, _ in numbered]
    step = math.gcd(*(number - numbers[0] for number in numbers)) or 1
    places = [(number - numbers[0]) // step for number in numbers]
    if places[-1] >= MOST_GAPS * len(numbers):  # numbers that say something else
        return tuple(path for _, path in numbered)
    files = dict(zip(places, (path for _, path in numbered), strict=True))
    return tuple(files.get(place) for place in range(places[-1] + 1))


def _join_parts(files: Sequence[Path], source: Path) -> list[_SourceFile]:
    """Return the clips of arrays of one part each, PART/CLIP.npy or CLIP/PART.npy; or none."""
    clips: dict[PurePosixPath, dict[str, Path]] = defaultdict(dict)
    for path in files:
        names = without_ending(path.relative_to(source).as_posix()).split("/")
        places = [n for n, name in enumerate(names) if name.lower() in PART_NAMES]
        if path.suffix.lower() != ".npy" or len(places) != 1 or len(names) == 1:
            return []
        part = PART_NAMES[names.pop(places[0]).lower()]
        clips[PurePosixPath(*names)][part] = path
    return [_SourceFile(source / below, below, parts=parts) for below, parts in clips.items()]


def _is_frame(path: Path) -> bool | None:
    """Return whether a file holds one frame; None: it cannot be read."""
    if path.suffix == ".npy":
        return numpy_arrays.is_frame(path)
    try:
        return keypoints.is_frame(json.loads(path.read_bytes()))  # of .json.gz, a file is a clip
    except (ValueError, RecursionError, OSError):  # told where it is read
        return None


def _format_of(name: str, path: Path) -> str:
    if name != "auto":
        return name
    formats = [key for key, suffixes in FORMATS.items() if ending_of(path.name) in suffixes]
    if not formats:
        raise UserError(f"{path}: of what format is it? Say so with --format {'|'.join(FORMATS)}")
    return formats[0]


def _read_file(
    source: _SourceFile, name: str | None, options: ImportOptions, batch: _ReadClips
) -> None:
    """Keep what can be read of a file, note what cannot."""
    path = source.path
    with _noting(batch.rejects, name or source.below.name, path):
        if problem := name_problem(path):
            raise ClipError(problem.reason, problem.hint)
        match = options.pattern.fullmatch(source.below.as_posix()) if options.pattern else None
        if options.pattern and not match:
            form = re.sub(r"\(\?P<(\w+)>.*?\)", r"{\1}", options.pattern.pattern)
            raise ClipError(f"its path {source.below} is not of the form {form}", ELSEWHERE)
        path_fields = match.groupdict() if match else {}
        if source.frames:
            read = read_array_frames if source.suffix == ".npy" else read_keypoint_frames
            clips = read(path, source.frames, options.defaults)
        elif source.parts:
            clips = read_part_files(source.path, source.parts, options.defaults)
        else:
            clips = _READERS[_format_of(options.format, path)](path, options.defaults)
        clip_id = None
        for clip_id, make in clips:
            # The name of the file, and the number or name of a clip within.
            full_id = f"{name}{clip_id.removeprefix(source.below.name)}" if name else clip_id
            full_id = full_id if clip_id.startswith(source.below.name) else clip_id
            with _noting(batch.rejects, full_id, path):
                batch.add(full_id, make(), path, path_fields, options)
        if clip_id is None:
            raise ClipError("it has no clip", "leave it out")


@contextlib.contextmanager
def _noting(rejects: list[Reject], clip_id: str, path: Path) -> Iterator[None]:
    """Note what is wrong with a clip or a file, and go on."""
    try:
        yield
    except ClipError as error:
        problem = error.problem
    except UserError:
        raise
    except _ODD as error:  # files of others may hold anything
        reason = " ".join(f"not as expected ({type(error).__name__}: {error})".split())
        problem = Problem(reason, "compare it with the formats in docs/landmarks.md")
    else:
        return
    plain = Problem(_cell(problem.reason), _cell(problem.hint))
    name, file = readable_name(clip_id), readable_name(path.as_posix())
    rejects.append(Reject(_cell(name), _cell(file), plain))


def _cell(text: str) -> str:
    return text.translate(_NO_CELL)


def _fingerprint(files: Sequence[_SourceFile], options: ImportOptions, layout: Layout) -> str:
    paths = (
        next(filter(None, (*source.frames, *source.parts.values())), source.path)
        for source in files
    )
    formats = sorted({_format_of(options.format, path) for path in paths})
    fingerprint: dict[str, object] = {
        "detector": "imported",
        "source": "+".join(formats),
        "import_version": IMPORT_VERSION,
    }
    if options.defaults.min_score != MIN_SCORE:
        fingerprint["min_score"] = options.defaults.min_score
    if options.detector:
        groups = _groups_for_films(layout, options.detector)
        fingerprint |= {"films": options.detector, "groups": groups}
    return json.dumps(fingerprint, sort_keys=True)


def _groups_for_films(
    layout: Layout, detector: Literal["hands", "hands+pose", "holistic"]
) -> list[str]:
    """Return the groups that a detector of ours has to find to give this layout.

    Raises:
        UserError: If it gives another one.
    """
    groups = choices_of(layout)
    try:
        options = DetectorOptions(detector=detector, groups=tuple(groups))
        if options.layout == layout:
            return groups
        findings = options.layout.name
    except ValueError as error:
        findings = str(error)
    raise UserError(
        f"--detector {detector}: found landmarks of the layout {layout.name}, but in films it "
        f"finds {findings}; choose other --groups, or leave --detector out"
    )


def _write_clips(path: Path, rows: dict[str, _ReadClip], has_pattern: bool) -> None:
    """Write clips.tsv: ids, lengths, and what the sources and their paths say of them."""
    lines = []
    for clip_id, row in sorted(rows.items()):
        label = " ".join(row.label.split())
        cells = [clip_id, row.frames, row.fps, label, _cell(row.source.as_posix())]
        if has_pattern:
            cells += [_cell(row.path_fields.get(name, "")) for name in ("signer", "split")]
        lines.append(cells)
    header = _WITH_PATTERN if has_pattern else _CLIPS_HEADER
    write_file(path, tsv_text(header.split("\t"), lines))
