"""`signloom translate`: files of landmarks in this process, real videos in one of its own."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signloom.corpus.landmarks import build_layout
from signloom.detection.video import Video
from signloom.files import hash_file
from signloom.translation.confidence import Confidence, Level, write_confidence
from signloom_tools.cli.main import main
from signloom_tools.importing.captions import read_captions
from tests import tiny
from tests.expect_error import expect_error
from tests.extraction import draw_two_clips
from tests.films import sketch_film
from tests.tiny import write_checkpoint

COMMAND = [sys.executable, "-c", "from signloom_tools.cli.main import main; main()", "translate"]
SIZES = ("--fps", "10", "--width", "320", "--height", "240", "--max-tokens", "10")


def translate(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*COMMAND, *map(str, arguments), "--max-tokens", "10"]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )


@pytest.fixture
def hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a model of hands, two clips in a file and one that is torn."""
    monkeypatch.chdir(tmp_path)
    extractor = {"detector": "imported", "import_version": 1, "source": "numpy"}
    features = dataclasses.replace(tiny.FEATURES, groups=("hands",), normalise="picture")
    layout = build_layout(("hands",))
    write_checkpoint(
        tmp_path / "data/checkpoint", extractor=extractor, layout=layout, features=features
    )
    (tmp_path / "clips").mkdir()
    numbers = np.random.default_rng(0).uniform(0.2, 0.8, (2, 12, 126))
    np.save(tmp_path / "clips/words.npy", numbers)
    (tmp_path / "clips/bad.npy").write_bytes(b"these are no numbers")
    return tmp_path


def check_row(row: dict[str, Any], fps: int) -> None:
    assert {"source", "clip_id", "text", "score", "confidence", "familiar", "note"} <= row.keys()
    assert row["seconds"] == pytest.approx(row["frames"] / fps, abs=1e-3)
    assert row["alternatives"][0]["score"] <= row["score"]
    assert row["tokens"] is None  # it reads no signs


