"""Ingest when things go wrong: killed anywhere, two at once, a full disk; and real versions."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from signloom.cli.main import main
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom.intake.inbox import has_news
from signloom.intake.ingest import ingest
from signloom.intake.ledgers import read_deliveries
from signloom.intake.withdraw import withdraw
from tests.intake import DAY, OPTIONS, deliver, found_corpus, tree
from tests.processes import fork, wait

pytestmark = pytest.mark.slow

PARAMS = """
corpus: {folder: data/raw/weekly, manifest: manifest.tsv, signer_disjoint: true}
retrain:
  inbox: data/inbox
  ingest:
    min_duration_s: 0.2
    max_duration_s: 4.0
    min_side: 48
    max_side: 200
    script_share: 0.8
    length_factor: 3.0
    settle_s: 0.0
    shares: [80, 10, 10]
"""
INBOX = Path("data/inbox")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of five clips, and a delivery of three good ones and a bad one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")
    (tmp_path / "params.yaml").write_text(PARAMS)
    found_corpus(tmp_path)
    for frames, (signer, name) in enumerate((("ada", "a"), ("ada", "b"), ("zoe", "c")), start=20):
        deliver(INBOX / signer, name, frames=frames)
    deliver(INBOX / "zoe", "short", frames=2)
    return tmp_path


@pytest.fixture
def corpus(project: Path) -> CorpusOptions:
    folder = project.relative_to(Path.cwd()) / "data/raw/weekly"
    return CorpusOptions(folder=folder, manifest="manifest.tsv", signer_disjoint=True)


def take(corpus: CorpusOptions, watch: Callable[[str], None] | None = None) -> None:
    ingest(corpus, [INBOX], OPTIONS, day=DAY, inbox=True, watch=watch)


def steps_of(act: Callable[[Callable[[str], None]], object]) -> int:
    steps: list[str] = []
    act(steps.append)
    return len(steps)


def die_at(number: int) -> Callable[[str], None]:
    """A watch that kills its own process, as a power cut does, at a step."""
    steps: list[str] = []

    def watch(step: str) -> None:
        steps.append(step)
        if len(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


def test_killed_at_any_step_the_corpus_is_valid_and_a_second_run_finishes(
    project: Path, corpus: CorpusOptions
) -> None:
    shutil.copytree("data/raw", "start")
    steps = steps_of(lambda watch: take(corpus, watch))
    expected = tree(corpus.folder)
    assert steps == 3 + 1 + 3 + 3 + 1  # staged, journal, videos, tables, done
    for number in range(1, steps + 1):
        shutil.rmtree("data/raw")
        shutil.copytree("start", "data/raw")
        assert wait(fork(lambda at=number: take(corpus, die_at(at)))) == -signal.SIGKILL
        assert len(read_manifest(corpus.path)) in (5, 8), number
        assert has_news(corpus, INBOX, OPTIONS) == (number < steps)
        result = ingest(corpus, [INBOX], OPTIONS, day=DAY, inbox=True)
        assert tree(corpus.folder) == expected, number
        if number < steps:  # even where all that was left was to strike the journal
            assert (result.batch, sorted(c.clip_id for c in result.clips)) == (DAY, ["a", "b", "c"])
        assert [p.name for p in (corpus.folder.parent / ".weekly.intake").iterdir()] == ["lock"]


def test_a_withdrawal_killed_at_any_step_is_finished(project: Path, corpus: CorpusOptions) -> None:
    take(corpus)
    shutil.copytree("data", "start")
    steps = steps_of(lambda watch: withdraw(corpus, DAY, "a mirror", watch=watch))
    expected = {**tree(corpus.folder), **tree(Path("data/withdrawn"))}
    for number in range(1, steps + 1):
        shutil.rmtree("data")
        shutil.copytree("start", "data")
        child = fork(lambda at=number: withdraw(corpus, DAY, "a mirror", watch=die_at(at)))
        assert wait(child) == -signal.SIGKILL
        assert len(read_manifest(corpus.path)) in (5, 8), number
        withdraw(corpus, DAY, "a mirror")
        assert {**tree(corpus.folder), **tree(Path("data/withdrawn"))} == expected, number


def test_a_manifest_edited_after_the_crash_is_kept(project: Path, corpus: CorpusOptions) -> None:
    assert wait(fork(lambda: take(corpus, die_at(5)))) == -signal.SIGKILL  # one video has moved
    text = corpus.path.read_text().replace("il pleut ce soir", "il neige ce soir")
    corpus.path.write_text(text)
    take(corpus)
    texts = [clip.text for clip in read_manifest(corpus.path)]
    assert texts[3] == "il neige ce soir"
    assert len(texts) == 8


def test_two_at_once_make_one_corpus(project: Path, corpus: CorpusOptions) -> None:
    children = [fork(lambda: take(corpus)) for _ in range(3)]
    assert [wait(child) for child in children] == [0, 0, 0]
    assert [clip.clip_id for clip in read_manifest(corpus.path)[5:]] == ["a", "b", "c"]
    assert len(read_deliveries(corpus)) == 1


@pytest.fixture
def corpus_on_small_disk(
    project: Path, corpus: CorpusOptions, small_disk: Callable[[str, int], None]
) -> CorpusOptions:
    shutil.move("data/raw", "raw")
    small_disk("data/raw", 100)
    shutil.copytree("raw", "data/raw", dirs_exist_ok=True)
    return corpus


@pytest.mark.parametrize("left_bytes", [0, 8192, 16384, 24576])  # lock, videos, tables
def test_on_a_full_disk_nothing_comes_in_by_halves(
    corpus_on_small_disk: CorpusOptions, left_bytes: int
) -> None:
    corpus = corpus_on_small_disk
    ballast = Path("data/raw/ballast")
    size = shutil.disk_usage("data/raw").free - left_bytes
    ballast.write_bytes(bytes(size))
    before = tree(corpus.folder)
    with pytest.raises(UserError, match=r"[Ff]ree some space"):
        take(corpus)
    assert tree(corpus.folder) == before
    ballast.unlink()
    take(corpus)
    assert len(read_manifest(corpus.path)) == 8


def call(*command: str) -> str:
    names = {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True,
        env={**os.environ, **names, "DVC_NO_ANALYTICS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_versions_are_kept_and_rolled_back(
    project: Path, corpus: CorpusOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    dvc = (sys.executable, "-m", "dvc")
    call("git", "init", "--quiet")
    call(*dvc, "init", "--quiet")
    Path(".gitignore").write_text("/data/*\n!/data/raw\n/data/raw/*\n!/data/raw/*.dvc\n")
    call(*dvc, "add", "--quiet", "data/raw/weekly")
    call("git", "add", "--all")
    call("git", "commit", "--quiet", "--message", "founders")
    before = tree(corpus.folder)
    with pytest.raises(SystemExit, match=r"1 were left out; data/raw/weekly/intake_rejects\.tsv"):
        main(["ingest", "data/inbox"])
    shown = capsys.readouterr().out
    assert "3 clips came in" in shown
    assert "data/raw/weekly.dvc names the version" in shown
    call("git", "commit", "--quiet", "--all", "--message", "a delivery")
    after = tree(corpus.folder)
    assert len(read_manifest(corpus.path)) == 8
    # As docs/ingest.md has it: back, and forth again.
    call("git", "checkout", "--quiet", "HEAD~1", "--", "data/raw/weekly.dvc")
    call(*dvc, "checkout", "--quiet", "data/raw/weekly.dvc")
    assert tree(corpus.folder) == before
    call("git", "checkout", "--quiet", "HEAD", "--", "data/raw/weekly.dvc")
    call(*dvc, "checkout", "--quiet", "data/raw/weekly.dvc")
    assert tree(corpus.folder) == after
    assert not has_news(corpus, INBOX, OPTIONS)
