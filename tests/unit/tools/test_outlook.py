"""What more people would bring is stated with an interval that holds, or not at all."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signloom.config import load_params, load_section
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.recognition import count_signed
from signloom.features.targets import Target, read_targets, write_targets
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.train import RunOptions, read_run_options
from signloom.translation.translator import Translator
from signloom_tools import outlook
from signloom_tools.cli.main import main
from signloom_tools.outlook import OutlookResult, draw_outlook, plan_trainings, read_folds
from tests.tiny import ROOT, write_project


def corpus(seed: int, step: float, *, spread: float = 8.0) -> list[OutlookResult]:
    """Draw results of which the truth is known: odds grow by `step` with each doubling."""
    generator = np.random.default_rng(seed)
    names = [f"s{number}" for number in range(7)]
    hard = dict(zip(names, generator.normal(0, spread, 7), strict=True))
    results = []
    for training in plan_trainings(names, 3, seed):
        noise = generator.normal(0, 3)
        for who in training.left_out:
            size = len(training.known)
            right = truth(size, step) + hard[who] + noise + generator.normal(0, 3)
            right = float(np.clip(right, 0, 100))
            results.append(OutlookResult(signers=size, draw=training.draw, signer=who, right=right))
    return results


def truth(signers: int, step: float) -> float:
    return float(100 / (1 + np.exp(-(-0.8 + step * np.log2(signers)))))


@pytest.mark.parametrize("step", [0.2, 0.6, 1.0])
def test_twice_as_many_signers_bring_what_was_foretold(step: float) -> None:
    """Over corpora that are drawn: predict 14 signers from 7, and know what 14 give."""
    held, widths = 0, []
    for seed in range(20):
        estimate = draw_outlook(corpus(seed, step), 7, seed).expected[14]
        held += estimate.low <= truth(14, step) <= estimate.high
        widths.append(estimate.high - estimate.low)
    assert held >= 16  # signers left out are few, so that a 95 % interval is often too narrow
    assert np.median(widths) < 45


@pytest.mark.parametrize("draws", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_where_more_signers_bring_nothing_few_outlooks_say_otherwise(draws: int) -> None:
    ends = [draw_outlook(corpus(seed, 0.0), 7, seed).doubling for seed in range(draws)]
    different = sum(doubling.low > 0 or doubling.high < 0 for doubling in ends)
    assert different / draws <= 0.05 + 0.015 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_a_curve_that_nears_its_ceiling_is_not_continued_in_a_line() -> None:
    """Of 43 real people, from 8 of them: 97 % [70, 100] was expected of 16, and 82 % came true."""
    curve = {1: 58.0, 2: 69.0, 4: 75.0, 8: 79.0}  # below 82
    results = [
        OutlookResult(signers=size, draw=draw, signer=f"s{who}", right=right + 3 * who)
        for draw, who in itertools.product(range(3), (-1, 0, 1))
        for size, right in curve.items()
    ]
    estimates = draw_outlook(results, 16, 1).expected
    assert estimates[16].low < 81 < estimates[16].high
    assert 79 < estimates[16].value < 85
    assert estimates[32].low < 82


def test_a_curve_is_stated_only_as_far_as_it_is_known() -> None:
    lines = draw_outlook(corpus(1, 0.6, spread=0.5), 7, 1).lines()
    assert "each doubling of the signers, and of the takes with them, has brought 1" in lines[3]
    assert "with 14 we would expect" in lines[5]
    flat = draw_outlook(corpus(2, 0.0, spread=0.5), 7, 1).lines()
    assert "whether more people help cannot be told" in flat[-1]
    unsure = " ".join(draw_outlook(corpus(3, 0.6, spread=40.0), 7, 1).lines())
    assert "these signers are too few" in unsure


def test_models_of_a_draw_are_nested_and_tested_on_the_same_signers() -> None:
    names = [f"s{number}" for number in range(6)]
    plan = plan_trainings(names, 2, seed=1)
    for draw in (0, 1):
        of_draw = [training for training in plan if training.draw == draw]
        assert [len(training.known) for training in of_draw] == [1, 2, 4]
        assert len({training.left_out for training in of_draw}) == 1
        for less, more in itertools.pairwise(of_draw):
            assert set(less.known) <= set(more.known)
            assert not {*more.known} & {*more.left_out}
    assert plan == plan_trainings(names[::-1], 2, seed=1)
    with pytest.raises(UserError, match="train has 2 signers; an outlook needs 3"):
        plan_trainings(names[:2], 1, seed=1)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingFiles:
    """A project in the current folder, whose search is the demo's."""
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    evaluate = load_params(ROOT / "params.yaml")["evaluate"]
    params = json.loads(Path("params.yaml").read_text())
    Path("params.yaml").write_text(json.dumps({**params, "evaluate": evaluate}, indent=1))
    return TrainingFiles()


def test_no_fold_is_read_by_a_model_or_an_n_gram_that_knows_it(
    files: TrainingFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = read_run_options(Path("params.yaml"))
    lasting = replace(options, train=replace(options.train, patience=0))
    targets = read_targets(files.targets)
    # A sign of dev that train lacks, and a new sentence of train's pieces.
    odd = {"dev0": {"gloss": "G0 OTHER"}, "train0": {"signer": "b-several"}}
    write_targets(files.targets, [replace(t, **odd.get(t.clip_id, {})) for t in targets])
    split_counts = Counter(target.split for target in targets if target.clip_id not in odd)
    learn, taught = outlook._learn, list[Target]()

    def spy(data: TrainingData, options: RunOptions) -> Translator:
        taught.extend(data.train.targets)
        return learn(data, options)

    monkeypatch.setattr(outlook, "_learn", spy)
    for fold_options, clips in (
        (options, split_counts["train"]),
        (lasting, split_counts["train"] + split_counts["dev"]),
    ):
        model, folds = read_folds(files, fold_options, 2)
        names = [target.clip_id for fold in folds for target in fold.targets]
        assert len({*names}) == len(names) == clips
        for fold, other_fold in (folds, folds[::-1]):
            assert fold.ngrams == count_signed(model, other_fold.targets)
        assert {*names} == {target.clip_id for target in taught}
        assert all(target.labels for target in taught)
    with pytest.raises(UserError, match=r"--folds: found 99 of"):
        read_folds(files, options, 99)
    main(["outlook", "--folds", "2", "--use"])
    assert "clips that no model has seen: gloss WER" in capsys.readouterr().out
    grid = load_section(Path("params.yaml"), "evaluate", EvaluateOptions).grid.ngram
    assert len(grid) == 2


@pytest.mark.parametrize("patience", [0, 1])
def test_an_outlook_keeps_the_epoch_that_training_keeps(
    files: TrainingFiles, patience: int
) -> None:
    options = read_run_options(Path("params.yaml"))
    options = replace(options, train=replace(options.train, patience=patience))
    train_options = outlook._at_steps(files.load(cache_mb=0), options, 40, seed=1).train
    assert train_options.patience == patience * train_options.epochs


def test_the_command_trains_and_prints_what_it_found(
    files: TrainingFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [
        replace(target, signer=f"s{int(target.clip_id[5:]) % 4}")
        if target.split == "train"
        else target
        for target in read_targets(files.targets)
    ]
    write_targets(files.targets, targets)
    main(["outlook", "--draws", "1", "--steps", "2", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert {result["signers"] for result in report["results"]} == {1, 2}
    assert all(result["signer"] not in ("dev", "test") for result in report["results"])
    assert [*report["expected"]] == ["4", "8"]
