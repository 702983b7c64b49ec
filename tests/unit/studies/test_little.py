"""The study of few sentences: which are kept, and what it says without its data."""

import json
import logging
import shutil
import sys
from pathlib import Path

import pytest

from pipeline.studies.little.run import OUT, STUDY, build_page, main
from pipeline.studies.little.study import choose_labelled
from signloom.corpus.manifest import SPLITS, Clip
from tests.tiny import ROOT


def test_a_share_of_the_train_clips_keeps_its_sentences_and_every_dev_and_test_clip() -> None:
    clips = [
        Clip(clip_id=f"{split}{n}", video=None, text="a", signer=split, split=split)
        for split in SPLITS
        for n in range(40)
    ]
    kept = choose_labelled(clips, 0.1, seed=1)
    assert [clip.split for clip in kept] == ["train"] * 4 + ["dev"] * 40 + ["test"] * 40
    assert kept == choose_labelled(clips, 0.1, seed=1) != choose_labelled(clips, 0.1, seed=2)
    assert choose_labelled(clips, 1.0, seed=1) == clips


def test_without_the_takes_it_says_so_and_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(ROOT / STUDY.parent, tmp_path / STUDY.parent)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run"])
    with caplog.at_level(logging.WARNING):
        main()
    assert "words.npz is not there (docs/results.md says where to get it)" in caplog.text
    assert json.loads((OUT / "results.json").read_text())["trained"] == []
    assert "nothing was measured" in (OUT / "index.html").read_text()


def test_the_page_has_a_row_for_each_means_and_the_spread_of_the_seeds() -> None:
    rows = [
        {"means": means, "share": 0.1, "seed": seed, "wer": wer}
        for means, found in {"scratch": (40.0, 44.0), "both": (20.0, 22.0)}.items()
        for seed, wer in enumerate(found)
    ]
    (table,) = build_page(rows).sections[0].parts
    assert table.rows == [["scratch", "42.0 ± 2.8"], ["both", "21.0 ± 1.4"]]
