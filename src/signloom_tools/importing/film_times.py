"""Times in tables against the lengths of the films that they cut."""

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.manifest import Clip
from signloom.errors import ClipError, Problem, UserError
from signloom.progress import progress_file
from signloom_tools.importing.captions import MIN_INSIDE
from signloom_tools.importing.fields import FieldSource
from signloom_tools.importing.new_corpus import CorpusPlan, RefusedRow
from signloom_tools.importing.pictures import PictureFolder

_SHORTEST_S = 0.1  # half of the clips last longer, or their times are no seconds
_PARTS = {"milliseconds": 1e-3, "microseconds": 1e-6, "steps of 100 ns": 1e-7}


@dataclass(frozen=True, slots=True)
class _Film:
    """A film by its header."""

    length_s: float
    fps: float


@dataclass(frozen=True, slots=True)
class _Cut:
    """A clip that is a part of a film."""

    clip: Clip
    film: _Film

    def edges_s(self, factor: float) -> tuple[float, float]:
        """Return start and end if the table's times are multiplied."""
        end_s = self.film.length_s if self.clip.end_s is None else factor * self.clip.end_s
        return factor * (self.clip.start_s or 0.0), end_s

    def lies_inside(self, factor: float) -> bool:
        """Tell whether its film holds it if its times are multiplied."""
        start_s, end_s = self.edges_s(factor)
        inside_s = min(end_s, self.film.length_s) - start_s
        return inside_s > 0 and inside_s >= MIN_INSIDE * (end_s - start_s)

    def __str__(self) -> str:
        """What it is."""
        end = "s on" if self.clip.end_s is None else f"to {self.clip.end_s:g} s"
        start_s = self.clip.start_s or 0.0
        return f"{start_s:g} {end}, the film ends at {self.film.length_s:.2f} s"


def check_times(plan: CorpusPlan, sources: Mapping[str, FieldSource]) -> None:
    """Leave out the clips whose times lie beyond the end of their film.

    Args:
        plan: Its clips of films whose header says no length stay.
        sources: Where the times come from.

    Raises:
        UserError: If most do: they are in another unit, or times of other films.
    """
    by_film: dict[Path, list[Clip]] = defaultdict(list)
    for clip in plan.clips:
        if clip.video and (clip.start_s is not None or clip.end_s is not None):
            by_film[clip.video].append(clip)
    cuts = []
    with tqdm(by_film.items(), "measuring", unit=" films", delay=1.0, file=progress_file()) as bar:
        for path, clips in bar:
            last_s = max(clip.end_s or clip.start_s or 0.0 for clip in clips)
            if film := _measure(plan.videos.get(path, path), last_s):
                cuts += [_Cut(clip, film) for clip in clips]
    beyond = [cut for cut in cuts if not cut.lies_inside(1.0)]
    reason = "its times lie beyond the end of its film"
    if beyond and 2 * len(beyond) >= len(cuts):
        row = plan.rows[beyond[0].clip.clip_id]
        raise UserError(
            f"{row.table} line {row.line}: {reason} ({beyond[0]}), and so it is with {len(beyond)} "
            f"of {len(cuts)} clips. {_advise(cuts, sources)}"
        )
    for cut in beyond:
        row = plan.rows.pop(cut.clip.clip_id)
        problem = Problem(reason, "", (str(cut),))
        plan.refusals.append(RefusedRow(row.table, row.line, cut.clip.clip_id, problem))
        plan.clips.remove(cut.clip)
    lengths_s = [c.end_s - (c.start_s or 0.0) for c in plan.clips if c.end_s is not None]
    if lengths_s and statistics.median(lengths_s) < _SHORTEST_S:
        plan.notes.append(
            f"half of the clips last less than {_SHORTEST_S:g} s: are their times seconds? "
            "--column start_ms=COLUMN end_ms=COLUMN takes milliseconds"
        )


def _measure(source: Path | PictureFolder, last_s: float) -> _Film | None:
    """Return length and rate of a film whose clips end at `last_s`; None where it has no length."""
    from signloom.detection.video import Video  # PyAV loads slowly

    if isinstance(source, PictureFolder):
        return _Film(source.length_s, source.fps)
    try:
        with Video(source) as video:
            end_s = video.find_end_s(last_s)
            return None if end_s is None else _Film(end_s, video.fps)
    except ClipError:  # told by extraction
        return None


def _advise(cuts: list[_Cut], sources: Mapping[str, FieldSource]) -> str:
    """Say in which unit all times would fit, and the option for it."""
    columns = {
        edge: source.column
        for edge in ("start", "end")
        if (source := sources.get(f"{edge}_s")) and source.column
    }
    times = [time_s for cut in cuts for time_s in (cut.clip.start_s, cut.clip.end_s)]
    fps = statistics.median(cut.film.fps for cut in cuts)
    units = {f"frames ({fps:g} a second)": 1 / fps, **_PARTS}
    is_whole = all(time_s is None or time_s.is_integer() for time_s in times)
    for name, factor in units.items() if is_whole and columns else ():
        edges_s = [cut.edges_s(factor) for cut in cuts]
        length_s = statistics.median(end_s - start_s for start_s, end_s in edges_s)
        if all(cut.lies_inside(factor) for cut in cuts) and length_s > _SHORTEST_S:
            kind = {"frames": "frame", "milliseconds": "ms"}.get(name.split()[0])
            pairs = " ".join(f"{edge}_{kind}={column}" for edge, column in columns.items())
            rate = f" --fps {fps:g}" * (kind == "frame")
            how = f"--column {pairs}{rate}" if kind else "write them in seconds"
            return f"As {name} they would fit: {how}"
    empty = " ".join(f"{edge}_s=" for edge in columns or ("start", "end"))
    return (
        "Are they times of longer films, of which these are parts? "
        f"--set {empty} takes each film whole"
    )
