"""Rejects: the clips of a corpus that cannot be read, and how many of them are accepted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.corpus.manifest import Clip
from signloom.errors import Problem, UserError
from signloom.files import write_file

REJECTS_NAME, REJECTS_HEADER = "rejects.tsv", "clip_id\tvideo\treason\thint"


@dataclass(frozen=True, slots=True)
class Reject:
    """A clip that cannot be read; one row of rejects.tsv."""

    clip_id: str
    video: str  # path as in the manifest, seen from the project; empty if there is none
    problem: Problem


@dataclass(frozen=True, slots=True)
class RejectLimit:
    """How many clips of a corpus may be rejected."""

    clips: int
    """In the corpus."""
    max_share: float
    """Most of them that may be rejected, 0 to 1; never all."""
    report: Path
    """Where to write the rejects if there are too many."""

    def check(self, rejects: Sequence[Reject]) -> None:
        """Check the rejects so far.

        Raises:
            UserError: If there are too many of them; the report is written then.
        """
        count = len(rejects)
        if not count or (count < self.clips and count <= self.max_share * self.clips):
            return
        by_id = sort_rejects(rejects)
        write_rejects(self.report, by_id)
        lines = "\n".join(f"  {r.clip_id} ({r.video}): {r.problem}" for r in by_id[:5])
        raise UserError(
            f"{count} of {self.clips} clips ({count / self.clips:.1%}) cannot be read, at most "
            f"{self.max_share:.1%} are accepted (extract.max_rejected_share). No landmarks were "
            f"written; {self.report} lists the clips, of which the first are\n{lines}"
        )


def reject_clip(clip: Clip, problem: Problem) -> Reject:
    """Return the row of a clip that cannot be read."""
    # A name that is not UTF-8 can be opened, but not written into a table.
    video = clip.video.as_posix().encode("utf-8", "backslashreplace").decode() if clip.video else ""
    return Reject(clip.clip_id, video, problem)


def sort_rejects(rejects: Iterable[Reject]) -> list[Reject]:
    """Return rejects in the order of their clip ids."""
    return sorted(rejects, key=lambda reject: reject.clip_id)


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write a header, then a line a clip."""
    lines = [REJECTS_HEADER]
    lines += [f"{r.clip_id}\t{r.video}\t{r.problem.reason}\t{r.problem.hint}" for r in rejects]
    write_file(path, "\n".join(lines) + "\n")
