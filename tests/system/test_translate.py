"""`signloom translate` as a person runs it: real videos, real MediaPipe, a process of its own."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from signloom.corpus.landmarks import build_layout
from tests import tiny
from tests.extraction import draw_two_clips
from tests.models_on_disk import write_checkpoint

MAIN = [sys.executable, "-c", "from signloom.cli.main import main; main()", "translate"]


def translate(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*MAIN, *map(str, arguments), "--max-tokens", "10"]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a folder with two drawn clips and a file that is no video."""
    folder = tmp_path_factory.mktemp("translate")
    for name, clip in zip(("b.mp4", "deep/a.mp4"), draw_two_clips(folder / "drawn"), strict=True):
        (folder / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        assert clip.video
        clip.video.rename(folder / "videos" / name)
    (folder / "videos/bad.mp4").write_bytes(b"this is no video")
    write_checkpoint(folder / "data/checkpoint")
    return folder


@pytest.mark.mediapipe
def test_a_bad_file_is_named_and_the_others_are_translated(folder: Path) -> None:
    done = translate("videos", "--json", "--n-best", 2, "--video", "films", cwd=folder)
    assert done.returncode == 1
    assert "error: videos/bad.mp4: no video that can be decoded" in done.stderr
    assert "not translated: 1 of the clips, see above" in done.stderr
    rows = [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]
    assert [row["source"] for row in rows] == ["videos/b.mp4", "videos/deep/a.mp4"]
    for row in rows:
        assert row.keys() == {
            "source", "clip_id", "text", "score", "log_prob", "alternatives", "tokens", "frames",
            "seconds",
        }  # fmt: skip
        assert row["seconds"] == pytest.approx(row["frames"] / 15, abs=1e-3)
        assert [set(other) for other in row["alternatives"]] == [{"text", "score", "log_prob"}]
        assert row["alternatives"][0]["score"] <= row["score"]
        for token in row["tokens"]:
            assert 0 <= token["start_s"] <= token["end_s"] <= row["seconds"]
        film, video = (
            cv2.VideoCapture(str(folder / path))
            for path in (f"films/{row['clip_id']}.mp4", row["source"])
        )
        counts = [
            sum(iter(lambda capture=capture: capture.read()[0], False)) for capture in (film, video)
        ]
        assert counts == [row["frames"]] * 2
        assert film.get(cv2.CAP_PROP_FPS) == 15


@pytest.mark.mediapipe
def test_one_video_is_one_line_of_text_and_its_timing_adds_up(folder: Path) -> None:
    done = translate("videos/b.mp4", "--timing", cwd=folder)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert "videos/b.mp4" not in line
    for part in ("start", "video decoding", "landmarks", "model"):
        assert f"{part} " in done.stderr
    alone = translate("videos/b.mp4", "--json", cwd=folder)
    assert " ".join(json.loads(alone.stdout)["text"].split()) == line


def test_several_clips_cannot_be_one_film(folder: Path) -> None:
    done = translate("videos", "--video", "one.mp4", cwd=folder)
    assert done.returncode == 1
    assert "there are 3 clips; give a folder for them" in done.stderr
    assert not done.stdout


@pytest.mark.slow
@pytest.mark.mediapipe
def test_threads_of_the_graph_change_no_landmark(folder: Path) -> None:
    """Quick twin: tests/golden/test_landmarks.py."""
    from signloom.extraction.extract import extract_video
    from tests.extraction import OPTIONS

    one, two = (
        extract_video(folder / "videos/b.mp4", OPTIONS.detector_options, threads=threads)
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.points, two.points)
    np.testing.assert_array_equal(one.present, two.present)


def test_landmark_files_are_translated_by_a_model_of_such_files(tmp_path: Path) -> None:
    extractor = {"detector": "imported", "import_version": 1, "source": "numpy"}
    layout = build_layout(("hands",))
    features = dataclasses.replace(tiny.FEATURES, groups=("hands",), normalise="picture")
    folder = tmp_path / "data/checkpoint"
    write_checkpoint(folder, extractor=extractor, layout=layout, features=features)
    numbers = np.random.default_rng(0).uniform(0.2, 0.8, (2, 12, 126))
    np.save(tmp_path / "words.npy", numbers)
    sizes = ("--fps", 10, "--width", 320, "--height", 240)
    done = translate("words.npy", *sizes, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert names == ["words.npy: words-1", "words.npy: words-2"]
    wrong = translate("words.npy", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "--fps" in wrong.stderr


def test_a_checkpoint_of_another_format_version_says_so(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "data/checkpoint") / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 1}))
    done = translate("a.mp4", cwd=tmp_path)
    assert done.returncode == 1
    assert "format version" in done.stderr
    assert "1" in done.stderr
    assert "Traceback" not in done.stderr
