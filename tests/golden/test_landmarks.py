import json

import pytest

from tests.golden import landmarks

EXPECTED = json.loads(landmarks.PATH.read_text(encoding="utf-8"))


def test_the_file_holds_the_versions_of_today() -> None:
    hint = "run `python -m tests.golden.landmarks`"
    assert {name: EXPECTED[name] for name in landmarks.VERSIONS} == landmarks.VERSIONS, hint


@pytest.mark.mediapipe
@pytest.mark.parametrize("detector", landmarks.DETECTORS)
def test_the_same_video_gives_the_same_landmarks_under_the_same_version(detector: str) -> None:
    different = landmarks.find_differences(landmarks.extract(detector), EXPECTED[detector])
    assert not different, "other landmarks: raise EXTRACTION_VERSION or DETECTOR_VERSION"
