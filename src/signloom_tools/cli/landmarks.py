"""The command that finds the landmarks of any films."""

import contextlib
import functools
import importlib.util
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Literal, NamedTuple, cast

import numpy as np
from tqdm import tqdm

from signloom.config import MIN_FPS
from signloom.corpus.manifest import VIDEO_SUFFIXES
from signloom.detection.detector import DetectorOptions, describe_detector
from signloom.detection.mediapipe_models import (
    GET_WHEEL,
    MODELS_VARIABLE,
    own_networks,
    take_networks,
)
from signloom.errors import ClipError, Problem, UserError
from signloom.extraction.extract import VideoSegment, count_frames
from signloom.extraction.pool import count_workers, run_in_processes, run_with_retry
from signloom.files import check_writable, disk_name, write_file
from signloom.progress import progress_file
from signloom_tools.command_options import argument, option
from signloom_tools.holistic import WRITERS, read_film, stream_json, to_sequence
from signloom_tools.importing.options import CROWDED, CropOption
from signloom_tools.outputs import check_output
from signloom_tools.tiers.events import find_events
from signloom_tools.tiers.files import WRITERS as TIER_WRITERS
from signloom_tools.tiers.signals import measure

STANDARD_INPUT = Path("-")
_ENDINGS = {"elan": "eaf"}  # of formats; the others are their own
NO_FACE = "no face was found, so the tiers of head, brows, eyes, gaze and mouth are empty"
_LIMIT_S = 60.0  # of a film; and one more for each of its frames


