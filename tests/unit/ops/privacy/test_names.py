"""What names a person goes, and nothing else, also where the name is a number."""

import json
import unicodedata
from pathlib import Path

import pytest

from signloom_ops.privacy.names import (
    Person,
    blank_folders,
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


TEST = person("test", "maison", "7")


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        (
            "hypotheses.tsv",
            "clip_id\tsplit\tsigner\thypothesis\tseen_in_train\thands\n"
            "1-1\ttest\t1\tbonjour\t0\t0.5\n7\ttest\t1\tbonjour\t0\t0.5\n"
            "2-1\ttest\t2\til a 1 chat\t1\t1\n2-2\ttest\t2\t1\t7\t1.0\n",
            "clip_id\tsplit\tsigner\thypothesis\tseen_in_train\thands\n"
            "2-1\ttest\t2\til a 1 chat\t1\t1\n2-2\ttest\t2\t1\t7\t1.0\n",
        ),
        (
            "by_signer.csv",
            "name,split,group,clips,bleu4\ntest 1,test,1,7,1\ntest 2,test,2,1,1\n",
            "name,split,group,clips,bleu4\ntest 2,test,2,1,1\n",
        ),
        ("by_fps.csv", "name,split,group,clips\ntest 1,test,1,1\n", None),
        ("curves.csv", "epoch,step,lr\n1,7,1\n7,49,1\n", None),
        ("confusions.csv", "split,kind,reference,hypothesis,count\ntest,delete,1,7,1\n", None),
        (
            "list.csv",
            'file;sentence;speaker;age\na.mp4;bonjour;1;40\nb.mp4;"1; deux\n";2;1\nc.mp4;1;3;7\n',
            'file;sentence;speaker;age\nb.mp4;"1; deux\n";2;1\nc.mp4;1;3;7\n',
        ),
        (
            "manifest.tsv",
            "# signloom-manifest 1\nclip_id\ttext\tsigner\n7\tun\t1\n8\t1\t2\n",
            "# signloom-manifest 1\nclip_id\ttext\tsigner\n8\t1\t2\n",
        ),
    ],
)
def test_rows_go_by_the_columns_of_names_alone(name: str, text: str, after: str | None) -> None:
    assert scrub_table(name, text, ONE) == (text if after is None else after)


