"""What films have that nobody cut for a model: waiting, walking in, scratching, other cameras."""

from dataclasses import dataclass

import numpy as np

from signloom_demo.render import Camera
from signloom_demo.skeleton import Floats

WALK_CM = 85.0  # from beside the picture to its middle
TOUCH_S = 0.35  # of a wait, for the way of a hand to the head, its stay there and the way back
MOST_WAIT_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What happens around the signing of one clip.

    before_s, after_s: Rest before and after the sentence, seconds.
    scratch_before, scratch_after: Whether a hand goes to the head in that rest.
    walk_s: How long the signer walks in, in the rest before; 0: is there from the start.
    walk_from: -1: from the picture's left, 1: from its right.
    lower_after: Position of the sign after which both hands sink; -1: none.
    lower_s: How long they stay down.
    late_s, early_s: Seconds of raising and lowering hands that the film still has where it begins
        late and ends early; None: all, and the rest around them.
    pace: Speed, on top of the signer's own.
    """

    before_s: float = 0.0
    after_s: float = 0.0
    scratch_before: bool = False
    scratch_after: bool = False
    walk_s: float = 0.0
    walk_from: int = 1
    lower_after: int = -1
    lower_s: float = 0.0
    late_s: float | None = None
    early_s: float | None = None
    pace: float = 1.0


CUT = Manner()  # as a clip that was cut for a model


def draw_manner(rng: np.random.Generator, signs: int) -> Manner:
    """Draw what happens around a sentence of so many signs."""
    begins = rng.choice(["wait", "scratch", "walk", "late"], p=[0.35, 0.15, 0.2, 0.3])
    ends = rng.choice(["wait", "scratch", "early"], p=[0.5, 0.2, 0.3])
    waits = rng.uniform(0.2, MOST_WAIT_S, 2)
    least = 3 * TOUCH_S + 0.2  # for the way to the head and back
    before = max(float(waits[0]), least) if begins != "wait" else float(waits[0])
    after = max(float(waits[1]), least) if ends == "scratch" else float(waits[1])
    lowers = signs > 1 and bool(rng.random() < 0.3)
    return Manner(
        before_s=0.0 if begins == "late" else before,
        after_s=0.0 if ends == "early" else after,
        scratch_before=bool(begins == "scratch"),
        scratch_after=bool(ends == "scratch"),
        walk_s=before - 0.2 if begins == "walk" else 0.0,
        walk_from=int(rng.choice([-1, 1])),
        lower_after=int(rng.integers(signs - 1)) if lowers else -1,
        lower_s=float(rng.uniform(0.2, 0.7)),
        late_s=float(rng.uniform(0.0, 0.2)) if begins == "late" else None,
        early_s=float(rng.uniform(0.0, 0.2)) if ends == "early" else None,
        pace=float(rng.uniform(0.75, 1.3)),
    )


def draw_camera(rng: np.random.Generator, width: int, height: int) -> Camera:
    """Draw a camera that somebody put up: nearer or further, off the middle, not quite level."""
    return Camera(
        width=width,
        height=height,
        shift_x=float(rng.normal(0.0, 4.0)),
        shift_y=float(rng.normal(0.0, 2.5)),
        zoom=float(rng.uniform(0.85, 1.1)),
        tilt_deg=float(rng.normal(0.0, 2.5)),
    )


def walk(manner: Manner, frames: int, fps: float) -> Floats:
    """Return how far beside their place the signer is, cm, shape (S,); 0 once they are there."""
    if not manner.walk_s:
        return np.zeros(frames)
    share = np.clip(np.arange(frames) / fps / manner.walk_s, 0.0, 1.0)
    offset_cm: Floats = manner.walk_from * WALK_CM * (1 - share * share * (3 - 2 * share))
    return offset_cm
