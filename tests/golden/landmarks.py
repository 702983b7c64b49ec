"""Landmarks of a committed clip by each detector, as they should stay.

The cache finds landmarks again by what made them, and code is known there by two numbers only,
`extract.EXTRACTION_VERSION` and `detector.DETECTOR_VERSION`. Code that gives other landmarks under
the same numbers would be answered from the cache as if it had not changed.

`python -m tests.golden.landmarks` writes `landmarks.json` anew, once one of them was raised; a
change of it wants a line under *Numbers* in CHANGELOG.md. The clip is drawn only if it is not
there, since the way signers are drawn may change.
"""

import json
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from signloom.detection.detector import DETECTOR_VERSION
from signloom.extraction.extract import EXTRACTION_VERSION, extract_video
from tests.extraction import OPTIONS, draw_two_clips, frames_of

VIDEO = Path(__file__).with_name("signer.mp4")
PATH = Path(__file__).with_name("landmarks.json")
VERSIONS = {"extraction_version": EXTRACTION_VERSION, "detector_version": DETECTOR_VERSION}
DETECTORS = {
    "hands": ("hands",),
    "hands+pose": ("hands", "pose"),
    "holistic": ("hands", "pose", "lips", "face_outline"),
}
FRAMES = slice(3, None, 4)  # two of eight; they are tracked, so those before show in them
# Picture sizes, a good pixel of this clip: another kind of processor sums in another order.
TOLERANCE = 0.004


def draw_video() -> None:
    """Write eight frames of a drawn signer with both hands in the picture."""
    with tempfile.TemporaryDirectory() as folder:
        frames = frames_of(draw_two_clips(Path(folder) / "corpus")[0])[4:12]
    height, width = frames[0].shape[:2]
    writer = cv2.VideoWriter(str(VIDEO), cv2.VideoWriter.fourcc(*"mp4v"), 15.0, (width, height))
    for frame in frames:
        writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    writer.release()


def extract(detector: str) -> dict[str, Any]:
    """Return what a detector finds in the clip, landmarks to four digits."""
    options = replace(OPTIONS, detector=detector, groups=DETECTORS[detector]).detector_options
    sequence = extract_video(VIDEO, options)
    points = sequence.points[FRAMES].astype(np.float64).round(4)
    names = sequence.layout.landmark_names
    return {
        "frames": len(sequence.points),
        "fps": sequence.fps,
        "size": [sequence.width, sequence.height],
        "present": sequence.present.astype(int).tolist(),
        "points": {name: points[:, index].tolist() for index, name in enumerate(names)},
    }


def find_differences(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return what of `extract` is not as it was."""
    differing = [name for name in actual if name != "points" and actual[name] != expected[name]]
    if differing:
        return differing
    ours, theirs = actual["points"], expected["points"]
    if list(ours) != list(theirs):
        return ["names of the landmarks"]
    return [
        name
        for name in ours
        if not np.allclose(ours[name], theirs[name], rtol=0, atol=TOLERANCE, equal_nan=True)
    ]


def main() -> None:
    """Write the file, if that is in order."""
    if not VIDEO.exists():
        draw_video()
    current = {**VERSIONS, **{name: extract(name) for name in DETECTORS}}
    if PATH.exists():
        old = json.loads(PATH.read_text(encoding="utf-8"))
        changed = any(find_differences(current[name], old[name]) for name in DETECTORS)
        if changed and all(current[name] <= old[name] for name in VERSIONS):
            sys.exit("raise EXTRACTION_VERSION or DETECTOR_VERSION first: landmarks have changed")
    text = re.sub(
        r"\[[^][]*\]", lambda row: " ".join(row[0].split()), json.dumps(current, indent=1)
    )
    PATH.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
