"""Whatever was detected is read back, within the rounding of half precision."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.shards import read_shards, write_shards

MAX_ERROR = 2.0**-12  # half the step of half precision below 1: 2.4e-4

clip_ids = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


@st.composite
def sequences(draw: st.DrawFn) -> LandmarkSequence:
    frames = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.random((frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = rng.random((frames, 3)) < draw(st.floats(0, 1))
    for column, name in enumerate(HANDS_POSE.group_names):
        points[~present[:, column], HANDS_POSE.slice(name)] = np.nan
    return LandmarkSequence(
        points=points,
        present=present,
        fps=draw(st.floats(1, 240)),
        width=draw(st.integers(1, 8000)),
        height=draw(st.integers(1, 8000)),
        layout=HANDS_POSE,
    )


@settings(max_examples=30, deadline=None)
@given(
    corpus=st.dictionaries(clip_ids, sequences(), min_size=1, max_size=12),
    clips_per_shard=st.integers(1, 12),
)
def test_round_trip(corpus: dict[str, LandmarkSequence], clips_per_shard: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "shards"
        items = sorted(corpus.items())
        write_shards(
            shards, items, layout=HANDS_POSE, extractor="{}", clips_per_shard=clips_per_shard
        )
        found = read_shards(shards)
    assert list(found) == [clip_id for clip_id, _ in items]
    for clip_id, expected in items:
        back = found[clip_id]
        np.testing.assert_array_equal(back.present, expected.present)
        np.testing.assert_allclose(back.points, expected.points, rtol=0, atol=MAX_ERROR)
        assert (back.fps, back.width, back.height) == (
            expected.fps,
            expected.width,
            expected.height,
        )
