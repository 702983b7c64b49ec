"""Pictures of a performance: body, clothes, camera, frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from signloom_demo.face import CHIN_CM, Expression, paint_face
from signloom_demo.motion import Performance
from signloom_demo.render import FAR, Camera, Picture, Solids, draw
from signloom_demo.signer import Colour, Signer, backdrop
from signloom_demo.skeleton import (
    Floats,
    HandTrack,
    finger_palm_normals,
    hand_joints,
    mirror,
    place_arm,
)

SHOULDER = np.array([-17.0, 7.5, -3.0])  # the right one, world cm, of an adult of width 1
HEAD = np.array([0.0, 25.5, 0.0])

Cone = tuple[Floats, Floats, float, float, Colour]  # centres, radii, reflectance
Point = tuple[float, float, float]

# Joints joined by a phalanx, and by the palm; radii at both ends in cm.
PHALANX_BONES = np.array(
    [
        *[(1, 2), (2, 3), (3, 4), (5, 6), (6, 7), (7, 8), (9, 10), (10, 11), (11, 12)],
        *[(13, 14), (14, 15), (15, 16), (17, 18), (18, 19), (19, 20)],
    ]
)
PHALANX_RADII = np.array(
    [
        *[(1.4, 1.15), (1.12, 1.0), (0.98, 0.78)],
        *[(1.05, 0.92), (0.9, 0.8), (0.78, 0.66)],
        *[(1.07, 0.94), (0.92, 0.82), (0.8, 0.68)],
        *[(1.02, 0.9), (0.88, 0.78), (0.76, 0.64)],
        *[(0.92, 0.8), (0.78, 0.7), (0.68, 0.57)],
    ]
)
# 21 to 23 are points half-way between neighbouring knuckles: they close the palm.
PALM_BONES = np.array(
    [
        *[(0, 5), (0, 9), (0, 13), (0, 17), (0, 21), (0, 22), (0, 23)],
        *[(5, 9), (9, 13), (13, 17), (0, 1), (1, 2), (1, 5)],
    ]
)
PALM_RADII = np.array(
    [
        *[(1.55, 1.15), (1.55, 1.2), (1.55, 1.15), (1.45, 1.05)],
        *[(1.55, 1.2), (1.55, 1.2), (1.5, 1.1)],
        *[(1.1, 1.15), (1.15, 1.1), (1.1, 1.0), (1.55, 1.6), (1.6, 1.2), (1.35, 1.0)],
    ]
)


def bgr(colour: Colour) -> Floats:
    """OpenCV's channel order."""
    return np.array(colour[::-1], dtype=float)


def shoulder_of(signer: Signer) -> Floats:
    """The right shoulder, world cm."""
    place: Floats = SHOULDER * np.array([signer.width, 1.0, 1.0]) * signer.size
    return place


def trunk_solids(signer: Signer, *, face: bool = True) -> Solids:
    """Head, hair, neck and trunk: what does not move; with a face that does not, or its nose."""
    features = _eyes(signer) + _nose(signer) + _lips(signer) if face else _nose(signer)
    return _solids(_trunk(signer) + _head(signer) + features + _hair(signer), signer)


def _solids(cones: Sequence[Cone], signer: Signer) -> Solids:
    starts, ends, start_radii, end_radii, colours = zip(*cones, strict=True)
    colour = np.stack([bgr(c) for c in colours])
    return Solids(
        start=np.stack(starts) * signer.size,
        end=np.stack(ends) * signer.size,
        start_radius=np.array(start_radii) * signer.size,
        end_radius=np.array(end_radii) * signer.size,
        colour=colour,
        inner_colour=colour,
        inner=np.zeros_like(colour),
    )


def _at(x: float, y: float, z: float) -> Floats:
    return np.array([x, y, z], dtype=float)


def _both(start: Point, end: Point, radii: tuple[float, float], colour: Colour) -> list[Cone]:
    """A cone and its mirror image."""
    return [
        (_at(side * start[0], *start[1:]), _at(side * end[0], *end[1:]), *radii, colour)
        for side in (-1, 1)
    ]


