"""What beginnings, pauses, speed and lost hands cost a trained model, on its test clips.

Usage: python -m tests.bench.stillness [--checkpoint data/checkpoint]

Landmarks of test are changed as films of people are, and translated with the search that evaluate
chose. `exact` is the share right in every word, `told` the share said without a warning, `wrong`
the share of these that is wrong.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import stretch
from signloom.features.targets import read_targets
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.translator import Translator

Change = Callable[[LandmarkSequence, np.random.Generator], LandmarkSequence]


def take(sequence: LandmarkSequence, frames: np.ndarray) -> LandmarkSequence:
    return replace(sequence, points=sequence.points[frames], present=sequence.present[frames])


def hold(before_s: float = 0.0, after_s: float = 0.0, within_s: float = 0.0) -> Change:
    """Hold the first, the last or the middle frame for so many seconds."""

    def change(one: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        count, (before, after, within) = len(one.points), (
            round(s * one.fps) for s in (before_s, after_s, within_s)
        )  # fmt: skip
        frames = np.arange(count)
        parts = (
            np.zeros(before, int), frames[: count // 2], np.full(within, count // 2),
            frames[count // 2 :], np.full(after, count - 1),
        )  # fmt: skip
        return take(one, np.concatenate(parts))

    return change


def faster(times: float) -> Change:
    return lambda one, _: stretch(one, max(1, round(len(one.points) / times)))


def lose_hands(share: float, run: int = 5) -> Change:
    def change(one: LandmarkSequence, generator: np.random.Generator) -> LandmarkSequence:
        points, present = one.points.copy(), one.present.copy()
        for hand in ("left_hand", "right_hand"):
            gone = np.zeros(len(points), bool)
            while gone.mean() < share:
                first = int(generator.integers(len(points)))
                gone[first : first + run] = True
            points[gone, one.layout.slice(hand)] = np.nan
            present[gone, one.layout.group(hand)] = False
        return replace(one, points=points, present=present)

    return change


def turn(degrees: float) -> Change:
    def change(one: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        aspect, angle, points = one.width / one.height, np.radians(degrees), one.points.copy()
        x, y = (points[..., 0] - 0.5) * aspect, points[..., 1] - 0.5
        points[..., 0] = (np.cos(angle) * x - np.sin(angle) * y) / aspect + 0.5
        points[..., 1] = np.sin(angle) * x + np.cos(angle) * y + 0.5
        return replace(one, points=points)

    return change


CHANGES: dict[str, Change] = {
    "none": hold(), "0.5 s still before": hold(0.5), "1 s before": hold(1), "2 s before": hold(2),
    "2 s after": hold(0, 2), "1 s before and after": hold(1, 1), "0.5 s within": hold(within_s=0.5),
    "1.33 times faster": faster(1.33), "1.33 times slower": faster(1 / 1.33),
    "1.6 times slower": faster(1 / 1.6), "hands lost in 30 %": lose_hands(0.3),
    "turned 8 degrees": turn(8),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT)
    given = parser.parse_args()
    from sacrebleu import corpus_bleu

    translator = Translator.load(given.checkpoint)
    own = [target for target in read_targets(TARGETS) if target.split == "test"]
    clips = translator.source.read(own, SHARDS)
    own = [target for target in own if target.clip_id in clips]
    print("| change | BLEU-4 | exact, % | told, % | wrong of these, % |\n|---|---|---|---|---|")
    for name, change in CHANGES.items():
        changed = [
            change(clips[target.clip_id], np.random.default_rng(number))
            for number, target in enumerate(own)
        ]
        found = translator.translate(changed, translator.decoding)
        right = np.array([one.text == target.text for one, target in zip(found, own, strict=True)])
        told = np.array([not one.check.word for one in found])
        texts = [target.text for target in own]
        bleu = corpus_bleu([one.text for one in found], [texts]).score
        wrong = 100 * np.mean(~right[told]) if told.any() else 0.0
        print(f"| {name} | {bleu:.1f} | {100 * right.mean():.0f} | {100 * told.mean():.0f} | "
              f"{wrong:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
