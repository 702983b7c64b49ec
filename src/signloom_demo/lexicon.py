"""The lexicon: 32 invented signs as data.

All signs are written for a right-handed signer: the dominant hand is the right one, at negative x.
A few borrow an idea from LSF (the roof of MAISON, drinking for BOIRE); none is LSF.
"""

from dataclasses import dataclass

import numpy as np

from signloom_demo.skeleton import Floats, hand_frame

Vector = tuple[float, float, float]


@dataclass(frozen=True, slots=True, eq=False)
class HandShape:
    """How the fingers are held.

    flex: Flexion of knuckle and middle joint; index, middle, ring, little finger; radians, (4, 2).
    spread: Sideways angles of the same fingers, radians, (4,).
    thumb: Directions of the thumb's bones in the hand's axes, unit, (3, 3).
    """

    flex: Floats
    spread: Floats
    thumb: Floats


# Directions of the thumb's three bones: (towards the thumb, along the fingers, out of the palm).
THUMBS: dict[str, tuple[Vector, Vector, Vector]] = {
    "out": ((0.75, 0.60, 0.25), (0.80, 0.60, 0.10), (0.75, 0.65, 0.05)),
    "side": ((0.50, 0.82, 0.30), (0.20, 0.97, 0.10), (0.05, 1.00, 0.00)),
    "across": ((0.40, 0.70, 0.60), (-0.45, 0.70, 0.55), (-0.85, 0.50, 0.15)),
    "up": ((0.80, 0.55, 0.25), (0.97, 0.25, 0.00), (1.00, 0.05, -0.05)),
    "facing": ((0.50, 0.55, 0.70), (0.25, 0.75, 0.62), (0.05, 0.92, 0.40)),
    "pinch": ((0.45, 0.60, 0.68), (0.10, 0.75, 0.65), (-0.05, 0.88, 0.48)),
}

OPEN, CLOSED = (0.05, 0.08), (1.45, 1.65)
FAN = (11.0, 2.0, -7.0, -15.0)
TOGETHER = (-2.0, 0.0, 2.0, 4.0)


def _shape(
    fingers: tuple[tuple[float, float], ...], spread: tuple[float, ...], thumb: str
) -> HandShape:
    bones = np.array(THUMBS[thumb])
    return HandShape(
        flex=np.array(fingers),
        spread=np.radians(spread),
        thumb=bones / np.linalg.norm(bones, axis=1, keepdims=True),
    )


HAND_SHAPES: dict[str, HandShape] = {
    "flat": _shape((OPEN,) * 4, TOGETHER, "side"),
    "spread": _shape((OPEN,) * 4, FAN, "out"),
    "relaxed": _shape(((0.20, 0.30), (0.25, 0.35), (0.30, 0.40), (0.35, 0.45)), TOGETHER, "out"),
    "claw": _shape(((0.35, 0.70),) * 4, FAN, "out"),
    "curved": _shape(((0.55, 0.65),) * 4, TOGETHER, "facing"),
    "fist": _shape((CLOSED,) * 4, TOGETHER, "across"),
    "thumb": _shape((CLOSED,) * 4, TOGETHER, "up"),
    "bunch": _shape(((0.75, 0.55),) * 4, TOGETHER, "pinch"),
    "point": _shape((OPEN, CLOSED, CLOSED, CLOSED), TOGETHER, "across"),
    "hook": _shape(((0.25, 1.35), CLOSED, CLOSED, CLOSED), TOGETHER, "across"),
    "two": _shape((OPEN, OPEN, CLOSED, CLOSED), (0.0, 0.0, 2.0, 4.0), "across"),
    "fork": _shape((OPEN, OPEN, CLOSED, CLOSED), (13.0, -9.0, 0.0, 0.0), "across"),
    "three": _shape((OPEN, OPEN, OPEN, CLOSED), (13.0, 0.0, -13.0, 0.0), "across"),
    "trio": _shape((OPEN, OPEN, CLOSED, CLOSED), (12.0, -6.0, 0.0, 0.0), "out"),
    "corner": _shape((OPEN, CLOSED, CLOSED, CLOSED), TOGETHER, "out"),
    "little": _shape((CLOSED, CLOSED, CLOSED, OPEN), TOGETHER, "across"),
    "phone": _shape((CLOSED, CLOSED, CLOSED, OPEN), (0.0, 0.0, 0.0, -16.0), "out"),
    "horns": _shape((OPEN, CLOSED, CLOSED, OPEN), (6.0, 0.0, 0.0, -12.0), "out"),
    "coin": _shape(((0.85, 0.75), OPEN, OPEN, OPEN), (0.0, 3.0, -8.0, -18.0), "pinch"),
}

