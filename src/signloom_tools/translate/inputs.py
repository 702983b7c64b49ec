"""Clips that a person names by paths, with their landmarks.

A path is a video, a landmark file of another tool, a folder of such files, or a folder of shards.
What a model was trained on decides which of them it can read.
"""

import functools
import json
import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from signloom.corpus.landmarks import LandmarkSequence, Layout, check_same_extractor
from signloom.corpus.manifest import VIDEO_SUFFIXES
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata
from signloom.detection.detector import DetectorOptions
from signloom.detection.video import Box, Frame, Video, find_traits
from signloom.errors import ClipError, Problem, UserError, name_problem, readable_name
from signloom.extraction.extract import (
    extract_video,
    find_extracted,
    open_detector,
    options_of_fingerprint,
)
from signloom_tools.importing.file_names import FORMATS
from signloom_tools.importing.importer import IMPORT_VERSION, read_foreign
from signloom_tools.importing.options import MIN_SCORE, ReadOptions
from signloom_tools.importing.pictures import (
    PACKED_SUFFIX,
    describe_gaps,
    is_picture_folder,
    open_pictures,
)

logger = logging.getLogger(__name__)

_SHARDS = "shard-*.parquet"
_THREADS = 2  # a person waits for this one clip
LONGEST_S = 600.0  # a longer clip is no sentence, and would take more memory than there is


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipPath:
    """A file, or a clip in a folder of shards."""

    path: Path
    clip_id: str | None = None  # of the clip in the shards

    @property
    def kind(self) -> Literal["shards", "problem", "landmarks", "video"]:
        """How it is read; `problem`: not at all."""
        if self.clip_id is not None:
            return "shards"
        if name_problem(self.path) or not self.path.exists():
            return "problem"
        return "landmarks" if self.path.is_file() and _is_foreign(self.path) else "video"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GivenClip:
    """A clip that is to be translated."""

    source: Path  # file, or folder of shards
    clip_id: str  # name of the file without its ending, or of the clip in it
    sequence: LandmarkSequence
    is_video: bool
    begins_s: float = 0.0  # when its first picture is shown, in the film
    packed: Path | None = None  # the video file that a folder of pictures became
    box: Box | None = None  # the part of its picture that was read
    fps: float = 0.0  # most frames a second that were read; 0: all


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableClip:
    """A clip, or a file of clips, that cannot be read."""

    name: str
    problem: Problem


Clips = Iterator[GivenClip | UnreadableClip]


def find_clips(paths: Sequence[Path], extractor: Mapping[str, Any]) -> list[ClipPath]:
    """List the clips that some paths name, folders in the order of their names.

    Args:
        paths: Files and folders. Of a folder, with all folders in it, the files are taken that
            the model can read: videos, or landmark files where it was trained on imported ones.
        extractor: What made the landmarks that the model was trained on.

    Raises:
        UserError: If a folder holds nothing of use, or shards of another make.
    """
    clip_paths: dict[ClipPath, None] = {}
    for path in paths:
        if not path.is_dir() or (_is_pictures(path) and not _is_imported(extractor)):
            clip_paths[ClipPath(path=path)] = None
        elif shards := _shards_in(path):
            _check_shards(shards, extractor)
            clips = read_clip_frames(shards)
            clip_paths |= dict.fromkeys(ClipPath(path=shards, clip_id=clip_id) for clip_id in clips)
        else:
            clip_paths |= dict.fromkeys(ClipPath(path=file) for file in _files_in(path, extractor))
    return list(clip_paths)


