import dataclasses
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from signloom.config import load_section
from signloom.corpus.manifest import SPLITS, read_manifest
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions, GridOptions
from signloom.features.targets import TokenizeOptions
from studies.coffee.signs import choose_clips
from studies.coffee.study import (
    BLOCK_TAKES,
    GOODS,
    SIGNS,
    SIZES,
    CoffeeOptions,
    build_corpus,
    draw_orders,
    find_sittings,
    measure_framing,
    split_blocks,
    train_families,
)
from studies.runs import write_tokens
from tests.tiny import ROOT, lose, run_options, sequence

STUDY = ROOT / "studies/coffee/params.yaml"
PARAMS = ROOT / "params.yaml"
BLOCKS, TAKES, FRAMES = 4, 3, 3  # of a sign, of a block, of a take


def test_orders_are_drawn_once_each_and_the_same_way() -> None:
    orders = draw_orders(np.random.default_rng(1), 500)
    assert orders == draw_orders(np.random.default_rng(1), 500)
    assert len({order.text for order in orders}) == 500
    by_text = {order.text: order.signs for order in draw_orders(np.random.default_rng(2), 3000)}
    assert by_text["can i get a large coffee please"] == (
        "please",
        "coffee",
        "large",
        "i",
        "get",
        "can",
    )
    assert {sign for order in orders for sign in order.signs} == set(SIGNS)
    named = (*GOODS, *SIZES[1:], "no", "thank-you")
    for order in orders:  # what is signed is what is written
        words = order.text.replace("thank you", "thank-you").split()
        assert sorted(word for word in words if word in named) == sorted(
            sign for sign in order.signs if sign in named
        )


@pytest.fixture
def options(tmp_path: Path) -> CoffeeOptions:
    """The study on drawn takes: each sign has its own place, each block its own framing."""
    generator = np.random.default_rng(0)
    rows, labels, numbers = [], list[str](), list[str]()
    for sign in SIGNS:
        hand = generator.uniform(0.2, 0.8, 3)
        for block, take in product(range(BLOCKS), range(TAKES)):
            shift = 0.1 * block
            pose = np.ones((FRAMES, 33, 4)) * 0.5
            pose[:, 11, 0], pose[:, 12, 0] = 0.45 + shift, 0.25 + shift
            hands = hand + generator.normal(0, 0.01, (FRAMES, 42, 3))
            rows.append(np.concatenate([pose.reshape(FRAMES, -1), hands.reshape(FRAMES, -1)], 1))
            labels.append(sign)
            numbers.append(str(block * BLOCK_TAKES + take))
    path = tmp_path / "words.npz"
    offsets = np.arange(len(rows) + 1) * FRAMES
    np.savez(
        path,
        frames=np.concatenate(rows).astype(np.float32),
        offsets=offsets,
        labels=np.array(labels),
        seq=np.array(numbers),
    )
    base = load_section(STUDY, "study", CoffeeOptions)
    return dataclasses.replace(
        base,
        words=path,
        corpus=tmp_path / "coffee",
        orders={"train": 40, "dev": 5, "test": 8},
        seeds=[1],
        train={"epochs": 1, "patience": 1},
        families={"lstm": {"family": "lstm", "attention": "general"}},
    )


def test_the_corpus_is_one_that_the_stages_take(options: CoffeeOptions) -> None:
    clips = build_corpus(options)
    assert [dataclasses.replace(clip, video=None) for clip in clips] == read_manifest(
        options.corpus / "manifest.tsv"
    )  # signer-disjoint, too
    sequences = read_shards(options.corpus / "landmarks/shards")
    assert sequences.keys() == {clip.clip_id for clip in clips}
    for clip in clips:
        signs = len((clip.gloss or "").split())
        expected = signs * FRAMES + (signs - 1) * options.gap_frames
        assert len(sequences[clip.clip_id].points) == expected
    texts = defaultdict[str, set[str]](set)
    for clip in clips:
        texts[clip.split].add(clip.text)
    assert not texts["train"] & (texts["dev"] | texts["test"])
    assert build_corpus(options) == clips
    again = read_shards(options.corpus / "landmarks/shards")
    assert all(np.array_equal(again[i].points, sequences[i].points) for i in again)
    # Each block stands elsewhere in the picture: no place of test is one of train or dev.
    places = defaultdict[str, set[float]](set)
    for clip in clips:
        sequence = sequences[clip.clip_id]
        x = sequence.points[:, sequence.layout.index("pose", "left_shoulder"), 0]
        takes = np.arange(len(x)) % (FRAMES + options.gap_frames) < FRAMES
        places[clip.split] |= {round(float(value), 2) for value in x[takes]}
    assert places["test"] == {0.75}
    assert not places["test"] & (places["train"] | places["dev"])


