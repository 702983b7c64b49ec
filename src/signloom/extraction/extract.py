"""Extraction: the clips of a manifest become landmark shards.

What is found in a video is kept in the cache (`cache`) immediately; the output is written from
there at the end. So it does not matter how often a run was interrupted, who did the work and in
which order.
"""

import functools
import itertools
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from tqdm import tqdm

from signloom.config import MAX_FPS, MIN_FPS, Count, Gone, Positive, Share, checked_dataclass
from signloom.corpus.landmark_folder import SHARDS_NAME, summarize_clips, write_landmarks
from signloom.corpus.landmarks import LandmarkSequence, check_same_extractor
from signloom.corpus.manifest import Clip, parse_box
from signloom.corpus.rejects import REJECTS_NAME, Reject, RejectLimit, reject_clip
from signloom.corpus.shards import FRAMES_PER_SHARD
from signloom.detection.detector import (
    Detector,
    DetectorOptions,
    build_detector,
    describe_detector,
    people_counter,
    quiet_native_code,
)
from signloom.detection.video import (
    DECODER,
    DEINTERLACE,
    Box,
    Frame,
    Video,
    crop_frames,
    even_frames,
    measure_fps,
)
from signloom.errors import ClipError, Problem, UserError, count_of
from signloom.extraction.cache import (
    HashedVideo,
    LandmarkCache,
    VideoHashes,
    cache_folder,
    cache_key,
    explain_full_disk,
    pack_landmarks,
    pack_unreadable,
    unpack_frames,
)
from signloom.extraction.pool import (
    count_workers,
    ray_cluster,
    run_in_processes,
    run_on_ray,
    run_with_retry,
)
from signloom.grouping import group_pairs
from signloom.progress import progress_file

# Raise it when the same video gives other landmarks, or another reject.
EXTRACTION_VERSION = 3

_READERS = 4  # threads that read the cache
# MediaPipe's memory grows by some 0.1 MB a clip and never shrinks; a new process, which gives it
# back, costs a second, 0.4 % of the work on 100 clips.
_CLIPS_PER_WORKER = 100
# Of one film: few enough to share a film among the workers, to lose little when one dies and to
# give memory back in time; many enough that opening the film and seeking cost little.
_SEGMENTS_PER_JOB = 10
_HEADERS_PER_JOB = 1000
_CONVERT = "convert the video to 640x480 .mp4"
_BYTES_PER_FRAME = 2000  # at least, of videos whose header does not count their frames


@checked_dataclass
class ExtractOptions(DetectorOptions):
    """Section `extract` of params.yaml: the detector's options, and how a corpus is worked off."""

    executor: Literal["processes", "ray"]
    """Who does the work: processes on this machine, or a Ray cluster. No result changes."""
    time_limit_s: Positive = 60.0
    """Give a clip up after this many seconds, and one more for each of its frames."""
    frames_per_shard: Count = FRAMES_PER_SHARD
    """Most frames in one Parquet file."""
    max_rejected_share: Share = 0.1
    """Fail if more than this share of the clips cannot be read."""
    GONE: ClassVar = dict.fromkeys(
        ("hand_model", "pose_model"), Gone("", "MediaPipe's own models are read; remove the line")
    )

    @property
    def detector_options(self) -> DetectorOptions:
        """The part that decides the landmarks."""
        names = [field.name for field in fields(DetectorOptions)]
        return DetectorOptions(**{name: getattr(self, name) for name in names})


logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class VideoSegment:
    """A part of a video for a process to extract."""

    video: Path
    start_s: float | None
    end_s: float | None
    box: Box | None = None


class DetectionError(ClipError):
    """MediaPipe failed on a frame."""


def extract_video(
    path: Path,
    options: DetectorOptions,
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    box: Box | None = None,
    threads: int = 1,
    watch: Callable[[Iterator[Frame]], Iterator[Frame]] = iter,
) -> LandmarkSequence:
    """Return the landmarks of a video, or of a segment of it.

    The result depends on the arguments only, to the bit, not on what was extracted before. Points
    are rounded to half precision, so that shards store them without loss.

    Args:
        start_s: Seconds from the start of the file; None: from the first frame.
        end_s: Likewise; None: to the last frame.
        box: The part of the picture with the signer, which is then the picture; None: all of it.
        threads: 1 where other processes use the other cores; more where a user waits for this
            clip: it is decoded ahead, and its parts are found in parallel.
        watch: Gets the frames as they are decoded and passes them on, to time or count them.

    Raises:
        ClipError: If the video or the segment cannot be read.
        DetectionError: If MediaPipe fails on it.
        UserError: If a model file is missing.
    """
    with Video(path) as video, quiet_native_code():
        frames = crop_frames(watch(video.frames(start_s, end_s, fps=options.fps)), box)
        return _detect(video, frames, options, threads)


