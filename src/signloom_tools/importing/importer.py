"""Import of landmark files: they become shards in a corpus folder."""

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import numpy as np
from tqdm import tqdm

from signloom.corpus.landmarks import (
    COORDINATES,
    FEATURES,
    GROUP_CHOICES,
    LandmarkSequence,
    Layout,
    choices_of,
)
from signloom.corpus.manifest import IMPORTED_SHARDS, SUFFIXES, id_problem, read_table
from signloom.corpus.rejects import REJECTS_HEADER, REJECTS_NAME, Reject, write_rejects
from signloom.corpus.shards import write_shards
from signloom.corpus.skeletons import FLAT
from signloom.detection.detector import DetectorOptions
from signloom.errors import ClipError, Problem, UserError, name_problem, readable_name
from signloom.files import begins_as_ours, write_file
from signloom.progress import progress_file
from signloom.tables import tsv_text
from signloom_tools.importing import keypoints, numpy_arrays
from signloom_tools.importing.feature_files import read_features
from signloom_tools.importing.foreign import (
    FORMATS,
    MIN_SCORE,
    ClipSource,
    ForeignClip,
    SourceDefaults,
    layout_of,
    to_sequence,
    without_ending,
)
from signloom_tools.importing.kaggle import read_kaggle
from signloom_tools.importing.keypoints import read_keypoint_frames, read_keypoints
from signloom_tools.importing.new_corpus import clip_id_of
from signloom_tools.importing.numpy_arrays import read_array_frames, read_arrays
from signloom_tools.importing.pose_files import read_pose

IMPORT_VERSION = 1  # raise it when the same file gives other landmarks
_READERS: dict[str, Callable[[Path, SourceDefaults], Iterator[ClipSource]]] = {
    "pose": read_pose,
    "kaggle": read_kaggle,
    "numpy": read_arrays,
    "keypoints": read_keypoints,
    "features": read_features,
}
PATTERN_FIELDS = ("text", "signer", "split", "clip")
_ODD = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_NO_CELL = str.maketrans(dict.fromkeys("\t\r\n", " "))  # would cut a table
CLIPS_NAME, _CLIPS_HEADER = "clips.tsv", "clip_id\tframes\tfps\tlabel\tsource"
_WITH_PATTERN = f"{_CLIPS_HEADER}\tsigner\tsplit"  # of a pattern's fields
_FRAME_NAME = re.compile(r"(.*?)[_-]?([0-9]+)(_keypoints)?")  # of a file that holds one frame
_FRAMES_PER_SHARD = 25_000  # `extract` writes the shards that training reads, with its own


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """What a person asks for."""

    format: str  # of FORMATS, or "auto": by what a file ends in
    groups: tuple[str, ...] | None  # of GROUP_CHOICES; None: hands, and pose if the first has it
    defaults: SourceDefaults
    pattern: re.Pattern[str] | None = None
    """What paths say: named groups of `PATTERN_FIELDS`; see `compile_pattern`."""
    detector: Literal["", "hands", "hands+pose", "holistic"] = ""
    """Which of ours finds the same landmarks in films, if any does."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the sources."""

    layout: Layout
    clips: int
    frames: int
    rejects: list[Reject]
    notes: list[str]  # what was taken for what, for a person to check


@dataclass(frozen=True, slots=True)
class _Source:
    """A file, or a folder with a file for each frame of one clip."""

    path: Path  # of the file or the clip
    below: PurePosixPath  # its path from the folder that was named, without its ending
    frames: tuple[Path, ...] = ()  # the files of the frames, in order

    @property
    def suffix(self) -> str:
        return (self.frames[0] if self.frames else self.path).suffix.lower()


def compile_pattern(text: str) -> re.Pattern[str]:
    """Turn `{split}/{text}/{signer}_{clip}.npy` into an expression for paths without ending.

    Raises:
        UserError: If a field is unknown or there twice.
    """
    for suffix in (end for ends in FORMATS.values() for end in ends):
        text = text.removesuffix(suffix)
    parts = re.split(r"\{(.*?)\}", text)
    fields = parts[1::2]
    if not fields or set(fields) - set(PATTERN_FIELDS) or len(set(fields)) < len(fields):
        raise UserError(
            f"--pattern: found {', '.join(fields) or 'no field'}, expected some of "
            f"{', '.join(f'{{{name}}}' for name in PATTERN_FIELDS)}, each once"
        )
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>[^/]+?)" for name in fields]
    return re.compile("".join(parts))


