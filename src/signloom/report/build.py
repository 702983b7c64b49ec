"""The report: reports/index.html and its figures."""

import html
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from signloom.config import Count, checked_dataclass
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.names import Metric, System, metric_heading, shown_metrics
from signloom.files import write_file
from signloom.report import charts, quality, tables, tuning
from signloom.report.attention import read_alignments
from signloom.report.canvas import inline_svg
from signloom.report.charts import Chart
from signloom.report.pages import FindSection, render_page
from signloom.report.quality import Assessment, ContactSheet, QualityOptions, draw_sheet
from signloom.report.samples import Sample, SampleView, mark_words, pick_samples, show_sample
from signloom.report.stage_files import ReportPaths, Row, Sources, read_sources
from signloom.report.verdict import headline_split, system_names, tiles, verdict_sentences

METRIC_ORDER = (  # of the table
    Metric.BLEU4, Metric.CHRF, Metric.CHRFPP, Metric.ROUGE_L, Metric.EXACT, Metric.TER, Metric.WER,
    Metric.CER, Metric.BLEU3, Metric.BLEU2, Metric.BLEU1,
)  # fmt: skip
MAX_LISTED = 1000  # hypotheses in the page's full table; hypotheses.tsv always has all


@checked_dataclass
class ReportOptions:
    """The section `report` of params.yaml."""

    title: str  # heading of the page; "": the corpus's name
    samples: Count = 3  # clips shown of each kind (best, median, worst)
    pictures: Annotated[int, Field(ge=2)] = 10  # frames drawn of each of these clips
    quality: QualityOptions = QualityOptions(worst=6)
    # Folder of films, CLIP.webm of `signloom translate --video`, seen from the page; "": no links.
    films: Annotated[str, Field(pattern=r"^([\w. -][\w./ -]*)?$")] = ""


def build_report(
    paths: ReportPaths, reports: Path, options: ReportOptions, sections: Sequence[FindSection] = ()
) -> None:
    """Write the page and, beside it, each of its figures as a file of its own.

    Args:
        paths: What the stages wrote.
        reports: The folder `reports`; index.html and figures/ are written there.
        options: Title and samples.
        sections: Of other packages.
    """
    sources = read_sources(paths)
    split = headline_split(sources.splits)
    model = sources.splits[split]["systems"][System.MODEL]
    # Further metrics are those of commands of the user.
    order = dict.fromkeys((sources.headline, *METRIC_ORDER, *model))
    metrics = {name: metric_heading(name) for name in order if name in model}
    hypotheses = [row for row in sources.hypotheses if row["split"] == split]
    if not hypotheses:
        raise UserError(f"{paths.evaluation}/hypotheses.tsv has no clip of {split}; evaluate again")
    landmarks = quality.assess(sources.quality, sources.targets, options.quality)
    picked = pick_samples(hypotheses, options.samples, sources.scoring)
    samples, sheets = _draw_clips(paths, sources, picked, landmarks, options)
    clip_ids = [sample.row["clip_id"] for sample in picked]
    groups = draw_charts(sources, landmarks)
    text = render_page(
        "page.html",
        title=options.title or f"Corpus {sources.corpus}",
        verdict=verdict_sentences(sources),
        tiles=tiles(sources),
        sources=sources,
        split=split,
        metric_names=metrics,
        spread_names={name: metric_heading(name) for name in shown_metrics(sources.headline)},
        stress=stress_of(sources),
        signs={name: read for name in clip_ids if (read := read_signs(sources.signs.get(name)))},
        system_names=system_names(sources),
        signatures={label: model[name]["signature"] for name, label in metrics.items()},
        charts={
            name: [inline_svg(chart.svg, chart.name, html.escape(chart.label)) for chart in group]
            for name, group in groups.items()
        },
        samples=samples,
        films=options.films.rstrip("/"),
        listed=[mark_words(row, sources.scoring) for row in hypotheses[:MAX_LISTED]],
        listed_of=len(hypotheses),
        confusions=tables.list_confusions(sources.confusions, split),
        grid=tables.tabulate_grid(sources.grid),
        headline=metric_heading(sources.headline),
        corpus=tables.corpus_table(sources),
        quality_note=quality.describe_corpus(sources.quality),
        landmarks=landmarks,
        sheets=sheets,
        sections=[one for find in sections if (one := find(sources.corpus))],
        search_note=tuning.search_note(sources.search) if sources.search else "",
        details=tables.run_details(sources),
    )
    figures = {chart.name: chart.svg for group in groups.values() for chart in group}
    for more in (*(one.figures for one in samples), *(one.figures for one in sheets)):
        figures |= more
    shutil.rmtree(reports / "figures", ignore_errors=True)  # none of an older page may remain
    for name, svg in figures.items():
        write_file(reports / "figures" / f"{name}.svg", svg)
    write_file(reports / "index.html", text)


def _draw_clips(
    paths: ReportPaths,
    sources: Sources,
    picked: Sequence[Sample],
    landmarks: Assessment,
    options: ReportOptions,
) -> tuple[list[SampleView], list[ContactSheet]]:
    """Return the sampled clips and the worst ones, drawn; of features and glosses none of these."""
    clip_ids = [sample.row["clip_id"] for sample in picked]
    worst = landmarks.worst if sources.shows_signer else []
    shown = {*clip_ids, *(row.clip_id for row in worst)}
    sequences = read_shards(paths.shards, shown) if sources.shows_signer else {}
    alignments = read_alignments(paths.evaluation / "alignments.parquet", clip_ids)
    samples = [
        show_sample(
            sample, number, sequences.get(clip_id), alignments.get(clip_id), options.pictures
        )
        for number, (clip_id, sample) in enumerate(zip(clip_ids, picked, strict=True), start=1)
    ]
    sheets = [
        draw_sheet(row, number, landmarks, sequences[row.clip_id], options.pictures)
        for number, row in enumerate(worst, start=1)
    ]
    return samples, sheets


def read_signs(row: Row | None) -> list[Row]:
    """Return the signs of a row of signs.tsv, each with its time and how sure it is, %."""
    if row is None:
        return []
    every = zip(
        row["signs"].split(), row["spans_s"].split(), row["posteriors"].split(), strict=True
    )
    return [
        {"gloss": gloss, "span": span.replace("-", " – "), "sure": f"{100 * float(posterior):.0f}"}
        for gloss, span, posterior in every
    ]


def stress_of(sources: Sources) -> list[Row]:
    """Return what changes of real life cost the split that the page is about."""
    split = headline_split(sources.splits)
    return [row for row in sources.stress if row["split"] == split]


def draw_charts(sources: Sources, landmarks: Assessment) -> dict[str, list[Chart]]:
    """Draw the charts of each part of the page."""
    breakdowns = sources.splits[headline_split(sources.splits)]["breakdowns"]
    words = tables.words_per_sentence(sources.targets, sources.scoring)
    drawn = {
        "scores": charts.draw_systems(sources.splits, system_names(sources), sources.headline),
        "breakdown": charts.draw_breakdowns(breakdowns),
        "stress": charts.draw_stress(stress_of(sources), sources.headline),
        "curves": charts.draw_curves(sources.epochs, sources.best_epoch),
        "lengths": [charts.draw_lengths(words)],
    }
    if sources.shows_signer:  # other models see nothing of what was detected
        drawn["quality"] = quality.draw_distributions(sources.quality, landmarks.limits)
        drawn["signers"] = [quality.draw_signers(landmarks.by_signer)]
    for chart in tuning.draw_search(sources.search) if sources.search else []:
        drawn[chart.name] = [chart]
    return drawn
