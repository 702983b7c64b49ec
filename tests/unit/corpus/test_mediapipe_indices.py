"""Our landmarks are the ones of MediaPipe that its own tables name or join."""

import re
from collections.abc import Iterable

import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, GROUP_INDICES, PART_POINTS, POSE_WRISTS
from tests.extraction import NEEDS_MEDIAPIPE

GROUPS = {group.name: group for groups in GROUP_CHOICES.values() for group in groups}


def test_every_group_has_an_index_for_each_landmark() -> None:
    assert GROUP_INDICES.keys() == GROUPS.keys()
    for name, (part, indices) in GROUP_INDICES.items():
        assert len(indices) == len(set(indices)) == len(GROUPS[name].landmarks)
        irises = 10 if name == "gaze" else 0  # behind the others
        assert max(indices) < PART_POINTS[part] + irises


@pytest.mark.mediapipe
@NEEDS_MEDIAPIPE
def test_hands_and_pose_bear_the_names_of_mediapipe() -> None:
    from mediapipe.python.solutions.hands import HandLandmark
    from mediapipe.python.solutions.pose import PoseLandmark

    assert len(PoseLandmark) == PART_POINTS["pose"]
    for mark, index in zip(GROUPS["pose"].landmarks, GROUP_INDICES["pose"][1], strict=True):
        assert PoseLandmark(index).name.lower() == mark
    assert [PoseLandmark(index).name for index in POSE_WRISTS] == ["LEFT_WRIST", "RIGHT_WRIST"]
    for side in ("left_hand", "right_hand"):
        for mark, index in zip(GROUPS[side].landmarks, GROUP_INDICES[side][1], strict=True):
            theirs = re.sub(
                "^index_finger|^middle_finger|^ring_finger",
                _first_word,
                HandLandmark(index).name.lower().replace("pinky", "little"),
            )
            assert theirs == mark


def _first_word(match: re.Match[str]) -> str:
    return match[0].split("_")[0]


def chain(group: str, *names: str) -> list[int]:
    """The indices of some landmarks, in the order of the names; `a..b` for all that lie between."""
    marks, indices = GROUPS[group].landmarks, GROUP_INDICES[group][1]
    vertices: list[int] = []
    for name in names:
        first, _, last = name.partition("..")
        start, stop = marks.index(first), marks.index(last or first)
        vertices += indices[start : stop + 1]
    return vertices


def edges(loop: Iterable[int]) -> set[frozenset[int]]:
    around = list(loop)
    return {frozenset(pair) for pair in zip(around, [*around[1:], around[0]], strict=True)}


@pytest.mark.mediapipe
@NEEDS_MEDIAPIPE
def test_lips_and_outline_are_the_lines_that_mediapipe_draws() -> None:
    from mediapipe.python.solutions import face_mesh_connections as theirs

    lips = set()
    for line in ("outer", "inner"):
        upper = chain("lips", f"right_{line}_corner..left_{line}_corner")
        lower = chain("lips", f"right_lower_{line}_4..left_lower_{line}_4")
        lips |= edges([*upper, *reversed(lower)])
    assert lips == {frozenset(pair) for pair in theirs.FACEMESH_LIPS}
    upper = chain("face_outline", "right_upper_outline_8..left_upper_outline_8")
    lower = chain("face_outline", "right_lower_outline_9..left_lower_outline_9")
    outline = edges([*upper, *reversed(lower)])
    assert outline == {frozenset(pair) for pair in theirs.FACEMESH_FACE_OVAL}


@pytest.mark.mediapipe
@pytest.mark.parametrize("side", ["right", "left"])
@NEEDS_MEDIAPIPE
def test_brows_lids_and_irises_are_the_lines_that_mediapipe_draws(side: str) -> None:
    from mediapipe.python.solutions import face_mesh_connections as theirs

    def drawn(name: str) -> set[frozenset[int]]:
        return {frozenset(pair) for pair in getattr(theirs, f"FACEMESH_{side.upper()}_{name}")}

    brows = set()
    for edge in ("upper", "lower"):
        line = chain("brows", f"{side}_{edge}_brow_1..{side}_{edge}_brow_5")
        brows |= edges(line) - {frozenset((line[0], line[-1]))}
    assert brows == drawn("EYEBROW")
    upper = chain("eyes", f"{side}_upper_lid_1..{side}_upper_lid_7")
    lower = chain("eyes", f"{side}_lower_lid_1..{side}_lower_lid_7")
    outer, inner = chain("eyes", f"{side}_outer_corner", f"{side}_inner_corner")
    assert edges([outer, *upper, inner, *reversed(lower)]) == drawn("EYE")
    assert chain("gaze", f"{side}_outer_corner", f"{side}_inner_corner") == [outer, inner]
    assert edges(chain("gaze", f"{side}_iris_outer..{side}_iris_bottom")) == drawn("IRIS")
