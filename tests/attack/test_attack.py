"""A quick part of the attack, and that the attack sees what it is to see."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.attack import app, inputs, run
from tests.attack.run import AttackCase, Result, Verb, run_case
from tests.tiny import write_checkpoint, write_project


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with landmarks, tokens and a model of no corpus."""
    folder = tmp_path_factory.mktemp("base")
    write_project(folder)
    write_checkpoint(folder / "data/checkpoint")
    return folder


def attack(base: Path, verb: Verb, maker: inputs.Maker, name: str = "table.tsv") -> Result:
    return run_case(base, AttackCase(verb=verb, kind="", name="", prepare=run._giving(maker, name)))


def test_tables_of_every_kind_are_refused_with_a_message_or_taken(base: Path) -> None:
    verb = Verb(
        name="init",
        arguments=("init", "made", "--text-only", "--table", "{given}"),
        writes=("made/*",),
    )
    results = {}
    for name in list(inputs.TABLES)[::8]:
        results[name] = attack(base, verb, inputs.TABLES[name])
    assert {name: result.faults for name, result in results.items() if result.faults} == {}


def pretend(monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    monkeypatch.setattr(run, "_call", act)


@pytest.mark.parametrize(
    ("act", "fault"),
    [
        (lambda _: Path("params.yaml").write_text(""), "changed project/params.yaml"),
        (lambda _: Path("../outside/canary.mp4").unlink(), "changed outside/canary.mp4"),
        (lambda _: Path("pwned").touch(), "changed project/pwned"),
        (lambda _: [Path(name).touch() for name in ("É", "é")], "alone: project/É, project/é"),
        (lambda _: {}["a key"], "traceback: KeyError: 'a key'"),
        (lambda _: sys.exit(1), "failed without a word"),
        (lambda _: sys.exit("\x1b[2Jred"), "control characters on the terminal"),
        (lambda _: sys.exit(7), "ended with 7"),
        (lambda _: os.kill(os.getpid(), signal.SIGTERM), "ended with -15"),
        (lambda _: print("x" * 30_000, file=sys.stderr), "a message of 30001 characters"),
        (lambda _: bytearray(2**28), "MB"),
        (lambda _: time.sleep(60), "ended with -9"),
    ],
)
def test_the_attack_sees(
    base: Path, monkeypatch: pytest.MonkeyPatch, act: object, fault: str
) -> None:
    pretend(monkeypatch, act)
    monkeypatch.setattr(run, "HANGS_S", 1.0)
    if fault == "MB":
        monkeypatch.setattr(run, "MOST_MB", 256)
    result = attack(base, Verb(name="", arguments=("any",)), inputs.bytes_of(b""))
    assert fault in " ".join(result.faults)


def test_the_attack_sees_a_clip_that_is_lost(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"clips": [1, 2], "rejects": [], "known": 0, "waiting": []}
    pretend(monkeypatch, lambda _: print(json.dumps(report)))

    def prepare(project: Path) -> str:
        (project / "given").mkdir()
        for name in "abc":
            (project / f"given/{name}.txt").touch()
        return "given"

    result = run_case(base, AttackCase(verb=run.INGEST, kind="", name="", prepare=prepare))
    assert result.faults == ["3 clips in, 2 out and 0 rejected"]


@pytest.mark.parametrize("name", inputs.SPELLINGS)
def test_a_person_is_forgotten_however_a_table_spells_the_name(base: Path, name: str) -> None:
    spelt = AttackCase(
        verb=run.FORGET_SPELT, kind="", name=name, prepare=run._spelt(inputs.SPELLINGS[name])
    )
    assert run_case(base, spelt).faults == []


@pytest.mark.parametrize("clips", [1, 5])
def test_few_clips_decide_nothing(base: Path, clips: int) -> None:
    result = run_case(
        base, AttackCase(verb=run.COMPARE_FEW, kind="", name="", prepare=run._few(clips, seed=0))
    )
    assert (result.code, result.faults) == (0, [])


def test_the_attack_sees_who_is_forgotten_by_half_and_what_is_significant_by_chance(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda _: print("B is better on BLEU-4."))
    spelt = AttackCase(verb=run.FORGET_SPELT, kind="", name="", prepare=run._spelt(inputs.SPELT))
    few = AttackCase(verb=run.COMPARE_FEW, kind="", name="", prepare=run._few(3, seed=0))
    for case in (spelt, few):
        assert run_case(base, case).faults == ["1 clips in, 0 out and 0 rejected"]


def test_a_wrong_value_is_put_in_each_place() -> None:
    makers = dict(inputs.wrong_values('{"a": {"b": [1, 2]}, "c": 3}'))
    assert json.loads(makers["without a.b"]()) == {"a": {}, "c": 3}
    assert json.loads(makers["a.b.0 is null"]()) == {"a": {"b": [None, 2]}, "c": 3}
    assert len(makers) == 4 * (1 + len(inputs.WRONG))


@pytest.mark.slow
@pytest.mark.parametrize("clients", [2, 16])
def test_clients_that_lie_crawl_and_stop_lose_no_film(tmp_path: Path, clients: int) -> None:
    tally = app.attack(tmp_path / "project", clients, seconds=6.0, seed=1)
    assert tally.faults == []
    assert len(tally.kept) > 2  # of more on a quick machine
