import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.cli.main import main

SCORES = {
    "clips": 48,
    "signature": "nrefs:1|...",
    **{
        key + suffix: value
        for key, value in (
            ("bleu4", 80.0),
            ("bleu1", 90.0),
            ("chrf", 85.0),
            ("wer", 9.5),
            ("cer", 5.0),
        )
        for suffix in ("", "_low", "_high")
    },
    "floor_bleu4": 3.25,
    "retrieval_bleu4": 40.0,
    "blind_bleu4": 2.0,
}


def test_scores_stand_beside_their_floors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"dev": SCORES, "test": SCORES}))
    main(["scores", "--metrics", str(path)])
    text = capsys.readouterr().out
    head, bleu = (next(x for x in text.splitlines() if y in x) for y in ("test: 48", "BLEU-4"))
    assert re.search(r"constant +retrieval +blind$", head)
    assert re.search(r"80\.00 .* 3\.25 .* 2\.00$", bleu)
    assert "nrefs:1" in text
    assert "reports/index.html" in text


def test_adopt_writes_the_winner_and_shows_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params, best = tmp_path / "params.yaml", tmp_path / "best.json"
    params.write_text("model:\n  norm: pre  # why\n")
    best.write_text(json.dumps({"overrides": {"model": {"norm": "post"}}}))
    arguments = ["adopt", "--params", str(params), "--best", str(best)]
    main(arguments)
    assert params.read_text() == "model:\n  norm: post # why\n"
    text = capsys.readouterr().out
    assert "-  norm: pre  # why" in text
    assert "+  norm: post # why" in text
    main(arguments)
    assert "has the winner's values already" in capsys.readouterr().out


def test_adopt_shows_the_confirmation_and_takes_another_trial_of_the_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params, best = tmp_path / "params.yaml", tmp_path / "best.json"
    params.write_text("model:\n  norm: pre\n")
    rows = [{"number": 4, "mean": 1.5, "values": [1.4, 1.6]}]
    rows.append({"number": 0, "mean": 1.75, "values": [1.7, 1.8]})
    best.write_text(json.dumps({"overrides": {"model": {"norm": "pre"}}, "confirmed": rows}))
    overrides = {"4": {"model": {"norm": "pre"}}, "7": {"model": {"norm": "post"}}}
    (tmp_path / "trials.json").write_text(json.dumps({"overrides": overrides}))
    arguments = ["adopt", "--params", str(params), "--best", str(best)]
    main(arguments)
    text = capsys.readouterr().out
    assert "winner: trial 4: mean 1.5000 of 1.4000, 1.6000" in text
    assert "beaten: trial 0, the parameters of then: mean 1.7500" in text
    main([*arguments, "--trial", "7"])
    assert params.read_text() == "model:\n  norm: post\n"
    with pytest.raises(SystemExit, match="trial 5 is not of the search's front: 4, 7"):
        main([*arguments, "--trial", "5"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["adopt", "--best", "torn.json"], "torn.json is damaged"),
        (["adopt", "--best", "best.json", "--params", "no.yaml"], "no.yaml does not exist"),
        (["scores", "--metrics", "nothing.json"], "run `dvc repro evaluate` first"),
        (["adopt", "--best", "nothing.json"], "run `dvc repro tune` first"),
        (["translate", "a.mp4", "--checkpoint", "nothing"], "nothing is not a checkpoint"),
        (["translate", "a.mp4", "--beam-size", "0"], "beam_size: found 0"),
        (["translate", "a.mp4", "--n-best", "9"], "n-best: found 9, expected 1 to --beam-size"),
        (["export-model", "out", "--format", "onnx"], "data/checkpoint is not a checkpoint"),
        (["export-model", "out", "--format", "mlflow"], "data/checkpoint is not a checkpoint"),
    ],
)
def test_a_mistake_ends_in_its_message(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torn.json").write_text("{")
    (tmp_path / "best.json").write_text('{"overrides": {}}')
    with pytest.raises(SystemExit, match=message):
        main(arguments)


def test_a_reader_who_leaves_ends_the_command_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(json.dumps({"dev": SCORES, "test": SCORES}))
    reading, writing = os.pipe()
    os.close(reading)
    call = "from signloom.cli.main import main; main()"
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-c", call, "scores", "--metrics", str(path)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (1, "")
