"""Single signs of the drawn signers as landmarks, without a picture."""

import numpy as np

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom_demo.motion import perform
from signloom_demo.render import Camera
from signloom_demo.scene import HEAD, pose_arms, true_joints
from signloom_demo.signer import Signer
from signloom_demo.skeleton import Floats
from signloom_demo.uncut import CUT, Manner

WIDTH, HEIGHT = 640, 480
HIP_CM = 48.0  # below the shoulders
NOSE_CM = np.array([0.0, 0.0, 9.0])  # from the middle of the head
TREMBLE = 0.003  # of landmarks, picture heights


def draw_sign(
    gloss: str, signer: Signer, seed: int, *, fps: float = 12.0, manner: Manner = CUT
) -> LandmarkSequence:
    """Return a take of one sign; hands below the picture are absent, and z is 0."""
    rng = np.random.default_rng([*gloss.encode(), *signer.name.encode(), seed])
    arms = pose_arms(perform((gloss,), signer, fps, rng, manner), signer)
    camera = Camera(width=WIDTH, height=HEIGHT, shift_x=float(rng.normal(0, 1.2)))
    hands = true_joints(arms, camera)
    points = np.zeros((len(hands), HANDS_POSE.points, 3), np.float32)
    present = np.ones((len(hands), len(HANDS_POSE.groups)), np.bool_)

    def place(mark: str, world_cm: Floats) -> None:
        points[:, HANDS_POSE.index("pose", mark), :2] = camera.project(world_cm) / (WIDTH, HEIGHT)

    place("nose", HEAD + NOSE_CM)
    for number, (side, arm) in enumerate(zip(("left", "right"), arms, strict=True)):
        points[:, HANDS_POSE.slice(f"{side}_hand"), :2] = hands[:, number]
        place(f"{side}_shoulder", arm.shoulder)
        place(f"{side}_elbow", arm.elbow)
        place(f"{side}_wrist", arm.joints[:, 0])
        place(f"{side}_hip", arm.shoulder - np.array([0.0, HIP_CM * signer.size, 0.0]))
    points += rng.normal(0, TREMBLE, points.shape).astype(np.float32)
    for number, side in enumerate(("left", "right")):
        is_hidden = hands[:, number, :, 1].mean(axis=1) > 1
        present[is_hidden, HANDS_POSE.group(f"{side}_hand")] = False
        points[is_hidden, HANDS_POSE.slice(f"{side}_hand")] = np.nan
    return LandmarkSequence(points=points, present=present, fps=fps, width=WIDTH, height=HEIGHT)