def guess_pattern(sources: Sequence[Path], kind: str) -> str:
    """Return what the paths of landmark files say, a pattern: SIGN/TAKE or PERSON/SIGN/TAKE.

    Args:
        sources: Folders; a take is a file, or a folder with a file for each frame.
        kind: Of `FORMATS`, or auto.

    Raises:
        UserError: If the files lie at other depths.
    """
    depths = {len(one.below.parts) for one in _find_files(sources, kind)}
    known = {2: "{text}/{clip}", 3: "{signer}/{text}/{clip}"}
    if len(depths) == 1 and (pattern := known.get(depths.pop())):
        return pattern
    raise UserError(
        f"{', '.join(map(str, sources))}: expected takes in folders SIGN/TAKE or PERSON/SIGN/TAKE; "
        "say what their paths are with --pattern, as in {text}/{signer}_{clip}"
    )


@dataclass(slots=True)
class _Row:
    """A clip that was read, and where its numbers wait."""

    offset: int
    frames: int
    fps: float
    width: int
    height: int
    label: str
    source: Path
    signer: str
    split: str


@dataclass(slots=True)
class _Batch:
    """What has been read so far; landmarks wait in a file, so that memory holds one clip."""

    spool: IO[bytes]
    layout: Layout | None = None
    rows: dict[str, _Row] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    skeletons: Counter[str] = field(default_factory=Counter)
    crowded: int = 0  # clips with several people
    shown: Counter[str] = field(default_factory=Counter)  # frames with each group

    def add(
        self, clip_id: str, clip: ForeignClip, source: Path, said: dict[str, str],
        options: ImportOptions,
    ) -> None:  # fmt: skip
        """Convert a clip and keep it.

        Args:
            clip_id: Its name in the corpus.
            clip: The clip.
            source: Where it is from.
            said: What its path says: text, signer, split.
            options: What to take of it.

        Raises:
            ClipError: If it cannot be kept.
        """
        clip_id = clip_id_of(clip_id)  # as `init` names what tables call so
        if problem := id_problem(clip_id):
            raise ClipError(f"its name {clip_id!r} {problem}", "rename the file")
        if clip_id in self.rows:
            other = self.rows[clip_id].source
            raise ClipError(f"{other} has a clip of this name already", "rename one of them")
        layout = self.layout or layout_of(clip, options.groups)
        sequence = to_sequence(clip, layout, allow_outside=options.defaults.allow_outside)
        self.layout = layout  # not before the clip is known to be good
        self.skeletons[clip.skeleton] += 1
        self.crowded += clip.people > 1
        self.shown.update(dict(zip(layout.group_names, sequence.present.sum(axis=0), strict=True)))
        offset = self.spool.tell()
        self.spool.write(sequence.points.astype(np.float16).tobytes())
        self.spool.write(sequence.present.tobytes())
        self.rows[clip_id] = _Row(
            offset, len(sequence.points), clip.fps, clip.width, clip.height,
            clip.label or said.get("text", ""), source, said.get("signer", ""),
            said.get("split", ""),
        )  # fmt: skip

    def notes(self) -> list[str]:
        """Say what was taken for what."""
        assert self.layout is not None, "no clip was kept"
        frames = sum(row.frames for row in self.rows.values())
        known = {one.name: one.landmarks for groups in GROUP_CHOICES.values() for one in groups}
        notes = [f"points of {name}: {count} clips" for name, count in self.skeletons.items()]
        for group in self.layout.groups:
            share = self.shown[group.name] / frames
            if group.name not in known:  # features
                continue
            of = f"{len(group.landmarks)} of {len(known[group.name])} landmarks"
            notes.append(f"{group.name}: {of}, in {share:.0%} of the frames")
        if self.layout.name.endswith(FLAT):
            notes.append("no depth: z is 0 everywhere")
        rates = Counter(row.fps for row in self.rows.values())
        rate = ", ".join(f"{fps:g} ({count} clips)" for fps, count in rates.most_common(5))
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
        row, layout = self.rows[clip_id], self.layout
        shape = (row.frames, layout.points, COORDINATES)
        self.spool.seek(row.offset)
        points = np.frombuffer(self.spool.read(2 * int(np.prod(shape))), np.float16)
        flags = np.frombuffer(self.spool.read(row.frames * len(layout.groups)), np.bool_)
        return LandmarkSequence(
            points=points.astype(np.float32).reshape(shape),
            present=flags.reshape(row.frames, -1),
            fps=row.fps,
            width=row.width,
            height=row.height,
            layout=layout,
        )