# Finger direction and palm normal of a right hand, world axes: x towards the signer's left.
ORIENTATIONS: dict[str, tuple[Vector, Vector]] = {
    "palm": ((0.05, 1.00, 0.00), (0.05, 0.00, 1.00)),
    "oblique": ((0.25, 0.95, 0.00), (0.45, 0.00, 0.90)),
    "twist": ((0.30, 0.95, 0.00), (0.70, 0.00, 0.70)),
    "twist_out": ((-0.25, 0.97, 0.00), (-0.30, 0.00, 0.95)),
    "tilt_in": ((0.62, 0.78, 0.05), (0.10, 0.00, 1.00)),
    "tilt_out": ((-0.50, 0.86, 0.00), (0.00, 0.00, 1.00)),
    "far_out": ((-0.82, 0.55, 0.05), (0.05, 0.10, 1.00)),
    "back": ((0.15, 0.98, 0.00), (0.20, 0.00, -1.00)),
    "back_in": ((0.68, 0.73, 0.00), (0.10, 0.00, -1.00)),
    "chest": ((0.86, 0.50, 0.05), (0.00, 0.05, -1.00)),
    "medial": ((0.96, 0.20, 0.05), (0.00, 0.05, -1.00)),
    "roof": ((0.72, 0.68, 0.10), (-0.35, -0.10, 0.95)),
    "ahead": ((0.20, 0.88, 0.38), (0.30, -0.40, 0.90)),
    "rest": ((0.82, -0.25, 0.15), (0.10, 0.10, -1.00)),
}


@dataclass(frozen=True, slots=True)
class Key:
    """One posture that a hand passes through.

    shape: Name in `HAND_SHAPES`.
    x, y: Where the palm is, cm; x is negative on the hand's own side.
    turn: Name in `ORIENTATIONS`.
    z: How far in front of the shoulders, cm.
    """

    shape: str
    x: float
    y: float
    turn: str
    z: float = 19.0


@dataclass(frozen=True, slots=True)
class SignForm:
    """One sign.

    dominant: Postures of the dominant hand, evenly spaced in time.
    other: Postures of the other hand, written like a right hand; empty for one-handed signs.
    beats: How long the sign lasts, in units of the common length.
    """

    dominant: tuple[Key, ...]
    other: tuple[Key, ...] = ()
    beats: float = 1.0


def _same(*keys: Key, beats: float = 1.0) -> SignForm:
    """Both hands do the same, mirrored."""
    return SignForm(dominant=keys, other=keys, beats=beats)


def _in_turn(first: Key, second: Key) -> SignForm:
    """The hands move against each other."""
    return SignForm(
        dominant=(first, second, first, second), other=(second, first, second, first), beats=1.2
    )


def _circle(shape: str, x: float, y: float, turn: str, radius: float) -> tuple[Key, ...]:
    """Five postures around a circle, starting on the inner side."""
    angles = np.linspace(0.0, 2 * np.pi, 5)
    return tuple(
        Key(shape, x + radius * float(np.cos(a)), y + radius * float(np.sin(a)), turn)
        for a in angles
    )


