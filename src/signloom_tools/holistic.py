"""MediaPipe Holistic by itself: a film or camera frames in, all its landmarks out.

    from signloom_tools.holistic import detect

    for landmarks in detect("film.mp4"):
        print(landmarks.time_s, landmarks.left_hand)

The networks are MediaPipe's (`extraction.mediapipe_models` says where they lie); neither MediaPipe
nor a model of Signloom is needed. What is found is what MediaPipe's graph finds, to the bit.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES, PART_POINTS, LandmarkSequence
from signloom.detection.detector import (
    Detector,
    DetectorOptions,
    build_detector,
    people_counter,
    quiet_native_code,
)
from signloom.detection.video import (
    Box,
    Picture,
    Video,
    crop_frames,
    even_frames,
    measure_fps,
)

if TYPE_CHECKING:  # only where tables are written
    import pyarrow as pa

Points = npt.NDArray[np.float32]
Face = Literal["none", "mesh", "refined"]
FACES: dict[Face, int] = {"none": 0, "mesh": PART_POINTS["face"], "refined": 478}
"""Landmarks of the face: none, the mesh, or the mesh and the irises from the refined network."""

_GROUPS: dict[Face, tuple[str, ...]] = {"none": (), "mesh": ("lips",), "refined": ("gaze",)}
_DRAWN = ("lips", "face_outline", "brows", "eyes")  # of the face
_THREADS = 2  # decode ahead, look at the parts in parallel


@dataclass(frozen=True, slots=True, eq=False)
class Landmarks:
    """What Holistic finds in one frame; left and right are the signer's own.

    Each part has shape (points, 3) float32, or is None where it is not seen. x and y are shares of
    the picture's width and height (y down), z is in widths of the picture, nearer is smaller.

    Attributes:
        time_s: Seconds from the start of the film.
        left_hand: 21 points.
        right_hand: 21 points.
        pose: 33 points.
        face: 468 points; 478 with the irises; always None where no face was asked for.
    """

    time_s: float
    left_hand: Points | None = None
    right_hand: Points | None = None
    pose: Points | None = None
    face: Points | None = None


def detect(
    film: str | Path | Iterable[Picture],
    *,
    face: Face = "mesh",
    fps: float = 0.0,
    crop: Box | None = None,
) -> Iterator[Landmarks]:
    """Yield the landmarks of each frame of a film, or of pictures as they come.

    Args:
        film: A file; or pictures, shape (height, width, 3) uint8, red first, as of a camera. Those
            are looked at one by one, without waiting for the next.
        face: Which face; "none" is a tenth faster.
        fps: Most frames a second of a file that are looked at; 0: all.
        crop: The part of a file's picture that is read, which is then the picture; None: all.

    Raises:
        ClipError: If the file cannot be read.
        UserError: If the networks are missing.
        RuntimeError: If a network fails on a frame.
    """
    if not isinstance(film, str | Path):
        detector = _open(face, threads=_THREADS)
        for number, rgb in enumerate(film):
            # The time decides nothing with these networks.
            yield Landmarks(float(number), **detector.find(rgb, float(number)))
        return
    with Video(Path(film)) as video:
        detector = _open(face, threads=_THREADS)
        with closing(detector.find_all(crop_frames(video.frames(fps=fps), crop))) as detections:
            for frame, parts in detections:
                yield Landmarks(frame.time_s, **parts)


def _open(face: Face, *, threads: int) -> Detector:
    groups = ("hands", "pose", *_GROUPS[face])
    with quiet_native_code():
        return build_detector(DetectorOptions(detector="holistic", groups=groups), threads=threads)


@dataclass(frozen=True, slots=True, eq=False)
class FilmLandmarks:
    """The landmarks of a whole film.

    Attributes:
        times_s: Shape (S,) float64, of each frame.
        parts: Shape (S, points, 3) float32 each, NaN where a part is absent: `left_hand`,
            `right_hand`, `pose` and, if asked for, `face`.
        fps: Frames a second, measured where the header errs.
        width: Pixels, of the upright picture.
        height: Likewise.
        is_crowded: Whether several people are seen.
    """

    times_s: npt.NDArray[np.float64]
    parts: dict[str, Points]
    fps: float
    width: int
    height: int
    is_crowded: bool


def read_film(
    film: Path,
    *,
    face: Face = "mesh",
    fps: float = 0.0,
    crop: Box | None = None,
    threads: int = _THREADS,
    watch: Callable[[], object] = lambda: None,
) -> FilmLandmarks:
    """Return the landmarks of a film; `watch` is called at each frame, else as `detect`."""
    points = {part: PART_POINTS[part] for part in ("left_hand", "right_hand", "pose")}
    points |= {"face": FACES[face]} if face != "none" else {}
    frames: list[dict[str, Points]] = []
    times_s: list[float] = []
    height = width = 0
    with Video(film) as video:
        detector, counter = _open(face, threads=threads), people_counter()
        frames_of = counter.watch(crop_frames(video.frames(fps=fps), crop))
        with closing(detector.find_all(frames_of)) as detections:
            for frame, parts in detections:
                times_s.append(frame.time_s)
                frames.append(dict(parts))
                height, width = frame.rgb.shape[:2]
                watch()
        rate = measure_fps(times_s, min(video.fps, fps or video.fps))
    absent = {part: np.full((n, COORDINATES), np.nan, np.float32) for part, n in points.items()}
    arrays = {
        part: np.stack([frame.get(part, absent[part]) for frame in frames]) for part in points
    }
    return FilmLandmarks(
        np.array(times_s), arrays, rate, width, height, is_crowded=counter.found_several
    )


def to_npz(film: FilmLandmarks) -> bytes:
    """Return a NumPy file: the parts, `time_s`, `fps`, `width`, `height`."""
    buffer = io.BytesIO()
    size = {"fps": film.fps, "width": film.width, "height": film.height}
    np.savez_compressed(buffer, time_s=film.times_s, **film.parts, **size)
    return buffer.getvalue()


def to_json(film: FilmLandmarks) -> bytes:
    """Return JSON, a frame a line; null where a part is absent."""
    lines = [
        _json_frame(time_s, {part: points[number] for part, points in film.parts.items()})
        for number, time_s in enumerate(film.times_s.tolist())
    ]
    head = _json_head(film.fps, film.width, film.height)
    return (f"{head}\n" + ",\n".join(lines) + "\n]}\n").encode()


def _json_head(fps: float, width: int, height: int) -> str:
    return json.dumps({"fps": fps, "width": width, "height": height})[:-1] + ', "frames": ['


def _json_frame(time_s: float, parts: Mapping[str, Points]) -> str:
    frame: dict[str, object] = {"time_s": time_s}
    for part, points in parts.items():
        is_there = np.isfinite(points[0, 0])
        # By way of str: the shortest decimals that give the same number of single precision.
        frame[part] = [[float(str(x)) for x in p] for p in points] if is_there else None
    return json.dumps(frame)


def stream_json(
    film: IO[bytes], *, face: Face = "mesh", fps: float = 0.0, crop: Box | None = None
) -> Iterator[str]:
    """Yield the lines of `to_json`, each when its picture comes; arguments as those of `detect`.

    The rate is that of the header, and the comma between two frames is before the second.
    """
    names = [part for part in PART_POINTS if part != "face" or face != "none"]
    nothing = dict.fromkeys(names, np.full((1, 1), np.nan, np.float32))
    with Video(film) as video:
        detector = _open(face, threads=1)
        for number, frame in enumerate(crop_frames(video.frames(fps=fps), crop)):
            if not number:
                yield _json_head(min(video.fps, fps or video.fps), *frame.rgb.shape[1::-1])
            parts = {**nothing, **detector.find(frame.rgb, frame.time_s)}
            yield "," * (number > 0) + _json_frame(frame.time_s, parts)
    yield "]}"


def to_parquet(film: FilmLandmarks) -> bytes:
    """Return a Parquet file, a row a landmark, with the columns of Kaggle's (`signloom import`)."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(_to_table(film), buffer, compression="zstd")
    return buffer.getvalue()


