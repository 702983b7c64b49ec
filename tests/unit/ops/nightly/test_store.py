import json
import os
import resource
import shutil
import signal
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
import torch

from signloom.checkpoint import load_checkpoint
from signloom.errors import UserError
from signloom_ops.nightly.comparison import read_stored
from signloom_ops.nightly.store import KEPT_WEIGHTS, ModelStore
from signloom_tools.versions import find_version
from tests import tiny
from tests.intake import tree
from tests.power_cut import RENAMES, cut_before
from tests.processes import fork, wait
from tests.tiny import write_checkpoint

KEPT = Path(__file__).with_name("store_0_2.json")  # files of a store that Signloom 0.2.0 wrote


def make_run(folder: Path, name: str, beam_size: int = 4) -> tuple[Path, Path]:
    """What a training and an evaluation leave behind, as far as the store knows them."""
    checkpoint, evaluation = folder / name / "checkpoint", folder / name / "reports/evaluation"
    (checkpoint / "seeds/2").mkdir(parents=True)
    evaluation.mkdir(parents=True)
    for place in (checkpoint, checkpoint / "seeds/2"):
        (place / "model.safetensors").write_text(f"{name} {place.name}")
    scores = {
        "decoding": asdict(tiny.decoding(beam_size=beam_size)),
        "options": {"precision": "float32"},
    }
    (evaluation / "scores.json").write_text(json.dumps(scores))
    (evaluation.parent / "metrics.json").write_text("{}")
    return checkpoint, evaluation


def add(store: ModelStore, name: str) -> int:
    return store.add(*make_run(store.root.parent, name), {"batches": [name]})


def decided(version: int, champion: int | None, *, promote: bool) -> dict[str, object]:
    return {
        "version": version,
        "champion": champion,
        "promote": promote,
        "test": ["a"],
        "reasons": ["better failed: by 3 points"],
        "verdict": "it was judged",
    }


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def test_a_version_holds_a_copy_of_everything(store: ModelStore) -> None:
    assert add(store, "one") == 1
    shutil.rmtree(store.root.parent / "one")
    assert (store.checkpoint(1) / "seeds/2/model.safetensors").read_text() == "one 2"
    assert (store.evaluation(1) / "metrics.json").is_file()
    assert store.facts(1)["batches"] == ["one"]
    assert store.search_options(1) == {
        "decoding": tiny.decoding(beam_size=4),
        "precision": "float32",
    }
    assert (store.champion(), store.challenger()) == (None, 1)


def test_the_same_checkpoint_again_is_the_same_version(store: ModelStore) -> None:
    add(store, "one")
    run = make_run(store.root.parent, "two")
    assert [store.add(*run, {}), store.add(*run, {})] == [2, 2]
    assert store.versions() == [1, 2]


def test_promotions_and_rollbacks_are_one_after_another(store: ModelStore) -> None:
    for name in ("one", "two", "three"):
        store.promote(add(store, name), by="test")
    assert (store.champion(), store.challenger()) == (3, None)
    before = (store.root / "champion.json").read_bytes()
    store.promote(3, by="test")
    assert (store.root / "champion.json").read_bytes() == before
    assert store.rollback(by="me") == 2
    store.promote(3, by="test")
    assert store.rollback(by="me") == 2
    assert store.rollback(by="me") == 1
    assert store.champion() == 1
    with pytest.raises(UserError, match="no former champion"):
        store.rollback(by="me")
    actions = [change.action for change in store.pointer().history]
    assert actions == [*["promote"] * 3, "rollback", "promote", "rollback", "rollback"]


