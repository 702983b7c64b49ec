"""Makes `.task` files of the models in MediaPipe's package, as users of newer ones bring them."""

import warnings
import zipfile
from pathlib import Path

from signloom.extraction.mediapipe_models import HAND_MODELS, POSE_MODELS, package_folder


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
    return (package_folder() / name).read_bytes()


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
