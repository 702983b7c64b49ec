"""Real MediaPipe on drawn clips: exact, on the right side, and nothing is lost without a word."""

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from signloom.config import UserError
from signloom.corpus import extract
from signloom.corpus.demo.draw import Truth, draw_corpus, read_truth
from signloom.corpus.demo.plan import DrawOptions
from signloom.corpus.detector import HolisticDetector, describe_detector, quiet_native_code
from signloom.corpus.extract import (
    ExtractOptions,
    Reject,
    extract_corpus,
    extract_video,
    extractor_fingerprint,
    options_of_fingerprint,
    write_rejects,
)
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.manifest import Clip, read_manifest
from signloom.corpus.pool import WorkerDiedError, map_in_order
from signloom.corpus.shards import read_shards, shards_metadata
from signloom.corpus.video import Video, VideoError
from tests import videos

SHARED = Path(os.environ.get("SIGNLOOM_SHARED", Path(__file__).parents[4] / "shared"))
SIDES = ("left", "right")
OPTIONS = ExtractOptions(
    min_detection_confidence=0.5,
    min_tracking_confidence=0.5,
    clips_per_shard=1,
    max_rejected_share=0.5,
)
DRAWING = DrawOptions(
    out=Path("corpus"), seed=3, train_signers=1, dev_signers=0, test_signers=0,
    clips_per_signer=2, max_signs=1, unseen_share=0.0, fps=15.0, width=320, height=240,
)  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two drawn clips of one sign."""
    folder = tmp_path_factory.mktemp("extract") / "corpus"
    draw_corpus(replace(DRAWING, out=folder), workers=1)
    return folder


@pytest.fixture(scope="module")
def clips(corpus: Path) -> list[Clip]:
    return read_manifest(corpus / "manifest.tsv")


@pytest.fixture(scope="module")
def alone(clips: list[Clip]) -> dict[str, LandmarkSequence]:
    """Each clip's landmarks as a process finds them that has seen nothing else."""
    job = functools.partial(extract_video, options=OPTIONS)
    return {clip.clip_id: next(map_in_order(job, [clip.video], 1)) for clip in clips}


@pytest.fixture(scope="module")
def detector() -> Iterator[HolisticDetector]:
    with quiet_native_code():
        yield HolisticDetector(0.5, 0.5)


def assert_same(found: LandmarkSequence, expected: LandmarkSequence) -> None:
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.present, expected.present)


def detect(detector: HolisticDetector, frames: list[npt.NDArray[np.uint8]]) -> LandmarkSequence:
    detector.reset()
    found = [detector.detect(frame) for frame in frames]
    return LandmarkSequence(
        points=np.stack([points for points, _ in found]),
        present=np.stack([present for _, present in found]),
        fps=15.0, width=320, height=240, layout=HANDS_POSE,
    )  # fmt: skip


def frames_of(clip: Clip) -> list[npt.NDArray[np.uint8]]:
    with Video(clip.video) as video:
        return [frame.rgb for frame in video.frames()]


@pytest.mark.mediapipe
def test_no_clip_leaks_into_the_next(clips: list[Clip], alone: dict[str, LandmarkSequence]) -> None:
    for clip in (clips[0], clips[1], clips[0]):
        assert_same(extract_video(clip.video, OPTIONS), alone[clip.clip_id])


@pytest.mark.mediapipe
def test_without_a_reset_a_clip_would_leak(clips: list[Clip], detector: HolisticDetector) -> None:
    first, second = frames_of(clips[0]), frames_of(clips[1])
    clean = detect(detector, second)
    detect(detector, first)
    leaking = [detector.detect(frame)[0] for frame in second]
    assert not np.array_equal(np.stack(leaking), clean.points, equal_nan=True)


@pytest.mark.mediapipe
def test_landmarks_are_those_of_the_plain_holistic_solution(
    clips: list[Clip], detector: HolisticDetector
) -> None:
    from mediapipe.python.solutions import holistic

    frames = frames_of(clips[0])
    ours = detect(detector, frames)
    with quiet_native_code(), holistic.Holistic(model_complexity=1) as plain:
        for number, frame in enumerate(frames):
            results = plain.process(frame)
            for name in ("left_hand", "right_hand"):
                found = getattr(results, f"{name}_landmarks")
                assert ours.present[number, HANDS_POSE.group(name)] == (found is not None)
                if found is not None:
                    expected = np.array([(m.x, m.y, m.z) for m in found.landmark], np.float32)
                    points = ours.points[number, HANDS_POSE.slice(name)]
                    np.testing.assert_array_equal(points, expected)
            nose, shoulder = (results.pose_landmarks.landmark[index] for index in (0, 11))
            assert ours.points[number, HANDS_POSE.index("pose", "nose"), 0] == np.float32(nose.x)
            x = ours.points[number, HANDS_POSE.index("pose", "left_shoulder"), 0]
            assert x == np.float32(shoulder.x)


