"""Study of tiers on drawn signers: `python -m studies.tiers.run`.

Question: which of the things that a face and a head do are found by measurement alone, at which
frame rate and size of the face?
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from signloom_demo.signer import TEST_SIGNERS, TRAIN_SIGNERS, Signer
from signloom_tools.holistic import read_film
from signloom_tools.tiers.events import Event, find_events
from signloom_tools.tiers.signals import measure
from studies.tiers.draw import Act, draw_film, write_script
from studies.tiers.scores import EventCounts, measure_overlap

SIGNERS: dict[int, Signer] = {60: TRAIN_SIGNERS[5], 100: TRAIN_SIGNERS[0], 150: TEST_SIGNERS[1]}
"""Of three skins, by the height of the face in pixels."""
FILMS = ("60,25", "100,15", "100,25", "100,30", "100,60", "150,25")


def find_drawn(acts: list[Act], signer: Signer, *, face_px: int, fps: float) -> list[Event]:
    """Draw a film, look at it and return the events of head and face."""
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        draw_film(film, acts, signer, face_px=face_px, fps=fps)
        return find_events(measure(read_film(film, face="refined")))


def to_events(acts: list[Act]) -> list[Event]:
    """Return acts as events."""
    return [Event(act.tier, act.value, act.start_s, act.end_s, np.nan, "") for act in acts]


def count(acts: list[Act], found: list[Event], counts: EventCounts) -> None:
    """Count the events of kinds that were drawn; a mouth that moves is also open at times."""
    kinds = {(act.tier, act.value) for act in acts}
    moving = [act for act in to_events(acts) if act.tier == "mouth movement"]
    counts.add(
        to_events(acts),
        [
            event
            for event in found
            if (event.tier, event.value) in kinds
            and not (
                event.tier == "mouth" and any(measure_overlap(event, act) > 0 for act in moving)
            )
        ],
    )


def main() -> None:
    """Print a table for each film, and one of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--films", nargs="+", default=FILMS, help="pixels of a face,frames/s")
    every = EventCounts()
    for name in parser.parse_args().films:
        size, rate = name.split(",")
        acts = write_script(1 if rate == "60" else 2)
        signer = SIGNERS[int(size)]
        found = find_drawn(acts, signer, face_px=int(size), fps=float(rate))
        counts = EventCounts()
        for table in (counts, every):
            count(acts, found, table)
        print(f"{signer.name}, face of {size} pixels, {rate} frames/s\n{counts.to_table()}")
    print(f"all\n{every.to_table()}")


if __name__ == "__main__":
    main()
