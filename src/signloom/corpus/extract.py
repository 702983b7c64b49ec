"""The clips of a manifest come in; landmark shards, a quality table and a reject report go out."""

import functools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from signloom.config import UserError
from signloom.corpus.detector import HolisticDetector, describe_detector, quiet_native_code
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.pool import WORKERS_VARIABLE, WorkerDiedError, count_workers, map_in_order
from signloom.corpus.quality import ClipQuality, measure_quality, write_quality
from signloom.corpus.shards import write_shards
from signloom.corpus.video import Video, VideoError, even_frames, measure_fps
from signloom.reproducibility import write_atomically

EXTRACTION_VERSION = 1  # raise it when the same video gives other landmarks

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractOptions:
    """Section `extract` of params.yaml."""

    min_detection_confidence: float
    """Least confidence to take something for a person, 0 to 1."""
    min_tracking_confidence: float
    """Least confidence to go on following the person, 0 to 1; below, detect anew."""
    clips_per_shard: int
    """Clips in one Parquet file, 1 or more; 256 make some 5 MB at 100 frames a clip."""
    max_rejected_share: float
    """Fail if more than this share of the clips cannot be read, 0 to 1."""

    def __post_init__(self) -> None:
        """Refuse shares outside 0 to 1 and empty shards."""
        for key in ("min_detection_confidence", "min_tracking_confidence", "max_rejected_share"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(f"{key}: found {getattr(self, key)}, expected 0 to 1")
        if self.clips_per_shard < 1:
            raise ValueError(f"clips_per_shard: found {self.clips_per_shard}, expected 1 or more")


@dataclass(frozen=True, slots=True)
class Reject:
    """A clip that cannot be read; one row of rejects.tsv."""

    clip_id: str
    video: Path
    reason: str
    mend: str


def extract_corpus(clips: Sequence[Clip], options: ExtractOptions, folder: Path) -> None:
    """Extract all clips into `folder`/shards, quality.tsv and rejects.tsv.

    The files depend on the videos and the options only, not on the number of processes. If too
    many clips are rejected, rejects.tsv is all that is written.

    Args:
        clips: Their videos exist.
        options: The detector's options and the limit on rejected clips.
        folder: Made if need be.

    Raises:
        UserError: If too many clips are rejected, all of them, or if a process dies.
    """
    rejects: list[Reject] = []
    quality: list[ClipQuality] = []

    def kept() -> Iterator[tuple[str, LandmarkSequence]]:
        for clip, result in _extract_all(clips, options, folder / "rejects.tsv"):
            if isinstance(result, Reject):
                rejects.append(result)
                # Inside the stream of write_shards, which leaves nothing behind when this raises.
                _check_rejects(rejects, len(clips), options, folder / "rejects.tsv")
            else:
                quality.append(measure_quality(clip.clip_id, result))
                yield clip.clip_id, result

    count = write_shards(
        folder / "shards",
        kept(),
        layout=HANDS_POSE,
        extractor=extractor_fingerprint(options),
        clips_per_shard=options.clips_per_shard,
    )
    assert count == len(quality) == len(clips) - len(rejects), "a clip got lost"
    write_quality(folder / "quality.tsv", quality)
    write_rejects(folder / "rejects.tsv", rejects)
    handless = sum(row.any_hand == 0 for row in quality)
    logger.info("%d clips: %d kept, %d rejected", len(clips), count, len(rejects))
    if handless:
        logger.warning("%d clips show no hand at all; see %s", handless, folder / "quality.tsv")


def extract_video(
    path: Path, options: ExtractOptions, start_s: float | None = None, end_s: float | None = None
) -> LandmarkSequence:
    """Return the landmarks of a video, or of a segment of it.

    The result depends on the arguments only, to the bit, whatever was extracted before. Points
    are rounded to half precision, so that shards store them without loss.

    Args:
        path: The video.
        options: The detector's options.
        start_s: Seconds from the start of the file; None: from the first frame.
        end_s: Likewise; None: to the last frame.

    Raises:
        VideoError: If the video or the segment cannot be read, or MediaPipe fails on it.
    """
    times_s, points, present = [], [], []
    height = width = 0
    with Video(path) as video, quiet_native_code():
        detector: HolisticDetector | None = None
        for frame in video.frames(start_s, end_s):
            detector = detector or _new_clip(options)  # not before there is a frame for it
            try:
                found, there = detector.detect(frame.rgb)
            except RuntimeError as error:
                reason = " ".join(f"MediaPipe failed: {error}".split())
                raise VideoError(reason, "convert the video to 640x480 .mp4") from error
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
        layout=HANDS_POSE,
    )


