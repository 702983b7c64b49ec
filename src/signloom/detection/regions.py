"""Regions: turned rectangles of a picture that a network looks at, and the ways there and back.

Each function does what one calculator of MediaPipe does, in single precision and in its order, so
that the numbers are the same to the bit; the calculator's file is named. Sizes are width, height.
"""

import ctypes
import math
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from signloom.detection.networks import Picture

F = np.float32
Points = npt.NDArray[np.float32]  # shape (landmarks, 2 or 3), parts of the picture
Size = tuple[int, int]
Pair = tuple[np.float32, np.float32]

# C's own, as MediaPipe calls them: they do not always round to the nearest number.
_C = ctypes.CDLL(None)
_ATAN2, _COS, _SIN = _C.atan2f, _C.cosf, _C.sinf
for _function, _count in ((_ATAN2, 2), (_COS, 1), (_SIN, 1)):
    _function.argtypes, _function.restype = (ctypes.c_float,) * _count, ctypes.c_float
_UP = F(math.pi * 90 / 180)
_DOWN = F(math.pi * -90 / 180)


@dataclass(frozen=True, slots=True)
class Region:
    """A turned rectangle: MediaPipe's NormalizedRect."""

    x: np.float32  # of the centre, in picture widths
    y: np.float32  # likewise, in picture heights
    width: np.float32  # in picture widths
    height: np.float32  # in picture heights
    rotation: np.float32  # clockwise, in radians


WHOLE = Region(F(0.5), F(0.5), F(1), F(1), F(0))


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """What a network sees of a region."""

    rgb: Picture  # shape (size, size, 3)
    padding: Pair
    """Of the region's width and height, the share on each side that was added to make it square."""


