import copy
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.errors import UserError
from signloom.translation.serving import from_payload, to_payload
from tests import tiny


def stored(clip: LandmarkSequence) -> LandmarkSequence:
    points = clip.points.astype(np.float16).astype(np.float32)
    return dataclasses.replace(clip, points=points)


def test_a_clip_comes_back_from_json_as_it_was() -> None:
    clip = stored(tiny.lose(tiny.sequence(), "left_hand", slice(2, 7)))
    found = from_payload(json.loads(json.dumps(to_payload(clip))), HANDS_POSE)
    np.testing.assert_array_equal(found.points, clip.points)
    np.testing.assert_array_equal(found.present, clip.present)
    assert (found.fps, found.width, found.height) == (clip.fps, clip.width, clip.height)


def cut_hand(clip: dict[str, Any]) -> None:
    clip["frames"][3]["left_hand"].pop()


def put_text(clip: dict[str, Any]) -> None:
    clip["frames"][0]["pose"][2] = "nose"


def put_nan(clip: dict[str, Any]) -> None:
    clip["frames"][1]["pose"][0][1] = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut_hand, r"frame 3: left_hand has the shape \(20, 3\), expected \(21, 3\)"),
        (put_text, "frame 0: pose"),
        (put_nan, r"frame 1: pose .* finite"),
        (
            lambda clip: clip["frames"][0].update(feet=[[0, 0, 0]]),
            "group 'feet'; this model reads left_hand",
        ),
        (lambda clip: clip.pop("fps"), "needs fps, width, height and a list of frames"),
        (lambda clip: clip.update(fps=0), "fps is 0"),
        (lambda clip: clip.update(frames=[]), "cannot be right"),
        (lambda clip: clip["frames"][0]["pose"][0].__setitem__(0, 1e9), "cannot be right"),
    ],
)
def test_what_cannot_be_read_is_named(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    clip = copy.deepcopy(to_payload(tiny.sequence()))
    change(clip)
    with pytest.raises(UserError, match=message):
        from_payload(clip, HANDS_POSE)
