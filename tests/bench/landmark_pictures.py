"""Draws docs/images/landmarks.png: every landmark group on the demo signer, and a real one's bones.

Usage: python -m tests.bench.landmark_pictures [--data ../shared/data]

Of the real signer (MSL-150, MIT licence, file ambulancia_001) only the landmarks are drawn.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from signloom.corpus.landmarks import LandmarkSequence
from signloom.extraction.detector import DetectorOptions, build_detector, quiet_native_code
from signloom.extraction.video import Video

OUT = Path("docs/images/landmarks.png")
SIZE = (640, 480)
LEFT, RIGHT, BODY, FACE = (60, 60, 220), (220, 110, 30), (60, 160, 60), (160, 60, 160)  # BGR
FINGERS = tuple((0, *range(start, start + 4)) for start in (1, 5, 9, 13, 17))
ARMS = (
    ("right_wrist", "right_elbow", "right_shoulder", "left_shoulder", "left_elbow", "left_wrist"),
    ("right_shoulder", "right_hip", "left_hip", "left_shoulder"),
)


def detect(
    video: Path, frame_number: int, *groups: str
) -> tuple[NDArray[np.uint8], LandmarkSequence]:
    """One frame, BGR, and the landmarks of Holistic in it, as it comes to it along the clip."""
    options = DetectorOptions(
        detector="holistic", groups=groups, min_detection_confidence=0.5,
        min_tracking_confidence=0.5, hand_model="", pose_model="", runtime="mediapipe",
    )  # fmt: skip
    with quiet_native_code(), Video(video) as source:
        detector = build_detector(options)
        for number, frame in enumerate(source.frames()):
            points, present = detector.detect(frame.rgb, frame.time_s)
            if number == frame_number:
                break
    height, width = frame.rgb.shape[:2]
    sequence = LandmarkSequence(
        points=points[None], present=present[None], fps=25.0, width=width, height=height,
        layout=options.layout,
    )  # fmt: skip
    return cv2.cvtColor(frame.rgb, cv2.COLOR_RGB2BGR), sequence


def draw(picture: NDArray[np.uint8], found: LandmarkSequence) -> None:
    """Draw the landmarks into a picture: left red, right blue."""
    layout = found.layout
    pixels = found.points[0, :, :2] * picture.shape[1::-1]
    for group, colour in (("left_hand", LEFT), ("right_hand", RIGHT)):
        hand = pixels[layout.slice(group)]
        if np.isfinite(hand).all():
            for finger in FINGERS:
                line(picture, hand[list(finger)], colour)
            spot = tuple(int(value) for value in hand.max(axis=0) + 6)
            cv2.putText(picture, group[0].upper(), spot, 0, 0.8, colour, 2, cv2.LINE_AA)
    for arm in ARMS:
        line(picture, pixels[[layout.index("pose", name) for name in arm]], BODY)
    for group in ("lips", "face_outline"):
        if group in layout.group_names:
            for point in pixels[layout.slice(group)]:
                centre = (round(float(point[0])), round(float(point[1])))
                cv2.circle(picture, centre, 1, FACE, -1, cv2.LINE_AA)


def line(picture: NDArray[np.uint8], points: NDArray[np.float32], colour: tuple[int, ...]) -> None:
    """Join the points."""
    cv2.polylines(picture, [points.round().astype(np.int32)], False, colour, 2, cv2.LINE_AA)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments = parser.parse_args()
    groups = ("hands", "pose", "lips", "face_outline")
    frame, drawn = detect(Path("data/demo/corpus/videos/anouk-001.mp4"), 23, *groups)
    left = cv2.resize(frame, SIZE, interpolation=cv2.INTER_CUBIC)
    draw(left, drawn)
    path = arguments.data / "msl150" / "videos" / "ambulancia_001.mp4"
    _, real = detect(path, 6, "hands", "pose")
    wide = np.full((SIZE[1], SIZE[1] * real.width // real.height, 3), 250, np.uint8)
    draw(wide, real)
    middle = (wide.shape[1] - SIZE[0]) // 2
    right = wide[:, middle : middle + SIZE[0]]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(
        str(OUT), cv2.resize(np.hstack([left, right]), (960, 360), interpolation=cv2.INTER_AREA)
    )


if __name__ == "__main__":
    main()
