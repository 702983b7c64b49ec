import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from signloom.checkpoint import Checkpoint, CheckpointSpec, build_from_spec
from signloom.config import UserError
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.targets import Target
from signloom.corpus.tokenizer import Tokenizer
from signloom.decoding import DecodingOptions, Hypothesis
from signloom.evaluation.run import EvaluateOptions, evaluate, write_evaluation
from signloom.evaluation.systems import SYSTEMS, build_retrieval, clip_vector, run_systems
from signloom.metrics import ScoreOptions, score_corpus
from signloom.translator import Alignment, Translation, Translator
from tests.tiny import FEATURES, MODEL

SCORE = ScoreOptions(tokenizer="13a", resamples=100, seed=1)
DECODING = DecodingOptions(beam_size=2, length_penalty=1.0, max_tokens=8)
OPTIONS = EvaluateOptions(decoding=DECODING, score=SCORE)
TRAIN = ["je vais à la maison", "elle mange une pomme", "demain tu viens", "je vais à la gare"]
DEV = ["je vais à la maison", "demain elle vient"]
TEST = ["demain tu viens", "elle mange à la gare", "tu vas à la maison demain"]


def targets() -> list[Target]:
    return [
        Target(clip_id=f"{split}{i}", split=split, signer=f"{split}_s{i % 2}", text=text, ids=[0],
               gloss="", labels=[])
        for split, texts in (("train", TRAIN), ("dev", DEV), ("test", TEST))
        for i, text in enumerate(texts)
    ]  # fmt: skip