LEXICON: dict[str, SignForm] = {
    # greetings
    "BONJOUR": SignForm((Key("flat", -13.0, 24.0, "tilt_in"), Key("flat", -27.0, 17.0, "palm"))),
    "MERCI": SignForm((Key("flat", -10.0, 11.0, "back"), Key("flat", -16.0, -3.0, "back_in"))),
    # when
    "DEMAIN": SignForm((Key("thumb", -15.0, 20.0, "oblique"), Key("thumb", -27.0, 12.0, "palm"))),
    "SOIR": _same(Key("spread", -27.0, 16.0, "palm"), Key("spread", -15.0, -4.0, "tilt_in")),
    "AUJOURDHUI": _same(
        Key("phone", -17.0, -3.0, "back"),
        Key("phone", -17.0, -13.0, "back"),
        Key("phone", -17.0, -3.0, "back"),
        Key("phone", -17.0, -13.0, "back"),
        beats=1.2,
    ),
    # where
    "MAISON": _same(Key("flat", -9.0, 14.0, "roof"), Key("flat", -19.0, 4.0, "roof")),
    "ECOLE": SignForm(_circle("fork", -23.0, 6.0, "palm", 5.0), beats=1.2),
    "MARCHE": _in_turn(Key("claw", -17.0, 4.0, "palm"), Key("claw", -17.0, -9.0, "palm")),
    # who
    "MOI": SignForm((Key("point", -17.0, -5.0, "chest"), Key("point", -10.0, -3.0, "chest"))),
    "TOI": SignForm((Key("point", -13.0, 2.0, "palm"), Key("point", -16.0, 4.0, "ahead", 26.0))),
    "NOUS": SignForm((Key("two", -22.0, 2.0, "back_in"), Key("two", 0.0, 2.0, "back_in"))),
    "ELLE": SignForm((Key("point", -22.0, 5.0, "tilt_out"), Key("point", -31.0, 3.0, "far_out"))),
    "MAMAN": SignForm(
        (
            Key("spread", -14.0, 15.0, "tilt_in"),
            Key("spread", -19.0, 16.0, "tilt_in"),
            Key("spread", -14.0, 15.0, "tilt_in"),
            Key("spread", -19.0, 16.0, "tilt_in"),
        ),
        beats=1.1,
    ),
    # what
    "PAIN": SignForm(
        (
            Key("flat", -10.0, 4.0, "tilt_in"),
            Key("flat", -12.0, -5.0, "tilt_in"),
            Key("flat", -10.0, 4.0, "tilt_in"),
            Key("flat", -12.0, -5.0, "tilt_in"),
        ),
        (Key("fist", -15.0, -15.0, "back_in"), Key("fist", -15.0, -15.0, "back_in")),
        beats=1.2,
    ),
    "EAU": SignForm(
        (
            Key("three", -17.0, 10.0, "palm"),
            Key("three", -17.0, 17.0, "palm"),
            Key("three", -17.0, 10.0, "palm"),
            Key("three", -17.0, 17.0, "palm"),
        ),
        beats=1.1,
    ),
    "CAFE": SignForm(
        _circle("fist", -13.0, 0.0, "palm", 4.0),
        (Key("curved", -14.0, -15.0, "back_in"), Key("curved", -14.0, -15.0, "back_in")),
        beats=1.2,
    ),
    "SOUPE": SignForm((Key("two", -12.0, -12.0, "medial"), Key("two", -12.0, 9.0, "back_in"))),
    "POMME": SignForm(
        (
            Key("claw", -18.0, 17.0, "twist_out"),
            Key("claw", -18.0, 17.0, "twist"),
            Key("claw", -18.0, 17.0, "twist_out"),
            Key("claw", -18.0, 17.0, "twist"),
        ),
        beats=1.2,
    ),
    "LIVRE": _same(Key("flat", -9.0, -6.0, "back_in"), Key("flat", -21.0, -6.0, "back")),
    # doing
    "ALLER": _same(Key("point", -11.0, -8.0, "tilt_in"), Key("point", -25.0, 6.0, "tilt_out")),
    "AIMER": SignForm((Key("spread", -8.0, -8.0, "medial"), Key("spread", -15.0, 8.0, "back_in"))),
    "MANGER": SignForm(
        (
            Key("bunch", -15.0, 5.0, "back_in"),
            Key("bunch", -12.0, 13.0, "back_in"),
            Key("bunch", -15.0, 5.0, "back_in"),
            Key("bunch", -12.0, 13.0, "back_in"),
        ),
        beats=1.2,
    ),
    "BOIRE": SignForm(
        (Key("curved", -15.0, 3.0, "oblique"), Key("curved", -12.0, 14.0, "tilt_in"))
    ),
    "VOULOIR": _same(Key("spread", -18.0, 2.0, "back_in"), Key("fist", -13.0, -10.0, "back_in")),
    "ACHETER": SignForm((Key("coin", -11.0, -5.0, "oblique"), Key("coin", -26.0, 0.0, "palm"))),
    "LIRE": SignForm(
        (Key("fork", -13.0, 9.0, "tilt_in"), Key("fork", -13.0, -4.0, "tilt_in")),
        (Key("flat", -13.0, -6.0, "back"), Key("flat", -13.0, -6.0, "back")),
    ),
    "DORMIR": SignForm((Key("spread", -15.0, 26.0, "back"), Key("bunch", -15.0, 16.0, "back_in"))),
    # how
    "FATIGUE": _same(Key("claw", -12.0, 4.0, "back_in"), Key("relaxed", -14.0, -12.0, "medial")),
    "CONTENT": _same(
        Key("spread", -24.0, 10.0, "tilt_in"),
        Key("spread", -24.0, 16.0, "tilt_out"),
        Key("spread", -24.0, 10.0, "tilt_in"),
        Key("spread", -24.0, 16.0, "tilt_out"),
        beats=1.2,
    ),
    "GRAND": _same(Key("corner", -13.0, 3.0, "palm"), Key("corner", -29.0, 3.0, "palm")),
    # yes, no, questions
    "NON": SignForm(
        (
            Key("point", -24.0, 14.0, "tilt_in"),
            Key("point", -24.0, 14.0, "tilt_out"),
            Key("point", -24.0, 14.0, "tilt_in"),
            Key("point", -24.0, 14.0, "tilt_out"),
        ),
        beats=1.2,
    ),
    "QUESTION": SignForm(
        (
            Key("horns", -22.0, 4.0, "oblique"),
            Key("horns", -22.0, 10.0, "palm"),
            Key("horns", -22.0, 4.0, "oblique"),
        ),
        beats=1.1,
    ),
}

REST = Key("relaxed", -17.0, -29.0, "rest", 15.0)


def orientation(name: str) -> Floats:
    """The hand frame of a named orientation, shape (3, 3)."""
    fingers, palm = ORIENTATIONS[name]
    return hand_frame(np.array(fingers), np.array(palm))
