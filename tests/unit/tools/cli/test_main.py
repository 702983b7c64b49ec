import os
import subprocess
import sys
from pathlib import Path

import pytest

from signloom_tools.cli.main import find_commands, main
from tests.unit.tools.cli.evaluations import metrics_file


def test_the_help_lists_every_command_once_and_loads_nothing_heavy() -> None:
    heavy = ("torch", "mediapipe", "mlflow", "optuna", "matplotlib", "pandas", "tqdm")
    code = (
        "import sys\nfrom signloom_tools.cli.main import main\ntry: main(['--help'])\n"
        f"except SystemExit: print(set({heavy!r}) & sys.modules.keys())"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    *text, loaded = process.stdout.splitlines()
    assert loaded == "set()"
    listed = [line.split()[0] for line in text if line.startswith("  ")]
    assert listed == [name for group in find_commands().values() for name in group]
    assert [line[:-1] for line in text if line.endswith(":")] == list(find_commands())
    assert max(map(len, text)) <= 100


def test_scores_are_printed_without_what_loads_slowly() -> None:
    heavy = ("torch", "scipy.stats", "mlflow", "sklearn", "matplotlib", "pandas")
    code = f"import sys, signloom.report.scores\nprint(set({heavy!r}) & sys.modules.keys())"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "set()\n"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("tranlate", "did you mean translate?"), ("evaluate!", "`signloom --help` lists them")],
)
def test_a_mistyped_command_is_told_the_nearest_one(
    typed: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([typed])
    assert f"there is no command {typed!r}; {hint}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shares", "60", "20"], "argument --shares: found 2 values, expected TRAIN DEV TEST"),
        (
            ["--only", "--copy"],
            "argument --only: found 0 values, expected COLUMN=REGEX [COLUMN=REGEX ...]",
        ),
        (["--videos"], "argument --videos: found 0 values, expected DIR"),
        (["--share", "60"], "argument --shares: found 1 value, expected TRAIN DEV TEST"),
        (["--film", "a.mp4"], "unrecognized arguments: --film a.mp4"),
    ],
)
def test_a_wrong_option_ends_in_one_line_that_says_what_is_expected(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["init", "corpus", *arguments])
    expected = f"error: {message}; see `signloom init --help`\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--print-completion", shell])
    assert end.value.code == 0
    script = capsys.readouterr().out
    for text in ("withdraw", "--beam-size", "rollback"):
        assert text in script
    files = {"bash": "translate___checkpoint_COMPGEN=_shtab_compgen_files", "zsh": ":_files"}
    assert files[shell] in script


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["adopt", "--best", "torn.json"], "torn.json is damaged"),
        (["adopt", "--best", "best.json", "--params", "no.yaml"], "no.yaml does not exist"),
        (["scores", "--metrics", "nothing.json"], "run `dvc repro evaluate` first"),
        (["adopt", "--best", "nothing.json"], "run `dvc repro tune` first"),
        (["translate", "a.mp4", "--checkpoint", "nothing"], "nothing is not a checkpoint"),
        (["translate", "a.mp4", "--n-best", "9", "--beam-size", "4"], "n-best: found 9, expected"),
        (["export-model", "out", "--format", "onnx"], "data/checkpoint is not a checkpoint"),
        (["export-model", "out", "--format", "mlflow"], "data/checkpoint is not a checkpoint"),
        (["outlook", "--folds", "4", "--seed", "2", "--json"], "--seed, --json: not with --folds"),
        (["outlook", "--use"], "--use: only with --folds"),
        (["retrain", "--dry-run", "--json"], "^2$"),  # argparse's code
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


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--beam-size", "0", "found '0', expected at least 1"),
        ("--beam-size", "100000", "found '100000', expected at most 64"),
        ("--beam-size", "many", "found 'many', expected a whole number"),
        ("--fps", "nan", "found 'nan', expected a finite number"),
        ("--fps", "1e-9", "found '1e-9', expected at least 1"),
    ],
)
def test_an_option_of_translate_out_of_range_is_refused_in_words(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["translate", "a.mp4", f"{option}={value}"])
    assert caught.value.code == 2
    output = capsys.readouterr().err
    assert f"argument {option}: found" in output
    assert message in output


def test_a_reader_who_leaves_ends_the_command_without_a_word(tmp_path: Path) -> None:
    path = metrics_file(tmp_path, 80.0)
    reading, writing = os.pipe()
    os.close(reading)
    call = "from signloom_tools.cli.main import find_commands, main; main()"
    with os.fdopen(writing, "wb") as pipe:
        process = subprocess.run(
            [sys.executable, "-c", call, "scores", "--metrics", str(path)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (process.returncode, process.stderr) == (1, "")