def test_landmark_files_are_translated_and_a_bad_one_is_named(
    hands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect_error("--fps", ["translate", "clips/words.npy"])
    with pytest.raises(SystemExit) as stopped:
        main(["translate", "clips", "--json", "--n-best", "2", *SIZES])
    out, err = capsys.readouterr()
    assert "error: clips/bad.npy: " in err
    assert "not translated: 1 of the clips, see above" in f"{err}{stopped.value}"
    rows = [json.loads(line) for line in out.rstrip("\n").split("\n")]
    assert [row["clip_id"] for row in rows] == ["words-1", "words-2"]
    for row in rows:
        check_row(row, fps=10)
    main(["translate", "clips/words.npy", *SIZES])
    names = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["clips/words.npy: words-1", "clips/words.npy: words-2"]


def test_a_film_never_replaces_the_video_that_it_is_made_of(hands: Path) -> None:
    video = hands / "a.webm"
    video.write_bytes(b"a video")
    (hands / "link.webm").symlink_to(video)
    os.link(video, hands / "twin.webm")
    for out in ("a.webm", "./a.webm", "link.webm", "twin.webm"):
        for more in ((), ("--overwrite",)):
            expect_error(r"it is the input", ["translate", "a.webm", "--video", out, *more])
    assert video.read_bytes() == b"a video"


def test_films_replace_neither_the_clips_of_their_folder_nor_what_stands_there(
    hands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (hands / "films").mkdir()
    (hands / "films/words-1.webm").write_bytes(b"mine")
    expect_error(
        "not translated: 1 of the clips",
        ["translate", "clips/words.npy", *SIZES, "--video", "films"],
    )
    assert (
        "words-1.webm already exists and was not changed; give --overwrite"
        in capsys.readouterr().err
    )
    assert (hands / "films/words-1.webm").read_bytes() == b"mine"
    written = (hands / "films/words-2.webm").stat().st_size
    main(["translate", "clips/words.npy", *SIZES, "--video", "films", "--overwrite"])
    assert (hands / "films/words-1.webm").stat().st_size > 100
    assert (hands / "films/words-2.webm").stat().st_size == written
    (cue,) = read_captions(hands / "films/words-2.vtt").cues
    assert "mange" in cue.text
    (hands / "films/words-1.vtt").write_text("mine")
    (hands / "films/words-1.webm").unlink()
    expect_error("not translated", ["translate", "clips/words.npy", *SIZES, "--video", "films"])
    assert (hands / "films/words-1.vtt").read_text() == "mine"


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


@pytest.mark.slow
@pytest.mark.mediapipe
def test_videos_are_translated_and_a_bad_one_is_named(folder: Path) -> None:
    """Quick twin: test_landmark_files_are_translated_and_a_bad_one_is_named."""
    process = translate("videos", "--json", "--n-best", 2, "--video", "films", cwd=folder)
    assert process.returncode == 1
    assert "error: videos/bad.mp4: no video that can be decoded" in process.stderr
    assert "not translated: 1 of the clips, see above" in process.stderr
    rows = [json.loads(line) for line in process.stdout.rstrip("\n").split("\n")]
    assert [row["source"] for row in rows] == ["videos/b.mp4", "videos/deep/a.mp4"]
    for row in rows:
        check_row(row, fps=15)
        for path in (f"films/{row['clip_id']}.webm", row["source"]):
            with Video(folder / path) as film:
                assert (film.fps, len([*film.frames()])) == (15, row["frames"])


def film_of_hands(path: Path, spans: list[tuple[float, float]], seconds: float) -> None:
    """Write the hands of a sketched film as an array (S, 126)."""
    points = sketch_film(spans, seconds, fps=10.0).points[:, :42]
    np.save(path, points.reshape(len(points), -1))


def test_a_film_is_cut_and_gets_captions(hands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film_of_hands(hands / "film.npy", [(1.0, 3.0), (4.5, 6.5)], 8)
    model_confidence(hands / "data/checkpoint", right=0)
    for kind in ("vtt", "srt", "eaf", "txt", "json"):
        main(["translate", "film.npy", *SIZES, "--write", kind])
        assert f"film.{kind}: 2 sentences, 2 of them unsure" in capsys.readouterr().out
    for kind in ("vtt", "srt", "eaf"):
        cues = read_captions(hands / f"film.{kind}").cues
        times = [time_s for cue in cues for time_s in (cue.start_s, cue.end_s)]
        assert times == pytest.approx([1.0, 3.0, 4.5, 6.5], abs=0.3)
        assert all(cue.text.startswith("[?] ") for cue in cues)
    rows = json.loads((hands / "film.json").read_text())["cues"]
    assert [set(row) for row in rows] == [{"start_s", "end_s", "text", "score"}] * 2
    assert not any(row["text"].startswith("[?]") for row in rows)
    expect_error(
        "not translated: 1 of the clips", ["translate", "film.npy", *SIZES, "--write", "vtt"]
    )
    assert (
        "film.vtt already exists and was not changed; give --overwrite" in capsys.readouterr().err
    )
    main(
        [
            "translate",
            "film.npy",
            *SIZES,
            "--write",
            "vtt",
            "--into",
            "out",
            "--pause",
            "3",
            "--video",
            "films",
        ]
    )
    (cue,) = read_captions(hands / "out/film.vtt").cues
    assert (cue.start_s, cue.end_s) == pytest.approx((1.0, 6.5), abs=0.3)
    with Video(hands / "films/film.webm") as film:
        assert len([*film.frames()]) == 80
    (beside,) = read_captions(hands / "films/film.vtt").cues
    assert (beside.start_s, beside.text) == (cue.start_s, cue.text)
    main(["translate", "film.npy", *SIZES, "--write", "vtt", "--into", "same", "--video", "same"])
    assert {path.name for path in (hands / "same").iterdir()} == {"film.webm", "film.vtt"}


def model_confidence(checkpoint: Path, right: int) -> None:
    """Write what says that so many of four translations were right."""
    level = Level(score=-99.0, clips=4, right=right, confidence=(right + 1) / 6, low=0.0, high=1.0)
    weights = hash_file(checkpoint / "model.safetensors")
    confidence = Confidence(weights=weights, unsure_below=0.5, levels=(level,), train=None)
    write_confidence(checkpoint / "confidence.json", confidence)


def test_a_still_film_gets_no_sentence(hands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(hands / "still.npy", np.full((60, 126), 0.5))
    main(["translate", "still.npy", *SIZES, "--write", "vtt"])
    assert "still.vtt: 0 sentences" in capsys.readouterr().out
    assert (hands / "still.vtt").read_text().strip() == "WEBVTT"


def test_what_is_too_long_for_a_sentence_is_told_how_to_be_cut(
    hands: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film_of_hands(hands / "long.npy", [(1.0, 3.0)], 61)
    main(["translate", "long.npy", *SIZES])
    expected = "its 61 s are translated as one sentence; --write vtt cuts a film into its sentences"
    assert expected in capsys.readouterr().err
    np.save(hands / "hour.npy", np.full((6100, 126), 0.5, np.float32))
    expect_error("not translated: 1 of the clips", ["translate", "hour.npy", *SIZES])
    assert "it lasts 610 s and would be one sentence; --write vtt" in capsys.readouterr().err


def test_what_has_no_meaning_for_films_is_refused(hands: Path) -> None:
    for name in "abc":
        (hands / f"{name}.mp4").touch()
    for arguments, message in (
        (["a.npy", "--into", "out"], "--into: only with --write"),
        (["a.mp4", "b.mp4", "c.mp4", "--video", "one.webm"], "there are 3 clips; give a folder"),
        (["a.mp4", "--video", "b.mp4"], r"expected a \.webm file, or a folder"),
        (["a.npy", "--write", "vtt", "--json"], "--json: not with --write"),
        (["--write", "vtt", "--glosses", "A"], "--write: these options apply to videos"),
    ):
        expect_error(message, ["translate", *arguments])
