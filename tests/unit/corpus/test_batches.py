import dataclasses

import numpy as np
import torch

from signloom.corpus.batches import build_batch, fixed_batches, group_by_length, training_batches
from tests import tiny

LENGTHS = np.exp(np.random.default_rng(0).normal(4.4, 0.5, 400)).astype(int).clip(30, 250).tolist()


def test_every_clip_is_in_exactly_one_batch_within_the_budget() -> None:
    for generator in (None, np.random.default_rng(1)):
        groups = group_by_length(LENGTHS, 2_000, generator)
        assert sorted(index for group in groups for index in group) == list(range(400))
        assert all(max(LENGTHS[i] for i in g) * len(g) <= 2_000 for g in groups if len(g) > 1)


def test_padding_is_at_most_8_percent_on_log_normal_lengths() -> None:
    groups = group_by_length(LENGTHS, 2_000, np.random.default_rng(1))
    padded = sum(max(LENGTHS[i] for i in group) * len(group) for group in groups)
    assert sum(LENGTHS) / padded >= 0.92


def test_a_clip_beyond_the_budget_stands_alone() -> None:
    assert group_by_length([10, 500, 20], 100, None) == [[0, 2], [1]]


def test_epochs_depend_on_seed_and_number_alone() -> None:
    data = tiny.training_data()

    def epoch(seed: int, number: int) -> list[torch.Tensor]:
        batches = training_batches(
            data.train, tiny.FEATURES, tiny.AUGMENT, max_frames=40, pad=0, seed=seed
        )
        return [batch.src for batch in batches(number)]

    first, again = epoch(1, 3), epoch(1, 3)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (epoch(2, 3), epoch(1, 4)):
        assert [b.shape for b in other] != [b.shape for b in first] or not all(
            torch.equal(a, b) for a, b in zip(first, other, strict=True)
        )


def test_stretching_does_not_exceed_the_budget() -> None:
    data = tiny.training_data(40)
    stretched = dataclasses.replace(tiny.NO_AUGMENT, stretch=0.8)
    batches = training_batches(data.train, tiny.FEATURES, stretched, max_frames=60, pad=0, seed=2)
    seen, longest = 0, 0
    for epoch in range(1, 6):
        for batch in batches(epoch):
            assert batch.src_valid.numel() <= 60
            seen += len(batch.clip_ids)
            longest = max(longest, batch.src_valid.shape[1])
    assert seen == 5 * 40
    assert longest > 12  # frames of the longest clip: some were stretched


def test_a_batch_loses_no_frame_and_no_token() -> None:
    data = tiny.training_data(3)
    matrices = [np.full((length, 4), length, dtype=np.float32) for length in (3, 5, 2)]
    batch = build_batch(data.train, matrices, pad=0)
    for row, matrix in enumerate(matrices):
        torch.testing.assert_close(batch.src[row, batch.src_valid[row]], torch.tensor(matrix))
        ids = data.train[row].target.ids
        assert batch.tgt[row, batch.tgt_valid[row]].tolist() == ids
        labels = batch.labels[row, : batch.label_lengths[row]].tolist()
        assert labels == data.train[row].target.labels
    assert not batch.src[~batch.src_valid].any()
    assert (batch.tgt[~batch.tgt_valid] == 0).all()
    assert batch.clip_ids == ("train0", "train1", "train2")


def test_dev_clips_without_labels_make_a_batch() -> None:
    data = tiny.training_data()
    (batch,) = fixed_batches(data.dev, tiny.FEATURES, max_frames=1_000, pad=0)
    assert batch.label_lengths.tolist() == [0, 0, 0, 0]
