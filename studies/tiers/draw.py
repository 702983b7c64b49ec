"""Draws a signer whose head and face do what a script says.

`python -m studies.tiers.draw film.mp4` draws the film of the manual's picture.
"""

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from signloom_demo import face, scene
from signloom_demo.draw import write_video
from signloom_demo.face import Expression
from signloom_demo.motion import perform
from signloom_demo.render import FAR, Camera, Picture, draw
from signloom_demo.signer import TEST_SIGNERS, Signer, backdrop
from signloom_demo.skeleton import Floats

EASE_S = 0.1  # in which a face or a head gets from one place to another
NECK = np.array([0.0, 15.0, -2.0])  # about which the head turns, world cm
FACE_CM = 19.0  # from the hairline to the chin
ZOOM = 1.6  # head and shoulders fill the picture


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a face or a head does.

    Attributes:
        tier: As the tiers name it.
        value: Likewise.
        start_s: Of the whole movement.
        end_s: Likewise.
        share: How far, 1 is usual.
        times: How often to and fro, of nods, shakes and mouthing.
    """

    tier: str
    value: str
    start_s: float
    end_s: float
    share: float = 1.0
    times: int = 1


# What is held meanwhile, at a share of 1: fields of `Expression`, or the head's angles in degrees
# (down, to the signer's left, towards the left shoulder), or the iris in cm.
HELD: dict[tuple[str, str], dict[str, float]] = {
    ("brows", "up"): {"brows": 0.8},
    ("brows", "down"): {"brows": -0.9},
    ("eyes", "blink"): {"lids": -1.0},
    ("eyes", "wide"): {"lids": 1.0},
    ("gaze", "left"): {"gaze": 1.0},
    ("gaze", "right"): {"gaze": -1.0},
    ("gaze", "down"): {"sunk": 0.55},
    ("mouth", "open"): {"open": 0.6},
    ("mouth", "stretched"): {"spread": 1.0},
    ("mouth", "rounded"): {"round": 0.8},
    ("head turn", "left"): {"yaw": 25.0},
    ("head turn", "right"): {"yaw": -25.0},
    ("head tilt", "left"): {"roll": 15.0},
    ("head tilt", "right"): {"roll": -15.0},
}
SWUNG: dict[tuple[str, str], tuple[str, float]] = {  # one way of a nod, both of a shake
    ("head movement", "nod"): ("pitch", 12.0),
    ("head movement", "shake"): ("yaw", 12.0),
    ("mouth movement", "moving"): ("open", 0.35),
}


def write_script(rounds: int = 2) -> list[Act]:
    """Return acts one after another, each kind as often as there are rounds, weaker each time."""
    acts, now = [], 1.0
    for number in range(rounds):
        share = 1.0 - 0.2 * number
        for tier, value in (*HELD, *SWUNG):
            times = 2 + number
            lasts = (
                {"nod": 0.55, "shake": 0.6, "moving": 0.35}[value] * times
                if (tier, value) in SWUNG
                else {"blink": 0.22, "wide": 0.5}.get(value, 0.7 + 0.3 * number)
            )
            if value == "blink":
                share = 1.0  # a blink that closes half is none
            acts.append(Act(tier, value, now, now + lasts, share, times))
            share = 1.0 - 0.2 * number
            now += lasts + 0.8
    return acts


def hold(acts: Sequence[Act], time_s: float) -> dict[str, float]:
    """Return what is held at a time, by the names of `HELD` and `SWUNG`."""
    held: dict[str, float] = {}
    for act in acts:
        if not act.start_s <= time_s <= act.end_s:
            continue
        kind = act.tier, act.value
        if kind in SWUNG:
            name, most = SWUNG[kind]
            phase = act.times * (time_s - act.start_s) / (act.end_s - act.start_s)
            swing = (
                math.sin(2 * math.pi * phase)
                if name == "yaw"
                else (1 - math.cos(2 * math.pi * phase)) / 2
            )
            held[name] = held.get(name, 0.0) + act.share * most * swing
            continue
        ease_s = min(EASE_S, (act.end_s - act.start_s) / 3)
        way = min(time_s - act.start_s, act.end_s - time_s) / ease_s
        way = min(way, 1.0)
        for name, most in HELD[kind].items():
            held[name] = held.get(name, 0.0) + act.share * most * way * way * (3 - 2 * way)
    return held


@dataclass(frozen=True, kw_only=True, slots=True)
class _HeadCamera(Camera):
    """Another camera's part of the picture around the head, which takes the head for upright."""

    whole: Camera
    left: int
    top: int
    turn: tuple[float, ...]
    size: float

    def project(self, points: Floats) -> Floats:
        """Project points of the head, as it is held upright, to pixels of the part."""
        pixels = self.whole.project(_turn_head(points, self.turn, self.size))
        return pixels - [self.left, self.top]


