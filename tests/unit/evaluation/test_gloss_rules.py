"""Rules of data sets by which glosses are compared."""

import pytest

from signloom.evaluation.metrics import (
    ScoreOptions,
    Statistics,
    clean_phoenix_2014,
    count_gloss_wer,
)
from tests.unit.evaluation.test_truth import shared


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("loc-NORD cl-KOMMEN poss-MEIN lh-WIND", "NORD KOMMEN MEIN WIND"),
        ("__EMOTION__ REGEN __LEFTHAND__ S0NNE", "REGEN SONNE"),
        ("WIE AUSSEHEN ZEIGEN", "WIE-AUSSEHEN ZEIGEN-BILDSCHIRM"),
        ("REGEN-PLUSPLUS REGEN STARK", "REGEN STARK"),
        ("ALPENRAUM RAUM", "ALPEN RAUM"),
        ("A SCH A IM NN C D", "A+SCH+A IM NN+C+D"),
        ("", ""),
    ],
)
def test_variants_that_phoenix_2014_does_not_tell_apart_are_one(given: str, expected: str) -> None:
    assert " ".join(clean_phoenix_2014(given.split())) == expected


@pytest.mark.parametrize(
    ("split", "plain", "cleaned"), [("dev", 19.5571, 19.5356), ("test", 20.9897, 20.8734)]
)
def test_a_published_recognisers_output_has_its_error_rate(
    split: str, plain: float, cleaned: float
) -> None:
    """STMC on PHOENIX-2014T, printed as 19.6 and 21.0; cleaned as SignJoey's code does it."""
    folder = shared("wer_check")
    hyps, refs = (
        [line.split() for line in (folder / f"{split}.{kind}").read_text().splitlines()]
        for kind in ("hyp", "ref")
    )
    for rules, expected in (("none", plain), ("phoenix_2014", cleaned)):
        options = ScoreOptions(tokenizer="none", gloss_rules=rules, resamples=100)  # type: ignore[arg-type]
        counted = count_gloss_wer(hyps, refs, options)
        assert Statistics(parts=(counted,)).values()["gloss_wer"] == pytest.approx(
            expected, abs=1e-4
        )
    assert "tok:glosses.phoenix_2014" in counted.signatures["gloss_wer"]
