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
from signloom.provenance import PACKAGE, library_versions
from signloom.training.train import RunOptions
from signloom.tune import storage
from signloom.tune.search import plan_search
from signloom.tune.space import TuneOptions, parse_space
from signloom.tune.storage import FINISHED, OWNER, REASON, SLOT, _retry, identify, quiet
from tests import tiny
from tests.unit.tune.searches import HASHES, OFF, OPTIONS, SPACE, search_in


def run(
    folder: Path, options: TuneOptions = OPTIONS, base: RunOptions | None = None
) -> dict[str, Any]:
    search = search_in(folder, options, base)
    search.work()
    return search.summary()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a search gives that nothing interrupts."""
    return run(tmp_path_factory.mktemp("whole"))


def test_the_search_starts_with_the_current_parameters_and_is_reproducible(
    whole: dict[str, Any], tmp_path: Path
) -> None:
    assert run(tmp_path) == whole
    start = whole["trials"][0]["params"]
    assert start["model.d_model"] == 16
    assert start["model.head_width"] == 8
    assert start["train.learning_rate"] == pytest.approx(0.003)
    assert len(whole["trials"]) == 3
    values = [trial["value"] for trial in whole["trials"] if trial["state"] == "COMPLETE"]
    assert whole["best"]["value"] == min(values)
    overrides = whole["best"]["overrides"]
    names = {f"{section}.{key}" for section, values in overrides.items() for key in values}
    assert names == {*SPACE, "model.heads", "model.d_ff"} - {"model.head_width"}


def test_a_dead_search_goes_on_and_ends_the_same(whole: dict[str, Any], tmp_path: Path) -> None:
    run(tmp_path, dataclasses.replace(OPTIONS, trials=1))
    # What a process leaves that is killed in its trial, in its first moments and before it.
    died, times = search_in(tmp_path).study, list[float]()
    start_and_leave(died, 1, has_begun=True)
    start_and_leave(died, 2, has_begun=False)
    died.enqueue_trial({}, user_attrs={SLOT: 2})
    start_s = time.monotonic()
    again = search_in(tmp_path, dataclasses.replace(OPTIONS, heartbeat_s=1))
    again.work(lambda finished, epochs: times.append(time.monotonic()))
    assert times[0] - start_s > 2  # for a sign of life it was waited
    assert again.summary() == whole
    states = [trial.state.name for trial in again.study.get_trials()]
    assert (states.count("FAIL"), len(states)) == (2, 5)


def start_and_leave(study: optuna.Study, slot: int, *, has_begun: bool) -> optuna.Trial:
    """Start a trial like a process that is killed in it, or before its first sign of life."""
    study.enqueue_trial({}, user_attrs={SLOT: slot})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna expects a heartbeat here
        trial = study.ask()
    if has_begun:
        study._storage.record_heartbeat(trial._trial_id)
        trial.set_user_attr(OWNER, {"machine": "another", "pid": 1})
    return trial


def work_until_killed(folder: Path, options: TuneOptions, trials_before: int) -> None:
    """Work on a search up to the first epoch of the trial after so many; then kill -9."""
    torch.set_num_threads(1)  # another number sums in another order

    def kill(trials: int, epochs: int) -> None:
        if trials >= trials_before and epochs > trials * options.epochs:
            os.kill(os.getpid(), signal.SIGKILL)

    search_in(folder, options).work(kill)


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_trial_changes_nothing(tmp_path: Path) -> None:
    """Quick twin: test_a_dead_search_goes_on_and_ends_the_same.

    All work is done in new processes: this one may have loaded NumPy on another code path.
    """
    options = dataclasses.replace(OPTIONS, trials=4, epochs=6, heartbeat_s=1)
    spawn = multiprocessing.get_context("spawn")
    searches = {}
    for name, kills in (("whole", ()), ("killed", (1, 2))):
        folder = tmp_path / name
        folder.mkdir()
        search = searches[name] = search_in(folder, options)
        for trials_before in (*kills, options.trials):
            process = spawn.Process(target=work_until_killed, args=(folder, options, trials_before))
            process.start()
            process.join()
            assert process.exitcode == (-signal.SIGKILL if trials_before in kills else 0)
            assert search.done()[0] == trials_before
    search, expected = searches["killed"], searches["whole"].summary()
    assert search.summary() == expected
    assert len(search.study.get_trials(states=FINISHED)) == 4
    dead = search.study.get_trials(states=(optuna.trial.TrialState.FAIL,))
    assert len(dead) == 2


def test_two_trials_of_one_slot_count_once(tmp_path: Path) -> None:
    search = search_in(tmp_path)
    for _ in range(2):
        search.study.enqueue_trial({}, user_attrs={SLOT: 1})
    search.study.enqueue_trial({}, user_attrs={SLOT: 7})  # of a search that was longer
    search.work()
    slots = [t.user_attrs[SLOT] for t in search.study.get_trials(states=FINISHED)]
    assert sorted(slots) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_values_whose_process_dies_every_time_are_given_up(tmp_path: Path) -> None:
    search = search_in(tmp_path, dataclasses.replace(OPTIONS, trials=1))
    start_and_leave(search.study, 0, has_begun=True)
    for number in range(4):  # as Optuna does where no sign of life comes
        assert number == 0 or search.study.ask().number == number
        search.study.tell(number, state=optuna.trial.TrialState.FAIL)
        with quiet():
            _retry(search.study, search.study.get_trials()[number])
    search.work()
    (trial,) = search.study.get_trials(states=FINISHED)
    assert trial.state == optuna.trial.TrialState.PRUNED
    assert "4 times" in trial.user_attrs[REASON]


@pytest.mark.slow
def test_a_search_goes_on_without_a_worker_that_is_stopped_by_hand(
    whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_a_dead_search_goes_on_and_ends_the_same."""
    search = search_in(tmp_path)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for _ in range(6):  # more often than a slot may die
        with monkeypatch.context() as patch:
            patch.setattr("signloom.tune.objective.train", interrupted)
            with pytest.raises(KeyboardInterrupt):
                search.work()
    search.work()
    assert search.summary() == whole


