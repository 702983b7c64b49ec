"""Whatever is switched on, a changed clip is a clip; switches do not disturb each other."""

import dataclasses
import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from signloom.corpus.landmarks import GROUP_CHOICES, LandmarkSequence, build_layout
from signloom.features.augment import AugmentOptions, augment, augmented_frames
from signloom.features.features import (
    FeatureOptions,
    build_features,
    compute_features,
    feature_width,
)
from tests import tiny

LOSSES = ("hand_drop", "time_mask")
# Built here: run-time type checks of their tuples draw from `random`, which strategies may not.
LAYOUTS = [
    build_layout(choices)
    for size in range(1, len(GROUP_CHOICES) + 1)
    for choices in itertools.combinations(GROUP_CHOICES, size)
]
seeds = st.integers(0, 2**32 - 1)


@st.composite
def clips(draw: st.DrawFn) -> LandmarkSequence:
    layout = draw(st.sampled_from(LAYOUTS))
    clip = tiny.clip(layout, seed=draw(seeds), frames=draw(st.integers(1, 30)))
    shares = np.random.default_rng(draw(seeds)).random(clip.present.shape)
    present = shares < draw(st.floats(0, 1))
    sizes = [len(group.landmarks) for group in layout.groups]
    points = np.where(np.repeat(~present, sizes, axis=1)[..., None], np.nan, clip.points)
    width, height = draw(st.integers(1, 4000)), draw(st.integers(1, 4000))
    return dataclasses.replace(
        clip, points=points.astype(np.float32), present=present, width=width, height=height
    )


shares = st.floats(0, 1)
options = st.builds(
    AugmentOptions,
    stretch=st.floats(0, 2),
    rotate_deg=st.floats(0, 180),
    scale=st.floats(0, 1),
    hand_shift=st.floats(0, 0.2),
    hand_scale=st.floats(0, 1),
    noise=st.floats(0, 0.1),
    mirror=shares,
    hand_drop=shares,
    time_mask=shares,
    max_span=shares,
)


def changed(clip: LandmarkSequence, options: AugmentOptions, seed: int) -> LandmarkSequence:
    return augment(clip, options, np.random.default_rng(seed))


@settings(max_examples=80, deadline=None)
@given(clip=clips(), options=options, seed=seeds, duration=shares)
def test_a_changed_clip_is_a_clip_of_the_planned_length(
    clip: LandmarkSequence, options: AugmentOptions, seed: int, duration: float
) -> None:
    # The constructor checks NaN against presence.
    changed_clip = augment(clip, options, np.random.default_rng(seed), duration)
    foretold = augmented_frames(len(clip.points), options, duration)
    assert len(changed_clip.points) == foretold
    assert (changed_clip.fps, changed_clip.width, changed_clip.height) == (
        clip.fps,
        clip.width,
        clip.height,
    )
    again = augment(clip, options, np.random.default_rng(seed), duration)
    np.testing.assert_array_equal(changed_clip.points, again.points)


@settings(max_examples=60, deadline=None)
@given(clip=clips(), options=options, seed=seeds, differences=st.sampled_from([0, 1, 2]))
def test_a_changed_clip_makes_finite_features_of_the_known_width(
    clip: LandmarkSequence, options: AugmentOptions, seed: int, differences: Any
) -> None:
    groups = [c for c in GROUP_CHOICES if GROUP_CHOICES[c][0].name in clip.layout.group_names]
    features = FeatureOptions(
        fps=10.0,
        groups=tuple(groups),
        normalise="body",
        hand_origin="wrist",
        differences=differences,
        presence=True,
        max_gap_s=0.3,
    )
    changed_clip = changed(clip, options, seed)
    matrix = build_features(changed_clip, features)
    assert np.isfinite(matrix).all()
    assert matrix.shape == (len(changed_clip.points), feature_width(features, clip.layout))
    assert np.isfinite(compute_features(clip, features)).all()


@settings(max_examples=60, deadline=None)
@given(clip=clips(), options=options, seed=seeds)
def test_losses_are_those_of_each_switch_alone(
    clip: LandmarkSequence, options: AugmentOptions, seed: int
) -> None:
    options = dataclasses.replace(options, stretch=0.0, mirror=0.0)
    expected = clip.present.copy()
    for loss in LOSSES:
        alone = dataclasses.replace(options, **{name: 0.0 for name in LOSSES if name != loss})
        expected &= changed(clip, alone, seed).present
    np.testing.assert_array_equal(changed(clip, options, seed).present, expected)