@dataclass(frozen=True, kw_only=True)
class LandmarksOptions(CropOption):
    """Write the landmarks that MediaPipe Holistic finds in films, a file a film.

    Hands, pose and face are 543 a frame. Neither a corpus nor a project is needed;
    docs/landmarks.md has the formats, docs/tiers.md the last three.
    """

    films: Sequence[Path] = argument(
        "a file, a folder of films, or - to read one from standard input and write to standard "
        "output",
        "FILM",
        nargs="*",
    )
    write: Literal["pose", "parquet", "npz", "csv", "json", "elan", "tiers.csv", "tiers.json"] = (
        option(
            "format of the files; the last three: what hands, head and face do; elan: FILM.eaf, "
            "and FILM.svg, a picture",
            "npz",
        )
    )
    to: Path | None = option("made if need be (default: beside the film)", None, metavar="FOLDER")
    face: Literal["mesh", "refined", "none"] = option(
        "refined: with the irises, 478 points; none: a tenth faster", "mesh"
    )
    fps: float = option("most frames a second to read; 0: all", 0.0)
    video: bool = option(
        "write FILM.webm with the skeleton drawn, too, and the tiers written", False
    )
    overwrite: bool = option("replace files that already exist", False)
    networks: Path | None = option(
        "first take MediaPipe's networks out of a wheel of mediapipe (0.10.21 or before: later "
        f"ones have none), of any system and Python, and keep them in ~/.signloom/networks: "
        f"{GET_WHEEL}",
        None,
        metavar="WHEEL",
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """A film and what is made of it; what a process is asked for."""

    film: Path
    target: Path | None  # None: standard output
    video: Path | None
    picture: Path | None
    options: LandmarksOptions = field(compare=False)


class _Written(NamedTuple):
    """What a film's file holds."""

    frames: int
    with_hands: int  # of them


def run_landmarks(options: LandmarksOptions) -> None:
    """Write a file for each film.

    Raises:
        UserError: Before anything is written, if a file is in the way, is named by two films or
            networks are missing; at the end, if films cannot be read.
    """
    if options.networks:
        _take_networks(options.networks)
        if not options.films:
            return
    _check_options(options)
    describe_detector(DetectorOptions(detector="holistic", groups=("hands", "gaze")))  # networks
    if (*options.films,) == (STANDARD_INPUT,) and options.write == "json" and not options.to:
        piped = cast(io.BufferedReader, sys.stdin.buffer)
        if not options.video and b"ftyp" not in piped.peek(16):  # an .mp4 is read when it is whole
            _stream_json(cast(IO[bytes], SimpleNamespace(read=piped.read1)), options)
            return
    with contextlib.ExitStack() as stack:
        jobs = list(_plan(options, stack))
        outcomes, failed = _run_jobs(jobs)
    for job, problem in failed:
        print(f"{job.film}: {problem}", file=sys.stderr)
    if failed:
        raise UserError(f"{len(failed)} of {len(jobs)} films have no landmarks; see above")
    if jobs[0].target:
        frames, with_hands = (sum(counts) for counts in zip(*outcomes, strict=True))
        place = f"{len(jobs)} files in {options.to}" if options.to else f"{len(jobs)} files"
        if len(jobs) == 1:
            place = " and ".join(str(path) for path in (jobs[0].target, jobs[0].picture) if path)
        print(
            f"{place}: {frames:,} frames, hands in {100 * with_hands / frames:.0f} %",
            file=sys.stderr,
        )


def _check_options(options: LandmarksOptions) -> None:
    """Refuse what cannot be written, before any film is opened."""
    if not options.films:
        raise UserError("give a FILM: a file, a folder of films, or -")
    if options.fps != 0 and not options.fps >= MIN_FPS:
        raise UserError(f"--fps: found {options.fps:g}, expected 0 (all) or {MIN_FPS:g} or more")
    if options.write == "pose" and importlib.util.find_spec("pose_format") is None:
        raise UserError("--write pose needs pose-format: pip install 'signloom[pose]'")


def _stream_json(film: IO[bytes], options: LandmarksOptions) -> None:
    """Write the landmarks of each picture when it comes."""
    try:
        for line in stream_json(film, face=options.face, fps=options.fps, crop=options.crop):
            print(line, flush=True)
    except ClipError as error:
        raise UserError(f"standard input: {error.problem}") from None


def _take_networks(wheel: Path) -> None:
    """Unpack the networks of a wheel and print where they are.

    Raises:
        UserError: If the file is no wheel, or one without networks.
    """
    folder = Path(os.environ.get(MODELS_VARIABLE) or own_networks())
    check_writable(folder)
    print(f"{take_networks(wheel, folder)} networks in {folder}", file=sys.stderr)


def _plan(options: LandmarksOptions, stack: contextlib.ExitStack) -> Iterator[_Job]:
    """Yield what is to be done; a film on standard input becomes a file for the while."""
    is_piped = STANDARD_INPUT in options.films
    if is_piped:
        _check_piped(options)
    films = _read_input(stack) if is_piped else _list_films(options.films)
    sources: dict[str, Path] = {}  # by `disk_name`
    for film, name in films.items():
        to = options.to and options.to / name.parent
        folder = to if to or is_piped else film.parent
        target = folder and folder / f"{name.name}.{_ENDINGS.get(options.write, options.write)}"
        video = folder / f"{name.name}.webm" if folder and options.video else None
        picture = folder / f"{name.name}.svg" if folder and options.write == "elan" else None
        for path in filter(None, (target, video, picture)):
            if earlier_film := sources.get(disk_name(path)):
                raise UserError(f"{earlier_film} and {film} would both be {path}: write them apart")
            sources[disk_name(path)] = film
            check_output(path, films, overwrite=options.overwrite)
        yield _Job(film, target, video, picture, options)


def _check_piped(options: LandmarksOptions) -> None:
    """Refuse what a film on standard input does not allow."""
    if len(options.films) > 1:
        raise UserError("- is one film: give it alone")
    if options.video and not options.to:
        raise UserError("--video of a film on standard input needs --to FOLDER")
    if not options.to and options.write != "json" and sys.stdout.isatty():
        raise UserError(f"{options.write} would be written to the terminal: > FILE, or --to FOLDER")


def _list_films(paths: Sequence[Path]) -> dict[Path, Path]:
    """Return each film with the name of what is made of it, folders kept, without an ending."""
    names: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise UserError(f"{path} does not exist; give a film or a folder of films")
            names[path] = Path(path.stem)
            continue
        films = sorted(file for file in path.rglob("*") if file.suffix.lower() in VIDEO_SUFFIXES)
        if not films:
            raise UserError(f"{path} has no film ({', '.join(VIDEO_SUFFIXES)})")
        names |= {film: film.relative_to(path).with_suffix("") for film in films if film.is_file()}
    return names


def _read_input(stack: contextlib.ExitStack) -> dict[Path, Path]:
    film = Path(stack.enter_context(tempfile.TemporaryDirectory()), "standard input")
    with film.open("wb") as file:
        while part := sys.stdin.buffer.read(1 << 20):
            file.write(part)
    return {film: Path("film")}


def _run_jobs(
    jobs: Sequence[_Job],
) -> tuple[list[_Written], list[tuple[_Job, Problem | str]]]:
    """Write what the jobs ask for, several in processes; return what was, and which failed."""

    def count(job: _Job) -> int:
        (frames,) = count_frames([VideoSegment(video=job.film, start_s=None, end_s=None)])
        return frames if isinstance(frames, int) else 1

    expected = {job: count(job) for job in jobs}
    written: list[_Written] = []
    failed: list[tuple[_Job, Problem | str]] = []
    with tqdm(
        total=sum(expected.values()),
        desc="landmarks",
        unit=" frames",
        file=progress_file(),
        smoothing=0.05,
    ) as bar:
        if len(jobs) == 1:
            outcome = _process_film(jobs[0], threads=2, watch=bar.update)
            if isinstance(outcome, _Written):
                return [outcome], []
            return [], [(jobs[0], outcome)]
        run = functools.partial(
            run_in_processes, _write_part, limit_s=lambda part: _LIMIT_S + 2 * expected[part[0]]
        )
        longest_first = sorted(jobs, key=lambda job: -expected[job])
        attempts = run_with_retry(run, [[job] for job in longest_first], count_workers())
        with contextlib.closing(attempts) as outcomes:
            for job, outcome in outcomes:
                bar.update(expected[job])
                if isinstance(outcome, _Written):
                    written.append(outcome)
                else:
                    failed.append((job, outcome))
    return written, failed


def _write_part(part: Sequence[_Job]) -> list[_Written | Problem | str]:
    return [_process_film(job) for job in part]


def _process_film(job: _Job, *, threads: int = 1, watch: object = None) -> _Written | Problem | str:
    """Write what a job asks for; return what it is, or why the film cannot be read.

    What may be an accident is a `Problem`: it is tried again.
    """
    options = job.options
    has_tiers = options.write in TIER_WRITERS
    try:
        film = read_film(
            job.film,
            face="refined" if has_tiers and options.face != "none" else options.face,
            fps=options.fps,
            crop=options.crop,
            threads=threads,
            watch=watch if callable(watch) else lambda: None,
        )
        signals = measure(film) if has_tiers else None
        events = find_events(signals) if signals else []
        if has_tiers:
            linked, folder = (job.film, job.target.parent) if job.target else (None, Path())
            content = TIER_WRITERS[options.write](
                events, linked, folder, is_crowded=film.is_crowded
            )
        else:
            content = WRITERS[options.write](film)
        if job.target:
            write_file(job.target, content)
        else:
            sys.stdout.buffer.write(content)
        if job.video:
            from signloom_tools.skeleton_video import even_pictures, write_skeleton

            sequence = to_sequence(film)
            pictures = even_pictures(job.film, sequence.fps, fps=options.fps, crop=options.crop)
            if signals:
                from signloom_tools.tiers.picture import mark_pictures

                pictures = mark_pictures(pictures, events, signals)
            write_skeleton(job.video, pictures, sequence)
        if job.picture and signals:
            from signloom_tools.tiers.picture import draw_timeline

            write_file(job.picture, draw_timeline(job.film, events, signals, crop=options.crop))
        if has_tiers and not np.isfinite(film.parts.get("face", np.zeros(1))).any():
            print(f"warning: {job.film}: {NO_FACE}", file=sys.stderr)
        if film.is_crowded:
            print(f"warning: {job.film}: {CROWDED}", file=sys.stderr)
    except ClipError as error:
        return str(error.problem)
    except RuntimeError as error:
        return Problem(" ".join(f"the detector failed: {error}".split()), "convert it to .mp4")
    hands = [np.isfinite(film.parts[hand]).any((1, 2)) for hand in ("left_hand", "right_hand")]
    return _Written(len(film.times_s), int(np.logical_or(*hands).sum()))
