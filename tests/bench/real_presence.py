"""In how many frames of real footage each detector finds hands, and whether they agree on sides.

Usage: python -m tests.bench.real_presence [--data ../shared/data] [--every 1] [--out JSON]

Footage: KSL-77 (61 clips, with the share of frames in which its authors' MediaPipe Hands found a
hand in the originals of 1280x720, of which these are copies of 640x360) and MSL-150 (5 clips). Side
agreement: of the hands that two detectors find in one place, the share that both give one name.
"""

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from signloom.extraction.detector import DetectorOptions, build_detector, quiet_native_code
from signloom.extraction.pool import count_workers, map_in_order
from signloom.extraction.video import Video

DETECTORS = ("hands", "hands+pose", "holistic")
SAME_PLACE, OTHER_PLACE = 0.3, 0.6  # mean distance of two hands' landmarks, in hand sizes
WRIST, MIDDLE_KNUCKLE = 0, 9


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The hands of one clip: pixels, left then right, NaN where not found, shape (S, 2, 21, 2)."""

    hands: NDArray[np.float64]

    @property
    def any_hand(self) -> float:
        """Share of frames with a hand."""
        return float(self.there.any(axis=1).mean())

    @property
    def both_hands(self) -> float:
        """Share of frames with both."""
        return float(self.there.all(axis=1).mean())

    @property
    def there(self) -> NDArray[np.bool_]:
        """Whether each hand was found, shape (S, 2)."""
        there: NDArray[np.bool_] = ~np.isnan(self.hands[:, :, 0, 0])
        return there


def watch(path: Path) -> dict[str, Seen]:
    """Run every detector over one clip."""
    found = {}
    for name in DETECTORS:
        options = DetectorOptions(
            detector=name,  # type: ignore[arg-type]
            groups=("hands",), min_detection_confidence=0.5, min_tracking_confidence=0.5,
            hand_model="", pose_model="", runtime="mediapipe",
        )  # fmt: skip
        with quiet_native_code(), Video(path) as video:
            detector = build_detector(options)
            frames = [
                detector.detect(frame.rgb, frame.time_s)[0][:, :2] * frame.rgb.shape[1::-1]
                for frame in video.frames()
            ]
        found[name] = Seen(np.stack(frames).reshape(-1, 2, 21, 2))
    return found


def agreement(one: Seen, other: Seen) -> NDArray[np.bool_]:
    """For every hand that both find in one place: whether both give it the same side."""
    palms = np.linalg.norm(one.hands[:, :, MIDDLE_KNUCKLE] - one.hands[:, :, WRIST], axis=-1)
    apart = np.linalg.norm(one.hands[:, :, None] - other.hands[:, None], axis=-1).mean(-1)
    ways = np.nan_to_num(apart / (2 * palms[:, :, None]), nan=np.inf)  # (S, one's, other's side)
    near, far = ways.min(axis=2), ways.max(axis=2)
    clear = (near < SAME_PLACE) & (far > OTHER_PLACE)  # not hands that lie on each other
    same: NDArray[np.bool_] = (ways.argmin(axis=2) == (0, 1))[clear]
    return same


def read_labels(path: Path) -> dict[str, float]:
    """Share of frames with a hand, by clip, as the authors of KSL-77 measured it."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {Path(row["small"]).stem: float(row["hand_frac"]) for row in rows}


def presence_table(clips: dict[str, dict[str, Seen]]) -> list[str]:
    """Mean shares over the clips and side agreement, a line a detector."""
    lines = ["| detector | any hand | both hands | sides as Holistic |", "|---|---|---|---|"]
    for name in DETECTORS:
        any_hand = np.mean([seen[name].any_hand for seen in clips.values()])
        both = np.mean([seen[name].both_hands for seen in clips.values()])
        same = np.concatenate([agreement(s[name], s["holistic"]) for s in clips.values()])
        sides = f"{same.mean():.2%} of {len(same):,}"
        lines.append(f"| {name} | {any_hand:.3f} | {both:.3f} | {sides} |")
    return lines


def label_table(clips: dict[str, dict[str, Seen]], labels: dict[str, float]) -> list[str]:
    """Presence by clip against the labels, a line a detector, then the clips that differ most."""
    known = [clip for clip in clips if clip in labels]
    theirs = np.array([labels[clip] for clip in known])
    lines = [
        f"\nAgainst the labels of {len(known)} clips, mean {theirs.mean():.3f}:\n",
        "| detector | correlation | mean difference | largest | clips within 0.05 |",
        "|---|---|---|---|---|",
    ]
    shares = {name: np.array([clips[clip][name].any_hand for clip in known]) for name in DETECTORS}
    for name, ours in shares.items():
        apart = ours - theirs
        lines.append(
            f"| {name} | {np.corrcoef(ours, theirs)[0, 1]:.3f} | {apart.mean():+.3f} | "
            f"{apart[np.abs(apart).argmax()]:+.3f} | {(np.abs(apart) < 0.05).sum()} |"
        )
    lines += [f"\n| clip | label | {' | '.join(DETECTORS)} |", "|---" * (len(DETECTORS) + 2) + "|"]
    worst = np.argsort(-np.max([np.abs(ours - theirs) for ours in shares.values()], axis=0))
    for index in worst[:8]:
        cells = " | ".join(f"{shares[name][index]:.3f}" for name in DETECTORS)
        lines.append(f"| {known[index]} | {theirs[index]:.3f} | {cells} |")
    return lines


def watch_all(folder: Path, every: int) -> dict[str, dict[str, Seen]]:
    """Every n-th video of a folder, by name."""
    paths: Sequence[Path] = sorted(folder.glob("*.mp4"))[::every]
    if not paths:
        raise SystemExit(f"{folder} holds no .mp4 file; name the folder with --data")
    found = map_in_order(watch, paths, count_workers())
    return {path.stem: seen for path, seen in zip(paths, found, strict=True)}


def main() -> None:
    """Measure, print Markdown, write the shares by clip as JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--every", type=int, default=1, help="measure every n-th clip only")
    parser.add_argument("--out", type=Path, help="also write the shares by clip as JSON")
    arguments = parser.parse_args()
    content = {}
    for corpus in ("ksl77", "msl150"):
        clips = watch_all(arguments.data / corpus / "videos", arguments.every)
        lines = [f"## {corpus}: {len(clips)} clips\n", *presence_table(clips)]
        if corpus == "ksl77":
            lines += label_table(clips, read_labels(arguments.data / corpus / "labels.csv"))
        sys.stdout.write("\n".join(lines) + "\n\n")
        content[corpus] = {
            clip: {name: {"any": s.any_hand, "both": s.both_hands} for name, s in seen.items()}
            for clip, seen in clips.items()
        }
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