def _turn_head(points: Floats, turn: Sequence[float], size: float) -> Floats:
    turned: Floats = (points - NECK * size) @ np.reshape(turn, (3, 3)).T + NECK * size
    return turned


def _rotate(held: dict[str, float]) -> tuple[float, ...]:
    """Return the head's rotation, row by row: x to the picture's right, y up, z to the camera."""
    pitch, yaw, roll = (math.radians(held.get(name, 0.0)) for name in ("pitch", "yaw", "roll"))
    about_x = np.array(
        [
            [1, 0, 0],
            [0, math.cos(pitch), -math.sin(pitch)],
            [0, math.sin(pitch), math.cos(pitch)],
        ]
    )
    about_y = np.array(
        [[math.cos(yaw), 0, math.sin(yaw)], [0, 1, 0], [-math.sin(yaw), 0, math.cos(yaw)]]
    )
    about_z = np.array(
        [[math.cos(roll), math.sin(roll), 0], [-math.sin(roll), math.cos(roll), 0], [0, 0, 1]]
    )
    return tuple((about_z @ about_y @ about_x).ravel().tolist())


def draw_script(
    acts: Sequence[Act],
    signer: Signer,
    *,
    face_px: int,
    fps: float,
    seconds: float,
    glosses: Sequence[str] = (),
    seed: int = 1,
) -> Iterator[NDArray[np.uint8]]:
    """Yield BGR pictures, square, of a signer.

    Args:
        face_px: Height of the face in the picture.
        seconds: Of a film without signs.
        glosses: Signs of the hands; none: they rest, and the camera is nearer.
    """
    zoom, shift_y = (1.0, 0.0) if glosses else (ZOOM, 12.0)
    side = 2 * round(face_px / FACE_CM * 95.0 / zoom / 2)
    camera = Camera(width=side, height=side, shift_y=shift_y, zoom=zoom)
    rays, rng = camera.rays(), np.random.default_rng(seed)
    wall = backdrop(signer, side, side, rng).reshape(-1, 3).astype(np.float32)
    empty = Picture(wall, np.full(len(wall), FAR, np.float32))
    performance = perform(glosses or ("BONJOUR",), signer, fps if glosses else 15.0, rng)
    arms = scene.pose_arms(performance, signer)
    trunk = scene._solids(scene._trunk(signer), signer)
    if not glosses:  # the arms hang down
        still = scene._together(*(scene._arm_at(arm, signer, 0) for arm in arms))
        trunk = scene._together(trunk, still)
    body = draw(trunk, empty, camera, rays)
    middle = camera.project(scene.HEAD * signer.size)
    half = round(0.75 * face_px)
    part = _HeadCamera(
        width=2 * half,
        height=2 * half,
        whole=camera,
        left=round(middle[0]) - half,
        top=round(middle[1]) - half,
        turn=(),
        size=signer.size,
    )
    calm: NDArray[np.uint8] | None = None  # most of the time nothing happens
    for number in range(len(performance.sign) if glosses else round(seconds * fps)):
        held = hold(acts, number / fps)
        if not held and not glosses and calm is not None:
            yield calm
            continue
        turn = _rotate(held)
        sunk = held.get("sunk", 0.0)
        shown = {name: held[name] for name in Expression.__slots__ if name in held}
        expression = Expression(**shown)
        expression = replace(
            expression, open=max(expression.open, 0.04), lids=expression.lids - 0.5 * sunk
        )
        cones = scene._head(signer) + scene._nose(signer) + scene._hair(signer)
        solids = scene._solids([*cones, scene._chin(expression.open, signer.skin)], signer)
        solids = replace(
            solids,
            start=_turn_head(solids.start, turn, signer.size),
            end=_turn_head(solids.end, turn, signer.size),
        )
        with_head = draw(solids, body, camera, rays)
        drawn = with_head.colour.reshape(side, side, 3)
        eyes = replace(part, turn=turn)
        rows, columns = (slice(low, low + part.width) for low in (part.top, part.left))
        bare = Picture(drawn[rows, columns].reshape(-1, 3), empty.depth[: part.width**2])
        painted = face.paint_face(bare, signer, eyes, scene.HEAD, expression)
        if sunk:
            painted = _sink_irises(painted, bare, signer, eyes, expression, sunk)
        drawn[rows, columns] = painted.colour.reshape(part.height, part.width, 3)
        if glosses:
            both = scene._together(*(scene._arm_at(arm, signer, number) for arm in arms))
            picture = replace(with_head, colour=drawn.reshape(-1, 3))
            drawn = draw(both, picture, camera, rays).colour.reshape(side, side, 3)
        shown_picture = drawn.astype(np.uint8)
        calm = calm if held else shown_picture
        yield shown_picture


