from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from signloom.errors import UserError
from signloom.evaluation.compare import PastRun, ScoredSentence, compare, compare_runs
from signloom.evaluation.metric_names import Metric, are_few
from signloom.evaluation.metrics import GlossRules, measure
from tests.unit.evaluation.texts import noisy, options, sentences


def test_p_values_are_those_of_sacrebleus_paired_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    refs = sentences(60, seed=0, shortest=4)
    a, b = noisy(refs, seed=1), noisy(refs, seed=2)
    metrics = {"bleu4": BLEU(), "chrf": CHRF(), "chrfpp": CHRF(word_order=2), "ter": TER()}
    test = PairedTest([("A", a), ("B", b)], metrics, [refs], test_type="bs", n_samples=1000)
    _, theirs = test()
    settings = options(resamples=1000, seed=12345)
    ours = compare([measure(a, refs, settings)], [measure(b, refs, settings)], settings)
    names = {"bleu4": "BLEU", "chrf": "chrF2", "chrfpp": "chrF2++", "ter": "TER"}
    for name, theirs_name in names.items():
        first, second = theirs[theirs_name]
        assert ours[name].a == pytest.approx(first.score)
        assert ours[name].b == pytest.approx(second.score)
        # They add single floats: a resample on the very edge may fall to the other side.
        assert ours[name].p_value == pytest.approx(second.p_value, abs=2 / 1001)
    assert len({round(ours[name].p_value, 2) for name in names}) > 1


def test_wins_losses_and_ties_of_hand_made_sentences() -> None:
    refs = ["je vais à la maison", "tu viens demain", "elle mange"]
    a = ["je vais à la gare", "tu viens demain", "elle"]
    b = ["je vais à la maison", "tu pars demain", "elle"]
    differences = compare([measure(a, refs, options())], [measure(b, refs, options())], options())
    assert tuple(differences) == tuple(Metric)
    for name in Metric:
        assert (differences[name].wins, differences[name].losses, differences[name].ties) == (
            1,
            1,
            1,
        )
    wer = differences["wer"]
    assert wer.a == pytest.approx(100 * 2 / 10)  # gare, and mange is missing
    assert wer.difference == pytest.approx(0)  # pars instead, and mange again
    assert wer.p_value == 1
    assert wer.low < 0 < wer.high


def test_the_interval_is_that_of_the_differences_on_the_same_resamples() -> None:
    refs = sentences(40, seed=5)
    a, b = noisy(refs, seed=6), noisy(refs, seed=7)
    settings = options(resamples=300)
    counted_a, counted_b = measure(a, refs, settings), measure(b, refs, settings)
    difference = compare([counted_a], [counted_b], settings)["wer"]
    rng = np.random.default_rng(settings.seed)
    differences = []
    for _ in range(300):
        rows = rng.integers(0, 40, 40)
        values = [counted.select(rows).values()["wer"] for counted in (counted_a, counted_b)]
        differences.append(values[1] - values[0])
    student = np.sqrt(40 / 39) * 2.0227 / 1.9600  # of 39 degrees of freedom, and the normal one
    ends = np.quantile(differences, [0.025, 0.975])
    value = difference.difference
    assert (difference.low, difference.high) == pytest.approx(
        value + student * (ends - value), rel=1e-3
    )


def test_what_is_significant_at_a_level_needs_as_many_clips_as_the_sign_test() -> None:
    assert [n for n in range(12) if are_few(n)] == [0, 1, 2, 3, 4, 5]
    assert [n for n in range(12) if are_few(n, 0.002)] == list(range(10))
    refs = sentences(6, seed=0, shortest=4)
    for count, is_better in ((5, False), (6, True)):
        poor, good = (measure(hyps[:count], refs[:count], options()) for hyps in (["x"] * 6, refs))
        assert {
            difference.is_better for difference in compare([poor], [good], options()).values()
        } == {is_better}


