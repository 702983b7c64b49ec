import dataclasses
import json
import shlex
import sys
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.evaluation.compare import compare_runs, read_run
from signloom.evaluation.evaluate import Evaluation, evaluate
from signloom.evaluation.results import write_evaluation
from signloom.translation.translator import Translator
from tests.unit.evaluation.world import OPTIONS, corpus, history, read_table, targets

# Every word that the reference has too, in percent of the reference; keeps what it was asked.
RECALL = """
import json, pathlib, sys
lines = [json.loads(line) for line in sys.stdin]
with pathlib.Path(sys.argv[1]).open("a") as log:
    log.write(json.dumps(lines) + "\\n")
for line in lines:
    words = line["reference"].split()
    print(100 * sum(word in line["hypothesis"].split() for word in words) / len(words))
"""


def run(translator: Translator, script: str, *arguments: str) -> Evaluation:
    command = shlex.join([sys.executable, "-c", script, *arguments])
    options = dataclasses.replace(OPTIONS, commands={"recall": command})
    return evaluate(translator, targets(), corpus(), options)


def test_a_command_scores_every_system_in_one_go(knowing: Translator, tmp_path: Path) -> None:
    evaluation = run(knowing, RECALL.replace("\\\\n", "\\n"), str(tmp_path / "log"))
    (asked,) = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len(asked) == 7 * (2 + 3)
    assert asked[0] == {
        "clip_id": "dev0", "source": "JE VAIS À LA MAISON",
        "hypothesis": "je vais à la maison", "reference": "je vais à la maison",
    }  # fmt: skip
    systems = evaluation.splits["test"].to_map()["systems"]
    assert systems["model"]["recall"]["value"] == 100
    assert systems["blind"]["recall"]["value"] == 0
    greedy = systems["greedy"]["recall"]  # the last word of 3, 5 and 6 is missing
    assert greedy["value"] == pytest.approx(100 * (2 / 3 + 4 / 5 + 5 / 6) / 3, abs=1e-4)
    assert round(greedy["low"], 2) + 0.01 >= 100 * 2 / 3
    assert greedy["low"] < greedy["value"] < greedy["high"]
    assert greedy["signature"].startswith("nrefs:1|mean:sentences|command:")
    assert evaluation.metrics["test"]["recall"] == 100
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    rows = read_table(tmp_path / "evaluation" / "hypotheses.tsv")
    assert [row["recall"] for row in rows] == ["100.0"] * 5
    past = read_run(str(tmp_path))
    found = compare_runs(past, past, "test").differences["recall"]
    assert (found.a, found.b, found.ties) == (100, 100, 3)


def test_no_command_can_take_the_place_of_a_column_or_a_headline(
    knowing: Translator, tmp_path: Path
) -> None:
    evaluation = evaluate(knowing, targets(), corpus(), OPTIONS, others=[("2", knowing)])
    write_evaluation(tmp_path, evaluation, history(tmp_path))
    columns = read_table(tmp_path / "evaluation" / "hypotheses.tsv")[0].keys()
    for name in columns | evaluation.metrics["test"].keys():
        with pytest.raises(ValueError, match=f"'{name}' cannot name"):
            dataclasses.replace(OPTIONS, commands={name: "x"})


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print(1)", "printed 1 lines for 35 sentences"),
        ("import sys; [print('bad') for _ in sys.stdin]", "line 1 is 'bad', expected a finite"),
        ("import sys; [print('nan') for _ in sys.stdin]", "line 1 is 'nan', expected a finite"),
    ],
)
def test_what_a_command_does_wrong_is_said(knowing: Translator, script: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(knowing, script)


def test_a_command_that_is_not_there_is_said_with_the_mend(knowing: Translator) -> None:
    options = dataclasses.replace(OPTIONS, commands={"comet": "/nowhere/comet --gpus 0"})
    with pytest.raises(
        UserError, match=r"(?s)commands.comet.*cannot be run.*nothing is downloaded"
    ):
        evaluate(knowing, targets(), corpus(), options)


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ({"bleu4": "x"}, "'bleu4' cannot name"),
        ({"a b": "x"}, "'a b' cannot"),
        ({"a": " "}, "empty"),
        ({"bleu4_low": "x"}, "'bleu4_low' cannot"),
    ],
)
def test_a_command_needs_a_name_of_its_own(commands: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(OPTIONS, commands=commands)
