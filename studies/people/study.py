"""Drawn people who sign single signs, each in a way of their own, as landmarks.

People differ in size, pace, amplitude, leading hand and camera, and each of their signs in place,
hand shape, orientation, repeats and length. The landmarks are true ones with noise, and hands that
are lost for some frames.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from signloom.config import Count, Natural, Share, checked_dataclass
from signloom.corpus.landmarks import HANDS_POSE, POSE_LANDMARKS, LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import write_shards
from signloom_demo.lexicon import HAND_SHAPES, LEXICON, ORIENTATIONS, Key, SignForm, orientation
from signloom_demo.motion import perform
from signloom_demo.render import VIEW_HEIGHT, Camera
from signloom_demo.scene import HEAD, Arm, pose_arms, shoulder_of
from signloom_demo.signer import TRAIN_SIGNERS, Signer
from signloom_demo.skeleton import Floats, mirror

WIDTH, HEIGHT, FPS = 640, 480, 25.0
PLACE_CM = 3.5  # deviation of where a person makes a sign
OTHER_SHAPE, OTHER_TURN, REPEATED = 0.25, 0.25, 0.25  # shares of signs
NEAR = 3  # hand shapes and orientations that another may be taken for
LOST, LOST_FRAMES = 0.02, 3.0  # how often a hand gets lost, and for how long in the mean
NOISE = 0.003  # deviation of a landmark, picture widths
HIP = np.array([-10.0, -46.0, -6.0])  # the right one, world cm, of an adult of width 1
NOSE = HEAD + np.array([0.0, -1.9, 8.3])
FRAMES_PER_SHARD = 20_000


@checked_dataclass
class PeopleOptions:
    """The section `study` of the study's parameters."""

    corpus: Path  # folder to make
    signs: Count  # of the demo's 32 that are taught; the others are the unknown ones
    takes: Count  # of each sign by each person
    dev_people: Natural
    test_people: Count
    left_handed: Share  # of the people


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPerson:
    """A signer, the camera in front, and how each sign is signed."""

    signer: Signer
    camera: Camera
    lexicon: Mapping[str, SignForm]


def draw_person(name: str, rng: np.random.Generator, left_handed: float) -> DrawnPerson:
    """Draw a person.

    Args:
        name: As in the manifest.
        left_handed: The chance that the left hand leads.
    """
    signer = replace(
        TRAIN_SIGNERS[0],
        name=name,
        size=float(rng.uniform(0.88, 1.12)),
        width=float(rng.uniform(0.9, 1.1)),
        speed=float(np.exp(rng.normal(0.0, 0.2))),
        amplitude=float(np.exp(rng.normal(0.0, 0.2))),
        jitter_cm=float(rng.uniform(0.4, 1.2)),
        smoothness=float(rng.uniform(0.5, 1.2)),
        left_handed=bool(rng.random() < left_handed),
    )
    camera = Camera(
        width=WIDTH,
        height=HEIGHT,
        shift_x=float(rng.normal(0.0, 6.0)),
        shift_y=float(rng.normal(0.0, 4.0)),
        zoom=float(rng.uniform(0.8, 1.05)),
        tilt_deg=float(rng.normal(0.0, 3.0)),
    )
    return DrawnPerson(signer, camera, {sign: _vary(form, rng) for sign, form in LEXICON.items()})