@pytest.mark.mediapipe
def test_sides_are_the_signers_own(corpus: Path, alone: dict[str, LandmarkSequence]) -> None:
    for clip_id, truth in read_truth(corpus / "truth.npz").items():
        found = alone[clip_id]
        assert found.points.shape == (len(truth.sign), 51, 3)
        assert (side_errors(found, truth, swapped=False) < 0.03).all()
        assert (side_errors(found, truth, swapped=True) > 0.1).all()
        shoulders = found.points[:, [HANDS_POSE.index("pose", f"{side}_shoulder")
                                     for side in SIDES], 0]  # fmt: skip
        assert (shoulders[:, 0] > shoulders[:, 1]).all()  # the left one is on the viewer's right


def side_errors(found: LandmarkSequence, truth: Truth, swapped: bool) -> npt.NDArray[np.float64]:
    """Median distance of each hand from the true one (or the other), picture sizes."""
    hands = found.points[:, :42, :2].reshape(-1, 2, 21, 2)
    joints = truth.joints[:, ::-1] if swapped else truth.joints
    return np.nanmedian(np.linalg.norm(hands - joints, axis=3), axis=(0, 2))


@pytest.mark.mediapipe
def test_hands_get_lost_where_red_and_blue_are_swapped(
    clips: list[Clip], detector: HolisticDetector
) -> None:
    shares = []
    for step in (1, -1):
        frames = [np.ascontiguousarray(frame[:, :, ::step]) for frame in frames_of(clips[0])]
        shares.append(detect(detector, frames).present[:, :2].mean())
    rgb, bgr = shares
    assert rgb > 0.95
    assert bgr < rgb - 0.05


@pytest.mark.mediapipe
def test_hands_of_real_footage_belong_to_the_arms_of_their_side(
    detector: HolisticDetector,
) -> None:
    path = SHARED / "data" / "msl150" / "videos" / "doctor_001.mp4"
    if not path.is_file():
        pytest.skip(f"needs {path}; set SIGNLOOM_SHARED to the folder above data/")
    with Video(path) as video:
        frames = [frame.rgb for frame in video.frames(end_s=0.7)]
    found = detect(detector, frames)
    assert found.present.mean() > 0.95
    hands = found.points[:, [HANDS_POSE.index(f"{side}_hand", "wrist") for side in SIDES], :2]
    arms = found.points[:, [HANDS_POSE.index("pose", f"{side}_wrist") for side in SIDES], :2]
    own = np.nanmedian(np.linalg.norm(hands - arms, axis=2))
    other = np.nanmedian(np.linalg.norm(hands - arms[:, ::-1], axis=2))
    assert own < 0.03  # picture sizes
    assert other > 0.15
    swapped = detect(detector, [np.ascontiguousarray(frame[:, :, ::-1]) for frame in frames])
    assert not swapped.present.any()  # blue skin is nobody's


@pytest.mark.mediapipe
def test_a_failed_frame_does_not_spoil_the_next_clip(
    clips: list[Clip], detector: HolisticDetector
) -> None:
    frames = frames_of(clips[0])[:5]
    expected = detect(detector, frames)
    with pytest.raises(RuntimeError):
        detector.detect(np.zeros((0, 5, 3), np.uint8))
    assert_same(detect(detector, frames), expected)


@pytest.mark.mediapipe
def test_nobody_in_the_picture_is_no_landmarks(tmp_path: Path) -> None:
    found = extract_video(videos.write_video(tmp_path / "empty_room.mp4", frames=5), OPTIONS)
    assert not found.present.any()
    assert np.isnan(found.points).all()
    assert (found.fps, found.width, found.height) == (25.0, videos.WIDTH, videos.HEIGHT)


@pytest.mark.mediapipe
def test_a_segment_is_extracted_as_if_cut_out(
    clips: list[Clip], detector: HolisticDetector
) -> None:
    found = extract_video(clips[0].video, OPTIONS, start_s=0.4, end_s=0.8)
    expected = detect(detector, frames_of(clips[0])[6:12])
    np.testing.assert_array_equal(
        found.points, expected.points.astype(np.float16).astype(np.float32)
    )


