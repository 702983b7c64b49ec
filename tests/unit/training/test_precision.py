"""Training in another precision is the same training."""

import dataclasses
from pathlib import Path

import pytest

from signloom.training.parallel import has_bfloat16, open_devices
from signloom.training.train import train
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


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx2 avx512f bf16x", False), ("fpu avx512_bf16", True), ("fp asimd bf16", True)],
)
def test_cpus_with_bfloat16_are_recognised(flags: str, expected: bool, tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor : 0\nflags : {flags}\n")
    assert has_bfloat16(path) == expected
    assert has_bfloat16(tmp_path / "none")


def test_emulated_bfloat16_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    open_devices(tiny.run_options(precision="float32").train)
    assert not caplog.records
    open_devices(tiny.run_options(precision="bfloat16").train)
    assert ("set train.precision: float32" in caplog.text) != has_bfloat16()