def to_csv(film: FilmLandmarks) -> bytes:
    """Return a table as text, a row a landmark; x, y and z are empty where a part is absent."""
    import pyarrow.csv

    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(quoting_style="none")
    pyarrow.csv.write_csv(_to_table(film), buffer, options)
    return buffer.getvalue()


def to_sequence(film: FilmLandmarks) -> LandmarkSequence:
    """Return the landmarks that are drawn, at an even frame rate.

    Raises:
        ClipError: If the film is none of landmarks, such as one of a single frame.
    """
    from signloom_tools.importing import foreign

    even = even_frames(film.times_s.tolist(), film.fps)
    parts = {
        part: foreign.LandmarkPart(points[even], tuple(range(points.shape[1])))
        for part, points in film.parts.items()
    }
    clip = foreign.ForeignClip(
        clip_id="film", parts=parts, fps=film.fps, width=film.width, height=film.height
    )
    layout = foreign.layout_of(clip, ("hands", "pose", *(_DRAWN if "face" in parts else ())))
    return foreign.to_sequence(clip, layout, allow_outside=True)


def to_pose(film: FilmLandmarks) -> bytes:
    """Return a .pose file: Holistic's components, at an even frame rate.

    Raises:
        UserError: If pose-format is not installed.
    """
    from signloom_tools.importing.pose_files import pack_parts

    even = even_frames(film.times_s.tolist(), film.fps)
    parts = {part: points[even] for part, points in film.parts.items()}
    return pack_parts(parts, fps=film.fps, width=film.width, height=film.height)


WRITERS: dict[str, Callable[[FilmLandmarks], bytes]] = {
    "pose": to_pose,
    "parquet": to_parquet,
    "npz": to_npz,
    "csv": to_csv,
    "json": to_json,
}


def _to_table(film: FilmLandmarks) -> "pa.Table":
    """Return a row a landmark: of what frame, what it is, where, and rate and size of the film."""
    import pyarrow as pa

    parts = sorted(film.parts)  # Kaggle's order
    sizes = [film.parts[part].shape[1] for part in parts]
    every = np.concatenate([film.parts[part] for part in parts], axis=1)
    frames, points, _ = every.shape
    names = np.repeat(np.arange(len(parts), dtype=np.int8), sizes)
    flat = every.reshape(-1, COORDINATES)
    return pa.table(
        {
            "frame": pa.array(np.repeat(np.arange(frames, dtype=np.int32), points)),
            "time_s": pa.array(np.repeat(film.times_s, points)),
            "type": pa.DictionaryArray.from_arrays(np.tile(names, frames), parts),
            "landmark_index": pa.array(
                np.tile(np.concatenate([np.arange(n, dtype=np.int16) for n in sizes]), frames)
            ),
            **{axis: pa.array(flat[:, i], from_pandas=True) for i, axis in enumerate("xyz")},
            **{
                name: pa.array(np.full(frames * points, getattr(film, name)))
                for name in ("fps", "width", "height")
            },
        }
    )