class ClipReader:
    """Reads sources for a model.

    Args:
        extractor: What made the landmarks that the model was trained on.
        watch: Gets the frames of videos as they are decoded and passes them on.
    """

    def __init__(
        self,
        extractor: Mapping[str, Any],
        options: ReadOptions,
        watch: Callable[[Iterator[Frame]], Iterator[Frame]] = iter,
    ) -> None:
        self._extractor, self._options, self._watch = extractor, options, watch
        self._known: dict[Path, LandmarkSequence | Problem | None] = {}  # of films that are open

    def open(self, source: ClipPath) -> None:
        """Look into extraction's cache, and load the detector, if the source needs it.

        Raises:
            UserError: If the model cannot read videos, or a file of the detector is missing.
        """
        if source.kind == "video":
            self._known[source.path] = self._find_extracted(source.path)
            if self._known[source.path] is None:
                open_detector(self._detector, _THREADS)

    def read(self, source: ClipPath, layout: Layout) -> Clips:
        """Yield the clips of a source: one, or those of a landmark file.

        Args:
            source: Of `find_sources`.
            layout: Landmarks that the model reads.

        Raises:
            UserError: If the model cannot read sources of this kind.
        """
        readers: dict[str, Callable[[ClipPath, Layout], Clips]] = {
            "shards": self._read_shards,
            "problem": self._refuse,
            "landmarks": self._read_landmarks,
            "video": self._read_video,
        }
        return readers[source.kind](source, layout)

    def _read_shards(self, source: ClipPath, _: Layout) -> Clips:
        for name, clip in read_shards(source.path, [source.clip_id or ""]).items():
            yield _given(source.path, name, clip)

    def _refuse(self, source: ClipPath, _: Layout) -> Clips:
        missing = Problem("there is no such file", "check the path")
        problem = name_problem(source.path) or missing
        yield UnreadableClip(name=readable_name(source.path), problem=problem)

    def _read_landmarks(self, source: ClipPath, layout: Layout) -> Clips:
        path = source.path
        _check_foreign(path, self._extractor)
        score = self._extractor.get("min_score", MIN_SCORE)
        defaults = replace(self._options.defaults, min_score=score)
        for clip_id, clip in read_foreign(path, layout, defaults):
            if isinstance(clip, LandmarkSequence):
                yield _given(path, clip_id, clip)
            else:
                yield UnreadableClip(name=f"{path}: {clip_id}", problem=clip.problem)

    @functools.cached_property
    def _detector(self) -> DetectorOptions:
        return options_of_fingerprint(self._extractor)

    def _read_video(self, source: ClipPath, _: Layout) -> Clips:
        path, packed = source.path, None
        extracted = self._known.pop(path) if path in self._known else self._find_extracted(path)
        try:
            if isinstance(extracted, Problem):
                raise ClipError(extracted.reason, extracted.hint)
            if path.is_dir():
                pictures = open_pictures(path, self._options.defaults.fps)
                packed = self._folder_of_packed() / f"{path.name}{PACKED_SUFFIX}"
                pictures.pack(packed)
                if gaps := describe_gaps([pictures]):
                    logger.warning("%s", gaps)
            clip = extracted or extract_video(
                packed or path,
                self._detector,
                box=self._options.crop,
                threads=_THREADS,
                watch=self._watch,
            )
        except ClipError as error:
            yield UnreadableClip(name=str(path), problem=error.problem)
            return
        yield GivenClip(
            source=path,
            clip_id=path.name if packed else path.stem,
            sequence=clip,
            is_video=True,
            begins_s=find_traits(path).get("begins_s", 0.0),
            packed=packed,
            box=self._options.crop,
            fps=self._detector.fps,
        )

    def _find_extracted(self, path: Path) -> LandmarkSequence | Problem | None:
        return find_extracted(path, self._detector, self._options.crop)

    def _folder_of_packed(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="signloom-pictures-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


def _given(path: Path, clip_id: str, clip: LandmarkSequence) -> GivenClip:
    return GivenClip(source=path, clip_id=clip_id, sequence=clip, is_video=False)


def _shards_in(folder: Path) -> Path | None:
    """Return the folder's shards, which may lie one folder down, as in `data/landmarks`."""
    folders = (folder, folder / "shards")
    return next((path for path in folders if any(path.glob(_SHARDS))), None)


def _check_shards(shards: Path, extractor: Mapping[str, Any]) -> None:
    try:
        hint = "extract them as the model's were, or translate the videos themselves"
        check_same_extractor(json.loads(shards_metadata(shards).extractor), extractor, hint=hint)
    except UserError as error:
        raise UserError(f"{shards}: {error}") from None


def _suffixes(extractor: Mapping[str, Any]) -> Sequence[str]:
    if not _is_imported(extractor):
        return VIDEO_SUFFIXES
    foreign = [end for name in _formats(extractor) for end in FORMATS[name]]
    return [*foreign, *(VIDEO_SUFFIXES if "films" in extractor else ())]


def _files_in(folder: Path, extractor: Mapping[str, Any]) -> list[Path]:
    """Return what a model can read in a folder, and in all folders in it, by name."""
    suffixes, takes_pictures = _suffixes(extractor), not _is_imported(extractor)
    paths = [
        path
        for path in folder.rglob("*")
        if (path.suffix.lower() in suffixes and path.is_file())
        or (takes_pictures and _is_pictures(path))
    ]
    if paths:
        return sorted(paths)
    raise UserError(
        f"{folder}: no file there ends in {', '.join(suffixes)}, which is what this model reads"
    )


def video_seconds(source: ClipPath) -> float | None:
    """Return how long a video is by its header; None where it does not say, or is no video."""
    if source.kind != "video" or not source.path.is_file():
        return None
    try:
        with Video(source.path) as video:
            return video.duration_s
    except ClipError:
        return None


def _is_pictures(path: Path) -> bool:
    return path.is_dir() and is_picture_folder(file.name for file in path.iterdir())


def _is_foreign(path: Path) -> bool:
    return any(path.suffix.lower() in ends for ends in FORMATS.values())


def _is_imported(extractor: Mapping[str, Any]) -> bool:
    return extractor.get("detector") == "imported"


def _formats(extractor: Mapping[str, Any]) -> list[str]:
    return [name for name in str(extractor.get("source")).split("+") if name in FORMATS]


def _check_foreign(path: Path, extractor: Mapping[str, Any]) -> None:
    """Refuse a landmark file that another detector made than the model's landmarks."""
    if path.match(_SHARDS):
        raise UserError(f"{path} is one of several shards; give its folder, {path.parent}")
    if not _is_imported(extractor):
        raise UserError(
            f"{path}: found a table, or landmarks of an unknown detector; expected videos or "
            "folders of them, since the model was trained on landmarks of "
            f"{extractor.get('detector')!r}. Give those, or train on imported landmarks"
        )
    suffixes = [end for name in _formats(extractor) for end in FORMATS[name]]
    if path.suffix.lower() not in suffixes or extractor.get("import_version") != IMPORT_VERSION:
        raise UserError(
            f"{path}: the model was trained on landmarks imported from {extractor.get('source')} "
            f"by import version {extractor.get('import_version')}; this is import version "
            f"{IMPORT_VERSION}, which needs files that end in {', '.join(suffixes)}"
        )
