"""How well each detector finds the demo signer's hands, against the true joints of the drawing.

Usage: python -m tests.bench.demo_detection [--corpus data/demo/corpus] [--every 12] [--out JSON]

Clips of the demo corpus for signing as it flows, and drills (`tests.bench.drills`) in which every
handshape meets every orientation. A hand counts as found if it comes under the right side's name
and its 21 landmarks are on average within a quarter of the hand's size of the true joints. The
hand's size is twice the distance from wrist to middle knuckle where it is longest in the clip.
Sides: of the hands that lie on a true hand, the share that bears that hand's name. CPU time is that
of `detect` alone; the first frame of a clip, which costs more, is part of it. Drills are for
`hands` and `holistic` only: the other detectors find the same hands as one of them.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from signloom.corpus.landmarks import build_layout
from signloom.corpus.manifest import read_manifest
from signloom.extraction.detector import DetectorOptions, build_detector, quiet_native_code
from signloom.extraction.pool import count_workers
from signloom.extraction.video import Video
from signloom_demo.draw import MANIFEST, TRUTH, VIDEOS, Truth, read_truth
from tests.bench.drills import draw_drill, plan_drills
from tests.extraction import write_hand_task, write_pose_task

NEAR = 0.25  # hand sizes
MIDDLE_KNUCKLE = 9
DRILLED = ("hands", "holistic")
FACE = ("hands", "pose", "lips", "face_outline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A clip to measure."""

    clip_id: str
    video: Path
    truth: Truth
    glosses: tuple[str, ...]
    drill: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one detector made of all clips.

    errors: By clip; mean distance of each found hand (axis 1: left, right) from each true hand
        (axis 2), pixels, NaN where not found, shape (S, 2, 2).
    cpu_ms: A frame.
    peak_mb: Most memory of a process that does nothing else.
    """

    errors: dict[str, NDArray[np.float64]]
    cpu_ms: float
    peak_mb: float


def detectors(folder: Path) -> dict[str, DetectorOptions]:
    """The detectors to compare; .task files are made in the folder."""

    def options(detector: str, *groups: str, hand: str = "", pose: str = "") -> DetectorOptions:
        return DetectorOptions(
            detector=detector, groups=groups, min_detection_confidence=0.5,
            min_tracking_confidence=0.5, hand_model=hand, pose_model=pose, runtime="mediapipe",
        )  # type: ignore[arg-type]  # fmt: skip

    hand = str(write_hand_task(folder / "hand.task"))
    pose = str(write_pose_task(folder / "pose.task"))
    return {
        "hands": options("hands", "hands"),
        "hands+pose": options("hands+pose", "hands", "pose"),
        "holistic": options("holistic", "hands", "pose"),
        "holistic, face": options("holistic", *FACE),
        "hands, .task": options("hands", "hands", hand=hand),
        "hands+pose, .task": options("hands+pose", "hands", "pose", hand=hand, pose=pose),
    }


def measure(job: tuple[DetectorOptions, list[Shot]]) -> Measured:
    """Run one detector over the clips."""
    options, shots = job
    with quiet_native_code():
        detector = build_detector(options)
        errors, cpu_s, frames = {}, 0.0, 0
        for shot in shots:
            detector.reset()
            rows = []
            with Video(shot.video) as video:
                for frame in video.frames():
                    before = time.process_time()
                    points, _ = detector.detect(frame.rgb, frame.time_s)
                    cpu_s += time.process_time() - before
                    rows.append(points)
                    size = np.array(frame.rgb.shape[1::-1], np.float64)
            frames += len(rows)
            errors[shot.clip_id] = distances(np.stack(rows), shot.truth, size, options)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(errors=errors, cpu_ms=1000 * cpu_s / frames, peak_mb=peak_mb)


def distances(
    points: NDArray[np.float32], truth: Truth, size: NDArray[np.float64], options: DetectorOptions
) -> NDArray[np.float64]:
    """Mean distance of every found hand from every true one, pixels, shape (S, 2, 2)."""
    layout = build_layout(options.groups)
    hands = np.stack([points[:, layout.slice(f"{side}_hand"), :2] for side in ("left", "right")], 1)
    if len(hands) != len(truth.joints):
        raise ValueError(f"{len(hands)} frames, the truth has {len(truth.joints)}")
    apart = (hands[:, :, None] - truth.joints[:, None].astype(np.float64)) * size
    found: NDArray[np.float64] = np.linalg.norm(apart, axis=-1).mean(axis=-1)
    return found


def hand_px(shot: Shot, size: NDArray[np.float64]) -> float:
    """The hand's size in this clip, pixels."""
    joints = shot.truth.joints.astype(np.float64) * size
    palms = np.linalg.norm(joints[:, :, MIDDLE_KNUCKLE] - joints[:, :, 0], axis=-1)
    return float(2 * palms.max())


def summarise(
    shots: list[Shot], measured: Measured, chosen: Callable[[Shot], NDArray[np.bool_]]
) -> dict[str, float]:
    """Share found, mean error and side accuracy over the hands that `chosen` marks, (S, 2)."""
    found, named, px, hands = [], [], [], []
    for shot in shots:
        mask = chosen(shot)
        errors = measured.errors[shot.clip_id]
        reach = hand_px(shot, np.array([320.0, 240.0]))
        own = errors[:, (0, 1), (0, 1)]
        good = own <= NEAR * reach
        found.append(good[mask])
        px.append(own[mask & good])
        hands.append(own[mask & good] / reach)
        nearest = np.nanargmin(np.where(np.isnan(errors), np.inf, errors), axis=2)
        lies_on_one = np.nanmin(np.where(np.isnan(errors), np.inf, errors), axis=2) <= NEAR * reach
        named.append((nearest == (0, 1))[mask & lies_on_one])
    return {
        "hands": int(sum(map(len, found))),
        "found": float(np.concatenate(found).mean()),
        "error_px": float(np.concatenate(px).mean()),
        "error_hands": float(np.concatenate(hands).mean()),
        "sides": float(np.concatenate(named).mean()),
    }


