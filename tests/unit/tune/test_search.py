import dataclasses
import multiprocessing
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch

from signloom.errors import UserError
from signloom.features.targets import NO_LABELS
from signloom.tracking.run import TrackingOptions
from signloom.training.run import RunOptions
from signloom.tune.search import Studies, open_studies, plan_search
from signloom.tune.slots import FINISHED, OWNER, SLOT, is_dead, this_owner
from signloom.tune.space import TuneOptions, apply_values, parse_space
from signloom.tune.storage import identify
from tests import tiny

SPACE: dict[str, Any] = {
    "model.d_model": {"choices": [8, 16]},
    "model.head_width": {"choices": [4, 8]},
    "model.norm": {"choices": ["pre", "post"]},
    "model.encoder_layers": {"low": 1, "high": 2},
    "train.learning_rate": {"low": 0.001, "high": 0.02, "log": True},
}
OPTIONS = tiny.tune_options(seed=5, trials=3, epochs=2, space=SPACE)
OFF = TrackingOptions(enabled=False, experiment="off")
GONE = {**this_owner(), "started_s": 0.0}  # a process of this machine that is no more
HASHES = {"landmarks": "x", "targets": "y"}


def studies(
    folder: Path, options: TuneOptions = OPTIONS, base: RunOptions | None = None
) -> Studies:
    """Open a search whose database lies in the folder."""
    options = dataclasses.replace(options, storage=f"sqlite:///{folder / 'optuna.db'}")
    base = base or tiny.run_options()
    return open_studies(plan_search(tiny.training_data(), base, options, OFF, hashes=HASHES))


def run(
    folder: Path, options: TuneOptions = OPTIONS, base: RunOptions | None = None
) -> dict[str, Any]:
    found = studies(folder, options, base)
    found.work()
    return found.summary()


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
    assert (
        shares := first["importance"]
    )  # equal ones by name: Optuna's order differs between processes
    assert list(shares) == sorted(shares, key=lambda name: (-shares[name], name))


