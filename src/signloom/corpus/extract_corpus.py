"""The clips of a manifest come in; landmark shards, a quality table and a reject report go out.

What is found in a video is kept in the cache (`corpus.cache`) at once; the output is written from
there at the end. So it does not matter how often a run was interrupted, who did the work and in
which order.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from signloom.corpus.cache import (
    LandmarkCache,
    Unreadable,
    cache_folder,
    cache_key,
    explain_full_disk,
    unpack_frames,
)
from signloom.corpus.detector import DetectorOptions
from signloom.corpus.extract import (
    ExtractOptions,
    Segment,
    count_frames,
    extract_entry,
    extractor_fingerprint,
)
from signloom.corpus.landmark_folder import REJECTS, SHARDS, write_landmarks
from signloom.corpus.manifest import Clip
from signloom.corpus.pool import count_workers, run_in_processes
from signloom.corpus.progress import progress_file
from signloom.corpus.rejects import Ledger
from signloom.corpus.supervision import Lost, run_patiently
from signloom.corpus.video import DECODER
from signloom.corpus.video_hashes import HashedVideo, VideoHashes

_READERS = 4  # threads that read the cache
# MediaPipe's memory grows by some 0.1 MB a clip and never shrinks; a new process, which gives it
# back, costs a second, 0.4 % of the work on 100 clips.
_CLIPS_PER_WORKER = 100

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Task:
    """A segment of a video's bytes, and the clips that it stands for: copies are looked at once."""

    key: str
    segment: Segment
    video: HashedVideo
    clips: list[Clip]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a run had to do."""

    frames: int = 0
    workers: int = 0
    seconds: float = 0.0


def extract_corpus(clips: Sequence[Clip], options: ExtractOptions, folder: Path) -> None:
    """Extract all clips into `folder`/shards, quality.parquet and rejects.tsv.

    The files depend on the videos and the options only: not on what was in the cache, nor on who
    did the work. If too many clips are rejected, rejects.tsv is all that is written.

    Args:
        clips: With their videos.
        options: The detector's options and how to work them off.
        folder: Made if need be.

    Raises:
        UserError: If too many clips are rejected, all of them, if the disk is full or if the
            cache's folder cannot be used.
        KeyboardInterrupt: At Ctrl-C, with what to say.
    """
    cache = LandmarkCache(cache_folder())
    ledger = Ledger(len(clips), options.max_rejected_share, folder / REJECTS)
    fingerprint = extractor_fingerprint(options)
    try:
        with explain_full_disk(cache.folder):
            cache.make_folder()
            tasks = _plan(clips, fingerprint, cache, ledger)
            todo = _look_up(tasks, cache, ledger)
            work = _infer(todo, options, cache, ledger) if todo else _Work()
        keys = {clip.clip_id: task.key for task in tasks for clip in task.clips}
        with explain_full_disk(folder):
            write_landmarks(
                folder,
                ledger,
                lambda clip_id: cache.load(keys[clip_id]),
                layout=options.layout,
                extractor=fingerprint,
                frames_per_shard=options.frames_per_shard,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; what was found in {len(ledger.frames)} of {len(clips)} clips is kept, "
            "`dvc repro` goes on with the others"
        ) from None
    logger.info("%s", _summary(ledger, work, folder))


def _plan(
    clips: Sequence[Clip], fingerprint: str, cache: LandmarkCache, ledger: Ledger
) -> list[_Task]:
    """Return what must be known; reject the clips whose video cannot be opened."""
    videos = VideoHashes(cache.folder).hash_videos(clip.video for clip in clips if clip.video)
    tasks: dict[str, _Task] = {}
    for clip in sorted(clips, key=lambda clip: clip.clip_id):
        if clip.video is None or clip.video not in videos:
            ledger.reject([clip], "the file cannot be opened", "restore it and its permissions")
            continue
        video = videos[clip.video]
        key = cache_key(
            video=video.sha256, start_s=clip.start_s, end_s=clip.end_s,
            decoder=DECODER, extractor=fingerprint,
        )  # fmt: skip
        segment = Segment(video=clip.video.absolute(), start_s=clip.start_s, end_s=clip.end_s)
        tasks.setdefault(key, _Task(key, segment, video, [])).clips.append(clip)
    return list(tasks.values())


def _look_up(tasks: Sequence[_Task], cache: LandmarkCache, ledger: Ledger) -> list[_Task]:
    """Note what the cache knows; return the other tasks."""
    todo = []
    with ThreadPoolExecutor(_READERS) as threads:
        found = threads.map(cache.look_up, [task.key for task in tasks])
        for task, outcome in zip(tasks, found, strict=True):
            if outcome is None:
                todo.append(task)
            else:
                _note(task, outcome, ledger, cached=True)
    return todo


def _infer(
    todo: Sequence[_Task], options: ExtractOptions, cache: LandmarkCache, ledger: Ledger
) -> _Work:
    """Look at videos and keep what is found, each at once."""
    begun = time.monotonic()
    frames = _read_headers(todo, options, cache, ledger)
    # Long ones first: a long one at the end would leave all workers but one without work.
    tasks = sorted((t for t in todo if t.key in frames), key=lambda task: -frames[task.key])
    expected = {task.segment: frames[task.key] for task in tasks}
    total, inferred = sum(expected.values()), 0
    job = functools.partial(extract_entry, options=_with_absolute_paths(options))

    def limit_s(segment: Segment) -> float:
        return options.time_limit_s + expected[segment]

    rules = {"limit_s": limit_s, "jobs_per_worker": _CLIPS_PER_WORKER}
    # Closed before the executor: an error here must end the workers first.
    with (
        _executor(options) as (run, workers),
        contextlib.closing(
            run_patiently(functools.partial(run, job, **rules), list(expected), workers)
        ) as outcomes,
        tqdm(
            total=total, desc="extracting", unit=" frames", smoothing=0.05, file=progress_file()
        ) as bar,
    ):
        for number, outcome in outcomes:
            task = tasks[number]
            done = _settle(task, outcome, cache, ledger)
            inferred += done
            total += done - expected[task.segment]  # headers may be wrong
            bar.total = total
            bar.set_postfix_str(ledger.progress(), refresh=False)
            bar.update(done)
    return _Work(inferred, workers, time.monotonic() - begun)


def _read_headers(
    todo: Sequence[_Task], options: ExtractOptions, cache: LandmarkCache, ledger: Ledger
) -> dict[str, int]:
    """Return about how many frames each task has, by key; keep why the others have none.

    Most broken files show here, days before the last frame perhaps. In processes, since a file may
    crash the library that opens it.
    """
    run = functools.partial(run_in_processes, count_frames, limit_s=lambda _: options.time_limit_s)
    frames = {}
    found = run_patiently(run, [task.segment for task in todo], count_workers())
    with contextlib.closing(found):
        # `delay`: no bar where it would be gone at once.
        bar = tqdm(
            found, "reading headers", len(todo), unit=" clips", delay=1.0, file=progress_file()
        )
        for number, outcome in bar:
            if isinstance(outcome, int):
                frames[todo[number].key] = outcome
            else:
                _settle(todo[number], outcome, cache, ledger)
    return frames


def _settle(task: _Task, outcome: bytes | Lost, cache: LandmarkCache, ledger: Ledger) -> int:
    """Keep what a worker found; return its frames."""
    if not task.video.is_still(task.segment.video):
        outcome = Lost("the file changed while it was read", "run `dvc repro` when it is whole")
    if isinstance(outcome, Lost):
        ledger.reject(task.clips, outcome.reason, outcome.mend)
        return 0
    cache.store(task.key, outcome)
    return _note(task, unpack_frames(outcome), ledger, cached=False)


def _note(task: _Task, found: int | Unreadable | None, ledger: Ledger, *, cached: bool) -> int:
    if isinstance(found, Unreadable):
        ledger.reject(task.clips, found.reason, found.mend)
        return 0
    assert found is not None, "an entry from a worker is damaged"
    ledger.keep(task.clips, found, cached=cached)
    return found


@contextlib.contextmanager
def _executor(options: ExtractOptions) -> Iterator[tuple[Callable[..., Any], int]]:
    """Give the function that makes a pass over some jobs, and how many workers there are."""
    if options.executor == "processes":
        yield run_in_processes, count_workers()
    else:
        from signloom.corpus.ray_pool import ray_cluster, run_on_ray

        with ray_cluster() as workers:
            yield run_on_ray, workers


def _with_absolute_paths(options: ExtractOptions) -> DetectorOptions:
    """Return the detector's options for a process whose working folder may be another."""
    hand_model, pose_model = (
        str(Path(path).absolute()) if path else ""
        for path in (options.hand_model, options.pose_model)
    )
    return replace(options.detector_options, hand_model=hand_model, pose_model=pose_model)


def _summary(ledger: Ledger, work: _Work, folder: Path) -> str:
    """Return what was done as a small table."""
    sizes = [path.stat().st_size for path in (folder / SHARDS).iterdir()]
    rate = f", {work.frames / work.seconds:.1f} a second" if work.seconds else ""
    rows = {
        "cached": f"{ledger.cached:,} clips were looked at in an earlier run",
        "new": f"{work.frames:,} frames{rate}, by {work.workers} workers",
        "shards": f"{len(sizes):,}, {sum(sizes) / 1e6:,.2f} MB",
    }
    return "\n".join([ledger.summary(), *(f"  {k:<9} {v}" for k, v in rows.items())])
