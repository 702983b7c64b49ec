"""Keypoint files of other detectors, and of MediaPipe: JSON and pickles."""

import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from signloom.corpus.landmarks import COORDINATES, PART_POINTS
from signloom.errors import ClipError
from signloom.grouping import group_pairs
from signloom_tools.importing.file_names import MOST_GAPS, SIZES, without_ending
from signloom_tools.importing.foreign import (
    ClipSource,
    ForeignClip,
    LandmarkPart,
    check_memory,
    pick,
    require_rate_and_size,
)
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.people import DetectedPerson, Points, clip_of_points, follow_signer
from signloom_tools.importing.pickles import load_pickle

POINTS = ("keypoints", "keypoint", "pose_keypoints", "poses")  # what people call them
SCORES = ("scores", "keypoint_scores", "score", "confidence")
_FRAMES = ("instance_info", "frames", "results")  # MMPose's, ours and those of pages
_OF_FRAMES = {"image_id", "keypoint_scores", "instances"}  # a list of these is no list of clips
_PEOPLE_NAMES = ("people", "instances", "instance_info")
_JSON_GROWTH = 8  # a number in JSON takes this many times its text in memory
# MediaPipe's results, of any language: names without case, `_` and `landmarks`.
_PARTS = {
    "pose": "pose", "face": "face", "lefthand": "left_hand", "righthand": "right_hand",
    "lh": "left_hand", "rh": "right_hand", "handleft": "left_hand", "handright": "right_hand",
}  # fmt: skip
_HANDS = ("multihand", "hand", "")  # of Hands and HandLandmarker, in no order of sides
_SIDES = ("left_hand", "right_hand")
_TIMES = {
    "time_s": (1.0,),
    "timestampMs": (1e-3,),
    "timestamp_ms": (1e-3,),
    "timestamp": (1.0, 1e-3, 1e-6, 1e-9),
}  # units, of which one gives a rate
_FPS = (1.0, 240.0)  # what frames are dated at
_PEOPLE = 4  # the most in a frame of the Tasks; a longer list is of frames
_IRIS_POINTS = 10  # that a face may also have