def _trunk(signer: Signer) -> list[Cone]:
    wide, shirt = signer.width, signer.shirt
    return [
        *_both((6 * wide, -4.0, -6.0), (9 * wide, -50.0, -6.0), (9.5, 9.5), shirt),
        *_both((11 * wide, 1.0, -5.0), (11 * wide, -48.0, -6.0), (7.5, 8.0), shirt),
        *_both((3.0, 7.5, -5.0), (15 * wide, 6.0, -4.5), (6.0, 5.0), shirt),
        *_both((1.0, 12.0, -4.0), (5.0, 11.0, -4.5), (5.2, 4.6), shirt),
        (_at(0.0, 8.0, -3.0), _at(0.0, 18.0, -2.0), 5.0, 4.9, signer.skin),
    ]


def _head(signer: Signer) -> list[Cone]:
    skin = signer.skin
    return [
        (HEAD + _at(0.0, 4.5, 0.0), HEAD + _at(0.0, -2.0, 0.6), 7.6, 6.9, skin),
        (HEAD + _at(0.0, -2.0, 0.8), HEAD + _at(0.0, -7.2, 2.2), 6.7, 4.0, skin),
        (HEAD + _at(-7.3, 0.8, 0.0), HEAD + _at(-7.1, -1.2, 0.0), 1.3, 0.9, skin),
        (HEAD + _at(7.3, 0.8, 0.0), HEAD + _at(7.1, -1.2, 0.0), 1.3, 0.9, skin),
    ]


def _chin(opened: float, skin: Colour) -> Cone:
    """The lower part of the head under a mouth that is open."""
    return HEAD + _at(0.0, -2.0, 0.8), HEAD + _at(0.0, -7.2 - CHIN_CM * opened, 2.2), 6.7, 4.0, skin


def _eyes(signer: Signer) -> list[Cone]:
    white, iris = (0.9, 0.9, 0.88), (0.10, 0.07, 0.05)
    brow = _darker(signer.hair, 0.5) if signer.hair[0] > 0.3 else signer.hair
    shadow = _darker(signer.skin, 0.62)
    y, z = float(HEAD[1]), float(HEAD[2])
    return [
        *_both((2.1, y + 1.0, z + 6.45), (3.9, y + 1.0, z + 5.95), (0.62, 0.55), white),
        *_both((3.0, y + 1.0, z + 6.95), (3.05, y + 1.1, z + 6.95), (0.5, 0.5), iris),
        *_both((2.0, y + 1.75, z + 6.6), (4.1, y + 1.7, z + 5.9), (0.3, 0.3), shadow),
        *_both((1.7, y + 3.0, z + 7.0), (4.5, y + 3.1, z + 5.9), (0.42, 0.34), brow),
    ]


def _nose(signer: Signer) -> list[Cone]:
    shadow, (y, z) = _darker(signer.skin, 0.62), HEAD[1:].tolist()
    return [
        *_both((0.75, y - 2.2, z + 7.6), (1.2, y - 2.2, z + 7.2), (0.6, 0.5), shadow),
        (HEAD + _at(0.0, 1.4, 6.9), HEAD + _at(0.0, -1.9, 8.3), 0.75, 1.05, signer.skin),
    ]


def _lips(signer: Signer) -> list[Cone]:
    lips = (signer.skin[0] * 0.80, signer.skin[1] * 0.52, signer.skin[2] * 0.55)
    return [
        (HEAD + _at(-1.9, -4.9, 6.2), HEAD + _at(1.9, -4.9, 6.2), 0.55, 0.56, lips),
        (HEAD + _at(-1.2, -5.4, 6.2), HEAD + _at(1.2, -5.4, 6.2), 0.6, 0.61, lips),
    ]


def _darker(colour: Colour, share: float) -> Colour:
    return (colour[0] * share, colour[1] * share, colour[2] * share)


