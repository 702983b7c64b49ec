"""Training in another precision, or compiled, is the same training."""

import dataclasses

import pytest

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
@pytest.mark.filterwarnings("ignore")  # the compiler itself warns of torch.jit and of .grad
def test_compiled_training_gives_the_same_losses() -> None:
    # Fused operations round in another order.
    assert dev_losses(compile=True) == pytest.approx(dev_losses(), rel=1e-3)
