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
from studies.tiers.scores import Counts

SIZES, RATES = (60, 100, 150), (15.0, 25.0, 30.0, 60.0)  # pixels, frames a second
SIGNERS = (TRAIN_SIGNERS[0], TRAIN_SIGNERS[5], TEST_SIGNERS[1])  # of three skins; one a size


def find_drawn(acts: list[Act], signer: Signer, *, face_px: int, fps: float) -> list[Event]:
    """Draw a film, look at it and return the events of head and face."""
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        draw_film(film, acts, signer, face_px=face_px, fps=fps)
        return find_events(measure(read_film(film, face="refined")))


def to_events(acts: list[Act]) -> list[Event]:
    """Return acts as events."""
    return [Event(act.tier, act.value, act.start_s, act.end_s, np.nan, "") for act in acts]


def main() -> None:
    """Print a table for each film, and one of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of the face, pixels")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="frames a second")
    options = parser.parse_args()
    acts, every = write_script(), Counts()
    kinds = {(act.tier, act.value) for act in acts} | {("mouth", "closed")}
    for face_px, signer in zip(SIZES, SIGNERS, strict=True):
        for fps in options.rates if face_px in options.sizes else ():
            found = find_drawn(acts, signer, face_px=face_px, fps=fps)
            faces = [event for event in found if (event.tier, event.value) in kinds]
            counts = Counts()
            for table in (counts, every):
                table.add(to_events(acts), faces)
            print(f"{signer.name}, face of {face_px} pixels, {fps:g} frames/s", flush=True)
            print(counts.to_table(), flush=True)
    print(f"all\n{every.to_table()}")


if __name__ == "__main__":
    main()
