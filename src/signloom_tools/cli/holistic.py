"""Commands that find the landmarks of any films, and that take MediaPipe's networks out of it."""

import argparse
import contextlib
import functools
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.errors import ClipError, Problem, UserError
from signloom.files import check_output, check_writable, write_file

if TYPE_CHECKING:
    from signloom_tools.holistic import Face

FORMATS = ("pose", "parquet", "npz", "csv", "json")
STANDARD_INPUT = Path("-")
_LIMIT_S = 60.0  # of a film; and one more for each of its frames


def add_landmarks(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom landmarks`."""
    parser.description = (
        "Write the landmarks that MediaPipe Holistic finds in films (hands, pose, face: 543 a "
        "frame), a file a film. It needs no corpus and no project; docs/landmarks.md has the "
        "formats."
    )
    parser.add_argument(
        "films", nargs="+", type=Path, metavar="FILM",
        help="a file, a folder of films, or - to read one from standard input and write to "
        "standard output",
    )  # fmt: skip
    parser.add_argument("--write", choices=FORMATS, default="npz", help="default: npz")
    parser.add_argument(
        "--to", type=Path, default=None, metavar="FOLDER", help="made if need be (default: here)"
    )
    parser.add_argument(
        "--face", choices=("mesh", "refined", "none"), default="mesh",
        help="refined: with the irises, 478 points; none: a tenth faster (default: mesh)",
    )  # fmt: skip
    parser.add_argument(
        "--fps", type=float, default=0.0, help="look at no more frames a second (default: all)"
    )
    parser.add_argument(
        "--video", action="store_true", help="write FILM.mp4 with the skeleton drawn, too"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")
    parser.set_defaults(run=run_landmarks)


@dataclass(frozen=True, slots=True)
class _Job:
    """A film and what is made of it; what a process is asked for."""

    film: Path
    format: str
    target: Path | None  # None: standard output
    video: Path | None
    face: "Face"
    fps: float


def run_landmarks(options: argparse.Namespace) -> None:
    """Write a file for each film.

    Raises:
        UserError: Before anything is written, if a file is in the way, is named by two films or
            networks are missing; at the end, if films cannot be read.
    """
    from signloom.config import MIN_FPS
    from signloom.detection.detector import DetectorOptions, describe_detector

    if options.fps != 0 and not options.fps >= MIN_FPS:
        raise UserError(f"--fps: found {options.fps:g}, expected 0 (all) or {MIN_FPS:g} or more")
    if options.write == "pose" and importlib.util.find_spec("pose_format") is None:
        raise UserError("--write pose needs pose-format: pip install 'signloom[pose]'")
    describe_detector(DetectorOptions(detector="holistic", groups=("hands", "gaze")))  # networks
    with contextlib.ExitStack() as stack:
        jobs = list(_plan(options, stack))
        failed = _work_off(jobs)
    for job, problem in failed:
        print(f"{job.film}: {problem}", file=sys.stderr)
    if failed:
        raise UserError(f"{len(failed)} of {len(jobs)} films have no landmarks; see above")
    if jobs[0].target:
        print(f"{len(jobs)} files in {jobs[0].target.parent if len(jobs) == 1 else options.to}",
              file=sys.stderr)  # fmt: skip


def _plan(options: argparse.Namespace, stack: contextlib.ExitStack) -> Iterator[_Job]:
    """Yield what is to be done; a film on standard input becomes a file for the while."""
    is_piped = STANDARD_INPUT in options.films
    if is_piped and len(options.films) > 1:
        raise UserError("- is one film: give it alone")
    if is_piped and options.video and not options.to:
        raise UserError("--video of a film on standard input needs --to FOLDER")
    if is_piped and not options.to and options.write != "json" and sys.stdout.isatty():
        raise UserError(f"{options.write} would be written to the terminal: > FILE, or --to FOLDER")
    options.to = options.to or (None if is_piped else Path())
    films = _read_input(stack) if is_piped else _list_films(options.films)
    made: dict[Path, Path] = {}
    for film, name in films.items():
        target = options.to and options.to / name.parent / f"{name.name}.{options.write}"
        video = options.to / name.parent / f"{name.name}.mp4" if options.video else None
        for path in filter(None, (target, video)):
            if other := made.get(path):
                raise UserError(f"{other} and {film} would both be {path}: write them apart")
            made[path] = film
            check_output(path, films, overwrite=options.overwrite)
        yield _Job(film, options.write, target, video, options.face, options.fps)


def _list_films(paths: Sequence[Path]) -> dict[Path, Path]:
    """Return each film with the name of what is made of it, folders kept, without an ending."""
    from signloom.corpus.manifest import VIDEO_SUFFIXES

    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise UserError(f"{path} does not exist; give a film or a folder of films")
            found[path] = Path(path.stem)
            continue
        films = sorted(one for one in path.rglob("*") if one.suffix.lower() in VIDEO_SUFFIXES)
        if not films:
            raise UserError(f"{path} has no film ({', '.join(VIDEO_SUFFIXES)})")
        found |= {film: film.relative_to(path).with_suffix("") for film in films if film.is_file()}
    return found


def _read_input(stack: contextlib.ExitStack) -> dict[Path, Path]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    film = Path(folder) / "standard input"
    with film.open("wb") as file:
        while part := sys.stdin.buffer.read(1 << 20):
            file.write(part)
    return {film: Path("film")}


def _work_off(jobs: Sequence[_Job]) -> list[tuple[_Job, Problem | str]]:
    """Write what the jobs ask for, several in processes; return those that failed."""
    from tqdm import tqdm

    from signloom.extraction.extract import VideoSegment, count_frames
    from signloom.extraction.pool import count_workers, run_in_processes, run_with_retry
    from signloom.progress import progress_file

    def count(job: _Job) -> int:
        (found,) = count_frames([VideoSegment(video=job.film, start_s=None, end_s=None)])
        return found if isinstance(found, int) else 1

    expected = {job: count(job) for job in jobs}
    failed: list[tuple[_Job, Problem | str]] = []
    with tqdm(
        total=sum(expected.values()), desc="landmarks", unit=" frames", file=progress_file(),
        smoothing=0.05,
    ) as bar:  # fmt: skip
        if len(jobs) == 1:
            outcome = _write(jobs[0], threads=2, watch=bar.update)
            return [] if isinstance(outcome, int) else [(jobs[0], outcome)]
        run = functools.partial(
            run_in_processes, _write_part, limit_s=lambda part: _LIMIT_S + 2 * expected[part[0]]
        )
        longest_first = sorted(jobs, key=lambda job: -expected[job])
        done = run_with_retry(run, [[job] for job in longest_first], count_workers())
        with contextlib.closing(done) as outcomes:
            for job, outcome in outcomes:
                bar.update(expected[job])
                if not isinstance(outcome, int):
                    failed.append((job, outcome))
    return failed


def _write_part(part: Sequence[_Job]) -> list[int | Problem | str]:
    return [_write(job) for job in part]


def _write(job: _Job, *, threads: int = 1, watch: object = None) -> int | Problem | str:
    """Write what a job asks for; return its frames, or why the film cannot be read.

    What may be an accident is a `Problem`: it is tried again.
    """
    from signloom_tools.holistic import WRITERS, read_film, write_video

    try:
        film = read_film(
            job.film, face=job.face, fps=job.fps, threads=threads,
            watch=watch if callable(watch) else lambda: None,
        )  # fmt: skip
        content = WRITERS[job.format](film)
        if job.target:
            write_file(job.target, content)
        else:
            sys.stdout.buffer.write(content)
        if job.video:
            write_video(job.video, job.film, film, fps=job.fps)
    except ClipError as error:
        return str(error.problem)
    except RuntimeError as error:
        return Problem(" ".join(f"the detector failed: {error}".split()), "convert it to .mp4")
    return len(film.times_s)


def add_networks(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom networks`."""
    parser.description = (
        "Take MediaPipe's networks out of a wheel of mediapipe (0.10.21 or before: later ones have "
        "none) and keep them where every command finds them. MediaPipe need not be installed, and "
        "the wheel may be of any system and any Python: "
        "pip download --no-deps --only-binary :all: --python-version 3.12 --platform "
        "manylinux_2_28_x86_64 mediapipe==0.10.21"
    )
    parser.add_argument("wheel", type=Path, metavar="WHEEL", help="mediapipe-0.10.21-*.whl")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="default: ~/.signloom/networks")
    parser.set_defaults(run=run_networks)


def run_networks(options: argparse.Namespace) -> None:
    """Unpack the networks and say where they are.

    Raises:
        UserError: If the file is no wheel, or one without networks.
    """
    from signloom.detection.mediapipe_models import MODELS_VARIABLE, own_networks, take_networks

    folder = options.to or own_networks()
    check_writable(folder)
    count = take_networks(options.wheel, folder)
    print(f"{count} networks in {folder}", file=sys.stderr)
    if options.to:
        print(f"export {MODELS_VARIABLE}={folder.absolute()}")