def crop(
    rgb: Picture, region: Region, size: int, *, border: int = cv2.BORDER_REPLICATE, pad: bool = True
) -> Crop:
    """Cut a region out (image_to_tensor_converter_opencv.cc, PadRoi of image_to_tensor_utils.cc).

    Args:
        rgb: Shape (height, width, 3).
        size: Pixels of the square that it becomes.
        border: What lies outside the picture.
        pad: Make the region square first.

    Raises:
        RuntimeError: If the picture is empty.
    """
    if rgb.size == 0:
        raise RuntimeError("the frame is empty")
    centre, sides, padding = _pad(region, (rgb.shape[1], rgb.shape[0]), is_square=pad)
    degrees = F(float(region.rotation * F(180)) / math.pi)
    corners = cv2.boxPoints(
        ((float(centre[0]), float(centre[1])), (float(sides[0]), float(sides[1])), float(degrees))
    )
    target = np.array([[0, size], [0, 0], [size, 0], [size, size]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners, target)
    if border == cv2.BORDER_REPLICATE:
        rgb = _widen(rgb, corners, 8 * size * size)
    cut = cv2.warpPerspective(rgb, matrix, (size, size), flags=cv2.INTER_LINEAR, borderMode=border)
    return Crop(np.asarray(cut, np.uint8), padding)


def _widen(rgb: Picture, corners: Points, most: int) -> Picture:
    """Return a picture whose last row and column are repeated as far as a region reaches.

    OpenCV is quick only inside of a picture. Not to the left and above, where every number would
    change, and with it how a half is rounded.

    Args:
        corners: Of the region, pixels, shape (4, 2).
        most: Pixels of the result; if it had more, the picture is returned.
    """
    height, width = rgb.shape[:2]
    right, bottom = (math.ceil(edge) + 2 for edge in corners.max(axis=0).tolist())
    beyond = max(bottom - height, 0), max(right - width, 0)
    if not any(beyond) or (height + beyond[0]) * (width + beyond[1]) > most:
        return rgb
    wide = cv2.copyMakeBorder(rgb, 0, beyond[0], 0, beyond[1], cv2.BORDER_REPLICATE)
    return np.asarray(wide, np.uint8)


def _pad(region: Region, size: Size, *, is_square: bool) -> tuple[Pair, Pair, Pair]:
    """Return a region's centre and sides in pixels, and what was added to make it square."""
    wide, high = F(size[0]), F(size[1])
    centre = region.x * wide, region.y * high
    sides = region.width * wide, region.height * high
    aspect = sides[1] / sides[0]
    if not is_square:
        return centre, sides, (F(0), F(0))
    if F(1) > aspect:
        return centre, (sides[0], sides[0]), (F(0), (F(1) - aspect) / F(2))
    return centre, (sides[1], sides[1]), ((F(1) - F(1) / aspect) / F(2), F(0))


def uncrop(points: Points, padding: Pair) -> Points:
    """Return points of a crop as points of its region (landmark_letterbox_removal_calculator.cc).

    Args:
        points: In sizes of the crop.
        padding: Of the crop.
    """
    left, top = padding
    moved = points.copy()
    moved[:, 0] = (points[:, 0] - left) / (F(1) - (left + left))
    moved[:, 1] = (points[:, 1] - top) / (F(1) - (top + top))
    moved[:, 2:] = points[:, 2:] / (F(1) - (left + left))
    return moved


def project(points: Points, region: Region) -> Points:
    """Return points of a region as points of the picture (landmark_projection_calculator.cc)."""
    cos, sin = _turn(region.rotation)
    x, y = points[:, 0] - F(0.5), points[:, 1] - F(0.5)
    moved = points.copy()
    moved[:, 0] = (cos * x - sin * y) * region.width + region.x
    moved[:, 1] = (sin * x + cos * y) * region.height + region.y
    if points.shape[1] > 2:
        moved[:, 2] = points[:, 2] * region.width
    return moved


def project_square(points: Points, region: Region, size: Size) -> Points:
    """Return points of a crop as points of the picture, in one step.

    It is the PROJECTION_MATRIX way of detection_projection_calculator.cc and
    GetRotatedSubRectToRectTransformMatrix of image_to_tensor_utils.cc.

    Args:
        points: Shape (points, 2), in sizes of the crop.
        region: What was cut out.
        size: Of the picture.
    """
    (x, y), (width, height), _ = _pad(region, size, is_square=True)
    cos, sin = _turn(region.rotation)
    over, down = F(1) / F(size[0]), F(1) / F(size[1])
    half = F(0.5)
    moved = np.empty_like(points)
    moved[:, 0] = (
        points[:, 0] * (width * cos * over)
        + points[:, 1] * (-height * sin * over)
        + (-half * width * cos + half * height * sin + x) * over
    )
    moved[:, 1] = (
        points[:, 0] * (width * sin * down)
        + points[:, 1] * (height * cos * down)
        + (-half * height * cos - half * width * sin + y) * down
    )
    return moved


def region_of_points(centre: Points, edge: Points, size: Size, *, down: bool = False) -> Region:
    """Return the square about a centre whose side is twice the way to an edge, which is up.

    It is alignment_points_to_rects_calculator.cc.

    Args:
        centre: Shape (2,), parts of the picture.
        edge: Likewise.
        size: Of the picture.
        down: The edge is down.
    """
    x, y = centre[0] * F(size[0]), centre[1] * F(size[1])
    to_x, to_y = edge[0] * F(size[0]), edge[1] * F(size[1])
    side = np.sqrt((to_x - x) * (to_x - x) + (to_y - y) * (to_y - y)) * F(2)
    rotation = _angle(_DOWN if down else _UP, to_x - x, to_y - y)
    return _pixels(x, y, side, side, rotation, size)


def region_of_wrist(points: Points, size: Size) -> Region:
    """Return where a hand may be (hand_detections_from_pose_to_rects_calculator.cc).

    Args:
        points: Wrist, little finger and index finger of the pose, shape (3, 2 or 3).
        size: Of the picture.
    """
    (wrist_x, wrist_y), (little_x, little_y), (index_x, index_y) = (
        (point[0] * F(size[0]), point[1] * F(size[1])) for point in points
    )
    middle_x = (F(2) * index_x + little_x) / F(3)
    middle_y = (F(2) * index_y + little_y) / F(3)
    x, y = middle_x - wrist_x, middle_y - wrist_y
    side = np.sqrt(x * x + y * y) * F(2)
    rotation = _angle(F(math.pi * 0.5), x, y)
    return _pixels(middle_x, middle_y, side, side, rotation, size)


def region_of_hand(points: Points, size: Size) -> Region:
    """Return the tight rectangle about a hand's landmarks (hand_landmarks_to_rect_calculator.cc).

    Args:
        points: Shape (21, 2 or 3).
        size: Of the picture.
    """
    wide, high = F(size[0]), F(size[1])
    palm = points[_PALM]
    wrist, index, middle, ring = palm[0], palm[4], palm[6], palm[8]
    fingers = ((index[:2] + ring[:2]) / F(2) + middle[:2]) / F(2)
    rotation = _angle(
        F(math.pi * 0.5), fingers[0] * wide - wrist[0] * wide, fingers[1] * high - wrist[1] * high
    )
    low, top = palm[:, :2].min(axis=0), palm[:, :2].max(axis=0)
    centre_x, centre_y = (top + low) / F(2)
    cos, sin = _turn(_wrap(-rotation))
    x, y = (palm[:, 0] - centre_x) * wide, (palm[:, 1] - centre_y) * high
    turned_x, turned_y = x * cos - y * sin, x * sin + y * cos
    left, right, upper, lower = turned_x.min(), turned_x.max(), turned_y.min(), turned_y.max()
    cos, sin = _turn(rotation)
    middle_x, middle_y = (right + left) / F(2), (lower + upper) / F(2)
    return _pixels(
        middle_x * cos - middle_y * sin + wide * centre_x,
        middle_x * sin + middle_y * cos + high * centre_y,
        right - left,
        lower - upper,
        rotation,
        size,
    )


_PALM = [0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18]


def region_of_box(
    low: Points, sides: Points, start: Points, end: Points, size: Size, *, level: bool = False
) -> Region:
    """Return a rectangle, turned by two points in it (detections_to_rects_calculator.cc).

    Args:
        low: Left and upper edge, shape (2,), parts of the picture.
        sides: Width and height, likewise.
        start: Likewise.
        end: Likewise; the way there is up.
        size: Of the picture.
        level: The way there is to the right.
    """
    x, y = low + sides / F(2)
    return Region(x, y, sides[0], sides[1], _rotation(start, end, size, level=level))


def region_about(points: Points, start: Points, end: Points, size: Size) -> Region:
    """Return the rectangle about key points (the same calculator, USE_KEYPOINTS), turned level.

    Args:
        points: Shape (points, 2), parts of the picture.
        start: Shape (2,), likewise.
        end: Likewise; the way there is to the right.
        size: Of the picture.
    """
    low, high = box_of(points)
    x, y = (low + high) / F(2)
    width, height = high - low
    return Region(x, y, width, height, _rotation(start, end, size, level=True))


def box_of(points: Points) -> tuple[Points, Points]:
    """Return lower and upper edges, shape (2,) each (landmarks_to_detection_calculator.cc).

    No upper edge is below 0, since MediaPipe takes the least positive number for the least one.
    """
    tiny = np.finfo(np.float32).tiny
    return points[:, :2].min(axis=0), np.maximum(points[:, :2].max(axis=0), tiny)


def _rotation(start: Points, end: Points, size: Size, *, level: bool) -> np.float32:
    wide, high = F(size[0]), F(size[1])
    x, y = end[0] * wide - start[0] * wide, end[1] * high - start[1] * high
    return _angle(F(0) if level else _UP, x, y)


def grow(region: Region, size: Size, scale: float, shift: float = 0.0) -> Region:
    """Make a region square and larger (rect_transformation_calculator.cc).

    Args:
        size: Of the picture.
        shift: First move it by this many of its heights along its own vertical.
    """
    wide, high = F(size[0]), F(size[1])
    cos, sin = _turn(region.rotation)
    way = high * region.height * F(shift)
    x, y = region.x + -way * sin / wide, region.y + way * cos / high
    side = max(region.width * wide, region.height * high)
    return Region(x, y, side / wide * F(scale), side / high * F(scale), region.rotation)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far something may move from one frame to the next and still be followed."""

    degrees: float  # turn
    way: float  # in sizes of its region, across and down each
    growth: float  # of its region, likewise
    margin: float  # by how much the region grows that must hold the last landmarks, likewise


def stays(before: Region, points: Points, now: Region, size: Size, reach: Reach) -> bool:
    """Return whether something can be followed by where it was (roi_tracking_calculator.cc).

    Args:
        before: The region about its last landmarks.
        points: Its last landmarks.
        now: Where something else says that it is.
        size: Of the picture.
        reach: Limits.
    """
    sides = np.array([*size], np.float32)
    # Turned so that the sides of `now` are upright.
    cos, sin = _turn(-now.rotation)
    corners = np.concatenate(([[before.x, before.y], [now.x, now.y]], points[:, :2])) * sides
    x, y = corners[:, 0] * cos - corners[:, 1] * sin, corners[:, 0] * sin + corners[:, 1] * cos
    wide, high = (now.width, now.height) * sides
    turned = F(float(before.rotation) / math.pi * 180) - F(float(now.rotation) / math.pi * 180)
    turned = abs(turned - F(360) if turned > 180 else turned + F(360) if turned < -180 else turned)
    if (
        turned > F(reach.degrees)
        or abs(x[0] - x[1]) > wide * F(reach.way)
        or abs(y[0] - y[1]) > high * F(reach.way)
        or abs(before.width * sides[0] - wide) > wide * F(reach.growth)
        or abs(before.height * sides[1] - high) > high * F(reach.growth)
    ):
        return False
    half_wide, half_high = (side * (F(1) + F(reach.margin)) * F(0.5) for side in (wide, high))
    return bool(
        np.all(x[1] - half_wide < x[2:])
        and np.all(x[2:] < x[1] + half_wide)
        and np.all(y[1] - half_high < y[2:])
        and np.all(y[2:] < y[1] + half_high)
    )


def scale_of(region: Region, size: Size) -> np.float32:
    """Return a region's mean side, pixels (landmarks_smoothing_calculator_utils.cc)."""
    return (region.width * F(size[0]) + region.height * F(size[1])) / F(2)


def _pixels(
    x: np.float32,
    y: np.float32,
    width: np.float32,
    height: np.float32,
    rotation: np.float32,
    size: Size,
) -> Region:
    wide, high = F(size[0]), F(size[1])
    return Region(x / wide, y / high, width / wide, height / high, rotation)


def _angle(target: np.float32, x: np.float32, y: np.float32) -> np.float32:
    return _wrap(target - F(_ATAN2(-float(y), float(x))))


def _wrap(angle: np.float32) -> np.float32:
    turns = math.floor((float(angle) + math.pi) / (2 * math.pi))
    return F(float(angle) - 2 * math.pi * turns)


def _turn(rotation: np.float32) -> tuple[np.float32, np.float32]:
    return F(_COS(float(rotation))), F(_SIN(float(rotation)))
