"""How the tiers of real films compare with what a person saw: `python -m studies.tiers.films`.

The films are How2Sign's and KSL-77's, which are not part of the project: `SIGNLOOM_SHARED` names
the folder that holds them. labels.tsv has what was seen in them, frame by frame.
"""

import csv
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

from signloom.corpus.landmarks import PART_POINTS, POSE_WRISTS
from signloom_tools.holistic import FilmLandmarks, read_film
from signloom_tools.tiers.events import Event, find_events
from signloom_tools.tiers.signals import measure
from studies.tiers.scores import EventCounts

LABELS = Path(__file__).with_name("labels.tsv")
EVERYWHERE = {("eyes", "blink"), ("mouth", "open"), ("right hand place", "face")}
"""What was looked for in all films; other events in those alone whose rows name them."""
BOSTON_FPS, BOSTON_SIZE = 30.0, (312, 242)
BOSTON_WIDTH = 62.0  # of shoulders, pixels


def read_labels(path: Path = LABELS) -> dict[str, list[Event]]:
    """Return what a person saw, by the film's name without ending."""
    films: dict[str, list[Event]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            times = float(row["start_s"]), float(row["end_s"])
            films[row["film"]].append(Event(row["tier"], row["value"], *times, np.nan, ""))
    return dict(films)


def count(known: list[Event], found: list[Event], counts: EventCounts, overlap: float) -> None:
    """Count the events of a film that were looked for in it."""
    kinds = EVERYWHERE | {(event.tier, event.value) for event in known}
    looked_for = [event for event in found if (event.tier, event.value) in kinds]
    counts.add(known, looked_for, overlap)


def compare_boston(data: Path) -> str:
    """Return how signing lies to the words of BOSTON-104's sentences, whose hands are known.

    The data have nose and hands alone; shoulders are put where such a nose has them.
    """
    hands = pd.read_csv(data / "hands_condensed.csv").sort_values(["video", "frame"])
    tables = (pd.read_csv(data / f"{part}_words.csv") for part in ("train", "test"))
    words = pd.concat(tables).groupby("video").agg({"startframe": "min", "endframe": "max"})
    borders = []
    for video, rows in hands.groupby("video"):
        nose = rows[["nose-x", "nose-y"]].to_numpy()
        pose = np.zeros((len(rows), PART_POINTS["pose"], 3), np.float32)
        pose[..., :2] = nose[:, None] + [0, 2 * BOSTON_WIDTH]
        for mark, (right, down) in {0: (0, 0), 11: (0.5, 0.6), 12: (-0.5, 0.6)}.items():
            pose[:, mark, :2] = nose + BOSTON_WIDTH * np.array([right, down])
        for mark, side in zip(POSE_WRISTS, ("left", "right"), strict=True):
            pose[:, mark, :2] = rows[[f"{side}-x", f"{side}-y"]]
        absent = np.full((len(rows), PART_POINTS["left_hand"], 3), np.nan, np.float32)
        parts = {"left_hand": absent, "right_hand": absent, "pose": pose / [*BOSTON_SIZE, 1]}
        times_s = np.arange(len(rows)) / BOSTON_FPS
        film = FilmLandmarks(times_s, parts, BOSTON_FPS, *BOSTON_SIZE, is_crowded=False)
        signing = [event for event in find_events(measure(film)) if event.value == "signing"]
        first, last = words.loc[video] / BOSTON_FPS
        borders.append((len(signing), first - signing[0].start_s, signing[-1].end_s - last))
    counts, before_s, after_s = zip(*borders, strict=True)
    return (
        f"BOSTON-104: one stretch of signing in {counts.count(1)} of {len(counts)} sentences; it "
        f"begins {np.median(before_s):.2f} s before the first word and ends "
        f"{np.median(after_s):.2f} s after the last (medians)"
    )


def main() -> None:
    """Print precision and recall, at an overlap of half and of any length."""
    folder = Path(os.environ.get("SIGNLOOM_SHARED", "../shared")) / "data"
    strict, lenient = EventCounts(), EventCounts()
    seconds = 0.0
    for name, known in read_labels().items():
        film = next(folder.rglob(f"{name}.mp4"), None)
        if film is None:
            print(f"{name}: not in {folder}, left out")
            continue
        signals = measure(read_film(film, face="refined"))
        found = find_events(signals)
        seconds += len(signals.values["signing"]) / signals.fps
        count(known, found, strict, 0.5)
        count(known, found, lenient, 0.01)
    print(f"{seconds:.0f} s of films, at an overlap of half\n{strict.to_table()}")
    print(f"at any overlap\n{lenient.to_table()}")
    if (folder / "boston104").is_dir():
        print(compare_boston(folder / "boston104"))


if __name__ == "__main__":
    main()
