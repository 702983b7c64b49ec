"""Every place that a command's options name is read, or is written without replacing anything."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from signloom_tools.cli.main import build_parser, main
from signloom_tools.cli.project import OWN
from tests.intake import tree
from tests.tiny import sequence, write_clips

# What options of a path only read.
READ = {
    "init": {"--videos", "--captions", "--join", "--landmarks"},
    "merge": set[str](),
    "compose": {"--takes", "--landmarks", "--join"},
    "import": {"sources", "--rates"},
    "landmarks": {"films", "--networks"},
    "export": {"--landmarks"},
    "adopt": {"--best"},
    "translate": {"paths", "--checkpoint"},
    "lookup": {"paths", "--checkpoint"},
    "export-model": {"--checkpoint"},
    "scores": {"--metrics"},
    "stress": {"--checkpoint"},
    "ingest": {"sources", "--table"},
    "app": {"--prompts", "--certificate", "--key", "--password-file"},
}
MODEL = ["--checkpoint", "model"]
TAKES = ["--takes", "corpus", "--landmarks", "shards"]
# How each output is asked for where mine/ has something that no command of ours wrote.
WRITTEN = {
    ("init", "corpus"): ["init", "mine", "--text-only", "--table", "table.tsv"],
    ("merge", "corpus"): ["merge", "mine", "a=corpus", "b=named/clips.csv"],
    ("compose", "corpus"): ["compose", "mine", *TAKES, "--table", "table.tsv"],
    ("project", "folder"): ["project", "mine"],
    ("landmarks", "--to"): ["landmarks", "film.mp4", "--to", "mine"],
    ("import", "--to"): ["import", "clip.npz", "--to", "mine"],
    ("export", "folder"): ["export", "mine", "--landmarks", "shards"],
    ("translate", "--video"): ["translate", "same", *MODEL, "--video", "mine/a.webm"],
    ("translate", "--attention"): ["translate", "same", *MODEL, "--attention", "mine/a.html"],
    ("translate", "--into"): ["translate", "same", *MODEL, "--write", "vtt", "--into", "mine"],
    ("export-model", "folder"): ["export-model", "mine", "--format", "onnx", *MODEL],
}


def write_same(project: Path) -> None:
    """Write landmarks as the model reads them, of one clip with the name of mine/a.*."""
    spec = json.loads((project / "model/checkpoint.json").read_text())
    write_clips(project / "same", {"a": sequence(0)}, json.dumps(spec["extractor"]))


def paths_of_options() -> Iterator[tuple[str, str]]:
    """Yield each command with each of its options that is a path, but `--params`."""
    parser = build_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        command.load()
        for action in command._actions:
            option = action.option_strings[0] if action.option_strings else action.dest
            if action.type is Path and option != "--params":
                yield name, option


def test_every_path_of_every_command_is_known_as_read_or_written() -> None:
    listed = {(name, option) for name, options in READ.items() for option in options} | {*WRITTEN}
    assert set(paths_of_options()) == listed, "say of a new option what it reads or may replace"


@pytest.mark.parametrize("output", WRITTEN, ids=" ".join)
def test_no_output_of_any_command_replaces_what_is_there(
    project: Path, output: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("manifest.tsv", "a.webm", "a.html", "a.vtt", "b.vtt", "film.npz"):
        (project / "mine" / name).write_text("mine\n")
    (project / "table.tsv").write_text(
        "id\ttext\tsigner\tsplit\tgloss\na\toui\ta\ttrain\tA B\nb\toui\tb\tdev\tB A\n"
    )
    (project / "film.mp4").write_bytes(b"film")
    (project / "mine/landmarks").mkdir()
    (project / "mine/landmarks/rejects.tsv").write_text("mine\n")
    np.savez(project / "clip.npz", points=np.zeros((3, 4, 2)))
    write_same(project)
    for name in set(OWN) - {"params.yaml"}:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    before = tree(project)
    with pytest.raises(SystemExit) as ended:
        main(WRITTEN[output])
    assert tree(project) == before
    refusal = str(ended.value) + capsys.readouterr().err
    ways = ("already", "no empty folder", "does not make", "is there and")
    assert any(way in refusal for way in ways), refusal
