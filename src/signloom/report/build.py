"""The files of the stages come in, reports/index.html and reports/figures/ go out."""

import html
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from signloom.corpus.shards import read_shards
from signloom.report import charts, content, tuning
from signloom.report.palette import inline_svg
from signloom.report.skeletons import Picture, draw_pictures, join_pictures
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
    "quality": "Share of frames in which hands and body were found, by signer and over clips",
    **tuning.LABELS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The section `report` of params.yaml."""

    title: str  # heading of the page
    samples: int  # clips shown of each kind (best, typical, worst), >= 1
    pictures: int  # frames drawn of each of these clips, >= 2

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
    figures = draw_figures(sources)
    samples = content.pick_samples(sources.hypotheses, split, options.samples)
    sequences = read_shards(paths.shards, [sample.row["clip_id"] for sample in samples])
    shown = []
    for number, sample in enumerate(samples, start=1):
        pictures = draw_pictures(sequences[sample.row["clip_id"]], options.pictures)
        figures[f"sample-{number:02}-{sample.group}"] = join_pictures(pictures)
        shown.append(
            {
                "row": sample.row,
                "group": sample.group,
                "reference": sample.reference,
                "hypothesis": sample.hypothesis,
                "pictures": _inline_pictures(pictures, f"sample{number}", sample.row["clip_id"]),
            }
        )
    page = render_page(sources, options, figures, shown)
    shutil.rmtree(reports / "figures", ignore_errors=True)  # none of an older page may remain
    for name, svg in figures.items():
        write_atomically(reports / "figures" / f"{name}.svg", svg)
    write_atomically(reports / "index.html", page)


def draw_figures(sources: Sources) -> dict[str, str]:
    """Draw the charts; name to SVG file."""
    split = content.headline_split(sources.splits)
    found = dict(sorted(sources.splits.items(), reverse=True))  # test first
    any_hand = [float(row["any_hand"]) for row in sources.quality]
    drawn: dict[str, Callable[[], str]] = {
        "scores": lambda: charts.systems_chart(found, content.SYSTEM_NAMES),
        "breakdown": lambda: charts.breakdown_chart(found[split]["breakdowns"]),
        "curves": lambda: charts.curves_chart(sources.epochs, sources.best_epoch),
        "lengths": lambda: charts.lengths_chart(content.words_per_sentence(sources.targets)),
        "quality": lambda: charts.quality_chart(content.quality_by_signer(sources), any_hand),
    }
    searched = tuning.draw_search(sources.search) if sources.search else {}
    return {name: draw() for name, draw in drawn.items()} | searched


def render_page(
    sources: Sources,
    options: ReportOptions,
    figures: dict[str, str],
    samples: list[dict[str, Any]],
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
        rejects=sources.rejects,
        search=sources.search,
        search_note=tuning.search_note(sources.search) if sources.search else "",
        details=content.run_details(sources),
    )


def _inline_pictures(pictures: list[Picture], name: str, clip_id: str) -> list[dict[str, Any]]:
    return [
        {
            "time_s": picture.time_s,
            "svg": inline_svg(
                picture.svg,
                f"{name}-{number}",
                html.escape(f"Skeleton of {clip_id} at {picture.time_s:.1f} seconds"),
            ),
        }
        for number, picture in enumerate(pictures)
    ]