def _detect(
    video: Video, frames: Iterator[Frame], options: DetectorOptions, threads: int = 1
) -> LandmarkSequence:
    """Return the landmarks of the frames of a clip; raises as `extract_video`."""
    times_s, points, present, counter = [], [], [], people_counter()
    height = width = 0
    frames = counter.watch(frames)
    first = next(frames)  # no detector before there is a frame for it
    try:
        detector = _detector(options, threads)
        detector.reset()
        with closing(detector.detect_all(itertools.chain([first], frames))) as detections:
            for frame, (marks, is_present) in detections:
                times_s.append(frame.time_s)
                points.append(marks)
                present.append(is_present)
                height, width = frame.rgb.shape[:2]
    except RuntimeError as error:
        _detector.cache_clear()  # its state is undefined
        reason = " ".join(f"the detector failed: {error}".split())
        raise DetectionError(reason, _CONVERT) from error
    fps = measure_fps(times_s, min(video.fps, options.fps or video.fps))
    if not MIN_FPS <= fps <= MAX_FPS:
        raise ClipError(
            f"it has {fps:.3g} frames a second, expected {MIN_FPS:g} to {MAX_FPS:g}", _CONVERT
        )
    even = even_frames(times_s, fps)
    return LandmarkSequence(
        points=np.stack(points)[even].astype(np.float16).astype(np.float32),
        present=np.stack(present)[even],
        fps=fps,
        width=width,
        height=height,
        layout=options.layout,
        missing_frames=video.missing_frames,
        is_crowded=counter.found_several,
    )


def _pack_failure(error: Exception) -> bytes | Problem:
    """Return the entry of an unreadable segment, or its problem if it may be an accident."""
    if isinstance(error, DetectionError):
        return error.problem
    if isinstance(error, ClipError):
        return pack_unreadable(error.problem)
    _detector.cache_clear()
    return Problem(" ".join(f"{type(error).__name__}: {error}".split()), _CONVERT)


def extract_part(part: Sequence[VideoSegment], options: DetectorOptions) -> list[bytes | Problem]:
    """Return the cache entries of segments of one video; what a worker process does.

    The video is opened once and decoded from segment to segment. Each entry is that of the segment
    alone. One clip must not end days of work: what may be an accident is returned as a `Problem`,
    which is not cached and is tried again.

    Args:
        part: In the order of their starts.

    Raises:
        UserError: If the detector cannot be built, which concerns all clips.
    """
    entries: list[bytes | Problem] = []
    while remaining := part[len(entries) :]:
        begun, next_starts = len(entries), [segment.start_s or 0.0 for segment in remaining[1:]]
        try:
            with Video(remaining[0].video) as video, quiet_native_code():
                for segment, keep_from_s in zip(remaining, [*next_starts, math.inf], strict=True):
                    frames = video.frames(segment.start_s, segment.end_s, keep_from_s, options.fps)
                    sequence = _detect(video, crop_frames(frames, segment.box), options)
                    entries.append(pack_landmarks(sequence))
        except UserError:
            raise
        except Exception as error:
            _detector.cache_clear()
            # What is damaged for one need not be so for those after it, or for it alone.
            if len(entries) == begun:
                entries.append(_pack_failure(error))
    return entries


def count_frames(part: Sequence[VideoSegment]) -> list[int | bytes | Problem]:
    """Return how many frames segments of a video have by the header, or entries of unreadable ones.

    Where the header has no number, the size of the file gives an upper bound. Never raises.
    """
    counts: list[int | bytes | Problem] = []
    try:
        with Video(part[0].video) as video:
            for segment in part:
                try:
                    frames = video.count_frames(segment.start_s, segment.end_s)
                    most = segment.video.stat().st_size // _BYTES_PER_FRAME + 1
                    counts.append(frames or most)
                except ClipError as error:
                    counts.append(_pack_failure(error))
    except Exception as error:
        counts = [_pack_failure(error)] * len(part)
    return counts


def extractor_fingerprint(options: DetectorOptions) -> str:
    """Return what determines the landmarks of a video, as a line of JSON.

    A model must read landmarks found as those it was trained on: compare before translating.

    Raises:
        UserError: If a model file is missing.
    """
    extractor = {**describe_detector(options), "extraction_version": EXTRACTION_VERSION}
    return json.dumps(extractor, sort_keys=True)


