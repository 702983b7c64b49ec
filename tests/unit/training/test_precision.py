"""Training in another precision is the same training."""

import dataclasses
import json
import logging
from pathlib import Path

import pytest
import torch

from signloom.errors import UserError
from signloom.paths import PRECISIONS
from signloom.training.devices import has_bfloat16, open_devices
from signloom.training.run import settle_precision, train
from tests import tiny


def dev_losses(**changes: object) -> list[float]:
    options = tiny.run_options(epochs=8, patience=8, token_drop=0.0, **changes)
    still = dataclasses.replace(options, augment=tiny.NO_AUGMENT)
    _, fit = train(tiny.training_data(), still, provenance={}, log=lambda _: None)
    return [record.dev_loss for record in fit.history]


def test_bfloat16_learns_like_float32() -> None:
    full, half = dev_losses(), dev_losses(precision="bfloat16")
    assert half != full
    assert half == pytest.approx(full, rel=0.02)  # bfloat16 has 8 bits: 0.4 % a product


def test_auto_is_measured_once_and_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    data, options = tiny.training_data(), tiny.run_options(precision="auto")
    before = torch.get_rng_state()
    monkeypatch.setattr("signloom.training.precision.has_bfloat16", lambda: False)
    assert settle_precision(data, options).train.precision == "float32"
    assert not PRECISIONS.exists()  # nothing to measure: without instructions it never pays
    monkeypatch.setattr("signloom.training.precision.has_bfloat16", lambda: True)
    chosen = settle_precision(data, options).train.precision
    assert chosen in ("float32", "bfloat16")
    assert caplog.text.count("a part of a step takes") == 1
    assert torch.equal(torch.get_rng_state(), before)
    (key,) = json.loads(PRECISIONS.read_text())
    for remembered in ("bfloat16", "float32"):
        PRECISIONS.write_text(json.dumps({key: remembered}))
        assert settle_precision(data, options).train.precision == remembered
    assert caplog.text.count("a part of a step takes") == 1
    PRECISIONS.write_text('{"damaged')
    checkpoint, _ = train(data, options, provenance={}, log=lambda _: None)
    assert checkpoint.spec.provenance["precision"] in ("float32", "bfloat16")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="name bfloat16 or float32 where several train together"):
        settle_precision(data, options)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 avx512f", False),
        ("fpu avx512_bf16", True),
        ("fp asimd bf16", True),
        ("bf16x", False),
    ],
)
def test_the_cpu_says_whether_it_multiplies_bfloat16(
    flags: str, expected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor : 0\nflags : {flags}\n")
    assert has_bfloat16(path) == expected
    assert has_bfloat16(tmp_path / "none")


def test_emulated_bfloat16_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    open_devices(tiny.run_options(precision="float32").train)
    assert not caplog.records
    open_devices(tiny.run_options(precision="bfloat16").train)
    assert ("set train.precision: float32" in caplog.text) != has_bfloat16()
