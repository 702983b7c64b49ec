"""Training in another precision, or compiled, is the same training."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.training.devices import has_bfloat16, open_devices
from signloom.training.run import train
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


@pytest.mark.slow
def test_compiled_training_gives_the_same_losses() -> None:
    # In a process of its own: the compiler cannot trace the type checks of the test run.
    code = (
        "import torch; torch.set_num_threads(1); import json; "
        "from tests.unit.training.test_precision import dev_losses; "
        "print(json.dumps(dev_losses(compile=True)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tiny.ROOT, check=True, capture_output=True, text=True
    )
    # Fused operations round in another order.
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx(dev_losses(), rel=1e-3)


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
