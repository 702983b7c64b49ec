"""Whatever was detected is read back; the shards of a set of clips are a function of the set."""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.shards import assign_shards, find_shards, read_shards
from tests.tiny import write_clips

MAX_ERROR = 2.0**-12  # half the step of half precision below 1: 2.4e-4

clip_ids = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)
limits = st.integers(1, 150)
frame_counts = st.dictionaries(clip_ids, st.integers(1, 120), min_size=1, max_size=60)


class Recipe(NamedTuple):
    """How to make a clip; made outside of the strategies, where run-time type checks draw too."""

    seed: int
    frames: int
    share: float
    fps: float
    width: int


recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**32 - 1),
    frames=st.integers(1, 40),
    share=st.floats(0, 1),
    fps=st.floats(1, 240),
    width=st.integers(1, 8000),
)
corpora = st.dictionaries(clip_ids, recipes, min_size=1, max_size=12)


def make(recipe: Recipe) -> LandmarkSequence:
    rng = np.random.default_rng(recipe.seed)
    points = rng.random((recipe.frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = rng.random((recipe.frames, 3)) < recipe.share
    for column, name in enumerate(HANDS_POSE.group_names):
        points[~present[:, column], HANDS_POSE.slice(name)] = np.nan
    return LandmarkSequence(
        points=points,
        present=present,
        fps=recipe.fps,
        width=recipe.width,
        height=480,
        layout=HANDS_POSE,
    )


def write(folder: Path, corpus: Mapping[str, Recipe], limit: int) -> dict[str, str]:
    clips = {clip_id: make(recipe) for clip_id, recipe in corpus.items()}
    write_clips(folder, clips, frames_per_shard=limit)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@settings(max_examples=30, deadline=None)
@given(corpus=corpora, limit=limits)
def test_round_trip(corpus: dict[str, Recipe], limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "shards"
        write(shards, corpus, limit)
        stored = read_shards(shards)
        alone = {clip_id: read_shards(shards, [clip_id])[clip_id] for clip_id in corpus}
    assert list(stored) == sorted(corpus)
    for clip_id, recipe in corpus.items():
        expected = make(recipe)
        for back in (stored[clip_id], alone[clip_id]):
            np.testing.assert_array_equal(back.present, expected.present)
            np.testing.assert_allclose(back.points, expected.points, rtol=0, atol=MAX_ERROR)
            for name in ("fps", "width", "height"):
                assert getattr(back, name) == getattr(expected, name)


@settings(max_examples=30, deadline=None)
@given(corpus=corpora, limit=limits, new=clip_ids, recipe=recipes, data=st.data())
def test_one_clip_more_or_less_concerns_one_file(
    corpus: dict[str, Recipe], limit: int, new: str, recipe: Recipe, data: st.DataObject
) -> None:
    corpus.pop(new, None)
    if not corpus:
        return
    more = {**corpus, new: recipe}
    shuffled = {clip_id: more[clip_id] for clip_id in data.draw(st.permutations(list(more)))}
    with tempfile.TemporaryDirectory() as folder:
        without = write(Path(folder) / "a", corpus, limit)
        grown = write(Path(folder) / "b", shuffled, limit)
        assert write(Path(folder) / "b", corpus, limit) == without  # removing is the inverse
    assert sum(grown.get(name) != value for name, value in without.items()) <= 1


@given(frames=frame_counts, limit=limits)
def test_every_clip_is_in_the_shard_where_it_is_looked_for(
    frames: dict[str, int], limit: int
) -> None:
    shards = assign_shards(frames, limit)
    assert sorted(name for names in shards.values() for name in names) == sorted(frames)
    assert list(shards) == sorted(shards)
    for bound, names in shards.items():
        assert names == sorted(names)
        assert find_shards(names, list(shards)) == {bound: set(names)}
        assert sum(frames[name] for name in names) <= limit or len(names) == 1
