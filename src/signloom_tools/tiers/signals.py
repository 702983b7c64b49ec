"""Signals: what hands, head and face do in each frame of a film, in units of the body.

Hands are measured in shoulder widths, the head in degrees, the face in shares of its height, from
the hairline to the chin. A signer's neutral face is the median of the film: head, brows, eyes, gaze
and the width of the mouth are measured from there. Left and right are the signer's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from signloom.corpus.landmarks import POSE_WRISTS
from signloom.detection.video import even_frames
from signloom.features.features import fill_gaps
from signloom.features.rests import BRIDGE_S, HOLD_S, LOW, TORSO, find_busy, find_runs, speeds
from signloom_tools.holistic import FACES, FilmLandmarks, to_sequence

Floats = npt.NDArray[np.float64]

SIDES = ("right", "left")
UNITS = {
    **dict.fromkeys(("speed", "raised_speed"), "shoulder widths/s"),
    **dict.fromkeys(("to_face", "to_middle", "to_chest", "between"), "shoulder widths"),
    **dict.fromkeys(("pitch", "yaw", "roll", "nod", "shake"), "degrees"),
    **dict.fromkeys(("brow", "mouth_open", "mouth_width", "mouthing"), "face heights"),
    **dict.fromkeys(("closing", "aperture", "gaze_down"), "median apertures"),
    "gaze_side": "eye widths",
    "lead": "share of the way",
    "raised": "hands",
}
"""Of each signal; that of one hand has its side in front of the name."""

_SMOOTH_S = 0.1
_GAP_S = 0.2  # a part that is lost for no longer is where it was
_NOD_S, _SWING_S, _BLINK_S = 0.9, 0.5, 0.5  # what goes and comes back within
_SHAKE_S = 0.8  # within which both ways of a shake lie
_LEAD_S = 1.0  # over which it is measured which hand leads
SHAKE_DEG = 4.0  # a smaller one is none
CLOSED = 0.25  # of the lids' way: where a blink begins and ends
_MOUTH_S = 0.4  # what a mouth does and undoes within is movement

# Points of MediaPipe's mesh; of pairs the signer's right one first.
_TEMPLES, _EYE_CORNERS = ((33, 263), (127, 356), (234, 454)), ((33, 263), (133, 362))
_HAIRLINE, _CHIN = 10, 152
_UPRIGHT = ((10, 2), (151, 164), (9, 94))  # the jaw moves none of them
_BROWS = (66, 107, 296, 336)  # their inner halves, which a frown moves
_LIDS = ((159, 145), (158, 153), (160, 144), (386, 374), (385, 380), (387, 373))
_IRISES = (468, 473)
_LIPS, _MOUTH_CORNERS = (13, 14), (61, 291)
_PALM, _TIPS = (0, 5, 9, 17), (4, 8, 12, 16, 20)
_NOSE, _SHOULDERS, _HIPS = 0, (12, 11), (24, 23)  # of the pose


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """The signals of a film at an even frame rate.

    Attributes:
        values: Shape (S,) each, by name; NaN where not measured.
        fps: Frames a second.
        start_s: When the first frame is shown.
    """

    values: Mapping[str, Floats]
    fps: float
    start_s: float


def measure(film: FilmLandmarks) -> Signals:
    """Return the signals of a film; those of the face only where its irises were found.

    Raises:
        ClipError: If the film is none of landmarks, such as one of a single frame.
    """
    even = even_frames(film.times_s.tolist(), film.fps)
    size = [film.width, film.height, film.width]
    parts = {part: points[even].astype(np.float64) * size for part, points in film.parts.items()}
    sequence = fill_gaps(to_sequence(film), BRIDGE_S)
    values = _measure_hands(parts, find_busy(sequence, HOLD_S), film.fps)
    if "face" in parts and parts["face"].shape[1] == FACES["refined"]:
        values |= _measure_face(parts["face"], film.fps)
    return Signals(values, film.fps, float(film.times_s[0]))


def _measure_hands(
    parts: Mapping[str, Floats], is_signing: npt.NDArray[np.bool_], fps: float
) -> dict[str, Floats]:
    """Return the signals of the hands from points in pixels, shape (S, points, 3) each."""
    pose = parts["pose"][..., :2]
    shoulders = pose[:, _SHOULDERS]
    width = _median(np.linalg.norm(shoulders[:, 0] - shoulders[:, 1], axis=1))
    body = {
        part: (points[..., :2] - _fill(shoulders.mean(1))[:, None]) / width
        for part, points in parts.items()
    }
    hips = _median(body["pose"][:, _HIPS, 1])
    low = LOW * (hips if np.isfinite(hips) else TORSO)
    values: dict[str, Floats] = {"signing": is_signing.astype(float)}
    raised, places, gap = [], [], round(_GAP_S * fps)
    for side, wrist in zip(SIDES, POSE_WRISTS[::-1], strict=True):
        hand = body[f"{side}_hand"]
        of_hand, of_pose = hand[:, _PALM].mean(1), body["pose"][:, wrist]
        is_seen = np.isfinite(of_hand[:, 0])
        # Apart: from the palm to the pose's wrist is no movement.
        pace = [speeds(_fill(track, gap).astype(np.float32), fps) for track in (of_hand, of_pose)]
        speed = np.where(np.isnan(pace[0]), pace[1], pace[0]).astype(np.float64)
        place = np.where(is_seen[:, None], of_hand, of_pose)
        is_raised = is_signing & (place[:, 1] < low)
        points = np.concatenate((hand[:, _TIPS], hand[:, _PALM]), axis=1)
        to_nose = np.linalg.norm(points - body["pose"][:, None, _NOSE], axis=2).min(1)
        values |= {
            f"{side}_speed": np.where(is_signing, speed, np.nan),
            f"{side}_raised_speed": np.where(is_raised, speed, np.nan),
            f"{side}_to_face": np.where(is_raised, to_nose, np.nan),
            f"{side}_to_middle": np.where(is_raised, np.abs(place[:, 0]), np.nan),
            f"{side}_to_chest": np.where(
                is_raised, np.hypot(place[:, 0], place[:, 1] - low / 2), np.nan
            ),
            f"{side}_path": _smooth(np.where(is_signing, np.nan_to_num(speed), 0), fps, _LEAD_S),
        }
        raised.append(is_raised)
        places.append(place)
    both = np.sum(raised, axis=0).astype(float)
    paths = [values[f"{side}_path"] for side in SIDES]
    lead = (paths[0] - paths[1]) / np.maximum(sum(paths), 1e-6)
    values["lead"] = np.where(is_signing & (both > 0), lead, np.nan)
    values["raised"] = np.where(is_signing & (both > 0), _smooth(both, fps, BRIDGE_S), np.nan)
    between = np.linalg.norm(places[0] - places[1], axis=1)
    values["between"] = np.where(both > 1, between, np.nan)
    values["speed"] = np.fmax(*(values[f"{side}_speed"] for side in SIDES))
    return values


def _measure_face(face: Floats, fps: float) -> dict[str, Floats]:
    """Return the signals of head and face from the mesh with irises, (S, 478, 3) in pixels."""
    across, upright = (
        np.mean([face[:, last] - face[:, first] for first, last in pairs], axis=0)
        for pairs in (_TEMPLES, _UPRIGHT)
    )
    x_axis = across / np.linalg.norm(across, axis=1, keepdims=True)
    z_axis = np.cross(x_axis, upright)
    z_axis /= np.linalg.norm(z_axis, axis=1, keepdims=True)
    axes = np.stack((x_axis, np.cross(z_axis, x_axis), z_axis), axis=1)
    # The face's height in each frame, whatever the jaw does.
    length = np.linalg.norm(upright, axis=1)
    height = _median(np.linalg.norm(face[:, _CHIN] - face[:, _HAIRLINE], axis=1) / length) * length

    def place(marks: tuple[int, ...]) -> Floats:
        """Return points in the head's own axes, shape (S, points, 3), face heights; y is down."""
        return np.einsum("sij,spj->spi", axes, face[:, marks]) / height[:, None, None]

    degrees = {
        "pitch": np.arctan2(upright[:, 2], upright[:, 1]),
        "yaw": np.arctan2(across[:, 2], across[:, 0]),
        "roll": np.arctan2(across[:, 1], across[:, 0]),
    }
    corners = place(tuple(mark for pair in _EYE_CORNERS for mark in pair)).reshape(-1, 2, 2, 3)
    eyes, eye_widths = corners.mean(1), np.linalg.norm(corners[:, 0] - corners[:, 1], axis=-1)
    lids = place(tuple(mark for pair in _LIDS for mark in pair)).reshape(-1, len(_LIDS), 2, 3)
    aperture = (lids[:, :, 1, 1] - lids[:, :, 0, 1]).mean(1)
    irises = place(_IRISES)
    above = (lids[:, :, 1, 1].mean(1) - irises[..., 1].mean(1)) / _median(aperture)
    aperture /= _median(aperture)
    upper_lip, lower_lip = np.moveaxis(place(_LIPS), 1, 0)
    right_corner, left_corner = np.moveaxis(place(_MOUTH_CORNERS), 1, 0)
    raw = {
        **{name: np.degrees(angle) for name, angle in degrees.items()},
        "brow": eyes[..., 1].mean(1) - place(_BROWS)[..., 1].mean(1),
        "aperture": aperture,
        "gaze_side": ((irises - eyes)[..., 0] / eye_widths).mean(1),
        "gaze_down": -above,
        "mouth_open": lower_lip[:, 1] - upper_lip[:, 1],
        "mouth_width": np.linalg.norm(left_corner - right_corner, axis=1),
    }
    is_seen = np.isfinite(_fill(raw["pitch"], round(_GAP_S * fps)))
    if not is_seen.any():
        return {}
    whole = {name: _fill(value) for name, value in raw.items()}
    closing = _close(whole["aperture"], _BLINK_S, fps) - whole["aperture"]
    # The mesh nods a little with the lids.
    whole["pitch"] = _fill(np.where(closing < CLOSED, whole["pitch"], np.nan))
    whole = {name: _smooth(value, fps, _SMOOTH_S) for name, value in whole.items()}
    for name in set(whole) - {"mouth_open"}:
        whole[name] = whole[name] - np.median(whole[name][is_seen])
    whole["closing"] = closing  # as it is: a blink is short
    whole["gaze_down"] = -_close(-whole["gaze_down"], _BLINK_S, fps)  # a blink is none
    pitch, yaw = whole["pitch"], whole["yaw"]
    whole["nod"] = pitch + _close(-pitch, _NOD_S, fps)
    to_left, to_right = yaw + _close(-yaw, _SWING_S, fps), _close(yaw, _SWING_S, fps) - yaw
    whole["shake"] = np.minimum(
        np.maximum(to_left, to_right),
        np.minimum(_slide(to_left, _SHAKE_S, fps).max(-1), _slide(to_right, _SHAKE_S, fps).max(-1)),
    )
    is_shaken = _slide(whole["shake"], _SWING_S, fps).max(-1) >= SHAKE_DEG
    whole["yaw"] = np.where(is_shaken, 0.0, yaw)  # a shake is no turn
    ways = [whole[name] for name in ("mouth_open", "mouth_width")]
    ways = [
        np.maximum(way + _close(-way, _MOUTH_S, fps), _close(way, _MOUTH_S, fps) - way)
        for way in ways
    ]
    whole["mouthing"] = np.hypot(*ways)
    return {name: np.where(is_seen, value, np.nan) for name, value in whole.items()}


