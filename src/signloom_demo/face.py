"""Faces that move: brows, lids, gaze and mouth, painted on the head of a drawn signer.

Outlines are filled on the skin and keep its light, so that a hand may come before them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from signloom_demo.render import Camera, Picture
from signloom_demo.signer import Colour, Signer
from signloom_demo.skeleton import Floats

# cm from the middle of the head: x to the picture's right, y up, z to the camera.
MOUTH, EYE, FACE_Z = (0.0, -4.9), (3.0, 1.0), 6.4
MOUTH_CM = 4.6  # width at rest
CHIN_CM = 2.0  # how far the chin falls
DARK, TEETH, WHITE = (0.10, 0.03, 0.03), (0.85, 0.83, 0.78), (0.92, 0.92, 0.90)
IRIS, PUPIL = (0.20, 0.13, 0.08), (0.02, 0.02, 0.02)
FINE = 4  # parts of a pixel's side
ALONG = np.linspace(-1, 1, 11)  # from corner to corner
ARCH = 1 - ALONG**2
DISC = np.stack([np.cos(angles := np.arange(16) * np.pi / 8), np.sin(angles)], axis=1)
# The brow at positive x: its line, how far that rises and sinks, and half its thickness.
BROW = np.array([[1.3, 2.6], [2.1, 2.85], [3.0, 3.05], [4.0, 3.0], [4.9, 2.55]])
BROW_RAISED = np.array([0.0, 1.2])
BROW_DRAWN = np.array([[-0.45, -0.95], [-0.35, -0.8], [-0.25, -0.55], [-0.1, -0.3], [0.0, -0.1]])
BROW_CM = np.array([[0.0, 0.42], [0.0, 0.5], [0.0, 0.5], [0.0, 0.4], [0.0, 0.15]])


@dataclass(frozen=True, slots=True)
class Expression:
    """How a face is held, in shares of what it can do.

    open: Distance of the lips.
    spread: Corners of the mouth drawn apart.
    round: Corners drawn together.
    tuck: Lower lip against the upper teeth.
    brows: 1 raised, -1 drawn down and together.
    lids: 1 wide open, 0 at rest, -1 closed.
    gaze: 1 to the picture's right, -1 to its left.
    """

    open: float = 0.04
    spread: float = 0.0
    round: float = 0.0
    tuck: float = 0.0
    brows: float = 0.0
    lids: float = 0.0
    gaze: float = 0.0


Outlines = Sequence[Floats]  # shape (N, 2) each, cm


def paint_face(
    picture: Picture, signer: Signer, camera: Camera, head: Floats, held: Expression
) -> Picture:
    """Return a picture of a head with its face.

    Args:
        picture: What is to be seen without the face.
        head: Middle of the head of a signer of size 1, world cm, shape (3,).
        held: How it is held.
    """
    image = picture.colour.reshape(camera.height, camera.width, 3).copy()
    light = image / np.array(signer.skin[::-1], np.float32)
    for outlines, colour, within in _layers(signer, held):
        cover = _cover(outlines, camera, head, signer.size)
        if within is not None:
            cover *= _cover(within, camera, head, signer.size)
        painted = np.minimum(light * np.array(colour[::-1], np.float32), 255)
        image += cover * (painted - image)
    return replace(picture, colour=image.reshape(-1, 3))


def _cover(outlines: Outlines, camera: Camera, head: Floats, size: float) -> NDArray[np.float32]:
    """Return how much of each pixel lies in an outline, shape (height, width, 1)."""
    mask = np.zeros((camera.height * FINE, camera.width * FINE), np.uint8)
    for outline in outlines:
        face = np.column_stack((outline, np.full(len(outline), FACE_Z)))
        corners = camera.project((head + face) * size) * FINE * 16
        cv2.fillPoly(mask, [np.rint(corners).astype(np.int32)], 255, shift=4)
    cover = cv2.resize(mask, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
    return cover.astype(np.float32)[..., None] / 255


def _layers(signer: Signer, held: Expression) -> Iterator[tuple[Outlines, Colour, Outlines | None]]:
    """Yield outlines, their reflectance and what they are seen within, the lowest first."""
    skin, hair = np.array(signer.skin), np.array(signer.hair)
    upper, inner_upper, inner_lower, lower = mouth_lines(signer, held)
    mouth = [_between(inner_upper, inner_lower)]
    yield [_between(upper, lower)], _colour(skin * (0.82, 0.45, 0.48)), None
    yield mouth, DARK, None
    yield [_between(inner_upper, inner_upper - _up(0.18 + 0.27 * ARCH))], TEETH, mouth
    top, bottom = lid_lines(held)
    eyes = _both(_between(top, bottom))
    yield _both(_between(top + _up(0.45), top)), _colour(skin * 0.7), None
    yield eyes, WHITE, None
    middles = [(side * EYE[0] + 0.62 * held.gaze, EYE[1] + 0.05) for side in (-1, 1)]
    for radius, colour in ((0.58, IRIS), (0.26, PUPIL)):
        yield [middle + radius * DISC for middle in middles], colour, eyes
    yield _both(_between(top + _up(0.2), top - _up(0.05))), DARK, None
    brow = brow_line(held)
    fair = 0.5 if hair[0] > 0.3 else 1.0  # brows are darker than fair hair
    yield _both(_between(brow + BROW_CM, brow - BROW_CM)), _colour(hair * fair), None


def mouth_lines(signer: Signer, held: Expression) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the lips' upper outer, upper inner, lower inner and lower outer edge, (11, 2) each."""
    wide = MOUTH_CM * signer.mouth
    half = 0.5 * wide * (1 + 0.2 * held.spread - 0.45 * held.round)
    lift, drop = 0.10 * wide * held.open, 0.42 * wide * held.open * (1 - 0.8 * held.tuck)
    thick = 0.16 * wide * signer.lips * (1 + 0.2 * held.round)
    rows = (
        (half, lift + thick),
        (0.9 * half, lift),
        (0.9 * half, -drop),
        (half, -drop - 1.2 * thick * (1 - 0.75 * held.tuck)),
    )
    upper_outer, upper_inner, lower_inner, lower_outer = (
        np.stack([MOUTH[0] + width * ALONG, MOUTH[1] + height * ARCH], axis=1)
        for width, height in rows
    )
    return upper_outer, upper_inner, lower_inner, lower_outer


