"""Videos come in; how long and how large each is, or why it cannot be read, goes out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.pool import count_workers, run_in_processes
from signloom.corpus.progress import progress_file
from signloom.corpus.supervision import Lost

_LIMIT_S = 60.0  # for a clip, and another for each `_BYTES_A_SECOND` of its file
_BYTES_A_SECOND = 200_000  # slower than any decoder


@dataclass(frozen=True, slots=True)
class Look:
    """A clip to look at."""

    video: Path
    start_s: float | None
    end_s: float | None
    size_bytes: int  # of the video


@dataclass(frozen=True, slots=True)
class Seen:
    """A clip that was decoded from end to end."""

    duration_s: float
    width: int  # of the upright picture, pixels
    height: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """A clip that cannot be."""

    reason: str
    mend: str


def look_at(looks: Sequence[Look]) -> list[Seen | Unseen]:
    """Decode clips, by processes that a broken file may bring down; return what each is."""
    if not looks:
        return []
    found: dict[int, Seen | Unseen] = {}
    workers = min(count_workers(), len(looks))
    total = sum(look.size_bytes for look in looks)
    with tqdm(
        total=total, desc="decoding", unit="B", unit_scale=True, delay=1.0, file=progress_file()
    ) as bar:
        for number, outcome in run_in_processes(decode, looks, workers, _limit_s):
            if isinstance(outcome, Lost):
                outcome = Unseen(outcome.reason, outcome.mend)
            found[number] = outcome
            bar.update(looks[number].size_bytes)
    return [found[number] for number in range(len(looks))]


def decode(look: Look) -> Seen | Unseen:
    """Decode every frame of a clip."""
    from signloom.corpus.video import Video, VideoError  # OpenCV, which only this process needs

    height = width = 0
    first_s = last_s = None
    try:
        with Video(look.video) as video:
            for frame in video.frames(look.start_s, look.end_s):
                height, width = frame.rgb.shape[:2]
                first_s = frame.time_s if first_s is None else first_s
                last_s = frame.time_s
            assert first_s is not None, "a clip without frames raises"
            assert last_s is not None
            return Seen(last_s - first_s + 1 / video.fps, width, height)
    except VideoError as error:
        return Unseen(error.reason, error.mend)


def _limit_s(look: Look) -> float:
    return _LIMIT_S + look.size_bytes / _BYTES_A_SECOND