def _median(values: Floats) -> float:
    """Return the median of what is finite; NaN if nothing is."""
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else np.nan


def _fill(track: Floats, longest: int | None = None) -> Floats:
    """Return a track (S, ...) without its gaps of up to so many frames between two others.

    Without a limit all gaps are filled, those at the ends with the nearest frame.
    """
    is_absent = np.isnan(track).reshape(len(track), -1).any(axis=1)
    seen = np.flatnonzero(~is_absent)
    if not is_absent.any() or not len(seen):
        return track
    columns = track.reshape(len(track), -1).T
    frames = np.arange(len(track))
    filled = np.stack([np.interp(frames, seen, column[seen]) for column in columns], axis=1)
    if longest is not None:
        for start, stop in find_runs(is_absent):
            if stop - start > longest or start == 0 or stop == len(track):
                filled[start:stop] = np.nan
    return filled.reshape(track.shape)


def _slide(values: Floats, seconds: float, fps: float) -> Floats:
    """Return what lies around each frame, shape (S, an odd number of frames)."""
    half = int(seconds * fps / 2)
    return sliding_window_view(np.pad(values, half, mode="edge"), 2 * half + 1)


def _smooth(values: Floats, fps: float, seconds: float) -> Floats:
    return _slide(values, seconds, fps).mean(axis=-1)


def _close(values: Floats, seconds: float, fps: float) -> Floats:
    """Return a track whose valleys that are shorter are filled (morphological closing)."""
    highest: Floats = _slide(values, seconds, fps).max(axis=-1)
    return _slide(highest, seconds, fps).min(axis=-1)