def clip_key(
    video: HashedVideo,
    fingerprint: str,
    start_s: float | None = None,
    end_s: float | None = None,
    box: Box | None = None,
) -> str:
    """Return the cache's key of a clip's landmarks.

    Args:
        fingerprint: What `extractor_fingerprint` returns.
        start_s: Of the clip in its video; None: from the first frame.
        end_s: Likewise; None: to the last frame.
        box: Of its signer in the picture; None: all of it.
    """
    is_whole = start_s is None and end_s is None
    matters = ("stream", "hdr") if is_whole else ("stream", "hdr", "begins_s")
    traits = {name: value for name, value in (video.traits or {}).items() if name in matters}
    return cache_key(
        video=video.sha256,
        start_s=start_s,
        end_s=end_s,
        decoder=DECODER,
        extractor=fingerprint,
        **traits,
        **({"box": " ".join(map(str, box))} if box else {}),
    )


def find_extracted(
    path: Path, options: DetectorOptions, box: Box | None = None
) -> LandmarkSequence | Problem | None:
    """Return what `extract_corpus` has found in a whole video with the same bytes and options.

    Returns:
        Landmarks, or why it cannot be read; None if the cache does not know.
    """
    cache = LandmarkCache(cache_folder())
    if not cache.folder.is_dir():
        return None
    video = VideoHashes(cache.folder).hash_videos([path]).get(path)
    if video is None:
        return None
    key = clip_key(video, extractor_fingerprint(options), box=box)
    entry = cache.look_up(key)
    return cache.load(key) if isinstance(entry, int) else entry


def options_of_fingerprint(fingerprint: Mapping[str, Any]) -> DetectorOptions:
    """Return the options that extract a new video as the landmarks of a model were extracted.

    Args:
        fingerprint: What `extractor_fingerprint` wrote, parsed.

    Raises:
        UserError: If this installation would give other landmarks, or none of that kind.
    """
    if fingerprint.get("detector") == "imported" and "films" in fingerprint:
        # The user named their detector; its models of that time are not there to compare.
        return DetectorOptions(detector=fingerprint["films"], groups=tuple(fingerprint["groups"]))
    try:
        options = DetectorOptions(
            detector=fingerprint["detector"],
            groups=tuple(fingerprint["groups"]),
            min_detection_confidence=fingerprint["min_detection_confidence"],
            min_tracking_confidence=fingerprint["min_tracking_confidence"],
            runtime="litert" if "litert" in fingerprint else "mediapipe",
            fps=fingerprint.get("fps", 0.0),
        )
    except KeyError as error:
        raise UserError(
            "the checkpoint was trained on landmarks that came from elsewhere or from another "
            f"version of Signloom (their description has no {error}), so a video cannot be "
            "translated with it; extract landmarks and train again with `dvc repro`, or if they "
            "were imported and a detector of ours made them, import them with --detector"
        ) from error
    except ValueError as error:
        raise UserError(f"the landmarks of the checkpoint cannot be made here: {error}") from error
    here = json.loads(extractor_fingerprint(options))
    hint = "install what constraints.txt names, or extract and train again with `dvc repro`"
    check_same_extractor(here, fingerprint, hint=hint)
    return options


def open_detector(options: DetectorOptions, threads: int = 1) -> None:
    """Load this process's detector before there is a frame for it; arguments as `extract_video`.

    Raises:
        UserError: If a model file is missing.
    """
    with quiet_native_code(), suppress(RuntimeError):  # said when a clip is read
        _detector(options, threads)


@functools.lru_cache(maxsize=1)
def _detector(options: DetectorOptions, threads: int) -> Detector:
    return build_detector(options, threads=threads)


@dataclass(frozen=True, slots=True, eq=False)
class _ClipTask:
    """One segment to extract, shared by all clips with the same bytes and times."""

    key: str
    segment: VideoSegment
    video: HashedVideo
    clips: list[Clip]


class _Results:
    """What is known of a corpus's clips so far: each has landmarks or is rejected."""

    def __init__(self, limit: RejectLimit) -> None:
        self.frames: dict[str, int] = {}  # of the clips that have landmarks
        self.rejects: list[Reject] = []  # the others
        self.limit = limit

    def reject(self, rejects: Iterable[Reject]) -> None:
        for reject in rejects:
            self.rejects.append(reject)
            self.limit.check(self.rejects)

    def add(self, task: _ClipTask, outcome: int | Problem) -> None:
        if isinstance(outcome, Problem):
            self.reject(reject_clip(clip, outcome) for clip in task.clips)
        else:
            self.frames.update((clip.clip_id, outcome) for clip in task.clips)