def _hair(signer: Signer) -> list[Cone]:
    hair = signer.hair
    if signer.hair_style == "bald":
        return [
            (HEAD + _at(side * 5.6, 0.5, -3.5), HEAD + _at(side * 5.4, 3.0, -3.5), 3.0, 3.1, hair)
            for side in (-1, 1)
        ]
    cones = [
        (HEAD + _at(-1.8, 5.6, -2.6), HEAD + _at(1.8, 5.7, -2.6), 8.4, 8.4, hair),
        (HEAD + _at(-4.6, 7.9, 1.6), HEAD + _at(4.6, 8.1, 1.6), 3.6, 3.6, hair),
        (HEAD + _at(-6.3, 5.5, -1.0), HEAD + _at(-6.6, 1.5, -1.8), 2.3, 1.7, hair),
        (HEAD + _at(6.3, 5.5, -1.0), HEAD + _at(6.6, 1.5, -1.8), 2.3, 1.7, hair),
    ]
    if signer.hair_style == "long":
        cones += [
            (HEAD + _at(side * 6.4, 3.0, -3.0), HEAD + _at(side * 8.0, -16.0, -4.0), 3.4, 3.6, hair)
            for side in (-1, 1)
        ]
    if signer.hair_style == "bun":
        cones.append((HEAD + _at(0.0, 14.5, -3.0), HEAD + _at(0.0, 15.5, -3.0), 4.2, 3.8, hair))
    return cones


def arm_solids(
    signer: Signer, shoulder: Floats, elbow: Floats, joints: Floats, inner: Floats, palm: Floats
) -> Solids:
    """One arm with its hand in one frame.

    Args:
        shoulder: World cm, (3,).
        elbow: World cm, (3,).
        joints: The hand's, world cm, (21, 3).
        inner: Inner side of the phalanges, thumb first, unit, (15, 3).
        palm: Palm normal, unit, (3,).
    """
    size, wrist = signer.size, joints[0]
    joints = np.concatenate([joints, (joints[5:17:4] + joints[9:21:4]) / 2])
    cuff = elbow + (wrist - elbow) * max(signer.sleeve, 0.04)
    girth = 4.3 + (2.7 - 4.3) * signer.sleeve
    starts = np.stack([shoulder, elbow, elbow])
    ends = np.stack([elbow, cuff, wrist])
    start_radii = np.array([5.6, 4.6, 3.7]) * size
    end_radii = np.array([4.6, girth + 0.3, 2.25]) * size
    hand = np.concatenate([PALM_BONES, PHALANX_BONES])
    radii = np.concatenate([PALM_RADII, PHALANX_RADII]) * size
    faces = np.concatenate([np.broadcast_to(palm, (len(PALM_BONES), 3)), inner])
    skin, shirt = bgr(signer.skin), bgr(signer.shirt)
    colour = np.concatenate([np.stack([shirt, shirt, skin]), np.tile(skin, (len(hand), 1))])
    inner_colour = colour.copy()
    inner_colour[3:] = bgr(signer.palm)
    return Solids(
        start=np.concatenate([starts, joints[hand[:, 0]]]),
        end=np.concatenate([ends, joints[hand[:, 1]]]),
        start_radius=np.concatenate([start_radii, radii[:, 0]]),
        end_radius=np.concatenate([end_radii, radii[:, 1]]),
        colour=colour,
        inner_colour=inner_colour,
        inner=np.concatenate([np.zeros((3, 3)), faces]),
    )


