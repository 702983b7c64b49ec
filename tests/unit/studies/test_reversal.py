import dataclasses
import json
import re
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.translation.search import SpecialIds
from studies.reversal.compare import MODELS, compare
from studies.reversal.lab import (
    LabOptions,
    ReverseOptions,
    build_pairs,
    draw_sequences,
    read_lab,
    reverse_all,
    run_lab,
    share_by_length,
    summarise_lab,
)
from studies.reversal.run import main
from tests.tiny import ROOT

TASK = ReverseOptions(symbols=5, min_length=2, max_length=4, train=60, dev=20, test=20)
TINY = [
    "task.symbols=5",
    "task.min_length=2",
    "task.max_length=4",
    "task.train=60",
    "task.dev=20",
    "task.test=20",
    "model.d_model=16",
    "model.heads=2",
    "model.d_ff=16",
    "train.epochs=2",
]


def tiny(*assignments: str) -> LabOptions:
    return read_lab([*TINY, *assignments])


def test_no_sequence_is_in_two_splits_and_the_seed_alone_decides() -> None:
    splits = draw_sequences(TASK, seed=1)
    assert [len(sequences) for sequences in splits.values()] == [60, 20, 20]
    every = [sequence for sequences in splits.values() for sequence in sequences]
    assert len(set(every)) == 100
    assert {len(sequence) for sequence in every} == {2, 3, 4}
    assert {symbol for sequence in every for symbol in sequence} == {1, 2, 3, 4, 5}
    assert splits == draw_sequences(TASK, 1) != draw_sequences(TASK, 2)


def test_pairs_are_padded_and_the_target_is_the_source_turned_round() -> None:
    batch = build_pairs([(1, 2, 3), (4,)], SpecialIds(pad=0, bos=8, eos=9))
    assert batch.src.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert batch.src_valid.tolist() == [[True] * 3, [True, False, False]]
    assert batch.tgt.tolist() == [[8, 3, 2, 1, 9], [8, 4, 9, 0, 0]]
    assert batch.tgt_valid[1].tolist() == [True, True, True, False, False]
    assert batch.label_lengths.tolist() == [0, 0]


