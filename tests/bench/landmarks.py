"""`signloom landmarks` beside MediaPipe's own graph: CPU time a frame, and which points are equal.

Usage: python -m tests.bench.landmarks FILM ... [--face mesh] [--seconds 5]

Both look at the same frames from memory, with one thread, film by film in turns. The table that it
prints is that of docs/landmarks.md.
"""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np

from signloom.detection.detector import quiet_native_code
from signloom.detection.mediapipe_models import HolisticGraph, models_folder
from signloom.detection.runtime import HolisticNetworks
from signloom.detection.video import Video


def main() -> None:
    """Run both over the films and print what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("films", nargs="+", type=Path)
    parser.add_argument("--face", choices=("none", "mesh", "refined"), default="mesh")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each film")
    options = parser.parse_args()
    face, refined = options.face != "none", options.face == "refined"
    with quiet_native_code():
        ours = HolisticNetworks(
            models_folder(), 0.5, 0.5, face=face, refined=refined, at_once=False
        )
        graph = HolisticGraph(0.5, 0.5, face=face, refined=refined)
        spent = {"ours": 0.0, "graph": 0.0}
        frames = equal = parts = 0
        worst = 0.0
        for film in options.films:
            with Video(film) as video:
                every = video.frames(0.0, None)
                pictures = [
                    frame.rgb
                    for frame in itertools.takewhile(lambda f: f.time_s < options.seconds, every)
                ]
            found = {}
            for name, detector in (("ours", ours), ("graph", graph)):
                detector.reset()
                detector.find(pictures[0])  # what a new clip costs once
                begun = time.process_time()
                found[name] = [detector.find(rgb) for rgb in pictures]
                spent[name] += time.process_time() - begun
            frames += len(pictures)
            for mine, theirs in zip(found["ours"], found["graph"], strict=True):
                for part in mine.keys() | theirs.keys():
                    parts += 1
                    if part in mine and part in theirs:
                        equal += np.array_equal(mine[part], theirs[part])
                        size = pictures[0].shape[1::-1]
                        apart = np.abs(mine[part] - theirs[part])[:, :2] * size
                        worst = max(worst, float(apart.max()))
                    else:
                        worst = np.inf
    ms = {name: 1000 * seconds / frames for name, seconds in spent.items()}
    print(f"{len(options.films)} films, {frames} frames, face: {options.face}")
    print(f"CPU ms a frame     {ms['ours']:.1f}, MediaPipe's graph {ms['graph']:.1f}: "
          f"{ms['ours'] / ms['graph']:.2f}")  # fmt: skip
    print(f"parts that are equal to the bit  {equal} of {parts}; farthest point {worst:.2g} px")


if __name__ == "__main__":
    main()
