"""The study of few sentences: which are kept, what is made of them, what it says without data."""

import dataclasses
import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
import torch

from signloom.corpus.manifest import SPLITS, Clip
from signloom.corpus.shards import read_shards
from signloom.features.targets import read_targets
from signloom.training.train import prepare, train
from studies.little import stopping
from studies.little.run import OUT, STUDY, build_page, main
from studies.little.study import Teacher, _at_steps, choose_labelled, copy_shards, hold_out_forms
from tests.tiny import ROOT, run_options, training_data, write_project


def test_a_share_of_the_train_clips_keeps_its_sentences_and_every_dev_and_test_clip() -> None:
    clips = [
        Clip(clip_id=f"{split}{n}", video=None, text="a", signer=split, split=split)
        for split in SPLITS
        for n in range(40)
    ]
    labelled = choose_labelled(clips, 0.1, seed=1)
    assert [clip.split for clip in labelled] == ["train"] * 4 + ["dev"] * 40 + ["test"] * 40
    assert labelled == choose_labelled(clips, 0.1, seed=1) != choose_labelled(clips, 0.1, seed=2)
    assert choose_labelled(clips, 1.0, seed=1) == clips


def test_forms_that_dev_or_test_has_are_no_longer_in_train() -> None:
    orders = {
        "train": ["a small tea please", "no tea a water", "hello a tea"],
        "dev": ["hello a large muffin"],
        "test": ["a coffee please"],
    }
    clips = [
        Clip(clip_id=text, video=None, text=text, signer=split, split=split)
        for split, texts in orders.items()
        for text in texts
    ]
    texts = [clip.text for clip in hold_out_forms(clips)]
    assert texts == ["no tea a water", "hello a large muffin", "a coffee please"]


@pytest.mark.parametrize("options", ["params.yaml", "curve.yaml", "forms.yaml"])
def test_without_the_takes_the_study_ends_well(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(ROOT / STUDY.parent, tmp_path / STUDY.parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run", str(STUDY.with_name(options))])
    with caplog.at_level(logging.WARNING):
        main()
    assert "words.npz is not there (docs/results.md says where to get it)" in caplog.text
    assert json.loads((OUT / "results.json").read_text())["trained"] == []
    assert "nothing was measured" in (OUT / "index.html").read_text()


def test_the_page_has_a_row_for_each_means_and_the_spread_of_the_seeds() -> None:
    rows = [
        {"means": means, "share": 0.1, "seed": seed, "wer": wer, "held": {"wer": wer / 2}}
        for means, scores in {"scratch": (40.0, 44.0), "both": (20.0, 22.0)}.items()
        for seed, wer in enumerate(scores)
    ]
    (table,) = build_page(rows).sections[0].parts
    held = ", held against its signs"
    assert table.rows == [
        ["scratch", "42.0 ± 2.8"],
        [f"scratch{held}", "21.0 ± 1.4"],
        ["both", "21.0 ± 1.4"],
        [f"both{held}", "10.5 ± 0.7"],
    ]


@pytest.mark.parametrize("patience", [0, 1])
def test_more_epochs_keep_the_epoch_that_training_would_keep(tmp_path: Path, patience: int) -> None:
    train_options = _at_steps(write_project(tmp_path), run_options(patience=patience), 40).train
    assert train_options.patience == patience * train_options.epochs


def test_a_model_cuts_clips_and_their_pieces_make_others(tmp_path: Path) -> None:
    files = write_project(tmp_path)
    checkpoint, _ = prepare(files.load(cache_mb=10), run_options(ctc_weight=0.3), provenance={})
    checkpoint.model.eval()
    sequences = read_shards(files.shards)
    train_clips = [
        Clip(
            clip_id=target.clip_id,
            video=None,
            text=target.text,
            signer="s",
            split="train",
            gloss=f"{target.gloss} {target.gloss}",
        )
        for target in read_targets(files.targets)
        if target.split == "train"
    ]
    teacher = Teacher(checkpoint, sequences)
    composed, landmarks = teacher.recombine(train_clips, 5, seed=1)
    assert len(composed) == 5 == len(landmarks)
    assert all(2 <= len(landmarks[clip.clip_id].points) <= 24 for clip in composed)
    assert (
        composed
        == teacher.recombine(train_clips, 5, seed=1)[0]
        != teacher.recombine(train_clips, 5, seed=2)[0]
    )
    copy_shards(files.shards, tmp_path / "shards", composed, landmarks)
    assert read_shards(tmp_path / "shards").keys() == landmarks.keys()


@pytest.mark.parametrize("shares", [[70, 10, 20], []])
def test_some_clips_are_of_few_signers_of_whom_none_is_in_two_splits(shares: list[int]) -> None:
    splits = dict(zip("abcdefghij", [*["train"] * 7, "dev", "test", "test"], strict=True))
    clips = [
        Clip(clip_id=f"{who}{n}", video=None, text="t", signer=who, split=split, gloss="T")
        for who, split in splits.items()
        for n in range(24)
    ]
    draws = [stopping.draw_clips(clips, shares, 28, draw) for draw in (1, 1, 2)]
    signers = {split: {clip.signer for clip in draws[0] if clip.split == split} for split in SPLITS}
    assert [len(signers[split]) for split in SPLITS] == [2, 1, 2]
    assert len(set.union(*signers.values())) == 5
    assert [sum(clip.split == split for clip in draws[0]) for split in SPLITS] == [28, 9, 48]
    assert {clip.gloss for clip in draws[0]} == {None}
    assert draws[0] == draws[1] != draws[2]
    assert (signers["test"] == {"i", "j"}) == (not shares)


@pytest.mark.parametrize("patience", [1, 9])
def test_one_training_gives_what_early_stopping_and_the_last_epoch_keep(
    tmp_path: Path, patience: int
) -> None:
    data = training_data()
    options = run_options(
        epochs=6, patience=patience, learning_rate=0.3, warmup_steps=1, schedule="constant"
    )
    *both, fit_of_both = stopping.train_both(data, options, tmp_path)
    early, fit = train(data, options, provenance={}, log=lambda record: None)
    to_the_end = dataclasses.replace(options.train, patience=0)
    last, _ = train(
        data,
        dataclasses.replace(options, train=to_the_end),
        provenance={},
        log=lambda record: None,
    )
    assert fit_of_both.best_epoch == fit.best_epoch < 6
    assert (len(fit.history) == 6) == (patience == 9)
    for mixed, alone in zip(both, (early, last), strict=True):
        for name, weights in alone.model.state_dict().items():
            assert torch.equal(mixed.model.state_dict()[name], weights)


def test_without_a_corpus_nothing_is_measured(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = stopping.DrawnCorpus(
        manifest=tmp_path / "manifest.tsv", shards=tmp_path, sizes=[28], shares=[]
    )
    options = stopping.StoppingOptions(draws=[1], corpora={"drawn people": corpus})
    assert list(stopping.measure_each(options, tmp_path)) == []
    assert "drawn people: " in caplog.text
