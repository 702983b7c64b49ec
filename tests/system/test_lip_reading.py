"""Lips in, vowelled Arabic out: tokens, training, scores and report, for unseen speakers."""

import csv
import json
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ruamel.yaml

from signloom.config import load_params, load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.features.targets import read_labels, read_targets
from signloom.features.tokenizer import Tokenizer, normalise_text
from signloom_tools.cli.main import main
from studies.lip_reading.films import Film
from studies.lip_reading.mouths import LipCorpusOptions, plan_films, sentences
from studies.lip_reading.run import run_lip_reading
from tests import tiny

STUDY = tiny.ROOT / "studies/lip_reading/params.yaml"


def shrink(folder: Path, **changes: dict[str, Any]) -> Path:
    """Write the study's parameters with some of them changed."""
    params = load_params(STUDY)
    for section, values in changes.items():
        assert values.keys() <= params[section].keys()
        params[section] |= values
    path = folder / "params.yaml"
    ruamel.yaml.YAML().dump(params, path)
    return path


def follow_lips(film: Film, clip: LandmarkSequence) -> float:
    """Return the correlation of the drawn opening of the lips with that of the landmarks."""
    has_lips = clip.present[:, clip.layout.group("lips")]
    names = clip.layout.groups[clip.layout.group("lips")].landmarks
    lips = clip.points[has_lips, clip.layout.slice("lips"), :2]
    upper, lower = (lips[:, names.index(f"{part}_inner")] for part in ("upper", "lower"))
    drawn = np.array([face.open * (1 - 0.8 * face.tuck) for face in film.faces])[has_lips]
    return float(np.corrcoef(np.linalg.norm(upper - lower, axis=1), drawn)[0, 1])


@pytest.mark.slow
@pytest.mark.mediapipe
def test_every_stage_passes_arabic_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twins: tests/unit/studies/test_lips.py and tests/unit/demo/test_face.py."""
    monkeypatch.setenv("SIGNLOOM_CACHE", str(tmp_path / "cache"))
    params = shrink(
        tmp_path,
        study={"speakers": {"train": 2, "dev": 1, "test": 1}, "clips_per_speaker": 2},
        model={"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
        train={"epochs": 1},
        evaluate={"decoding": asdict(tiny.decoding(max_tokens=20))},
    )
    scores = run_lip_reading(params, tmp_path, lambda _: None)
    assert scores["test"]["clips"] == 2
    clips = read_shards(tmp_path / "landmarks/shards")
    assert {clip.layout.name for clip in clips.values()} == {"lips-gaze"}
    assert np.mean([clip.present.mean() for clip in clips.values()]) > 0.95
    films = plan_films(load_section(params, "study", LipCorpusOptions))
    assert np.median([follow_lips(film, clips[film.clip_id]) for film in films]) > 0.8
    tokenizer = Tokenizer.load(tmp_path / "tokens/tokenizer.json")
    targets = read_targets(tmp_path / "tokens/targets.parquet")
    assert {target.text for target in targets} <= {normalise_text(text) for text in sentences()}
    assert all(tokenizer.decode(target.ids) == target.text for target in targets)
    letters = read_labels(tmp_path / "tokens/labels.json").names
    for target in targets:
        if target.split == "train":
            assert "".join(letters[label - 1] for label in target.labels) == target.text
    history = json.loads((tmp_path / "checkpoint/history.json").read_text())
    assert history["epochs"][0]["train_ctc_loss"] > 0
    page = unescape((tmp_path / "index.html").read_text(encoding="utf-8"))
    with (tmp_path / "evaluation/hypotheses.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        if row["split"] == "test":
            assert row["reference"] in {target.text for target in targets}
            # Right to left where a browser lays it out; marks stay with their letters.
            assert all(word in page for word in row["reference"].split())
    assert page.count('dir="auto"') > 2 * 2
    film = tmp_path / "corpus/videos/test-01-000.mp4"
    capsys.readouterr()
    main(["translate", str(film), "--checkpoint", str(tmp_path / "checkpoint")])
    assert capsys.readouterr().out.strip()