def sequence(seed: int, frames: int = 12) -> LandmarkSequence:
    points = np.random.default_rng(seed).random((frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = np.ones((frames, len(HANDS_POSE.groups)), dtype=np.bool_)
    return LandmarkSequence(points=points, present=present, fps=25.0, width=320, height=240)


def corpus() -> dict[str, LandmarkSequence]:
    return {t.clip_id: sequence(i, frames=8 + i) for i, t in enumerate(targets())}


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A real, untrained model."""
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    spec = CheckpointSpec(
        model=MODEL, features=FEATURES, layout=HANDS_POSE, extractor={}, ctc_labels=0,
        provenance={},
    )  # fmt: skip
    torch.manual_seed(0)
    model = build_from_spec(spec, tokenizer).eval()
    return Translator(Checkpoint(spec=spec, model=model, tokenizer=tokenizer), torch.device("cpu"))


class Knowing(Translator):
    """Says the reference when it sees, nothing when it is blind, one word less when greedy."""

    def __init__(self, translator: Translator, said: dict[int, str]) -> None:
        self.spec = translator.spec
        self._said = said  # frames to sentence: the clips here differ in length

    def translate(self, sequences, options, *, blind=False, progress=None):  # type: ignore[no-untyped-def]
        texts = ["" if blind else self._said[len(clip.points)] for clip in sequences]
        if options.beam_size == 1:
            texts = [text.rsplit(" ", 1)[0] for text in texts]
        hypothesis = Hypothesis(tokens=(3, 1), log_prob=-0.5, score=-0.25)
        return [Translation(text=text, hypothesis=hypothesis) for text in texts]

    def align(self, sequences, translations):  # type: ignore[no-untyped-def]
        weights = np.full((2, 4), 0.25, np.float32)
        return [Alignment(tokens=("a", ""), step_s=0.4, weights=weights) for _ in translations]


@pytest.fixture
def knowing(translator: Translator) -> Translator:
    clips = corpus()
    return Knowing(translator, {len(clips[t.clip_id].points): t.text for t in targets()})


def history(folder: Path) -> Path:
    path = folder / "history.json"
    epochs = [{"epoch": i, "step": 4 * i, "train_loss": 3.0 / i, "dev_loss": 1 / 3} for i in (1, 2)]
    path.write_text(json.dumps({"epochs": epochs}))
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return list(csv.DictReader(file))
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_every_system_says_one_sentence_a_clip(translator: Translator) -> None:
    dev, test = run_systems(translator, targets(), corpus(), DECODING, SCORE)
    assert (dev.split, test.split) == ("dev", "test")
    assert set(test.texts) == set(SYSTEMS)
    assert [len(texts) for texts in test.texts.values()] == [len(TEST)] * len(SYSTEMS)
    assert [t.text for t in test.targets] == TEST
    assert set(test.texts["constant"]) <= set(TRAIN)
    assert len(set(test.texts["constant"])) == 1
    assert set(test.texts["random"]) | set(test.texts["retrieval"]) <= set(TRAIN)


def test_the_random_floor_depends_on_its_seed_only(translator: Translator) -> None:
    def say(seed: int) -> list[list[str]]:
        score = replace(SCORE, seed=seed)
        results = run_systems(translator, targets(), corpus(), DECODING, score)
        return [result.texts["random"] for result in results]

    assert say(1) == say(1)
    assert any(say(1) != say(seed) for seed in range(2, 6))


def test_retrieval_finds_the_training_clip_that_was_signed_again(translator: Translator) -> None:
    clips = corpus()
    index = build_retrieval(translator, targets(), clips)
    for i, text in enumerate(TRAIN):
        clip = clips[f"train{i}"]
        noise = np.random.default_rng(i).normal(0, 0.01, clip.points.shape).astype(np.float32)
        again = replace(clip, points=clip.points + noise)
        assert index.nearest(translator.features(again)) == text


def test_clip_vectors_have_one_length_and_keep_the_ends() -> None:
    for frames in (1, 5, 16, 40):
        matrix = np.arange(frames * 3, dtype=np.float32).reshape(frames, 3)
        vector = clip_vector(matrix).reshape(16, 3)
        assert vector[0].tolist() == matrix[0].tolist()
        assert vector[-1].tolist() == matrix[-1].tolist()
    whole = np.random.default_rng(0).random((16, 3), dtype=np.float32)
    assert clip_vector(whole).tolist() == whole.ravel().tolist()


def test_clips_without_landmarks_are_named_and_not_scored(
    knowing: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    clips = corpus()
    del clips["test1"], clips["train2"]
    evaluation = evaluate(knowing, targets(), clips, OPTIONS)
    assert "test: 1 clips without landmarks: test1" in caplog.text
    assert evaluation.splits["test"]["missing"] == ["test1"]
    assert evaluation.metrics["test"]["clips"] == 2
    assert evaluation.metrics["test"]["missing"] == 1
    assert evaluation.metrics["dev"]["missing"] == 0


def test_without_any_landmarks_there_is_an_error(knowing: Translator) -> None:
    clips = corpus()
    only_train = {clip_id: clip for clip_id, clip in clips.items() if clip_id.startswith("train")}
    with pytest.raises(UserError, match="no clip of dev or test has landmarks"):
        evaluate(knowing, targets(), only_train, OPTIONS)
    with pytest.raises(UserError, match="no train clip has landmarks"):
        evaluate(knowing, targets(), {}, OPTIONS)


def test_metrics_hold_what_dvc_metrics_show_must_print(knowing: Translator) -> None:
    metrics = evaluate(knowing, targets(), corpus(), OPTIONS).metrics
    assert list(metrics) == ["test", "dev"]
    for split, refs in (("test", TEST), ("dev", DEV)):
        found = metrics[split]
        assert found["wer"] == found["cer"] == found["wer_low"] == found["wer_high"] == 0
        assert found["bleu1"] == found["chrf"] == pytest.approx(100)
        assert found["blind_bleu4"] == 0
        assert 0 < found["greedy_bleu4"] < found["bleu4"]
        constant = score_corpus([refs[0]] * len(refs), refs, SCORE)["bleu4"].value
        assert found["floor_bleu4"] >= round(constant, 4) or refs[0] not in TRAIN
        assert found["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
        assert {"retrieval_bleu4", "random_bleu4", "floor_wer"} <= found.keys()
    assert metrics["test"]["seen"]["clips"] == 1
    assert metrics["test"]["unseen"] == {"clips": 2, "bleu4": pytest.approx(100), "wer": 0}


def test_breakdowns_cover_every_clip_once(knowing: Translator) -> None:
    test = evaluate(knowing, targets(), corpus(), OPTIONS).splits["test"]
    for rows in test["breakdowns"].values():
        assert sum(row["clips"] for row in rows) == len(TEST)
    words = test["breakdowns"]["words"]
    assert [row["group"] for row in words] == ["01-03", "04-06"]
    assert [row["group"] for row in test["breakdowns"]["signer"]] == ["test_s0", "test_s1"]


def test_files_say_what_was_found_and_are_the_same_each_time(
    knowing: Translator, tmp_path: Path
) -> None:
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
    assert scores["format_version"] == 1
    assert scores["options"]["decoding"]["beam_size"] == 2
    assert scores["splits"]["test"]["systems"]["blind"]["wer"]["value"] == 100
    rows = read_table(folder / "hypotheses.tsv")
    assert [row["clip_id"] for row in rows] == ["dev0", "dev1", "test0", "test1", "test2"]
    assert [row["hypothesis"] for row in rows] == DEV + TEST
    assert [row["seen_in_train"] for row in rows] == ["1", "0", "1", "0", "0"]
    assert rows[0]["greedy"] == "je vais à la"
    assert rows[0]["log_prob"] == "-0.5"
    assert read_table(folder / "curves.csv")[1]["dev_loss"] == "0.333333"
    systems = read_table(folder / "systems.csv")
    assert [row["system"] for row in systems if row["split"] == "test"] == [
        "model", "greedy", "blind", "retrieval", "constant", "random",
    ]  # fmt: skip
    assert {row["group"] for row in read_table(folder / "by_words.csv")} == {"01-03", "04-06"}
    looked = pq.read_table(folder / "alignments.parquet").to_pylist()
    assert [row["clip_id"] for row in looked] == ["dev0", "dev1", "test0", "test1", "test2"]
    assert looked[0]["tokens"] == ["a", ""]
    assert looked[0]["weights"] == [64] * 8  # quarters in 255ths


def test_the_attention_is_that_of_the_translation_over_the_clips_own_frames(
    translator: Translator,
) -> None:
    clips = [corpus()[name] for name in ("test2", "train0", "dev1")]  # of different lengths
    said = translator.translate(clips, DECODING)
    together = translator.align(clips, said)
    for clip, translation, looked in zip(clips, said, together, strict=True):
        assert len(looked.tokens) == len(translation.hypothesis.tokens)
        assert "".join(looked.tokens) == translation.text.rstrip("\N{REPLACEMENT CHARACTER}")
        frames = len(translator.features(clip))
        assert looked.weights.shape == (len(looked.tokens), frames)
        assert looked.weights.sum(axis=1) == pytest.approx(1, abs=1e-5)
        assert looked.step_s == pytest.approx(1 / FEATURES.fps)
        (alone,) = translator.align([clip], [translation])
        assert alone.weights == pytest.approx(looked.weights, abs=1e-5)


def test_a_token_in_the_middle_of_a_character_has_no_text_of_its_own(
    translator: Translator,
) -> None:
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    ids = [*tokenizer.encode("à é"), *tokenizer.encode("ت"), tokenizer.eos]
    clip = corpus()["test0"]
    hypothesis = Hypothesis(tokens=tuple(ids), log_prob=-1.0, score=-1.0)
    (looked,) = translator.align([clip], [Translation(text="à éت", hypothesis=hypothesis)])
    assert "".join(looked.tokens) == "à éت"
    assert looked.tokens[-3:] == ("", "ت", "")  # its two bytes, and eos
    assert looked.weights.shape[0] == len(ids)


def test_a_model_without_attention_leaves_an_empty_table(
    translator: Translator, tmp_path: Path
) -> None:
    spec = replace(translator.spec, model=replace(MODEL, family="lstm", attention="none"))
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    torch.manual_seed(0)
    model = build_from_spec(spec, tokenizer).eval()
    checkpoint = Checkpoint(spec=spec, model=model, tokenizer=tokenizer)
    forgetful = Translator(checkpoint, torch.device("cpu"))
    evaluation = evaluate(forgetful, targets(), corpus(), OPTIONS)
    assert evaluation.alignments == {}
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    assert pq.read_table(tmp_path / "evaluation" / "alignments.parquet").num_rows == 0


def test_what_a_model_says_cannot_break_the_tables(knowing: Translator, tmp_path: Path) -> None:
    clips = corpus()
    said = {len(clip.points): 'a\tb\n"c" \u2028 d' for clip in clips.values()}
    knowing._said = said  # type: ignore[attr-defined]
    evaluation = evaluate(knowing, targets(), clips, OPTIONS)
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    rows = read_table(tmp_path / "evaluation" / "hypotheses.tsv")
    assert [row["hypothesis"] for row in rows] == ['a b "c" d'] * 5


def test_greedy_decoding_is_not_done_twice(translator: Translator) -> None:
    calls: list[bool] = []

    class Counting(Knowing):
        def translate(self, sequences, options, *, blind=False, progress=None):  # type: ignore[no-untyped-def]
            calls.append(blind)
            return super().translate(sequences, options, blind=blind, progress=progress)

    clips = corpus()
    counting = Counting(translator, {len(clip.points): "a" for clip in clips.values()})
    greedy = replace(DECODING, beam_size=1)
    splits: Sequence[str] = ("test",)
    (result,) = run_systems(counting, targets(), clips, greedy, SCORE, splits=splits)
    assert calls == [False, True]
    assert result.texts["greedy"] == result.texts["model"]
