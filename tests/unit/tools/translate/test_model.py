"""A trained model as programs use it; tests/system/test_walk.py runs the manual's pages."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import signloom
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.shards import write_shards
from signloom.errors import ClipError, UserError
from signloom_tools.translate.answer import to_json
from tests.tiny import sequence, write_checkpoint
from tests.videos import encode_video, write_video

pytestmark = pytest.mark.mediapipe


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("model") / "checkpoint")


def test_films_and_landmarks_of_a_film_get_one_translation(
    checkpoint: Path, tmp_path: Path
) -> None:
    model, film = signloom.load(checkpoint), write_video(tmp_path / "a.mp4", frames=12)
    film_answer = model.translate(film)
    clip = signloom.landmarks(film, detector="hands+pose")
    assert (film_answer.text, film_answer.confidence) == (film_answer.translation.text, None)
    answers = model.translate([clip, str(film)], n_best=3)
    assert [answer.text for answer in answers] == [film_answer.text] * 2
    assert len(answers[0].alternatives) == 2
    assert model.predict(str(film)) == to_json(film_answer)


@pytest.mark.parametrize(
    ("film", "kind", "said"),
    [
        ("nothing.mp4", ClipError, "there is no such file"),
        ("text.mp4", ClipError, "no video that can be decoded"),
        (
            sequence(1, layout=replace(HANDS_POSE, name="other")),
            UserError,
            "this model reads hands-pose",
        ),
    ],
)
def test_what_cannot_be_translated_says_why(
    checkpoint: Path, tmp_path: Path, film: Any, kind: type[Exception], said: str
) -> None:
    (tmp_path / "text.mp4").write_text("no film")
    with pytest.raises(kind, match=said):
        signloom.load(checkpoint).translate(tmp_path / film if isinstance(film, str) else film)


def test_a_film_that_is_too_long_is_left_where_that_shows(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkpoint)
    monkeypatch.setattr("signloom_tools.translate.model.LONGEST_S", 1.0)
    film = encode_video(tmp_path / "a.mkv", [n / 25 for n in range(75)], container={"live": "1"})
    with pytest.raises(ClipError, match=r"a.mkv: it lasts 1 s or more"):  # its header has no length
        signloom.load(".").translate(film)


def test_shards_are_a_table_with_a_row_a_frame(tmp_path: Path) -> None:
    clips = {"a": sequence(1, frames=5), "b": sequence(2, frames=7)}
    frames = {name: len(clip.points) for name, clip in clips.items()}
    write_shards(
        tmp_path / "s",
        frames,
        clips.__getitem__,
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=9,
    )
    table = signloom.read_shards(tmp_path / "s").to_pandas()
    assert (len(table), table.clip_id.value_counts().to_dict()) == (12, frames)
    wrist = clips["b"].points[:, HANDS_POSE.index("right_hand", "wrist"), 1]
    assert np.allclose(table[table.clip_id == "b"]["right_hand.wrist.y"], wrist, 0, 1e-3, True)
    assert table.time_s.max() == 6 / clips["b"].fps
    assert len(signloom.read_shards(tmp_path / "s", ["a"])) == 5


def test_importing_signloom_loads_no_library_until_one_is_needed() -> None:
    code = "import sys, signloom, json; print(json.dumps([dir(signloom), list(sys.modules)]))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    names, modules = json.loads(process.stdout)
    assert {"load", "landmarks", "read_shards", "to_table"} <= {*names}
    assert not {"torch", "numpy", "pyarrow", "signloom_tools"} & {*modules}
