"""Several corpora become one, are trained on together, and each has a score of its own."""

import dataclasses
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from signloom.config import load_params, load_section
from signloom.corpus.landmarks import HANDS_POSE, Group, Layout, build_layout
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS, Clip, read_manifest, write_manifest
from signloom.corpus.shards import read_shards, shards_metadata, write_shards
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions, evaluate
from signloom.features.targets import (
    TokenizeOptions,
    build_targets,
    read_targets,
    write_labels,
    write_targets,
)
from signloom.training.data import TrainingFiles
from signloom.training.train import train
from signloom.translation.translator import Translator
from signloom_tools.cli.main import main
from signloom_tools.importing.merge import common_layout, merge_extractors
from tests.expect_error import expect_error
from tests.tiny import ROOT, clip, decoding, run_options, sequence

IMPORTED = {"detector": "imported", "import_version": 2}
LIPS = build_layout(("hands", "pose", "lips"))


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())


def make_corpus(folder: str, language: str, layout: Layout, source: str, train: int) -> None:
    """Write a corpus of landmarks by the signers 1 (train), 2 (dev) and 3 (test)."""
    counts = {"train": train, "dev": 2, "test": 3}
    clips = [
        Clip(
            clip_id=f"{split}{number}",
            video=None,
            text=f"{language} {number % 3}",
            split=split,
            signer=str(SPLITS.index(split)),
            gloss=f"G{number % 3}",
            language=language,
        )
        for split, count in counts.items()
        for number in range(count)
    ]
    sequences = {listed.clip_id: clip(layout, seed=place) for place, listed in enumerate(clips)}
    write_shards(
        Path(folder) / IMPORTED_SHARDS,
        {name: len(sequence.points) for name, sequence in sequences.items()},
        sequences.__getitem__,
        layout=layout,
        extractor=json.dumps(IMPORTED | {"source": source}),
        frames_per_shard=100,
    )
    write_manifest(Path(folder, "manifest.tsv"), clips)


def make_both() -> list[str]:
    """Write the corpora of the example in docs/data.md; return the example's arguments."""
    make_corpus("data/raw/weather", "de", LIPS, "pose", train=12)
    make_corpus("data/raw/shop", "en", HANDS_POSE, "kaggle", train=3)
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^signloom (merge .*)$", text, re.MULTILINE)
    return shlex.split(line)


