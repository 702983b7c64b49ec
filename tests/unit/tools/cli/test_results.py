import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import signloom
from signloom.corpus.manifest import Clip, read_manifest, write_manifest
from signloom.errors import UserError
from signloom.evaluation.compare import compare
from signloom.evaluation.judgements import BlindAnswer, Judgements
from signloom.evaluation.metrics import ScoreOptions, measure
from signloom.features.targets import split_hash
from signloom_tools.cli.main import main
from tests.expect_error import expect_error
from tests.processes import call
from tests.unit.tools.cli.evaluations import metrics_file

REFS = ["je vais à la maison", "tu viens demain", "elle mange une pomme", "il est là"]
GOOD = [*REFS[:3], "il est"]
BAD = ["je vais à la gare", "tu viens", "elle mange une pomme", "il est là"]
SCORE = {"tokenizer": "13a", "resamples": 200, "seed": 1}


def write_run(folder: Path, hypotheses: list[str], *, version: int = 2, **changes: Any) -> Path:
    """Write what `signloom compare` reads of an evaluation."""
    refs, score = changes.pop("refs", REFS), SCORE | changes
    folder.mkdir(parents=True, exist_ok=True)
    content = {"format_version": version, "options": {"score": score}}
    (folder / "scores.json").write_text(json.dumps(content))
    rows = [["clip_id", "split", "reference", "hypothesis"]]
    rows += [[f"c{i}", "test", refs[i], hyp] for i, hyp in enumerate(hypotheses)]
    (folder / "hypotheses.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    return folder


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = write_run(tmp_path / "a", BAD)
    write_run(tmp_path / "b" / "reports" / "evaluation", GOOD, version=1)
    report = json.loads(printed(capsys, "compare", a, tmp_path / "b", "--json"))
    settings = ScoreOptions(**SCORE)  # type: ignore[arg-type]
    expected = compare([measure(BAD, REFS, settings)], [measure(GOOD, REFS, settings)], settings)
    metrics = report["splits"]["test"]["metrics"]
    assert set(metrics) == set(expected)
    for name, difference in expected.items():
        assert metrics[name]["difference"] == round(difference.difference, 4)
        assert metrics[name]["p_value"] == round(difference.p_value, 4)
    assert (metrics["wer"]["wins"], metrics["wer"]["losses"], metrics["wer"]["ties"]) == (2, 1, 1)
    sentence = report["splits"]["test"]["sentences"][0]
    assert sentence["clip_id"] == "c0"
    assert (sentence["a"], sentence["b"]) == (BAD[0], GOOD[0])
    assert sentence["chrf_a"] < sentence["chrf_b"] == 100
    table = printed(capsys, "compare", a, tmp_path / "b")
    assert "test: 4 clips, paired bootstrap, 200 resamples" in table
    assert f"{metrics['wer']['difference']:+.2f}" in table
    short = write_run(tmp_path / "c", GOOD[:3])
    assert "test: 3 clips, 1 that only one has left out" in printed(capsys, "compare", a, short)
    expect_error("holds no evaluation", ["compare", str(tmp_path), str(tmp_path)])


@pytest.mark.parametrize(("clips", "decides"), [(1, False), (5, False), (6, True)])
def test_five_clips_or_fewer_decide_nothing(
    clips: int, decides: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refs = (REFS * 2)[:clips]
    a = write_run(tmp_path / "a", ["non"] * clips, refs=refs)
    b = write_run(tmp_path / "b", refs, refs=refs)
    text = printed(capsys, "compare", a, b)
    assert ("B is better on" in text, "Too few clips to decide" in text) == (decides, not decides)
    assert ("[100.00, 100.00]" in text) == decides  # an interval without a width proves nothing
    assert ("B is worse on" in printed(capsys, "compare", b, a)) == decides
    same = printed(capsys, "compare", a, a)
    assert ("No clear difference" in same, "better on" in same) == (decides, False)
    scores = metrics_file(tmp_path, 100.0, clips=clips)
    assert ("too few clips" in printed(capsys, "scores", "--metrics", scores)) == (not decides)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"tokenizer": "zh"}, [], "tokenizer 13a, .* with zh"),
        ({"refs": ["autre", *REFS[1:]]}, [], "clip c0 has the reference 'je vais à la maison'"),
        ({"version": 3}, [], "format version 3, this Signloom reads 1 and 2"),
        ({}, ["--split", "dev"], r"share no clip of dev \(0 and 0 clips\)"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    changes: dict[str, Any], arguments: list[str], message: str, tmp_path: Path
) -> None:
    a, b = write_run(tmp_path / "a", BAD), write_run(tmp_path / "b", GOOD, **changes)
    expect_error(message, ["compare", str(a), str(b), *arguments])


