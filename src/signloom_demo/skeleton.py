"""The signer's joints: 21 of a hand and an elbow, from finger angles.

World coordinates are centimetres: x to the right of the picture, y up, z towards the camera. A
signer faces the camera, so the signer's right hand has negative x. Everything here is a right
hand; a left one is computed as a right one in the mirror and reflected (`mirror`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

JOINTS = 21  # MediaPipe's hand: wrist, then four of thumb, index, middle, ring, little finger
FINGERS = 4  # index, middle, ring, little; the thumb is posed apart

# Adult right hand in its own axes (towards the thumb, along the fingers, out of the palm), cm.
THUMB_ROOT = np.array([2.2, 2.4, 0.9])
KNUCKLES = np.array([[2.7, 9.0, 0.0], [0.5, 9.4, 0.2], [-1.6, 8.8, 0.1], [-3.5, 7.8, -0.2]])
PHALANGES = np.array([[4.5, 2.7, 2.2], [5.0, 3.1, 2.4], [4.6, 2.9, 2.4], [3.6, 2.2, 2.0]])
THUMB_BONES = np.array([4.3, 3.3, 2.7])
PALM_CENTRE = np.array([0.0, 7.0, 0.0])  # what a sign's location places

UPPER_ARM = 29.0
FOREARM = 26.0
ELBOW_POLE = np.array([-0.55, -1.0, -0.35])  # relaxed elbows hang down, out and back


@dataclass(frozen=True, slots=True, eq=False)
class HandTrack:
    """How one (right) hand is held in every frame of a clip.

    centre: Middle of the palm, world cm, shape (S, 3).
    frame: Columns towards the thumb, along the fingers, out of the palm; shape (S, 3, 3).
    flex: Flexion of knuckle and middle joint of four fingers, radians, shape (S, 4, 2).
    spread: Sideways angle of four fingers, towards the thumb positive, radians, shape (S, 4).
    thumb: Directions of the thumb's three bones in the hand's axes, unit, shape (S, 3, 3).
    """

    centre: Floats
    frame: Floats
    flex: Floats
    spread: Floats
    thumb: Floats


def hand_frame(fingers: Floats, palm: Floats) -> Floats:
    """Turn a finger direction and a palm normal into a rotation, shape (3, 3).

    The palm normal is made perpendicular to the fingers, so that both need not be exact.
    """
    along = fingers / np.linalg.norm(fingers)
    out = palm - along * (palm @ along)
    out = out / np.linalg.norm(out)
    return np.stack([np.cross(along, out), along, out], axis=1)


def turn(start: Floats, end: Floats, share: Floats) -> Floats:
    """Rotate evenly about one axis from `start` to `end`, both (S, 3, 3); share (S,) in [0, 1]."""
    step = np.swapaxes(start, -1, -2) @ end
    axis = np.linalg.svd(step - np.eye(3))[2][:, -1]  # what the rotation leaves in place
    skew = step - np.swapaxes(step, -1, -2)
    sine = (axis * np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)).sum(axis=1) / 2
    angle = share * np.arctan2(sine, (np.trace(step, axis1=1, axis2=2) - 1) / 2)
    cross = np.zeros_like(step)
    cross[:, 2, 1], cross[:, 0, 2], cross[:, 1, 0] = axis.T
    cross -= np.swapaxes(cross, -1, -2)
    sin, cos = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    turned: Floats = start @ (np.eye(3) + sin * cross + (1 - cos) * cross @ cross)  # Rodrigues
    return turned


def mirror(points: Floats) -> Floats:
    """Reflect world points (..., 3) left to right."""
    reflected: Floats = points * np.array([-1.0, 1.0, 1.0])
    return reflected


def hand_joints(track: HandTrack, size: float) -> Floats:
    """Place the 21 joints of a right hand.

    Args:
        track: How the hand is held, S frames.
        size: Scale of the hand against the adult of the constants.

    Returns:
        World cm, shape (S, 21, 3), MediaPipe's order. Bone lengths do not depend on the pose.
    """
    frames = len(track.centre)
    local = np.zeros((frames, JOINTS, 3))
    thumb_chain = np.cumsum(track.thumb * THUMB_BONES[:, None], axis=1)
    local[:, 1] = THUMB_ROOT
    local[:, 2:5] = THUMB_ROOT + thumb_chain
    bend = _bend(track.flex)  # (S, 4, 3)
    directions = np.cos(bend)[..., None] * _straight(track.spread)
    directions[..., 2] += np.sin(bend)
    chain = np.cumsum(directions * PHALANGES[..., None], axis=2)  # (S, 4, 3, 3)
    for finger in range(FINGERS):
        first = 5 + 4 * finger
        local[:, first] = KNUCKLES[finger]
        local[:, first + 1 : first + 4] = KNUCKLES[finger] + chain[:, finger]
    local = (local - PALM_CENTRE) * size
    joints: Floats = track.centre[:, None] + np.einsum("sij,spj->spi", track.frame, local)
    return joints


def _straight(spread: Floats) -> Floats:
    """Where each finger points when straight, in the hand's axes, shape (S, 4, 1, 3)."""
    straight: Floats = np.stack([np.sin(spread), np.cos(spread), np.zeros_like(spread)], axis=-1)
    return straight[:, :, None]


def _bend(flex: Floats) -> Floats:
    """Flexion of the three bones against the palm's plane, shape (S, 4, 3)."""
    knuckle, middle = flex[..., 0], flex[..., 1]
    last = 0.65 * middle  # the last joint follows the middle one: they share a tendon
    return np.stack([knuckle, knuckle + middle, knuckle + middle + last], axis=-1)


def finger_palm_normals(track: HandTrack) -> Floats:
    """Which way the inner side of each phalanx faces, world, shape (S, 4, 3, 3)."""
    bend = _bend(track.flex)
    inner = -np.sin(bend)[..., None] * _straight(track.spread)
    inner[..., 2] += np.cos(bend)
    normals: Floats = np.einsum("sij,sfbj->sfbi", track.frame, inner)
    return normals


def place_arm(shoulder: Floats, wrists: Floats, size: float) -> tuple[Floats, Floats]:
    """Solve the right arm's two bones for given wrists.

    Args:
        shoulder: World cm, shape (3,).
        wrists: Wanted wrists, world cm, shape (S, 3).
        size: Scale of the arm.

    Returns:
        Elbows and reached wrists, both (S, 3); a wrist out of reach is pulled in, so that the
        bones keep their lengths.
    """
    upper, lower = UPPER_ARM * size, FOREARM * size
    to_wrist = wrists - shoulder
    distance = np.linalg.norm(to_wrist, axis=1, keepdims=True)
    reach = np.clip(distance, abs(upper - lower) + 1e-6, (upper + lower) * 0.999)
    axis = to_wrist / np.maximum(distance, 1e-9)
    along = (upper**2 - lower**2 + reach**2) / (2 * reach)
    aside = np.sqrt(np.maximum(upper**2 - along**2, 0.0))
    pole = ELBOW_POLE - axis * (axis @ ELBOW_POLE)[:, None]
    pole = pole / np.linalg.norm(pole, axis=1, keepdims=True)
    return shoulder + axis * along + pole * aside, shoulder + axis * reach
