"""Rests: what of the stillness around the signing a model is shown."""

import dataclasses

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence, build_layout
from signloom.features.augment import augment
from signloom.features.rests import find_signing
from signloom.features.sources import LandmarkSource
from signloom_tools.translate.segmentation import segment_by_rest
from tests import tiny

FPS = 25.0
LAYOUT = build_layout(("hands", "pose"))


def film(
    before_s: float, after_s: float, *, seed: int = 1, high: bool = False, trembles: bool = True
) -> LandmarkSequence:
    """A second in which both wrists are raised and lowered, between rests."""
    frames, rng = round((before_s + 1 + after_s) * FPS), np.random.default_rng(seed)
    points = np.tile(rng.uniform(0.3, 0.7, (1, LAYOUT.points, 3)), (frames, 1, 1))
    for side, x in (("left", 0.6), ("right", 0.4)):
        points[:, LAYOUT.index("pose", f"{side}_shoulder")] = (x, 0.4, 0)
        points[:, LAYOUT.index("pose", f"{side}_hip")] = (x, 0.9, 0)
    start = round(before_s * FPS)
    rise = 0.4 * np.sin(np.linspace(0, np.pi, round(FPS)))
    height = np.zeros(frames)
    height[start : start + len(rise)] = rise
    for side, x in (("left", 0.6), ("right", 0.4)):
        low = 0.5 if high else 0.9
        for name in (f"pose.{side}_wrist", f"{side}_hand.wrist"):
            mark = LAYOUT.landmark_names.index(name)
            points[:, mark] = np.stack([np.full(frames, x), low - height, np.zeros(frames)], axis=1)
    if trembles:
        points += rng.normal(0, 0.001, points.shape)  # as a detector does
    return LandmarkSequence(
        points=points.astype(np.float32),
        present=np.ones((frames, len(LAYOUT.groups)), bool),
        fps=FPS,
        width=640,
        height=480,
        layout=LAYOUT,
    )


@pytest.mark.parametrize(("before_s", "after_s"), [(0.5, 0.5), (2, 0), (0, 2), (3, 3), (1, 0.3)])
@pytest.mark.parametrize("high", [False, True])
def test_rests_are_cut_and_the_signing_is_not(before_s: float, after_s: float, high: bool) -> None:
    # Hands that are held up are a sign, unless the picture stands still.
    clip = film(before_s, after_s, high=high, trembles=not high)
    first, stop = find_signing(clip, 0.2)
    begins, ends = before_s * FPS, (before_s + 1) * FPS
    assert max(begins - 0.2 * FPS - 3, 0) <= first <= begins
    assert ends <= stop <= min(ends + 0.2 * FPS + 3, len(clip.points))
    trimmed = tiny.trim_rests(clip, 0.2)
    assert np.array_equal(trimmed.points, clip.points[first:stop])
    assert abs(len(tiny.trim_rests(trimmed, 0.2).points) - len(trimmed.points)) <= 2


def test_a_hand_that_spells_is_no_rest_though_its_wrist_is_still() -> None:
    clip = film(1, 1, high=True, trembles=False)
    points, rng = clip.points.copy(), np.random.default_rng(2)
    tip = LAYOUT.landmark_names.index("right_hand.index_tip")
    points[:, tip] += rng.normal(0, 0.02, (len(points), 3)).astype(np.float32)
    spelt = dataclasses.replace(clip, points=points)
    assert tiny.trim_rests(spelt, 0.2) is spelt
    low = film(1, 1, trembles=False)  # fingers that play at rest say nothing
    points = low.points.copy()
    points[:, tip] += rng.normal(0, 0.02, (len(points), 3)).astype(np.float32)
    assert len(tiny.trim_rests(dataclasses.replace(low, points=points), 0.2).points) < 45


@pytest.mark.parametrize(("held_s", "is_one"), [(0.5, True), (0.9, True), (2.0, False)])
def test_a_sign_that_is_held_still_ends_no_sentence(held_s: float, is_one: bool) -> None:
    clip, held = film(0.5, 0.5), round(held_s * FPS)
    top = round(FPS)  # hands are highest half a second after they began to rise
    points = np.insert(clip.points, [top] * held, clip.points[top], axis=0)
    present = np.ones((len(points), len(LAYOUT.groups)), bool)
    long = dataclasses.replace(clip, points=points, present=present)
    assert (len(segment_by_rest(long)) == 1) == is_one
    begun = {name: getattr(long, name)[: top + held] for name in ("points", "present")}
    now = dataclasses.replace(long, **begun)  # seen live
    spans = segment_by_rest(now)
    assert (bool(spans) and spans[-1][1] > now.seconds - 0.3) == is_one


def test_nothing_is_cut_where_nothing_moves_or_nothing_is_asked() -> None:
    clip = film(1, 1)
    assert tiny.trim_rests(clip, 0.0) is clip
    still = dataclasses.replace(
        clip, points=np.repeat(clip.points[:1], 30, axis=0), present=clip.present[:30]
    )
    assert tiny.trim_rests(still, 0.2) is still
    empty_clip = dataclasses.replace(
        clip, points=np.full_like(clip.points, np.nan), present=np.zeros_like(clip.present)
    )
    assert tiny.trim_rests(empty_clip, 0.2) is empty_clip
    single_frame = dataclasses.replace(clip, points=clip.points[:1], present=clip.present[:1])
    assert tiny.trim_rests(single_frame, 0.2) is single_frame


def test_a_model_sees_the_same_of_a_film_that_begins_with_stillness() -> None:
    source = LandmarkSource(layout=LAYOUT, extractor={})
    features = dataclasses.replace(tiny.FEATURES, groups=("hands", "pose"), rest_s=0.2)
    clip = film(0.4, 0.4)
    held = np.concatenate([np.zeros(50, int), np.arange(len(clip.points))])
    late = dataclasses.replace(clip, points=clip.points[held], present=clip.present[held])
    reader = source.reader(features)
    rows = [reader.rows(sequence) for sequence in (clip, late)]
    assert rows[0].shape == rows[1].shape
    np.testing.assert_allclose(*rows, atol=0.05)  # centre and scale are medians of all frames cut
    assert reader.start_s(late) == pytest.approx(2 + reader.start_s(clip))


def test_rests_are_added_in_training_as_long_as_planned() -> None:
    options = dataclasses.replace(tiny.AUGMENT, stretch=0.0, rest_s=0.4)
    clip, lengths = film(0, 0), set()
    for seed in range(30):
        augmented = augment(clip, options, np.random.default_rng(seed))
        again = augment(clip, options, np.random.default_rng(seed))
        assert np.array_equal(augmented.points, again.points, equal_nan=True)
        lengths.add(len(augmented.points) - len(clip.points))
    assert min(lengths) >= 0
    assert 8 < max(lengths) <= 2 * round(0.4 * FPS)
