"""Landmarks for programs: those of a film, and those of shards as a table."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from signloom.corpus import shards
from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.detector import DetectorOptions
from signloom.errors import UserError
from signloom.extraction.extract import extract_video
from signloom.paths import SHARDS


def landmarks(
    film: str | Path,
    *,
    groups: Collection[str] = ("hands", "pose"),
    detector: Literal["holistic", "hands", "hands+pose"] = "holistic",
) -> LandmarkSequence:
    """Return the landmarks of a film: `points` of shape (S, P, 3), NaN where absent.

    Args:
        groups: Of hands, pose, lips, face_outline, brows, eyes and gaze; docs/extraction.md.
        detector: Which of MediaPipe's networks look for them.

    Raises:
        ClipError: If it cannot be read.
        UserError: If the networks are missing, or do not find such groups.
    """
    options = DetectorOptions(detector=detector, groups=tuple(groups))
    return extract_video(Path(film), options, threads=2)


def read_shards(folder: str | Path = SHARDS, clips: Collection[str] | None = None) -> pa.Table:
    """Return the landmarks of a folder of shards as `to_table` does.

    Args:
        folder: What `extract` wrote.
        clips: Ids of those to read; None: all, 600 bytes a frame in the layout `hands-pose`.

    Raises:
        UserError: If the folder, a file or a clip is missing or damaged.
    """
    return to_table(shards.read_shards(Path(folder), clips))


def to_table(clips: Mapping[str, LandmarkSequence] | LandmarkSequence) -> pa.Table:
    """Return a row a frame: clip_id, frame, time_s, then x, y and z of each landmark.

    A column is called `right_hand.wrist.x`; it is NaN where the landmark is absent. x and y are
    shares of the picture, y down; `.to_pandas()` makes a DataFrame.

    Args:
        clips: By their ids, all with one layout; or one, whose id is then empty.

    Raises:
        UserError: If there is none, or their layouts differ.
    """
    sequences = {"": clips} if isinstance(clips, LandmarkSequence) else dict(clips)
    layouts = list(dict.fromkeys(clip.layout for clip in sequences.values()))
    if len(layouts) != 1:
        raise UserError(f"expected clips of one layout, found {len(layouts)} layouts")
    counts = [len(clip.points) for clip in sequences.values()]
    frames = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    rates = np.repeat([clip.fps for clip in sequences.values()], counts)
    points = np.concatenate(
        [clip.points.reshape(len(clip.points), -1) for clip in sequences.values()]
    )
    names = (f"{mark}.{axis}" for mark in layouts[0].landmark_names for axis in "xyz")
    return pa.table(
        {
            "clip_id": pa.array(np.repeat(list(sequences), counts)),
            "frame": frames,
            "time_s": frames / rates,
            **{name: np.ascontiguousarray(points[:, n]) for n, name in enumerate(names)},
        }
    )
