"""Ingest when things go wrong: killed anywhere, two at once, a full disk; and real versions."""

import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom_ops.intake.changes import is_unfinished, read_deliveries
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.ingest import ingest, plan_ingest
from signloom_tools.cli.main import main
from tests.intake import DAY, OPTIONS, deliver, found_corpus, request_of, tree
from tests.power_cut import RENAMES, cut_before
from tests.processes import call, fork, wait

pytestmark = pytest.mark.slow

PARAMS = "corpus: {folder: data/raw/weekly, manifest: manifest.tsv, signer_disjoint: true}"
OPS = """
ingest: {min_duration_s: 0.2, max_duration_s: 4.0, min_side: 48, max_side: 200, settle_s: 0.0}
"""
INBOX = Path("data/inbox")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of five clips, and a delivery of three good ones and a bad one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")
    (tmp_path / "params.yaml").write_text(PARAMS)
    (tmp_path / "ops.yaml").write_text(OPS)
    found_corpus(tmp_path)
    for frames, (signer, name) in enumerate((("ada", "a"), ("ada", "b"), ("zoe", "c")), start=20):
        deliver(INBOX / signer, name, frames=frames)
    deliver(INBOX / "zoe", "short", frames=2)
    return tmp_path


@pytest.fixture
def corpus(project: Path) -> CorpusOptions:
    folder = project.relative_to(Path.cwd()) / "data/raw/weekly"
    return CorpusOptions(folder=folder, manifest="manifest.tsv", signer_disjoint=True)


def take(corpus: CorpusOptions) -> None:
    ingest(corpus, request_of(INBOX, inbox=True), OPTIONS, day=DAY)


def kill_before(number: int, act: Callable[[], object]) -> int:
    """Do something in a process that kills itself before a rename; return how it ends."""

    def run() -> None:
        with cut_before(number, only=RENAMES, cut=lambda: os.kill(os.getpid(), signal.SIGKILL)):
            act()

    return wait(fork(run))


def test_after_any_kill_a_second_run_finishes(project: Path, corpus: CorpusOptions) -> None:
    take_again = functools.partial(ingest, corpus, request_of(INBOX, inbox=True), OPTIONS, day=DAY)
    plan_ingest(corpus, request_of(INBOX, inbox=True), OPTIONS, day=DAY)  # hashes are kept
    shutil.copytree("data/raw", "start")
    take(corpus)
    expected = tree(corpus.folder)
    for number in range(100):
        shutil.rmtree("data/raw")
        shutil.copytree("start", "data/raw")
        if (end := kill_before(number, lambda: take(corpus))) == 0:
            break
        assert end == -signal.SIGKILL
        assert len(read_manifest(corpus.path)) in (5, 8), number
        is_over = tree(corpus.folder) == expected and not is_unfinished(corpus)
        assert has_new_files(corpus, INBOX, OPTIONS) != is_over
        take_again()
        assert tree(corpus.folder) == expected, number
        assert [p.name for p in (corpus.folder.parent / ".weekly.intake").iterdir()] == ["lock"]
    assert number > 10


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
def test_a_full_disk_takes_no_halves(corpus_on_small_disk: CorpusOptions, left_bytes: int) -> None:
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


def test_versions_are_kept_and_rolled_back(
    project: Path, corpus: CorpusOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    call("git", "init", "--quiet")
    call("dvc", "init", "--quiet")
    Path(".gitignore").write_text("/data/*\n!/data/raw\n/data/raw/*\n!/data/raw/*.dvc\n")
    call("dvc", "add", "--quiet", "data/raw/weekly")
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
    # As docs/ops/deliveries.md has it: back, and forth again.
    call("git", "checkout", "--quiet", "HEAD~1", "--", "data/raw/weekly.dvc")
    call("dvc", "checkout", "--quiet", "data/raw/weekly.dvc")
    assert tree(corpus.folder) == before
    call("git", "checkout", "--quiet", "HEAD", "--", "data/raw/weekly.dvc")
    call("dvc", "checkout", "--quiet", "data/raw/weekly.dvc")
    assert tree(corpus.folder) == after
    assert not has_new_files(corpus, INBOX, OPTIONS)
