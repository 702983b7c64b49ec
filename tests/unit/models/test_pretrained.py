"""Pretrained text models: tiny random ones of each family, saved as their authors would."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from signloom.checkpoint import load_checkpoint, save_checkpoint
from signloom.errors import UserError
from signloom.features.tokenizer import BYT5, Tokenizer, read_source
from signloom.models.seq2seq import Memory
from signloom.training.data import TrainingData
from signloom.training.train import RunOptions, count_parameters, prepare, train
from signloom.training.warm_start import describe_start
from signloom.translation.translator import Translator
from signloom_tools.translate.onnx_export import export_onnx
from tests import glosses, tiny
from tests.text_models import FAMILIES, NLLB, T5, sentence_pieces, text_model

CPU = torch.device("cpu")


def data_of(folder: Path) -> TrainingData:
    """Return the tiny corpus in the tokens of a text model."""
    data, source = tiny.training_data(), read_source(folder)
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned", source)

    def retold(target: Any) -> Any:
        ids = [tokenizer.bos, *tokenizer.encode(target.text), tokenizer.eos]
        return dataclasses.replace(target, ids=ids)

    splits = {
        split: dataclasses.replace(clips, targets=[retold(t) for t in clips.targets])
        for split, clips in (("train", data.train), ("dev", data.dev))
    }
    return dataclasses.replace(data, tokenizer=tokenizer, **splits)


def options_of(folder: Path, **changes: Any) -> RunOptions:
    model = dataclasses.replace(tiny.MODEL, family="pretrained", text_model=str(folder), **changes)
    return dataclasses.replace(tiny.run_options(), model=model)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_compute_what_transformers_computes(family: str, tmp_path: Path) -> None:
    theirs = text_model(tmp_path, family)
    data = data_of(tmp_path)
    checkpoint, source = prepare(data, options_of(tmp_path, text_encoder=True), provenance={})
    ours, batch = checkpoint.model.eval(), source.build(1, [0, 1, 2])
    config = theirs.config
    controls = config.pad_token_id, config.decoder_start_token_id, config.eos_token_id
    rows = torch.tensor([*controls, *data.tokenizer.source_rows])
    tokens = batch.tgt[:, :-1]
    assert (rows[tokens] >= 0).all()
    front, valid = ours.encoder.source(batch.src, batch.src_valid)
    with torch.no_grad():
        expected = theirs(
            inputs_embeds=front, attention_mask=valid, decoder_input_ids=rows[tokens]
        ).logits[..., rows]
        logits = ours(batch.src, batch.src_valid, tokens)
    # Of a row that the text model has not, nothing is said; M2M100 gives padding no position.
    is_known, is_real = rows >= 0, batch.tgt_valid[:, :-1]
    torch.testing.assert_close(
        logits[is_real][:, is_known], expected[is_real][:, is_known], rtol=1e-4, atol=1e-4
    )


def test_shared_glosses_begin_with_the_vectors_of_the_text(tmp_path: Path) -> None:
    text_model(tmp_path, "byt5")
    data = glosses.training_data("shared", tokenizer_path=str(tmp_path))
    model = dataclasses.replace(
        glosses.MODEL, family="pretrained", text_model=str(tmp_path), text_encoder=True
    )
    checkpoint, _ = prepare(data, glosses.run_options(model), provenance={})
    modules = ("encoder.source.projection", "decoder.embedding")
    source, target = (checkpoint.model.get_submodule(name) for name in modules)
    tokens = torch.arange(data.tokenizer.vocab_size)[None]
    torch.testing.assert_close(source(tokens), target(tokens))


def test_a_row_that_the_text_model_has_not_begins_as_the_mean(tmp_path: Path) -> None:
    text_model(tmp_path, "t5")
    data = data_of(tmp_path)
    checkpoint, _ = prepare(data, options_of(tmp_path), provenance={})
    rows = torch.tensor([0, 0, 1, *data.tokenizer.source_rows])
    weight = checkpoint.model.state_dict()["decoder.embedding.weight"]
    assert (rows == -1).sum() > 200  # of bytes, a SentencePiece vocabulary knows letters
    mean = weight[rows >= 0].mean(dim=0)
    torch.testing.assert_close(weight[rows == -1], mean.expand(int((rows == -1).sum()), -1))


@pytest.mark.parametrize("family", ["t5", "byt5", "mbart"])
def test_a_checkpoint_needs_the_folder_no_more(family: str, tmp_path: Path) -> None:
    folder = tmp_path / "text"
    text_model(folder, family)
    data = data_of(folder)
    provenance = describe_start("", str(folder))
    assert provenance["text_model"]["licence"] == "apache-2.0"
    options = options_of(folder, freeze="all", d_model=8, d_ff=16)
    options = dataclasses.replace(options, augment=tiny.NO_AUGMENT)  # losses of the same clips
    untrained = prepare(data, options, provenance=provenance)[0].model.state_dict()
    checkpoint, fit = train(data, options, provenance=provenance, log=lambda record: None)
    assert fit.history[-1].train_loss < fit.history[0].train_loss
    moved = {n for n, t in checkpoint.model.state_dict().items() if not t.equal(untrained[n])}
    layers = {name for name in moved if ".stack." in name}
    assert layers
    assert all("EncDec" in name or ".encoder_attn." in name for name in layers)
    assert not moved & {"decoder.embedding.weight", "decoder.output.weight", "decoder.output.bias"}
    before, clip = Translator(checkpoint, CPU), tiny.sequence(1)
    expected = before.translate([clip, tiny.sequence(2)], tiny.decoding(beam_size=3), n_best=3)
    save_checkpoint(tmp_path / "checkpoint", checkpoint)
    shutil.rmtree(folder)
    loaded = load_checkpoint(tmp_path / "checkpoint", CPU)
    assert loaded.spec.text_model == checkpoint.spec.text_model
    after = Translator(loaded, CPU)
    assert (
        after.translate([clip, tiny.sequence(2)], tiny.decoding(beam_size=3), n_best=3) == expected
    )
    with pytest.raises(UserError, match="int8 is not there for a pretrained"):
        Translator(loaded, CPU, "int8")
    with pytest.raises(UserError, match=r"pretrained .* cannot be exported to ONNX"):
        export_onnx(loaded, tmp_path / "onnx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "config.json does not exist; .*hf download"),
        (
            lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            "pytorch_model.bin is a pickle, which may run code",
        ),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "safetensors is torn"),
        (lambda folder: (folder / "config.json").write_text("3"), "config.json is no JSON object"),
        (lambda folder: edit(folder, model_type="bert"), "model_type is 'bert', expected t5"),
        (lambda folder: edit(folder, model_type=["t5"]), r"model_type is \['t5'\], expected t5"),
        (lambda folder: spoil(folder, float("nan")), "values of lm_head.weight are no numbers"),
        (lambda folder: spoil(folder, 0.0, rows=3), "lm_head.weight has another shape than the em"),
        (lambda folder: edit(folder, num_layers=10**9), "num_layers: found 1000000000"),
        (
            lambda folder: edit(folder, num_decoder_layers=3),
            r"tensors are missing .*: decoder\.block\.2",
        ),
        (
            lambda folder: (folder / "tokenizer.json").write_text(sentence_pieces(NLLB)),
            "not in its tokens; set tokenize_targets.tokenizer",
        ),
    ],
)
def test_a_folder_that_is_no_text_model_is_refused(
    change: Any, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "text"
    text_model(folder, "t5")
    data = data_of(folder)
    change(folder)
    with pytest.raises(UserError, match=message):
        prepare(data, options_of(folder), provenance={})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, ""),
        ({"scale_embedding": 1}, "cannot build text with the sizes of its config.json"),
        ({"d_model": "big"}, "config.json: d_model: found 'big'"),
    ],
)
def test_a_damaged_configuration_is_refused_where_a_model_is_only_planned(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """It ended in "Tensor.item() cannot be called on meta tensors"."""
    folder = tmp_path / "text"
    text_model(folder, "mbart")
    data = data_of(folder)
    edit(folder, **changes)
    if not message:
        assert count_parameters(data, options_of(folder)) > 1000
        return
    with pytest.raises(UserError, match=message):
        count_parameters(data, options_of(folder))


def spoil(folder: Path, value: float, rows: int = 50) -> None:
    """Give the model an output projection with this value everywhere."""
    path = folder / "model.safetensors"
    head = {"lm_head.weight": torch.full((rows, 16), value)}
    safetensors.torch.save_file({**safetensors.torch.load_file(path), **head}, path)


def edit(folder: Path, **changes: Any) -> None:
    """Change keys of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_without_transformers_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text_model(tmp_path, "t5")
    data = data_of(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'signloom\[text\]'"):
        prepare(data, options_of(tmp_path), provenance={})


def test_more_positions_than_mbart_has_are_refused(tmp_path: Path) -> None:
    text_model(tmp_path, "mbart")
    checkpoint, _ = prepare(data_of(tmp_path), options_of(tmp_path), provenance={})
    memory = Memory(torch.zeros(1, 3, 16), torch.ones(1, 3, dtype=torch.bool))
    with pytest.raises(UserError, match="64 positions, but 65 are needed; lower max_tokens"):
        checkpoint.model.decode(memory, torch.ones(1, 65, dtype=torch.int64))


@pytest.mark.parametrize("family", ["t5", "byt5", "mbart"])
@pytest.mark.parametrize(
    "text", ["", "je mange", "  deux  espaces ", "l'hôtel Ⅳ …", "zoé\n手话 </s> <unk>"]
)
def test_any_text_comes_back_from_the_trimmed_tokens_of_a_text_model(
    family: str, text: str, tmp_path: Path
) -> None:
    source = BYT5 if family == "byt5" else sentence_pieces(NLLB if family == "mbart" else T5)
    built = Tokenizer.build(tiny.SENTENCES, "pruned", source)
    built.save(tmp_path / "tokenizer.json")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer == built
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(2 < index < tokenizer.vocab_size for index in ids)


def test_known_words_are_the_text_models_own_tokens() -> None:
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned", sentence_pieces())
    pieces = [tokenizer.piece(index) for index in tokenizer.encode("tu manges")]
    assert pieces == [b" tu", b" mange", b"s"]