def extractor_fingerprint(options: ExtractOptions) -> str:
    """Return what determines the landmarks of a video, as one line of JSON.

    A model must read landmarks of the make it was trained on: compare before translating.
    """
    found = describe_detector() | {
        "extraction_version": EXTRACTION_VERSION,
        "min_detection_confidence": options.min_detection_confidence,
        "min_tracking_confidence": options.min_tracking_confidence,
    }
    return json.dumps(found, sort_keys=True)


def options_of_fingerprint(fingerprint: Mapping[str, Any]) -> ExtractOptions:
    """Return the options that extract a new video as the landmarks of a model were extracted.

    Args:
        fingerprint: What `extractor_fingerprint` wrote, parsed.

    Raises:
        UserError: If this installation would give other landmarks.
    """
    options = ExtractOptions(
        min_detection_confidence=fingerprint["min_detection_confidence"],
        min_tracking_confidence=fingerprint["min_tracking_confidence"],
        clips_per_shard=1,
        max_rejected_share=0.0,
    )
    here = json.loads(extractor_fingerprint(options))
    if differing := sorted(key for key in here if here[key] != fingerprint.get(key)):
        found = "; ".join(f"{key} {fingerprint.get(key)}, here {here[key]}" for key in differing)
        raise UserError(
            f"the checkpoint was trained on landmarks of another make ({found}); install what "
            "constraints.txt names, or extract and train again with `dvc repro`"
        )
    return options


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write rejects.tsv: a header, then a line a clip."""
    lines = ["clip_id\tvideo\treason\tmend"]
    lines += [f"{r.clip_id}\t{r.video.as_posix()}\t{r.reason}\t{r.mend}" for r in rejects]
    write_atomically(path, "\n".join(lines) + "\n")


def _extract_all(
    clips: Sequence[Clip], options: ExtractOptions, report: Path
) -> Iterator[tuple[Clip, LandmarkSequence | Reject]]:
    """Yield each clip with its result, by clip id; read all headers before the first frame."""
    ordered = sorted(clips, key=lambda clip: clip.clip_id)
    headers = [_count_frames(clip) for clip in tqdm(ordered, "reading headers", unit="clip")]
    bad = [header for header in headers if isinstance(header, Reject)]
    _check_rejects(bad, len(clips), options, report)  # days before the last frame, perhaps
    frames = sum(header for header in headers if not isinstance(header, Reject))
    job = functools.partial(_extract_clip, options=options)
    try:
        with tqdm(total=frames, desc="extracting", unit="frame", smoothing=0.05) as bar:
            for clip, result in zip(
                ordered, map_in_order(job, ordered, count_workers()), strict=True
            ):
                bar.update(0 if isinstance(result, Reject) else len(result.points))
                yield clip, result
    except WorkerDiedError as error:
        names = ", ".join(clip.clip_id for clip in error.suspects if isinstance(clip, Clip))
        raise UserError(
            f"a worker process died during one of these clips: {names}. Nothing was written. If "
            f"the memory ran out, use fewer processes ({WORKERS_VARIABLE}=1); if it happens "
            "again, take the clips out of the manifest one at a time"
        ) from error


def _extract_clip(clip: Clip, options: ExtractOptions) -> LandmarkSequence | Reject:
    try:
        return extract_video(clip.video, options, clip.start_s, clip.end_s)
    except VideoError as error:
        return Reject(clip.clip_id, clip.video, error.reason, error.mend)
    except Exception as error:  # One clip must not end days of work; the report says what it did.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Reject(clip.clip_id, clip.video, reason, "convert the video to 640x480 .mp4")


def _count_frames(clip: Clip) -> int | Reject:
    try:
        with Video(clip.video) as video:
            return video.count_frames(clip.start_s, clip.end_s)
    except VideoError as error:
        return Reject(clip.clip_id, clip.video, error.reason, error.mend)


def _check_rejects(
    rejects: Sequence[Reject], clips: int, options: ExtractOptions, report: Path
) -> None:
    share = len(rejects) / clips
    if share <= options.max_rejected_share and len(rejects) < clips:
        return
    write_rejects(report, rejects)
    first = "\n".join(f"  {r.clip_id} ({r.video}): {r.reason}; {r.mend}" for r in rejects[:5])
    raise UserError(
        f"{len(rejects)} of {clips} clips ({share:.1%}) cannot be read, at most "
        f"{options.max_rejected_share:.1%} are accepted (extract.max_rejected_share). "
        f"No landmarks were written; {report} lists the clips, of which the first are\n{first}"
    )


@functools.lru_cache(maxsize=1)
def _detector(options: ExtractOptions) -> HolisticDetector:
    return HolisticDetector(options.min_detection_confidence, options.min_tracking_confidence)


def _new_clip(options: ExtractOptions) -> HolisticDetector:
    """Return this process's detector, free of what it saw before."""
    detector = _detector(options)
    detector.reset()
    return detector