SPELLINGS = (
    "Zoë Le Blanc",
    unicodedata.normalize("NFD", "Zoë Le Blanc"),
    "Zoë  Le Blanc",
    "Zoë\u00a0Le Blanc",
    "Zoë Le\u202fBlanc",
    "Zo\u200bë Le Blanc\ufeff",
    "Zoë Le\u200d Blanc",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_name_goes_however_it_is_written_and_names_like_it_stay(
    tmp_path: Path, spelling: str
) -> None:
    zoe = person("Zoë Le Blanc")
    table = f"film;text;speaker\na.mp4;oui;{spelling}\nb.mp4;non;zoë le blanc\n"
    assert scrub_table("x.csv", table, zoe) == "film;text;speaker\nb.mp4;non;zoë le blanc\n"
    assert scrub_value({"signers": {spelling: 1, "Zoë": 2}}, zoe) == {"signers": {"Zoë": 2}}
    assert scrub_value({"signer": spelling}, zoe) == {"signer": "(forgotten)"}
    assert blank_folders(f"in/{spelling}; in/zoë", zoe) == "in/(forgotten); in/zoë"
    note = tmp_path / "signer.txt"
    note.write_text(f"{spelling}\n", encoding="utf-8")
    assert scrub_file(note, zoe) == b"(forgotten)\n"
    assert files_naming([tmp_path], zoe) == [note]
    consents = tmp_path / "consent.json"
    consents.write_text(json.dumps({spelling: 1, "zoë le blanc": 2}), encoding="utf-8")
    after = scrub_file(consents, zoe)
    assert after
    assert json.loads(after) == {"zoë le blanc": 2}


def test_a_name_that_sentences_have_stays_in_them() -> None:
    text = "video;satz;signer\na.mp4;maison test;eve\nb.mp4;test;eve\nc.mp4;maison;test\n"
    assert scrub_table("x.csv", text, TEST) == text.replace("c.mp4;maison;test\n", "")


def test_values_go_below_the_keys_of_names() -> None:
    before = {
        "version": 1,
        "start_from": "data/models/0001/checkpoint",
        "params": {"seeds": ["1", "7"]},
        "clips": {"train": ["1-1", "7", "2-1"], "test": ["1"]},
        "rejected": ["7", "1"],
        "signers": {"train": {"1": 2, "2": 1}, "test": {"7": 1}},
        "slices": [{"kind": "signer", "group": "1"}, {"kind": "words", "group": "1"}],
        "splits": {
            "test": {
                "clips": 1,
                "breakdowns": {
                    "signer": [{"group": "1", "clips": 7}, {"group": "2", "clips": 1}],
                    "fps": [{"group": "1"}, {"group": "7"}],
                },
            }
        },
        "findings": [{"what": "1 signer, all known", "clips": ["7"]}],
        "batch": "1",
        "recognition": {"signers": {"1": {"clips": 1, "wer": 2.0}, "2": {"clips": 7, "wer": 0.5}}},
        "answers": {"7": {"preferred": "a"}, "8": {"preferred": "b"}},
        "judge": "2",
        "rejects": [{"delivery": "data/inbox/1", "where": "7.mp4"}],
        "checks": [
            {"check": "mirrored", "signer": "1", "what": "one signer: 1 of 7"},
            {"check": "fps", "signer": "2", "what": "1 frame a second"},
        ],
        "test": ["7", "8"],
        "rows": [{"signer": "1"}, {"signer": "2", "count": "1"}],
        "one": {"signer": "1", "clip_id": "7"},
    }
    assert scrub_value(before, ONE) == {
        "version": 1,
        "start_from": "data/models/0001/checkpoint",
        "params": {"seeds": ["1", "7"]},
        "clips": {"train": ["2-1"], "test": ["1"]},
        "rejected": ["1"],
        "signers": {"train": {"2": 1}, "test": {"7": 1}},
        "slices": [{"kind": "words", "group": "1"}],
        "splits": {
            "test": {
                "clips": 1,
                "breakdowns": {
                    "signer": [{"group": "2", "clips": 1}],
                    "fps": [{"group": "1"}, {"group": "7"}],
                },
            }
        },
        "findings": [{"what": "1 signer, all known", "clips": []}],
        "batch": "1",
        "recognition": {"signers": {"2": {"clips": 7, "wer": 0.5}}},
        "answers": {"8": {"preferred": "b"}},
        "judge": "2",
        "rejects": [{"delivery": "data/inbox/(forgotten)", "where": "7.mp4"}],
        "checks": [
            {"check": "mirrored", "signer": "(forgotten)", "what": "one signer: 1 of 7"},
            {"check": "fps", "signer": "2", "what": "1 frame a second"},
        ],
        "test": ["8"],
        "rows": [{"signer": "2", "count": "1"}],
        "one": {"signer": "(forgotten)", "clip_id": "(forgotten)"},
    }


def test_keys_of_ours_stay_though_people_are_called_so() -> None:
    before = {
        "signers": {"train": {"test": 2, "eve": 1}, "test": {"bo": 1}},
        "maison": {"test": 1},
        "clips": {"train": ["maison", "8"], "test": ["7"]},
        "language": "test",
        "test": {"bleu4": 1},
        "recognition": {"test": {"signers": {"test": {"clips": 2, "wer": 50.0}}}},
        "breakdowns": {
            "signer": [
                {"name": "test eve", "split": "test", "group": "eve"},
                {"name": "test test", "split": "test", "group": "test"},
            ]
        },
        "slices": [{"kind": "signer", "group": "test"}, {"kind": "words", "group": "test"}],
        "verdict": "signer test is better on test",
    }
    assert scrub_value(before, TEST) == before | {
        "signers": {"train": {"eve": 1}, "test": {"bo": 1}},
        "clips": {"train": ["8"], "test": []},
        "recognition": {"test": {"signers": {}}},
        "breakdowns": {"signer": [{"name": "test eve", "split": "test", "group": "eve"}]},
        "slices": [{"kind": "words", "group": "test"}],
    }


def test_parameters_stay_though_a_person_is_called_like_their_value() -> None:
    before = {"params": {"model": {"source": "test"}}, "source": "data/inbox/test/day"}
    assert scrub_value(before, TEST)["params"] == before["params"]
    assert "test" not in scrub_value(before, TEST)["source"]


def test_a_name_goes_from_paths_where_it_is_a_folder() -> None:
    blanked = blank_folders("data/inbox/test/a; test; data/test-2; data/inbox/test", TEST)
    assert blanked == "data/inbox/(forgotten)/a; (forgotten); data/test-2; data/inbox/(forgotten)"


def test_files_with_a_name_of_letters_are_listed(tmp_path: Path) -> None:
    for name, text in {"a.json": "epoch 1", "b.txt": "un test", "c.txt": "tests 7"}.items():
        (tmp_path / name).write_text(text)
    assert [path.name for path in files_naming([tmp_path], TEST)] == ["b.txt"]
    assert files_naming([tmp_path], ONE) == []
    (tmp_path / "signer.txt").write_text("1\n")
    assert scrub_file(tmp_path / "signer.txt", ONE) == b"(forgotten)\n"
    assert scrub_file(tmp_path / "b.txt", TEST) is None


def test_json_that_is_torn_or_too_deep_stays(tmp_path: Path) -> None:
    path = tmp_path / "decision.json"
    for text in ('{"signer": "1"', '{"a":' * 100_000 + '"1"' + "}" * 100_000):
        path.write_text(text)
        assert scrub_file(path, ONE) is None


def test_lines_of_json_go_on_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"signer": "2"}\n{"signers": ["1", "2"]}\n{torn\n')
    assert scrub_file(path, ONE) == b'{"signer": "2"}\n{"signers": ["2"]}\n{torn\n'
