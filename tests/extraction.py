"""What tests of the extraction share: options, two drawn clips, `.task` files, its output."""

import warnings
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip, read_manifest
from signloom.detection.mediapipe_models import HAND_MODELS, POSE_MODELS, models_folder
from signloom.detection.video import Video
from signloom.extraction.extract import ExtractOptions
from signloom_demo.draw import DrawOptions, draw_corpus

OPTIONS = ExtractOptions(
    detector="holistic",
    groups=("hands", "pose"),
    min_detection_confidence=0.5,
    min_tracking_confidence=0.5,
    hand_model="",
    pose_model="",
    runtime="litert",
    executor="processes",
    time_limit_s=60.0,
    frames_per_shard=30,
    max_rejected_share=0.5,
)
DRAWING = DrawOptions(
    out=Path("corpus"), seed=3, train_signers=1, dev_signers=0, test_signers=0,
    clips_per_signer=2, max_signs=1, unseen_share=0.0, fps=15.0, width=320, height=240,
)  # fmt: skip


def draw_two_clips(folder: Path) -> list[Clip]:
    """Two clips of one sign."""
    draw_corpus(replace(DRAWING, out=folder), workers=1)
    return read_manifest(folder / "manifest.tsv")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rejected(folder: Path) -> dict[str, str]:
    """Reason by clip id."""
    lines = (folder / "rejects.tsv").read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0]: line.split("\t")[2] for line in lines[1:]}


def assert_same(found: LandmarkSequence, expected: LandmarkSequence) -> None:
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.present, expected.present)


def frames_of(clip: Clip) -> list[npt.NDArray[np.uint8]]:
    assert clip.video
    with Video(clip.video) as video:
        return [frame.rgb for frame in video.frames()]


def write_hand_task(path: Path) -> Path:
    """A hand_landmarker .task file."""
    palm, hand = (_read(name) for name in HAND_MODELS)
    return _write(path, {"hand_detector.tflite": palm, "hand_landmarks_detector.tflite": hand})


def write_pose_task(path: Path) -> Path:
    """A pose_landmarker .task file."""
    # Unlike the hand's, these models do not say how their pixels are to be scaled.
    person, pose = (_read(name) for name in POSE_MODELS)
    return _write(
        path,
        {
            "pose_detector.tflite": _with_pixel_scale(person, mean=127.5, std=127.5),
            "pose_landmarks_detector.tflite": _with_pixel_scale(pose, mean=0.0, std=255.0),
        },
    )


def _read(name: str) -> bytes:
    return (models_folder() / name).read_bytes()


def _with_pixel_scale(model: bytes, *, mean: float, std: float) -> bytes:
    from mediapipe.tasks.python.metadata.metadata_writers import metadata_writer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files open
        writer = metadata_writer.MetadataWriter.create(bytearray(model))
        writer.add_image_input([mean], [std])
        return bytes(writer.populate()[0])


def _write(path: Path, models: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:  # MediaPipe cannot inflate
        for name, model in models.items():
            archive.writestr(zipfile.ZipInfo(name), model)
    return path
