"""Changes of a film's pictures that real recordings have: dark, blurred, small, another room."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.video import Picture, Video
from signloom_tools.video_writer import VideoWriter

FloatArray = npt.NDArray[np.float32]
AS_IT_IS = "film: written again"
FIRST_S, RATE = 1.5, 10.0
MARGIN = 0.12  # of the old room around the person, picture heights

# Of a picture, whose landmarks are those of the film as it was, (P, 2) in [0, 1], NaN where absent.
Change = Callable[[Picture, FloatArray, np.random.Generator], Picture]


def _same(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    return picture


def _dark(picture: Picture, _: FloatArray, generator: np.random.Generator) -> Picture:
    """A quarter of the light, and the noise of a camera that needs more."""
    noise = generator.normal(0.0, 6.0, picture.shape)
    return np.asarray(np.clip(picture * 0.25 + noise, 0, 255), np.uint8)


def _blurred(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), len(picture) / 120), np.uint8)


def _compressed(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    content = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 8])[1]
    return np.asarray(cv2.imdecode(content, cv2.IMREAD_COLOR), np.uint8)


def _small(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    height, width = (side // 4 * 2 for side in picture.shape[:2])
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _cropped(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    """A tenth less on each side, as a video call shows."""
    top, left = (side // 20 * 2 for side in picture.shape[:2])
    return np.ascontiguousarray(picture[top:-top, left:-left])


def _mirrored(picture: Picture, _: FloatArray, __: np.random.Generator) -> Picture:
    return np.ascontiguousarray(picture[:, ::-1])


def _elsewhere(picture: Picture, points: FloatArray, generator: np.random.Generator) -> Picture:
    """Another room, all but a margin around the person."""
    height, width = picture.shape[:2]
    seen = points[np.isfinite(points).all(axis=1)] * (width, height)
    mask = np.zeros((height, width), np.uint8)
    if len(seen):
        cv2.fillConvexPoly(mask, cv2.convexHull(seen.astype(np.int32)), 255)
        reach = 2 * round(MARGIN * height) + 1
        mask = np.asarray(cv2.dilate(mask, np.ones((reach, reach), np.uint8)), np.uint8)
        mask[int(seen[:, 1].max()) :, mask.any(axis=0)] = 255  # what is below the body is body
    room = generator.uniform(40, 220, (4, 5, 3)).astype(np.float32)
    room = cv2.resize(room, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.where(mask[..., None] > 0, picture, room), np.uint8)


PICTURE_CHANGES: dict[str, Change] = {
    AS_IT_IS: _same,
    "film: dark": _dark,
    "film: blurred": _blurred,
    "film: compressed": _compressed,
    "film: half as large": _small,
    "film: cropped": _cropped,
    "film: mirrored": _mirrored,
    "film: another room": _elsewhere,
}
FILM_CHANGES = (
    *PICTURE_CHANGES,
    "film: 1.5 s of the first picture in front",
    "film: 10 frames a second",
)


def write_changed(
    out: Path, film: Path, span: tuple[float | None, float | None], name: str,
    landmarks: LandmarkSequence, seed: Sequence[int],
) -> None:  # fmt: skip
    """Write a clip again, with one of `FILM_CHANGES`.

    Args:
        out: The .mp4 file.
        film: The video with the clip.
        span: Start and end in it, seconds; None: its own.
        name: The change.
        landmarks: Of the clip as it is.
        seed: Of what is drawn.

    Raises:
        ClipError: If the film cannot be read.
        UserError: If the file cannot be written.
    """
    change = PICTURE_CHANGES.get(name, PICTURE_CHANGES[AS_IT_IS])
    with Video(film) as video:
        pictures = [frame.rgb for frame in video.frames(*span)]
        fps = video.fps
    points = landmarks.points[..., :2]
    times = np.linspace(0, len(points) - 1, len(pictures)).round().astype(int)
    # One room a clip, and other noise in each frame of it.
    changed = [
        change(picture, points[time], _generator(name, seed, frame))
        for frame, (picture, time) in enumerate(zip(pictures, times, strict=True))
    ]
    order = np.arange(len(changed))
    if name == FILM_CHANGES[-2]:
        order = np.concatenate((np.zeros(round(FIRST_S * fps), int), order))
    elif name == FILM_CHANGES[-1] and fps > RATE:
        order = np.arange(0, len(changed), fps / RATE).astype(int)
        fps = RATE
    height, width = (side // 2 * 2 for side in changed[0].shape[:2])
    with VideoWriter(out, fps=fps, width=width, height=height) as writer:
        for picture in _chosen(changed, order):
            writer.write(np.ascontiguousarray(picture[:height, :width]))


def _generator(name: str, seed: Sequence[int], frame: int) -> np.random.Generator:
    is_one = PICTURE_CHANGES.get(name) is _elsewhere
    return np.random.default_rng([*seed, 0 if is_one else frame])


def _chosen(pictures: Sequence[Picture], order: npt.NDArray[np.int64]) -> Iterator[Picture]:
    for frame in order.tolist():
        yield pictures[frame]
