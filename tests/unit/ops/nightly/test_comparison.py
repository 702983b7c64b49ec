import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.features.targets import CtcLabels, read_targets, write_targets
from signloom.translation.recognised_signs import read_signs
from signloom.translation.translator import Translator
from signloom_ops.nightly import comparison
from signloom_ops.nightly.comparison import (
    ask_gate,
    check_readable,
    read_stored,
    translate_clips,
)
from signloom_ops.nightly.store import ModelStore
from tests import tiny
from tests.damage import edit_json
from tests.unit.ops.nightly.versions import GATE, add_version, inputs, measure_as_one, write_project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_project(tmp_path)
    return tmp_path


@pytest.fixture
def store(root: Path) -> ModelStore:
    return ModelStore(root / "data/models")


def test_a_first_model_is_compared_with_the_floors_on_todays_test_clips(
    root: Path, store: ModelStore
) -> None:
    decision = ask_gate(store, add_version(root, d_model=8), inputs(root), GATE)
    assert not decision.promote  # it has learnt nothing
    record = decision.to_map()
    assert record["test"] == [f"test{number}" for number in range(8)]
    assert {row["name"]: row["value"] for row in record["floors"]}["constant"] > 30
    assert store.frozen_test() is None  # these are frozen with a champion


def test_both_translate_the_frozen_clips_and_the_newest_with_the_search_of_their_own(
    root: Path,
    store: ModelStore,
) -> None:
    store.promote(add_version(root, d_model=8, beam_size=2), by="test")
    store.freeze_test(["test1", "test2", "test3", "test5", "gone"])
    challenger = add_version(root, d_model=16)
    batches = [{"train1"}, {"dev1", "train0"}, {"test6", "dev2", "dev3"}, {"dev0"}]
    decision = ask_gate(store, challenger, inputs(root, batches=batches), GATE)
    record = decision.to_map()
    assert (record["champion"], record["version"]) == (1, 2)
    assert record["test"] == ["test1", "test2", "test3", "test5"]
    assert record["missing"] == ["gone"]
    assert record["newest"]["clips"] == 4  # as many batches as are enough to judge, and no more
    assert record["decoding"]["champion"]["beam_size"] == 2
    assert record["decoding"]["challenger"]["beam_size"] == 1
    assert json.loads(json.dumps(record)) == record


@pytest.mark.slow
def test_of_a_corpus_of_glosses_the_signs_are_compared_that_the_models_read(
    root: Path, store: ModelStore
) -> None:
    """Quick twin: the comparison of sentences, above."""
    write_project(root, glosses=True)
    auto = replace(GATE, metric="auto")
    labels = sorted({word for text in tiny.SENTENCES for word in text.split()})
    reads = CtcLabels(kind="glosses", names=tuple(labels))
    store.promote(add_version(root, d_model=8, ctc=reads), by="test")
    challenger = add_version(root, d_model=16, ctc=reads)
    record = ask_gate(store, challenger, inputs(root), auto).to_map()
    assert record["metric"] == "gloss_wer"
    assert record["scores"]["wer"]["challenger"] > 50  # it has learnt nothing
    stored = read_stored(store, challenger)
    clips = read_shards(root / "data/landmarks/shards", ["test1", "test2"])
    lines = translate_clips(replace(stored, signs="none"), clips, keep=False)
    for seed, folder in enumerate(stored.checkpoints):
        signs = read_signs(Translator.load(folder), list(clips.values()))
        assert [" ".join(s.gloss for s in clip_signs) for clip_signs in signs] == [
            row[seed] for row in lines.values()
        ]
    # A model that reads no signs is judged by its sentences, or says why it cannot be.
    deaf = add_version(root, d_model=24)
    assert ask_gate(store, deaf, inputs(root), auto).to_map()["metric"] == "chrf"
    with pytest.raises(UserError, match="this model reads no signs"):
        ask_gate(store, deaf, inputs(root), replace(auto, metric="gloss_wer"))
    write_project(root)
    with pytest.raises(UserError, match=r"8 of 8 test clips have no glosses \(test0\).*ops.yaml"):
        ask_gate(store, challenger, inputs(root), replace(auto, metric="gloss_wer"))


