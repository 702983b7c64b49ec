"""A second clone has the first one's data, models and scores from a remote, and computes nothing.

The pipeline is the project's own on a corpus of eight clips of imported landmarks; the remotes are
a folder, and a server that speaks S3, with keys in the environment and its address outside Git.
"""

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from signloom.corpus.manifest import IMPORTED_SHARDS, Clip, write_manifest
from signloom.files import hash_folder
from signloom_ops.nightly.store import ModelStore
from signloom_tools.params_file import update_params
from tests import processes
from tests.processes import free_port, wait_for_answer
from tests.tiny import ROOT, examples_of, halve, training_data, write_clips

CORPUS = Path("data/raw/tiny")
RESULTS = ("data/tokens", "data/checkpoint", "data/landmarks", "reports/evaluation", "data/models")
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "x"}
pytestmark = pytest.mark.slow
call = partial(processes.call, **KEYS)


def write_corpus(folder: Path) -> None:
    data = training_data()
    examples = {
        f"{example.target.clip_id} {split}": (example, split)
        for split in ("train", "dev")
        for example in examples_of(getattr(data, split))
    }
    sequences = {name: halve(example.sequence) for name, (example, _) in examples.items()}
    write_clips(folder / IMPORTED_SHARDS, sequences, '{"detector": "imported"}')
    clips = [
        Clip(
            clip_id=name, video=None, text=example.target.text, signer=split, split=split, gloss="A"
        )
        for name, (example, split) in examples.items()
    ]
    write_manifest(folder / "manifest.tsv", clips)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a trained champion, committed; its remote is named by the tests."""
    root = tmp_path_factory.mktemp("first") / "project"
    for name in ("src", "pipeline"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "dvc.yaml",
        ".gitignore",
        ".dvcignore",
        "data/.gitignore",
        "data/start.yaml",
        "reports/.gitignore",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    shutil.copy(ROOT / "pipeline/smoke/params.yaml", root / "params.yaml")
    update_params(
        root / "params.yaml",
        {
            "corpus": {"folder": CORPUS.as_posix()},
            "train": {"epochs": 2, "ctc_weight": 0.0},
            "tracking": {"enabled": False},
        },
    )
    write_corpus(root / CORPUS)
    call("git", "init", "--quiet", cwd=root)
    call("dvc", "init", "--quiet", cwd=root)
    call("dvc", "config", "core.analytics", "false", cwd=root)
    call("dvc", "add", CORPUS.as_posix(), cwd=root)
    call("dvc", "repro", "evaluate", cwd=root)
    store = ModelStore(root / "data/models")
    store.promote(store.add(root / "data/checkpoint", root / "reports/evaluation", {}), by="test")
    call("dvc", "add", "data/models", cwd=root)
    commit(root, "A champion")
    return root


def commit(root: Path, message: str) -> None:
    call("git", "add", "--all", cwd=root)
    call("git", "commit", "--quiet", "-m", message, cwd=root)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that speaks S3, with a bucket; its address."""
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, **KEYS},
            stdout=errors,
            stderr=errors,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for_answer(f"{address}/moto-api/", process, log)
        make = urllib.request.Request(f"{address}/signs", method="PUT")
        urllib.request.urlopen(make).close()
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(params=["folder", "s3"])
def second(request: pytest.FixtureRequest, first: Path, tmp_path: Path) -> Path:
    """A clone of the first project's Git repository, after its push; it has no data yet."""
    if request.param == "s3":
        address = request.getfixturevalue("server")
        url, options = "s3://signs/store", ["endpointurl", address]
    else:
        url, options = str(tmp_path / "store"), []
    (first / ".dvc/config.local").unlink(missing_ok=True)  # of the test before
    call("dvc", "remote", "add", "--default", "--force", "store", url, cwd=first)
    commit(first, f"Keep data in a {request.param}")
    clone = tmp_path / "second"
    call("git", "clone", "--quiet", str(first), str(clone), cwd=tmp_path)
    for root in (first, clone):
        if options:
            call("dvc", "remote", "modify", "--local", "store", *options, cwd=root)
    call("dvc", "push", cwd=first)
    assert not (clone / "data/checkpoint").exists()
    return clone


def assert_same_results(second: Path, first: Path) -> None:
    for name in RESULTS:
        assert hash_folder(second / name) == hash_folder(first / name), name
    scores = (first / "reports/metrics.json").read_bytes()
    assert (second / "reports/metrics.json").read_bytes() == scores
    assert call("git", "status", "--porcelain", cwd=second) == ""


def test_a_second_clone_has_the_champion_and_its_scores(first: Path, second: Path) -> None:
    call(
        "dvc",
        "pull",
        "evaluate",
        "extract",
        "tokenize_targets",
        "train",
        "check",
        "data/models.dvc",
        f"{CORPUS}.dvc",
        cwd=second,
    )
    assert "up to date" in call("dvc", "repro", "evaluate", cwd=second)
    assert call("dvc", "status", "--json", "evaluate", "--with-deps", cwd=second).strip() == "{}"
    assert_same_results(second, first)
    store = ModelStore(second / "data/models")
    assert store.champion() == 1
    assert hash_folder(store.checkpoint(1)) == hash_folder(first / "data/checkpoint")
    # The weights give the scores, here too: translated and scored anew, not only copied.
    (second / "reports/metrics.json").unlink()
    call("dvc", "repro", "--force", "--single-item", "evaluate", cwd=second)
    assert_same_results(second, first)


def test_repro_pulls_what_it_needs_and_runs_nothing(first: Path, second: Path) -> None:
    output = call("dvc", "repro", "--pull", "evaluate", cwd=second)
    assert "Running stage" not in output
    for name in ("data/checkpoint", "reports/evaluation"):
        assert hash_folder(second / name) == hash_folder(first / name), name
    assert call("git", "status", "--porcelain", cwd=second) == ""