@pytest.mark.parametrize(
    ("clips", "draws"),
    [
        (6, 80),
        pytest.param(6, 1000, marks=pytest.mark.slow),
        pytest.param(8, 1000, marks=pytest.mark.slow),
        pytest.param(10, 1000, marks=pytest.mark.slow),
        pytest.param(20, 1000, marks=pytest.mark.slow),
        pytest.param(100, 1000, marks=pytest.mark.slow),
    ],
)
def test_few_of_equal_systems_are_called_different(clips: int, draws: int) -> None:
    """The table of docs/evaluation.md, of sentences with as many random errors in A as in B."""
    refs = sentences(2000, seed=0, shortest=2)
    settings = options(resamples=500)
    a, b = (measure(noisy(refs, seed=seed), refs, settings) for seed in (1, 2))
    rng, different, names = np.random.default_rng(3), Counter[str](), ["bleu4", "chrf", "wer"]
    for seed in range(draws):
        rows = rng.integers(0, len(refs), clips)
        pair = compare(
            [a.select(rows)], [b.select(rows)], replace(settings, seed=seed), metrics=names
        )
        different.update(name for name, d in pair.items() if d.is_better or d.is_worse)
    rates = {name: different[name] / draws for name in names}
    print(clips, {name: f"{100 * rate:.1f} %" for name, rate in rates.items()})
    # 5 % are promised; the rest is the chance of so many draws, at three standard errors.
    assert max(rates.values()) <= 0.05 + 0.015 + 3 * np.sqrt(0.05 * 0.95 / draws)


def run_of_signs(read: list[str], rules: GlossRules = "none") -> PastRun:
    glosses = ["MOI MAISON ALLER", "TOI VENIR", ""]
    clips = {
        f"clip{n}": ScoredSentence(
            reference="x", hypothesis="x", glosses=tuple(g.split()), signs=tuple(r.split())
        )
        for n, (g, r) in enumerate(zip(glosses, read, strict=True))
    }
    score = replace(options(), gloss_rules=rules)
    return PastRun(name=" ".join(read), options=score, splits={"test": clips})


def test_signs_are_compared_where_both_models_read_them() -> None:
    a = run_of_signs(["MOI MAISON ALLER", "TOI", ""])
    b = run_of_signs(["MOI", "TOI", "NON"])  # the last clip has no glosses: it counts nothing
    difference = compare_runs(a, b, "test").differences["gloss_wer"]
    assert (difference.a, difference.b) == (pytest.approx(20), pytest.approx(60))
    assert (difference.wins, difference.losses, difference.ties) == (0, 1, 2)
    no_signs = replace(
        a,
        splits={
            "test": {
                name: replace(clip, glosses=(), signs=()) for name, clip in a.splits["test"].items()
            }
        },
    )
    assert "gloss_wer" not in compare_runs(a, no_signs, "test").differences
    with pytest.raises(UserError, match=r"by the rules none.*phoenix_2014.*gloss_rules"):
        compare_runs(a, run_of_signs(["", "", ""], "phoenix_2014"), "test")
    other_rules = replace(no_signs, options=replace(no_signs.options, gloss_rules="phoenix_2014"))
    assert (
        "bleu4" in compare_runs(a, other_rules, "test").differences
    )  # no signs, no rules for them


def test_glosses_that_were_corrected_between_two_runs_are_no_pair() -> None:
    a, b = (run_of_signs(["MOI MAISON ALLER", "TOI", ""]) for _ in range(2))
    clips = b.splits["test"]
    corrected = {**clips, "clip1": replace(clips["clip1"], glosses=("TOI", "VENIR", "NON"))}
    with pytest.raises(UserError, match=r"clip1 has the glosses 'TOI VENIR'.*'TOI VENIR NON'.*1 c"):
        compare_runs(a, replace(b, splits={"test": corrected}), "test")
    # A clip whose glosses one run alone has counts in neither.
    fewer = {**clips, "clip1": replace(clips["clip1"], glosses=(), signs=())}
    difference = compare_runs(a, replace(b, splits={"test": fewer}), "test").differences[
        "gloss_wer"
    ]
    assert (difference.a, difference.b) == (0, 0)
