"""The study of few sentences: which are kept, what is made of them, what it says without data."""

import json
import logging
import shutil
import sys
from pathlib import Path

import pytest

from signloom.corpus.manifest import SPLITS, Clip
from signloom.corpus.shards import read_shards
from signloom.features.targets import read_targets
from signloom.training.train import prepare
from studies.little.run import OUT, STUDY, build_page, main
from studies.little.study import Teacher, _at_steps, choose_labelled, copy_shards, hold_out_forms
from tests.tiny import ROOT, run_options, write_project


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