Image = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One posed arm on its own side of the signer, world cm, S frames.

    elbow: Shape (S, 3).
    joints: The hand's, shape (S, 21, 3).
    inner: Inner side of the phalanges, thumb first, shape (S, 15, 3).
    palm: Palm normal, shape (S, 3).
    shoulder: Shape (3,).
    """

    elbow: Floats
    joints: Floats
    inner: Floats
    palm: Floats
    shoulder: Floats


def pose_arms(performance: Performance, signer: Signer) -> tuple[Arm, Arm]:
    """The signer's left and right arm; a left-handed signer's dominant hand is the left one."""
    dominant = _pose(performance.dominant, signer)
    nondominant = _pose(performance.other, signer)
    return (
        (_reflect(dominant), nondominant)
        if signer.left_handed
        else (_reflect(nondominant), dominant)
    )


def _pose(track: HandTrack, signer: Signer) -> Arm:
    """Pose a right arm; the whole hand follows a wrist that had to be pulled within reach."""
    shoulder = shoulder_of(signer)
    joints = hand_joints(track, signer.size)
    elbow, wrist = place_arm(shoulder, joints[:, 0], signer.size)
    joints += (wrist - joints[:, 0])[:, None]
    palm = track.frame[:, :, 2]
    fingers = finger_palm_normals(track).reshape(len(palm), 12, 3)
    thumb = np.repeat(palm[:, None], 3, axis=1)
    return Arm(elbow, joints, np.concatenate([thumb, fingers], axis=1), palm, shoulder)


def _reflect(arm: Arm) -> Arm:
    return Arm(
        elbow=mirror(arm.elbow),
        joints=mirror(arm.joints),
        inner=mirror(arm.inner),
        palm=mirror(arm.palm),
        shoulder=mirror(arm.shoulder),
    )


def true_joints(arms: tuple[Arm, Arm], camera: Camera, beside: Floats | None = None) -> Floats:
    """Where the hands' joints are in the picture.

    Args:
        arms: Left and right.
        beside: How far to the right of their place the signer is, cm, shape (S,); None: there.

    Returns:
        Signer's left, then right hand; shape (S, 2, 21, 2), x and y in [0, 1] inside the picture.
    """
    joints = np.stack([arm.joints for arm in arms], axis=1)
    if beside is not None:
        joints = joints.copy()
        joints[..., 0] += beside[:, None, None]
    shares: Floats = camera.project(joints) / np.array([camera.width, camera.height])
    return shares


def draw_frames(
    arms: tuple[Arm, Arm],
    signer: Signer,
    camera: Camera,
    room: np.random.Generator,
    faces: Sequence[Expression] = (),
    beside: Floats | None = None,
) -> Iterator[Image]:
    """Draw the frames of a clip, BGR, shape (height, width, 3) each.

    Background and trunk stand still, so they are drawn once; the trunk again where somebody walks
    (`beside`, see `true_joints`). `room` decides what the background looks like. The face stands
    still, too, unless there is one in `faces` for each frame.
    """
    rays = camera.rays()
    wall = backdrop(signer, camera.width, camera.height, room).reshape(-1, 3).astype(np.float32)
    empty = Picture(colour=wall, depth=np.full(len(wall), FAR, dtype=np.float32))
    trunk, place = trunk_solids(signer, face=not faces), camera
    still = draw(trunk, empty, place, rays)
    for index in range(len(arms[0].elbow)):
        camera = place
        if beside is not None and beside[index]:  # the signer to one side, or we to the other
            camera = replace(place, shift_x=place.shift_x - float(beside[index]))
            still = draw(trunk, empty, camera, rays)
        elif beside is not None and index and beside[index - 1]:
            still = draw(trunk, empty, place, rays)
        solids = [_arm_at(arm, signer, index) for arm in arms]
        head = still
        if faces:
            chin = _solids([_chin(faces[index].open, signer.skin)], signer)
            head = paint_face(draw(chin, still, camera, rays), signer, camera, HEAD, faces[index])
        picture = draw(_together(*solids), head, camera, rays)
        yield picture.colour.reshape(camera.height, camera.width, 3).astype(np.uint8)


def _arm_at(arm: Arm, signer: Signer, index: int) -> Solids:
    return arm_solids(
        signer, arm.shoulder, arm.elbow[index], arm.joints[index], arm.inner[index], arm.palm[index]
    )


def _together(first: Solids, second: Solids) -> Solids:
    return replace(
        first,
        **{
            name: np.concatenate([getattr(first, name), getattr(second, name)])
            for name in Solids.__slots__
        },
    )