def lid_lines(held: Expression) -> tuple[Floats, Floats]:
    """Return the edges of both lids of the eye at positive x, shape (11, 2) each."""
    shut, wide = max(-held.lids, 0.0), max(held.lids, 0.0)
    top = 0.62 * (1 - shut) - 0.25 * shut + 0.35 * wide
    x = EYE[0] + 1.35 * ALONG
    heights = (top * ARCH, -(0.42 + 0.1 * wide) * ARCH)
    upper, lower = (np.stack([x, EYE[1] + height], axis=1) for height in heights)
    return upper, lower


def brow_line(held: Expression) -> Floats:
    """Return the middle of the brow at positive x, from the nose outwards, shape (5, 2)."""
    moved: Floats = BROW + max(held.brows, 0.0) * BROW_RAISED + max(-held.brows, 0.0) * BROW_DRAWN
    return moved


def _between(line: Floats, opposite: Floats) -> Floats:
    """The outline between two lines."""
    return np.concatenate([line, opposite[::-1]])


def _up(height: float | Floats) -> Floats:
    """A way upwards."""
    return np.stack(np.broadcast_arrays(0.0, height), axis=-1)


def _both(outline: Floats) -> list[Floats]:
    """An outline and its mirror image."""
    return [outline, outline * np.array([-1.0, 1.0])]


def _colour(values: Floats) -> Colour:
    red, green, blue = values.tolist()
    return red, green, blue
