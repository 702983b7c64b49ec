"""What to record next: what would teach most, and nothing of test."""

import json
from pathlib import Path

import pytest

from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.features.targets import Target, write_targets
from signloom.paths import EVALUATION, TARGETS
from signloom_ops.app.wanted import Reason, list_wanted
from signloom_ops.intake.changes import INTAKE_REJECTS, IntakeReject, ledger_text
from signloom_tools.cli.main import main
from tests.tiny import ROOT

CLIPS = [
    *[("train", signer, "je mange") for signer in ("ada", "eve", "ben")],
    ("train", "ada", "je bois"), ("train", "eve", "je bois"), ("train", "ben", "tu bois"),
    ("dev", "dan", "je dors"), ("test", "zoe", "tu dors"), ("train", "ada", "tu dors"),
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TARGETS.parent.mkdir(parents=True)
    write_targets(TARGETS, [
        Target(clip_id=f"{n}", split=split, signer=signer, text=text, ids=[0], gloss="", labels=[])
        for n, (split, signer, text) in enumerate(CLIPS)
    ])  # fmt: skip
    EVALUATION.mkdir(parents=True)
    (EVALUATION / "confusions.csv").write_text(
        "split,kind,reference,hypothesis,count\n"
        "dev,substitute,mange,bois,3\ndev,delete,je,,9\ntest,substitute,je,tu,8\n"
    )
    columns = "clip_id split signer seen_in_train reference hypothesis wer bleu log_prob confidence"
    rows = [
        f"{n}\t{split}\tada\tyes\t{text}\t\t0\t0\t0\t{sure}"
        for n, (split, text, sure) in enumerate(
            [("dev", "je dors", 0.25), ("dev", "je mange", 0.9), ("test", "tu dors", 0.1)]
        )
    ]
    (EVALUATION / "hypotheses.tsv").write_text("\n".join(["\t".join(columns.split()), *rows]))
    return tmp_path


def test_rare_confused_and_unsure_sentences_are_wanted_and_those_of_test_are_not(
    project: Path,
) -> None:
    found = {one.text: one.reasons for one in list_wanted()}
    assert found == {
        "je mange": [Reason("confused", word="mange", other="bois", count=3)],
        "je dors": [Reason("rare", word="dors", count=1), Reason("unsure", count=0.25)],
        "je bois": [Reason("signers", count=2)],
        "tu bois": [Reason("rare", word="tu", count=2), Reason("signers", count=1)],
    }
    assert [one.text for one in list_wanted()][-1] == "je bois"
    assert len(list_wanted(most=2)) == 2


def test_without_an_evaluation_the_corpus_alone_is_looked_at(project: Path) -> None:
    for path in EVALUATION.iterdir():
        path.unlink()
    assert "je mange" not in {one.text for one in list_wanted()}


def test_the_command_says_why_in_words_and_in_json(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    corpus = load_section(Path("params.yaml"), "corpus", CorpusOptions)
    left = IntakeReject("app-1", "b.webm", "b", "too dark", "record it again", "0", "")
    corpus.folder.mkdir(parents=True)
    (corpus.folder / INTAKE_REJECTS).write_text(ledger_text([left], IntakeReject))
    main(["wanted"])
    said = capsys.readouterr().out
    assert "'mange' was taken for 'bois' 3 times" in said
    assert "clips of train by signer: ben 2, eve 2, ada 3" in said
    assert "left out: b.webm: too dark (record it again)" in said
    main(["wanted", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["again"] == [{"clip": "b.webm", "reason": "too dark", "hint": "record it again"}]
    assert {one["text"] for one in found["sentences"]} == {
        "je mange",
        "je dors",
        "je bois",
        "tu bois",
    }
