"""The page of the study of the bottleneck."""

from collections.abc import Callable, Mapping
from statistics import mean
from typing import Any

from studies.bottleneck.text import NEIGHBOURS, SCORE
from studies.charts import (
    COLOURS,
    DASHES,
    Curve,
    Groups,
    Look,
    Panel,
    Row,
    build_table,
    curves_figure,
    group,
    mean_curve,
    spread,
)
from studies.sentences import lengths_section, score_by_length, score_columns, score_dots
from studies.study_page import Section, StudyPage

CELLS = ("RNN", "GRU", "LSTM", "Transformer")  # begin the names of variants
WAYS = ("one way", "both ways")  # end the names of recurrent ones
COMMAND = "python -m studies.bottleneck.run"


def build_page(results: Row) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    reversal, text = group(results["reversal"]), group(results["text"])
    sections = [_reversal_section(reversal), _places_section(reversal), _gradient_section(reversal)]
    lead = [
        "How does quality fall with the length of a sentence where the decoder gets nothing but "
        "the encoder's last state, which end of the source is forgotten, and what do gates, a "
        "second direction and attention change?",
        "Turned round without a mistake, shortest and longest sequences: "
        + _join(reversal, lambda rows: "{1:.0f} and {0:.0f} %".format(*_ends(_exact(rows))))
        + ".",
    ]
    if text:
        by_length = score_by_length(results["text"], SCORE, results["lengths"])
        sections += [_text_section(text), lengths_section(by_length, results["lengths"])]
        if senses := [row["senses"] for row in results["text"] if "senses" in row]:
            sections.append(_senses_section(senses))
        bleu = _join(
            text, lambda rows: f"{mean(row['scores']['test']['bleu4'] for row in rows):.1f}"
        )
        lead.append(f"Test BLEU-4 from glosses to German: {bleu}.")
    return StudyPage(
        title="The bottleneck: what a decoder knows of a long source",
        lead=lead,
        sections=sections,
        command=COMMAND,
    )


def _join(groups: Groups, say: Callable[[Any], str]) -> str:
    return "; ".join(f"{name} {say(rows)}" for name, rows in groups.items())


def _ends(curve: Mapping[int, float]) -> tuple[float, float]:
    """Return the last value and the first one."""
    return curve[max(curve)], curve[min(curve)]


def _kind(variant: str) -> str:
    """The name without its direction."""
    return variant.partition(", ")[0]


def _look(kind: str) -> Look:
    """A colour for each kind of cell, dashed where the decoder gets the last state alone."""
    cell = kind.partition(" ")[0]
    is_looking = "attention" in kind or cell == "Transformer"
    return {
        "color": COLOURS[CELLS.index(cell)],
        "linestyle": DASHES[not is_looking],
        "marker": "o",
        "markersize": 3,
    }


def _by_way(name: str, title: str, x_label: str, curves: Mapping[str, Curve], **axes: Any) -> Any:
    """Draw a panel of the variants of each direction; what has none is in both."""
    panels = [
        Panel(
            title=f"{title}, {way}",
            x_label=x_label,
            curves={_kind(v): c for v, c in curves.items() if v.endswith(way) or _kind(v) == v},
            **axes,
        )
        for way in WAYS
    ]
    looks = {_kind(variant): _look(_kind(variant)) for variant in curves}
    return curves_figure(name, panels, looks=looks, label=f"{title}; table below")


def _exact(rows: Any) -> dict[int, float]:
    return {n: 100 * share for n, share in mean_curve(row["by_length"] for row in rows).items()}


