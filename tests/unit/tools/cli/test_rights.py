"""Commands in a project that one may not write, or not read: words, and nothing changes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from signloom_ops.nightly.store import ModelStore
from tests.intake import deliver, tree
from tests.processes import run_python
from tests.unit.ops.nightly.night_project import keep_undecided, make_project

# Runs commands one after the other, each behind the name of a file that is closed meanwhile.
ATTEMPT = """
import sys
from pathlib import Path
from signloom_tools.cli.main import main
for closed, line in zip(sys.argv[1::2], sys.argv[2::2]):
    mode = Path(closed).stat().st_mode
    if closed != ".":
        Path(closed).chmod(0)
    try:
        main(line.split())
        print("done")
    except SystemExit as end:
        print(" ".join(str(end.code or "done").split()))
    if closed != ".":
        Path(closed).chmod(mode)
"""
NO_RIGHT = "Permission denied; ask the owner of the files, or work in"
TABLE = "id\ttext\tsigner\tsplit\tgloss\na\toui\ta\ttrain\tOUI\nb\toui\tb\tdev\tOUI\n"
INIT = "init new --text-only --table table.tsv"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("made/checkpoint").mkdir(parents=True)
    Path("made/checkpoint/checkpoint.json").write_text('{"extractor": {}}')
    for name in ("tokenizer.json", "model.safetensors"):
        Path("made/checkpoint", name).write_text(name)
    keep_undecided(make_project(), ModelStore())
    deliver(Path("data/inbox/ada"), "n", frames=20)
    Path("presets").mkdir()
    Path("presets/short.yaml").write_text("train: {epochs: 3}\n")
    Path("table.tsv").write_text(TABLE)
    yield tmp_path
    for root, _, _ in os.walk(tmp_path):
        Path(root).chmod(0o755)


def attempt(*cases: tuple[str, str]) -> list[str]:
    """Run commands without the rights of root; return what each said at its end."""
    arguments = [text for case in cases for text in case]
    process = run_python("-c", ATTEMPT, *arguments, is_weak=True, SIGNLOOM_WORKERS="1")
    assert "Traceback" not in process.stderr, process.stderr
    return [line for line in process.stdout.splitlines() if line.startswith(("error", "done"))]


@pytest.mark.parametrize(
    "commands",
    [
        ["ingest data/inbox", "withdraw x --reason y", "adopt --preset short", INIT],
        pytest.param(
            ["retrain", "forget ada --yes", "champion promote 1 --force"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_project_of_somebody_else_is_refused_in_words(project: Path, commands: list[str]) -> None:
    for path in [project, *project.rglob("*")]:
        path.chmod(0o555)
    before = tree(project)
    attempts = dict(zip(commands, attempt(*[(".", command) for command in commands]), strict=True))
    if INIT in attempts:
        assert "Permission denied; ask the owner" in attempts.pop(INIT)
        assert attempts["adopt --preset short"].startswith("error: params.yaml: ")
    assert [command for command, message in attempts.items() if NO_RIGHT not in message] == []
    assert tree(project) == before


@pytest.mark.slow
def test_a_dry_run_needs_no_right_to_write(project: Path) -> None:
    for root, _, _ in os.walk(project):
        Path(root).chmod(0o555)
    dry = ["ingest data/inbox --dry-run", "retrain --dry-run"]
    assert attempt(*[(".", command) for command in dry]) == ["done"] * 2


def test_what_may_not_be_read_is_named(project: Path) -> None:
    manifest, dry = "data/raw/weekly/manifest.tsv", "ingest data/inbox --dry-run"
    cases = {
        (manifest, dry): f"manifest.tsv: {NO_RIGHT}",
        ("data/raw/weekly/videos", dry): "manifest.tsv: 5 problems",
        ("data/inbox/ada/n.mp4", dry): "1 were left out",
        ("data/inbox/ada", dry): "1 were left out",
        ("params.yaml", dry): "params.yaml cannot be read: Permission denied",
    }
    for message, (case, words) in zip(attempt(*cases), cases.items(), strict=True):
        assert words in message, case


@pytest.mark.slow
def test_a_night_says_what_it_may_not_read(project: Path) -> None:
    (message,) = attempt(("data/raw/weekly/manifest.tsv", "retrain"))
    assert f"manifest.tsv: {NO_RIGHT}" in message
