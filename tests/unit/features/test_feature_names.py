"""Names of features: one for each column, whatever the layout."""

import dataclasses
from typing import Any

import pytest

from signloom.corpus.landmarks import build_layout
from signloom.features.features import feature_names, feature_width
from tests import tiny


@pytest.mark.parametrize("groups", [("hands",), ("hands", "pose"), ("lips",), ("pose", "lips")])
@pytest.mark.parametrize("changes", [{}, {"hand_origin": "body", "presence": False},
                                     {"differences": 2}, {"differences": 0}])  # fmt: skip
def test_every_feature_has_one_name(groups: tuple[Any, ...], changes: dict[str, Any]) -> None:
    for layout in (build_layout(groups), build_layout(
        ("hands", "pose", "lips", "face_outline", "brows", "eyes", "gaze")
    )):  # fmt: skip
        options = dataclasses.replace(tiny.FEATURES, **{"groups": groups, **changes})
        names = feature_names(options, layout)
        assert len(names) == len(set(names)) == feature_width(options, layout)
    every = dataclasses.replace(options, groups=("brows", "eyes", "gaze", "face_outline"))
    assert len(feature_names(every, layout)) == feature_width(every, layout)
