"""What tests of the extraction share: options, two drawn clips, its output."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip, read_manifest
from signloom.detection.video import Video
from signloom.extraction.extract import ExtractOptions
from signloom_demo.draw import DrawOptions, draw_corpus

NEEDS_MEDIAPIPE = pytest.mark.skipif(
    importlib.util.find_spec("mediapipe") is None,
    reason="compares with the package mediapipe, which has no wheel for Python 3.13 and ARM",
)

OPTIONS = ExtractOptions(
    detector="holistic",
    groups=("hands", "pose"),
    min_detection_confidence=0.5,
    min_tracking_confidence=0.5,
    runtime="litert",
    executor="processes",
    time_limit_s=60.0,
    frames_per_shard=30,
    max_rejected_share=0.5,
)
DRAWING = DrawOptions(
    out=Path("corpus"),
    seed=3,
    train_signers=1,
    dev_signers=0,
    test_signers=0,
    clips_per_signer=2,
    max_signs=1,
    unseen_share=0.0,
    fps=15.0,
    width=320,
    height=240,
)


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


def assert_same(actual: LandmarkSequence, expected: LandmarkSequence) -> None:
    np.testing.assert_array_equal(actual.points, expected.points)
    np.testing.assert_array_equal(actual.present, expected.present)


def frames_of(clip: Clip) -> list[npt.NDArray[np.uint8]]:
    assert clip.video
    with Video(clip.video) as video:
        return [frame.rgb for frame in video.frames()]
