"""What names a person goes, and nothing else, also where the name is a number."""

import dataclasses
import json
from pathlib import Path

import pytest

from signloom_ops.intake.ledgers import Delivery, IntakeReject, ledger_text, read_ledger
from signloom_ops.privacy.names import (
    Person,
    blank,
    files_naming,
    scrub_file,
    scrub_table,
    scrub_value,
)


def person(signer: str, *clip_ids: str) -> Person:
    return Person(
        signer=signer, request="r", clip_ids=clip_ids, videos=(), files=(), shared=(), entries=()
    )


ONE = person("1", "1-1", "7")


def test_names_within_other_words_stay() -> None:
    assert blank("ana, anais, ana-1, ana-12, banana", person("ana", "ana-1")) == (
        "(forgotten), anais, (forgotten), ana-12, banana"
    )


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("hypotheses.tsv",
         "clip_id\tsplit\tsigner\thypothesis\tseen_in_train\thands\n"
         "1-1\ttest\t1\tbonjour\t0\t0.5\n7\ttest\t1\tbonjour\t0\t0.5\n"
         "2-1\ttest\t2\til a 1 chat\t1\t1\n2-2\ttest\t2\t1\t7\t1.0\n",
         "clip_id\tsplit\tsigner\thypothesis\tseen_in_train\thands\n"
         "2-1\ttest\t2\til a 1 chat\t1\t1\n2-2\ttest\t2\t1\t7\t1.0\n"),
        ("by_signer.csv",
         "name,split,group,clips,bleu4\ntest 1,test,1,7,1\ntest 2,test,2,1,1\n",
         "name,split,group,clips,bleu4\ntest 2,test,2,1,1\n"),
        ("by_fps.csv", "name,split,group,clips\ntest 1,test,1,1\n", None),
        ("curves.csv", "epoch,step,lr\n1,7,1\n7,49,1\n", None),
        ("confusions.csv", "split,kind,reference,hypothesis,count\ntest,delete,1,7,1\n", None),
        ("list.csv",
         "file;sentence;speaker;age\na.mp4;bonjour;1;40\n"
         "b.mp4;\"1; deux\n\";2;1\nc.mp4;1;3;7\n",
         "file;sentence;speaker;age\nb.mp4;\"1; deux\n\";2;1\nc.mp4;1;3;7\n"),
        ("manifest.tsv",
         "# signloom-manifest 1\nclip_id\ttext\tsigner\n7\tun\t1\n8\t1\t2\n",
         "# signloom-manifest 1\nclip_id\ttext\tsigner\n8\t1\t2\n"),
    ],
)  # fmt: skip
def test_rows_go_by_the_columns_of_names(name: str, text: str, after: str | None) -> None:
    assert scrub_table(name, text, ONE) == (text if after is None else after)


def test_a_name_in_letters_goes_from_any_table() -> None:
    text = "Wer,Alter\nana,30\nbo,30\nbo und ana,1\n"
    assert scrub_table("x.csv", text, person("ana")) == "Wer,Alter\nbo,30\nbo und (forgotten),1\n"