def _vary(form: SignForm, rng: np.random.Generator) -> SignForm:
    """Return how one person makes a sign."""
    shift = rng.normal(0.0, PLACE_CM, 3)
    shapes, turns = rng.integers(1, NEAR + 1, 2) * (rng.random(2) < (OTHER_SHAPE, OTHER_TURN))
    repeat = rng.random() < REPEATED

    def change(keys: Sequence[Key]) -> tuple[Key, ...]:
        changed = [
            Key(
                _near_shapes(key.shape)[shapes],
                key.x + float(shift[0]),
                key.y + float(shift[1]),
                _near_turns(key.turn)[turns],
                key.z + float(shift[2]),
            )
            for key in keys
        ]
        if repeat:
            changed = changed * 2 if len(changed) <= 2 else changed[: len(changed) // 2 + 1]
        return tuple(changed)

    beats = form.beats * float(np.exp(rng.normal(0.0, 0.2))) * (1.4 if repeat else 1.0)
    return SignForm(change(form.dominant), change(form.other), beats)


@functools.cache
def _near_shapes(name: str) -> list[str]:
    """Return all hand shapes, the likest first."""

    def apart(other: str) -> float:
        ends = (HAND_SHAPES[shape] for shape in (name, other))
        numbers = [np.concatenate([end.flex.ravel(), end.thumb.ravel()]) for end in ends]
        return float(np.abs(numbers[0] - numbers[1]).sum())

    return sorted(HAND_SHAPES, key=apart)


@functools.cache
def _near_turns(name: str) -> list[str]:
    """Return all orientations of a hand, the likest first."""
    frame = orientation(name)
    return sorted(ORIENTATIONS, key=lambda other: -float((frame * orientation(other)).sum()))


def draw_take(person: DrawnPerson, sign: str, rng: np.random.Generator) -> LandmarkSequence:
    """Return the landmarks of one take of a sign."""
    performance = perform([sign], person.signer, FPS, rng, lexicon=person.lexicon)
    arms = pose_arms(performance, person.signer)
    hands = np.stack([arm.joints for arm in arms], axis=1)
    body = _pose(arms, person.signer)
    world = np.concatenate([hands.reshape(len(hands), -1, 3), body], axis=1)
    points = np.empty(world.shape, np.float32)
    points[..., :2] = person.camera.project(world) / np.array([WIDTH, HEIGHT])
    origins = [hands[:, 0, :1], hands[:, 1, :1], body[:, -2:].mean(axis=1, keepdims=True)]
    sizes = [hands.shape[2], hands.shape[2], body.shape[1]]
    depths = np.repeat(np.concatenate(origins, axis=1)[..., 2], sizes, axis=1) - world[..., 2]
    points[..., 2] = depths * HEIGHT / (VIEW_HEIGHT * WIDTH)
    points += rng.normal(0.0, NOISE, points.shape).astype(np.float32)
    present = np.ones((len(points), 3), np.bool_)
    for column in range(2):
        for start in np.flatnonzero(rng.random(len(points)) < LOST):
            present[start : start + rng.geometric(1 / LOST_FRAMES), column] = False
    points[~np.repeat(present, sizes, axis=1)] = np.nan
    return LandmarkSequence(points=points, present=present, fps=FPS, width=WIDTH, height=HEIGHT)


def _pose(arms: tuple[Arm, Arm], signer: Signer) -> Floats:
    """Return the landmarks of the body in the order of `POSE_LANDMARKS`, world cm, (S, 9, 3)."""
    hip = HIP * np.array([signer.width, 1.0, 1.0]) * signer.size
    shoulder, frames = shoulder_of(signer), len(arms[0].elbow)
    left, right = arms
    places = {
        "nose": NOSE * signer.size,
        "left_shoulder": mirror(shoulder),
        "right_shoulder": shoulder,
        "left_elbow": left.elbow,
        "right_elbow": right.elbow,
        "left_wrist": left.joints[:, 0],
        "right_wrist": right.joints[:, 0],
        "left_hip": mirror(hip),
        "right_hip": hip,
    }
    rows = [np.broadcast_to(places[name], (frames, 3)) for name in POSE_LANDMARKS]
    return np.stack(rows, axis=1)


def draw_corpus(
    options: PeopleOptions, people: int, seed: int
) -> tuple[list[Clip], list[Clip], Path]:
    """Draw some people and write their landmarks.

    Args:
        people: In train; those of fewer are among those of more.
        seed: Of the draw of people and signs.

    Returns:
        The clips of the signs that are taught, those of the other signs (all but train's), and the
        folder of all their landmarks.
    """
    signs = np.random.default_rng(seed).permutation(sorted(LEXICON)).tolist()
    sequences: dict[str, LandmarkSequence] = {}
    taught, unknown = list[Clip](), list[Clip]()
    for split, number in _list_people(options, people):
        stream = ("train", "dev", "test").index(split)
        rng = np.random.default_rng([seed, stream, number])
        person = draw_person(f"{split}{number}", rng, options.left_handed)
        for sign in signs:
            is_taught = sign in signs[: options.signs]
            for take in range(options.takes):
                name = f"{person.signer.name}-{sign}-{take}"
                sequences[name] = draw_take(person, sign, rng)
                clip = Clip(
                    clip_id=name, video=None, text=sign, signer=person.signer.name, split=split
                )
                (taught if is_taught else unknown).append(clip)
    folder = options.corpus / f"{people}-{seed}"
    write_shards(
        folder / IMPORTED_SHARDS,
        {name: len(sequence.points) for name, sequence in sequences.items()},
        sequences.__getitem__,
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=FRAMES_PER_SHARD,
    )
    return taught, unknown, folder


def _list_people(options: PeopleOptions, people: int) -> Iterator[tuple[str, int]]:
    counts = {"train": people, "dev": options.dev_people, "test": options.test_people}
    for split, count in counts.items():
        yield from ((split, number) for number in range(count))
