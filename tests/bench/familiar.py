"""What is said of clips that a model was not made for, and how often of those that it was.

Usage: python -m tests.bench.familiar [--data ../shared/data] [--out reports/benchmarks]

Needs the demo (`make demo`). Its test clips beside films without hands (each signer drawn without
arms, and the empty room), other films (KSL-77, MSL-150, a clip of pose-format; left out where they
are not there), and the test clips themselves, spoilt: sides exchanged, backwards, halves exchanged,
cut, standing still, hands removed. Mirrored ones are fine, since training mirrors, too. AUC: how
well the distance, or the score, tells clips from the test clips.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.extraction.extract import extract_video, options_of_fingerprint
from signloom.features.augment import mirror
from signloom.features.sources import LandmarkSource
from signloom.features.targets import read_targets
from signloom.files import write_file
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.confidence import UNFAMILIAR, UNSURE
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator
from signloom_demo.draw import DrawOptions, write_video
from signloom_demo.render import FAR, Camera, Picture, draw
from signloom_demo.scene import trunk_solids
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer, backdrop
from tests.tiny import lose

FRAMES = 45  # of a drawn film: 3 s
SEED = 0


def pick(sequence: LandmarkSequence, frames: npt.NDArray[np.int64]) -> LandmarkSequence:
    """Return the clip with these of its frames, in this order."""
    return dataclasses.replace(
        sequence, points=sequence.points[frames], present=sequence.present[frames]
    )


def exchange_sides(sequence: LandmarkSequence) -> LandmarkSequence:
    """Call each hand by the other's name, as a detector does that takes a film for mirrored."""
    layout = sequence.layout
    points, present = sequence.points.copy(), sequence.present.copy()
    for one, other in (("left_hand", "right_hand"), ("right_hand", "left_hand")):
        points[:, layout.slice(one)] = sequence.points[:, layout.slice(other)]
        present[:, layout.group(one)] = sequence.present[:, layout.group(other)]
    return dataclasses.replace(sequence, points=points, present=present)


def remove_hands(sequence: LandmarkSequence) -> LandmarkSequence:
    """Lose both hands in every frame."""
    return lose(lose(sequence, "left_hand", slice(None)), "right_hand", slice(None))


def cut(start: float, end: float) -> Callable[[LandmarkSequence], LandmarkSequence]:
    """Return what keeps a part of a clip, shares of its length."""

    def change(sequence: LandmarkSequence) -> LandmarkSequence:
        count = len(sequence.points)
        first = int(start * count)
        return pick(sequence, np.arange(first, max(first + 2, int(end * count))))

    return change


SPOILT: dict[str, Callable[[LandmarkSequence], LandmarkSequence]] = {
    "mirrored": mirror,
    "sides exchanged": exchange_sides,
    "backwards": lambda clip: pick(clip, np.arange(len(clip.points))[::-1]),
    "halves exchanged": lambda clip: pick(
        clip, np.roll(np.arange(len(clip.points)), len(clip.points) // 2)
    ),
    "first half": cut(0, 0.5),
    "last half": cut(0.5, 1),
    "first tenth": cut(0, 0.1),
    "standing still": lambda clip: pick(clip, np.full(len(clip.points), len(clip.points) // 2)),
    "hands removed": remove_hands,
}  # fmt: skip


def draw_still(path: Path, signer: Signer, options: DrawOptions, *, has_body: bool) -> None:
    """Draw a film in which nothing moves: a signer without arms, or the empty room."""
    camera = Camera(width=options.width, height=options.height)
    wall = backdrop(signer, camera.width, camera.height, np.random.default_rng(SEED))
    colours = wall.reshape(-1, 3).astype(np.float32)
    picture = Picture(colour=colours, depth=np.full(len(colours), FAR, dtype=np.float32))
    if has_body:
        picture = draw(trunk_solids(signer), picture, camera, camera.rays())
    image = picture.colour.reshape(camera.height, camera.width, 3).astype(np.uint8)
    write_video(path, iter([image] * FRAMES), options.fps, (options.width, options.height))


def find_films(data: Path, folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield films by kind: drawn ones, then real ones that are there."""
    options = load_section(Path("data/demo/params.yaml"), "draw", DrawOptions)
    for name, has_body in (("signers without arms", True), ("empty rooms", False)):
        paths = []
        for signer in (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS):
            paths.append(folder / f"{signer.name}-{has_body}.mp4")
            draw_still(paths[-1], signer, options, has_body=has_body)
        yield name, paths
    for name, pattern in (
        ("KSL-77", "ksl77/videos/*.mp4"), ("MSL-150", "msl150/videos/*.mp4"),
        ("pose-format", "pose_format/*.mp4"),
    ):  # fmt: skip
        if films := sorted(data.glob(pattern)):
            yield name, films


def measure(data: Path) -> dict[str, dict[str, float]]:
    """Return a row for each kind of clips."""
    translator = Translator.load(CHECKPOINT)
    source, confidence = translator.source, translator.confidence
    if not isinstance(source, LandmarkSource) or not confidence or not confidence.train:
        raise SystemExit("the demo's model is needed with its evaluation; run `make demo`")
    targets = [target for target in read_targets(TARGETS) if target.split == "test"]
    stored = source.read(targets, SHARDS)
    test = [clip for t in targets if isinstance(clip := stored.get(t.clip_id), LandmarkSequence)]
    kinds = {"test clips": test}
    detector = options_of_fingerprint(source.extractor, "", "")
    with tempfile.TemporaryDirectory() as name:
        for kind, paths in find_films(data, Path(name)):
            kinds[kind] = [extract_video(path, detector, threads=2) for path in paths]
    kinds |= {kind: [change(clip) for clip in test] for kind, change in SPOILT.items()}
    distances, scores, rows = {}, {}, {}
    for kind, clips in kinds.items():
        found = translator.translate(clips, DECODING)
        distances[kind] = confidence.train.distances(translator.encode_clips(clips))
        scores[kind] = np.array([one.hypothesis.score for one in found])
        words = [one.check.word for one in found]
        rows[kind] = {
            "clips": len(clips),
            "auc_distance": auc(distances["test clips"], distances[kind]),
            "auc_score": auc(-scores["test clips"], -scores[kind]),
            "unfamiliar": words.count(UNFAMILIAR) / len(words),
            "unsure": words.count(UNSURE) / len(words),
            "score": float(np.median(scores[kind])),
        }
    return rows


def auc(
    known: npt.NDArray[np.float64],
    other: npt.NDArray[np.float64],
) -> float:
    """Return the area under the ROC curve: 1 tells them all apart, 0.5 none."""
    truth = np.concatenate([np.zeros(len(known)), np.ones(len(other))])
    return float(roc_auc_score(truth, np.concatenate([known, other])))


def main() -> None:
    """Print a table and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    options = parser.parse_args()
    rows = measure(options.data)
    lines = [
        "| clips | | median score | AUC of distance | AUC of score | not like anything | unsure | "
        "nothing said |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind, row in rows.items():
        said = 1 - row["unfamiliar"] - row["unsure"]
        lines.append(
            f"| {kind} | {row['clips']} | {row['score']:.2f} | {row['auc_distance']:.3f} | "
            f"{row['auc_score']:.3f} | {100 * row['unfamiliar']:.0f} % | "
            f"{100 * row['unsure']:.0f} % | {100 * said:.0f} % |"
        )
    text = "\n".join(lines) + "\n"
    write_file(options.out / "familiar.md", text)
    write_file(options.out / "familiar.json", json.dumps(rows, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