def test_two_runs_are_prepared_for_judges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    a, b = write_run(tmp_path / "a", BAD), write_run(tmp_path / "b", GOOD)
    assert "nobody has judged anything yet" in printed(capsys, "judge", "--show")
    assert "a-b/task.json: 3 clips of test." in printed(capsys, "judge", a, b, "--differing")
    task = Judgements().read("a-b")
    assert (task.a.name, task.b.name) == (str(a), str(b))
    for pair in task.pairs:
        answer = BlindAnswer(judge="anna", clip_id=pair.clip_id, preferred="equal", scores=(50, 50))
        Judgements().answer("a-b", answer)
    assert "3 of 3 clips: B better in 0, worse in 0, equal in 3" in printed(
        capsys, "judge", "--show", "a-b"
    )
    (summary,) = json.loads(printed(capsys, "judge", "--json"))
    assert (summary["task"], summary["judges"], summary["alpha_scores"]) == ("a-b", 1, None)
    short = write_run(tmp_path / "c", GOOD[:3])
    for wrong, message in (
        (["judge", str(a), str(short)], "not evaluated on the same clips of test: 1 are in one"),
        (["judge", str(a)], "give two RUNs to be compared, or --show"),
        (["judge", "--show", "../a"], "there is no task '../a'"),
    ):
        expect_error(re.escape(message), wrong)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scores.json", lambda text: '{"format_version": 2}'),
        ("hypotheses.tsv", lambda text: text.replace("clip_id", "clip")),
        ("hypotheses.tsv", lambda text: text[: text.rindex("\t")]),
    ],
)
def test_a_damaged_run_is_named(name: str, change: Callable[[str], str], tmp_path: Path) -> None:
    write_run(tmp_path, BAD)
    (tmp_path / name).write_text(change((tmp_path / name).read_text()))
    expect_error("holds a damaged evaluation", ["compare", str(tmp_path), str(tmp_path)])


