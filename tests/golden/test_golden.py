import json

import pytest

from tests.golden import models

EXPECTED = json.loads(models.PATH.read_text(encoding="utf-8"))


def test_the_file_holds_every_model() -> None:
    assert list(EXPECTED) == list(models.MODELS)


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_has_the_parameters_and_logits_that_it_had(name: str) -> None:
    changes, expected = models.MODELS[name], EXPECTED[name]
    assert models.count_parameters(changes) == expected["parameters"]
    # Written with 5 digits; float32 sums in another order on another processor.
    assert models.first_logits(changes) == pytest.approx(expected["logits"], rel=1e-4, abs=1e-4)
