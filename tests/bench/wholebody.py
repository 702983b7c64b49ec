"""What imported COCO-WholeBody keypoints and Holistic's landmarks say of the same frames.

    python -m tests.bench.wholebody data/demo/corpus data/landmarks/shards

The keypoints are made from what is true of the drawn clips: the 42 joints of the hands. The pose is
not kept as points, so its nose, shoulders, elbows and wrists are Holistic's own, and what is
compared is the way through pixels, names and half precision.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.corpus.skeletons import SKELETONS, index_of
from signloom.importing.foreign import SourceDefaults
from signloom.importing.importer import ImportOptions, import_landmarks
from signloom_demo.draw import TRUTH, Truth, read_truth

HANDS = ("left_hand", "right_hand")
POSE = ("nose", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist",
        "right_wrist")  # fmt: skip


def keypoints(truth: Truth, clip: LandmarkSequence) -> np.ndarray:
    """Return the 133 points of each frame in pixels, with scores."""
    skeleton = SKELETONS[133]
    points = np.zeros((len(clip.points), 133, 3), np.float32)
    for side, hand in enumerate(HANDS):
        for column, index in skeleton.parts[hand].items():
            points[:, column, :2], points[:, column, 2] = truth.joints[:, side, index], 1.0
    there = clip.present[:, clip.layout.group("pose")]
    columns = {index: column for column, index in skeleton.parts["pose"].items()}
    for mark in POSE:
        column = columns[index_of("pose", mark)]
        points[there, column, :2] = clip.points[there, clip.layout.index("pose", mark), :2]
        points[there, column, 2] = 1.0
    points[..., :2] *= [clip.width, clip.height]
    return points


def compare(group: str, pairs: list[tuple[LandmarkSequence, LandmarkSequence]]) -> str:
    """Return a row: in which frames both, or one, have the group, and how far apart they are."""
    both = ours = theirs = frames = 0
    distances = []
    for one, other in pairs:
        a = one.present[:, one.layout.group(group)]
        b = other.present[:, other.layout.group(group)]
        both, ours, theirs = both + (a & b).sum(), ours + (a & ~b).sum(), theirs + (b & ~a).sum()
        frames += len(a)
        size = np.array([other.width, other.height]) / other.height
        marks = one.layout.groups[one.layout.group(group)].landmarks
        columns = [other.layout.index(group, mark) for mark in marks]
        found = one.points[a & b][:, one.layout.slice(group), :2] * size
        wanted = other.points[a & b][:, columns, :2] * size
        ends = ("wrist", "middle_mcp") if "wrist" in marks else ("left_shoulder", "right_shoulder")
        first, last = (wanted[:, marks.index(end)] for end in ends)
        unit = np.linalg.norm(first - last, axis=-1).clip(1e-6)[:, None]
        distances.append((np.linalg.norm(found - wanted, axis=-1) / unit).ravel())
    middle, high = np.quantile(np.concatenate(distances), [0.5, 0.95])
    unit_name = "palms" if group in HANDS else "shoulder widths"
    return (
        f"| {group} | {both / frames:.1%} | {ours / frames:.1%} | {theirs / frames:.1%} | "
        f"{middle:.4f} | {high:.4f} | {unit_name} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("shards", type=Path)
    options = parser.parse_args()
    truths, holistic = read_truth(options.corpus / TRUTH), read_shards(options.shards)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for clip_id, clip in holistic.items():
            points = keypoints(truths[clip_id], clip)
            said = {"fps": clip.fps, "width": clip.width, "height": clip.height}
            np.savez(folder / f"{clip_id}.npz", keypoints=points[..., :2],
                     scores=points[..., 2], **said)  # fmt: skip
        defaults = SourceDefaults(fps=None, width=None, height=None)
        chosen = ImportOptions(format="numpy", groups=("hands", "pose"), defaults=defaults)
        found = import_landmarks([folder], folder / "corpus", chosen)
        print(*found.notes, f"{found.clips} clips, {found.frames} frames", sep="\n")
        imported = read_shards(folder / "corpus/landmarks/shards")
    print("| group | both | WholeBody only | Holistic only | median | 95 % | in |")
    for group in (*HANDS, "pose"):
        print(compare(group, [(imported[name], holistic[name]) for name in holistic]))


if __name__ == "__main__":
    main()