@pytest.mark.slow
def test_a_run_can_be_a_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_scores_stand_beside_the_last_commit."""
    monkeypatch.chdir(tmp_path)
    call("git", "init")
    call("dvc", "init", "-q")
    write_run(Path("reports/evaluation"), BAD)
    call("dvc", "add", "reports/evaluation", "-q")
    call("git", "add", "-A")
    call("git", "commit", "-m", "bad")
    for path in Path("reports/evaluation").iterdir():
        path.unlink()
    write_run(Path("reports/evaluation"), GOOD)
    report = json.loads(printed(capsys, "compare", "git:HEAD", "--json"))
    assert (report["a"], report["b"]) == ("git:HEAD", "reports")
    sentence = report["splits"]["test"]["sentences"][0]
    assert (sentence["a"], sentence["b"]) == (BAD[0], GOOD[0])
    expect_error("git:nowhere: DVC cannot give its", ["compare", "git:nowhere"])


def test_scores_stand_by_their_floors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = metrics_file(tmp_path, 80.0, clips=48, floors={"retrieval": 40.0})
    lines = printed(capsys, "scores", "--metrics", path).splitlines()
    head, bleu, *_ = lines
    assert head.split()[-3:] == ["constant", "retrieval", "blind"]
    assert bleu.split()[-3:] == ["3.25", "40.00", "2.00"]
    assert any(line.startswith("dev: 48 clips") for line in lines)
    (tmp_path / "metrics.json").rename(tmp_path / "evaluation/metrics.json")  # as of a version
    assert printed(capsys, "scores", "--metrics", tmp_path / "evaluation/metrics.json")


def test_scores_stand_beside_the_last_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = metrics_file(tmp_path, 60.0)
    assert "against" not in printed(capsys, "scores", "--metrics", path)
    call("git", "init")
    call("git", "add", "metrics.json")
    call("git", "commit", "-m", "sixty")
    metrics_file(tmp_path, 61.5)
    text = printed(capsys, "scores", "--metrics", path)
    assert "against the last commit:\n  test: BLEU-4 60.00 -> 61.50 (+1.50), WER" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "the file is damaged; run"),
        ('{"a": 1}', "metrics.json: a: found"),
        (None, "is a folder"),
    ],
)
def test_what_holds_no_scores_is_said(content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json" if content else tmp_path
    if content:
        path.write_text(content)
    expect_error(message, ["scores", "--metrics", str(path)])


def test_where_the_missing_scores_belong_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    metrics_file(Path("reports"), 60.0)
    shutil.rmtree("reports/evaluation")
    expect_error(r"reports/evaluation/scores\.json", ["scores"])


def test_seeds_and_a_model_that_ignores_its_input_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spread = {"mean": 52.25, "std": 1.5, "n": 3, "values": [50.75, 52.25, 53.75]}
    of_split = dict.fromkeys(("bleu4", "chrf", "wer"), spread)
    seeds = {"names": ["1", "2", "3"], "splits": {"dev": of_split, "test": of_split}}
    check = {
        "metric": "chrf",
        "model": 50.0,
        "swapped": 49.0,
        "fall": 1.0,
        "low": -1.0,
        "high": 3.0,
        "p_value": 0.4,
        "uses_input": False,
        "text": "",
    }
    path = metrics_file(
        tmp_path,
        50.0,
        seeds=seeds,
        split={"input_check": check, "only_sentence": "", "next_step": "next: record more"},
        floors={"swapped": 49.0},
    )
    text = printed(capsys, "scores", "--metrics", path)
    text += printed(capsys, "scores", "--metrics", metrics_file(tmp_path, 0.0, headline="exact"))
    assert "\n  exact, %" in text
    assert "This model writes nothing for each of the 4 clips" in text
    assert "of 3 seeds (means above): BLEU-4 52.25 ± 1.50, chrF" in " ".join(text.split())
    assert "next: record more" in text
    assert "THIS MODEL IGNORES ITS INPUT" in text
    assert "49.00" in text


def project_of(folder: Path, name: str, texts: list[str]) -> None:
    """Write params.yaml and a manifest of a corpus."""
    corpus = folder / "data" / "raw" / name
    corpus.mkdir(parents=True, exist_ok=True)
    clips = [
        Clip(clip_id=f"{split}{i}", video=None, text=text, signer=split, split=split, gloss="X")
        for split in ("train", "dev", "test")
        for i, text in enumerate(texts)
    ]
    write_manifest(corpus / "manifest.tsv", clips)
    section = {"folder": f"data/raw/{name}", "manifest": "manifest.tsv", "signer_disjoint": True}
    (folder / "params.yaml").write_text(json.dumps({"corpus": section}))


def test_scores_of_the_demo_are_not_printed_as_those_of_a_users_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    project_of(tmp_path, "weather", ["rain", "sun"])
    metrics_file(tmp_path / "reports", 87.26)  # as an older version wrote it
    expect_error("the scores of the corpus that is not noted, but", ["scores"])
    metrics_file(tmp_path / "reports", 87.26, corpus="demo", clips_hash="1")
    expect_error(r"scores of the corpus demo, but params\.yaml names w", ["scores"])
    assert capsys.readouterr().out == ""
    clips = read_manifest(tmp_path / "data/raw/weather/manifest.tsv")
    ours = {"corpus": "weather", "clips_hash": split_hash(clips, "test")}
    metrics_file(tmp_path / "reports", 50.0, **ours)
    assert "have changed since" not in printed(capsys, "scores")
    project_of(tmp_path, "weather", ["rain", "snow"])
    assert "the clips of test have changed since: `dvc repro` scores" in printed(capsys, "scores")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clips_hash": "2", "corpus": "weather"}, "they are of demo, these of weather"),
        ({"clips_hash": "2"}, "clips or sentences, or those that could be read"),
        ({"signature": "other"}, "BLEU-4 was computed in another way: "),
    ],
)
def test_scores_of_other_clips_are_no_change(
    changes: dict[str, Any],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {"corpus": "demo", "clips_hash": "1", "signature": "own"}
    path = metrics_file(tmp_path, 87.26, **before)
    for command in (["init"], ["add", "metrics.json"], ["commit", "-m", "kept"]):
        call("git", *command)
    metrics_file(tmp_path, 0.0, **before | changes)
    text = printed(capsys, "scores", "--metrics", path)
    assert "->" not in text
    assert f"not compared with the scores of test of the last commit: {reason}" in text.replace(
        "the split's ", ""
    )


@pytest.mark.parametrize(
    "command",
    [
        "translate film.mp4",
        "translate --glosses OUI",
        "translate film.mp4 --checkpoint data/checkpoint/seeds/2",
        "lookup film.mp4",
        "export-model out --format onnx",
        "stress",
        "compose more --recombine 3",
        "champion add",
        "scores",
        "compare old",
        "judge old reports",
    ],
)
def test_what_dvc_has_removed_is_being_made_to_every_command(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("signloom_tools.versions.stages_at_work", lambda: ["`dvc repro`"])
    (project / "named/clips.csv").rename("named/manifest.csv")
    params = (project / "params.yaml").read_text().replace("manifest.tsv", "manifest.csv")
    (project / "params.yaml").write_text(params)
    (project / "data/landmarks").mkdir(parents=True)
    (project / "shards").rename("data/landmarks/shards")
    write_run(project / "old", ["oui"])
    wait = "is being made: `dvc repro`. .*wait until it ends, or take a version"
    expect_error(rf"(data/checkpoint|reports/evaluation)\S* {wait}", command.split())


@pytest.mark.parametrize("place", ["data/checkpoint", "{here}/data/checkpoint"])
def test_python_says_that_the_model_is_being_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("signloom_tools.versions.stages_at_work", lambda: ["`dvc repro`"])
    with pytest.raises(UserError, match="data/checkpoint is being made"):
        signloom.load(place.format(here=project))
    assert signloom.load(project / "model")
