"""The landmarks of any films, without corpus, project or MediaPipe's graphs."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import av
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.detector import DetectorOptions
from signloom.detection.mediapipe_models import HolisticGraph, models_folder, take_networks
from signloom.detection.video import Video
from signloom.extraction.extract import extract_video
from signloom_tools.cli.main import main
from signloom_tools.holistic import detect, read_film
from signloom_tools.importing.importer import read_foreign
from signloom_tools.importing.options import SourceDefaults
from tests.extraction import NEEDS_MEDIAPIPE, draw_two_clips
from tests.tiny import ROOT
from tests.videos import write_video


@pytest.fixture(scope="module")
def film(films: Path) -> Path:
    return min(films.rglob("*.mp4"))


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two short films of a drawn signer."""
    folder = tmp_path_factory.mktemp("films") / "corpus"
    draw_two_clips(folder)
    return folder


@pytest.mark.mediapipe
@NEEDS_MEDIAPIPE
def test_every_landmark_is_that_of_mediapipes_graph(film: Path) -> None:
    graph = HolisticGraph(0.5, 0.5, face=True)
    with Video(film) as video:
        pictures = [frame.rgb for frame in video.frames()]
    of_film = [
        {part: getattr(frame, part) for part in ("left_hand", "right_hand", "pose", "face")}
        for frame in detect(film)
    ]
    of_camera = [frame.pose for frame in detect(iter(pictures))]
    assert len(of_film) == len(pictures)
    for rgb, landmarks, pose in zip(pictures, of_film, of_camera, strict=True):
        expected = graph.find(rgb)
        assert expected.keys() == {part for part, points in landmarks.items() if points is not None}
        for part, points in expected.items():
            np.testing.assert_array_equal(landmarks[part], points)
        np.testing.assert_array_equal(pose, expected["pose"])


OF_SIGNERS = DetectorOptions(detector="holistic", groups=("hands", "pose", "lips"))
FORMATS = ("npz", "parquet", "csv", "json", "pose")


