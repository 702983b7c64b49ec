"""The report: reports/index.html and its figures."""

import html
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.files import write_file
from signloom.report import charts, quality, sections, tuning
from signloom.report.attention import Alignment, draw_alignment, read_alignments
from signloom.report.canvas import inline_svg
from signloom.report.charts import Chart
from signloom.report.quality import QualityOptions
from signloom.report.sections import Sample, mark_words, pick_samples, tell_night
from signloom.report.skeletons import (
    Picture,
    build_player,
    draw_pictures,
    draw_presence,
    join_pictures,
)
from signloom.report.stage_files import ReportPaths, Sources, read_sources
from signloom.report.verdict import headline_split, system_names, tell_verdict, tiles

METRIC_NAMES = {
    "bleu4": "BLEU-4", "chrf": "chrF", "chrfpp": "chrF++", "rouge_l": "ROUGE-L",
    "exact": "exact, %", "ter": "TER", "wer": "WER, %", "cer": "CER, %",
    "bleu3": "BLEU-3", "bleu2": "BLEU-2", "bleu1": "BLEU-1",
}  # fmt: skip
SPREAD_NAMES = ("bleu4", "chrf", "wer")  # metrics whose spread over seeds is told
MAX_LISTED = 1000  # hypotheses in the page's full table; hypotheses.tsv always has all
TEMPLATES = ("page.html", "macros.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that stands on the page."""

    title: str
    sources: Sources
    landmarks: quality.Assessment
    charts: dict[str, list[Chart]]  # by part of the page
    samples: list[dict[str, Any]]
    sheets: list[dict[str, Any]]  # of the clips with the worst landmarks


def render_page(page: Page) -> str:
    """Fill the template; every text is escaped there."""
    sources, landmarks = page.sources, page.landmarks
    split = headline_split(sources.splits)
    model = sources.splits[split]["systems"]["model"]
    rows = [row for row in sources.hypotheses if row["split"] == split]
    # Further metrics are those of commands of the user.
    names = {
        name: METRIC_NAMES.get(name, name) for name in (*METRIC_NAMES, *model) if name in model
    }
    folder = files("signloom.report")
    environment = Environment(
        loader=DictLoader(
            {name: (folder / name).read_text(encoding="utf-8") for name in TEMPLATES}
        ),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(
        "page.html"
    ).render(
        title=page.title,
        style=(folder / "style.css").read_text(encoding="utf-8"),
        script=(folder / "player.js").read_text(encoding="utf-8"),
        verdict=tell_verdict(sources),
        tiles=tiles(sources),
        split=split,
        splits=dict(sorted(sources.splits.items(), reverse=True)),  # test first
        score_options=sources.options["score"],
        metric_names=names,
        spread_names={name: METRIC_NAMES[name] for name in SPREAD_NAMES},
        seeds=sources.seeds,
        system_names=system_names(sources),
        reads_glosses=sources.reads_glosses,
        signatures={names[name]: model[name]["signature"] for name in names},
        charts={
            name: [_inline_chart(chart) for chart in group] for name, group in page.charts.items()
        },
        samples=page.samples,
        listed=[mark_words(row, sources.scoring) for row in rows[:MAX_LISTED]],
        listed_of=len(rows),
        confusions=sections.list_confusions(sources.confusions, split),
        grid=sections.tabulate_grid(sources.grid),
        decoding=sources.decoding,
        corpus=sections.corpus_table(sources),
        quality_note=sections.quality_note(sources),
        landmarks=landmarks,
        group_labels={
            name: label
            for name, label in quality.GROUP_LABELS.items()
            if any(row[name] is not None for row in landmarks.by_split)
        },
        sheets=page.sheets,
        rejects=sources.rejects,
        night=tell_night(sources.retrain),
        search=sources.search,
        search_note=tuning.search_note(sources.search) if sources.search else "",
        details=sections.run_details(sources),
    )


def _inline_chart(chart: Chart) -> str:
    return inline_svg(chart.svg, chart.name, html.escape(chart.label))


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
        write_file(reports / "figures" / f"{name}.svg", svg)
    write_file(reports / "index.html", text)


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
            charts.draw_lengths(sections.words_per_sentence(sources.targets, sources.scoring))
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
        "quality": quality.draw_distributions(sources.quality, landmarks.limits),
        "signers": [quality.draw_signers(landmarks.by_signer)],
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
                "pictures": []
                if attention
                else _inline_pictures(drawn, f"sample{number}", clip_id),
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