@pytest.mark.mediapipe
def test_a_broken_video_raises_and_leaves_the_terminal_in_peace(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(VideoError, match="no video that can be decoded"):
        extract_video(videos.write_cut_off(tmp_path / "cut.mp4"), OPTIONS)
    extract_video(videos.write_video(tmp_path / "good.mp4", frames=2), OPTIONS)
    assert capfd.readouterr().err == ""


@pytest.fixture
def mixed(clips: list[Clip], tmp_path: Path) -> list[Clip]:
    """The drawn clips out of order, and two that cannot be read."""
    cut = videos.write_cut_off(tmp_path / "cut.mp4")
    late = replace(clips[0], clip_id="late", start_s=100.0)
    return [clips[1], replace(clips[0], clip_id="cut", video=cut), late, clips[0]]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.mediapipe
def test_the_corpus_is_extracted_the_same_by_any_number_of_processes(
    mixed: list[Clip],
    alone: dict[str, LandmarkSequence],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for workers in "12":
        monkeypatch.setenv("SIGNLOOM_WORKERS", workers)
        extract_corpus(mixed, OPTIONS, tmp_path / workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert list(contents(tmp_path / "1")) == [
        "quality.tsv", "rejects.tsv", "shards/shard-00000.parquet", "shards/shard-00001.parquet"
    ]  # fmt: skip
    shards = read_shards(tmp_path / "1" / "shards")
    assert list(shards) == sorted(alone)
    for clip_id, expected in alone.items():
        assert_same(shards[clip_id], expected)
    assert shards_metadata(tmp_path / "1" / "shards").extractor == extractor_fingerprint(OPTIONS)
    rejects = (tmp_path / "1" / "rejects.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in rejects] == ["clip_id", "cut", "late"]
    assert "start_s 100 is not before the end of the video" in rejects[2]
    quality = (tmp_path / "1" / "quality.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in quality] == ["clip_id", *sorted(alone)]
    noise = capfd.readouterr().err
    assert "frame/s" in noise
    assert "W0000" not in noise
    assert "TensorFlow" not in noise


@pytest.mark.parametrize(("share", "kept"), [(0.1, 2), (1.0, 0)])
def test_too_many_rejects_write_the_report_and_nothing_else(
    mixed: list[Clip], tmp_path: Path, share: float, kept: int
) -> None:
    bad = ("cut", "late")
    clips = [clip for clip in mixed if clip.clip_id in bad]
    clips += [clip for clip in mixed if clip.clip_id not in bad][:kept]
    options = replace(OPTIONS, max_rejected_share=share)
    total = len(clips)
    with pytest.raises(UserError) as caught:
        extract_corpus(clips, options, tmp_path / "out")
    assert f"2 of {total} clips ({2 / total:.1%}) cannot be read" in str(caught.value)
    assert "cut (" in str(caught.value)
    assert list(contents(tmp_path / "out")) == ["rejects.tsv"]


def test_a_process_that_dies_names_its_clips(
    mixed: list[Clip], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> Iterator[object]:
        raise WorkerDiedError(mixed[:2])
        yield

    monkeypatch.setattr(extract, "map_in_order", die)
    with pytest.raises(UserError, match=f"one of these clips: {mixed[0].clip_id}, cut. Nothing"):
        extract_corpus(mixed, OPTIONS, tmp_path / "out")
    assert contents(tmp_path / "out") == {}


def test_the_fingerprint_tells_what_changes_landmarks_and_nothing_else() -> None:
    found = json.loads(extractor_fingerprint(OPTIONS))
    assert found["mediapipe"] == describe_detector()["mediapipe"] == "0.10.21"
    assert {len(digest) for digest in found["models"].values()} == {64}
    assert "hand_landmark_full.tflite" in found["models"]
    same = replace(OPTIONS, clips_per_shard=9, max_rejected_share=0.0)
    assert extractor_fingerprint(same) == extractor_fingerprint(OPTIONS)
    other = replace(OPTIONS, min_tracking_confidence=0.6)
    assert extractor_fingerprint(other) != extractor_fingerprint(OPTIONS)


def test_a_new_video_is_extracted_as_the_model_was_trained() -> None:
    fingerprint = json.loads(extractor_fingerprint(OPTIONS))
    options = options_of_fingerprint(fingerprint)
    assert extractor_fingerprint(options) == extractor_fingerprint(OPTIONS)
    with pytest.raises(UserError, match=r"another make \(mediapipe 0\.9, here 0\.10\.21\)"):
        options_of_fingerprint(fingerprint | {"mediapipe": "0.9"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_detection_confidence": 1.5}, "min_detection_confidence: found 1.5, expected 0 to 1"),
        ({"max_rejected_share": -0.1}, "max_rejected_share: found -0.1, expected 0 to 1"),
        ({"clips_per_shard": 0}, "clips_per_shard: found 0, expected 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(OPTIONS, **change)


def test_rejects_are_a_table(tmp_path: Path) -> None:
    write_rejects(tmp_path / "r.tsv", [Reject("a", Path("v/a.mp4"), "it is empty", "copy it")])
    assert (tmp_path / "r.tsv").read_text() == (
        "clip_id\tvideo\treason\tmend\na\tv/a.mp4\tit is empty\tcopy it\n"
    )
