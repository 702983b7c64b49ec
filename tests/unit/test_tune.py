import dataclasses
from pathlib import Path
from typing import Any

import optuna
import pytest

from signloom.config import UserError
from signloom.tracking import Run, TrackingOptions
from signloom.training.run import RunOptions
from signloom.tune.search import search
from signloom.tune.space import TuneOptions, apply_values, parse_space
from tests import tiny

SPACE: dict[str, Any] = {
    "model.d_model": {"choices": [8, 16]},
    "model.head_width": {"choices": [4, 8]},
    "model.norm": {"choices": ["pre", "post"]},
    "model.encoder_layers": {"low": 1, "high": 2},
    "train.learning_rate": {"low": 0.001, "high": 0.02, "log": True},
}
OPTIONS = TuneOptions(seed=5, trials=3, epochs=2, space=SPACE)
OFF = Run.start(TrackingOptions(enabled=False, experiment="off"), "search", stage="tune")


def run(
    folder: Path, options: TuneOptions = OPTIONS, base: RunOptions | None = None
) -> dict[str, Any]:
    return search(
        tiny.training_data(),
        base or tiny.run_options(),
        options,
        data_hash="x",
        run=OFF,
        progress=lambda epochs, trials: None,
        storage=f"sqlite:///{folder / 'optuna.db'}",
    )


def test_the_search_starts_with_the_current_parameters_and_is_reproducible(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = run(tmp_path / "one"), run(tmp_path / "two")
    assert first == second
    start = first["trials"][0]["params"]
    assert start["model.d_model"] == 16
    assert start["model.head_width"] == 8
    assert start["train.learning_rate"] == pytest.approx(0.003)
    assert len(first["trials"]) == 3
    values = [trial["value"] for trial in first["trials"] if trial["state"] == "COMPLETE"]
    assert first["best"]["value"] == min(values)


def test_a_search_that_died_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    for name in ("whole", "died"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole")
    run(tmp_path / "died", dataclasses.replace(OPTIONS, trials=1))
    # What a killed process leaves: a trial that is said to run for ever.
    study_name = whole["study"]
    study = optuna.load_study(
        study_name=study_name, storage=f"sqlite:///{tmp_path / 'died' / 'optuna.db'}"
    )
    study.ask()
    resumed = run(tmp_path / "died")
    assert resumed == whole


def test_a_search_that_died_in_its_first_trial_starts_with_the_current_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("whole", "died"):
        (tmp_path / name).mkdir()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("signloom.tune.search.train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "died")
    assert run(tmp_path / "died") == run(tmp_path / "whole")


def test_fewer_trials_than_the_study_holds_are_as_many_as_asked(tmp_path: Path) -> None:
    three = run(tmp_path)
    one = run(tmp_path, dataclasses.replace(OPTIONS, trials=1))
    assert one["trials"] == three["trials"][:1]


def test_other_code_is_another_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = dataclasses.replace(OPTIONS, trials=1)
    before = run(tmp_path, one)
    monkeypatch.setattr("signloom.tune.search._code_hash", lambda: "changed")
    assert run(tmp_path, one)["study"] != before["study"]


def test_what_cannot_be_trained_is_said_before_the_first_trial(tmp_path: Path) -> None:
    data = dataclasses.replace(tiny.training_data(), labels=[])
    with pytest.raises(UserError, match="no train clip has CTC labels"):
        search(
            data,
            tiny.run_options(),
            OPTIONS,
            data_hash="x",
            run=OFF,
            progress=lambda epochs, trials: None,
            storage=f"sqlite:///{tmp_path / 'optuna.db'}",
        )
    assert not (tmp_path / "optuna.db").exists()


def test_the_winner_is_written_whatever_the_parameters_say_by_then(tmp_path: Path) -> None:
    best = run(tmp_path)["best"]
    names = {f"{section}.{key}" for section, values in best["overrides"].items() for key in values}
    assert names == {*SPACE, "model.heads", "model.d_ff"} - {"model.head_width"}


def test_another_space_or_other_parameters_are_another_study(tmp_path: Path) -> None:
    one = dataclasses.replace(OPTIONS, trials=1)
    first = run(tmp_path, one)
    space = {key: value for key, value in SPACE.items() if key != "model.norm"}
    assert run(tmp_path, dataclasses.replace(one, space=space))["study"] != first["study"]
    assert run(tmp_path, one, tiny.run_options(seed=9))["study"] != first["study"]
    assert run(tmp_path, one) == first


def test_the_winner_is_said_as_changes_of_params() -> None:
    base = tiny.run_options()
    changed = apply_values(
        base, {"model.d_model": 8, "model.head_width": 4, "train.learning_rate": 0.01}
    )
    assert (changed.model.d_model, changed.model.heads) == (8, 2)
    assert changed.model.d_ff == base.model.d_ff // 2  # keeps its ratio
    assert changed.train.learning_rate == 0.01
    assert changed.augment == base.augment


def test_a_diverging_trial_does_not_end_the_search(tmp_path: Path) -> None:
    space = {"train.learning_rate": {"choices": [0.003, 1e30]}}
    options = TuneOptions(seed=1, trials=8, epochs=2, space=space)
    result = run(tmp_path, options, tiny.run_options(warmup_steps=1))
    reasons = [trial["reason"] for trial in result["trials"] if trial["state"] == "PRUNED"]
    diverged = [trial for trial in result["trials"] if trial["params"]["train.learning_rate"] > 1]
    assert diverged
    assert any("no longer a number" in (reason or "") for reason in reasons)
    assert result["best"]["params"]["train.learning_rate"] == 0.003


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.d_modle", {"low": 1, "high": 2}, "space.model.d_modle is not an option"),
        ("evaluate.beam_size", {"low": 1, "high": 2}, "is not an option that training reads"),
        ("model.d_model", {"low": 2, "high": 1}, "expected low < high"),
        ("model.d_model", {"choices": []}, "expected a list of values"),
        ("model.d_model", [1, 2], r"expected \{choices"),
        ("train.learning_rate", {"low": 0, "high": 1, "log": True}, "more than 0"),
        ("model.norm", {"choices": ["pre", "psot"]}, "found 'psot', expected one of"),
        ("model.norm", {"low": 1, "high": 2}, "only a number has a range"),
        ("model.encoder_layers", {"low": 1.0, "high": 2.0}, "found 1.0 .float., expected int"),
        ("model.heads", {"choices": [1, 2]}, "each decides the other"),
    ],
)
def test_an_impossible_space_is_refused(name: str, content: object, message: str) -> None:
    space = {"model.head_width": {"choices": [4, 8]}, name: content}
    with pytest.raises(ValueError, match=message):
        parse_space(space)
