"""Pretraining: what is hidden, what is learnt from it, and what a later training takes of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labs.pretraining import run as stage
from labs.pretraining.pretraining import (
    Mask,
    MaskedBatches,
    PretrainOptions,
    load_pretraining,
    pretrain,
    pretraining_options,
)
from labs.pretraining.start import take_encoder
from signloom.checkpoint import Checkpoint, load_checkpoint
from signloom.corpus.landmarks import HANDS_POSE, Layout, build_layout
from signloom.corpus.shards import write_shards
from signloom.errors import UserError
from signloom.features.batches import TrainingBatches
from signloom.features.features import feature_names
from signloom.files import hash_folder
from signloom.models.seq2seq import Family
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.run import RunOptions, TrainingResult, prepare, write_results
from signloom.training.snapshots import Snapshots
from tests import tiny

OWN = PretrainOptions(epochs=8, corpora=Path("corpora"), mask_share=0.4, span_s=0.3)
HANDS = build_layout(("hands",))
LIPS = build_layout(("hands", "pose", "lips"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingFiles:
    """A tiny project, and beside it corpora of other layouts."""
    monkeypatch.chdir(tmp_path)
    files = tiny.write_project(tmp_path)
    add_corpus(tmp_path / "corpora/hands/landmarks/shards", HANDS, ["a", "b", "c"])
    add_corpus(tmp_path / "corpora/lips/landmarks/shards", LIPS, ["a", "dev0", "train1"])
    return files


def add_corpus(folder: Path, layout: Layout, names: list[str]) -> None:
    clips = {name: tiny.clip(layout, seed, frames=14) for seed, name in enumerate(names)}
    write_shards(
        folder, dict.fromkeys(clips, 14), clips.__getitem__, layout=layout, extractor="{}",
        frames_per_shard=1000,
    )  # fmt: skip


def begin(data: TrainingData, options: RunOptions, folder: Path) -> Checkpoint:
    """Return an untrained model with the encoder of a folder."""
    checkpoint, _ = prepare(data, options, provenance={})
    take_encoder(load_checkpoint(folder, torch.device("cpu")), checkpoint, folder)
    return checkpoint


def run(
    files: TrainingFiles, snapshots: Snapshots | None = None, epochs: int = 2, **changes: Any
) -> TrainingResult:
    own = dataclasses.replace(OWN, epochs=epochs)
    options = pretraining_options(tiny.run_options(**changes), own)
    data = load_pretraining(files, options, own)
    done, fit = pretrain(
        data, options, own=own, provenance={}, log=lambda _: None, snapshots=snapshots
    )
    return TrainingResult(seed=3, checkpoint=done, fit=fit)


def test_hidden_landmarks_are_guessed_better_and_better(files: TrainingFiles) -> None:
    losses = [record.dev_loss for record in run(files, epochs=8).fit.history]
    assert losses[-1] < 0.8 * losses[0]  # at first about as the mean guesses


def test_clips_of_any_layout_are_read_and_none_of_dev_or_test(files: TrainingFiles) -> None:
    data = load_pretraining(files, tiny.run_options(), OWN)
    ids = [target.clip_id for target in data.train.targets]
    assert ids == [*(f"train{number}" for number in range(8)), "a", "b", "c", "a"]
    assert not any(target.text for target in data.train.targets[8:])
    corpora = [target.corpus for target in data.train.targets[7:]]
    assert corpora == ["", *["corpora/hands/landmarks/shards"] * 3, "corpora/lips/landmarks/shards"]
    source, names = data.train.source, feature_names(tiny.FEATURES, HANDS_POSE)
    hands, lips = data.train.read([8, 11])
    rows = source.rows(hands, tiny.FEATURES)
    is_hand = np.array(["_hand." in name for name in names])
    assert rows.shape[1] == len(names)
    assert rows[:, is_hand].any(axis=0).sum() > 100
    assert not rows[:, ~is_hand].any()
    plain = dataclasses.replace(tiny.FEATURES, groups=("hands", "pose"))
    np.testing.assert_array_equal(source.rows(lips, tiny.FEATURES).shape[1], len(names))
    assert source.rows(lips, plain)[:, ~is_hand].any()


def test_a_stop_after_any_snapshot_changes_no_bit(
    files: TrainingFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(tmp_path / "expected", [run(files)])
    written, write = 0, Snapshots.write

    def write_and_stop(self: Snapshots, *values: Any, **more: Any) -> bool:
        nonlocal written
        done, written = write(self, *values, **more), written + 1
        if written == 4:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Snapshots, "write", write_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run(files, Snapshots(tmp_path / "kept"), snapshot_s=0.0)
    write_results(tmp_path / "found", [run(files, Snapshots(tmp_path / "kept"), snapshot_s=0.0)])
    for name in ("model.safetensors", "history.json"):
        assert (tmp_path / "found" / name).read_bytes() == (
            tmp_path / "expected" / name
        ).read_bytes()


def test_what_is_hidden_is_0_follows_from_epoch_and_clip_and_shows_in_no_change() -> None:
    data = tiny.training_data()
    names = feature_names(tiny.FEATURES, HANDS_POSE)
    mask = Mask(names, tiny.FEATURES, OWN)
    plain = TrainingBatches(
        data.train, tiny.FEATURES, tiny.NO_AUGMENT, max_frames=80, pad=0, seed=1
    )
    source = MaskedBatches(plain, mask, seed=1)
    batch = source.build(1, [0, 3, 5])
    assert torch.equal(batch.src[batch.hidden], torch.zeros(int(batch.hidden.sum())))
    assert torch.equal(batch.src[~batch.hidden], batch.whole[~batch.hidden])
    alone = source.build(1, [3])
    frames = alone.src.shape[1]
    assert torch.equal(alone.hidden[0], batch.hidden[1, :frames])
    assert not torch.equal(alone.hidden, source.build(2, [3]).hidden)
    tip, change = (names.index(f"{n}right_hand.index_tip.x") for n in ("", "1 "))
    present = names.index("right_hand.present")
    hidden = batch.hidden
    assert torch.equal(hidden[..., tip], hidden[..., present])
    after = hidden[:, :-1, tip] & batch.src_valid[:, 1:]
    assert hidden[:, 1:, change][after].all()  # x[t + 1] - x[t] would tell x[t]


@pytest.mark.parametrize(
    "family", ["transformer", "conformer", "lstm", "encoder_only", "decoder_only"]
)
def test_training_takes_the_encoder_alone_for_any_vocabulary_groups_and_labels(
    files: TrainingFiles, tmp_path: Path, family: Family
) -> None:
    kind = dataclasses.replace(tiny.MODEL, family=family)

    def options(**changes: Any) -> RunOptions:
        return dataclasses.replace(tiny.run_options(**changes), model=kind)

    own = dataclasses.replace(OWN, epochs=1)
    section = pretraining_options(options(), own)
    data = load_pretraining(files, section, own)
    done, fit = pretrain(data, section, own=own, provenance={}, log=lambda _: None)
    write_results(tmp_path / "pretrained", [TrainingResult(seed=3, checkpoint=done, fit=fit)])
    few = dataclasses.replace(tiny.FEATURES, groups=("hands",), presence=False)
    later = options(seeds=[9])
    later = dataclasses.replace(
        later, features=few, model=dataclasses.replace(kind, tied_embeddings=True, dropout=0.3)
    )
    corpus = files.load(cache_mb=10)
    new = begin(corpus, later, tmp_path / "pretrained").model.state_dict()
    drawn = prepare(corpus, later, provenance={})[0].model.state_dict()
    old = done.model.state_dict()
    columns = [feature_names(tiny.FEATURES, HANDS_POSE).index(name)
               for name in feature_names(few, HANDS_POSE)]  # fmt: skip
    for name, tensor in new.items():
        if name == "encoder.source.projection.weight":
            assert torch.equal(tensor, old[name][:, columns])
        elif name.startswith("encoder.") or (family == "decoder_only" and ".layers." in name):
            assert torch.equal(tensor, old[name])
        else:
            assert torch.equal(tensor, drawn[name])


def test_a_pretrained_encoder_of_another_make_is_refused(
    files: TrainingFiles, tmp_path: Path
) -> None:
    write_results(tmp_path / "pretrained", [run(files, epochs=1)])
    later = tiny.run_options()
    wide = dataclasses.replace(
        later,
        model=dataclasses.replace(tiny.MODEL, d_model=32, decoder_layers=1),
        features=dataclasses.replace(tiny.FEATURES, fps=12.0),
    )
    with pytest.raises(UserError) as error:
        begin(files.load(cache_mb=10), wide, tmp_path / "pretrained")
    assert str(error.value).splitlines()[1:-1] == [
        "  model.d_model: trained with 16, now 32",
        "  features.fps: trained with 10.0, now 12.0",
    ]


def test_what_cannot_be_pretrained_on_is_said(files: TrainingFiles, tmp_path: Path) -> None:
    options = tiny.run_options()
    nothing = dataclasses.replace(OWN, corpora=tmp_path / "nothing")
    with pytest.raises(UserError, match="nothing has no folder `shards` of landmarks below it"):
        load_pretraining(files, options, nothing)
    add_corpus(tmp_path / "corpora/face/shards", build_layout(("lips",)), ["x"])
    with pytest.raises(UserError, match=r"face/shards: the landmarks have lips, but features.grou"):
        load_pretraining(files, options, OWN)
    tokens = dataclasses.replace(options, model=dataclasses.replace(tiny.MODEL, source="glosses"))
    with pytest.raises(UserError, match="only models of landmarks are pretrained"):
        load_pretraining(files, tokens, OWN)


def test_the_stage_pretrains_where_it_is_on_and_leaves_nothing_where_it_is_off(
    files: TrainingFiles, tmp_path: Path
) -> None:
    (tmp_path / stage.OWN).parent.mkdir(parents=True)

    def main(epochs: int) -> Path:
        section = {"epochs": epochs, "corpora": "corpora", "mask_share": 0.4, "span_s": 0.3}
        (tmp_path / stage.OWN).write_text(json.dumps({"pretrain": section}))
        stage.main()
        return tmp_path / "data/pretrained"

    first = hash_folder(main(epochs=1))
    assert hash_folder(main(epochs=1)) == first
    spec = json.loads((tmp_path / "data/pretrained/checkpoint.json").read_text())
    assert spec["provenance"]["pretrained"]["mask_share"] == 0.4
    assert [path.name for path in main(epochs=0).iterdir()] == ["none.txt"]
