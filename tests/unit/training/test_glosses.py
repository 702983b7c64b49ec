"""Training on glosses: batches, what is refused, and that a model learns."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from signloom.checkpoint import load_checkpoint, save_checkpoint
from signloom.corpus.landmark_folder import write_no_landmarks
from signloom.errors import UserError
from signloom.features.batches import FixedBatches, TrainingBatches
from signloom.features.glosses import SOURCE_PAD, GlossKind, GlossSequence
from signloom.features.targets import build_targets, write_labels, write_targets
from signloom.training.data import TrainingFiles
from signloom.training.train import check_run, count_parameters, train
from signloom.translation.translator import Translator
from tests import glosses, tiny


def write_project(folder: Path, kind: GlossKind) -> TrainingFiles:
    data = glosses.training_data(kind)
    _, _, targets = build_targets(glosses.clips(), glosses.tokenize_options(kind))
    write_no_landmarks(folder / "landmarks")
    write_targets(folder / "targets.parquet", targets, data.source.vocabulary)
    write_labels(folder / "labels.json", data.labels)
    data.tokenizer.save(folder / "tokenizer.json")
    return TrainingFiles(shards=folder / "landmarks/shards", tokens=folder)


def test_batches_hold_the_ids_of_glosses(tmp_path: Path) -> None:
    data = write_project(tmp_path, "subwords").load(cache_mb=0, source="glosses")
    assert data.source.kind == "glosses"
    options = glosses.run_options(max_frames=80)
    source = TrainingBatches(
        data.train, options.features, options.augment, max_frames=80, pad=0, seed=1
    )
    visited = []
    for clips in source.plan(1):
        batch = source.build(1, clips)
        assert batch.src.dtype == torch.int64
        assert batch.src.shape == batch.src_valid.shape
        assert (batch.src[~batch.src_valid] == SOURCE_PAD).all()
        longest = max(data.train.frames[clip] + len(data.train.targets[clip].ids) for clip in clips)
        assert longest * len(clips) <= 80 or len(clips) == 1
        for row, clip in enumerate(clips):
            sequence = data.train.read([clip])[0]
            assert isinstance(sequence, GlossSequence)
            assert batch.src[row][batch.src_valid[row]].tolist() == sequence.ids.tolist()
        visited += clips
    assert sorted(visited) == list(range(len(data.train)))
    assert source.plan(1) == source.plan(1) != source.plan(2)
    batches = FixedBatches(data.dev, options.features, max_frames=80, pad=0)
    assert sum(len(batch.clip_ids) for batch in batches) == len(data.dev)


@pytest.mark.parametrize(
    "kind",
    ["shared", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("glosses", "subwords"))],
)
def test_a_model_learns_its_sentences_by_heart(tmp_path: Path, kind: GlossKind) -> None:
    data = glosses.training_data(kind, glosses.clips(train=12, dev=1, test=1))
    data = dataclasses.replace(data, dev=data.train)
    model = dataclasses.replace(glosses.MODEL, d_model=32, d_ff=48)
    options = glosses.run_options(model, epochs=60, patience=60, max_frames=999, learning_rate=0.01)
    checkpoint, _ = train(data, options, provenance={}, log=lambda record: None)
    clips = list(data.train.read(range(len(data.train))))
    translations = Translator(checkpoint, torch.device("cpu")).translate(
        clips, tiny.decoding(max_tokens=40)
    )
    texts = [target.text for target in data.train.targets]
    assert (
        sum(translation.text == text for translation, text in zip(translations, texts, strict=True))
        >= 10
    )
    # What a checkpoint says after a journey through a folder, it said before.
    save_checkpoint(tmp_path / "checkpoint", checkpoint)
    loaded = load_checkpoint(tmp_path / "checkpoint", torch.device("cpu"))
    assert loaded.spec == checkpoint.spec
    assert loaded.spec.source == data.source
    again = Translator(loaded, torch.device("cpu")).translate(clips, tiny.decoding(max_tokens=40))
    assert [translation.text for translation in again] == [
        translation.text for translation in translations
    ]


@pytest.mark.parametrize("family", ["transformer", "lstm", "decoder_only"])
def test_glosses_in_the_tokens_of_the_targets_share_their_embedding(family: str) -> None:
    data = glosses.training_data("shared")
    assert data.source.reader(tiny.FEATURES).width == data.tokenizer.vocab_size
    spelt = data.tokenizer.encode(" regen haus")
    assert data.source.vocabulary.encode("REGEN haus").ids.tolist() == spelt
    model = dataclasses.replace(glosses.MODEL, family=family, tied_embeddings=True)  # type: ignore[arg-type]
    rows = data.tokenizer.vocab_size * model.d_model
    sizes = [
        count_parameters(
            data, glosses.run_options(dataclasses.replace(model, tied_embeddings=is_tied))
        )
        for is_tied in (False, True)
    ]
    assert sizes[0] - sizes[1] == 2 * rows  # one matrix in place of three
    translator = glosses.untrained(data, model)
    src = torch.tensor([spelt])
    memory = translator._model.encode(src, torch.ones_like(src, dtype=torch.bool))
    torch.nn.init.zeros_(translator._model.head.weight)  # type: ignore[arg-type]
    other_memory = translator._model.encode(src, torch.ones_like(src, dtype=torch.bool))
    assert not torch.equal(memory.states, other_memory.states)


def test_unknown_dev_glosses_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = glosses.clips()
    changed = [
        dataclasses.replace(clip, gloss="NEU HAUS NEU") if clip.split == "dev" else clip
        for clip in corpus
    ]
    files = write_project(tmp_path, "glosses")
    data = glosses.training_data("glosses", changed)
    _, _, targets = build_targets(changed, glosses.tokenize_options("glosses"))
    write_targets(files.targets, targets, data.source.vocabulary)
    with caplog.at_level(logging.INFO):
        files.load(cache_mb=0, source="glosses")
    assert "1 glosses of dev never occur in train: neu" in caplog.text


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("subwords", "landmarks", r"no column video.*Set model.source: glosses"),
        ("none", "glosses", "tokenize_targets.source is none"),
    ],
)
def test_a_source_that_the_corpus_lacks_is_refused(
    tmp_path: Path, kind: GlossKind, source: Any, message: str
) -> None:
    files = write_project(tmp_path, kind)
    with pytest.raises(UserError, match=message):
        files.load(cache_mb=0, source=source)


def test_what_makes_no_sense_for_glosses_is_refused_in_one_message() -> None:
    data = glosses.training_data()
    options = glosses.run_options(dataclasses.replace(glosses.MODEL, subsampling=2))
    options = dataclasses.replace(options, train=dataclasses.replace(options.train, ctc_weight=0.3))
    with pytest.raises(UserError) as caught:
        check_run(data, options)
    assert "train.ctc_weight is 0.3" in str(caught.value)
    assert "model.subsampling is 2" in str(caught.value)
    with pytest.raises(UserError, match="the clips were read as glosses"):
        check_run(data, glosses.run_options(tiny.MODEL))
    with pytest.raises(UserError, match="the clips were read as landmarks"):
        check_run(tiny.training_data(), glosses.run_options())


def test_a_model_refuses_what_it_was_not_trained_on() -> None:
    translator = glosses.untrained(glosses.training_data())
    with pytest.raises(UserError, match="trained on glosses"):
        translator.translate([tiny.sequence()], tiny.decoding())
