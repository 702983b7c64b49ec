"""Training, pretraining and translation on a GPU: reproducible, and close to the CPU's."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from signloom.checkpoint import load_checkpoint, save_checkpoint
from signloom.errors import UserError
from signloom.models.seq2seq import ModelOptions
from signloom.training.loop import EpochRecord, accumulate_gradients
from signloom.training.parallel import open_devices
from signloom.training.snapshots import Snapshots
from signloom.training.train import RunOptions, train
from signloom.translation.search import SpecialIds, search
from signloom.translation.translator import Translator
from tests import tiny
from tests.contract.variants import EOS, VARIANTS, build
from tests.unit.training.steps import setting

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
# cuBLAS reads it when it starts: here, before any test uses the GPU.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
CPU, GPU = torch.device("cpu"), torch.device("cuda")
CHANCE = dataclasses.replace(tiny.MODEL, dropout=0.2, layer_drop=0.2, subsampling=2)
STILL = tiny.MODEL
# Of float32: sums in another order, through 24 steps.
CLOSE = 2e-3


def options(model: ModelOptions = CHANCE, **changes: object) -> RunOptions:
    every = {"epochs": 6, "patience": 6, "max_frames": 40, "device": "cuda", **changes}
    return dataclasses.replace(tiny.run_options(**every), model=model)


def run(chosen: RunOptions, **more: Any) -> tuple[dict[str, torch.Tensor], list[EpochRecord]]:
    more.setdefault("log", lambda _: None)
    _, fit = train(tiny.training_data(), chosen, provenance={}, **more)
    return fit.weights, fit.history


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert all(torch.equal(first[name].cpu(), second[name].cpu()) for name in first)


def assert_close(records: list[EpochRecord], expected: list[EpochRecord]) -> None:
    for ours, theirs in zip(records, expected, strict=True):
        for name in ("train_loss", "train_ctc_loss", "dev_loss"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=CLOSE), name


RECIPES: dict[str, RunOptions] = {
    "float32": options(),
    "bfloat16": options(precision="bfloat16"),
    "in parts": options(accumulate=2),
    "adam, last epoch": options(optimizer="adam", patience=0),
    "lstm": options(dataclasses.replace(CHANCE, family="lstm", layer_drop=0.0)),
    "conformer": options(dataclasses.replace(CHANCE, family="conformer", positions="relative")),
    "wide": options(dataclasses.replace(CHANCE, d_model=256, heads=4, d_ff=512)),
    "wide, bfloat16": options(
        dataclasses.replace(CHANCE, d_model=256, heads=4, d_ff=512), precision="bfloat16"
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_same_seed_gives_the_same_weights_to_the_bit(recipe: str) -> None:
    first, second = (run(RECIPES[recipe])[0] for _ in range(2))
    assert_equal(first, second)


@pytest.mark.parametrize("recipe", ["float32", "bfloat16", "in parts"])
def test_training_goes_on_to_the_bit_after_an_interruption(tmp_path: Path, recipe: str) -> None:
    chosen = RECIPES[recipe]
    chosen = dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, snapshot_s=0.0))
    expected, _ = run(chosen)

    def stop(record: EpochRecord) -> None:
        if record.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(chosen, log=stop, snapshots=Snapshots(tmp_path))
    epochs: list[int] = []
    weights, _ = run(
        chosen, log=lambda record: epochs.append(record.epoch), snapshots=Snapshots(tmp_path)
    )
    assert epochs[-1] == 6
    assert_equal(weights, expected)


def test_losses_are_those_of_the_cpu() -> None:
    still = options(STILL, token_drop=0.0)
    on_cpu = dataclasses.replace(still, train=dataclasses.replace(still.train, device="cpu"))
    assert_close(run(still)[1], run(on_cpu)[1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_model_finds_on_a_gpu_what_it_finds_on_a_cpu(variant: str) -> None:
    subject = build(**VARIANTS[variant])
    ids = SpecialIds(pad=0, bos=1, eos=EOS)
    hypotheses: dict[torch.device, list[list[list[tuple[int, ...]]]]] = {}
    with torch.inference_mode():
        for device in (CPU, GPU):
            src, valid = (tensor.to(device) for tensor in subject.source([9, 5, 12, 7]))
            memory = subject.model.to(device).encode(src, valid)
            hypotheses[device] = [
                [
                    [hypothesis.tokens for hypothesis in clip]
                    for clip in search(
                        subject.model, memory, ids, tiny.decoding(beam_size=size), n_best=size
                    )
                ]
                for size in (1, 3)
            ]
    assert hypotheses[GPU] == hypotheses[CPU]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_trained_on_a_gpu_translates_anywhere(tmp_path: Path, precision: str) -> None:
    data = tiny.training_data()
    chosen = options(epochs=30, patience=30, precision=precision)
    checkpoint, _ = train(data, chosen, provenance={}, log=lambda _: None)
    save_checkpoint(tmp_path / "model", checkpoint)
    clips, texts = list(data.train.read(range(len(data.train)))), []
    for device in (GPU, CPU):
        translator = Translator.load(tmp_path / "model", device)
        for changes in ({}, {"beam_size": 4}):
            translations = translator.translate(clips, tiny.decoding(**changes))
            texts.append([translation.text for translation in translations])
    assert texts[:2] == texts[2:]
    assert load_checkpoint(tmp_path / "model", CPU).spec.provenance == checkpoint.spec.provenance
    half = Translator.load(tmp_path / "model", GPU, precision="bfloat16")
    assert len(half.translate(clips, tiny.decoding())) == len(clips)
    with pytest.raises(UserError, match="int8"):
        Translator.load(tmp_path / "model", GPU, precision="int8")


def test_a_batch_that_is_too_large_is_taken_in_parts(caplog: pytest.LogCaptureFixture) -> None:
    """The card's memory is real, and so is its lack."""
    loss, source = setting()
    chosen = dataclasses.replace(loss.options, device="cuda")
    fabric = open_devices(chosen)
    loss.options = chosen
    loss.to(GPU)
    (clips,) = source.plan(1)
    expected, _ = accumulate_gradients(loss, source, fabric, epoch=1, clips=clips)
    block = loss.model.encode

    def encode(src: torch.Tensor, valid: torch.Tensor) -> object:
        # What a large model would take: a fifth of the card a clip, given back at once.
        torch.empty(len(src) * (torch.cuda.mem_get_info()[1] // 5), dtype=torch.uint8, device=GPU)
        return block(src, valid)

    loss.model.encode = encode  # type: ignore[method-assign, assignment]
    losses, _ = accumulate_gradients(loss, source, fabric, epoch=1, clips=clips)
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=0)
    assert "it is taken in" in caplog.text