def import_landmarks(sources: Sequence[Path], corpus: Path, options: ImportOptions) -> Imported:
    """Turn landmark files into the shards of a corpus without videos.

    Writes `landmarks/shards`, `landmarks/clips.tsv` (what to write a manifest from) and
    `landmarks/rejects.tsv` into the corpus folder. The bytes depend on the files and options only.

    Args:
        sources: Files, or folders with files of `FORMATS` below.
        corpus: The corpus folder; made if need be.
        options: What to read.

    Raises:
        UserError: If nothing can be imported, or the folder has imported landmarks already.
    """
    shards = corpus / IMPORTED_SHARDS
    if shards.exists():
        raise UserError(
            f"{shards} already exists; --force imports again in its place (all sources of a "
            "corpus in one go), or import into another folder"
        )
    _check_corpus(corpus)
    files, names = _find_files(sources, options.format), dict[PurePosixPath, str]()
    if options.pattern or len({one.below.name for one in files}) < len(files):
        names = {one.below: "_".join(one.below.parts) for one in files}
    shards.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        batch = _Batch(stack.enter_context(tempfile.TemporaryFile(dir=shards.parent)))
        bar = stack.enter_context(tqdm(files, "reading", unit=" files", file=progress_file()))
        for source in bar:
            _read_file(source, names.get(source.below), options, batch)
            bar.set_postfix_str(f"{len(batch.rows)} clips, {len(batch.rejects)} rejected")
        write_rejects(shards.parent / REJECTS_NAME, batch.rejects)
        if batch.layout is None:
            first = batch.rejects[0]
            raise UserError(
                f"no clip could be imported; {shards.parent / REJECTS_NAME} lists why, the first "
                f"is {first.video}: {first.problem}"
            )
        frames = {clip_id: row.frames for clip_id, row in batch.rows.items()}
        _write_clips(shards.parent / CLIPS_NAME, batch.rows, options.pattern is not None)
        write_shards(
            shards, frames, batch.load, layout=batch.layout, frames_per_shard=_FRAMES_PER_SHARD,
            extractor=_fingerprint(files, options, batch.layout),
        )  # fmt: skip
        notes = batch.notes()
        paths = [without_ending(one.path.as_posix()).split("/") for one in files]
        ends = {"/".join(parts[n:]) for parts in paths for n in range(len(parts))}
        lost = [name for name in options.defaults.rates if name not in ends]
        if lost:
            notes.append(f"warning: {len(lost)} rows of --rates name no file, such as {lost[0]}")
        if names:
            notes.append(f"clips are named by their paths, as in {next(iter(batch.rows))}")
        return Imported(batch.layout, len(frames), sum(frames.values()), batch.rejects, notes)


def _check_corpus(corpus: Path) -> None:
    """Refuse a corpus of videos, and to write over lists that are not of an import.

    Raises:
        UserError: If either is there.
    """
    for path in (corpus / f"manifest{suffix}" for suffix in SUFFIXES):
        if path.is_file() and "video" in read_table(path).header:
            raise UserError(
                f"{path} names videos, and a corpus has them or imported landmarks: import into "
                "another folder"
            )
    check_lists(corpus)


def check_lists(corpus: Path) -> None:
    """Refuse to write over lists that are not of an import.

    Raises:
        UserError: If one is there.
    """
    for name, header in ((CLIPS_NAME, _CLIPS_HEADER), (REJECTS_NAME, REJECTS_HEADER)):
        path = corpus / IMPORTED_SHARDS.parent / name
        earlier = header.removesuffix("hint") + "mend"  # what the column of rejects was called
        if not any(begins_as_ours(path, one) for one in (header, earlier, _WITH_PATTERN)):
            raise UserError(f"{path} is there and no list of an import: move it, or import into "
                            "another folder")  # fmt: skip


def read_foreign(
    path: Path, layout: Layout, defaults: SourceDefaults
) -> Iterator[tuple[str, LandmarkSequence | Reject]]:
    """Yield the clips of a landmark file in a layout, or what is wrong with them.

    Args:
        path: The file; its ending says the format.
        layout: What to take of each clip.
        defaults: What the file does not say.

    Raises:
        UserError: If the ending is unknown, or something that the file does not say is missing.
    """
    rejects: list[Reject] = []
    with _noting(rejects, path.stem, path):
        kind = FEATURES if layout.name.startswith(FEATURES) else "auto"
        for clip_id, make in _READERS[_format_of(path.suffix, kind, path)](path, defaults):
            found: LandmarkSequence | None = None
            with _noting(rejects, clip_id, path):
                found = to_sequence(make(), layout, allow_outside=defaults.allow_outside)
            yield clip_id, found or rejects.pop()
    yield from ((reject.clip_id, reject) for reject in rejects)


def _find_files(sources: Sequence[Path], name: str) -> list[_Source]:
    """List the files in the order of their paths; frames of one clip as one."""
    suffixes = FORMATS.get(name) or tuple(end for ends in FORMATS.values() for end in ends)
    files: dict[Path, _Source] = {}
    for source in sources:
        if source.is_dir():
            inside = [path for path in source.rglob("*") if path.suffix.lower() in suffixes]
            found = sorted(path for path in inside if path.is_file())
            if name == "auto":  # beside other landmarks, JSON most often tells of them
                plain = [path for path in found if path.suffix.lower() not in FORMATS["keypoints"]]
                found = plain or found
            files |= {one.path: one for one in _join_frames(found, source, name)}
        elif source.is_file():
            files[source] = _Source(source, PurePosixPath(source.stem))
        else:
            raise UserError(f"{source}: no such file or folder")
    if not files:
        names = ", ".join(map(str, sources))
        raise UserError(f"{names}: no file there ends in {', '.join(suffixes)}")
    return list(files.values())