@pytest.mark.slow
def test_the_example_trains_on_two_corpora_and_scores_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quick twin: test_merged_landmarks_are_those_of_each_corpus."""
    main(make_both())
    output = capsys.readouterr().out
    assert "weather: 17 clips, landmarks" in output
    assert "weather: 40 landmarks (lips." in output
    corpus = Path(load_params(Path("params.yaml"))["corpus"]["folder"])
    clips = read_manifest(corpus / "manifest.tsv")  # signers of the same name are two
    assert Counter((clip.corpus, clip.split) for clip in clips)["shop", "train"] == 3
    tokenizer, labels, targets = build_targets(
        clips,
        TokenizeOptions(
            vocabulary="pruned", max_tokens=20, ctc="glosses", source="none", language=True
        ),
    )
    files = TrainingFiles(shards=corpus / IMPORTED_SHARDS, tokens=tmp_path / "tokens")
    write_targets(files.targets, targets)
    write_labels(files.labels, labels)
    tokenizer.save(files.tokenizer)
    assert read_targets(files.targets) == targets
    options = run_options()
    checkpoint, fit = train(
        files.load(cache_mb=10), options, provenance={}, log=lambda record: None
    )
    assert len(fit.history) == options.train.epochs
    scoring = load_section(ROOT / "params.yaml", "evaluate", EvaluateOptions)
    scoring = dataclasses.replace(
        scoring,
        decoding=decoding(),
        grid=dataclasses.replace(scoring.grid, beam_sizes=(), length_penalties=()),
        score=dataclasses.replace(scoring.score, resamples=100),
    )
    translator = Translator(checkpoint, torch.device("cpu"))
    evaluation = evaluate(translator, targets, {**read_shards(files.shards)}, scoring)
    for split, count in (("dev", 2), ("test", 3)):
        rows = {row.group: row for row in evaluation.splits[split].breakdowns["corpus"]}
        assert {name: row.clips for name, row in rows.items()} == {"weather": count, "shop": count}
        assert all(row.to_map()["chrf_low"] <= row.to_map()["chrf_high"] for row in rows.values())


def test_merged_landmarks_are_those_of_each_corpus() -> None:
    main(make_both())
    merged = read_shards(Path("data/raw/both") / IMPORTED_SHARDS)
    metadata = shards_metadata(Path("data/raw/both") / IMPORTED_SHARDS)
    assert metadata.layout == HANDS_POSE
    assert json.loads(metadata.extractor) == IMPORTED | {"source": "kaggle+pose"}
    count = 0
    for name in ("weather", "shop"):
        for clip_id, original in read_shards(Path("data/raw", name) / IMPORTED_SHARDS).items():
            copied = merged[f"{name}-{clip_id}"]
            np.testing.assert_array_equal(copied.points, original.points[:, : HANDS_POSE.points])
            np.testing.assert_array_equal(copied.present, original.present[:, :3])
            count += 1
    assert count == len(merged)


def make_films(folder: str) -> None:
    Path(folder, "videos").mkdir(parents=True)
    clips = []
    for split in SPLITS:
        video = Path(folder, "videos", f"{split}.mp4")
        video.write_bytes(folder.encode())
        clips.append(
            Clip(clip_id=split, video=video, text="oui", signer=split, split=split, box="0 0 1 1")
        )
    write_manifest(Path(folder, "manifest.tsv"), clips)


def test_videos_of_all_corpora_are_linked_below_their_names() -> None:
    for name in ("a", "b"):
        make_films(name)
    main(["merge", "both", "a", "other=b/manifest.tsv"])
    clips = read_manifest(Path("both/manifest.tsv"))
    assert [clip.clip_id for clip in clips[2:4]] == ["a-test", "other-train"]
    assert [clip.corpus for clip in clips[2:4]] == ["a", "other"]
    for row in clips:
        assert row.video
        assert row.video.is_symlink()
        assert row.video.read_bytes() == (b"a" if row.corpus == "a" else b"b")
    expect_error("already exists", ["merge", "both", "a", "b"])


def test_copies_of_a_merge_that_was_killed_are_taken() -> None:
    for name in ("a", "b"):
        make_films(name)
    main(["merge", "both", "a", "b", "--copy"])
    Path("both/manifest.tsv").unlink()  # what is written last
    films = sorted(Path("both").rglob("*.mp4"))
    films[-1].unlink()
    half = films[-1].with_name(f".{films[-1].name}.999999999-1f.tmp")
    half.write_text("half")
    main(["merge", "both", "a", "b", "--copy"])
    assert sorted(Path("both").rglob("*.mp4")) == films
    assert not half.exists()
    Path("both/manifest.tsv").unlink()
    films[0].write_bytes(b"another")
    expect_error("already exists; --force", ["merge", "both", "a", "b", "--copy"])


def test_videos_and_landmarks_merge_only_as_landmarks() -> None:
    make_films("films")
    make_corpus("points", "fr", HANDS_POSE, "kaggle", train=2)
    expect_error(
        "films has videos, points has landmarks: expected the sa",
        ["merge", "both", "films", "points"],
    )
    assert not Path("both").exists()
    sequences = {split: sequence(place) for place, split in enumerate(("train", "dev"))}
    write_shards(
        Path("shards"),
        {name: len(sequence.points) for name, sequence in sequences.items()},
        sequences.__getitem__,
        layout=HANDS_POSE,
        extractor='{"detector": "holistic"}',
        frames_per_shard=100,
    )
    with pytest.raises(SystemExit, match="1 row left out"):  # test has none
        main(["merge", "both", "films", "points", "--landmarks", "films=shards"])
    extractor = json.loads(shards_metadata(Path("both") / IMPORTED_SHARDS).extractor)
    assert extractor == IMPORTED | {"source": "holistic+kaggle"}
    refused = Path("both/refused.tsv").read_text()
    assert "films/manifest.tsv\t0\ttest\tshards has no landmarks of it" in refused
    clips = read_manifest(Path("both/manifest.tsv"))
    assert {clip.clip_id for clip in clips if clip.corpus == "films"} == {
        "films-train",
        "films-dev",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "a"], "found the corpora a, a and --landmarks of none; expected each"),
        (["=a", "b"], "the name '' is empty"),
        (["x/y=a", "b"], "the name 'x/y' has '/'"),
        (["a", "nowhere"], "no such manifest"),
        (
            ["a", "b", "--landmarks", "c=shards"],
            "found the corpora a, b and --landmarks of c; expected each",
        ),
    ],
)
def test_what_cannot_be_merged_is_told(arguments: list[str], message: str) -> None:
    for name in ("a", "b"):
        make_films(name)
    expect_error(re.escape(message), ["merge", "both", *arguments])
    assert not Path("both").exists()


def test_corpora_without_common_landmarks_are_named() -> None:
    pose = Layout("pose", 1, HANDS_POSE.groups[2:])
    hands = Layout("hands", 1, HANDS_POSE.groups[:2])
    with pytest.raises(UserError, match="first has pose; second has left_hand, right_hand"):
        common_layout({"first": pose, "second": hands})
    fewer = Layout("less", 1, (*hands.groups, Group("pose", pose.groups[0].landmarks[1:])))
    assert common_layout({"first": HANDS_POSE, "second": fewer}) == fewer
    with pytest.raises(UserError, match=r"imported by the versions \[1, 2\]"):
        merge_extractors([json.dumps({"import_version": version}) for version in (1, 2)])


def test_a_corpus_is_not_merged_into_itself() -> None:
    main(make_both())
    before = Path("data/raw/shop/manifest.tsv").read_bytes()
    for more in (["--force"], ["--dry-run"]):
        expect_error(
            r"it is the input data/raw/shop/manifest\.tsv",
            ["merge", "data/raw/shop", "data/raw/weather", "data/raw/shop", *more],
        )
    assert Path("data/raw/shop/manifest.tsv").read_bytes() == before
    make_films("films")
    expect_error(
        "found landmarks of another corpus",
        ["merge", "data/raw/both", "films", "other=films", "--force"],
    )
    read_manifest(Path("data/raw/both/manifest.tsv"))


def test_names_that_would_be_the_same_are_refused_before_anything_is_written() -> None:
    for folder, name in (("a", "b-dev"), ("a-b", "dev")):
        make_films(folder)
        clips = read_manifest(Path(folder, "manifest.tsv"))
        renamed = [dataclasses.replace(c, clip_id=name) if c.split == "dev" else c for c in clips]
        write_manifest(Path(folder, "manifest.tsv"), renamed)
    expect_error(
        "both would have the clip 'a-b-dev'; give one another", ["merge", "both", "a", "a-b"]
    )
    assert not Path("both").exists()
    main(["merge", "both", "a", "c=a-b"])