def take_share(clips: Sequence[Clip], number: int, count: int) -> list[Clip]:
    """Return the clips of a share of the videos, number of count from 0; no video is in two."""
    videos = sorted({clip.video for clip in clips if clip.video})
    chosen = set(videos[number::count])
    return [clip for clip in clips if clip.video in chosen]


def extract_corpus(clips: Sequence[Clip], options: ExtractOptions, folder: Path) -> None:
    """Extract all clips into `folder`/shards, quality.parquet and rejects.tsv.

    The files depend on the videos and the options only: not on what was in the cache, nor on who
    did the work. If too many clips are rejected, rejects.tsv is all that is written.

    Args:
        clips: With their videos.
        folder: Made if need be.

    Raises:
        UserError: If too many clips are rejected, all of them, if the disk is full or if the
            cache's folder cannot be used.
        KeyboardInterrupt: At Ctrl-C, with a message for the user.
    """
    cache = LandmarkCache(cache_folder())
    fingerprint = extractor_fingerprint(options)
    results = _Results(RejectLimit(len(clips), options.max_rejected_share, folder / REJECTS_NAME))
    try:
        with explain_full_disk(cache.folder):
            cache.make_folder()
            tasks, unopened = _plan(clips, fingerprint, cache)
            results.reject(unopened)
            unknown = _read_cached(tasks, cache, results)
            cached = len(results.frames)
            new = _extract(unknown, options, cache, results)
        assert len(results.frames) + len(results.rejects) == len(clips), "a clip got lost"
        keys = {clip.clip_id: task.key for task in tasks for clip in task.clips}
        with explain_full_disk(folder):
            write_landmarks(
                folder,
                results.frames,
                results.rejects,
                lambda clip_id: cache.load(keys[clip_id]),
                layout=options.layout,
                extractor=fingerprint,
                frames_per_shard=options.frames_per_shard,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; what was found in {len(results.frames)} of {len(clips)} clips is kept, "
            "`dvc repro` goes on with the others"
        ) from None
    sizes = [path.stat().st_size for path in (folder / SHARDS_NAME).iterdir()]
    rows = {
        "cached": f"{count_of(cached, 'clip')} of an earlier run",
        "new": new,
        "shards": f"{len(sizes):,}, {sum(sizes) / 1e6:,.2f} MB",
    }
    table = [summarize_clips(results.frames, results.rejects, results.limit.report)]
    logger.info("%s", "\n".join(table + [f"  {k:<9} {v}" for k, v in rows.items()]))


def _plan(
    clips: Sequence[Clip], fingerprint: str, cache: LandmarkCache
) -> tuple[list[_ClipTask], list[Reject]]:
    """Return what must be known, and the clips whose video cannot be opened."""
    videos = VideoHashes(cache.folder).hash_videos(clip.video for clip in clips if clip.video)
    tasks: dict[str, _ClipTask] = {}
    rejects = []
    for clip in sorted(clips, key=lambda clip: clip.clip_id):
        if clip.video is None or clip.video not in videos:
            problem = Problem("the file cannot be opened", "restore it and its permissions")
            rejects.append(reject_clip(clip, problem))
            continue
        video = videos[clip.video]
        span, box = (clip.start_s, clip.end_s), parse_box(clip.box or "")
        key = clip_key(video, fingerprint, *span, box)
        segment = VideoSegment(video=clip.video.absolute(), start_s=span[0], end_s=span[1], box=box)
        tasks.setdefault(key, _ClipTask(key, segment, video, [])).clips.append(clip)
    combed = sorted(
        path for path, video in videos.items() if (video.traits or {}).get("interlaced")
    )
    if combed:
        logger.warning("%d interlaced videos (%s): %s", len(combed), combed[0], DEINTERLACE)
    return list(tasks.values()), rejects


def _read_cached(
    tasks: Sequence[_ClipTask], cache: LandmarkCache, results: _Results
) -> dict[VideoSegment, _ClipTask]:
    """Add what the cache has to the results; return the tasks that it does not have."""
    unknown = {}
    with ThreadPoolExecutor(_READERS) as threads:
        for task, entry in zip(
            tasks, threads.map(cache.look_up, [task.key for task in tasks]), strict=True
        ):
            if entry is None:
                unknown[task.segment] = task
            else:
                results.add(task, entry)
    return unknown


