"""The report: reports/index.html and its figures."""

import base64
import html
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from signloom.config import Gone, checked_dataclass
from signloom.corpus.quality import ClipQuality
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.compare import Difference, compare
from signloom.evaluation.metric_names import Metric, System, metric_heading, shown_metrics
from signloom.evaluation.metrics import measure
from signloom.files import write_file
from signloom.paths import HYPOTHESES_NAME
from signloom.report import charts, quality, tables, tuning, verdict
from signloom.report.attention import read_alignments
from signloom.report.canvas import inline_svg
from signloom.report.charts import Chart
from signloom.report.pages import render_page
from signloom.report.quality import WORST, Assessment
from signloom.report.samples import Sample, SampleView, mark_words, pick_samples, show_sample
from signloom.report.skeletons import Player, build_player
from signloom.report.stage_files import ReportPaths, Row, Sources, read_sources
from signloom.report.verdict import Verdict, headline_split, reach_verdict, strongest_floor

METRIC_ORDER = (  # of the table
    Metric.BLEU4,
    Metric.CHRF,
    Metric.CHRFPP,
    Metric.ROUGE_L,
    Metric.EXACT,
    Metric.TER,
    Metric.WER,
    Metric.CER,
    Metric.BLEU3,
    Metric.BLEU2,
    Metric.BLEU1,
)
SAMPLES = 3  # clips shown of each kind: best, median, worst
MAX_LISTED = 1000  # hypotheses in the page's full table; hypotheses.tsv always has all


