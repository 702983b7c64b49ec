from pathlib import Path

import pytest
import torch

from signloom.corpus.landmarks import HANDS_POSE
from signloom.errors import UserError
from signloom.features.batches import FixedBatches, TrainingBatches
from signloom.features.sources import Clips, StoredLandmarks
from tests import tiny
from tests.tiny import hold_clips

BYTES_A_FRAME = HANDS_POSE.points * 3 * 2 + len(HANDS_POSE.groups)


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, Clips]:
    """Write 12 clips in several shards; return the folder and the clips in memory."""
    clips = tiny.training_data(12).train
    # Half floats, as `extract` hands them over; a hand is lost in some.
    sequences = {}
    for number, target in enumerate(clips.targets):
        clip = tiny.sequence(number, frames=400 + number)
        clip = tiny.lose(clip, "left_hand", slice(5, 5 + number))
        sequences[target.clip_id] = tiny.halve(clip)
    tiny.write_clips(tmp_path / "shards", sequences, frames_per_shard=2000)
    assert len(list((tmp_path / "shards").iterdir())) > 1
    held = [tiny.Example(target, sequences[target.clip_id]) for target in clips.targets]
    return tmp_path / "shards", hold_clips(held)


def epoch(clips: Clips) -> list[torch.Tensor]:
    source = TrainingBatches(clips, tiny.FEATURES, tiny.AUGMENT, max_frames=1500, pad=0, seed=1)
    dev = FixedBatches(clips, tiny.FEATURES, max_frames=1500, pad=0)
    return [source.build(2, group).src for group in source.plan(2)] + [b.src for b in dev]


# Nothing, some clips, everything.
@pytest.mark.parametrize(("cache_mb", "kept"), [(0, 0), (1, 8), (100, 12)])
def test_streaming_changes_no_bit(corpus: tuple[Path, Clips], cache_mb: int, kept: int) -> None:
    shards, held = corpus
    landmarks = StoredLandmarks(shards, held.source, cache_mb=cache_mb)
    assert landmarks.keep([target.clip_id for target in held.targets]) == kept
    clips = landmarks.clips(held.targets)
    assert (clips.frames, clips.fps, clips.source) == (held.frames, held.fps, held.source)
    batches, expected = epoch(clips), epoch(held)
    assert len(batches) == len(expected) > 2
    assert all(torch.equal(a, b) for a, b in zip(batches, expected, strict=True))


def test_no_more_is_kept_than_allowed(corpus: tuple[Path, Clips]) -> None:
    shards, held = corpus
    landmarks = StoredLandmarks(shards, held.source, cache_mb=1)
    count = landmarks.keep([target.clip_id for target in held.targets])
    assert count * min(held.frames) * BYTES_A_FRAME <= 1_000_000
    assert (count + 1) * max(held.frames) * BYTES_A_FRAME > 1_000_000
    # Asked once more there is no room, and nothing is kept twice.
    assert landmarks.keep([held.targets[-1].clip_id]) == 0


def test_a_shard_that_is_damaged_later_is_named(corpus: tuple[Path, Clips]) -> None:
    shards, held = corpus
    clips = StoredLandmarks(shards, held.source, cache_mb=0).clips(held.targets)
    for path in shards.iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"shard-.*damaged shard"):
        clips.read([0])