def read_keypoints(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the clips of a JSON file or a pickle.

    Raises:
        ClipError: If it cannot be read, or a pickle may not be.
    """
    is_json = path.name.lower().endswith((".json", ".json.gz"))
    content = load_json(path, defaults) if is_json else load_pickle(path, defaults)
    name = without_ending(path.name).removesuffix(".pkl")
    yield from find_clips(path, name, content, defaults)


def read_keypoint_frames(
    path: Path, files: Sequence[Path | None], defaults: SourceDefaults
) -> Iterator[ClipSource]:
    """Yield the one clip of some JSON files, one a frame, in order; None: nobody is there."""
    content = [load_json(file, defaults) if file else None for file in files]
    yield from find_clips(path, path.name, _fill(content), defaults)


def _fill(frames: Sequence[Any]) -> list[Any]:
    """Return frames with one that shows nobody where there is none."""
    first: Any = next(filter(None, frames), {})
    nobody = {"people": []} if isinstance(first, dict) and not _parts(first) else type(first)()
    return [nobody if frame is None else frame for frame in frames]


def _by_number(content: Any) -> Any:
    """Return the frames of a map that has them by their numbers, in order; else what it is."""
    if not (isinstance(content, dict) and content and all(map(str.isdecimal, map(str, content)))):
        return content
    frames = {int(number): frame for number, frame in content.items()}
    first, last = min(frames), max(frames)
    if last - first >= MOST_GAPS * len(frames) or not all(map(is_frame, frames.values())):
        return content
    return _fill([frames.get(number) for number in range(first, last + 1)])


def is_frame(content: Any) -> bool:
    """Return whether a JSON file holds one frame: of OpenPose, MMPose or MediaPipe."""
    if isinstance(content, dict):
        content = content.get("instance_info", content)  # of Sapiens; MMPose has frames below it
    if isinstance(content, dict):
        return "people" in content or bool(_parts(content))
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(person, dict) and "keypoint_scores" in person for person in content)
    )


def load_json(path: Path, defaults: SourceDefaults) -> Any:
    """Return what a JSON file holds.

    Raises:
        ClipError: If it is none, or too big.
    """
    check_memory(_JSON_GROWTH * path.stat().st_size, defaults)
    most = defaults.memory_mb * 1_000_000 // _JSON_GROWTH + 1
    try:
        open_file = gzip.open if path.suffix.lower() == ".gz" else open
        with open_file(path, "rb") as file:
            text = file.read(most)
        check_memory(_JSON_GROWTH * len(text), defaults)
        return json.loads(text)
    except (ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
        raise ClipError(f"{path.name} is not readable JSON ({error})", "write it again") from None


def find_clips(
    path: Path, name: str, content: Any, defaults: SourceDefaults
) -> Iterator[ClipSource]:
    """Yield the clips, whichever of the known shapes the content has."""
    outer = content if isinstance(content, dict) else {}
    frames = None if is_frame(content) else _frames_in(outer)
    content = _by_frame(_by_number(content if frames is None else frames))
    clips: Iterable[tuple[object, Any]] = [(name, content)]
    first: Any = content[0] if isinstance(content, list) and content else None
    if isinstance(content, dict) and not (is_frame(content) or _points_in(content, defaults)):
        clips = [
            (key, entry)
            for key, entry in content.items()
            if isinstance(entry, dict | list) or hasattr(entry, "shape")
        ]
        if not clips:
            raise ClipError(
                f"its keys are {', '.join(map(str, list(content)[:8]))}",
                "expected keypoints, or clips by name; --keys keypoints=NAME says what is meant",
            )
    # A clip an entry: of cameras, as DGS has them, or of lists of frames for each part.
    elif _frames_in(first):
        clips = (
            (
                entry.get("id") or entry.get("name") or (f"{name}-{n}" if content[1:] else name),
                entry,
            )
            for n, entry in enumerate(content, start=1)
        )
    elif _points_in(first, defaults) and not _OF_FRAMES & first.keys():
        clips = (
            (entry.get("name", f"{name}-{n}"), entry) for n, entry in enumerate(content, start=1)
        )
    for key, entry in clips:
        yield str(key), partial(_clip, path, str(key), entry, outer, defaults)


def _frames_in(content: Any) -> Any:
    """Return the frames of a map that has them under one of their names; None: it has not."""
    fields = content if isinstance(content, dict) and not is_frame(content) else {}
    frames = (_by_number(fields[name]) for name in _FRAMES if name in fields)
    series = (*frames, _by_frame(fields))
    return next((frames for frames in series if isinstance(frames, list)), None)


def _clip(
    path: Path, clip_id: str, content: Any, outer: Mapping[str, Any], defaults: SourceDefaults
) -> ForeignClip:
    fields: Mapping[str, Any] = content if isinstance(content, dict) else {}
    first = content[0] if isinstance(content, list) and content else None
    holder = first if isinstance(first, dict) else fields  # of a list, each says it
    stated = _stated_sizes(holder, outer, defaults)
    label = str(fields.get("text") or fields.get("label") or "")
    content = _by_number(_frames_in(fields) or content)
    if parts := _clip_parts(content):
        dated = replace(defaults, fps=defaults.fps or _rate(content))
        fps, width, height = require_rate_and_size(path, dated, stated)
        return ForeignClip(
            clip_id=clip_id,
            parts=parts,
            fps=fps,
            width=width,
            height=height,
            label=label,
            states_size={"width", "height"} <= stated.keys(),
        )
    size = require_rate_and_size(path, defaults, stated)
    content = _unwrap_people(content, defaults)
    if isinstance(content, list) and any(map(_is_people, content)):
        frames = list(_frames(content))
        people, points = max(map(len, frames)), follow_signer(frames)
        return clip_of_points(clip_id, points, None, size, defaults, people=people, label=label)
    if is_frame(content):
        raise ClipError("it holds one frame", "put the frames of a clip into one folder, numbered")
    points, scores = _arrays(content, defaults) if isinstance(content, dict) else (content, None)
    array = _one_person(np.asarray(points, np.float32), ndim=3)
    if scores is not None:
        scores = _one_person(np.asarray(scores, np.float32), ndim=2)
    return clip_of_points(clip_id, array, scores, size, defaults, label=label)


def _stated_sizes(
    fields: Mapping[str, Any], outer: Mapping[str, Any], defaults: SourceDefaults
) -> dict[str, float | int]:
    """Return the frame rate and the picture's size that a clip states, or else its file."""
    sizes = {}
    for key, to_number in SIZES.items():
        name = defaults.keys.get(key, key)
        for holder in (fields, outer):
            if name.split(".")[0] in holder:
                sizes[key] = to_number(pick(holder, name))
                break
    return sizes


def _unwrap_people(content: Any, defaults: SourceDefaults) -> Any:
    """Return the frames of people in a map that has them under the name of its points."""
    points_key = None if is_frame(content) else _points_in(content, defaults)
    frames = content[points_key] if points_key else None
    is_list = isinstance(frames, list) and any(map(_is_people, frames))
    return frames if is_list else content


def _parts(frame: Any) -> dict[str, Points]:
    """Return MediaPipe's parts in one frame, shape (N, 3) each; none of what is something else."""
    entries = frame.items() if isinstance(frame, dict) else ()
    named = {
        str(key).lower().replace("_", "").removesuffix("landmarks"): value for key, value in entries
    }
    parts = {ours: named[name] for name, ours in _PARTS.items() if named.get(name) is not None}
    sides = next((value for name, value in named.items() if "handedness" in name), None)
    hands = next((named[name] for name in _HANDS if name in named), None)
    if isinstance(hands, list) and isinstance(sides, list):
        # The older Hands names the sides of a mirrored picture, the Tasks the signer's.
        is_mirrored = "multihand" in named
        for hand, side in zip(hands, sides, strict=False):
            if name := re.search("left|right", json.dumps(side).lower()):
                is_left = (name[0] == "left") != is_mirrored
                parts["left_hand" if is_left else "right_hand"] = hand
    most = _PEOPLE if any(str(key).lower().endswith("landmarks") for key, _ in entries) else 1
    arrays = {part: _xyz(points, PART_POINTS[part], most) for part, points in parts.items()}
    return {part: array for part, array in arrays.items() if array is not None}


def _by_frame(content: Any) -> Any:
    """Return the frames of a dict that has a series of frames for each part; else what it is."""
    entries = content.items() if isinstance(content, dict) and not is_frame(content) else ()
    arrays = (
        (key, list(np.atleast_1d(np.asarray(e))) if hasattr(e, "__array__") else e)
        for key, e in entries
    )
    parts = {
        key: series
        for key, series in arrays
        if isinstance(series, list) and any(_parts({key: frame}) for frame in series)
    }
    if len({*map(len, parts.values())}) > 1:
        counts = ", ".join(f"{key} {len(series)}" for key, series in parts.items())
        raise ClipError(f"its frames are: {counts}", "give all parts the same number")
    frames = [dict(zip(parts, frame, strict=True)) for frame in zip(*parts.values(), strict=True)]
    return frames or content


def _xyz(points: Any, count: int, most: int) -> Points | None:
    """Return the points of a part, or of the first of at most `most` people; None: no part."""
    if isinstance(points, dict):  # of protocol buffers
        points = points.get("landmark", points.get("landmarks"))
    if isinstance(points, list) and 0 < len(points) <= most:
        points = points[0]
    try:
        rows = [
            [point[axis] for axis in "xyz"] if isinstance(point, dict) else point
            for point in points
        ]
        array = np.asarray(rows, np.float32)
    except (LookupError, TypeError, ValueError):  # no points
        return None
    is_part = array.ndim == 2 and array.shape[1] >= COORDINATES
    is_part &= 0 <= len(array) - count <= _IRIS_POINTS
    return array[:count, :COORDINATES] if is_part else None


def _clip_parts(content: Any) -> dict[str, LandmarkPart]:
    """Return the parts of a clip of MediaPipe's results; none of what is something else."""
    frames = [_parts(frame) for frame in content] if isinstance(content, list) else []
    names = {name for frame in frames for name in frame}
    if names & {*_SIDES}:
        names |= {*_SIDES}  # the other one is not there
    return {
        name: LandmarkPart(
            np.stack([frame.get(name, np.full((n, COORDINATES), np.nan)) for frame in frames]),
            tuple(range(n)),
        )
        for name, n in PART_POINTS.items()
        if name in names
    }


def _rate(frames: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the frames a second by the times of the frames; None: they have none."""
    for name, units in _TIMES.items():
        times = [frame[name] for frame in frames if isinstance(frame.get(name), int | float)]
        if len(times) == sum(map(bool, frames)) > 1 and times[-1] > times[0]:
            rate = (len(times) - 1) / (times[-1] - times[0])
            rates = (round(rate / unit, 3) for unit in units)
            return next((fps for fps in rates if _FPS[0] <= fps <= _FPS[1]), None)
    return None


def _arrays(content: Mapping[str, Any], defaults: SourceDefaults) -> tuple[Any, Any]:
    """Return the points of a dict, and their scores or None."""
    points_key = _points_in(content, defaults)
    if points_key is None:
        raise _unknown_keys("its clips", content)
    scores_key = defaults.keys.get("scores")
    named = [scores_key] if scores_key else [key for key in SCORES if key in content]
    return content[points_key], content[named[0]] if named else None


def _points_in(content: Any, defaults: SourceDefaults) -> str | None:
    """Return what the points are called in a dict."""
    names = [defaults.keys["keypoints"]] if "keypoints" in defaults.keys else POINTS
    return next((name for name in names if isinstance(content, dict) and name in content), None)


def _one_person(array: Any, ndim: int) -> Any:
    """Return an array (S, K, ...) without an axis of persons, of which there must be one."""
    while array.ndim > ndim and 1 in array.shape[:2]:
        array = array[0] if array.shape[0] == 1 else array[:, 0]
    if array.ndim != ndim:
        raise ClipError(f"its points have the shape {array.shape}", "give (frames, points, 2 or 3)")
    return array


def _is_people(frame: Any) -> bool:
    """Return whether something is a frame, or a person of one, and no array of numbers."""
    return isinstance(frame, dict) or (
        isinstance(frame, list) and bool(frame) and isinstance(frame[0], dict)
    )


def _frames(content: Sequence[Any]) -> Iterator[list[DetectedPerson]]:
    """Yield the people of each frame, by OpenPose, AlphaPose or MMPose."""
    if isinstance(content[0], dict) and "image_id" in content[0]:  # AlphaPose: a person an entry
        by_frame = group_pairs((str(person["image_id"]), _person(person)) for person in content)
        number = {name: int("".join(filter(str.isdigit, name)) or 0) for name in by_frame}
        frames = {number[name]: people for name, people in by_frame.items()}
        if len(frames) < len(by_frame):
            frames = dict(enumerate(by_frame.values()))
        for at in range(min(frames), min(max(frames), min(frames) + 10 * len(frames)) + 1):
            yield frames.get(at, [])  # who is not found has no entry
        return
    for frame in content:
        people = frame
        if isinstance(frame, dict):
            people = next((frame[name] for name in _PEOPLE_NAMES if name in frame), None)
        if people is None:
            raise _unknown_keys("its frames", frame)
        people = [people] if isinstance(people, dict) else people  # AI-Hub's, of one person
        yield [_person(person) for person in people]


def _unknown_keys(holder: str, content: Mapping[str, Any]) -> ClipError:
    """Return the refusal of maps that have no points under a known name."""
    return ClipError(
        f"{holder} have the keys {', '.join(map(str, list(content)[:8]))}",
        "expected people, keypoints, or parts such as pose and left_hand; leave out what holds no "
        "landmarks",
    )


def _person(person: Mapping[str, Any]) -> DetectedPerson:
    if "pose_keypoints_2d" in person:
        parts = {
            name: np.asarray(person.get(f"{name}_keypoints_2d") or [], np.float32).reshape(-1, 3)
            for name in ("pose", "hand_left", "hand_right", "face")
        }
        sizes = {"pose": len(parts["pose"]), "hand_left": 21, "hand_right": 21, "face": 70}
        if sizes["pose"] > 100:  # BODY_135 has all in one
            sizes = {"pose": sizes["pose"]}
        padded = [
            parts[name] if len(parts[name]) == size else np.zeros((size, 3), np.float32)
            for name, size in sizes.items()
        ]
        identity = next(iter(np.ravel(person.get("person_id") or -1)))
        return DetectedPerson(np.concatenate(padded), None if identity == -1 else identity)
    if "keypoints" not in person:
        raise _unknown_keys("its people", person)
    points = np.asarray(person["keypoints"], np.float32)
    identity = person.get("track_id", person.get("idx"))
    identity = None if isinstance(identity, list) else identity
    if "keypoint_scores" not in person:
        return DetectedPerson(points.reshape(-1, 3), identity)
    scores = np.asarray(person["keypoint_scores"], np.float32)
    return DetectedPerson(
        np.column_stack([points.reshape(len(scores), -1)[:, :2], scores]), identity
    )
