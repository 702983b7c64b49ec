"""What became of each clip is noted; those that cannot be read make rejects.tsv."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.manifest import Clip
from signloom.reproducibility import write_atomically


@dataclass(frozen=True, slots=True)
class Reject:
    """A clip that cannot be read; one row of rejects.tsv."""

    clip_id: str
    video: str  # path as in the manifest, seen from the project; empty if there is none
    reason: str
    mend: str


class Ledger:
    """What became of each clip of a corpus.

    Args:
        clips: How many there are.
        max_rejected_share: Fail if more than this share of them is rejected, 0 to 1, or all.
        report: Where to write the rejects.

    Attributes:
        frames: Of the clips that have landmarks, by clip id.
        rejects: The others, by clip id.
        cached: How many of those with landmarks were in the cache already.
    """

    def __init__(self, clips: int, max_rejected_share: float, report: Path) -> None:
        self._clips = clips
        self._max_share = max_rejected_share
        self._report = report
        self.frames: dict[str, int] = {}
        self.rejects: dict[str, Reject] = {}
        self.cached = 0

    def keep(self, clips: Sequence[Clip], frames: int, *, cached: bool) -> None:
        """Note that clips have landmarks, in the cache already or found just now."""
        self.frames.update((clip.clip_id, frames) for clip in clips)
        self.cached += len(clips) if cached else 0

    def reject(self, clips: Sequence[Clip], reason: str, mend: str) -> None:
        """Note that clips cannot be read.

        Raises:
            UserError: If there are too many of them; the report is written then.
        """
        for clip in clips:
            video = clip.video.as_posix() if clip.video else ""
            self.rejects[clip.clip_id] = Reject(clip.clip_id, video, reason, mend)
        count = len(self.rejects)
        if count < self._clips and count <= self._max_share * self._clips:
            return
        write_rejects(self._report, self._sorted())
        first = self._sorted()[:5]
        lines = "\n".join(f"  {r.clip_id} ({r.video}): {r.reason}; {r.mend}" for r in first)
        raise UserError(
            f"{count} of {self._clips} clips ({count / self._clips:.1%}) cannot be read, at most "
            f"{self._max_share:.1%} are accepted (extract.max_rejected_share). No landmarks were "
            f"written; {self._report} lists the clips, of which the first are\n{lines}"
        )

    def progress(self) -> str:
        """Return how far it is, in words for a progress bar."""
        done = len(self.frames) + len(self.rejects)
        return f"clips {done}/{self._clips}, {self.cached} cached, {len(self.rejects)} rejected"

    def summary(self) -> str:
        """Return what became of the clips as a small table."""
        rows = {
            "clips": f"{self._clips:,}",
            "kept": f"{len(self.frames):,}, {sum(self.frames.values()):,} frames",
            "rejected": f"{len(self.rejects):,}" + (f", see {self._report}" * bool(self.rejects)),
        }
        return "\n".join(f"  {name:<9} {value}" for name, value in rows.items())

    def write_report(self) -> None:
        """Write rejects.tsv; now each clip is in one of the two lists."""
        assert len(self.frames.keys() | self.rejects.keys()) == self._clips, "a clip got lost"
        assert not self.frames.keys() & self.rejects.keys(), "a clip is both kept and rejected"
        write_rejects(self._report, self._sorted())

    def _sorted(self) -> list[Reject]:
        return [self.rejects[clip_id] for clip_id in sorted(self.rejects)]


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write a header, then a line a clip."""
    lines = ["clip_id\tvideo\treason\tmend"]
    lines += [f"{r.clip_id}\t{r.video}\t{r.reason}\t{r.mend}" for r in rejects]
    write_atomically(path, "\n".join(lines) + "\n")
