"""A translated clip comes in, an .mp4 of it with skeleton and subtitles goes out."""

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from signloom.captions.lettering import Lettering, Overlay
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.sources import GivenClip
from signloom.corpus.video import Video, even_frames
from signloom.corpus.video_writer import Picture, VideoWriter, draw_circle, draw_line
from signloom.report.palette import GREY, PAPER
from signloom.report.skeletons import find_heads, has_head, list_strokes
from signloom.serving.timed import TimedToken

_BLANK_HEIGHT = 480  # of the picture of a clip without a video, pixels
_MOST_ASPECT = 4.0  # more, either way, is no picture's
_STROKE = 1 / 160  # thickness of a line of width 1, picture heights


def write_film(
    path: Path,
    clip: GivenClip,
    text: str,
    tokens: Sequence[TimedToken] | None,
    *,
    font: Path | None,
) -> None:
    """Write a clip with the landmarks that were found and its translation below.

    The whole sentence stands there from the start; a word turns bright when the model looks at
    its place, or all of them at once where the tokens have no times.

    Args:
        path: The .mp4 file; the sound of the video is left out.
        clip: The clip.
        text: Its translation.
        tokens: When the model looked for each part of the text.
        font: As in `Lettering`.

    Raises:
        UserError: If the font lacks a letter, or the file cannot be written.
    """
    sequence = clip.sequence
    pictures = _video_frames(clip) if clip.is_video else _blank_frames(sequence)
    first = next(pictures)
    height, width = first.shape[:2]
    lettering = Lettering(text, width=width, height=height, font=font) if text.strip() else None
    said, overlays = characters_said(text, tokens), dict[int, Overlay]()
    with VideoWriter(path, fps=sequence.fps, width=width, height=height) as writer:
        for frame, rgb in enumerate(itertools.chain([first], pictures)):
            draw_skeleton(rgb, sequence, frame)
            if lettering:
                count = said(frame / sequence.fps)
                if count not in overlays:
                    overlays[count] = lettering.draw(count)
                lay_over(rgb, overlays[count])
            writer.write(rgb)


def draw_skeleton(rgb: Picture, sequence: LandmarkSequence, frame: int) -> None:
    """Draw the landmarks of a frame into its picture."""
    height, width = rgb.shape[:2]
    points = sequence.points[frame, :, :2].astype(np.float64) * [width, height]
    unit = height * _STROKE
    for stroke in list_strokes(sequence.layout):
        thickness = max(1, round(stroke.width * unit))
        line = points[list(stroke.marks)]
        draw_line(rgb, line, colour=_rgb(stroke.colour), thickness=thickness)
    if has_head(sequence.layout):
        low, high = find_heads(points[None], sequence.layout)[0]
        draw_circle(
            rgb, (low + high) / 2, float(high[0] - low[0]) / 2,
            colour=_rgb(GREY), thickness=max(1, round(unit)),
        )  # fmt: skip


def lay_over(rgb: Picture, overlay: Overlay) -> None:
    """Blend an overlay into the lower edge of a picture of the same width."""
    overlay = overlay[-len(rgb) :]
    below = rgb[-len(overlay) :]
    share = overlay[..., 3:].astype(np.float32) / 255
    below[:] = (below * (1 - share) + overlay[..., :3] * share).round().astype(np.uint8)


def _video_frames(clip: GivenClip) -> Iterator[Picture]:
    """Yield the pictures that belong to the frames of the landmarks."""
    with Video(clip.source) as video:
        times_s = [frame.time_s for frame in video.frames()]
    repeats = np.bincount(even_frames(times_s, clip.sequence.fps), minlength=len(times_s))
    with Video(clip.source) as video:
        for frame, count in zip(video.frames(), repeats, strict=True):
            height, width = (size - size % 2 for size in frame.rgb.shape[:2])
            yield from (frame.rgb[:height, :width].copy() for _ in range(count))


def _blank_frames(sequence: LandmarkSequence) -> Iterator[Picture]:
    aspect = float(np.clip(sequence.width / sequence.height, 1 / _MOST_ASPECT, _MOST_ASPECT))
    width = 2 * round(_BLANK_HEIGHT * aspect / 2)
    for _ in sequence.points:
        yield np.full((_BLANK_HEIGHT, width, 3), _rgb(PAPER), np.uint8)


def characters_said(text: str, tokens: Sequence[TimedToken] | None) -> Callable[[float], int]:
    """Return how many characters have been said by a time, seconds.

    Signs come in another order than words: a word is said when it and all before it have begun.
    """
    if not tokens:
        return lambda time_s: len(text)
    begun_s = list(itertools.accumulate((token.start_s for token in tokens), max))
    ends = list(itertools.accumulate(len(token.text) for token in tokens))

    def count(time_s: float) -> int:
        begun = bisect.bisect_right(begun_s, time_s)
        return len(text) if begun == len(tokens) else [0, *ends][begun]

    return count


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
