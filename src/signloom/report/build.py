"""The files of the stages come in, reports/index.html and reports/figures/ go out."""

import html
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.report import charts, content, quality, quality_charts, tuning
from signloom.report.alignment import Alignment, draw_alignment, read_alignments
from signloom.report.charts import Chart
from signloom.report.page import Page, render_page
from signloom.report.palette import inline_svg
from signloom.report.player import build_player
from signloom.report.quality import QualityOptions
from signloom.report.samples import Sample, pick_samples
from signloom.report.skeletons import Picture, draw_pictures, draw_presence, join_pictures
from signloom.report.sources import ReportPaths, Sources, read_sources
from signloom.report.verdict import headline_split, system_names
from signloom.reproducibility import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The section `report` of params.yaml."""

    title: str  # heading of the page
    samples: int  # clips shown of each kind (best, median, worst), >= 1
    pictures: int  # frames drawn of each of these clips, >= 2
    quality: QualityOptions

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("pictures", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected {least} or more")


def build_report(paths: ReportPaths, reports: Path, options: ReportOptions) -> None:
    """Write the page and, beside it, each of its figures as a file of its own.

    Args:
        paths: What the stages wrote.
        reports: The folder `reports`; index.html and figures/ are written there.
        options: Title and samples.
    """
    sources = read_sources(paths)
    split = headline_split(sources.splits)
    samples = pick_samples(sources.hypotheses, split, options.samples, sources.scoring)
    landmarks = quality.assess(sources.quality, sources.targets, options.quality)
    clip_ids = [sample.row["clip_id"] for sample in samples]
    shown = {*clip_ids, *(row.clip_id for row in landmarks.worst)}
    sequences = {} if sources.reads_glosses else read_shards(paths.shards, shown)
    alignments = read_alignments(paths.evaluation / "alignments.parquet", clip_ids)
    groups = draw_charts(sources, landmarks)
    figures = {chart.name: chart.svg for group in groups.values() for chart in group}
    page = Page(
        title=options.title,
        sources=sources,
        landmarks=landmarks,
        charts=groups,
        samples=_show_samples(samples, sequences, alignments, options.pictures, figures),
        sheets=[]
        if sources.reads_glosses
        else _draw_sheets(landmarks, sequences, options.pictures, figures),
    )
    text = render_page(page)
    shutil.rmtree(reports / "figures", ignore_errors=True)  # none of an older page may remain
    for name, svg in figures.items():
        write_atomically(reports / "figures" / f"{name}.svg", svg)
    write_atomically(reports / "index.html", text)


def draw_charts(sources: Sources, landmarks: quality.Assessment) -> dict[str, list[Chart]]:
    """Draw the charts of each part of the page."""
    found = dict(sorted(sources.splits.items(), reverse=True))  # test first
    breakdowns = found[headline_split(sources.splits)]["breakdowns"]
    searched = tuning.draw_search(sources.search) if sources.search else {}
    return {
        "scores": charts.draw_systems(found, system_names(sources)),
        "breakdown": charts.draw_breakdowns(breakdowns),
        "curves": charts.draw_curves(sources.epochs, sources.best_epoch),
        "lengths": [
            charts.draw_lengths(content.words_per_sentence(sources.targets, sources.scoring))
        ],
        **_draw_quality(sources, landmarks),
        **{
            name: [Chart(name=name, svg=svg, label=tuning.LABELS[name])]
            for name, svg in searched.items()
        },
    }


def _draw_quality(sources: Sources, landmarks: quality.Assessment) -> dict[str, list[Chart]]:
    """Draw what was detected; nothing of a model of glosses, which sees none of it."""
    if sources.reads_glosses:
        return {}
    return {
        "quality": quality_charts.draw_distributions(sources.quality, landmarks.limits),
        "signers": [quality_charts.draw_signers(landmarks.by_signer)],
    }


def _show_samples(
    samples: list[Sample],
    sequences: Mapping[str, LandmarkSequence],
    alignments: Mapping[str, Alignment],
    pictures: int,
    figures: dict[str, str],
) -> list[dict[str, Any]]:
    """Prepare what the page shows of each sample; what is drawn becomes a figure too."""
    shown: list[dict[str, Any]] = []
    for number, sample in enumerate(samples, start=1):
        clip_id, name = sample.row["clip_id"], f"{number:02}-{sample.group}"
        is_first = sample.group not in [s.group for s in samples[: number - 1]]
        if clip_id not in sequences:  # of a model of glosses: its row says them
            nothing: dict[str, Any] = {"player": None, "attention": "", "pictures": []}
            shown.append({"sample": sample, "is_first": is_first, **nothing})
            continue
        sequence, alignment = sequences[clip_id], alignments.get(clip_id)
        drawn = draw_pictures(sequence, pictures)
        figures[f"sample-{name}"] = join_pictures(drawn)
        attention = draw_alignment(alignment, sequence, pictures) if alignment else ""
        if attention:
            figures[f"attention-{name}"] = attention
        shown.append(
            {
                "sample": sample,
                "is_first": is_first,
                "player": build_player(
                    sequence, name=f"player{number}", label=f"Moving skeleton of {clip_id}"
                ),
                "attention": inline_svg(
                    attention,
                    f"attention{number}",
                    f"Attention of each token of the translation of {html.escape(clip_id)} over "
                    "the clip's time, skeletons below",
                )
                if attention
                else "",
                "pictures": [] if attention else _inline(drawn, f"sample{number}", clip_id),
            }
        )
    return shown


def _draw_sheets(
    landmarks: quality.Assessment,
    sequences: Mapping[str, LandmarkSequence],
    pictures: int,
    figures: dict[str, str],
) -> list[dict[str, Any]]:
    """Draw the worst clips along their whole time; each becomes a figure too."""
    sheets = []
    for number, row in enumerate(landmarks.worst, start=1):
        sequence = sequences[row.clip_id]
        drawn = draw_pictures(sequence, pictures, whole=True)
        figures[f"worst-{number:02}"] = join_pictures(drawn)
        label = html.escape(f"Along the time of {row.clip_id}: left hand above, right hand below")
        sheets.append(
            {
                "clip_id": row.clip_id,
                "signer": landmarks.signer_of.get(row.clip_id, "unknown"),
                "faults": landmarks.faults[row.clip_id],
                "figures": quality.describe(row),
                "pictures": _inline(drawn, f"worst{number}", row.clip_id),
                "presence": inline_svg(draw_presence(sequence), f"presence{number}", label),
                "has_hands": row.any_hand is not None,
            }
        )
    return sheets


def _inline(pictures: list[Picture], name: str, clip_id: str) -> list[dict[str, Any]]:
    return [
        {
            "time_s": picture.time_s,
            "svg": inline_svg(
                picture.svg,
                f"{name}-{number}",
                html.escape(
                    f"Skeleton of {clip_id} at {picture.time_s:.1f} seconds"
                    + "".join(f", {hand} missing" for hand in picture.missing)
                ),
            ),
        }
        for number, picture in enumerate(pictures)
    ]