@pytest.fixture(scope="module")
def written(film: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the landmarks of the film in each format."""
    folder = tmp_path_factory.mktemp("written")
    for name in FORMATS:
        main(["landmarks", str(film), "--write", name, "--to", str(folder)])
    return folder


@pytest.fixture(scope="module")
def extracted(film: Path) -> LandmarkSequence:
    return extract_video(film, OF_SIGNERS)


def test_all_formats_hold_the_same_landmarks(film: Path, written: Path) -> None:
    expected = read_film(film)
    with np.load(written / f"{film.stem}.npz") as arrays:
        assert float(arrays["fps"]) == expected.fps
        for part, points in expected.parts.items():
            np.testing.assert_array_equal(arrays[part], points)
    of_json = json.loads((written / f"{film.stem}.json").read_text())["frames"]
    poses = [frame["pose"] for frame in of_json]
    np.testing.assert_array_equal(np.array(poses, np.float32), expected.parts["pose"])
    assert [frame["left_hand"] is None for frame in of_json] == np.isnan(
        expected.parts["left_hand"][:, 0, 0]
    ).tolist()
    every = np.concatenate([expected.parts[part] for part in sorted(expected.parts)], axis=1)
    tables = (
        pq.read_table(written / f"{film.stem}.parquet"),
        pyarrow.csv.read_csv(written / f"{film.stem}.csv"),
    )
    for table in tables:
        x = table["x"].to_numpy().astype(np.float32).reshape(every.shape[:2])
        np.testing.assert_array_equal(x, every[..., 0])


@pytest.mark.parametrize("name", FORMATS)
def test_import_reads_what_landmarks_writes(
    name: str, film: Path, written: Path, extracted: LandmarkSequence
) -> None:
    path = written / f"{film.stem}.{name}"
    defaults = SourceDefaults(allow_outside=True)  # the files say their rate and size
    ((clip_id, sequence),) = read_foreign(path, OF_SIGNERS.layout, defaults)
    assert clip_id == film.stem
    assert isinstance(sequence, LandmarkSequence), sequence
    assert (sequence.fps, sequence.width, sequence.height) == (extracted.fps, 320, 240)
    np.testing.assert_array_equal(sequence.present, extracted.present)
    np.testing.assert_allclose(sequence.points, extracted.points, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_films_of_a_folder_are_shared_among_processes_and_a_broken_one_is_named(
    films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: tests/unit/extraction/test_pool.py."""
    monkeypatch.setenv("SIGNLOOM_WORKERS", "2")
    broken = films / "more" / "broken.mp4"
    broken.parent.mkdir()
    broken.write_bytes(b"no film")
    try:
        with pytest.raises(SystemExit, match="1 of 3 films have no landmarks"):
            main(["landmarks", str(films), "--to", str(tmp_path), "--video", "--face", "none"])
    finally:
        broken.unlink()
    assert "broken.mp4: " in capsys.readouterr().err
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.npz"))
    good = sorted(path.relative_to(films) for path in films.rglob("*.mp4"))
    assert written == [path.with_suffix(".npz") for path in good]
    for path in good:  # with the skeleton drawn: as many pictures, others
        with Video(films / path) as before, Video(tmp_path / path.with_suffix(".webm")) as after:
            pairs = zip(before.frames(), after.frames(), strict=True)
            apart = [np.abs(a.rgb.astype(int) - b.rgb).max() for a, b in pairs]
        assert max(apart) > 60


def test_a_film_comes_in_and_landmarks_go_out_by_pipes(
    film: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with film.open("rb") as file, io.TextIOWrapper(file) as text:
        monkeypatch.setattr(sys, "stdin", text)
        main(["landmarks", "-", "--write", "json", "--face", "none"])
    sys.stdout.flush()
    frames = json.loads(capfdbinary.readouterr().out)["frames"]
    assert len(frames) == len(list(detect(film, face="none")))


@pytest.mark.slow
def test_lines_of_a_live_stream_are_written_while_it_goes_on(
    film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Quick twin: test_a_film_comes_in_and_landmarks_go_out_by_pipes."""
    live = {"cluster_time_limit": "200"}
    with av.open(str(film)) as source, av.open(str(tmp_path / "a.mkv"), "w", options=live) as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    written: list[bytes] = []

    class Camera(io.RawIOBase):
        left = (tmp_path / "a.mkv").read_bytes()

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            written.append(capfdbinary.readouterr().out)
            part, self.left = self.left[:2000], self.left[2000:]
            buffer[: len(part)] = part
            return len(part)

    with io.TextIOWrapper(io.BufferedReader(Camera(), 2000)) as text:
        monkeypatch.setattr(sys, "stdin", text)
        main(["landmarks", "-", "--write", "json", "--face", "none"])
    sys.stdout.flush()
    before_end = b"".join(written)
    assert before_end.count(b"time_s") > 0
    content = json.loads(before_end + capfdbinary.readouterr().out)
    assert len(content["frames"]) == len(list(detect(film, face="none")))
    assert (content["fps"], content["width"], content["height"]) == (15.0, 320, 240)


def test_what_cannot_be_is_refused_before_the_first_frame(film: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / f"{film.stem}.npz").write_text("mine")
    twin = write_video(tmp_path / f"{film.stem}.avi", 5)
    for arguments, words in (
        ([str(tmp_path / "none.mp4")], "does not exist"),
        ([str(tmp_path / "empty")], "has no film"),
        ([str(film), "--to", str(tmp_path)], "--overwrite"),
        ([str(film), str(twin), "--to", str(tmp_path / "new")], "would both be"),
        ([str(film), "--fps", "-1"], "--fps"),
        (["-", str(film)], "give it alone"),
        (["-", "--video"], "--to FOLDER"),
    ):
        with pytest.raises(SystemExit, match=words):
            main(["landmarks", *arguments])
    assert (tmp_path / f"{film.stem}.npz").read_text() == "mine"


BASE_AND_OPENCV = """
import sys, tomllib

class Refuse:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in NOT_THERE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

project = tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]
names = {"PIL": "pillow", "sklearn": "scikit-learn", "mediapipe": "mediapipe"}
of_training = " ".join(project["training"] + project["operations"])
NOT_THERE = {name.split(">")[0].split("=")[0].replace("-", "_") for name in of_training.split()}
NOT_THERE = (NOT_THERE | {"PIL", "sklearn"}) - {"cv2"}
assert "torch" in NOT_THERE and "sacrebleu" in NOT_THERE
sys.meta_path.insert(0, Refuse())
from signloom_tools.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_landmarks_need_the_base_and_opencv_alone(film: Path, tmp_path: Path) -> None:
    """Quick twin: the contracts of `lint-imports`."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", BASE_AND_OPENCV, str(ROOT / "pyproject.toml"), *arguments]
        variables = os.environ | {"SIGNLOOM_MODELS": str(models_folder())}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=variables)

    own_film = shutil.copy(film, tmp_path)
    process = run("landmarks", str(own_film), "--video")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / f"{film.stem}.npz").is_file()  # beside the film
    assert run("--help").returncode == 0
    process = run("translate", str(film))
    assert "which this needs: pip install 'signloom[training]'" in process.stderr
    assert "Traceback" not in process.stderr


def write_wheel(path: Path, folder: Path, leave_out: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*.tflite"):
            if not leave_out or leave_out not in file.name:
                archive.write(file, f"mediapipe/modules/{file.relative_to(folder)}")
    return path


@pytest.mark.slow
def test_networks_come_out_of_a_wheel_and_find_the_same(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_without_mediapipe_the_networks_of_the_user_are_found."""
    wheel = write_wheel(tmp_path / "mediapipe.whl", models_folder())
    expected = next(detect(film))
    monkeypatch.setenv("SIGNLOOM_MODELS", str(tmp_path / "networks"))
    for _ in range(2):  # once more is no harm
        main(["landmarks", "--networks", str(wheel)])
    assert models_folder() == tmp_path / "networks"
    np.testing.assert_array_equal(next(detect(film)).pose, expected.pose)


@NEEDS_MEDIAPIPE
def test_without_mediapipe_the_networks_of_the_user_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = write_wheel(tmp_path / "mediapipe.whl", models_folder())
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("signloom.detection.mediapipe_models._find_package", lambda: None)
    with pytest.raises(
        ValueError, match=r"(?s)pip download .* mediapipe==0.10.21.*landmarks --networks mediapipe-"
    ):
        models_folder()
    take_networks(wheel, tmp_path / ".signloom" / "networks")
    assert models_folder() == tmp_path / ".signloom" / "networks"


@pytest.mark.parametrize("content", ["no wheel", "without networks", "torn"])
def test_a_wheel_that_has_no_networks_is_refused(content: str, tmp_path: Path) -> None:
    wheel = tmp_path / "mediapipe.whl"
    if content == "no wheel":
        wheel.write_bytes(b"something else")
    elif content == "torn":
        wheel_bytes = write_wheel(wheel, models_folder()).read_bytes()
        wheel.write_bytes(wheel_bytes[: len(wheel_bytes) // 2])
    else:
        write_wheel(wheel, models_folder(), leave_out="palm")
    words = "has no networks" if content == "without networks" else "no wheel that can be read"
    with pytest.raises(ValueError, match=words):
        take_networks(wheel, tmp_path / "networks")
    assert not (tmp_path / "networks").exists()
