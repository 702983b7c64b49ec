"""A video comes in, the landmarks of the signer in it go out."""

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from signloom.config import UserError
from signloom.corpus.cache import Unreadable, pack_landmarks, pack_unreadable
from signloom.corpus.detector import (
    Detector,
    DetectorOptions,
    build_detector,
    describe_detector,
    quiet_native_code,
)
from signloom.corpus.fingerprints import check_same_make
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.supervision import Lost
from signloom.corpus.video import Frame, Video, VideoError, even_frames, measure_fps

# Raise it when the same video gives other landmarks, or another reject.
EXTRACTION_VERSION = 2

_CONVERT = "convert the video to 640x480 .mp4"
_BYTES_PER_FRAME = 2000  # at least, of videos whose header does not count their frames


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractOptions(DetectorOptions):
    """Section `extract` of params.yaml: the detector's options, and how a corpus is worked off."""

    executor: Literal["processes", "ray"]
    """Who does the work: processes on this machine, or a Ray cluster. No result changes."""
    time_limit_s: float
    """Give a clip up after so many seconds, and one more for each of its frames; above 0."""
    frames_per_shard: int
    """Most frames in one Parquet file, 1 or more; 25,000 make some 5 MB."""
    max_rejected_share: float
    """Fail if more than this share of the clips cannot be read, 0 to 1."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        DetectorOptions.__post_init__(self)
        if not 0 <= self.max_rejected_share <= 1:
            raise ValueError(
                f"max_rejected_share: found {self.max_rejected_share}, expected 0 to 1"
            )
        if self.time_limit_s <= 0:
            raise ValueError(f"time_limit_s: found {self.time_limit_s}, expected more than 0")
        if self.frames_per_shard < 1:
            raise ValueError(f"frames_per_shard: found {self.frames_per_shard}, expected 1 or more")

    @property
    def detector_options(self) -> DetectorOptions:
        """The part that decides the landmarks."""
        names = [field.name for field in fields(DetectorOptions)]
        return DetectorOptions(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """What a process is asked to look at."""

    video: Path
    start_s: float | None
    end_s: float | None


class DetectionError(VideoError):
    """MediaPipe failed on a frame."""


def extract_video(
    path: Path,
    options: DetectorOptions,
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    threads: int = 1,
    watch: Callable[[Iterator[Frame]], Iterator[Frame]] = iter,
) -> LandmarkSequence:
    """Return the landmarks of a video, or of a segment of it.

    The result depends on the arguments only, to the bit, whatever was extracted before. Points
    are rounded to half precision, so that shards store them without loss.

    Args:
        path: The video.
        options: The detector's options.
        start_s: Seconds from the start of the file; None: from the first frame.
        end_s: Likewise; None: to the last frame.
        threads: How many a MediaPipe graph may use: 1 beside other processes, 2 for a single clip.
        watch: Gets the frames as they are decoded and passes them on, to time or count them.

    Raises:
        VideoError: If the video or the segment cannot be read.
        DetectionError: If MediaPipe fails on it.
        UserError: If a model file is missing.
    """
    times_s, points, present = [], [], []
    height = width = 0
    with Video(path) as video, quiet_native_code():
        detector: Detector | None = None
        for frame in watch(video.frames(start_s, end_s)):
            try:
                detector = detector or _new_clip(
                    options, threads
                )  # not before there is a frame for it
                found, there = detector.detect(frame.rgb, frame.time_s)
            except RuntimeError as error:
                _detector.cache_clear()  # who knows what state it is in
                reason = " ".join(f"MediaPipe failed: {error}".split())
                raise DetectionError(reason, _CONVERT) from error
            times_s.append(frame.time_s)
            points.append(found)
            present.append(there)
            height, width = frame.rgb.shape[:2]
        fps = measure_fps(times_s, video.fps)
    even = even_frames(times_s, fps)
    return LandmarkSequence(
        points=np.stack(points)[even].astype(np.float16).astype(np.float32),
        present=np.stack(present)[even],
        fps=fps,
        width=width,
        height=height,
        layout=options.layout,
    )


def extract_entry(segment: Segment, options: DetectorOptions) -> bytes | Lost:
    """Return the cache entry of a segment; what a worker process does.

    One clip must not end days of work: what may be an accident is `Lost`, which stands in no cache
    and is tried again.

    Raises:
        UserError: If the detector cannot be built, which concerns all clips.
    """
    try:
        return pack_landmarks(extract_video(segment.video, options, segment.start_s, segment.end_s))
    except DetectionError as error:
        return Lost(error.reason, error.mend)
    except VideoError as error:
        return pack_unreadable(Unreadable(error.reason, error.mend))
    except UserError:
        raise
    except Exception as error:
        _detector.cache_clear()
        return Lost(" ".join(f"{type(error).__name__}: {error}".split()), _CONVERT)


def count_frames(segment: Segment) -> int | bytes | Lost:
    """Return how many frames a segment has by the header, or the entry of an unreadable one.

    Where the header does not say, the size of the file gives an upper bound. Never raises.
    """
    try:
        with Video(segment.video) as video:
            frames = video.count_frames(segment.start_s, segment.end_s)
        return frames or segment.video.stat().st_size // _BYTES_PER_FRAME + 1
    except VideoError as error:
        return pack_unreadable(Unreadable(error.reason, error.mend))
    except Exception as error:
        return Lost(" ".join(f"{type(error).__name__}: {error}".split()), _CONVERT)


def extractor_fingerprint(options: DetectorOptions) -> str:
    """Return what determines the landmarks of a video, as one line of JSON.

    A model must read landmarks of the make it was trained on: compare before translating.

    Raises:
        UserError: If a model file is missing.
    """
    found = {**describe_detector(options), "extraction_version": EXTRACTION_VERSION}
    return json.dumps(found, sort_keys=True)


def options_of_fingerprint(
    fingerprint: Mapping[str, Any], hand_model: str, pose_model: str
) -> DetectorOptions:
    """Return the options that extract a new video as the landmarks of a model were extracted.

    Args:
        fingerprint: What `extractor_fingerprint` wrote, parsed.
        hand_model: Path of the hand_landmarker .task file of the time, or empty.
        pose_model: Path of the pose_landmarker .task file of the time, or empty.

    Raises:
        UserError: If this installation would give other landmarks, or none of that make.
    """
    try:
        options = DetectorOptions(
            detector=fingerprint["detector"],
            groups=tuple(fingerprint["groups"]),
            min_detection_confidence=fingerprint["min_detection_confidence"],
            min_tracking_confidence=fingerprint["min_tracking_confidence"],
            hand_model=hand_model,
            pose_model=pose_model,
        )
    except KeyError as error:
        raise UserError(
            "the checkpoint was trained on landmarks that came from elsewhere or from another "
            f"version of Signloom (their description has no {error}), so a video cannot be "
            "translated with it; extract landmarks and train again with `dvc repro`"
        ) from error
    except ValueError as error:
        raise UserError(f"the landmarks of the checkpoint cannot be made here: {error}") from error
    here = json.loads(extractor_fingerprint(options))
    mend = (
        "install what constraints.txt names and give the .task files of its training, if any "
        "(--hand-model, --pose-model), or extract and train again with `dvc repro`"
    )
    check_same_make(here, fingerprint, mend=mend)
    return options


@functools.lru_cache(maxsize=1)
def _detector(options: DetectorOptions, threads: int) -> Detector:
    return build_detector(options, threads=threads)


def _new_clip(options: DetectorOptions, threads: int) -> Detector:
    """Return this process's detector, free of what it saw before."""
    detector = _detector(options, threads)
    detector.reset()
    return detector
