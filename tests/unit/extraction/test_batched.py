"""MediaPipe's networks by PyTorch, beside LiteRT: each alone, and clips in step."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import numpy.typing as npt
import pytest
import torch

from signloom.extraction import batched
from signloom.extraction.batched import Lockstep, TorchNetwork
from signloom.extraction.cache import LandmarkCache
from signloom.extraction.extract import Segment, extract_together, extract_video
from signloom.extraction.mediapipe_models import models_folder
from signloom.extraction.networks import Network
from tests.extraction import OPTIONS
from tests.golden.landmarks import VIDEO

NETWORKS: dict[str, tuple[tuple[int, ...] | None, float]] = {
    "pose_detection/pose_detection": (None, -1.0),
    "pose_landmark/pose_landmark_full": ((0, 1, 3), 0.0),
    "holistic_landmark/hand_recrop": (None, 0.0),
    "hand_landmark/hand_landmark_full": ((0, 1, 2), 0.0),
    "palm_detection/palm_detection_full": (None, 0.0),
    "face_detection/face_detection_short_range": (None, -1.0),
    "face_landmark/face_landmark": (None, 0.0),
}
TORCH = replace(OPTIONS, runtime="torch").detector_options


@pytest.fixture
def in_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lockstep]:
    lockstep = Lockstep(clips=3)
    monkeypatch.setattr(batched, "LOCKSTEP", lockstep)
    yield lockstep
    batched._load.cache_clear()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_what_litert_gives_whoever_is_beside_it(name: str) -> None:
    path, (outputs, low) = models_folder() / f"{name}.tflite", NETWORKS[name]
    plain = Network(path, outputs, low=low)
    network = TorchNetwork(path, outputs, low, torch.device("cpu"))
    size = plain.size
    pictures = np.random.default_rng(1).integers(0, 256, (2, size, size, 3), np.uint8)
    found = network.run(pictures)
    for number, picture in enumerate(pictures):
        for ours, expected in zip(found, plain.run(picture), strict=True):
            near = 1e-4 * np.abs(expected).max() + 1e-6  # single precision through 50 layers
            np.testing.assert_allclose(ours[number], expected, atol=near)


def test_what_clips_in_step_ask_for_is_looked_at_once(in_step: Lockstep) -> None:
    asked: list[int] = []

    class Counting(TorchNetwork):
        def __init__(self) -> None:
            self.size = 2

        def run(self, pictures: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.float32]]:
            asked.append(len(pictures))
            if pictures.max() == 9:
                raise ValueError("nine")
            return [pictures.astype(np.float32).mean(axis=(1, 2, 3))]

    network, start = Counting(), Barrier(3)

    def clip(values: Sequence[int]) -> list[float]:
        with in_step.clip():
            start.wait()
            pictures = [np.full((2, 2, 3), value, np.uint8) for value in values]
            return [float(in_step.run(network, picture)[0]) for picture in pictures]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(clip, [[1, 2], [3], [4, 5, 6]]))
        assert found == [[1, 2], [3], [4, 5, 6]]
        assert set(asked) == {3}  # a batch is never smaller
        assert len(asked) == 3
        start = Barrier(1)
        with pytest.raises(RuntimeError, match="a network failed: nine"):
            clip([9])
        assert clip([7]) == [7]  # nobody waits for who has failed


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("cpu", marks=pytest.mark.slow),
        pytest.param(
            "cuda",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
            ],
        ),
    ],
)
def test_clips_in_step_have_the_landmarks_of_litert(
    in_step: Lockstep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str
) -> None:
    """Quick twins: each network and the lockstep, above."""
    if device == "cpu":
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    videos = [tmp_path / f"{number}.mp4" for number in range(4)]
    for video in videos:
        shutil.copy(VIDEO, video)
    starts = (0.2, 0.0, 0.1, 0.05)
    part = [Segment(video=video, start_s=start_s, end_s=start_s + 0.3)
            for video, start_s in zip(videos, starts, strict=True)]  # fmt: skip
    cache = LandmarkCache(tmp_path / "cache")
    for segment, entry in zip(part, extract_together(part, TORCH), strict=True):
        assert isinstance(entry, bytes)
        cache.store("0" * 64, entry)
        found = cache.load("0" * 64)
        expected = extract_video(VIDEO, OPTIONS.detector_options, segment.start_s, segment.end_s)
        np.testing.assert_array_equal(found.present, expected.present)
        apart = np.linalg.norm((found.points - expected.points)[..., :2] * [320, 240], axis=-1)
        assert np.nanmedian(apart) < 0.25
        assert np.nanmax(apart) < 4  # what rounds otherwise moves the next crop


def test_extraction_imports_no_torch_unless_asked() -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from signloom.extraction.extract import extract_video\n"
        "from tests.extraction import OPTIONS\n"
        f"extract_video(Path({str(VIDEO)!r}), OPTIONS.detector_options, 0.0, 0.1)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
