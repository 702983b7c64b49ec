"""What the report shows comes in, the text of one self-contained page goes out."""

import html
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from signloom.report import content, quality, tuning
from signloom.report.charts import Chart
from signloom.report.palette import inline_svg
from signloom.report.retraining import tell_night
from signloom.report.samples import mark_words
from signloom.report.sources import Sources
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
        charts={name: [_inline(chart) for chart in group] for name, group in page.charts.items()},
        samples=page.samples,
        listed=[mark_words(row, sources.scoring) for row in rows[:MAX_LISTED]],
        listed_of=len(rows),
        confusions=content.list_confusions(sources.confusions, split),
        grid=content.tabulate_grid(sources.grid),
        decoding=sources.decoding,
        corpus=content.corpus_table(sources),
        quality_note=content.quality_note(sources),
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
        details=content.run_details(sources),
    )


def _inline(chart: Chart) -> str:
    return inline_svg(chart.svg, chart.name, html.escape(chart.label))
