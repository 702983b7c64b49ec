"""A small corpus, and deliveries for it, of real little videos."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from signloom.corpus.manifest import Clip, CorpusOptions, write_manifest
from signloom_ops.intake.deliveries import ScanRequest
from signloom_ops.intake.ingest import IngestPlan, ingest, plan_ingest
from signloom_ops.options import IngestOptions
from tests.videos import write_video

DAY = "2026-11-21"
OPTIONS = IngestOptions(
    min_duration_s=0.2,
    max_duration_s=4.0,
    min_side=48,
    max_side=200,
    settle_s=0.0,
    shares=(80.0, 10.0, 10.0),
)
FOUNDERS = [
    ("ada", "train", "je vais à la maison"),
    ("ada", "train", "tu vas à l'école"),
    ("eve", "train", "elle mange du pain"),
    ("ben", "dev", "il pleut ce soir"),
    ("cleo", "test", "maman boit du café"),
]


def found_corpus(project: Path) -> CorpusOptions:
    """Make a corpus of five clips by four signers in `project`/data/raw/weekly."""
    folder = project / "data/raw/weekly"
    (folder / "videos").mkdir(parents=True)
    clips = [
        Clip(
            clip_id=f"{signer}-{number}",
            video=write_video(folder / f"videos/{signer}-{number}.mp4", frames=10 + number),
            text=text,
            signer=signer,
            split=split,
        )
        for number, (signer, split, text) in enumerate(FOUNDERS)
    ]
    write_manifest(folder / "manifest.tsv", clips)
    return CorpusOptions(folder=folder, manifest="manifest.tsv", signer_disjoint=True)


def deliver(
    folder: Path, name: str, text: str = "demain elle boit de l'eau", *, frames: int
) -> Path:
    """Put a video with its text file into a folder; other frames make other content."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")
    return write_video(folder / f"{name}.mp4", frames=frames)


def take(corpus: CorpusOptions, *sources: str, **more: Any) -> IngestPlan:
    """Ingest some folders."""
    day = more.pop("day", DAY)
    return ingest(corpus, request_of(*sources, **more), OPTIONS, day=day)


def plan(corpus: CorpusOptions, *sources: str, **more: Any) -> IngestPlan:
    """Only say what would come in."""
    return plan_ingest(corpus, request_of(*sources, **more), OPTIONS, day=DAY)


def request_of(*sources: str | Path, **more: Any) -> ScanRequest:
    return ScanRequest(sources=[Path(source) for source in sources], **more)


def reasons(result: IngestPlan) -> dict[str, str]:
    """Return why each file or row was left out."""
    return {reject.where: reject.reason for reject in result.rejects}


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write a table parted by tabs; a missing cell is empty."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["\t".join(header)]
    lines += ["\t".join(str(row.get(name, "")) for name in header) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def deliver_rows(folder: Path, *rows: Mapping[str, object], frames: int = 20) -> None:
    """Put a table into a folder, and a video for each name that it has in the column `video`."""
    write_rows(folder / "table.tsv", rows)
    for number, name in enumerate(dict.fromkeys(str(row["video"]) for row in rows)):
        write_video(folder / name, frames=frames + number)


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
