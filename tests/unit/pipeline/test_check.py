"""The first stage finds what later ones would refuse after hours."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.check import main
from signloom.config import load_params
from signloom.corpus.manifest import SPLITS, Clip, write_manifest
from signloom.errors import UserError
from signloom.paths import PARAMS, SHARDS
from tests import tiny
from tests.tiny import ROOT

CORPUS = Path("data/raw/mine")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose parameters fit its corpus, which has no glosses."""
    monkeypatch.chdir(tmp_path)
    PARAMS.write_text((ROOT / PARAMS).read_text(encoding="utf-8"), encoding="utf-8")
    CORPUS.mkdir(parents=True)
    (CORPUS / "a.mp4").touch()
    clips = [
        Clip(clip_id=split, video=CORPUS / "a.mp4", text="one two", signer=split, split=split)
        for split in SPLITS
    ]
    write_manifest(CORPUS / "manifest.tsv", clips)
    change(corpus={"folder": str(CORPUS)}, tokenize_targets={"ctc": "characters"})


def change(**sections: Mapping[str, Any]) -> None:
    values = load_params(PARAMS)
    for name, content in sections.items():
        values[name] |= content
    PARAMS.write_text(json.dumps(values), encoding="utf-8")


def test_parameters_that_fit_pass_the_check() -> None:
    main()
    assert Path("data/checked.txt").is_file()
    change(tune={"trials": 0, "space": {"model.d_model": {"choices": [30]}}, "first": []})
    main()  # of a search that is left out nothing needs to fit


def test_parameters_of_version_0_2_pass_where_they_equal_the_constants() -> None:
    change(
        extract={"min_tracking_confidence": 0.5},
        report={"samples": 3, "quality": {"worst": 6}},
        tune={"heartbeat_s": 20, "seed": 1},
    )
    main()


def test_a_section_that_no_stage_reads_is_refused() -> None:
    PARAMS.write_text(json.dumps({**load_params(PARAMS), "retrain": {"inbox": "x"}}))
    with pytest.raises(UserError, match=r"no stage reads a section `retrain`: .*in ops\.yaml"):
        main()


def test_a_warm_up_longer_than_training_is_told(caplog: pytest.LogCaptureFixture) -> None:
    message = "train.warmup_steps is 101, and this training has 100 steps (100 epochs of 1)"
    change(train={"warmup_steps": 101, "epochs": 100})
    main()
    assert message not in caplog.text  # how long the clips are is not known yet
    tiny.write_clips(SHARDS, {split: tiny.sequence() for split in SPLITS})
    main()
    assert message in caplog.text


def test_a_warm_up_longer_than_a_training_of_glosses_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clips = [
        Clip(clip_id=s, video=None, text="one two", signer=s, split=s, gloss="ONE TWO")
        for s in SPLITS
    ]
    write_manifest(CORPUS / "manifest.tsv", clips)
    change(
        tokenize_targets={"source": "glosses"},
        model={"source": "glosses", "subsampling": 1, "ctc_feedback": False},
        train={"warmup_steps": 4000, "epochs": 5, "ctc_weight": 0.0},
        tune={"trials": 0},
    )
    main()
    assert "this training has 5 steps (5 epochs of 1)" in caplog.text


@pytest.mark.parametrize(("name", "is_alike"), [("A.mp4", True), ("b.mp4", False)])
def test_films_that_a_disk_may_take_for_one_are_told_before_they_are_pulled(
    caplog: pytest.LogCaptureFixture, name: str, is_alike: bool
) -> None:
    (CORPUS / name).touch()
    films = {"train": "a.mp4", "dev": "a.mp4", "test": name}
    clips = [
        Clip(clip_id=split, video=CORPUS / film, text="one two", signer=split, split=split)
        for split, film in films.items()
    ]
    write_manifest(CORPUS / "manifest.tsv", clips)
    main()
    message = f"differ by capitals alone ({CORPUS / 'A.mp4'} and {CORPUS / 'a.mp4'})"
    assert (message in caplog.text) == is_alike


def test_weights_of_a_version_that_is_gone_stop_no_night_before_it_chooses_others() -> None:
    change(train={"start_from": "data/models/0001/checkpoint"})
    main()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"features": {"groups": ["hands", "lips"]}}, "features.groups asks for lips, but these"),
        ({"train": {"device": "cuda", "portable": False}}, "torch sees no GPU"),
        ({"tokenize_targets": {"ctc": "glosses"}}, "is glosses, but no train clip has a gloss"),
        ({"tokenize_targets": {"ctc": "none"}}, "tokenize_targets.ctc is none, so there is nothin"),
        ({"evaluate": {"together": True}}, r"together is true, but there is one model; train with"),
        ({"tokenize_targets": {"max_tokens": 3}}, "clip train: 4 tokens, at most 3 are accepted"),
        ({"tokenize_targets": {"source": "glosses"}}, "3 of 3 clips have no gloss"),
        ({"model": {"source": "glosses"}}, "train.ctc_weight is 0.3, but CTC spells"),
        (
            {"model": {"source": "glosses", "subsampling": 1}, "train": {"ctc_weight": 0.0}},
            "model.source is glosses, but tokenize_targets.source is none",
        ),
        ({"evaluate": {"commands": {"comet": "x"}}}, "commands is no option any more; score hyp"),
        (
            {"tune": {"space": {"model.d_model": {"choices": [30]}}, "first": []}},
            "tune.space.model.d_model: 30 cannot be trained with (trial: model: d_m",
        ),
        (
            {
                "tune": {
                    "space": {
                        "model.d_model": {"choices": [64]},
                        "model.head_width": {"choices": [48]},
                    },
                    "first": [],
                }
            },
            "model.d_model 64 is not a multiple of model.head_width 48",
        ),
        ({"extract": {"frames_per_shard": 9}}, "extract.frames_per_shard: found 9, but it is no "),
        (
            {"evaluate": {"decoding": {"beam_size": 4, "length_penalty": 1.0, "top_k": 5}}},
            "decoding.top_k is no option any more",
        ),
    ],
)
def test_a_wrong_parameter_is_found_before_hours_of_extraction(
    sections: Mapping[str, Mapping[str, Any]], message: str
) -> None:
    change(**sections)
    with pytest.raises(UserError) as error:
        main()
    assert message in str(error.value)
    assert not Path("data/checked.txt").exists()


@pytest.mark.parametrize("folder", [".", "data", "data/landmarks", "reports/tune/mine"])
def test_a_corpus_in_a_folder_that_stages_empty_is_refused(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "manifest.tsv").write_bytes((CORPUS / "manifest.tsv").read_bytes())
    change(corpus={"folder": folder})
    with pytest.raises(UserError, match="a folder of its own"):
        main()


def test_a_value_that_the_family_would_ignore_is_refused_with_what_to_do() -> None:
    change(model={"family": "gru", "ctc_feedback": True, "conv_kernel": 31, "attention": "dot"})
    with pytest.raises(UserError) as error:
        main()
    first, second = str(error.value).splitlines()
    assert "model.conv_kernel: found 31, which gru does not read, only conformer" in first
    assert "model.ctc_feedback: found True, which gru does not read" in second


def test_all_that_does_not_fit_comes_in_one_message() -> None:
    change(
        train={"device": "cuda", "portable": False},
        features={"groups": ["lips"]},
        tokenize_targets={"ctc": "none"},
    )
    with pytest.raises(UserError) as error:
        main()
    for part in ("cuda was asked for", "asks for lips", "nothing to spell"):
        assert part in str(error.value)