def _reversal_section(groups: Groups) -> Section:
    curves = {name: _exact(rows) for name, rows in groups.items()}
    places = list(next(iter(curves.values())))
    shown = [places[0], *places[len(places) // 3 :: max(1, len(places) // 4)]]
    return Section(
        title="Turning sequences round",
        text=[
            "The reversal lab: a long sequence is as hard as a short one but for its length. "
            "Dashed: the decoder gets the last state alone. Solid: it may look back."
        ],
        parts=[
            _by_way("reversal", "exact match, %", "symbols", curves, limits=(-3, 103)),
            build_table(
                f"Exact match on held-out sequences, %; seeds: {_seeds(groups)}",
                groups,
                {
                    "all": lambda rows: spread(100 * row["exact"] for row in rows),
                    **{
                        f"{n} symbols": lambda rows, n=n: f"{_exact(rows)[n]:.0f}"  # type: ignore[misc]
                        for n in shown
                    },
                    "dev loss, nats": lambda rows: spread((row["dev_loss"] for row in rows), 3),
                    "CPU-s": lambda rows: f"{mean(row['cpu_s'] for row in rows):.0f}",
                },
            ),
        ],
    )


def _seeds(groups: Groups) -> int:
    return max(len(rows) for rows in groups.values())


def _places_section(groups: Groups) -> Section:
    curves = {
        name: {n: 100 * share for n, share in mean_curve(row["wrong"] for row in rows).items()}
        for name, rows in groups.items()
    }
    return Section(
        title="Which words are forgotten",
        text=[
            "Wrong symbols at each target position of the longest sequences, the true ones before "
            "it given. Position 1 is the source's last symbol, read just before the decoder "
            "starts; the last position is the source's first."
        ],
        parts=[
            _by_way("places", "wrong, %", "target position", curves, limits=(-3, None)),
            build_table(
                "Wrong symbols, %",
                curves,
                {
                    "first target position (source's last)": lambda c: f"{_ends(c)[1]:.0f}",
                    "last (source's first)": lambda c: f"{_ends(c)[0]:.0f}",
                },
            ),
        ],
    )


def _gradient_section(groups: Groups) -> Section:
    started, trained = (
        {name: mean_curve(row["gradient"][when] for row in rows) for name, rows in groups.items()}
        for when in ("start", "trained")
    )
    return Section(
        title="What reaches each source step",
        text=[
            "The gradient of the loss by the source's vectors, as a share of the strongest: of "
            "untrained models with long sequences (the picture), of trained ones with the longest "
            "of training."
        ],
        parts=[
            _by_way(
                "gradients",
                "gradient, untrained",
                "source position",
                started,
                log="y",
                limits=(1e-9, 2),
            ),
            build_table(
                "Gradient at the source's first symbol, % of the strongest",
                {name: (started[name], trained[name]) for name in groups},
                {
                    "untrained": lambda pair: f"{100 * pair[0][1]:.2g}",
                    "trained": lambda pair: f"{100 * pair[1][1]:.2g}",
                },
            ),
        ],
    )


def _text_section(groups: Groups) -> Section:
    return Section(
        title="Glosses to German",
        text=[
            "PHOENIX-2014T, every variant trained alike and decoded greedily; small models and few "
            "epochs, so compare the rows."
        ],
        parts=[
            score_dots(groups),
            build_table(
                f"Means with standard deviations; seeds: {_seeds(groups)}", groups, score_columns()
            ),
        ],
    )


def _senses_section(by_seed: list[Row]) -> Section:
    """The results of each seed, by gloss."""
    groups = {gloss: [senses[gloss] for senses in by_seed] for gloss in by_seed[0]}

    def count(rows: list[Row]) -> str:
        return ", ".join(f"{sense} {count}" for sense, count in rows[0]["occurrences"].items())

    return Section(
        title="One gloss, two vectors",
        text=[
            "A static embedding is one vector for all occurrences of a gloss, so the nearest ones "
            "are any. The encoder's state of the gloss depends on the sentence: the table has how "
            f"many of the {NEIGHBOURS} nearest occurrences of train mean what one of dev or test "
            "means, a mean over the meanings. What a gloss means is read off the German sentence. "
            "Cosines are of states without their mean."
        ],
        parts=[
            build_table(
                "Neighbours of the same meaning, %, and mean cosines of states",
                groups,
                {
                    "meanings (occurrences)": count,
                    "static": lambda rows: f"{100 / len(rows[0]['occurrences']):.0f}",
                    "untrained": lambda rows: spread((100 * r["untrained"] for r in rows), 0),
                    "trained": lambda rows: spread((100 * r["neighbours"] for r in rows), 0),
                    "cosine, same": lambda rows: spread((r["cosine_same"] for r in rows), 2),
                    "another": lambda rows: spread((r["cosine_other"] for r in rows), 2),
                },
            ),
        ],
    )