def test_values_go_below_the_keys_of_names() -> None:
    before = {
        "version": 1, "start_from": "data/models/0001/checkpoint", "params": {"seeds": ["1", "7"]},
        "clips": {"train": ["1-1", "7", "2-1"], "test": ["1"]}, "rejected": ["7", "1"],
        "signers": {"train": {"1": 2, "2": 1}, "test": {"7": 1}},
        "slices": [{"kind": "signer", "group": "1"}, {"kind": "words", "group": "1"}],
        "splits": {"test": {"clips": 1, "breakdowns": {
            "signer": [{"group": "1", "clips": 7}, {"group": "2", "clips": 1}],
            "fps": [{"group": "1"}, {"group": "7"}],
        }}},
        "findings": [{"what": "1 signer, all known; 1 signs 40 % of all clips", "clips": ["7"]}],
        "checks": [{"check": "mirrored", "signer": "1", "what": "one signer: 1 of 7"},
                   {"check": "fps", "signer": "2", "what": "1 frame a second"}],
        "test": ["7", "8"], "rows": [{"signer": "1"}, {"signer": "2", "count": "1"}],
        "one": {"signer": "1", "clip_id": "7"},
    }  # fmt: skip
    assert scrub_value(before, ONE) == {
        "version": 1, "start_from": "data/models/0001/checkpoint", "params": {"seeds": ["1", "7"]},
        "clips": {"train": ["2-1"], "test": ["1"]}, "rejected": ["1"],
        "signers": {"train": {"2": 1}, "test": {"7": 1}},
        "slices": [{"kind": "words", "group": "1"}],
        "splits": {"test": {"clips": 1, "breakdowns": {
            "signer": [{"group": "2", "clips": 1}], "fps": [{"group": "1"}, {"group": "7"}],
        }}},
        "findings": [
            {"what": "1 signer, all known; (forgotten) signs 40 % of all clips", "clips": []}
        ],
        "checks": [{"check": "mirrored", "signer": "(forgotten)", "what": "one signer: 1 of 7"},
                   {"check": "fps", "signer": "2", "what": "1 frame a second"}],
        "test": ["8"], "rows": [{"signer": "2", "count": "1"}],
        "one": {"signer": "(forgotten)", "clip_id": "(forgotten)"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("version 1: 7 clips, BLEU 1.7 of 1", None),
        ("signer 1: -2.1 chrF on 7 clips; signer 2: 1 on 1",
         "signer (forgotten): -2.1 chrF on 7 clips; signer 2: 1 on 1"),
        ("signer '1' is also written '01', '7'", "signer '(forgotten)' is also written '01', "
         "'(forgotten)'"),
        ("the same video is signed by 2, 1", "the same video is signed by 2, (forgotten)"),
        ("has its content already, as '7'", "has its content already, as '(forgotten)'"),
        ("1: the right hand moves 1 % more", "(forgotten): the right hand moves 1 % more"),
        ("data/inbox/1/a.mp4, inbox/1; 1/7 of 7/1", "data/inbox/(forgotten)/a.mp4, "
         "inbox/(forgotten); 1/7 of 7/1"),
        ("signer 1.5, signers 12, 7 signers, 1 of them new; written 7 times", None),
    ],
)  # fmt: skip
def test_a_number_is_a_name_where_it_is_announced(text: str, after: str | None) -> None:
    assert blank(text, ONE) == (text if after is None else after)


def test_a_number_for_a_name_leaves_the_counts_of_ledgers(tmp_path: Path) -> None:
    delivery = Delivery("2026-11-12", "2026-11-12", 12, 3, "data/inbox/12; old", "in", "")
    path = tmp_path / "deliveries.tsv"
    path.write_text(ledger_text([delivery], Delivery))
    after = scrub_file(path, person("12", "12-1"), columns=("source", "reason"))
    assert isinstance(after, bytes)
    assert after.decode().splitlines()[1].split("\t")[:5] == [
        "2026-11-12", "2026-11-12", "12", "3", "data/inbox/(forgotten); old"
    ]  # fmt: skip


def test_a_reject_loses_the_names_that_its_reason_means(tmp_path: Path) -> None:
    rows = [
        IntakeReject("data/inbox/2", "a.mp4", "8", "1 of 7 is odd", "no", "f1", "1; 2; 7"),
        IntakeReject("data/inbox/1", "7.mp4", "7", "too short", "no", "f7", ""),
    ]
    path = tmp_path / "intake_rejects.tsv"
    path.write_text(ledger_text(rows, IntakeReject))
    path.write_bytes(bytes(scrub_file(path, ONE) or b""))
    left = dataclasses.replace(rows[0], concerns="(forgotten); 2; (forgotten)")
    assert read_ledger(path, IntakeReject) == [left]


def test_files_that_name_are_told_from_files_with_numbers(tmp_path: Path) -> None:
    texts = {
        "a.json": json.dumps({"epoch": 1, "says": "signer 1"}),
        "b.json": json.dumps({"epoch": 1}),
        "signer.txt": "1\n",
        "2.txt": "1\n",  # a sentence
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert [path.name for path in files_naming([tmp_path], ONE)] == ["a.json"]
    assert scrub_file(tmp_path / "signer.txt", ONE) == b"(forgotten)\n"
    assert scrub_file(tmp_path / "2.txt", ONE) is None


def test_json_that_is_too_deep_is_blanked_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "decision.json"
    path.write_text('{"a":' * 100_000 + '"signer 1"' + "}" * 100_000)
    assert b"signer 1" not in (scrub_file(path, ONE) or b"signer 1")