def _join_frames(files: Sequence[Path], source: Path, kind: str) -> Iterator[_Source]:
    """Yield files as they are, but those of one frame each as the clip that they make."""
    series: dict[tuple[Path, str, str], list[tuple[int, Path]]] = defaultdict(list)
    for path in files:
        match = _FRAME_NAME.fullmatch(path.stem) if path.suffix in (".npy", ".json") else None
        key = (path.parent, match[1], path.suffix) if match else (path, "", "")
        series[key].append((int(match[2]) if match else 0, path))
    for (parent, prefix, _), numbered in series.items():
        first = numbered[0][1]
        if kind != "features" and first != parent and _is_frame(first):
            below = PurePosixPath(parent.relative_to(source).as_posix())
            path = parent / prefix if prefix else parent
            name = below / prefix if prefix else below if below.name else PurePosixPath(source.name)
            yield _Source(path, name, tuple(file for _, file in sorted(numbered)))
            continue
        for _, path in numbered:
            yield _Source(path, PurePosixPath(path.relative_to(source).with_suffix("").as_posix()))


def _is_frame(path: Path) -> bool:
    if path.suffix == ".npy":
        return numpy_arrays.is_frame(path)
    try:
        return keypoints.is_frame(json.loads(path.read_bytes()))
    except (ValueError, RecursionError, OSError):  # told where it is read
        return False


def _format_of(suffix: str, name: str, path: Path) -> str:
    if name != "auto":
        return name
    found = [key for key, suffixes in FORMATS.items() if suffix.lower() in suffixes]
    if not found:
        raise UserError(f"{path}: of what format is it? Say so with --format {'|'.join(FORMATS)}")
    return found[0]


def _read_file(source: _Source, name: str | None, options: ImportOptions, batch: _Batch) -> None:
    """Keep what can be read of a file, note what cannot."""
    path = source.path
    with _noting(batch.rejects, name or source.below.name, path):
        if problem := name_problem(path):
            raise ClipError(problem.reason, problem.hint)
        match = options.pattern.fullmatch(source.below.as_posix()) if options.pattern else None
        if options.pattern and not match:
            raise ClipError(
                f"its path {source.below} does not fit --pattern", "correct one of them"
            )
        said = match.groupdict() if match else {}
        if source.frames:
            read = read_array_frames if source.suffix == ".npy" else read_keypoint_frames
            clips = read(path, source.frames, options.defaults)
        else:
            which = _format_of(source.suffix, options.format, path)
            clips = _READERS[which](path, options.defaults)
        clip_id = None
        for clip_id, make in clips:
            # The name of the file, and the number or name of a clip within.
            own = f"{name}{clip_id.removeprefix(source.below.name)}" if name else clip_id
            own = own if clip_id.startswith(source.below.name) else clip_id
            with _noting(batch.rejects, own, path):
                batch.add(own, make(), path, said, options)
        if clip_id is None:
            raise ClipError("it has no clip", "leave it out")


@contextmanager
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


def _fingerprint(files: Sequence[_Source], options: ImportOptions, layout: Layout) -> str:
    formats = sorted({_format_of(one.suffix, options.format, one.path) for one in files})
    found: dict[str, object] = {
        "detector": "imported",
        "source": "+".join(formats),
        "import_version": IMPORT_VERSION,
    }
    if options.defaults.min_score != MIN_SCORE:
        found["min_score"] = options.defaults.min_score
    if options.detector:
        groups = _groups_for_films(layout, options.detector)
        found |= {"films": options.detector, "groups": groups}
    return json.dumps(found, sort_keys=True)


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
        found = options.layout.name
    except ValueError as error:
        found = str(error)
    raise UserError(
        f"--detector {detector}: found landmarks of the layout {layout.name}, but in films it "
        f"finds {found}; choose other --groups, or leave --detector out"
    )


def _write_clips(path: Path, rows: dict[str, _Row], has_pattern: bool) -> None:
    """Write clips.tsv: ids, lengths, and what the sources and their paths say of them."""
    lines = []
    for clip_id, row in sorted(rows.items()):
        label = " ".join(row.label.split())
        cells = [clip_id, row.frames, row.fps, label, _cell(row.source.as_posix())]
        cells += [_cell(row.signer), _cell(row.split)] if has_pattern else []
        lines.append(cells)
    header = _WITH_PATTERN if has_pattern else _CLIPS_HEADER
    write_file(path, tsv_text(header.split("\t"), lines))
