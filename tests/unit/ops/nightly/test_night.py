"""Whole nights that end early, and programs that a night runs; those that train: tests/system."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from signloom.corpus.manifest import load_manifest, read_manifest, write_manifest
from signloom.corpus.quality import write_quality
from signloom.paths import RETRAIN_LOCK
from signloom.system import interrupt
from signloom_ops.lock import hold_lock
from signloom_ops.nightly.night import Terminated, _end_on_sigterm, run_night
from signloom_ops.nightly.plan import NightRequest, dry_run
from signloom_ops.nightly.programs import Programs
from signloom_ops.nightly.record import NightRecord, find_interrupted
from signloom_ops.nightly.steps import take_deliveries, train
from signloom_ops.nightly.store import ModelStore
from tests.intake import deliver
from tests.processes import is_alive
from tests.tiny import ROOT
from tests.unit.ops.nightly.night_project import (
    PARAMS,
    cut_before_the_pointer,
    decision_about,
    keep_decided,
    keep_undecided,
    make_project,
    read_night,
)

ASK = NightRequest(params=PARAMS, start=None, force=False)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")


def outcome(night: dict[str, Any]) -> tuple[str, int]:
    return night["outcome"], night["exit_code"]


def make_stages(commands: dict[str, str], **deps: list[str]) -> None:
    """Make a DVC repository of stages that depend on nothing, or on the files of a keyword."""
    stages = {
        name: {"cmd": command, "deps": deps.get(name, [])} for name, command in commands.items()
    }
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], check=True)


def test_nothing_new_ends_with_3_and_changes_no_model() -> None:
    settings = make_project()
    keep_decided(settings, ModelStore(), promote=True)
    night = run_night(ASK)
    assert outcome(night) == ("nothing_new", 3)
    assert night == read_night()
    assert (night["champion_before"], night["champion"], night["version"]) == (1, 1, None)
    assert [step["name"] for step in night["steps"]] == ["plan"]
    assert ModelStore().versions() == [1]
    assert Path(RETRAIN_LOCK).read_text() == ""


def test_a_second_night_ends_with_6_and_leaves_the_first_ones_summary_alone() -> None:
    make_project()
    with hold_lock(RETRAIN_LOCK):
        night = run_night(ASK)
    assert outcome(night) == ("busy", 6)
    assert f"process {os.getpid()}" in night["verdict"]
    assert not Path("reports/retrain").exists()


def test_a_step_that_fails_ends_the_night_and_is_repeated_by_the_next() -> None:
    """Here DVC was never initialised."""
    make_project()
    night = run_night(ASK)
    assert outcome(night) == ("error", 1)
    assert "dvc repro extract tokenize_targets failed" in night["verdict"]
    assert "not inside of a DVC repository" in night["verdict"]
    assert night["steps"][-1]["name"] == "extract"
    assert night["steps"][-1]["result"] == "failed"
    assert dry_run(ASK).kind == "train"


@pytest.mark.slow
def test_a_delivery_without_landmarks_is_withdrawn_and_not_taken_again() -> None:
    """Quick twin: tests/unit/ops/intake/test_withdraw.py, tests/unit/ops/intake/drift."""
    settings = make_project()
    before = settings.corpus.path.read_text(encoding="utf-8")
    stages = {"extract": "true", "tokenize_targets": "true", "report": "touch reports/made"}
    make_stages(stages, report=["reports/tune"])  # which no search wrote
    write_quality(Path("data/landmarks/quality.parquet"), [])
    deliver(settings.ops.inbox / "ada", "dark", frames=25)
    night = run_night(ASK)
    assert outcome(night) == ("data_refused", 5)
    assert "1 of 1 new clips have no landmarks" in night["verdict"]
    names = [step["name"] for step in night["steps"]]
    assert names[:6] == ["plan", "ingest", "extract", "drift", "withdraw", "extract again"]
    (batch,) = night["batches"]
    assert [p.name for p in Path("data/withdrawn", batch).rglob("*.mp4")] == ["dark.mp4"]
    assert settings.corpus.path.read_text(encoding="utf-8") == before
    assert json.loads(Path("reports/retrain/drift.json").read_text())["level"] == "stop"
    assert Path("reports/made").is_file()
    # The corpus still wants its first model, but the delivery is not news again.
    assert dry_run(ASK).lines[0] == "because no model has been decided on yet"


def test_a_manifest_that_was_edited_meanwhile_is_read_again() -> None:
    settings = make_project()
    before = load_manifest(settings.corpus)
    path = settings.corpus.path
    path.write_text(path.read_text().replace("du pain", "du riz"))
    deliver(settings.ops.inbox / "ada", "new", frames=25)
    grown = take_deliveries(settings.corpus, settings.ops, before).manifest
    assert "du riz" in path.read_text()
    assert grown.clips == read_manifest(path)


def test_clips_whose_consent_has_ended_leave_the_corpus() -> None:
    settings, store = make_project(), ModelStore()
    keep_decided(settings, store, promote=True)
    first, *remaining = read_manifest(settings.corpus.path)
    ended = replace(first, consent_until="2020-01-31")
    write_manifest(settings.corpus.path, [ended, *remaining])
    assert any("1 clip would leave the corpus" in line for line in dry_run(ASK).lines)
    assert dry_run(ASK).kind == "train"
    night = run_night(ASK)  # as far as it comes without DVC
    step = night["steps"][0]
    assert (step["name"], step["clips"]) == ("consents", [first.clip_id])
    assert "`signloom forget` marks them" in night["warnings"][0]
    assert read_manifest(settings.corpus.path) == remaining
    assert night["reasons"] == ["clips left the corpus or were changed since the last model"]


def signalling_stage(number: signal.Signals) -> str:
    """Return the command of a stage that signals this process, and would then take minutes."""
    first = f"open('stage', 'w').write(str(os.getpid())); os.kill({os.getpid()}, {number.value})"
    return f'{sys.executable} -c "import os, time; {first}; time.sleep(600)"'


def test_sigterm_stops_the_stage_and_the_next_night_goes_on() -> None:
    make_project()
    make_stages({"extract": signalling_stage(signal.SIGTERM), "tokenize_targets": "-"})
    before = signal.getsignal(signal.SIGTERM)
    assert outcome(run_night(ASK)) == ("terminated", 143)
    assert signal.getsignal(signal.SIGTERM) == before
    assert not is_alive(int(Path("stage").read_text()))
    assert read_night()["exit_code"] == 143
    assert dry_run(ASK).kind == "train"


def test_rejects_of_the_inbox_are_listed_once() -> None:
    settings = make_project()
    keep_decided(settings, ModelStore(), promote=True)
    deliver(settings.ops.inbox / "dan", "short", frames=2)
    night = run_night(ASK)
    assert outcome(night) == ("nothing_new", 3)
    assert "rejected of the inbox: 1 file;" in night["warnings"][0]
    (reject,) = next(step for step in night["steps"] if step["name"] == "ingest")["rejects"]
    assert "short" in reject["where"]  # a field: prose names no file, whose folder may be a name
    assert "short" not in " ".join([night["verdict"], *night["warnings"]])
    assert dry_run(ASK).kind == "nothing"


def test_a_dry_run_lists_what_would_be_done_and_writes_nothing() -> None:
    settings = make_project()
    keep_decided(settings, ModelStore(), promote=False)
    keep_decided(settings, ModelStore(), promote=True)
    deliver(settings.ops.inbox / "ada", "new", frames=25)
    before = sorted(Path().rglob("*"))
    preview = dry_run(ASK)
    assert "1 clip would come to the 5 of the corpus" in preview.lines
    assert "training would start from data/models/0002/checkpoint" in preview.lines
    assert any(
        "0.0039 at most: 0.05 a year, shared with 1 refused" in line for line in preview.lines
    )
    assert [p for p in sorted(Path().rglob("*")) if "cache" not in p.parts] == before


def cut_night(last_step: str, version: int | None) -> None:
    """Leave the record of a night that was killed in a step."""
    record = NightRecord()
    row = {"name": last_step, "result": "running", "text": ""}
    record.note(version=version, steps=[*record.content["steps"], row])


def test_what_was_decided_and_not_published_is_finished_once() -> None:
    settings, store = make_project(), ModelStore()
    version = keep_decided(settings, store, promote=True)
    cut_night("gate", version)
    cut_night("plan", NightRecord().content["version"])  # the next night was killed, too
    leftover = Path("reports/retrain/.night.json.999999999-f.tmp")
    leftover.touch()
    assert dry_run(ASK).kind == "finish"
    night = run_night(ASK)
    assert outcome(night) == ("promoted", 0)
    assert [step["name"] for step in night["steps"]][-3:] == ["card", "registry", "report"]
    assert not leftover.exists()
    # There is no card: these versions are hollow. But the night is over.
    assert outcome(run_night(ASK)) == ("nothing_new", 3)


def test_a_decision_that_was_cut_off_is_made_again() -> None:
    settings, store = make_project(), ModelStore()
    version = keep_undecided(settings, store)
    cut_night("gate", version)
    cut_before_the_pointer(store, decision_about(store, version, promote=True))
    assert (store.decision(version), store.champion()) == (None, None)
    because = f"because version {version} is trained and was not decided on"
    assert dry_run(ASK).lines[0] == because


@pytest.mark.parametrize(("last_step", "is_tracked"), [("ingest", True), ("plan", False)])
def test_what_an_interrupted_night_changed_is_tracked_before_the_pull(
    last_step: str, is_tracked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the nights after it are interrupted before they come to it."""
    settings = make_project(remote="store")
    keep_decided(settings, ModelStore(), promote=True)
    cut_night(last_step, None)
    NightRecord()  # of a night that was killed before its first step
    called: list[str] = []
    monkeypatch.setattr(Programs, "dvc", lambda _, *words: called.append(words[0]))
    monkeypatch.setattr("signloom_ops.nightly.steps.track_version", lambda _: called.append("add"))
    Path("data/models.dvc").touch()
    assert outcome(run_night(ASK)) == ("nothing_new", 3)
    assert called == ["add", "add", "pull"] if is_tracked else ["pull"]