def _sink_irises(
    picture: Picture,
    head: Picture,
    signer: Signer,
    camera: Camera,
    held: Expression,
    sunk_cm: float,
) -> Picture:
    """Return a picture whose irises are lower within the eyes."""
    image = picture.colour.reshape(camera.height, camera.width, 3).copy()
    light = head.colour.reshape(image.shape) / np.array(signer.skin[::-1], np.float32)
    top, bottom = face.lid_lines(held)
    outlines = face._both(face._between(top, bottom))
    within = face._cover(outlines, camera, scene.HEAD, signer.size)
    middles = [(side * face.EYE[0], face.EYE[1] + 0.05 - sunk_cm) for side in (-1, 1)]
    layers = [(outlines, face.WHITE)]
    for radius, colour in ((0.58, face.IRIS), (0.26, face.PUPIL)):
        layers.append(([middle + radius * face.DISC for middle in middles], colour))
    for shapes, colour in layers:
        cover = within * face._cover(shapes, camera, scene.HEAD, signer.size)
        painted = np.minimum(light * np.array(colour[::-1], np.float32), 255)
        image += cover * (painted - image)
    return replace(picture, colour=image.reshape(-1, 3))


def draw_film(
    path: Path,
    acts: Sequence[Act],
    signer: Signer,
    *,
    face_px: int,
    fps: float,
    glosses: Sequence[str] = (),
) -> None:
    """Write a film of a script, with a second at its end; arguments as those of `draw_script`."""
    frames = draw_script(
        acts, signer, face_px=face_px, fps=fps, seconds=acts[-1].end_s + 1.0, glosses=glosses
    )
    first = next(frames)
    write_video(path, itertools.chain([first], frames), fps, (first.shape[1], first.shape[0]))


QUESTION = ("TOI", "VOULOIR", "CAFE", "QUESTION", "MOI", "CAFE", "AIMER", "NON")
ASKED = (
    Act("eyes", "blink", 0.3, 0.52),
    Act("brows", "up", 0.9, 2.9),
    Act("mouth movement", "moving", 1.1, 2.5, times=4),
    Act("eyes", "blink", 3.2, 3.42),
    Act("head movement", "shake", 3.7, 5.5, times=3),
    Act("gaze", "left", 5.8, 6.6),
)
"""The film of the manual's picture: do you want coffee? I do not like coffee."""


if __name__ == "__main__":
    draw_film(Path(sys.argv[1]), ASKED, TEST_SIGNERS[0], face_px=100, fps=25.0, glosses=QUESTION)
