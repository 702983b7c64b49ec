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
from signloom.evaluation.signs import count_signed
from signloom.features.targets import Target, read_targets, write_targets
from signloom.training.data import TrainingData, TrainingFiles
from signloom.training.run import RunOptions, read_run_options
from signloom.translation.translator import Translator
from signloom_tools.cli.main import main
from signloom_tools.evaluate import outlook
from signloom_tools.evaluate.outlook import OutlookResult, draw_outlook, plan_trainings, read_folds
from tests.tiny import ROOT, write_project


def corpus(seed: int, step: float, *, spread: float = 8.0) -> list[OutlookResult]:
    """Draw results of which the truth is known: odds grow by `step` with each doubling."""
    generator = np.random.default_rng(seed)
    names = [f"s{number}" for number in range(7)]
    hard = dict(zip(names, generator.normal(0, spread, 7), strict=True))
    results = []
    for one in plan_trainings(names, 3, seed):
        noise = generator.normal(0, 3)
        for who in one.left_out:
            size = len(one.known)
            right = truth(size, step) + hard[who] + noise + generator.normal(0, 3)
            right = float(np.clip(right, 0, 100))
            results.append(OutlookResult(signers=size, draw=one.draw, signer=who, right=right))
    return results


def truth(signers: int, step: float) -> float:
    return float(100 / (1 + np.exp(-(-0.8 + step * np.log2(signers)))))


@pytest.mark.parametrize("step", [0.2, 0.6, 1.0])
def test_twice_as_many_signers_bring_what_was_foretold(step: float) -> None:
    """Over corpora that are drawn: predict 14 signers from 7, and know what 14 give."""
    held, widths = 0, []
    for seed in range(20):
        found = draw_outlook(corpus(seed, step), 7, seed).expected[14]
        held += found.low <= truth(14, step) <= found.high
        widths.append(found.high - found.low)
    assert held >= 16  # signers left out are few, so that a 95 % interval is often too narrow
    assert np.median(widths) < 45


def test_a_curve_that_nears_its_ceiling_is_not_continued_in_a_line() -> None:
    """Of 43 real people, from 8 of them: 97 % [70, 100] was expected of 16, and 82 % came true."""
    curve = {1: 58.0, 2: 69.0, 4: 75.0, 8: 79.0}  # below 82
    results = [
        OutlookResult(signers=size, draw=draw, signer=f"s{who}", right=right + 3 * who)
        for draw, who in itertools.product(range(3), (-1, 0, 1))
        for size, right in curve.items()
    ]
    found = draw_outlook(results, 16, 1).expected
    assert found[16].low < 81 < found[16].high
    assert 79 < found[16].value < 85
    assert found[32].low < 82


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
        own = [one for one in plan if one.draw == draw]
        assert [len(one.known) for one in own] == [1, 2, 4]
        assert len({one.left_out for one in own}) == 1
        for less, more in itertools.pairwise(own):
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
    known = Counter(one.split for one in targets if one.clip_id not in odd)
    learn, taught = outlook._learn, list[Target]()

    def spy(data: TrainingData, options: RunOptions) -> Translator:
        taught.extend(data.train.targets)
        return learn(data, options)

    monkeypatch.setattr(outlook, "_learn", spy)
    for given, clips in ((options, known["train"]), (lasting, known["train"] + known["dev"])):
        model, folds = read_folds(files, given, 2)
        names = [one.clip_id for fold in folds for one in fold.targets]
        assert len({*names}) == len(names) == clips
        for one, other in (folds, folds[::-1]):
            assert one.ngrams == count_signed(model, other.targets)
        assert {*names} == {one.clip_id for one in taught}
        assert all(one.labels for one in taught)
    with pytest.raises(UserError, match=r"--folds: found 99 of"):
        read_folds(files, options, 99)
    main(["outlook", "--folds", "2", "--use"])
    assert "clips that no model has seen: gloss WER" in capsys.readouterr().out
    found = load_section(Path("params.yaml"), "evaluate", EvaluateOptions).grid.ngram
    assert len(found) == 2


@pytest.mark.parametrize("patience", [0, 1])
def test_an_outlook_keeps_the_epoch_that_training_keeps(
    files: TrainingFiles, patience: int
) -> None:
    options = read_run_options(Path("params.yaml"))
    options = replace(options, train=replace(options.train, patience=patience))
    own = outlook._at_steps(files.load(cache_mb=0), options, 40, seed=1).train
    assert own.patience == patience * own.epochs


def test_the_command_trains_and_prints_what_it_found(
    files: TrainingFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [
        replace(one, signer=f"s{int(one.clip_id[5:]) % 4}")
        if one.split == "train" else one
        for one in read_targets(files.targets)
    ]  # fmt: skip
    write_targets(files.targets, targets)
    main(["outlook", "--draws", "1", "--steps", "2", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {one["signers"] for one in found["results"]} == {1, 2}
    assert all(one["signer"] not in ("dev", "test") for one in found["results"])
    assert [*found["expected"]] == ["4", "8"]
