"""The page of the study of positions."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from signloom.models.layers import sinusoids
from signloom.report.attention import START, Axes, draw_heatmap, find_size, place_picture
from studies.charts import Panel, curves_figure, mean_curve
from studies.positions.study import BoolMatrix, FloatMatrix, Sight, shift_distances
from studies.study_page import Figure, Section, StudyPage, StudyTable

COMMAND = "python -m studies.positions.run"
Rows = Sequence[Mapping[str, Any]]


def build_page(sights: Mapping[str, Sight], trained: Rows, *, trained_to: int) -> StudyPage:
    """Draw encodings and masks, and say what was learnt.

    Args:
        sights: Name of a model to what its positions can see.
        trained: See `train_positions`.
        trained_to: Symbols of the longest training sequences.
    """
    return StudyPage(
        title="Positions and masks",
        lead=[
            "How does a model know the order of frames and tokens, which positions can influence "
            "which, and what happens beyond the lengths of training?",
            *_verdict(trained, trained_to),
        ],
        sections=[
            _sinusoids_section(),
            _relative_section(),
            _masks_section(sights),
            _learnt_section(trained, trained_to),
        ],
        command=COMMAND,
    )


def _by_length(trained: Rows, kind: str) -> dict[int, float]:
    return mean_curve([row["by_length"] for row in trained if row["positions"] == kind])


def _kinds(trained: Rows) -> list[str]:
    return list(dict.fromkeys(row["positions"] for row in trained))


def _verdict(trained: Rows, trained_to: int) -> list[str]:
    parts = []
    for kind in _kinds(trained):
        by_length = _by_length(trained, kind)
        trained_share = mean(share for length, share in by_length.items() if length <= trained_to)
        beyond = by_length[trained_to + 1]
        parts.append(f"{kind} {100 * trained_share:.1f} % and {100 * beyond:.1f} %")
    return [
        f"Trained to turn sequences of up to {trained_to} symbols round, models are right on "
        f"unseen sequences of these lengths, and on ones of {trained_to + 1} symbols: "
        f"{'; '.join(parts)}. That every position has an encoding does not mean that what was "
        "learnt carries over to it."
    ]


def _sinusoids_section(positions: int = 48, width: int = 64) -> Section:
    table = sinusoids(positions, width).numpy()
    picture = draw_heatmap(
        table,
        Axes(
            rows=[str(p) if p % 8 == 0 else "" for p in range(positions)],
            columns=[(i + 0.5, str(i)) for i in range(0, width, 8)],
            x_label="number of the encoding (even: sine, odd: cosine)",
            title="position, from top to bottom",
        ),
        row_height=6.0,
        label_width=40.0,
    )
    return Section(
        title="Sinusoids",
        text=[
            "Position p has sin(p r) and cos(p r) for rates r from 1 down to 1/10,000. Blue is "
            "positive, orange negative. “scaled” multiplies all of it by one learnt number.",
        ],
        parts=[
            Figure(
                name="sinusoids",
                svg=picture,
                caption="",
                label="Table of sines and cosines by position; waves get longer to the right",
            ),
        ],
    )


def _relative_section(length: int = 12) -> Section:
    before, after = shift_distances(length)
    ticks = [(i + 0.5, str(length - 1 - i)) for i in range(0, 2 * length - 1, 4)]
    keys = [(i + 0.5, str(i)) for i in range(0, length, 4)]
    rows = [str(i) if i % 4 == 0 else "" for i in range(length)]
    picture = _join_heatmaps(
        [
            _matrix(before, "terms: query by distance", "distance", rows, ticks, 460.0),
            _matrix(after, "after the shift: query by key", "key", rows, keys, 280.0),
        ]
    )
    return Section(
        title="Relative positions",
        text=[
            "Relative attention scores a query against the encoding of every distance, which gives "
            "one row of 2 M - 1 terms a query. The shift reads row i from column M - 1 - i on, so "
            "that query i and key j meet in the term of distance i - j: equal along diagonals, "
            "blue for keys before the query, orange for keys after it."
        ],
        parts=[
            Figure(
                name="relative",
                svg=picture,
                caption="",
                label="Distances before and after the relative shift",
            )
        ],
    )


def _masks_section(sights: Mapping[str, Sight]) -> Section:
    parts = []
    for number, (name, sight) in enumerate(sights.items()):
        picture = _join_heatmaps(
            [
                _seen(sight.encoder, "memory by frame", "source frame"),
                _seen(sight.decoder, "logits by token", "target token"),
                _seen(sight.memory, "logits by memory", "memory position"),
            ]
        )
        label = f"{name}: which inputs can change which outputs"
        parts.append(Figure(name=f"sight-{number}", svg=picture, label=label, caption=name))
    return Section(
        title="Masks, as the models use them",
        text=[
            "Not drawn from the masks but found by differentiating real models: a cell is blue "
            "where the input of its column can change the output of its row. Each clip is padded "
            "to a longer batch; its padding stands on the right and at the bottom, and no real "
            "position depends on it."
        ],
        parts=parts,
    )


def _seen(matrix: BoolMatrix, title: str, x_label: str) -> str:
    rows = [str(i) if i % 4 == 0 else "" for i in range(matrix.shape[0])]
    ticks = [(i + 0.5, str(i)) for i in range(0, matrix.shape[1], 4)]
    return _matrix(matrix.astype(np.float64), title, x_label, rows, ticks, 245.0)


def _matrix(
    matrix: FloatMatrix,
    title: str,
    x_label: str,
    rows: Sequence[str],
    ticks: Sequence[tuple[float, str]],
    width: float,
) -> str:
    axes = Axes(rows=rows, columns=ticks, x_label=x_label, title=title)
    return draw_heatmap(matrix, axes, row_height=12.0, label_width=24.0, width=width)


def _learnt_section(trained: Rows, trained_to: int) -> Section:
    rows = []
    for kind in _kinds(trained):
        rows_of_kind = [row for row in trained if row["positions"] == kind]
        by_length = _by_length(trained, kind)
        alphas = "; ".join(
            f"{name.split('.')[0]} {mean(row['alphas'][name] for row in rows_of_kind):.2f}"
            for name in rows_of_kind[0]["alphas"]
        )
        cells = [f"{100 * mean(row['exact'] for row in rows_of_kind):.1f} %"]
        cells += [f"{100 * by_length[n]:.1f} %" for n in sorted(by_length) if n > trained_to]
        rows.append([kind, *cells, alphas or "–"])
    longer = [n for n in sorted(_by_length(trained, rows[0][0])) if n > trained_to]
    return Section(
        title="What is learnt, and how far it carries",
        text=[
            "The reversal lab with each kind of positions; beyond the line the models meet "
            "lengths that training never showed."
        ],
        parts=[
            curves_figure(
                "learnt",
                [
                    Panel(
                        title="sequences turned round without a mistake, %",
                        x_label="symbols (right of the line: longer than any in training)",
                        curves={
                            kind: {n: 100 * share for n, share in _by_length(trained, kind).items()}
                            for kind in _kinds(trained)
                        },
                        limits=(-3, 103),
                        line_at=trained_to + 0.5,
                    )
                ],
                height=2.9,
                caption=f"Mean of {_seeds(trained)} seeds.",
                label="Exact match by sequence length for each kind of positions",
            ),
            StudyTable(
                caption="Exact match on held-out sequences, and the factors learnt by “scaled”",
                header=[
                    "positions",
                    f"up to {trained_to}",
                    *(f"{n} symbols" for n in longer),
                    "factor",
                ],
                rows=rows,
            ),
        ],
    )


def _seeds(trained: Rows) -> int:
    return len({row["seed"] for row in trained})


def _join_heatmaps(pictures: Sequence[str], *, gap: float = 12.0) -> str:
    """Set pictures side by side in one SVG file, each as wide as it was drawn."""
    parts, offset, tallest = [], 0.0, 0.0
    for picture in pictures:
        width, height = find_size(picture)
        parts.append(place_picture(picture, offset, 0.0, width, height))
        offset, tallest = offset + width + gap, max(tallest, height)
    return f'{START}"0 0 {offset - gap:g} {tallest:g}">{"".join(parts)}</svg>\n'
