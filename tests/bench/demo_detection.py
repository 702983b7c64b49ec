"""How well MediaPipe finds the demo signer's hands, against the true joints of the drawing.

Usage: python -m tests.bench.demo_detection [--corpus data/demo/corpus] [--every N] [--out JSON]

A hand counts as found if Holistic returns it on the signer's right side of the body and its 21
landmarks are on average within a quarter of the hand's size of the true joints. The hand's size is
twice the distance from wrist to middle knuckle where it is longest in the clip.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from signloom.corpus.demo.draw import MANIFEST, TRUTH, Truth, read_truth
from signloom.corpus.manifest import Clip, read_manifest
from signloom.corpus.pool import count_workers, map_in_order

SANE_DISTANCE = 0.25  # hand sizes
MIDDLE_KNUCKLE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class HandFrame:
    """One hand in one frame: what it did and how it was found."""

    signer: str
    split: str
    side: str
    sign: str  # gloss, or "" between signs and at rest
    found: bool
    error_px: float  # mean over the landmarks; nan if not found
    error_hands: float  # the same in hand sizes
    size: float  # hand size, share of the picture's width


def measure_clip(job: tuple[Clip, Truth]) -> list[HandFrame]:
    """Run a fresh Holistic over one clip and compare every hand with the truth."""
    clip, truth = job
    os.environ.setdefault("GLOG_minloglevel", "2")
    import mediapipe as mp  # here, so that the parent process never loads a graph

    cv2.setNumThreads(1)
    glosses = (clip.gloss or "").split()
    frames, size = read_frames(clip.video)
    if len(frames) != len(truth.sign):
        raise ValueError(f"{clip.video}: {len(frames)} frames, truth has {len(truth.sign)}")
    true = truth.joints.astype(np.float64) * size  # (S, 2, 21, 2) pixels
    hand_px = 2 * np.linalg.norm(true[:, :, MIDDLE_KNUCKLE] - true[:, :, 0], axis=-1).max()
    rows = []
    with mp.solutions.holistic.Holistic(model_complexity=1) as holistic:
        for index, frame in enumerate(frames):
            result = holistic.process(frame)
            sides = (result.left_hand_landmarks, result.right_hand_landmarks)
            for side, landmarks in enumerate(sides):
                error = np.nan
                if landmarks is not None:
                    found = np.array([(p.x, p.y) for p in landmarks.landmark]) * size
                    error = float(np.linalg.norm(found - true[index, side], axis=1).mean())
                near = bool(error <= SANE_DISTANCE * hand_px)
                signing = truth.in_sign[index, side]
                rows.append(
                    HandFrame(
                        signer=clip.signer,
                        split=clip.split,
                        side=("left", "right")[side],
                        sign=glosses[truth.sign[index]] if signing else "",
                        found=near,
                        error_px=error if near else np.nan,
                        error_hands=error / hand_px if near else np.nan,
                        size=float(hand_px / size[0]),
                    )
                )
    return rows


def read_frames(path: Path) -> tuple[list[NDArray[np.uint8]], NDArray[np.float64]]:
    """Decode a video; returns RGB frames and (width, height)."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while True:
        read, frame = capture.read()
        if not read:
            break
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    capture.release()
    if not frames:
        raise ValueError(f"{path}: no frame can be read")
    return frames, np.array([frames[0].shape[1], frames[0].shape[0]], dtype=np.float64)


def summarise(rows: Iterable[HandFrame]) -> dict[str, float]:
    """Share found and mean error of some hands."""
    rows = list(rows)
    found = [row for row in rows if row.found]
    return {
        "hands": len(rows),
        "found": len(found) / len(rows) if rows else float("nan"),
        "error_px": float(np.mean([row.error_px for row in found])) if found else float("nan"),
        "error_hands": float(np.mean([row.error_hands for row in found]))
        if found
        else float("nan"),
    }


def tables(rows: list[HandFrame]) -> dict[str, dict[str, dict[str, float]]]:
    """All summaries: over everything, by signer, side and sign; in-sign hands but for "rest"."""
    signing = [row for row in rows if row.sign]
    groups: dict[str, dict[str, list[HandFrame]]] = defaultdict(lambda: defaultdict(list))
    groups["overall"]["in sign"] = signing
    groups["overall"]["rest and transitions"] = [row for row in rows if not row.sign]
    for row in signing:
        groups["signer"][f"{row.signer} ({row.split})"].append(row)
        groups["side"][row.side].append(row)
        groups["sign"][row.sign].append(row)
    return {
        title: {name: summarise(members) for name, members in group.items()}
        for title, group in groups.items()
    }


def main() -> None:
    """Measure, print the tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    parser.add_argument("--every", type=int, default=1, help="measure every n-th clip only")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    arguments = parser.parse_args()
    clips = read_manifest(arguments.corpus / MANIFEST)[:: arguments.every]
    truths = read_truth(arguments.corpus / TRUTH)
    jobs = [(clip, truths[clip.clip_id]) for clip in clips]
    parts = tqdm(
        map_in_order(measure_clip, jobs, count_workers()), "measure", len(jobs), unit="clip"
    )
    rows = [row for part in parts for row in part]
    result = tables(rows)
    for title, group in result.items():
        sys.stdout.write(f"\n{title:24s} {'hands':>6s} {'found':>7s} {'px':>6s} {'hands':>6s}\n")
        for name, line in sorted(group.items(), key=lambda item: item[1]["found"]):
            sys.stdout.write(
                f"{name:24s} {line['hands']:6.0f} {line['found']:7.1%} "
                f"{line['error_px']:6.2f} {line['error_hands']:6.3f}\n"
            )
    smallest = min(row.size for row in rows)
    sys.stdout.write(f"\n{len(clips)} clips, smallest hand {smallest:.3f} of the width\n")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        report = {"clips": len(clips), "smallest_hand": smallest, **result}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