@pytest.mark.slow
def test_every_family_is_trained_and_scored(options: CoffeeOptions, tmp_path: Path) -> None:
    """Quick twin: tests/contract trains every family."""
    tokens = tmp_path / "tokens"
    write_tokens(
        tokens, build_corpus(options), load_section(STUDY, "tokenize_targets", TokenizeOptions)
    )
    scoring = load_section(PARAMS, "evaluate", EvaluateOptions)
    scoring = dataclasses.replace(
        scoring,
        decoding=dataclasses.replace(scoring.decoding, max_tokens=8),
        grid=GridOptions(beam_sizes=(), length_penalties=()),
        score=dataclasses.replace(scoring.score, resamples=100),
    )
    (row,) = train_families(options, run_options(device="cpu"), scoring, tokens)
    assert (row["family"], row["seed"], row["best_epoch"]) == ("lstm", 1, 1)
    for split, count in (("dev", 5), ("test", 8)):
        assert row[split]["clips"] == count
        assert {"bleu4", "wer", "blind", "best_floor"} <= row[split].keys()


def test_without_the_takes_the_error_names_where_to_get_them(
    options: CoffeeOptions, tmp_path: Path
) -> None:
    missing = dataclasses.replace(options, words=tmp_path / "nothing.npz")
    with pytest.raises(UserError, match=r"docs/results\.md says where to get it"):
        build_corpus(missing)


def test_framing_is_where_the_signer_stands() -> None:
    steady = sequence(0)  # shoulders at x 0.38 and 0.62, y 0.45
    unseen = lose(sequence(1), "pose", slice(None))
    np.testing.assert_allclose(measure_framing([steady, unseen]), [0.5, 0.45, 0.24], atol=1e-6)
    assert np.isnan(measure_framing([unseen])).all()


def test_blocks_that_a_chain_connects_are_one_sitting() -> None:
    places = {0: 0.0, 1: 0.5, 2: 0.02, 3: 0.04, 4: 0.52, 5: 0.9}
    framings = {block: np.array([x, 0.0, 0.0]) for block, x in places.items()}
    assert find_sittings(framings, within=0.03) == [[0, 2, 3], [1, 4], [5]]
    assert find_sittings(framings, within=0.001) == [[block] for block in range(6)]


@pytest.mark.parametrize(
    ("sittings", "train", "dev", "test"),
    [
        ([[0, 1, 2], [3], [4]], [0, 1, 2], [3], [4]),
        ([[0, 1, 2], [3]], [0, 1], [2], [3]),  # dev has to share a sitting with train
        (
            [[0, 1], [2], [3], [4], [5], [6], [7], [8], [9], [10]],
            [0, 1, 2, 3, 4, 5, 6],
            [7, 8],
            [9, 10],
        ),
    ],
)
def test_no_sitting_of_test_is_elsewhere(
    sittings: list[list[int]], train: list[int], dev: list[int], test: list[int]
) -> None:
    assert split_blocks(sittings) == {"train": train, "dev": dev, "test": test}


@pytest.mark.parametrize("sittings", [[[0, 1, 2]], [[0], [1]], [[0], [1, 2]]])
def test_too_few_sittings_are_refused(sittings: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="found sittings"):
        split_blocks(sittings)


def test_single_signs_keep_a_share_of_train_and_no_sitting_in_two_splits(
    options: CoffeeOptions,
) -> None:
    clips = choose_clips(options, 0.5, seed=1)
    every_clip = choose_clips(options, 1.0, seed=1)
    assert {clip.text for clip in clips} == set(SIGNS)
    signers = {split: {c.signer for c in every_clip if c.split == split} for split in SPLITS}
    assert not signers["test"] & (signers["train"] | signers["dev"])
    for split in ("dev", "test"):
        assert [c for c in clips if c.split == split] == [c for c in every_clip if c.split == split]
    chosen_ids, every = (
        [c.clip_id for c in some if c.split == "train"] for some in (clips, every_clip)
    )
    assert set(chosen_ids) < set(every)
    assert len(chosen_ids) == len(every) / 2