def test_a_search_that_died_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    for name in ("whole", "died"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole")
    run(tmp_path / "died", dataclasses.replace(OPTIONS, trials=1))
    # What a process leaves that is killed in its first moments, in its trial and before it.
    died = studies(tmp_path / "died").study
    for slot, owner in ((1, GONE), (2, None)):
        start_and_leave(died, slot, owner)
    died.enqueue_trial({}, user_attrs={SLOT: 2})
    again = studies(tmp_path / "died", dataclasses.replace(OPTIONS, heartbeat_s=1))
    again.work()
    assert again.summary() == whole
    states = [trial.state.name for trial in again.study.get_trials()]
    assert states.count("FAIL") == 3  # two dead, and one whose slot was still held by a dead one


def start_and_leave(study: optuna.Study, slot: int, owner: dict[str, Any] | None) -> optuna.Trial:
    """Start a trial like a process that is killed in its first moments."""
    study.enqueue_trial({}, user_attrs={SLOT: slot})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna expects a heartbeat here
        trial = study.ask()
    if owner:
        trial.set_user_attr(OWNER, owner)
    return trial


def work_in_a_process(folder: str, options: TuneOptions) -> None:
    torch.set_num_threads(1)  # as in this process: another number sums in another order
    run(Path(folder), options)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_trial_changes_nothing(tmp_path: Path) -> None:
    """Quick twin: test_a_search_that_died_goes_on_and_ends_the_same."""
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    options = dataclasses.replace(OPTIONS, trials=4, epochs=6)
    whole = run(tmp_path / "whole", options)
    spawn = multiprocessing.get_context("spawn")
    found = studies(tmp_path / "killed", options)
    for trials_before in (1, 2):
        process = spawn.Process(target=work_in_a_process, args=(str(tmp_path / "killed"), options))
        process.start()
        while found.done()[0] < trials_before or not running_epochs(found):
            assert process.is_alive()
            time.sleep(0.005)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    found.work()
    assert found.summary() == whole
    assert len(found.study.get_trials(states=FINISHED)) == 4
    dead = found.study.get_trials(states=(optuna.trial.TrialState.FAIL,))
    assert 1 <= len(dead) <= 2


def running_epochs(found: Studies) -> int:
    trials = found.study.get_trials(states=(optuna.trial.TrialState.RUNNING,))
    return sum(len(trial.intermediate_values) for trial in trials)


def test_two_trials_of_one_slot_count_once(tmp_path: Path) -> None:
    found = studies(tmp_path)
    for _ in range(2):
        found.study.enqueue_trial({}, user_attrs={SLOT: 1})
    found.study.enqueue_trial({}, user_attrs={SLOT: 7})  # of a search that was longer
    found.work()
    slots = [t.user_attrs[SLOT] for t in found.study.get_trials(states=FINISHED)]
    assert sorted(slots) == [0, 1, 2]


@pytest.mark.slow
def test_a_trial_declared_dead_by_another_process_is_run_again(tmp_path: Path) -> None:
    """Quick twin: test_a_trial_of_another_machine_is_dead_when_its_heart_stops."""
    found, failed = studies(tmp_path), []

    def fail_the_second(finished: int, epochs: int) -> None:
        if finished == 1 and not failed:
            (running,) = found.study.get_trials(states=(optuna.trial.TrialState.RUNNING,))
            storage = found.study._storage
            storage.set_trial_state_values(running._trial_id, optuna.trial.TrialState.FAIL)
            failed.append(running.number)

    found.work(fail_the_second)
    assert failed
    assert found.summary()["trials"] == run_elsewhere(tmp_path)["trials"]


def run_elsewhere(folder: Path) -> dict[str, Any]:
    other = folder / "elsewhere"
    other.mkdir()
    return run(other)


def test_values_whose_process_dies_every_time_are_given_up(tmp_path: Path) -> None:
    found = studies(tmp_path)
    for _ in range(4):
        trial = start_and_leave(found.study, 0, GONE)
        found.study.tell(trial, state=optuna.trial.TrialState.FAIL)
    found.work()
    first = found.summary()["trials"][0]
    assert first["state"] == "PRUNED"
    assert first["reason"] == "its process died 4 times with these values"


@pytest.mark.slow
def test_a_search_goes_on_without_a_worker_that_is_stopped_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_a_search_that_died_goes_on_and_ends_the_same."""
    found = studies(tmp_path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(6):  # more often than a slot may die
        with monkeypatch.context() as patch:
            patch.setattr("signloom.tune.objective.train", interrupted)
            with pytest.raises(KeyboardInterrupt):
                found.work()
    found.work()
    assert found.summary() == run_elsewhere(tmp_path)


def test_a_process_is_told_from_another_one_with_its_number() -> None:
    owner = this_owner()
    assert not is_dead(owner)
    assert is_dead({**owner, "started_s": float(owner["started_s"]) - 100})
    assert not is_dead({**owner, "machine": "another", "pid": 1, "started_s": 0.0})


def test_fewer_trials_than_the_study_holds_are_as_many_as_asked(tmp_path: Path) -> None:
    three = run(tmp_path)
    one = run(tmp_path, dataclasses.replace(OPTIONS, trials=1))
    assert one["trials"] == three["trials"][:1]


def test_other_code_is_another_study_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = dataclasses.replace(OPTIONS, trials=1)
    before = run(tmp_path, one)
    monkeypatch.setattr("signloom.tune.storage.code_hash", lambda *packages: "changed")
    with caplog.at_level("INFO"):
        assert run(tmp_path, one)["study"] != before["study"]
    assert f"Changed since {before['study']} (1 trials): the code." in caplog.text


def test_code_that_decodes_counts_only_where_an_objective_decodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("signloom.tune.storage.code_hash", lambda *packages: " ".join(packages))
    other_words = dataclasses.replace(OPTIONS, tokenizer="char")
    base = tiny.run_options()
    assert identify(base, other_words, HASHES) == identify(base, OPTIONS, HASHES)
    one, other = (
        identify(base, dataclasses.replace(options, objectives=("bleu4",)), HASHES)
        for options in (OPTIONS, other_words)
    )
    assert one["the objective"] != other["the objective"]
    assert one["the code"] != identify(base, OPTIONS, HASHES)["the code"]


def test_what_cannot_be_trained_is_said_before_the_first_trial() -> None:
    data = dataclasses.replace(tiny.training_data(), labels=NO_LABELS)
    with pytest.raises(UserError, match="no train clip has CTC labels"):
        plan_search(data, tiny.run_options(), OPTIONS, OFF, hashes=HASHES)


def test_the_winner_is_written_whatever_the_parameters_say_by_then(tmp_path: Path) -> None:
    best = run(tmp_path)["best"]
    names = {f"{section}.{key}" for section, values in best["overrides"].items() for key in values}
    assert names == {*SPACE, "model.heads", "model.d_ff"} - {"model.head_width"}


def test_another_space_or_other_parameters_are_another_study(tmp_path: Path) -> None:
    one = dataclasses.replace(OPTIONS, trials=1)
    first = run(tmp_path, one)
    space = {key: value for key, value in SPACE.items() if key != "model.norm"}
    assert run(tmp_path, dataclasses.replace(one, space=space))["study"] != first["study"]
    assert run(tmp_path, one, tiny.run_options(seeds=[9]))["study"] != first["study"]
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
    options = tiny.tune_options(seed=1, trials=8, epochs=2, space=space)
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
        ("model.norm", {"choices": ["pre", "psot"]}, "found 'psot', expected 'pre' or"),
        ("model.norm", {"low": 1, "high": 2}, "only a number has a range"),
        ("model.encoder_layers", {"low": 1.0, "high": 2.0}, "found 1.0, expected a whole number"),
        ("model.heads", {"choices": [1, 2]}, "each decides the other"),
        ("model.d_model", {"choices": [8, 12]}, "12 is not a multiple of model.head_width 8"),
        ("train.epochs", {"low": 1, "high": 2}, "the search itself decides it"),
    ],
)
def test_an_impossible_space_is_refused(name: str, content: object, message: str) -> None:
    space = {"model.head_width": {"choices": [4, 8]}, name: content}
    with pytest.raises(ValueError, match=message):
        parse_space(space)


def test_a_trial_of_another_machine_is_dead_when_its_heart_stops(tmp_path: Path) -> None:
    found = studies(tmp_path, dataclasses.replace(OPTIONS, trials=1, heartbeat_s=1))
    away = start_and_leave(found.study, 0, {**GONE, "machine": "another"})
    found.study._storage.record_heartbeat(away._trial_id)
    start_s = time.monotonic()
    found.work()
    assert time.monotonic() - start_s > 2  # it was waited for
    states = [trial.state.name for trial in found.study.get_trials()]
    assert states == ["FAIL", "COMPLETE"]
