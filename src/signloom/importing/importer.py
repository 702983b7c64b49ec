"""Import of landmark files: they become shards in a corpus folder."""

import json
import tempfile
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from tqdm import tqdm

from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout
from signloom.corpus.manifest import IMPORTED_SHARDS, SUFFIXES, id_problem, read_table
from signloom.corpus.rejects import REJECTS_HEADER, REJECTS_NAME, Reject, write_rejects
from signloom.corpus.shards import write_shards
from signloom.errors import ClipError, Problem, UserError, name_problem, readable_name
from signloom.files import begins_as_ours, write_file
from signloom.importing.foreign import (
    ClipSource,
    ForeignClip,
    SourceDefaults,
    layout_of,
    to_sequence,
)
from signloom.importing.kaggle import read_kaggle
from signloom.importing.numpy_arrays import read_arrays
from signloom.importing.pose_files import read_pose
from signloom.progress import progress_file

IMPORT_VERSION = 1  # raise it when the same file gives other landmarks
FORMATS = {"pose": (".pose",), "kaggle": (".parquet",), "numpy": (".npz", ".npy")}
"""Names of the formats, and what their files end in."""

_READERS: dict[str, Callable[[Path, SourceDefaults], Iterator[ClipSource]]] = {
    "pose": read_pose,
    "kaggle": read_kaggle,
    "numpy": read_arrays,
}
_ODD = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
_NO_CELL = str.maketrans(dict.fromkeys("\t\r\n", " "))  # would cut a table
CLIPS_NAME, _CLIPS_HEADER = "clips.tsv", "clip_id\tframes\tfps\tlabel\tsource"
_FRAMES_PER_SHARD = 25_000  # `extract` writes the shards that training reads, with its own


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """What a person asks for."""

    format: str  # of FORMATS, or "auto": by what a file ends in
    groups: tuple[str, ...] | None  # of GROUP_CHOICES; None: hands, and pose if the first has it
    defaults: SourceDefaults


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the sources."""

    layout: Layout
    clips: int
    frames: int
    rejects: list[Reject]


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


@dataclass(slots=True)
class _Batch:
    """What has been read so far; landmarks wait in a file, so that memory holds one clip."""

    spool: IO[bytes]
    layout: Layout | None = None
    rows: dict[str, _Row] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, clip: ForeignClip, source: Path, groups: Collection[str] | None) -> None:
        """Convert a clip and keep it.

        Raises:
            ClipError: If it cannot be kept.
        """
        clip_id = unicodedata.normalize("NFC", clip.clip_id)  # as manifests are read
        if problem := id_problem(clip_id):
            raise ClipError(f"its name {clip_id!r} {problem}", "rename the file")
        if clip_id in self.rows:
            other = self.rows[clip_id].source
            raise ClipError(f"{other} has a clip of this name already", "rename one of them")
        layout = self.layout or layout_of(clip, groups)
        sequence = to_sequence(clip, layout)
        self.layout = layout  # not before the clip is known to be good
        offset = self.spool.tell()
        self.spool.write(sequence.points.astype(np.float16).tobytes())
        self.spool.write(sequence.present.tobytes())
        self.rows[clip_id] = _Row(
            offset, len(sequence.points), clip.fps, clip.width, clip.height, clip.label, source
        )

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
            f"{shards} is there already; remove it, or import into another folder (all sources "
            "of a corpus in one go)"
        )
    _check_corpus(corpus)
    files = _find_files(sources, options.format)
    shards.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        batch = _Batch(stack.enter_context(tempfile.TemporaryFile(dir=shards.parent)))
        bar = stack.enter_context(tqdm(files, "reading", unit=" files", file=progress_file()))
        for path in bar:
            _read_file(path, options, batch)
            bar.set_postfix_str(f"{len(batch.rows)} clips, {len(batch.rejects)} rejected")
        write_rejects(shards.parent / REJECTS_NAME, batch.rejects)
        if batch.layout is None:
            first = batch.rejects[0]
            raise UserError(
                f"no clip could be imported; {shards.parent / REJECTS_NAME} lists why, the first "
                f"is {first.video}: {first.problem}"
            )
        frames = {clip_id: row.frames for clip_id, row in batch.rows.items()}
        _write_clips(shards.parent / CLIPS_NAME, batch.rows)
        write_shards(
            shards, frames, batch.load, layout=batch.layout,
            extractor=_fingerprint(files, options.format), frames_per_shard=_FRAMES_PER_SHARD,
        )  # fmt: skip
        return Imported(batch.layout, len(frames), sum(frames.values()), batch.rejects)


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
    for name, header in ((CLIPS_NAME, _CLIPS_HEADER), (REJECTS_NAME, REJECTS_HEADER)):
        path = corpus / IMPORTED_SHARDS.parent / name
        if not begins_as_ours(path, header):
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
        for clip_id, make in _READERS[_format_of(path, "auto")](path, defaults):
            found: LandmarkSequence | None = None
            with _noting(rejects, clip_id, path):
                found = to_sequence(make(), layout)
            yield clip_id, found or rejects.pop()
    yield from ((reject.clip_id, reject) for reject in rejects)


def _find_files(sources: Sequence[Path], name: str) -> list[Path]:
    suffixes = FORMATS.get(name) or tuple(end for ends in FORMATS.values() for end in ends)
    files: dict[Path, None] = {}
    for source in sources:
        if source.is_dir():
            inside = [path for path in source.rglob("*") if path.suffix.lower() in suffixes]
            files |= dict.fromkeys(sorted(path for path in inside if path.is_file()))
        elif source.is_file():
            files[source] = None
        else:
            raise UserError(f"{source}: no such file or folder")
    if not files:
        names = ", ".join(map(str, sources))
        raise UserError(f"{names}: no file there ends in {', '.join(suffixes)}")
    return list(files)


def _format_of(path: Path, name: str) -> str:
    if name != "auto":
        return name
    found = [key for key, suffixes in FORMATS.items() if path.suffix.lower() in suffixes]
    if not found:
        raise UserError(f"{path}: of what format is it? Say so with --format {'|'.join(FORMATS)}")
    return found[0]


def _read_file(path: Path, options: ImportOptions, batch: _Batch) -> None:
    """Keep what can be read of a file, note what cannot."""
    with _noting(batch.rejects, path.stem, path):
        if problem := name_problem(path):
            raise ClipError(problem.reason, problem.hint)
        clip_id = None
        for clip_id, make in _READERS[_format_of(path, options.format)](path, options.defaults):
            with _noting(batch.rejects, clip_id, path):
                batch.add(make(), path, options.groups)
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
        problem = Problem(reason, "compare it with the formats in docs/data.md")
    else:
        return
    plain = Problem(_cell(problem.reason), _cell(problem.hint))
    name, file = readable_name(clip_id), readable_name(path.as_posix())
    rejects.append(Reject(_cell(name), _cell(file), plain))


def _cell(text: str) -> str:
    return text.translate(_NO_CELL)


def _fingerprint(files: Sequence[Path], name: str) -> str:
    formats = sorted({_format_of(path, name) for path in files})
    found = {"detector": "imported", "source": "+".join(formats), "import_version": IMPORT_VERSION}
    return json.dumps(found, sort_keys=True)


def _write_clips(path: Path, rows: dict[str, _Row]) -> None:
    """Write clips.tsv: ids, lengths, and what the sources say of them."""
    lines = [_CLIPS_HEADER]
    for clip_id, row in sorted(rows.items()):
        label = " ".join(row.label.split())
        lines.append(f"{clip_id}\t{row.frames}\t{row.fps}\t{label}\t{_cell(row.source.as_posix())}")
    write_file(path, "\n".join(lines) + "\n")