def test_a_night_that_breaks_is_recorded_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    make_project()
    monkeypatch.setattr("signloom_ops.nightly.night.make_plan", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_night(ASK)
    night = read_night()
    assert outcome(night) == ("error", 1)
    assert night["verdict"] == "ZeroDivisionError: division by zero"


def test_what_a_person_judged_or_rolled_back_is_left_to_the_person() -> None:
    settings, store = make_project(), ModelStore()
    keep_decided(settings, store, promote=True)
    version = keep_undecided(settings, store)
    store.apply_decision(decision_about(store, version, promote=True), by=None)
    night = run_night(ASK)
    assert (outcome(night), night["champion"]) == (("nothing_new", 3), 1)
    store.promote(version, by="a person")
    store.rollback(by="a person")
    night = run_night(ASK)
    assert (outcome(night), night["champion"]) == (("nothing_new", 3), 1)


def test_a_night_that_was_cut_is_recognised_and_keeps_its_key() -> None:
    first = NightRecord()
    with pytest.raises(SystemExit):
        first.step("train", sys.exit)  # what a kill leaves is what is on the disk before this
    content = read_night()
    content["steps"][-1]["result"] = "running"
    first.path.write_text(json.dumps(content))
    second = NightRecord()
    assert second.content["key"] == first.content["key"]
    second.end("refused", 4, "no")
    assert find_interrupted() is None
    assert "was interrupted in step train" in (second.folder / "night.log").read_text()


@pytest.mark.slow
def test_ctrl_c_stops_the_stage_and_is_passed_on() -> None:
    """Quick twin: test_sigterm_stops_the_stage_and_the_next_night_goes_on."""
    make_stages({"extract": signalling_stage(signal.SIGINT)})
    handle = os.open(os.devnull, os.O_RDONLY)
    programs = Programs(lock=handle, log=Path("stages.log"), night="key")
    with pytest.raises(KeyboardInterrupt):
        programs.dvc("repro", "extract")
    assert not is_alive(int(Path("stage").read_text()))


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_night_hands_no_ignored_ctrl_c_on_to_its_stages(is_ignored: bool) -> None:
    """A script starts what runs behind it with SIGINT ignored, and programs inherit that."""
    how = signal.SIG_IGN if is_ignored else signal.default_int_handler
    before = signal.signal(signal.SIGINT, how)
    code = "import time; print('up', flush=True); time.sleep(60)"
    try:
        with _end_on_sigterm():
            stage = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with stage:
        assert stage.stdout is not None
        stage.stdout.readline()
        interrupt(psutil.Process(stage.pid))
        assert stage.wait(timeout=20) == -signal.SIGINT


def test_a_night_makes_all_that_training_reads() -> None:
    class Noted(Programs):
        def __init__(self) -> None:
            self.stages: list[str] = []

        def dvc(self, *arguments: str) -> None:
            self.stages += arguments

    train("", noted := Noted())
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    read = {
        name
        for dep in stages["train"]["deps"]
        for name, stage in stages.items()
        if any(
            Path(dep).is_relative_to(out) for out in stage.get("outs", []) if isinstance(out, str)
        )
    }
    assert "tokenize_targets" in read
    assert read <= {"extract", "tokenize_targets", *noted.stages}


def test_a_second_sigterm_does_not_break_off_how_a_night_ends() -> None:
    before, ended = signal.getsignal(signal.SIGTERM), False
    with _end_on_sigterm():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Terminated:
            os.kill(os.getpid(), signal.SIGTERM)  # somebody pressed "Stop it" twice
            ended = True
    assert ended
    assert signal.getsignal(signal.SIGTERM) == before