def in_sign(shot: Shot) -> NDArray[np.bool_]:
    """The hands that perform a sign."""
    return shot.truth.in_sign


def at_rest(shot: Shot) -> NDArray[np.bool_]:
    """The hands that rest or are on their way."""
    return ~shot.truth.in_sign


def drill_groups(shots: list[Shot]) -> dict[str, dict[str, Callable[[Shot], NDArray[np.bool_]]]]:
    """By handshape, orientation and skin: what marks the hands in a drill."""
    groups: dict[str, dict[str, Callable[[Shot], NDArray[np.bool_]]]] = defaultdict(dict)
    for shot in shots:
        shape, _, skin = shot.clip_id.split("-")
        groups["handshape"][shape] = lambda s, n=shape: in_sign(s) & s.clip_id.startswith(f"{n}-")
        groups["skin"][skin] = lambda s, n=skin: in_sign(s) & s.clip_id.endswith(f"-{n}")
        for gloss in shot.glosses:
            turn = gloss.split(":")[1]
            groups["orientation"][turn] = lambda s, n=turn: in_sign(s) & _performs(s, n)[:, None]
    return groups


def _performs(shot: Shot, turn: str) -> NDArray[np.bool_]:
    turns = np.array([*(gloss.split(":")[1] for gloss in shot.glosses), ""])  # the last: no sign
    return np.asarray(turns[shot.truth.sign] == turn)


def read_shots(corpus: Path, every: int, folder: Path) -> tuple[list[Shot], list[Shot]]:
    """Every n-th clip of the demo corpus, and the drills, drawn into the folder."""
    truths = read_truth(corpus / TRUTH)
    clips = [
        Shot(
            clip_id=clip.clip_id, video=clip.video, truth=truths[clip.clip_id],
            glosses=tuple((clip.gloss or "").split()), drill=False,
        )
        for clip in read_manifest(corpus / MANIFEST)[::every]
    ]  # fmt: skip
    (folder / VIDEOS).mkdir()
    drills = [
        Shot(
            clip_id=clip.clip_id, video=folder / VIDEOS / f"{clip.clip_id}.mp4",
            truth=draw_drill(clip, folder), glosses=clip.sentence.glosses, drill=True,
        )
        for clip in plan_drills()
    ]  # fmt: skip
    return clips, drills


def report(clips: list[Shot], drills: list[Shot], found: dict[str, Measured]) -> dict[str, object]:
    """All figures, for JSON."""
    tables: dict[str, dict[str, dict[str, dict[str, float]]]] = defaultdict(dict)
    for name, measured in found.items():
        tables["corpus, in sign"][name] = {"all": summarise(clips, measured, in_sign)}
        tables["corpus, rest and ways"][name] = {"all": summarise(clips, measured, at_rest)}
        if name in DRILLED:
            for title, group in drill_groups(drills).items():
                tables[title][name] = {
                    key: summarise(drills, measured, mask) for key, mask in group.items()
                }
            tables["drills"][name] = {"all": summarise(drills, measured, in_sign)}
    cost = {
        name: {"cpu_ms": measured.cpu_ms, "peak_mb": measured.peak_mb}
        for name, measured in found.items()
    }
    return {"clips": len(clips), "drills": len(drills), "cost": cost, "tables": tables}


def to_markdown(content: dict[str, object]) -> str:
    """The figures as Markdown tables."""
    tables, cost = content["tables"], content["cost"]
    assert isinstance(tables, dict)
    assert isinstance(cost, dict)
    lines = [f"{content['clips']} clips of the demo corpus, {content['drills']} drills\n"]
    for title in ("corpus, in sign", "corpus, rest and ways", "drills"):
        lines += [
            f"\n| {title} | hands | found | error, px | hand sizes | sides |",
            "|---" * 6 + "|",
        ]
        for name, rows in tables[title].items():
            row = rows["all"]
            lines.append(
                f"| {name} | {row['hands']:,} | {row['found']:.1%} | {row['error_px']:.2f} | "
                f"{row['error_hands']:.3f} | {row['sides']:.2%} |"
            )
    lines += ["\n| cost | CPU, ms a frame | peak memory, MB |", "|---|---|---|"]
    lines += [
        f"| {name} | {row['cpu_ms']:.1f} | {row['peak_mb']:.0f} |" for name, row in cost.items()
    ]
    for title in ("handshape", "orientation", "skin"):
        names = list(tables[title])
        lines += [f"\n| {title}: found (error in hand sizes) | {' | '.join(names)} |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for key in tables[title][names[0]]:
            cells = [
                f"{tables[title][name][key]['found']:.1%} "
                f"({tables[title][name][key]['error_hands']:.3f})"
                for name in names
            ]
            lines.append(f"| {key} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Draw, measure, print the tables, write JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    parser.add_argument("--every", type=int, default=12, help="measure every n-th clip only")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    arguments = parser.parse_args()
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # as the workers of `extract` have it
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        clips, drills = read_shots(arguments.corpus, arguments.every, Path(name))
        jobs = {
            kind: (options, clips + drills if kind in DRILLED else clips)
            for kind, options in detectors(Path(name)).items()
        }
        # A process for each, so that memory is its own.
        with ProcessPoolExecutor(count_workers(), spawn, max_tasks_per_child=1) as pool:
            found = dict(zip(jobs, pool.map(measure, jobs.values()), strict=True))
    content = report(clips, drills, found)
    sys.stdout.write(to_markdown(content))
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
