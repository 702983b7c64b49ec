"""Real MediaPipe on drawn clips: what each detector finds, on which side, and what decides it."""

import importlib.metadata
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest

from signloom.corpus.manifest import read_manifest
from signloom.detection.detector import (
    DETECTORS,
    Detector,
    DetectorOptions,
    build_detector,
    describe_detector,
    quiet_native_code,
)
from signloom.detection.mediapipe_models import HAND_MODELS, models_folder
from signloom.errors import UserError
from signloom_demo.draw import read_truth
from tests.extraction import DRAWING, NEEDS_MEDIAPIPE, draw_two_clips, frames_of
from tests.extraction import OPTIONS as EXTRACT

Frames = list[npt.NDArray[np.uint8]]
Found = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]

OPTIONS = EXTRACT.detector_options
HANDS = replace(OPTIONS, detector="hands", groups=("hands",))
HANDS_AND_POSE = replace(OPTIONS, detector="hands+pose")
ALL_GROUPS = replace(OPTIONS, groups=("hands", "pose", "lips", "face_outline"))
REFINED = replace(OPTIONS, groups=("lips", "brows", "eyes", "gaze"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two drawn clips of one sign."""
    folder = tmp_path_factory.mktemp("detector") / "corpus"
    draw_two_clips(folder)
    return folder


@pytest.fixture(scope="module")
def clips(corpus: Path) -> dict[str, Frames]:
    """Their frames."""
    return {clip.clip_id: frames_of(clip) for clip in read_manifest(corpus / "manifest.tsv")}


@pytest.fixture(scope="module")
def built() -> Callable[[str], Detector]:
    """One detector of each kind."""
    kinds = {
        "holistic": OPTIONS,
        "face": ALL_GROUPS,
        "hands": HANDS,
        "hands+pose": HANDS_AND_POSE,
    }
    detectors: dict[str, Detector] = {}

    def build(kind: str) -> Detector:
        if kind not in detectors:
            with quiet_native_code():
                detectors[kind] = build_detector(kinds[kind])
        return detectors[kind]

    return build


KINDS = [
    "holistic",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("face", "hands", "hands+pose")),
]


def detect(
    detector: Detector, frames: Sequence[npt.NDArray[np.uint8]], start_s: float = 0
) -> Found:
    detector.reset()
    return detect_on(detector, frames, start_s)


def detect_on(
    detector: Detector, frames: Sequence[npt.NDArray[np.uint8]], start_s: float = 0
) -> Found:
    with quiet_native_code():
        detections = [
            detector.detect(frame, start_s + number / DRAWING.fps)
            for number, frame in enumerate(frames)
        ]
    return np.stack([points for points, _ in detections]), np.stack(
        [present for _, present in detections]
    )


def assert_same(actual: Found, expected: Found) -> None:
    np.testing.assert_array_equal(actual[0], expected[0])
    np.testing.assert_array_equal(actual[1], expected[1])


def numbers(marks: object, indices: Sequence[int]) -> npt.NDArray[np.float32]:
    landmarks = [marks.landmark[index] for index in indices]  # type: ignore[attr-defined]
    return np.array([(mark.x, mark.y, mark.z) for mark in landmarks], np.float32)


@pytest.mark.slow
@pytest.mark.mediapipe
def test_all_groups_are_those_of_the_plain_holistic_solution(
    clips: dict[str, Frames], built: Callable[[str], Detector]
) -> None:
    """Quick twin: tests/golden/test_landmarks.py."""
    from mediapipe.python.solutions import holistic

    frames = next(iter(clips.values()))[:10]
    layout = ALL_GROUPS.layout
    points, present = detect(built("face"), frames)
    assert present.mean() > 0.95
    with quiet_native_code(), holistic.Holistic(model_complexity=1) as plain:
        for number, frame in enumerate(frames):
            results = plain.process(frame)
            for group, marks, indices in [
                ("left_hand", results.left_hand_landmarks, range(21)),
                ("right_hand", results.right_hand_landmarks, range(21)),
                ("pose", results.pose_landmarks, (0, 11, 12, 13, 14, 15, 16, 23, 24)),
            ]:
                assert present[number, layout.group(group)] == (marks is not None)
                if marks is not None:
                    expected = numbers(marks, indices)
                    np.testing.assert_array_equal(points[number, layout.slice(group)], expected)
            for group, name, index in [
                ("lips", "right_outer_corner", 61),
                ("lips", "upper_inner", 13),
                ("lips", "left_lower_outer_4", 375),
                ("face_outline", "forehead", 10),
                ("face_outline", "chin", 152),
                ("face_outline", "left_upper_outline_8", 454),
            ]:
                point = points[number, layout.index(group, name)]
                np.testing.assert_array_equal(point, numbers(results.face_landmarks, [index])[0])


@pytest.mark.slow
@pytest.mark.mediapipe
def test_hands_and_pose_are_those_of_the_plain_solutions(
    clips: dict[str, Frames], built: Callable[[str], Detector]
) -> None:
    """Quick twin: tests/golden/test_landmarks.py."""
    from mediapipe.python.solutions import hands, pose

    frames = next(iter(clips.values()))
    layout = HANDS_AND_POSE.layout
    points, present = detect(built("hands+pose"), frames)
    two_handed = 0
    with quiet_native_code(), hands.Hands() as plain_hands, pose.Pose() as plain_pose:
        for number, frame in enumerate(frames):
            found_hands = plain_hands.process(frame).multi_hand_landmarks or ()
            ours = [points[number, layout.slice(f"{side}_hand")] for side in ("left", "right")]
            for marks in found_hands[:2]:
                expected = numbers(marks, range(21))
                assert any(np.array_equal(hand, expected) for hand in ours)
            two_handed += len(found_hands) == 2
            expected = numbers(plain_pose.process(frame).pose_landmarks, (0, 11, 12))
            np.testing.assert_array_equal(points[number, layout.slice("pose")][:3], expected)
    assert two_handed > len(frames) / 2
    assert_same(  # the pose beside them changes no hand here, as the sides were right without it
        detect(built("hands"), frames), (points[:, :42], present[:, :2])
    )


@pytest.mark.mediapipe
@pytest.mark.parametrize("kind", KINDS)
def test_sides_are_the_signers_own(
    corpus: Path, clips: dict[str, Frames], built: Callable[[str], Detector], kind: str
) -> None:
    detector = built(kind)
    for clip_id, truth in read_truth(corpus / "truth.npz").items():
        points, present = detect(detector, clips[clip_id])
        hands = points[:, :42, :2].reshape(-1, 2, 21, 2)
        distance = np.linalg.norm(hands - truth.joints, axis=3).mean(axis=2)
        swapped_distance = np.linalg.norm(hands - truth.joints[:, ::-1], axis=3).mean(axis=2)
        assert (distance < swapped_distance)[present[:, :2]].all()
        assert np.nanmedian(distance) < 0.03  # picture sizes
        assert present[:, :2].mean() > 0.8
        if "pose" in detector.layout.group_names:
            x = points[:, detector.layout.slice("pose"), 0]
            assert (x[:, 1] > x[:, 2]).all()  # the left shoulder is on the viewer's right


@pytest.mark.mediapipe
def test_lips_lie_in_the_face_and_left_is_left(
    clips: dict[str, Frames], built: Callable[[str], Detector]
) -> None:
    layout = ALL_GROUPS.layout
    points, _ = detect(built("face"), next(iter(clips.values()))[:5])
    lips, outline = points[:, layout.slice("lips")], points[:, layout.slice("face_outline")]
    assert (lips[..., :2].min(1) > outline[..., :2].min(1)).all()
    assert (lips[..., :2].max(1) < outline[..., :2].max(1)).all()
    for group in ("lips", "face_outline"):
        for mark in layout.groups[layout.group(group)].landmarks:
            if mark.startswith("left"):
                mark_x = points[:, layout.index(group, mark), 0]
                mirror_x = points[:, layout.index(group, mark.replace("left", "right", 1)), 0]
                assert (mark_x > mirror_x).all(), mark
    for group, upper, lower in [
        ("lips", "upper_outer", "lower_outer"),
        ("lips", "upper_inner", "lower_inner"),
        ("face_outline", "forehead", "chin"),
    ]:
        above, below = (points[:, layout.index(group, name), 1] for name in (upper, lower))
        assert (above < below).all()


@pytest.mark.mediapipe
@pytest.mark.parametrize("kind", KINDS)
def test_no_clip_leaks_into_the_next(
    clips: dict[str, Frames], built: Callable[[str], Detector], kind: str
) -> None:
    first, second = (frames[:12] for frames in clips.values())
    detector = built(kind)
    clean = detect(detector, second)
    detect(detector, first)
    leaking = detect_on(detector, second, start_s=99.0)
    assert not np.array_equal(leaking[0], clean[0], equal_nan=True)  # or the test says nothing
    assert_same(detect(detector, second), clean)


@pytest.mark.mediapipe
@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_frame_does_not_spoil_the_next_clip(
    clips: dict[str, Frames], built: Callable[[str], Detector], kind: str
) -> None:
    frames = next(iter(clips.values()))[:4]
    detector = built(kind)
    expected = detect(detector, frames)
    with pytest.raises(RuntimeError), quiet_native_code():
        detector.detect(np.zeros((0, 5, 3), np.uint8), 9.0)
    assert_same(detect(detector, frames), expected)


@NEEDS_MEDIAPIPE
def test_the_description_tells_what_changes_landmarks_and_nothing_else(tmp_path: Path) -> None:
    description = describe_detector(OPTIONS)
    assert description["litert"].startswith("2.3.")
    assert description["opencv"]
    assert describe_detector(replace(OPTIONS, runtime="mediapipe"))["mediapipe"] == "0.10.21"
    assert description["groups"] == ["hands", "pose"]
    assert {len(digest) for digest in description["models"].values()} == {64}
    assert "hand_recrop.tflite" in description["models"]
    assert "face_landmark.tflite" not in description["models"]
    plain, refined = (describe_detector(options)["models"] for options in (ALL_GROUPS, REFINED))
    assert plain.keys() - refined.keys() == {"face_landmark.tflite"}
    assert refined.keys() - plain.keys() == {"face_landmark_with_attention.tflite"}
    assert "pose_detection.tflite" not in describe_detector(HANDS)["models"]
    assert describe_detector(replace(OPTIONS, groups=("pose", "hands"))) == description
    for change in (
        {"min_tracking_confidence": 0.6},
        {"min_detection_confidence": 0.6},
        {"groups": ("hands",)},
        {"detector": "hands+pose"},
    ):
        assert describe_detector(replace(OPTIONS, **change)) != description


def test_model_files_that_cannot_be_used_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNLOOM_MODELS", str(tmp_path))
    with pytest.raises(UserError, match=r"does not hold the models face_.*0\.10\.21"):
        describe_detector(ALL_GROUPS)


@NEEDS_MEDIAPIPE
def test_where_mediapipe_is_not_installed_its_networks_alone_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clips: dict[str, Frames]
) -> None:
    options = replace(HANDS, groups=("hands",))
    frames = next(iter(clips.values()))[:2]

    def find() -> list[npt.NDArray[np.float32]]:
        detector = build_detector(options)
        return [detector.detect(frame, 0.0)[0] for frame in frames]

    expected, described = find(), describe_detector(options)
    for name in HAND_MODELS:
        (tmp_path / name).parent.mkdir()
        shutil.copy(models_folder() / name, tmp_path / name)
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == "mediapipe":
            raise importlib.metadata.PackageNotFoundError
        return installed(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    with pytest.raises(UserError, match=r"(?s)is not installed.*--networks mediapipe-"):
        describe_detector(options)
    monkeypatch.setenv("SIGNLOOM_MODELS", str(tmp_path))
    assert describe_detector(options) == described
    for array, expected_array in zip(find(), expected, strict=True):
        np.testing.assert_array_equal(array, expected_array)
    with pytest.raises(UserError, match="needs the package itself, so Python"):
        describe_detector(replace(options, runtime="mediapipe"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_detection_confidence": 1.5}, "min_detection_confidence: found 1.5, expected at"),
        ({"groups": ("hands", "feet")}, "expected some of hands, pose, lips, face_outline"),
        ({"groups": ()}, "groups: found"),
        ({"groups": ("hands", "hands")}, "each once"),
        ({"detector": "hands"}, "detector 'hands' sees no pose, only hands"),
        ({"detector": "hands+pose", "groups": ("lips",)}, "'hands[+]pose' sees no lips"),
        ({"fps": 0.5}, "fps: found 0.5, expected 0 .all. or 1 or more"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(OPTIONS, **change)


def test_every_detector_that_params_may_name_has_a_class() -> None:
    assert set(get_args(DetectorOptions.__annotations__["detector"])) == DETECTORS.keys()
