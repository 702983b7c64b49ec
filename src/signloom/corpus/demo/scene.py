"""From a performance to pictures: one signer, one camera, one frame after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from signloom.corpus.demo.body import arm_solids, shoulder_of, trunk_solids
from signloom.corpus.demo.motion import Performance
from signloom.corpus.demo.render import FAR, Camera, Picture, Solids, draw
from signloom.corpus.demo.signer import Signer, backdrop
from signloom.corpus.demo.skeleton import (
    Floats,
    HandTrack,
    finger_palm_normals,
    hand_joints,
    mirror,
    place_arm,
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
    other = _pose(performance.other, signer)
    return (_reflect(dominant), other) if signer.left_handed else (_reflect(other), dominant)


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


def true_joints(arms: tuple[Arm, Arm], camera: Camera) -> Floats:
    """Where the hands' joints are in the picture.

    Returns:
        Signer's left, then right hand; shape (S, 2, 21, 2), x and y in [0, 1] inside the picture.
    """
    joints = np.stack([arm.joints for arm in arms], axis=1)
    shares: Floats = camera.project(joints) / np.array([camera.width, camera.height])
    return shares


def draw_frames(
    arms: tuple[Arm, Arm], signer: Signer, camera: Camera, room: np.random.Generator
) -> Iterator[Image]:
    """Draw the frames of a clip, BGR, shape (height, width, 3) each.

    Background and trunk stand still, so they are drawn once. `room` decides what the background
    looks like.
    """
    rays = camera.rays()
    wall = backdrop(signer, camera.width, camera.height, room).reshape(-1, 3).astype(np.float32)
    empty = Picture(colour=wall, depth=np.full(len(wall), FAR, dtype=np.float32))
    still = draw(trunk_solids(signer), empty, camera, rays)
    for index in range(len(arms[0].elbow)):
        solids = [_arm_at(arm, signer, index) for arm in arms]
        picture = draw(_together(*solids), still, camera, rays)
        yield picture.colour.reshape(camera.height, camera.width, 3).astype(np.uint8)


def _arm_at(arm: Arm, signer: Signer, index: int) -> Solids:
    return arm_solids(
        signer, arm.shoulder, arm.elbow[index], arm.joints[index], arm.inner[index], arm.palm[index]
    )


def _together(one: Solids, two: Solids) -> Solids:
    return replace(
        one,
        **{
            name: np.concatenate([getattr(one, name), getattr(two, name)])
            for name in Solids.__slots__
        },
    )
