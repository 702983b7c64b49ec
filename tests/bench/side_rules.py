"""How often hands found by MediaPipe Hands get the signer's own side, by four rules.

Usage: python -m tests.bench.side_rules [--every 8] [--data ../shared/data]

Every n-th clip of the demo corpus, whose truth is the drawing, and all of MSL-150 and KSL-77, where
Holistic's sides stand for the truth. A true hand counts if a found hand lies on it, and counts as
right if one that does bears its name and none that does bears the other: doubles are faults.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from signloom.corpus.landmarks import POSE_WRISTS
from signloom.corpus.manifest import read_manifest
from signloom.extraction.detector import quiet_native_code
from signloom.extraction.handedness import FoundHand, HandednessTracker
from signloom.extraction.mediapipe_models import HandGraph, HolisticGraph, PoseGraph
from signloom.extraction.pool import count_workers, map_in_order
from signloom.extraction.video import Video
from signloom_demo.draw import MANIFEST, TRUTH, read_truth

ON_IT, CLEARLY = 0.3, 0.3  # hand sizes: a hand lies on a true one, and not on the other as well
Floats = NDArray[np.float64]
Sides = tuple[FoundHand | None, FoundHand | None]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """One frame: what Hands and Pose found and where the true hands are, pixels, NaN: nowhere."""

    hands: list[FoundHand]
    arms: NDArray[np.float32] | None
    true: Floats
    size: Floats


def observe(job: tuple[Path, Floats | None]) -> list[Seen]:
    """Run the graphs over a clip; the true hands, shares of the picture, are Holistic's if None."""
    path, joints = job
    frames = []
    with quiet_native_code(), Video(path) as video:
        hands, pose, holistic = HandGraph(0.5, 0.5), PoseGraph(0.5, 0.5), None
        if joints is None:
            holistic = HolisticGraph(0.5, 0.5, face=False)
        for number, frame in enumerate(video.frames()):
            size = np.array(frame.rgb.shape[1::-1], np.float64)
            body = pose.find(frame.rgb, frame.time_s)
            if holistic is None:
                true = joints[number]
            else:
                parts = holistic.find(frame.rgb)
                nowhere = np.full((21, 3), np.nan)
                true = np.stack([parts.get(f"{side}_hand", nowhere) for side in ("left", "right")])
            frames.append(
                Seen(
                    hands=hands.find(frame.rgb, frame.time_s),
                    arms=None if body is None else body[list(POSE_WRISTS), :2],
                    true=true[..., :2] * size,
                    size=size,
                )
            )
    return frames


def by_labels(frames: Sequence[Seen]) -> list[Sides]:
    """What the detector says; of two hands of one label, the surer one."""
    found = []
    for frame in frames:
        hands = sorted(frame.hands, key=lambda hand: abs(hand.right - 0.5))
        left = [hand for hand in hands if hand.right < 0.5]
        right = [hand for hand in hands if hand.right >= 0.5]
        found.append((left[-1] if left else None, right[-1] if right else None))
    return found


def by_nearness(frames: Sequence[Seen]) -> list[Sides]:
    """What the detector says; two hands of one label go to the nearer last wrists."""
    last: list[Floats | None] = [None, None]
    found: list[Sides] = []
    for frame in frames:
        sides: list[FoundHand | None] = list(by_labels([frame])[0])
        if len(frame.hands) == 2 and None in sides:
            one, other = sorted(frame.hands, key=lambda hand: -float(hand.points[0, 0]))
            if all(wrist is not None for wrist in last):
                straight, swapped = (
                    sum(
                        float(np.linalg.norm(hand.points[0, :2] * frame.size - wrist))
                        for hand, wrist in zip(pair, last, strict=True)
                    )
                    for pair in ((one, other), (other, one))
                )
                one, other = (one, other) if straight <= swapped else (other, one)
            sides = [one, other]
        for side, hand in enumerate(sides):
            if hand is not None:
                last[side] = hand.points[0, :2] * frame.size
        found.append((sides[0], sides[1]))
    return found


def by_tracks(frames: Sequence[Seen], *, arms: bool) -> list[Sides]:
    """The rule of the detectors `hands` and, with the arms of the pose, `hands+pose`."""
    tracker = HandednessTracker()
    return [
        tracker.assign(
            frame.hands, arms=frame.arms if arms else None, aspect=frame.size[0] / frame.size[1]
        )
        for frame in frames
    ]


RULES: dict[str, Callable[[Sequence[Seen]], list[Sides]]] = {
    "labels": by_labels,
    "labels; equal ones by the nearer last wrist": by_nearness,
    "`hands`": lambda frames: by_tracks(frames, arms=False),
    "`hands+pose`": lambda frames: by_tracks(frames, arms=True),
}


def judge(frames: Sequence[Seen], sides: Sequence[Sides]) -> list[bool]:
    """For every true hand that a found one lies on: whether it bears its name."""
    right = []
    for frame, named in zip(frames, sides, strict=True):
        owners = [_owner(hand, frame) for hand in frame.hands]
        for side in (0, 1):
            hands = [hand for hand, own in zip(frame.hands, owners, strict=True) if own == side]
            if hands:
                good, bad = (
                    any(named[name] is hand for hand in hands) for name in (side, 1 - side)
                )
                right.append(good and not bad)
    return right


def _owner(hand: FoundHand, frame: Seen) -> int | None:
    points = hand.points[:, :2] * frame.size
    size = 2 * float(np.linalg.norm(points[9] - points[0]))
    apart = np.linalg.norm(frame.true - points, axis=-1).mean(axis=-1) / max(size, 1.0)
    left, right = np.nan_to_num(apart, nan=9.0)
    if min(left, right) > ON_IT or abs(left - right) < CLEARLY:
        return None
    return 0 if left < right else 1


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    parser.add_argument("--every", type=int, default=8, help="every n-th clip of the demo corpus")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments = parser.parse_args()
    truth = read_truth(arguments.corpus / TRUTH)
    clips = read_manifest(arguments.corpus / MANIFEST)[:: arguments.every]
    jobs: dict[str, list[tuple[Path, Floats | None]]] = {
        "drawn": [(clip.video, truth[clip.clip_id].joints.astype(np.float64)) for clip in clips]
    }
    for name in ("msl150", "ksl77"):
        videos = sorted((arguments.data / name / "videos").glob("*.mp4"))
        jobs[name] = [(video, None) for video in videos]
    shares: dict[str, list[str]] = {name: [] for name in RULES}
    counts = []
    for name, todo in jobs.items():
        found = list(tqdm(map_in_order(observe, todo, count_workers()), name, len(todo)))
        for rule, assign in RULES.items():
            right = [good for frames in found for good in judge(frames, assign(frames))]
            shares[rule].append(f"{np.mean(right):.2%}" if right else "none")
        counts.append(f"{name}, {len(right):,} hands")
    lines = [f"| | {' | '.join(counts)} |", "|---" * (len(counts) + 1) + "|"]
    lines += [f"| {rule} | {' | '.join(cells)} |" for rule, cells in shares.items()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