def test_other_code_is_another_study_and_the_log_has_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = search_in(tmp_path).plan.name
    monkeypatch.setattr("signloom.tune.storage.code_hash", lambda *packages: "changed")
    with caplog.at_level("INFO"):
        assert search_in(tmp_path).plan.name != before
    assert f"Changed since {before} (0 trials): the code." in caplog.text


def test_decoding_code_counts_where_an_objective_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signloom.tune.storage.code_hash", lambda *packages: " ".join(packages))
    other_words = dataclasses.replace(OPTIONS, tokenizer="char")
    base = tiny.run_options()
    assert identify(base, other_words, HASHES) == identify(base, OPTIONS, HASHES)
    first, second = (
        identify(base, dataclasses.replace(options, objectives=("bleu4",)), HASHES)
        for options in (OPTIONS, other_words)
    )
    assert first["the objective"] != second["the objective"]
    assert first["the code"] != identify(base, OPTIONS, HASHES)["the code"]


def test_what_decides_no_trial_is_no_part_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another metric or detector, a new release, or a change to the report of a search."""
    base, before = tiny.run_options(), library_versions()
    decoding = dataclasses.replace(OPTIONS, objectives=("bleu4",))
    identities = [identify(base, options, HASHES) for options in (OPTIONS, decoding)]
    for name, counts in (
        ("signloom", (False, False)),
        ("mediapipe", (False, False)),
        ("sacrebleu", (False, True)),
        ("torch", (True, True)),
    ):
        changed = {**before, name: "0"}
        monkeypatch.setattr("signloom.tune.storage.library_versions", lambda c=changed: c)
        now = [identify(base, options, HASHES) for options in (OPTIONS, decoding)]
        assert (now[0] != identities[0], now[1] != identities[1]) == counts, name
    read = [*storage.PACKAGES, *storage.DECODING_PACKAGES]
    assert all((PACKAGE / name).exists() for name in read)
    assert not {"tune", "evaluation", "tune/summary.py", "tune/worker.py"} & {*read}


def test_what_cannot_be_trained_is_said_before_the_first_trial() -> None:
    data = dataclasses.replace(tiny.training_data(), labels=NO_LABELS)
    with pytest.raises(UserError, match="no train clip has CTC labels"):
        plan_search(data, tiny.run_options(), OPTIONS, OFF, hashes=HASHES)


@pytest.mark.parametrize(("patience", "expected"), [(0, 0), (5, OPTIONS.epochs)])
def test_a_trial_keeps_the_epoch_that_training_would_keep(patience: int, expected: int) -> None:
    base = tiny.run_options(patience=patience)
    search = plan_search(tiny.training_data(), base, OPTIONS, OFF, hashes=HASHES)
    assert (search.base.train.epochs, search.base.train.patience) == (OPTIONS.epochs, expected)


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
        ("features.groups", {"choices": [["hands"]]}, "a list or map cannot be searched"),
    ],
)
def test_an_impossible_space_is_refused(name: str, content: object, message: str) -> None:
    space = {"model.head_width": {"choices": [4, 8]}, name: content}
    with pytest.raises(ValueError, match=message):
        parse_space(space)
