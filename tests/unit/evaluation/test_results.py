import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.metrics import pick_clips, score_corpus
from signloom.evaluation.results import hypothesis_rows, write_evaluation
from signloom.features.tokenizer import Tokenizer
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Translation, Translator
from tests import tiny
from tests.unit.evaluation.world import (
    DECODING,
    DEV,
    OPTIONS,
    SCORE,
    TEST,
    TRAIN,
    Knowing,
    corpus,
    history,
    read_table,
    targets,
)


def test_metrics_hold_the_numbers_that_decide_and_no_others(knowing: Knowing) -> None:
    evaluation = evaluate(knowing, targets(), corpus(), OPTIONS)
    assert list(evaluation.metrics) == ["test", "dev"]
    for split, refs in (("test", TEST), ("dev", DEV)):
        metrics, systems = evaluation.metrics[split], evaluation.splits[split].to_map()["systems"]
        assert [name for name, value in metrics.items() if not isinstance(value, str)] == [
            "bleu4",
            "bleu4_low",
            "bleu4_high",
            "wer",
            "best_floor",
            "blind",
            "swapped",
            "clips",
            "missing",
        ]
        assert (metrics["bleu4"], metrics["wer"], metrics["blind"]) == (pytest.approx(100), 0, 0)
        assert metrics["swapped"] == systems["swapped"]["bleu4"]["value"]
        assert metrics["clips"] == len(refs)
        floors = [systems[name]["bleu4"]["value"] for name in ("constant", "retrieval", "random")]
        assert metrics["best_floor"] >= max(floors)
        constant = score_corpus([refs[0]] * len(refs), refs, SCORE)["bleu4"].value
        assert floors[0] >= round(constant, 4) or refs[0] not in TRAIN
        assert 0 < systems["greedy"]["bleu4"]["value"] < metrics["bleu4"]
        assert metrics["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")


def test_files_hold_what_was_found_and_are_reproducible(knowing: Knowing, tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        folder = tmp_path / name
        evaluation = evaluate(knowing, targets(), corpus(), OPTIONS)
        write_evaluation(folder, evaluation, history(tmp_path))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        written.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert written[0] == written[1]
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics == evaluation.metrics
    folder = tmp_path / "a" / "evaluation"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert scores["decoding"] == scores["options"]["decoding"]
    assert scores["splits"]["test"]["systems"]["blind"]["wer"]["value"] == 100
    rows = read_table(folder / "hypotheses.tsv")
    assert [row["clip_id"] for row in rows] == ["dev0", "dev1", "test0", "test1", "test2"]
    assert [row["hypothesis"] for row in rows] == DEV + TEST
    assert [row["seen_in_train"] for row in rows] == ["1", "0", "1", "0", "0"]
    assert rows[0]["greedy"] == "je vais à la"
    assert {row["swapped"] for row in rows[2:]} == set(TEST)
    assert all(row["swapped"] != row["reference"] for row in rows)
    assert [row["exact"] for row in rows] == ["1"] * 5
    cells = [rows[0][name] for name in ("hands", "fps", "seconds", "log_prob")]
    assert cells == ["1.0", "25.0", "0.48", "-0.5"]  # 12 frames
    assert read_table(folder / "grid.csv") == read_table(folder / "confusions.csv") == []
    assert read_table(folder / "curves.csv")[1]["dev_loss"] == "0.333333"
    systems = read_table(folder / "systems.csv")
    assert [row["system"] for row in systems if row["split"] == "test"] == [
        "model",
        "greedy",
        "blind",
        "swapped",
        "retrieval",
        "linear",
        "constant",
        "random",
    ]
    looked = pq.read_table(folder / "alignments.parquet").to_pylist()
    assert {row["clip_id"] for row in looked} <= {"dev0", "dev1", "test0", "test1", "test2"}
    assert looked[0]["tokens"] == ["a", ""]
    assert looked[0]["weights"] == [64] * 8  # quarters in 255ths


def test_what_a_model_says_cannot_break_the_tables(knowing: Knowing, tmp_path: Path) -> None:
    clips = corpus()
    sentences = {len(clip.points): 'a\tb\n"c" \u2028 d' for clip in clips.values()}
    knowing._said = sentences
    evaluation = evaluate(knowing, targets(), clips, OPTIONS)
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    rows = read_table(tmp_path / "evaluation" / "hypotheses.tsv")
    assert [row["hypothesis"] for row in rows] == ['a b "c" d'] * 5


def test_attention_is_that_of_the_translation_over_the_clips_frames(translator: Translator) -> None:
    clips = [corpus()[name] for name in ("test2", "train0", "dev1")]  # of different lengths
    translations = translator.translate(clips, DECODING)
    together = translator.align(clips, translations)
    for clip, translation, looked in zip(clips, translations, together, strict=True):
        assert len(looked.tokens) == len(translation.hypothesis.tokens)
        assert "".join(looked.tokens) == translation.text.rstrip("\N{REPLACEMENT CHARACTER}")
        frames = len(translator.rows(clip))
        assert looked.weights.shape == (len(looked.tokens), frames)
        assert looked.weights.sum(axis=1) == pytest.approx(1, abs=1e-5)
        assert looked.step_s == pytest.approx(1 / tiny.FEATURES.fps)
        assert set(looked.maps) == {"encoder", "decoder", "cross"}
        assert looked.maps["encoder"].shape[2:] == (frames, frames)
        assert looked.maps["cross"].mean(axis=(0, 1)) == pytest.approx(looked.weights, abs=1e-5)


def test_attention_is_kept_of_the_best_median_and_worst_clip_alone(translator: Translator) -> None:
    evaluation = evaluate(translator, targets(), corpus(), OPTIONS)
    for split, split_result in evaluation.splits.items():
        rows = [
            {name: str(value) for name, value in row.items()}
            for row in hypothesis_rows(split_result, evaluation)
        ]
        assert {*split_result.alignments} == {
            row["clip_id"] for _, row in pick_clips(rows, 1, SCORE)
        }, split


def test_a_token_within_a_character_has_no_text_of_its_own(translator: Translator) -> None:
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    ids = [*tokenizer.encode("à é"), *tokenizer.encode("ت"), tokenizer.eos]
    clip = corpus()["test0"]
    hypothesis = Hypothesis(tokens=tuple(ids), log_prob=-1.0, score=-1.0)
    (looked,) = translator.align([clip], [Translation(text="à éت", hypothesis=hypothesis)])
    assert "".join(looked.tokens) == "à éت"
    assert looked.tokens[-3:] == ("", "ت", "")  # its two bytes, and eos
    assert looked.weights.shape[0] == len(ids)


def test_a_model_without_attention_leaves_an_empty_table(tmp_path: Path) -> None:
    options = replace(tiny.MODEL, family="lstm", attention="none")
    forgetful = tiny.checkpoint(Tokenizer.build(TRAIN, "pruned"), model=options)
    translator = Translator(forgetful, torch.device("cpu"))
    evaluation = evaluate(translator, targets(), corpus(), OPTIONS)
    assert evaluation.splits["test"].alignments == {}
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    assert pq.read_table(tmp_path / "evaluation" / "alignments.parquet").num_rows == 0
