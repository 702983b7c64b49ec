"""Real MediaPipe on drawn clips: exact, and on the right side."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.detection.detector import (
    Detector,
    build_detector,
    describe_detector,
    quiet_native_code,
)
from signloom.detection.runtime import _CHUNK, _chunks, in_chunks
from signloom.detection.video import Frame, Video
from signloom.errors import ClipError, Problem, UserError
from signloom.extraction import extract
from signloom.extraction.cache import LandmarkCache, unpack_frames
from signloom.extraction.extract import (
    EXTRACTION_VERSION,
    VideoSegment,
    count_frames,
    extract_part,
    extract_video,
    extractor_fingerprint,
    options_of_fingerprint,
    take_share,
)
from signloom_tools.video_writer import VideoWriter
from tests import tiny, videos
from tests.extraction import NEEDS_MEDIAPIPE, OPTIONS, draw_two_clips, frames_of

SIDES = ("left", "right")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Clip]:
    return draw_two_clips(tmp_path_factory.mktemp("extract") / "corpus")


@pytest.fixture(scope="module")
def detector() -> Detector:
    with quiet_native_code():
        return build_detector(OPTIONS.detector_options)


def detect(detector: Detector, frames: list[npt.NDArray[np.uint8]]) -> LandmarkSequence:
    detector.reset()
    detections = [detector.detect(frame, number / 15) for number, frame in enumerate(frames)]
    return LandmarkSequence(
        points=np.stack([points for points, _ in detections]),
        present=np.stack([present for _, present in detections]),
        fps=15.0,
        width=320,
        height=240,
        layout=HANDS_POSE,
    )


@pytest.mark.mediapipe
def test_hands_of_real_footage_belong_to_the_arms_of_their_side(detector: Detector) -> None:
    with Video(tiny.shared("msl150/videos/doctor_001.mp4")) as video:
        frames = [frame.rgb for frame in video.frames(end_s=0.7)]
    sequence = detect(detector, frames)
    assert sequence.present.mean() > 0.95
    hands = sequence.points[:, [HANDS_POSE.index(f"{side}_hand", "wrist") for side in SIDES], :2]
    arms = sequence.points[:, [HANDS_POSE.index("pose", f"{side}_wrist") for side in SIDES], :2]
    distance = np.nanmedian(np.linalg.norm(hands - arms, axis=2))
    swapped_distance = np.nanmedian(np.linalg.norm(hands - arms[:, ::-1], axis=2))
    assert distance < 0.03  # picture sizes
    assert swapped_distance > 0.15
    swapped = detect(detector, [np.ascontiguousarray(frame[:, :, ::-1]) for frame in frames])
    assert not swapped.present.any()  # blue skin is nobody's


@pytest.mark.mediapipe
def test_nobody_in_the_picture_is_no_landmarks(tmp_path: Path) -> None:
    sequence = extract_video(videos.write_video(tmp_path / "empty_room.mp4", frames=5), OPTIONS)
    assert not sequence.present.any()
    assert np.isnan(sequence.points).all()
    assert (sequence.fps, sequence.width, sequence.height) == (25.0, videos.WIDTH, videos.HEIGHT)


@pytest.mark.mediapipe
def test_a_segment_is_extracted_as_if_cut_out(clips: list[Clip], detector: Detector) -> None:
    assert clips[0].video
    sequence = extract_video(clips[0].video, OPTIONS, start_s=0.4, end_s=0.8)
    expected = detect(detector, frames_of(clips[0])[6:12])
    np.testing.assert_array_equal(
        sequence.points, expected.points.astype(np.float16).astype(np.float32)
    )


@pytest.mark.slow
@pytest.mark.mediapipe
def test_of_two_people_who_are_noticed_a_box_reads_one(
    clips: list[Clip], detector: Detector, tmp_path: Path
) -> None:
    """Quick twin: test_a_segment_is_extracted_as_if_cut_out."""
    film, lone = tmp_path / "two.webm", frames_of(clips[0])[:15]
    with VideoWriter(film, fps=15.0, width=640, height=240) as writer:
        for left, right in zip(lone, frames_of(clips[1]), strict=False):
            writer.write(np.hstack([left, right]))
    assert extract_video(film, OPTIONS).is_crowded
    with Video(film) as video:
        right = [np.ascontiguousarray(frame.rgb[:, 320:]) for frame in video.frames()]
    expected = detect(detector, right).points.astype(np.float16).astype(np.float32)
    for box in ((320.0, 0.0, 640.0, 240.0), (0.5, 0.0, 1.0, 1.0)):
        (entry,) = extract_part(
            [VideoSegment(video=film, start_s=None, end_s=None, box=box)], OPTIONS.detector_options
        )
        cache = LandmarkCache(tmp_path / "cache")
        cache.store("ab", bytes(entry))
        sequence = cache.load("ab")
        np.testing.assert_array_equal(sequence.points, expected)
        assert not sequence.is_crowded
    with pytest.raises(ClipError, match="not in the picture of 640x240"):
        extract_video(film, OPTIONS, box=(640.0, 0.0, 960.0, 240.0))


@pytest.mark.mediapipe
def test_segments_of_a_film_in_one_go_are_those_extracted_alone(clips: list[Clip]) -> None:
    film = clips[0].video
    assert film
    spans = [(None, 0.4), (0.3, 0.7), (50.0, 51.0), (0.8, 1.2)]  # the third is not in the film
    part = [VideoSegment(video=film, start_s=start_s, end_s=end_s) for start_s, end_s in spans]
    options = OPTIONS.detector_options
    entries = extract_part(part, options)
    assert entries == [extract_part([segment], options)[0] for segment in part]
    assert isinstance(entries[2], bytes)
    assert isinstance(unpack_frames(entries[2]), Problem)
    assert [unpack_frames(entries[at]) for at in (0, 1, 3)] == [6, 6, 6]  # bytes, at 15 a second
    counts = count_frames(part)
    assert counts[:2] == [6, 6]
    assert counts[2] == entries[2]


@pytest.mark.mediapipe
@pytest.mark.parametrize("detector_name", ["holistic", "hands+pose"])
def test_threads_find_the_same_landmarks_to_the_bit(clips: list[Clip], detector_name: str) -> None:
    assert clips[0].video
    options = replace(OPTIONS.detector_options, detector=detector_name)
    one_by_one = extract_video(clips[0].video, options)
    at_once = extract_video(clips[0].video, options, threads=2)
    assert len(one_by_one.points) > 2 * _CHUNK  # so that one chunk waits for another
    np.testing.assert_array_equal(at_once.points, one_by_one.points)
    np.testing.assert_array_equal(at_once.present, one_by_one.present)


def test_an_error_in_a_thread_reaches_who_waits_and_ends_the_threads() -> None:
    frames = [Frame(number / 25, np.zeros((2, 2, 3), np.uint8)) for number in range(40)]
    before = threading.active_count()

    def find(frame: Frame, wrong: int | None = None) -> int:
        if wrong is not None and frame is frames[wrong]:
            raise RuntimeError(f"frame {wrong} is wrong")
        return round(frame.time_s * 25)

    def double(chunk: Sequence[Frame], numbers: Sequence[int]) -> list[int]:
        assert [find(frame) for frame in chunk] == list(numbers)
        return [2 * number for number in numbers]

    for at_once in (False, True):
        triples = in_chunks(iter(frames), find, double, double, at_once=at_once)
        assert [(frame is frames[n], n, two) for frame, n, two in triples] == [
            (True, n, [2 * n, 2 * n]) for n in range(40)
        ]
        look = partial(find, wrong=20)
        with pytest.raises(RuntimeError, match="frame 20 is wrong"):
            list(in_chunks(iter(frames), look, double, at_once=at_once))

        def cut() -> Iterator[Frame]:
            yield from frames[:20]
            raise ClipError("decoding stops", "copy it again")

        with pytest.raises(ClipError, match="decoding stops"):
            list(in_chunks(cut(), find, double, at_once=at_once))
        iterator = in_chunks(iter(frames), find, double, at_once=at_once)
        next(iterator)
        iterator.close()
        assert threading.active_count() == before


def test_few_big_pictures_are_kept_at_once() -> None:
    frames = [Frame(0.0, np.empty((2160, 3840, 3), np.uint8)) for _ in range(3)]
    assert [len(chunk) for chunk in _chunks(iter(frames))] == [1, 1, 1]
    small = [Frame(0.0, np.empty((240, 320, 3), np.uint8)) for _ in range(11)]
    assert [len(chunk) for chunk in _chunks(iter(small))] == [8, 3]


def test_what_is_wrong_with_a_video_is_kept_and_what_may_be_an_accident_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = VideoSegment(video=videos.write_cut_off(tmp_path / "cut.mp4"), start_s=None, end_s=None)
    for entry in (count_frames([cut])[0], *extract_part([cut], OPTIONS.detector_options)):
        assert isinstance(entry, bytes)
        reason = unpack_frames(entry)
        assert isinstance(reason, Problem)
        assert "no video that can be decoded" in reason.reason
    good = VideoSegment(video=videos.write_video(tmp_path / "good.mp4"), start_s=None, end_s=None)

    def run_out(*_: object) -> None:
        raise MemoryError("no\troom")

    monkeypatch.setattr(extract, "_detect", run_out)
    (lost,) = extract_part([good], OPTIONS.detector_options)
    assert isinstance(lost, Problem)
    assert lost.reason == "MemoryError: no room"


@pytest.mark.mediapipe
def test_a_video_is_looked_at_as_often_as_asked(tmp_path: Path) -> None:
    path = videos.write_video(tmp_path / "a.mp4", frames=20, fps=20.0)
    options = OPTIONS.detector_options
    sequence = extract_video(path, replace(options, fps=5.0))
    assert (len(sequence.points), sequence.fps) == (5, 5.0)
    assert len(extract_video(path, replace(options, fps=50.0)).points) == 20
    thin, dense = (json.loads(extractor_fingerprint(replace(options, fps=f))) for f in (5.0, 0.0))
    assert thin.pop("fps") == 5.0
    assert thin == dense


def test_the_fingerprint_is_that_of_the_detector_and_of_no_other_option() -> None:
    fingerprint = json.loads(extractor_fingerprint(OPTIONS))
    assert fingerprint == {**describe_detector(OPTIONS), "extraction_version": EXTRACTION_VERSION}
    same = replace(OPTIONS, frames_per_shard=9, max_rejected_share=0.0, executor="ray")
    assert extractor_fingerprint(same) == extractor_fingerprint(OPTIONS)


@NEEDS_MEDIAPIPE
def test_a_new_video_is_extracted_as_the_model_was_trained() -> None:
    for runtime in ("mediapipe", "litert"):
        options = replace(OPTIONS, runtime=runtime)
        fingerprint = json.loads(extractor_fingerprint(options))
        assert options_of_fingerprint(fingerprint) == options.detector_options
        with pytest.raises(
            UserError, match=rf"other settings .*\({runtime}: .*, not 0\.9\); install"
        ):
            options_of_fingerprint(fingerprint | {runtime: "0.9"})
    for change, message in (
        ({"models": {"hand_model": "ab12"}}, r"hand_model': 'ab12'.*extract and train again"),
        ({"detector": "hands"}, "detector 'hands' sees no pose"),
    ):
        with pytest.raises(UserError, match=message):
            options_of_fingerprint(fingerprint | change)
    with pytest.raises(UserError, match="came from elsewhere"):
        options_of_fingerprint({"from": "a .pose file"})


@pytest.mark.parametrize("count", [1, 3, 9])
def test_shares_are_disjoint_and_together_all_films(count: int) -> None:
    clips = [
        Clip(
            clip_id=f"c{number}",
            video=Path(f"film{number // 2}.mp4"),
            text="oui",
            signer="s",
            split="train",
            start_s=float(number % 2),
            end_s=number % 2 + 1.0,
        )
        for number in range(10)
    ]
    parts = [take_share(clips, number, count) for number in range(count)]
    assert sorted(clip.clip_id for part in parts for clip in part) == [c.clip_id for c in clips]
    films = [{clip.video for clip in part} for part in parts]
    assert sum(map(len, films)) == 5  # both segments of a film are in one share