def test_a_torn_version_is_not_loaded_and_does_not_become_champion(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signloom_tools.versions.Versions", lambda: store)
    store.promote(add(store, "one"), by="test")
    add(store, "two")
    (store.checkpoint(2) / "model.safetensors").write_text("tor")
    for use in (
        lambda: store.promote(2, by="test"),
        lambda: find_version("2"),
        lambda: read_stored(store, 2),
    ):
        with pytest.raises(UserError, match="not what it was"):
            use()
    assert store.champion() == 1


def test_a_version_that_was_removed_leaves_its_number_unused(store: ModelStore) -> None:
    store.promote(add(store, "one"), by="test")
    store.mark(add(store, "two"), "forgotten", [{"clips": 1}])
    shutil.rmtree(store.folder(2))
    assert store.challenger() is None
    assert add(store, "three") == 3
    assert store.marks(3) == {}


def test_refusals_of_the_year_before_a_version_are_counted(store: ModelStore) -> None:
    for name, created, promote in (
        ("old", "2024-12-30", False),
        ("a year ago", "2025-01-01", False),
        ("taken", "2025-06-01", True),
        ("undated", "", False),
        ("new", "2026-01-01", False),
    ):
        facts = {"created": created} if created else {}
        version = store.add(*make_run(store.root.parent, name), facts)
        store.apply_decision(decided(version, None, promote=promote), by=None)
    assert store.refused_before(5, 365) == 2  # of versions 2 and 4, whose day is not known
    assert store.refused_before(1, 365) == 3  # what came later was tested, too


def test_the_frozen_test_clips_never_change(store: ModelStore) -> None:
    assert store.frozen_test() is None
    assert store.freeze_test(["b", "a"]) == ["a", "b"]
    assert store.freeze_test(["c"]) == ["a", "b"]
    with pytest.raises(UserError, match="split test"):
        store.freeze_test([])


def test_marks_are_kept_outside_the_versions(store: ModelStore) -> None:
    add(store, "one")
    before = tree(store.folder(1))
    store.mark(1, "forget", "anna")
    store.mark(1, "why", "asked")
    assert store.marks(1) == {"forget": "anna", "why": "asked"}
    assert tree(store.folder(1)) == before
    with pytest.raises(UserError, match="no version 7"):
        store.mark(7, "forget", "anna")


def test_names_of_versions(store: ModelStore) -> None:
    with pytest.raises(UserError, match="no champion yet"):
        store.resolve("champion")
    store.promote(add(store, "one"), by="test")
    add(store, "two")
    assert [store.resolve(name) for name in ("champion", "challenger", "2")] == [1, 2, 2]
    with pytest.raises(UserError, match=r"there: 1, 2"):
        store.resolve("3")
    with pytest.raises(UserError, match="expected champion"):
        store.resolve("best")


def test_the_gate_backs_only_what_it_allowed_over_the_present_champion(store: ModelStore) -> None:
    add(store, "one")
    assert "has not judged" in (store.refusal(1) or "")
    store.apply_decision(decided(1, None, promote=True), by="test")
    assert (store.champion(), store.frozen_test()) == (1, ["a"])
    add(store, "two")
    store.apply_decision(decided(2, 1, promote=False), by="test")
    assert store.champion() == 1
    assert "by 3 points" in (store.refusal(2) or "")
    add(store, "three")
    for version in (2, 3):
        store.apply_decision(decided(version, 1, promote=True), by=None)
    assert store.refusal(3) is None
    store.promote(2, by="test")
    assert "judged when the champion was 1, now it is 2" in (store.refusal(3) or "")


def test_a_torn_pointer_is_named_with_what_to_do(store: ModelStore) -> None:
    store.promote(add(store, "one"), by="test")
    (store.root / "champion.json").write_text('{"format_version": 1, "champion": 1')
    with pytest.raises(UserError, match="dvc checkout"):
        store.champion()


def test_versions_added_by_several_processes_get_numbers_of_their_own(store: ModelStore) -> None:
    def keep(run: tuple[Path, Path]) -> None:
        store.add(*run, {})

    runs = [make_run(store.root.parent, str(number)) for number in range(6)]
    assert [wait(child) for child in [fork(partial(keep, run)) for run in runs]] == [0] * 6
    assert store.versions() == [1, 2, 3, 4, 5, 6]


def test_a_kill_between_any_two_steps_leaves_the_old_champion_and_the_next_run_goes_on(
    store: ModelStore,
) -> None:
    store.apply_decision(decided(add(store, "one"), None, promote=True), by="test")
    run = make_run(store.root.parent, "two")
    spare = store.root.with_name("spare")
    shutil.copytree(store.root, spare)

    def night() -> None:
        version = store.add(*run, {"batches": ["two"]})
        store.apply_decision(decided(version, 1, promote=True), by="night")

    def night_killed_before(number: int) -> None:
        kinds = (*RENAMES, "open", "mkdir")
        with cut_before(number, only=kinds, cut=lambda: os.kill(os.getpid(), signal.SIGKILL)):
            night()

    night()
    files = {name for name in tree(store.root) if name != "champion.json"}
    codes, champions = [], []
    for number in range(200):
        shutil.rmtree(store.root)
        shutil.copytree(spare, store.root)
        codes.append(wait(fork(partial(night_killed_before, number))))
        champions.append(store.champion() or 0)
        # Only the last step, the pointer's rename, changes the champion, and it does so whole.
        assert champions[-1] == 1 or store.decision(2) == decided(2, 1, promote=True)
        assert (store.checkpoint(1) / "model.safetensors").read_text() == "one checkpoint"
        assert set(store.versions()) <= {1, 2}
        if codes[-1] == 0:
            break
        night()
        assert (store.champion(), store.versions()) == (2, [1, 2])
        assert store.facts(2)["batches"] == ["two"]
        assert {*tree(store.root)} - {"champion.json"} == files
    assert codes[-1] == 0, "the night has more steps than were tried"
    assert set(codes[:-1]) == {-signal.SIGKILL}
    assert champions == sorted(champions)
    assert set(champions) == {1, 2}
    assert len(codes) > 20, "hardly a step was interrupted"


def test_a_champion_that_changes_while_it_is_loaded_is_loaded_whole(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions come, are promoted and rolled back in another process while `translate` loads."""
    widths = (8, 16, 24, 32)
    runs = [make_run(store.root.parent, str(width), beam_size=width) for width in widths]
    for (checkpoint, _), width in zip(runs, widths, strict=True):
        write_checkpoint(checkpoint, d_model=width)
    store.promote(store.add(*runs[0], {}), by="test")

    def promote() -> None:
        for run in runs[1:]:
            store.promote(store.add(*run, {}), by="test")
            store.rollback(by="test")
            store.promote(store.versions()[-1], by="test")

    monkeypatch.setattr("signloom_tools.versions.Versions", lambda: store)
    writer, ended = fork(promote), (0, 0)
    while ended == (0, 0):
        ended = os.waitpid(writer, os.WNOHANG)
        version = find_version("champion")
        loaded = load_checkpoint(version.checkpoint, torch.device("cpu"))
        assert version.decoding
        assert loaded.spec.model.d_model == version.decoding.beam_size
    assert ended == (writer, 0)
    assert version.decoding
    assert version.decoding.beam_size == 32


def test_a_full_disk_leaves_the_versions_as_they_were(store: ModelStore) -> None:
    add(store, "one")
    before = tree(store.root)
    checkpoint, evaluation = make_run(store.root.parent, "two")
    (checkpoint / "model.safetensors").write_bytes(bytes(100_000))

    def add_with_little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        with pytest.raises(OSError, match=r"\[Errno 27\]"):
            store.add(checkpoint, evaluation, {})

    assert wait(fork(add_with_little_room)) == 0
    assert tree(store.root) == before
    assert store.add(checkpoint, evaluation, {}) == 2


@pytest.fixture
def kept(store: ModelStore) -> ModelStore:
    """Versions 1 and 2 were promoted, 2 was rolled back, 3 refused, 4 waits; marks of 1 and 2."""
    for name, text in json.loads(KEPT.read_text()).items():
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_text(text)
    return store


def answers(store: ModelStore) -> list[object]:
    """All that a store knows."""
    versions = store.versions()
    return [
        store.pointer().history,
        store.champion(),
        store.challenger(),
        store.frozen_test(),
        list(map(store.marks, versions)),
        list(map(store.decision, versions)),
        store.refused_before(None, 10_000),
        *map(store.refusal, versions),
    ]


def test_a_store_of_version_0_2_is_read_and_carried_over_by_the_first_change(
    kept: ModelStore,
) -> None:
    before = answers(kept)
    assert (kept.champion(), kept.challenger(), kept.decided()) == (1, 4, [1, 2, 3])
    assert kept.frozen_test() == ["cleo-1", "dana-1"]
    assert (kept.marks(1), kept.forgotten(2)) == ({"also_of": ["key 0"]}, 2)
    kept.freeze_test(["other"])
    assert sorted(p.name for p in kept.root.iterdir() if p.is_file()) == ["champion.json"]
    assert answers(kept) == before
    kept.promote(2, by="test")
    assert kept.rollback(by="test") == 1


def test_a_change_that_version_0_2_did_not_finish_is_named(kept: ModelStore) -> None:
    older = kept.root.with_name(".models.change")
    older.mkdir()
    (older / "journal.json").write_text("{}")
    before = tree(kept.root)
    with pytest.raises(UserError, match=r"interrupted under Signloom 0\.2.*models\.change"):
        kept.promote(2, by="test")
    assert tree(kept.root) == before
    (older / "journal.json").unlink()
    kept.promote(2, by="test")
    assert not older.exists()


def test_only_versions_refused_long_ago_lose_their_weights(store: ModelStore) -> None:
    """1 and 3 are promoted, 3 is rolled back; 5 is not judged, 6 is allowed and not promoted."""
    for number in range(1, 2 + KEPT_WEIGHTS):
        add(store, str(number))
        if number != 5:
            decision = decided(number, store.champion(), promote=number in (1, 3, 6))
            store.apply_decision(decision, by=None if number == 6 else "test")
    store.rollback(by="test")
    for number in range(2 + KEPT_WEIGHTS, 8 + KEPT_WEIGHTS):
        add(store, str(number))
    assert [v for v in store.versions() if not store.has_weights(v)] == [2, 4, 7]
    assert store.decision(2)
    assert not (store.checkpoint(2) / "seeds").exists()
    with pytest.raises(UserError, match="not what it was"):
        store.promote(2, by="test")
    # The same weights trained again come back under their number.
    run = store.root.parent / "2"
    assert store.add(run / "checkpoint", run / "reports/evaluation", {}) == 2
    store.promote(2, by="test")
    assert all(map(store.has_weights, (1, 2, 3)))


def test_a_store_that_lost_its_champion_json_loses_nothing_else(store: ModelStore) -> None:
    for number in range(1, 3 + KEPT_WEIGHTS):
        store.apply_decision(decided(add(store, str(number)), None, promote=False), by="test")
    versions = {name: data for name, data in tree(store.root).items() if "/" in name}
    (store.root / "champion.json").unlink()
    store.mark(1, "why", "asked")
    assert {name: data for name, data in tree(store.root).items() if "/" in name} == versions
