"""Feature matrices of another network are a corpus, on which a model learns."""

import csv
import gzip
import json
import pickle
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ruamel.yaml
import torch

from pipeline import check, evaluate, extract, report, tokenize_targets, train
from signloom.config import load_params
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.features.sources import FeatureSource, open_source, source_of_fields
from signloom_tools.cli.main import main
from tests import tiny
from tests.glosses import WORDS

SMOKE = tiny.ROOT / "pipeline/smoke/params.yaml"


def matrix(seed: int = 0, frames: int = 7, width: int = 10) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (frames, width)).astype(np.float32)


def bring(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    corpus = tmp_path / "corpus"
    main(
        [
            "import",
            str(tmp_path / "in"),
            "--to",
            str(corpus),
            "--format",
            "features",
            "--fps",
            "25",
            *arguments,
        ]
    )
    return read_shards(corpus / "landmarks/shards")


def test_every_kind_of_file_gives_the_matrices(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.save(folder / "a.npy", matrix(0))
    np.savez(folder / "b.npz", b1=matrix(1), b2=matrix(2, frames=3))
    torch.save(torch.from_numpy(matrix(3)), folder / "c.pt")
    torch.save({"d1": torch.from_numpy(matrix(4))}, folder / "d.pt")
    table = {
        "clip_id": ["e1"] * 7 + ["e2"] * 7,
        "features": [*matrix(5).tolist(), *matrix(6).tolist()],
    }
    pq.write_table(pa.table(table), folder / "e.parquet")
    columns = {f"f{number}": column for number, column in enumerate(matrix(7).T)}
    pq.write_table(pa.table(columns), folder / "f.parquet")
    rows = [{"name": "train/g", "sign": torch.from_numpy(matrix(8)), "text": "regen"}]
    with gzip.open(folder / "g.pkl", "wb") as file:  # as SignJoey's PHOENIX-2014T
        pickle.dump(rows, file)
    clips = bring(tmp_path, "--allow-pickle")
    seeds = {"a": 0, "b1": 1, "b2": 2, "c": 3, "d1": 4, "e1": 5, "e2": 6, "f": 7, "train_g": 8}
    assert clips.keys() == seeds.keys()
    for name, clip in clips.items():
        expected = matrix(seeds[name], frames=3 if name == "b2" else 7)
        features = clip.points.reshape(len(clip.points), -1)
        np.testing.assert_array_equal(features[:, :10], expected.astype(np.float16))
        assert (features[:, 10:] == 0).all()
    with (tmp_path / "corpus/landmarks/clips.tsv").open() as file:
        labels = {row["clip_id"]: row["label"] for row in csv.DictReader(file, delimiter="\t")}
    assert labels["train_g"] == "regen"


def test_bad_features_are_told_and_the_others_kept(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    np.save(folder / "a.npy", matrix(0))
    np.save(folder / "b.npy", matrix(0, width=40))
    np.save(folder / "c.npy", matrix(0) * 1e6)
    np.save(folder / "d.npy", np.full((3, 10), np.nan))
    np.save(folder / "e.npy", np.zeros(10))
    (folder / "f.pt").write_bytes(pickle.dumps({"a": 1}))
    pq.write_table(pa.table({"a": ["x"]}), folder / "g.parquet")
    (folder / "h.pkl").write_bytes(pickle.dumps(matrix()))
    with pytest.raises(SystemExit, match="7 files or clips could not be imported"):
        bring(tmp_path)
    reasons = (tmp_path / "corpus/landmarks/rejects.tsv").read_text()
    for words in (
        "42 features, the first clip features-12",
        "too big for half precision",
        "the shape (10,)",
        "no tensors can be read",
        "its columns are a",
        "--allow-pickle",
    ):
        assert words in reasons


def test_the_source_is_what_the_corpus_has(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/a.npy", matrix())
    clips = bring(tmp_path)
    shards = tmp_path / "corpus/landmarks/shards"
    with pytest.raises(UserError, match=r"has features; set model\.source: features"):
        open_source("landmarks", shards=shards, targets=tmp_path)
    source = open_source("features", shards=shards, targets=tmp_path)
    assert isinstance(source, FeatureSource)
    assert source.reader(tiny.FEATURES).width == 12
    rows = source.reader(replace(tiny.FEATURES, fps=25.0)).rows(clips["a"])
    assert rows.shape == (7, 12)
    assert source.reader(replace(tiny.FEATURES, fps=50.0)).rows(clips["a"]).shape == (14, 12)
    assert not source.reader(tiny.FEATURES).blind(rows).any()
    resting = replace(tiny.FEATURES, rest_s=0.2)  # which of their frames are rest nobody knows
    assert source.reader(resting).trim(clips["a"]) is clips["a"]
    assert source.reader(resting).start_s(clips["a"]) == 0
    again = source_of_fields("features", source.to_fields(), where="checkpoint.json")
    assert again == source


def write_corpus(folder: Path) -> None:
    """A vector for each word, some frames long and noisy; a table of the sentences."""
    rng, words = random.Random(1), sorted(WORDS.values())
    vectors = dict(zip(words, np.random.default_rng(0).normal(0, 2, (len(words), 64)), strict=True))
    noise = np.random.default_rng(1)
    (folder / "in").mkdir()
    rows = ["clip_id\tsigner\tsplit\ttext"]
    for split, count in (("train", 80), ("dev", 12), ("test", 12)):
        for number in range(count):
            text = rng.choices(words, k=rng.randint(2, 3))
            frames = [vectors[word] for word in text for _ in range(rng.randint(4, 6))]
            features = np.array(frames) + noise.normal(0, 0.1, (len(frames), 64))
            np.save(folder / f"in/{split}{number}.npy", features.astype(np.float32))
            rows.append(f"{split}{number}\tof_{split}\t{split}\t{' '.join(text)}")
    (folder / "table.tsv").write_text("\n".join(rows) + "\n")


def test_a_table_of_glosses_alone_is_a_corpus_and_its_rate_counts_the_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    table = tmp_path / "table.tsv"
    table.write_text(table.read_text().replace("split\ttext", "split\tgloss"))
    ruamel.yaml.YAML().dump(load_params(SMOKE), tmp_path / "params.yaml")
    bring(tmp_path)
    main(["init", "corpus", "--table", "table.tsv", "--use"])
    printed = capsys.readouterr().out
    assert "text        <- gloss" in printed
    assert "the texts are the glosses" in printed
    assert "mirror 0" not in printed  # a reason that does not fit
    params = load_params(tmp_path / "params.yaml")
    assert params["features"]["fps"] == 25.0
    assert params["model"]["family"] == "convolution"
    assert params["augment"]["feature_shift"] > 0
    frames = int(re.search(r"single signs|sentences, (\d+) frames", printed).group(1))  # type: ignore[union-attr]
    assert 8 <= frames <= 18  # as they are, at 25 a second
    main(["summary", "--vocab", "100"])
    assert " frames with 66 features" in capsys.readouterr().out


@pytest.mark.slow
def test_features_are_translated_by_way_of_every_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quick twins: the tests above."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    ruamel.yaml.YAML().dump(load_params(SMOKE), tmp_path / "params.yaml")
    bring(tmp_path)
    main(["init", "corpus", "--table", "table.tsv", "--use"])
    params = load_params(tmp_path / "params.yaml")
    assert params["model"]["source"] == "features"
    params["train"] |= {"epochs": 12, "seeds": [1], "learning_rate": 0.005, "max_frames": 400}
    params["features"]["rest_s"] = 0.2
    ruamel.yaml.YAML().dump(params, tmp_path / "params.yaml")
    for stage in (check, extract, tokenize_targets, train, evaluate, report):
        stage.main()
    scores = json.loads(Path("reports/metrics.json").read_text())["test"]
    assert (scores["clips"], scores["missing"]) == (12, 0)
    content = json.loads(Path("reports/evaluation/scores.json").read_text())
    systems = content["splits"]["test"]["systems"]
    assert systems["model"]["chrf"]["value"] > 2 * systems["blind"]["chrf"]["value"]
    capsys.readouterr()
    main(["translate", "in/test0.npy", "--fps", "25"])
    assert capsys.readouterr().out.strip()
    with pytest.raises(SystemExit, match="trained on features"):
        main(["export-model", "--format", "onnx", "onnx"])