def test_a_preset_is_the_documents_model_and_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lab = read_lab(["train.epochs=1"], preset="reversal")
    model, train = lab.model, lab.train
    assert (model.norm, model.encoder_norm, model.decoder_norm) == ("post", False, False)
    assert (model.initialization, model.embedding_scale) == ("torch", False)
    assert (train.optimizer, train.learning_rate, train.schedule) == ("adam", 0.001, "constant")
    assert (train.warmup_steps, train.epochs, train.clip_norm) == (1, 1, 0.0)
    assert train.max_frames // lab.task.max_length == 64


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.famly=lstm", "'model.famly=lstm' sets nothing.*model.family"),
        ("train.epochs", "sets nothing"),
        ("model.family=cnn", "model.family: found 'cnn'"),
        ("task.max_length=2", "max_length: found 2"),
        ("task.symbols=1", "10000 distinct sequences were asked for, but only 10 exist"),
    ],
)
def test_a_wrong_assignment_is_named(assignment: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_lab([assignment])


def test_the_lab_gives_the_same_result_each_time() -> None:
    epochs: list[int] = []
    results = [run_lab(tiny(), log=lambda record: epochs.append(record.epoch)) for _ in range(2)]
    first, second = (summarise_lab(tiny(), result) for result in results)
    for content in (first, second):
        assert content.pop("cpu_s") >= 0
    assert first == second
    assert epochs == [1, 2, 1, 2]
    assert first["epochs"][1]["train_loss"] < first["epochs"][0]["train_loss"]
    assert set(first["by_length"]) == {"2", "3", "4"}
    assert 0 <= first["exact"] <= 1
    for change in ("train.seeds=[7]", "train.clip_norm=0"):
        changed = run_lab(tiny(change), log=lambda record: None)
        assert changed.dev_loss != results[0].dev_loss


def test_an_encoder_alone_has_room_for_equal_neighbours() -> None:
    lab = tiny("model.family=encoder_only")
    assert lab.task.frames == 2
    batch = build_pairs([(1, 2, 2), (4,)], lab.task.ids, lab.task.frames)
    assert batch.src.tolist() == [[1, 1, 2, 2, 2, 2], [4, 4, 0, 0, 0, 0]]
    assert batch.tgt[0].tolist() == [6, 2, 2, 1, 7]
    # With one position a symbol, a blank has no place between the two 2.
    assert tiny("model.family=encoder_only", "task.frames=1").task.frames == 1
    assert tiny("model.encoder_norm=false").task.frames == 1
    result = run_lab(lab, log=lambda record: None)
    repeated = [s for s in draw_sequences(lab.task, 1)["dev"] if s[0] == s[1]]
    assert repeated
    memory_loss = [record.dev_loss for record in result.history]
    assert max(memory_loss) < 20  # what cannot be written costs thousands


def test_only_the_whole_reverse_counts() -> None:
    lab = tiny()
    result = run_lab(lab, log=lambda record: None)
    sequences = draw_sequences(lab.task, lab.train.seed)["test"]
    right = reverse_all(result.model, sequences, lab.task, lab.decoding)
    assert list(right) == sequences
    assert sum(right.values()) / len(right) == result.exact
    short = dataclasses.replace(lab.decoding, max_tokens=1)  # no room for the end
    assert not any(reverse_all(result.model, sequences, lab.task, short).values())
    assert share_by_length({(1, 2): True, (3, 4): False, (5,): True}) == {1: 1.0, 2: 0.5}


def test_the_command_prints_epochs_and_writes_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lab.json"
    sets = [part for assignment in TINY for part in ("--set", assignment)]
    main(["--reduced", "--family", "lstm", "--seed", "3", *sets, "--out", str(out)])
    text = capsys.readouterr().out
    assert "epoch  2/2" in text
    assert "exact match on 20 held-out sequences" in text
    content = json.loads(out.read_text(encoding="utf-8"))
    assert (content["family"], content["seed"]) == ("lstm", 3)
    options = content["options"]
    assert (options["model"]["family"], options["train"]["warmup_steps"]) == ("lstm", 40)
    assert len(content["epochs"]) == 2
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert page.count('class="picker"') == 3
    assert "attention of every layer and head in 3 test sequences" in text


def test_an_encoder_alone_has_a_page_of_its_own_attention(tmp_path: Path) -> None:
    out = tmp_path / "lab.json"
    sets = [part for assignment in TINY for part in ("--set", assignment)]
    main(["--family", "encoder_only", *sets, "--out", str(out)])
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert page.count('class="picker"') == 3
    assert "the source looks at itself" in page
    assert "the translation looks at" not in page


def test_the_table_of_the_families_has_the_rows_of_the_page() -> None:
    page = (ROOT / "studies/reversal/README.md").read_text(encoding="utf-8")
    table = page.partition("python -m studies.reversal.compare")[2]
    rows = re.findall(r"^\| (T\d)? ?\| (.+?) \| [\d.]+ % \|", table, re.MULTILINE)
    assert rows == list(MODELS)
    tiny_lines = list(compare({("T1", "a"): ("rnn", "model.attention=none")}, (1, 2), TINY))
    assert re.fullmatch(r"\| T1 \| a \| [\d.]+ % \| \d+ % \| 0 % \|", tiny_lines[-1])


def test_only_an_earlier_result_of_the_task_is_replaced(tmp_path: Path) -> None:
    for name, text in (("notes.json", "{}"), ("lab.html", "mine")):
        (tmp_path / name).write_text(text)
    for name in ("notes.json", "", "lab.json", "new/lab.html"):
        with pytest.raises(UserError, match=r"no (result|page) of this task|expected a name"):
            main(["--out", str(tmp_path / name)])
    assert (tmp_path / "lab.html").read_text() == "mine"
