"""The page of the study of faces that ask and deny."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import cv2
import numpy as np

from signloom.report import canvas
from signloom.report.canvas import SERIES
from signloom_demo.draw import VIDEOS
from signloom_tools.evaluate.study_page import Figure, Section, StudyPage, StudyTable
from studies.faces.study import MANNERS, find_manner
from studies.films import Film

COMMAND = "dvc repro studies/faces/dvc.yaml"
SHOWN = 4  # signers in the picture
Rows = Sequence[Mapping[str, Any]]


def build_page(
    films: Sequence[Film], corpus: Path, following: Mapping[str, float], trained: Rows
) -> StudyPage:
    """Say what the landmarks of the face are worth.

    Args:
        films: All of them.
        corpus: Folder of their videos.
        following: See `measure_following`.
        trained: See `train_each`.
    """
    names = list(dict.fromkeys(row["groups"] for row in trained))
    manner, blind = ({n: _mean(trained, n, key) for n in names} for key in ("manner", "exact"))
    worth = "; ".join(f"{n}: {manner[n]:.0f} %, {blind[n]:.0f} %" for n in names)
    return StudyPage(
        title="Faces that ask and deny",
        lead=[
            "Where the hands sign the same and only the face tells a statement from a question and "
            "a denial: what are the landmarks of brows, eyes and gaze worth?",
            f"Share of test clips whose manner is understood, and of those all of whose words are "
            f"right, by landmarks beside hands and pose: {worth}. Guessing gives a third.",
        ],
        sections=[
            Section(
                title="Films",
                text=["Each clip is one person and one state, signed alike; from above: said, "
                      "asked (brows up, eyes wide), denied (brows drawn down, a look aside).",
                      "MediaPipe's landmarks move with the drawn faces (median correlation in a "
                      f"clip): {', '.join(f'{k} {v:.2f}' for k, v in following.items())}."],
                parts=[Figure(name="faces", svg=draw_manners(films, corpus), caption="",
                              label="Faces of signers who say, ask and deny")],
            ),
            Section(
                title="What each group is worth",
                text=[f"Test clips of signers who are not in train, {trained[0]['clips']} of them; "
                      "a point a seed."],
                parts=[
                    Figure(name="worth", svg=draw_worth(trained, names), caption="",
                           label="Scores by landmarks of the face, a point a seed"),
                    tabulate(trained, names),
                ],
            ),
        ],
        command=COMMAND,
    )  # fmt: skip


def tabulate(trained: Rows, names: Sequence[str]) -> StudyTable:
    """Means over the seeds, and their range."""
    columns = {
        "manner": "manner %",
        "exact": "all words right %",
        "bleu4": "BLEU-4",
        "wer": "WER %",
    }
    rows = []
    for name in names:
        row = [name]
        for key in columns:
            values = [one[key] for one in trained if one["groups"] == name]
            row.append(f"{mean(values):.1f} ({min(values):.1f} to {max(values):.1f})")
        for manner in MANNERS:
            row.append(
                f"{mean(o['by_manner'][manner] for o in trained if o['groups'] == name):.0f}"
            )
        rows.append(row)
    header = ["groups", *columns.values(), *(f"{manner} %" for manner in MANNERS)]
    return StudyTable(caption="Means (and range) over the seeds, test", header=header, rows=rows)


def draw_worth(trained: Rows, names: Sequence[str]) -> str:
    """Draw a panel a score, a column a choice of groups."""
    with canvas.style():
        figure, panels = canvas.build_panels(3, height=2.6)
        for panel, (key, label) in zip(
            panels,
            (("manner", "manner understood, %"), ("bleu4", "BLEU-4"), ("wer", "WER, %")),
            strict=True,
        ):
            for place, name in enumerate(names):
                values = [row[key] for row in trained if row["groups"] == name]
                panel.bar(place, mean(values), width=0.6, color=SERIES[0], alpha=0.35)
                panel.plot([place] * len(values), values, "o", color=SERIES[0], markersize=3)
            panel.set_title(label)
            panel.set_xticks(range(len(names)), names, rotation=30)
        return canvas.render_svg(figure)


def draw_manners(films: Sequence[Film], corpus: Path) -> str:
    """Show faces of the test signers in the middle of a clip of each manner, a row a manner."""
    signers = list(dict.fromkeys(film.signer.name for film in films if film.split == "test"))
    rows = []
    for manner in MANNERS:
        row = []
        for name in signers[:SHOWN]:
            own = [f for f in films if f.signer.name == name and find_manner(f.text) == manner]
            film = max(own, key=lambda one: one.faces[len(one.faces) // 2].lids > -1)  # no blink
            row.append(_face(corpus / VIDEOS / f"{film.clip_id}.mp4", film))
        rows.append(np.hstack(row))
    sheet = np.vstack(rows)
    code = base64.b64encode(cv2.imencode(".jpg", sheet)[1].tobytes()).decode()
    height, width = sheet.shape[:2]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        f'<image width="{width}" height="{height}" href="data:image/jpeg;base64,{code}"/></svg>'
    )


def _face(video: Path, film: Film) -> np.ndarray[Any, Any]:
    """Cut the head out of the middle frame, twice as large."""
    capture = cv2.VideoCapture(str(video))
    capture.set(cv2.CAP_PROP_POS_FRAMES, len(film.faces) // 2)
    _, image = capture.read()
    capture.release()
    x, y = film.camera.project(np.array([0.0, 25.0, 0.0]) * film.signer.size).astype(int)
    head = image[max(y - 48, 0) : y + 48, x - 48 : x + 48]
    return cv2.resize(head, (192, 192), interpolation=cv2.INTER_CUBIC)


def _mean(trained: Rows, name: str, key: str) -> float:
    return mean(row[key] for row in trained if row["groups"] == name)