@checked_dataclass
class ReportOptions:
    """The section `report` of params.yaml."""

    title: str  # heading of the page; "": the corpus's name

    GONE: ClassVar = {
        "films": Gone("", "the page has moving skeletons; open films beside it"),
        "samples": Gone.fixed(SAMPLES),
        "pictures": Gone(10, "the skeleton beside attention moves; remove the line"),
        "quality": Gone({"worst": WORST}, "its limits are fixed, see docs/extraction.md"),
    }


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the template of the page asks for, about the split `split`."""

    sources: Sources
    options: ReportOptions
    landmarks: Assessment
    picked: list[Sample]
    samples: list[SampleView]  # of `picked`, drawn
    worst: list[tuple[ClipQuality, Player]]
    figures: dict[str, list[Chart]]  # by part of the page
    file: bytes  # hypotheses.tsv

    @property
    def title(self) -> str:
        """The heading."""
        return self.options.title or f"Corpus {self.sources.corpus}"

    @property
    def split(self) -> str:
        """The split that the page is about."""
        return headline_split(self.sources.splits)

    @property
    def verdict(self) -> Verdict:
        """The sentence above everything else."""
        return reach_verdict(self.sources, compare_with_floor(self.sources, self.hypotheses))

    @property
    def first(self) -> SampleView:
        """The sample at the top: a median one, as the best says little."""
        medians = (samples for samples in self.samples if samples.sample.group == "median")
        return next(medians, self.samples[0])

    @property
    def made(self) -> dict[str, str]:
        """The model and its data, in a line each."""
        sources, model = self.sources, self.sources.checkpoint["model"]
        layers = f"{model.get('encoder_layers')}+{model.get('decoder_layers')} layers"
        data = sources.checkpoint.get("provenance", {}).get("data", {}).get("landmarks", "")
        corpus = f"{sources.corpus or 'not noted'}, {len(sources.targets)} clips"
        return {
            "model": f"{model['family']}, {layers}, width {model.get('d_model')}",
            "weights": sources.weights[:12] or "not noted",
            "corpus": f"{corpus}, landmarks {data[:12]}" if data else corpus,
        }

    @property
    def hypotheses_file(self) -> str:
        """hypotheses.tsv, to be downloaded from the page."""
        return base64.b64encode(self.file).decode()

    @property
    def metric_names(self) -> dict[str, str]:
        """The columns of the tables of scores."""
        model = self._model_scores
        order = dict.fromkeys((self.sources.headline, *METRIC_ORDER, *model))
        return {name: metric_heading(name) for name in order if name in model}

    @property
    def signatures(self) -> dict[str, str]:
        """Every setting behind a number, by heading."""
        model = self._model_scores
        return {label: model[name]["signature"] for name, label in self.metric_names.items()}

    @property
    def spread_names(self) -> dict[str, str]:
        """The metrics of the table of seeds."""
        shown = shown_metrics(self.sources.headline)
        return {name: metric_heading(name) for name in shown}

    @property
    def headline(self) -> str:
        """The metric by which the model is judged."""
        return metric_heading(self.sources.headline)

    @property
    def stress(self) -> list[Row]:
        """What changes of real life cost."""
        return stress_of(self.sources)

    @property
    def signs(self) -> dict[str, list[Row]]:
        """The signs that were read of the sampled clips, by clip."""
        shown = {sample.row["clip_id"] for sample in self.picked}
        return {name: read_signs(row) for name, row in self.sources.signs.items() if name in shown}

    @property
    def charts(self) -> dict[str, list[str]]:
        """The charts of each part of the page, as SVG in it."""
        return {
            name: [inline_svg(chart.svg, chart.name, html.escape(chart.label)) for chart in group]
            for name, group in self.figures.items()
        }

    @property
    def hypotheses(self) -> list[Row]:
        """All translations of the split."""
        return [row for row in self.sources.hypotheses if row["split"] == self.split]

    @property
    def listed(self) -> list[Sample]:
        """Those of the full table, their words marked."""
        return [mark_words(row, self.sources.scoring) for row in self.hypotheses[:MAX_LISTED]]

    @property
    def _model_scores(self) -> dict[str, Any]:
        scores: dict[str, Any] = self.sources.splits[self.split]["systems"][System.MODEL]
        return scores


def build_report(paths: ReportPaths, reports: Path, options: ReportOptions) -> str:
    """Write the page and, next to it, each of its figures as a file of its own.

    Args:
        reports: The folder `reports`; index.html and figures/ are written there.
        options: The title.

    Returns:
        The model's weights, as the page names them.
    """
    sources = read_sources(paths)
    split = headline_split(sources.splits)
    hypotheses = [row for row in sources.hypotheses if row["split"] == split]
    if not hypotheses:
        raise UserError(f"{paths.evaluation}/hypotheses.tsv has no clip of {split}; evaluate again")
    landmarks = quality.assess(sources.quality, sources.targets)
    picked = pick_samples(hypotheses, SAMPLES, sources.scoring)
    samples, worst = _draw_clips(paths, sources, picked, landmarks)
    page = Page(
        sources=sources,
        options=options,
        landmarks=landmarks,
        picked=picked,
        samples=samples,
        worst=worst,
        figures=draw_charts(sources),
        file=(paths.evaluation / HYPOTHESES_NAME).read_bytes(),
    )
    text = render_page(
        "page.html",
        title=page.title,
        page=page,
        quality=quality,
        tables=tables,
        tuning=tuning,
        verdict=verdict,
    )
    figures = {chart.name: chart.svg for group in page.figures.values() for chart in group}
    shutil.rmtree(reports / "figures", ignore_errors=True)  # none of an older page may remain
    for name, svg in figures.items():
        write_file(reports / "figures" / f"{name}.svg", svg)
    write_file(reports / "index.html", text)
    return page.made["weights"]


def _draw_clips(
    paths: ReportPaths, sources: Sources, picked: Sequence[Sample], landmarks: Assessment
) -> tuple[list[SampleView], list[tuple[ClipQuality, Player]]]:
    """Return the sampled clips and the worst ones, drawn; of features and glosses none of these."""
    clip_ids = [sample.row["clip_id"] for sample in picked]
    worst = landmarks.worst if sources.shows_signer else []
    shown = {*clip_ids, *(row.clip_id for row in worst)}
    sequences = read_shards(paths.shards, shown) if sources.shows_signer else {}
    alignments = read_alignments(paths.evaluation / "alignments.parquet", clip_ids)
    samples = [
        show_sample(sample, number, sequences.get(clip_id), alignments.get(clip_id))
        for number, (clip_id, sample) in enumerate(zip(clip_ids, picked, strict=True), start=1)
    ]
    players = [
        build_player(
            sequences[row.clip_id], name=f"worst{number}", label=f"Moving skeleton of {row.clip_id}"
        )
        for number, row in enumerate(worst, start=1)
    ]
    return samples, [*zip(worst, players, strict=True)]


def read_signs(row: Row) -> list[Row]:
    """Return the signs of a row of signs.tsv, each with its time and posterior, %."""
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


def compare_with_floor(sources: Sources, rows: Sequence[Row]) -> Difference | None:
    """Return the difference of the best floor and the model (paired bootstrap).

    Args:
        rows: The translations of the split that the page is about.

    Returns:
        None where the page's score is a mean of seeds, or the floor's sentences are not kept.
    """
    evaluation, options = sources.splits[headline_split(sources.splits)], sources.scoring
    best = strongest_floor(evaluation["systems"], sources.headline)
    is_constant = best == System.CONSTANT  # whose column is not written
    if (sources.seeds and not sources.is_joint) or not (is_constant or best in rows[0]):
        return None
    constant, references = evaluation["constant_sentence"], [row["reference"] for row in rows]
    texts = [constant if is_constant else row[best] for row in rows]
    own_texts = [row["hypothesis"] for row in rows]
    floor, model = (measure(hypotheses, references, options) for hypotheses in (texts, own_texts))
    return compare([floor], [model], options, metrics=[sources.headline])[sources.headline]


def draw_charts(sources: Sources) -> dict[str, list[Chart]]:
    """Draw the charts of each part of the page."""
    breakdowns = sources.splits[headline_split(sources.splits)]["breakdowns"]
    drawn = {
        "scores": charts.draw_systems(
            sources.splits, verdict.system_meanings(sources), sources.headline
        ),
        "breakdown": charts.draw_breakdowns(breakdowns),
        "curves": charts.draw_curves(sources.epochs, sources.best_epoch),
    }
    for chart in tuning.draw_search(sources.search) if sources.search else []:
        drawn[chart.name] = [chart]
    return drawn