def _extract(
    tasks: Mapping[VideoSegment, _ClipTask],
    options: ExtractOptions,
    cache: LandmarkCache,
    results: _Results,
) -> str:
    """Add what is found in videos to the results and the cache; return how much work it was."""
    if not tasks:
        return "0 frames, by 0 workers"
    begun, cached, frames = time.monotonic(), len(results.frames), 0
    expected = _read_headers(tasks, options, cache, results)

    def count(part: Sequence[VideoSegment]) -> int:
        return sum(expected[segment] for segment in part)

    # Long ones first: a long one at the end would leave all workers but one without work.
    parts = sorted(_split_films(expected, _SEGMENTS_PER_JOB), key=count, reverse=True)
    with ExitStack() as stack:
        run, workers = stack.enter_context(_executor(options))
        run_once = functools.partial(
            run,
            functools.partial(extract_part, options=options.detector_options),
            limit_s=lambda part: options.time_limit_s * len(part) + count(part),
            jobs_per_worker=_CLIPS_PER_WORKER,
        )
        # Closed before the executor: an error here must end the workers first.
        outcomes = stack.enter_context(closing(run_with_retry(run_once, parts, workers)))
        bar = stack.enter_context(
            tqdm(
                total=sum(expected.values()),
                desc="extracting",
                unit=" frames",
                smoothing=0.05,
                file=progress_file(),
            )
        )
        for segment, outcome in outcomes:
            stored = _store(tasks[segment], outcome, cache)
            results.add(tasks[segment], stored)
            done = stored if isinstance(stored, int) else 0
            frames += done
            bar.total = (bar.total or 0) + done - expected[segment]  # headers may be wrong
            bar.set_postfix_str(
                f"clips {len(results.frames) + len(results.rejects)}/{results.limit.clips}, "
                f"{cached} cached, {len(results.rejects)} rejected",
                refresh=False,
            )
            bar.update(done)
    rate = frames / (time.monotonic() - begun)
    return f"{frames:,} frames, {rate:.1f} a second, by {workers} workers"


def _read_headers(
    tasks: Mapping[VideoSegment, _ClipTask],
    options: ExtractOptions,
    cache: LandmarkCache,
    results: _Results,
) -> dict[VideoSegment, int]:
    """Return about how many frames each segment has; add those that have none to the results.

    Most broken files show here, days before the last frame perhaps. In processes, since a file may
    crash the library that opens it.
    """
    expected = {}
    run = functools.partial(run_in_processes, count_frames, limit_s=lambda _: options.time_limit_s)
    outcomes = run_with_retry(run, _split_films(tasks, _HEADERS_PER_JOB), count_workers())
    with closing(outcomes):
        # `delay`: no bar where it would be gone immediately.
        bar = tqdm(
            outcomes, "reading headers", len(tasks), unit=" clips", delay=1.0, file=progress_file()
        )
        for segment, outcome in bar:
            if isinstance(outcome, int):
                expected[segment] = outcome
            else:
                results.add(tasks[segment], _store(tasks[segment], outcome, cache))
    return expected


def _split_films(segments: Iterable[VideoSegment], most: int) -> list[list[VideoSegment]]:
    """Return segments in parts of one video each, in the order of their starts."""
    films = group_pairs((segment.video, segment) for segment in segments)
    parts = []
    for film in films.values():
        film.sort(key=lambda segment: (segment.start_s or 0.0, segment.end_s or math.inf))
        parts += [film[start : start + most] for start in range(0, len(film), most)]
    return parts


def _store(task: _ClipTask, outcome: bytes | Problem, cache: LandmarkCache) -> int | Problem:
    """Keep the entry that a worker made; return its frames, or why there are none."""
    if not task.video.is_still(task.segment.video):
        return Problem("the file changed while it was read", "run `dvc repro` when it is whole")
    if isinstance(outcome, Problem):
        return outcome
    cache.store(task.key, outcome)
    frames = unpack_frames(outcome)
    assert frames is not None, "an entry from a worker is damaged"
    return frames


@contextmanager
def _executor(options: ExtractOptions) -> Iterator[tuple[Callable[..., Any], int]]:
    """Give the function that makes a pass over some jobs, and how many workers there are."""
    if options.executor == "processes":
        yield run_in_processes, count_workers()
    else:
        with ray_cluster() as workers:
            yield run_on_ray, workers
