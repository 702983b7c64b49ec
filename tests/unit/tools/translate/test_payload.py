import ast
import copy
import dataclasses
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

from signloom.corpus.landmarks import HANDS_POSE
from signloom.errors import UserError
from signloom.translation.options import DECODING, DecodingOptions
from signloom_tools.translate.answer import to_json
from signloom_tools.translate.model import Model, load
from signloom_tools.translate.serving import (
    REQUEST_FRAMES,
    REQUIREMENTS,
    check_request,
    from_payload,
    to_payload,
)
from signloom_tools.translate.timed import translate_timed
from tests import tiny

NAN = float("nan")


def test_a_clip_comes_back_from_json_as_it_was() -> None:
    clip = tiny.halve(tiny.lose(tiny.sequence(), "left_hand", slice(2, 7)))
    sequence = from_payload(json.loads(json.dumps(to_payload(clip))), HANDS_POSE)
    np.testing.assert_array_equal(sequence.points, clip.points)
    np.testing.assert_array_equal(sequence.present, clip.present)
    assert (sequence.fps, sequence.width, sequence.height) == (clip.fps, clip.width, clip.height)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda clip: clip["frames"][3]["left_hand"].pop(), r"frame 3: left_hand .*\(20, 3\)"),
        (lambda clip: clip["frames"][0]["pose"].__setitem__(2, "nose"), "frame 0: pose"),
        (lambda clip: clip["frames"][1]["pose"][0].__setitem__(1, NAN), r"frame 1: pose .* finite"),
        (lambda clip: clip["frames"][0].update(feet=[[0, 0, 0]]), "group 'feet'"),
        (lambda clip: clip.pop("fps"), "fps is missing"),
        (lambda clip: clip.update(fps=1e-9), "fps: found 1e-09, expected at least 1"),
        (lambda clip: clip.update(fps=NAN), "fps: found nan"),
        (
            lambda clip: clip.update(fps=[25.0, 30.0]),
            r"fps: found \[25.0, 30.0\]",
        ),
        (lambda clip: clip.update(fps="often"), "fps: found 'often'"),
        (lambda clip: clip.update(width=10**9), "width: found 1000000000"),
        (lambda clip: clip.update(height=1.5), "height: found 1.5"),
        (lambda clip: clip.update(frames=None), "frames is missing"),
        (lambda clip: clip["frames"].__setitem__(2, [1, 2]), "frame 2: found list"),
        (lambda clip: clip["frames"][2].update(pose=7), "frame 2: pose is no list of points"),
        (lambda clip: clip["frames"][2].update(pose=[[10**400] * 3] * 9), "frame 2: pose"),
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


def test_groups_without_landmarks_are_absent() -> None:
    clip = to_payload(tiny.sequence(frames=3))
    clip["frames"] = [None, {"pose": None, "left_hand": []}, {"face": []}]
    assert not from_payload(clip, HANDS_POSE).present.any()


WIDEST = DecodingOptions(beam_size=64, length_penalty=1.0, max_tokens=256)
LONG = {"fps": 25.0, "width": 640, "height": 480, "frames": [None] * REQUEST_FRAMES}


@pytest.mark.parametrize(
    ("clips", "options", "fps", "message"),
    [
        ([LONG], WIDEST, 25.1, "4016 frames .*, expected at most 4000"),
        ([LONG, LONG], DECODING, 15.0, "8000 frames"),
        ([{**LONG, "fps": 1.0}], DECODING, 25.0, "100000 frames"),
        ([{**LONG, "fps": 1e-3}], DECODING, 25.0, "fps: found 0.001, expected at least 1"),
        ([LONG] * 3, WIDEST, 25.0, "3 clips times beam_size 64 times max_tokens 256 is 49152"),
        ([LONG] * 10_000, DECODING, 25.0, "expected at most 32768 in a request"),
    ],
)
def test_a_small_request_cannot_occupy_a_served_model(
    clips: list[dict[str, Any]], options: DecodingOptions, fps: float, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_request(clips, options, fps=fps)
    check_request([LONG], WIDEST, fps=25.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A served model without its server."""
    return load(tiny.write_checkpoint(tmp_path_factory.mktemp("served") / "checkpoint"))


def test_a_served_model_answers_as_the_translator_does(served: Model) -> None:
    clip = tiny.halve(tiny.sequence())
    params = {"beam_size": 3, "max_tokens": 6, "n_best": 2}
    answer = served.predict(pd.DataFrame([to_payload(clip)]), params)
    options = dataclasses.replace(DECODING, beam_size=3, max_tokens=6)
    assert answer == [
        to_json(timed) for timed in translate_timed(served.translator, [clip], options, n_best=2)
    ]


@pytest.mark.slow
def test_a_served_model_requires_all_that_it_imports() -> None:
    """Quick twin: test_a_served_model_answers_as_the_translator_does."""
    files = "[m.__file__ for name, m in sys.modules.items() if name.startswith('signloom')]"
    code = f"import json, sys, signloom_tools.translate.model; print(json.dumps({files}))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    statements = [
        statement
        for path in json.loads(process.stdout)
        for statement in ast.parse(Path(path).read_text(encoding="utf-8")).body
    ]
    names = {s.module or "" for s in statements if isinstance(s, ast.ImportFrom)} | {
        alias.name for s in statements if isinstance(s, ast.Import) for alias in s.names
    }
    by_module, packages = importlib.metadata.packages_distributions(), {*REQUIREMENTS, "signloom"}
    modules = {name.partition(".")[0] for name in names} & by_module.keys()
    assert {module for module in modules if packages.isdisjoint(by_module[module])} == set()


@pytest.mark.parametrize(
    ("params", "clip", "message"),
    [
        ({"beam_size": 100_000}, {}, "beam_size: found 100000, expected at most 64"),
        ({"max_tokens": 10**9}, {}, "max_tokens: found 1000000000, expected at most 512"),
        ({"length_penalty": NAN}, {}, "length_penalty: found nan"),
        ({"n_best": 5, "beam_size": 3}, {}, r"n_best: found 5, expected 1 to beam_size \(3\)"),
        ({"n_best": "all"}, {}, "n_best: found 'all', expected a whole number"),
        ({"warmth": 1}, {}, "warmth is not an option"),
        ({"ctc_weight": 0.5}, {}, "is no option any more"),
        ({}, {"fps": 1e-3}, "fps: found 0.001, expected at least 1"),
        ({}, {"frames": [{}] * 100_000}, "100000 frames"),
        ({}, {"frames": []}, "a clip cannot be right"),
        ({}, {"frames": NAN}, "frames: found nan, expected a list"),
    ],
)
def test_what_a_client_did_wrong_is_in_the_answer(
    served: Model, params: dict[str, Any], clip: dict[str, Any], message: str
) -> None:
    table = pd.DataFrame([{**to_payload(tiny.sequence()), **clip}])
    with pytest.raises(mlflow.MlflowException, match=message) as caught:
        served.predict(table, params)
    assert caught.value.get_http_status_code() == 400