def test_sentences_of_frozen_clips_are_kept_until_the_landmarks_change(
    root: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.promote(add_version(root, d_model=8), by="test")
    challenger = add_version(root, d_model=16)
    first = ask_gate(store, challenger, inputs(root), GATE).to_map()
    loaded = []
    original = comparison.Translator.load

    def load(folder: Path, *arguments: Any, **options: Any) -> Any:
        loaded.append(folder)
        return original(folder, *arguments, **options)

    monkeypatch.setattr(comparison.Translator, "load", load)
    again = ask_gate(store, challenger, inputs(root), GATE).to_map()
    assert loaded == []
    assert again["scores"] == first["scores"]
    write_project(root, shift=50)
    ask_gate(store, challenger, inputs(root), GATE)
    assert len(loaded) == 4  # two seeds of both


@pytest.mark.slow
def test_seeds_that_were_evaluated_as_one_are_judged_as_one(root: Path, store: ModelStore) -> None:
    """Quick twin: test_sentences_of_each_seed_are_its_own_and_are_kept_where_asked."""
    store.promote(add_version(root, d_model=8), by="test")
    version = add_version(root, d_model=16)
    apart = read_stored(store, version)
    clips = read_shards(root / "data/landmarks/shards", ["dev1", "test2"])
    by_seed = translate_clips(apart, clips, keep=True)
    measure_as_one(store.checkpoint(version), store.evaluation(version))
    stored = read_stored(store, version)
    texts = translate_clips(stored, clips, keep=True)  # not those that each wrote
    first, *further_seeds = [Translator.load(folder).first_seed for folder in stored.checkpoints]
    joint = first.with_seeds(further_seeds).translate(list(clips.values()), stored.decoding)
    assert texts == {
        clip: [" ".join(translation.text.split())]
        for clip, translation in zip(clips, joint, strict=True)
    }
    assert {len(row) for row in by_seed.values()} == {2}
    record = ask_gate(store, version, inputs(root), GATE).to_map()
    assert (record["decoding"]["challenger"]["seeds_as_one"], len(record["uses_input"])) == (2, 1)
    assert record["reasons"][0].endswith("mean of 2 seeds against 2 seeds as one, 8 clips")
    assert len(record["scores"]["chrf"]["challenger_seeds"]) == 1


def test_landmarks_of_another_make_are_refused_with_what_to_do(
    root: Path, store: ModelStore
) -> None:
    shards = root / "data/landmarks/shards"
    check_readable(store, shards)  # no champion yet: nothing to compare with
    store.promote(add_version(root, d_model=8), by="test")
    check_readable(store, shards)
    write_project(root, extractor={"detector": "other"})
    with pytest.raises(UserError, match=r"other, not tiny.*version 1, the champion.*--force"):
        check_readable(store, shards)
    with pytest.raises(UserError, match="other, not tiny"):
        ask_gate(store, add_version(root, d_model=16), inputs(root), GATE)
    edit_json(store.checkpoint(1) / "checkpoint.json", format_version=1)
    with pytest.raises(UserError, match=r"version 1, .*reads .*signloom champion add"):
        check_readable(store, shards)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 3}, r"with 2 seeds, the gate asks for 3; set train\.seeds"),
        ({"level": 0.005}, r"300 bootstrap resamples .*resamples to 400"),
        ({}, "champion already"),
    ],
)
def test_what_the_gate_cannot_judge_is_refused(
    root: Path, store: ModelStore, changes: dict[str, Any], message: str
) -> None:
    version = add_version(root, d_model=8)
    if not changes:
        store.promote(version, by="test")
    with pytest.raises(UserError, match=message):
        ask_gate(store, version, inputs(root), replace(GATE, **changes))


def test_frozen_clips_that_moved_to_train_and_a_corpus_without_test_are_refused(
    root: Path, store: ModelStore
) -> None:
    version, path = add_version(root, d_model=8), root / "data/tokens/targets.parquet"
    targets = read_targets(path)
    write_targets(path, [t for t in targets if t.split != "test"])
    with pytest.raises(UserError, match="split test"):
        ask_gate(store, version, inputs(root), GATE)
    store.promote(version, by="test")
    store.freeze_test(["test1", "test2"])
    write_targets(path, [replace(t, split="train") if t.clip_id == "test1" else t for t in targets])
    with pytest.raises(UserError, match=r"test1 in train"):
        ask_gate(store, add_version(root, d_model=16), inputs(root), GATE)


def test_sentences_of_each_seed_are_its_own_and_are_kept_where_asked(
    root: Path, store: ModelStore
) -> None:
    stored = read_stored(store, add_version(root, d_model=8))
    clips = read_shards(root / "data/landmarks/shards", ["dev1", "test2"])
    plain = translate_clips(stored, clips, keep=False)
    for seed, folder in enumerate(stored.checkpoints):
        alone = Translator.load(folder).translate(list(clips.values()), stored.decoding)
        assert [" ".join(translation.text.split()) for translation in alone] == [
            row[seed] for row in plain.values()
        ]
    assert not (stored.folder / "translations").exists()
    assert translate_clips(stored, clips, keep=True) == plain
    (path,) = (stored.folder / "translations").iterdir()
    before = path.stat().st_mtime_ns
    assert translate_clips(stored, clips, keep=True) == plain
    assert path.stat().st_mtime_ns == before
