"""The files of the stages come in, reports/index.html and reports/figures/ go out."""

import html
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.report import charts, content, quality, quality_charts, tuning
from signloom.report.alignment import draw_alignment, read_alignments
from signloom.report.palette import inline_svg
from signloom.report.quality import QualityOptions
from signloom.report.skeletons import Picture, draw_pictures, draw_presence, join_pictures
from signloom.report.sources import ReportPaths, Sources, read_sources
from signloom.reproducibility import write_atomically

METRIC_NAMES = {
    "bleu4": "BLEU-4", "bleu3": "BLEU-3", "bleu2": "BLEU-2", "bleu1": "BLEU-1",
    "chrf": "chrF", "wer": "WER", "cer": "CER",
}  # fmt: skip
LABELS = {
    "scores": "BLEU-4 of the model and of its floors with 95 % intervals; the table below has "
    "the numbers",
    "breakdown": "BLEU-4 by seen and unseen sentence, by length and by signer",
    "curves": "Loss of train and dev, dev accuracy and learning rate over the epochs",
    "lengths": "Words of a sentence, as shares of each split",
    "quality": "Clips by share of frames with hands and body, longest time without a hand, jitter, "
    "side swaps, frame rate and duration; warnings begin at the dashed lines",
    "signers": "Share of frames in which hands and body were found, by signer",
    **tuning.LABELS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The section `report` of params.yaml."""

    title: str  # heading of the page
    samples: int  # clips shown of each kind (best, typical, worst), >= 1
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
    split = content.headline_split(sources.splits)
    samples = content.pick_samples(sources.hypotheses, split, options.samples)
    landmarks = quality.assess(sources.quality, sources.targets, options.quality)
    clip_ids = [sample.row["clip_id"] for sample in samples]
    sequences = read_shards(paths.shards, {*clip_ids, *(row.clip_id for row in landmarks.worst)})
    alignments = read_alignments(paths.evaluation / "alignments.parquet", clip_ids)
    figures = draw_figures(sources, landmarks)
    shown = []
    for number, sample in enumerate(samples, start=1):
        clip_id, name = sample.row["clip_id"], f"{number:02}-{sample.group}"
        pictures = draw_pictures(sequences[clip_id], options.pictures)
        figures[f"sample-{name}"] = join_pictures(pictures)
        if clip_id in alignments:
            figures[f"attention-{name}"] = draw_alignment(alignments[clip_id])
        shown.append(
            {
                "row": sample.row,
                "group": sample.group,
                "reference": sample.reference,
                "hypothesis": sample.hypothesis,
                "pictures": _inline_pictures(pictures, f"sample{number}", clip_id),
                "attention": _inline_attention(figures.get(f"attention-{name}"), number, clip_id),
            }
        )
    sheets = _draw_sheets(landmarks, sequences, options.pictures, figures)
    page = render_page(sources, options, landmarks, figures, shown, sheets)
    shutil.rmtree(reports / "figures", ignore_errors=True)  # none of an older page may remain
    for name, svg in figures.items():
        write_atomically(reports / "figures" / f"{name}.svg", svg)
    write_atomically(reports / "index.html", page)


def draw_figures(sources: Sources, landmarks: quality.Assessment) -> dict[str, str]:
    """Draw the charts; name to SVG file."""
    split = content.headline_split(sources.splits)
    found = dict(sorted(sources.splits.items(), reverse=True))  # test first
    drawn: dict[str, Callable[[], str]] = {
        "scores": lambda: charts.systems_chart(found, content.SYSTEM_NAMES),
        "breakdown": lambda: charts.breakdown_chart(found[split]["breakdowns"]),
        "curves": lambda: charts.curves_chart(sources.epochs, sources.best_epoch),
        "lengths": lambda: charts.lengths_chart(content.words_per_sentence(sources.targets)),
        "quality": lambda: quality_charts.distributions_chart(sources.quality, landmarks.limits),
        "signers": lambda: quality_charts.signers_chart(landmarks.by_signer),
    }
    searched = tuning.draw_search(sources.search) if sources.search else {}
    return {name: draw() for name, draw in drawn.items()} | searched


def render_page(
    sources: Sources,
    options: ReportOptions,
    landmarks: quality.Assessment,
    figures: dict[str, str],
    samples: list[dict[str, Any]],
    sheets: list[dict[str, Any]],
) -> str:
    """Fill the template; every text is escaped there."""
    split = content.headline_split(sources.splits)
    model = sources.splits[split]["systems"]["model"]
    rows = [row for row in sources.hypotheses if row["split"] == split]
    folder = files("signloom.report")
    environment = Environment(
        loader=DictLoader({"page.html": (folder / "page.html").read_text(encoding="utf-8")}),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(
        "page.html"
    ).render(
        title=options.title,
        style=(folder / "style.css").read_text(encoding="utf-8"),
        verdict=content.verdict(sources),
        tiles=content.tiles(sources),
        split=split,
        splits=dict(sorted(sources.splits.items(), reverse=True)),  # test first
        score_options=sources.options["score"],
        metric_names=METRIC_NAMES,
        system_names=content.SYSTEM_NAMES,
        signatures={name: model[name]["signature"] for name in METRIC_NAMES},
        labels=LABELS,
        figures={
            name: inline_svg(svg, name, html.escape(LABELS[name]))
            for name, svg in figures.items()
            if name in LABELS
        },
        samples=samples,
        listed=[content.mark_words(row) for row in rows[: content.MAX_LISTED]],
        listed_of=len(rows),
        corpus=content.corpus_table(sources),
        quality_note=content.quality_note(sources),
        landmarks=landmarks,
        group_labels={
            name: label
            for name, label in quality.GROUP_LABELS.items()
            if any(row[name] is not None for row in landmarks.by_split)
        },
        sheets=sheets,
        rejects=sources.rejects,
        search=sources.search,
        search_note=tuning.search_note(sources.search) if sources.search else "",
        details=content.run_details(sources),
    )


def _draw_sheets(
    landmarks: quality.Assessment,
    sequences: dict[str, LandmarkSequence],
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
                "pictures": _inline_pictures(drawn, f"worst{number}", row.clip_id),
                "presence": inline_svg(draw_presence(sequence), f"presence{number}", label),
                "has_hands": row.any_hand is not None,
            }
        )
    return sheets


def _inline_pictures(pictures: list[Picture], name: str, clip_id: str) -> list[dict[str, Any]]:
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


def _inline_attention(svg: str | None, number: int, clip_id: str) -> str:
    if svg is None:
        return ""
    label = f"Attention of each token of the translation of {clip_id} over the clip's time"
    return inline_svg(svg, f"attention{number}", html.escape(label))
