"""Weights of a trained model on a model whose vocabulary has grown or shrunk."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import yaml

from signloom.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from signloom.corpus.landmarks import HANDS_POSE, build_layout
from signloom.errors import UserError
from signloom.features.glosses import GlossKind, GlossVocabulary
from signloom.features.sources import GlossSource, LandmarkSource
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer, Vocabulary, read_source
from signloom.files import hash_folder
from signloom.paths import START
from signloom.training.data import TrainingData
from signloom.training.start_file import write_start
from signloom.training.train import (
    RunOptions,
    TrainingResult,
    prepare,
    read_run_options,
    train,
    write_results,
)
from signloom.training.warm_start import (
    LABEL_ROWS,
    SOURCE_ROWS,
    TOKEN_ROWS,
    carry_rows,
    describe_start,
    warm_start,
)
from signloom_tools.params_file import update_params
from tests import tiny
from tests.tiny import ROOT

CPU = torch.device("cpu")
HANDS = build_layout(("hands",))
FAMILIES = [
    {"family": "transformer"},
    {"family": "transformer", "tied_embeddings": True},
    {"family": "conformer", "positions": "relative"},
    {"family": "lstm"},
    {"family": "lstm", "tied_embeddings": True},
]
GROWN = (*tiny.SENTENCES, "anna va", "zoé danse", "à demain")  # ids between, before, after the old


def checkpoint(
    texts: tuple[str, ...] = tiny.SENTENCES,
    glosses: str = "BCD",
    *,
    seed: int = 1,
    vocabulary: Vocabulary = "pruned",
    spec: dict[str, Any] | None = None,
    **model: Any,
) -> Checkpoint:
    base = {
        "source": LandmarkSource(layout=HANDS_POSE, extractor={"detector": "tiny", "version": "1"}),
        "ctc": CtcLabels(kind="glosses", names=tuple(glosses)),
    }
    built = tiny.checkpoint(
        Tokenizer.build(texts, vocabulary),
        seed=seed,
        model=dataclasses.replace(tiny.MODEL, **model),
        **base | (spec or {}),
    )
    with torch.no_grad():  # biases begin at 0, which would hide a row in the wrong place
        for name, value in built.model.named_parameters():
            if name in (*TOKEN_ROWS, *LABEL_ROWS) and value.dim() == 1:
                value.normal_()
    return built


def trained(folder: Path, **changes: Any) -> Checkpoint:
    saved = checkpoint(**changes)
    save_checkpoint(folder, saved)
    return saved


def logits(checkpoint: Checkpoint, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    width = checkpoint.model.encoder.source.projection.in_features
    src = torch.randn(1, 9, width, generator=torch.Generator().manual_seed(4))
    valid = torch.ones(1, 9, dtype=torch.bool)
    with torch.no_grad():
        memory = checkpoint.model.encode(src, valid)
        return checkpoint.model(src, valid, torch.tensor([ids])), checkpoint.model.ctc(
            memory.states
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_with_the_same_vocabulary_nothing_changes(tmp_path: Path, family: dict[str, Any]) -> None:
    old = trained(tmp_path / "old", **family)
    new = checkpoint(seed=2, dropout=0.5, initialization="torch", **family)
    warm_start(new, tmp_path / "old", seed=3)
    weights = new.model.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in old.model.state_dict().items())
    assert torch.equal(logits(new, [1, 5, 260])[0], logits(old, [1, 5, 260])[0])


def test_another_tokenizer_json_is_refused_and_stands_in_the_provenance(tmp_path: Path) -> None:
    trained(tmp_path / "old")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizer.pre_tokenizer.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([], trainer)
    (tmp_path / "own.json").write_text(tokenizer.to_str())
    own_tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned", read_source(tmp_path / "own.json"))
    changed = dataclasses.replace(checkpoint(), tokenizer=own_tokenizer)
    now = own_tokenizer.source_sha256[:12]
    message = rf"tokenizer: trained with a file of SHA-256 ecb6f9fc\w+, now {now}"
    with pytest.raises(UserError, match=message):
        warm_start(changed, tmp_path / "old", seed=1)
    files = tiny.write_project(tmp_path / "project")
    assert "tokenizer" not in files.hashes()  # of DeepSeek V3's nothing is noted beside the targets
    own_tokenizer.save(files.tokenizer)
    assert files.hashes()["tokenizer"] == own_tokenizer.source_sha256


@pytest.mark.parametrize("family", FAMILIES)
def test_known_tokens_and_labels_keep_their_logits(tmp_path: Path, family: dict[str, Any]) -> None:
    old = trained(tmp_path / "old", **family)
    new = checkpoint(GROWN, "ABCDE", seed=2, **family)
    assert new.tokenizer.vocab_size > old.tokenizer.vocab_size
    warm_start(new, tmp_path / "old", seed=3)
    sentence = "tu manges"
    before, before_ctc = logits(old, [1, *old.tokenizer.encode(sentence)])
    after, after_ctc = logits(new, [1, *new.tokenizer.encode(sentence)])
    assert new.tokenizer.encode(sentence) != old.tokenizer.encode(sentence)  # the ids have moved
    where = [new.tokenizer.row_names.index(name) for name in old.tokenizer.row_names]
    # Equal but for the last bits: a wider matrix product adds up in another order.
    torch.testing.assert_close(after[..., where], before, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after_ctc[..., [0, 2, 3, 4]], before_ctc, rtol=1e-5, atol=1e-5)
    added = sorted(set(range(after.shape[-1])) - set(where))
    mean = before.mean(dim=-1, keepdim=True).expand(*before.shape[:-1], len(added))
    torch.testing.assert_close(after[..., added], mean, rtol=1e-5, atol=1e-5)


def test_known_rows_keep_their_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    old = trained(tmp_path / "old", texts=GROWN, glosses="ABC", ctc_feedback=True)
    new = checkpoint((*tiny.SENTENCES, "vélo"), "BCD", seed=2, ctc_feedback=True)
    warm_start(new, tmp_path / "old", seed=3)
    before, after = old.model.state_dict(), new.model.state_dict()
    old_names, new_names = old.tokenizer.row_names, new.tokenizer.row_names
    common = [name for name in new_names if name in old_names]
    for key in set(TOKEN_ROWS) & set(after):
        assert torch.equal(
            after[key][[new_names.index(name) for name in common]],
            before[key][[old_names.index(name) for name in common]],
        )
    for key in ("ctc.weight", "feedback.weight"):
        assert torch.equal(after[key][[0, 1, 2]], before[key][[0, 2, 3]])
    lines = [record.message for record in caplog.records]
    assert f"tokens: {len(common)} kept, 2 new, 9 gone" in lines[1]
    assert "CTC labels: 3 kept, 1 new, 1 gone" in lines[2]


@pytest.mark.parametrize("pair", [("pruned", "full"), ("full", "pruned")])
def test_rows_are_found_in_the_whole_vocabulary_too(pair: tuple[Vocabulary, Vocabulary]) -> None:
    old_tokenizer, new_tokenizer = (
        Tokenizer.build(tiny.SENTENCES, vocabulary) for vocabulary in pair
    )
    before, after = old_tokenizer.row_names, new_tokenizer.row_names
    assert len(before) == len(set(before)) == old_tokenizer.vocab_size
    table = torch.arange(len(before), dtype=torch.float32)[:, None]
    moved = carry_rows(table, before, after)
    text = "tu manges"  # every token of it is in both
    ids = [old_tokenizer.bos, *old_tokenizer.encode(text), old_tokenizer.eos, old_tokenizer.pad]
    assert (
        moved[
            [new_tokenizer.bos, *new_tokenizer.encode(text), new_tokenizer.eos, new_tokenizer.pad]
        ]
        .flatten()
        .tolist()
        == ids
    )
    assert moved[new_tokenizer.encode("\x00")].flatten().tolist() == old_tokenizer.encode(
        "\x00"
    )  # a byte


def test_everything_that_does_not_fit_is_in_one_message(tmp_path: Path) -> None:
    trained(tmp_path / "old")
    other_spec = {
        "features": dataclasses.replace(tiny.FEATURES, fps=12.0, groups=("hands",)),
        "source": LandmarkSource(layout=HANDS, extractor={"detector": "tiny", "version": "2"}),
        "ctc": CtcLabels(kind="characters", names=("a",)),
    }
    new = checkpoint(spec=other_spec, d_model=32, norm="post", dropout=0.3)
    with pytest.raises(UserError) as error:
        warm_start(new, tmp_path / "old", seed=3)
    first, *lines, _ = str(error.value).splitlines()
    assert f"train.start_from: {tmp_path / 'old'} does not fit" in first
    for line, words in zip(
        lines,
        (
            "model.d_model: trained with 16, now 32",
            "model.norm: trained with 'pre', now 'post'",
            "features.fps: trained with 10.0, now 12.0",
            "features.groups: trained with ('hands', 'pose'), now ('hands',)",
            "(left_hand, right_hand, pose), now hands version 1 (left_hand, right_hand)",
            "version: trained with '1', now '2'",
            "CTC labels: trained with glosses, now characters",
        ),
        strict=True,
    ):
        assert words in line


@pytest.mark.parametrize("kind", ["glosses", "subwords"])
@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_known_glosses_keep_their_rows_when_others_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, family: str, kind: GlossKind
) -> None:
    caplog.set_level("INFO")
    few = GlossVocabulary.build(["REGEN NORD", "pad"], kind)
    more = GlossVocabulary.build(["ABEND REGEN NORD", "pad WIND"], kind)
    was, now = ({"source": GlossSource(vocabulary=vocabulary)} for vocabulary in (few, more))
    old = trained(tmp_path / "old", family=family, source="glosses", spec=was)
    new = checkpoint(family=family, source="glosses", spec=now, seed=2)
    warm_start(new, tmp_path / "old", seed=3)
    assert len(new.model.state_dict()[SOURCE_ROWS[0]]) == more.size == len(more.row_names)
    text = "nord regen pad"
    ids, moved = few.encode(text).ids, more.encode(text).ids
    assert ids.tolist() != moved.tolist()
    tokens = torch.tensor([[1, *old.tokenizer.encode("tu manges")]])
    before, after = (
        model.model(torch.from_numpy(src)[None], torch.ones(1, len(src), dtype=torch.bool), tokens)
        for model, src in ((old, ids), (new, moved))
    )
    assert torch.equal(before, after)
    table, grown = (model.model.state_dict()[SOURCE_ROWS[0]] for model in (old, new))
    added = [row for row, name in enumerate(more.row_names) if name not in few.row_names]
    assert added
    assert torch.equal(grown[added], table.mean(dim=0).expand(len(added), -1))
    assert f"{len(added)} new, 0 gone" in caplog.records[1].message


def test_other_kinds_of_source_tokens_do_not_fit(tmp_path: Path) -> None:
    vocabularies = [GlossVocabulary.build(["REGEN"], kind) for kind in ("glosses", "subwords")]
    old, new = ({"source": GlossSource(vocabulary=vocabulary)} for vocabulary in vocabularies)
    trained(tmp_path / "old", source="glosses", spec=old)
    with pytest.raises(UserError, match="source tokens: trained with glosses, now subwords"):
        warm_start(checkpoint(source="glosses", spec=new), tmp_path / "old", seed=3)


def run(data: TrainingData, options: RunOptions) -> TrainingResult:
    checkpoint, fit = train(data, options, provenance={}, log=lambda _: None)
    return TrainingResult(seed=options.train.seed, checkpoint=checkpoint, fit=fit)


def test_each_seed_starts_from_its_own_model_and_ends_with_the_same_bytes(tmp_path: Path) -> None:
    data = tiny.training_data()
    seeds = {seed: tiny.run_options(seeds=[seed], epochs=2) for seed in (5, 1)}
    write_results(tmp_path / "old", [run(data, options) for options in seeds.values()])
    for seed, folder in ((5, "old"), (1, "old/seeds/1"), (9, "old")):
        options = tiny.run_options(seeds=[seed], start_from=str(tmp_path / "old"))
        begun, _ = prepare(data, options, provenance={})
        expected = load_checkpoint(tmp_path / folder, CPU).model.state_dict()
        weights = begun.model.state_dict()
        assert all(torch.equal(weights[name], value) for name, value in expected.items())
    results = [run(data, tiny.run_options(start_from=str(tmp_path / "old"))) for _ in range(2)]
    for name, result in zip("ab", results, strict=True):
        write_results(tmp_path / name, [result])
    assert hash_folder(tmp_path / "a") == hash_folder(tmp_path / "b")
    scratch = run(data, tiny.run_options())
    assert results[0].fit.history[0].dev_loss < scratch.fit.history[0].dev_loss


@pytest.mark.parametrize(
    ("said", "expected"),
    [(None, "mine"), ("null", "mine"), ("data/models/0003", "data/models/0003"), ('""', "")],
)
def test_a_night_says_where_training_starts_without_touching_params_yaml(
    said: str | None, expected: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = tmp_path / "params.yaml"
    params.write_bytes((ROOT / "pipeline/smoke/params.yaml").read_bytes())
    update_params(params, {"train": {"start_from": "mine"}})
    (tmp_path / "data").mkdir()
    if said is not None:
        write_start(yaml.safe_load(said), tmp_path / START)
    assert read_run_options(params).train.start_from == expected
    # It replaced the parameter silently.
    assert ("replaces train.start_from (mine)" in caplog.text) == (expected != "mine")
    (tmp_path / START).write_text("start_from: [a]\n")
    with pytest.raises(UserError, match=r"data/start.yaml: start_from: found .*, expected text"):
        read_run_options(params)


def test_a_missing_start_names_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert describe_start("") == {}
    missing = r"^train\.start_from: data/old does not exist; name the .* DVC removes it"
    for act in (
        lambda: warm_start(checkpoint(), Path("data/old"), seed=3),
        lambda: describe_start("data/old"),
    ):
        with pytest.raises(UserError, match=missing):
            act()
    write_start("data/old")
    with pytest.raises(UserError, match=r"^data/start\.yaml: start_from: data/old does not exist"):
        describe_start("data/old")
