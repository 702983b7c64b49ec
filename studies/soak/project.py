"""A project in which a soak's nights run."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]

from signloom.config import load_params, load_section, read_json
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import CorpusOptions, write_manifest
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.metrics import measure
from signloom.evaluation.names import MAIN_METRICS
from signloom.extraction.extract import ExtractOptions, extract_corpus
from signloom.files import to_text, write_file
from signloom.paths import OPS
from signloom.translation.confidence import seed_folders
from signloom.translation.translator import Translator
from signloom_ops.options import load_ops
from signloom_tools.params_file import update_params
from studies.soak.clips import Take, as_clips, draw_takes, plan_takes, write_texts
from studies.soak.options import Delivery, Night, SoakOptions

PARAMS = Path("params.yaml")
DECIDED = (0, 3, 4, 5)  # exit codes of nights that nobody must look after
_COPIED = ("src", "pipeline", PARAMS, "dvc.yaml", ".gitignore", "reports/baseline.json",
           "reports/judgements", "reports/retrain.json", "data/start.yaml")  # fmt: skip
_INBOX, _SUMMARY = Path("data/inbox"), Path("reports/retrain/night.json")
_SNAPSHOTS = "data/.training/*/[0-9]*.safetensors"
_STORE = "MLFLOW_TRACKING_URI"  # the runs of a simulation belong to no real store
_LOOK_S = 0.05  # between two looks for a snapshot
_LIMIT_S = 3600.0  # of a night


def make_project(options: SoakOptions) -> Path:
    """Make a project with the founding stock, unless it is there; return its folder."""
    project = options.folder / "project"
    if project.is_dir():
        return project
    partial = options.folder / ".project.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for name in _COPIED:
        source, target = Path(name), partial / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "studies"))
        elif source.is_file():
            shutil.copy(source, target)
    _change_params(partial / PARAMS, options.project)
    write_file(partial / OPS, to_text(options.ops))  # JSON is YAML, too
    (partial / _INBOX).mkdir(parents=True)
    corpus = load_section(partial / PARAMS, "corpus", CorpusOptions)
    _draw_stock(options, partial / corpus.folder, corpus.manifest)
    for command in (
        ["git", "init", "--quiet"],
        ["git", "config", "user.name", "soak"],
        ["git", "config", "user.email", "soak@localhost"],
        [sys.executable, "-m", "dvc", "init", "--quiet"],
        [sys.executable, "-m", "dvc", "config", "core.analytics", "false"],
        [sys.executable, "-m", "dvc", "add", "--quiet", str(corpus.folder)],
        ["git", "add", "--all"],
        ["git", "commit", "--quiet", "--message", "Start with the founding stock"],
    ):
        subprocess.run(command, cwd=partial, check=True)
    partial.rename(project)
    return project


def _change_params(path: Path, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Change options; of those that are maps only the ones named."""
    there = load_params(path)
    whole: dict[str, dict[str, Any]] = {}
    for section, values in changes.items():
        old = there.get(section) or {}
        whole[section] = {
            name: {**(old.get(name) or {}), **value} if isinstance(value, dict) else value
            for name, value in values.items()
        }
    update_params(path, whole)


def _draw_stock(options: SoakOptions, folder: Path, manifest: str) -> None:
    """Draw the founding stock."""
    clips = []
    for split, signers in options.founders.items():
        stock = Delivery(signers=signers, clips=options.founding_clips[split], words="first",
                         form="table", flaw="none")  # fmt: skip
        takes = plan_takes(options, folder, stock)
        draw_takes(takes, options.recording, options.seed)
        clips += as_clips(takes, split)
    write_manifest(folder / manifest, clips)


def deliver(options: SoakOptions, project: Path, week: int) -> None:
    """Put a week's deliveries into the inbox, each whole or not at all."""
    (options.folder / "recorded").mkdir(exist_ok=True)
    settle_s = load_ops(project / PARAMS).ingest.settle_s
    for number, delivery in enumerate(options.nights[week].deliveries, 1):
        name = f"week-{week:02d}-{number}"
        if (project / _INBOX / name).is_dir():
            continue
        partial = options.folder / "recorded" / name
        shutil.rmtree(partial, ignore_errors=True)
        takes = plan_takes(options, partial, delivery)
        draw_takes(takes, options.recording, options.seed)
        write_texts(partial, takes, delivery.form)
        partial.rename(project / _INBOX / name)
        time.sleep(settle_s + 1)  # ingest takes younger files for half a copy


def run_night(project: Path, night: Night, log: Path) -> dict[str, Any]:
    """Run `signloom retrain`; with a power cut, kill it as it trains and run it again.

    Args:
        project: Where.
        night: Whether there is a power cut.
        log: What it prints is appended there.

    Returns:
        `exit_code`, `seconds` of all starts together, `was_killed` and `summaries`: what each start
        wrote of itself, the last one last.

    Raises:
        UserError: If the night ended otherwise than a night should.
        TimeoutExpired: If it takes more than an hour.
    """
    begun, summaries = time.monotonic(), []
    with log.open("ab") as file:
        code = _run(project, file, cut=night.power_cut)
        summaries.append(read_json(project / _SUMMARY, hint=f"see {log}"))
        was_killed = code is None
        if was_killed:
            code = _run(project, file, cut=False)
            summaries.append(read_json(project / _SUMMARY, hint=f"see {log}"))
    if code not in DECIDED:
        raise UserError(f"the night ended with exit code {code}, which is an error; see {log}")
    return {
        "exit_code": code,
        "seconds": round(time.monotonic() - begun, 1),
        "was_killed": was_killed,
        "summaries": summaries,
    }


def _run(project: Path, log: Any, *, cut: bool) -> int | None:
    """Run the night's command; return its exit code, None if it was killed."""
    command = [str(Path(sys.executable).with_name("signloom")), "retrain"]
    environment = {name: os.environ[name] for name in os.environ if name != _STORE}
    environment["PYTHONPATH"] = str((project / "src").absolute())  # the stages' code, too
    process = subprocess.Popen(
        command, cwd=project, stdout=log, stderr=log, env=environment, start_new_session=True
    )
    try:
        if not cut:
            return process.wait(_LIMIT_S)
        while process.poll() is None:
            if any(project.glob(_SNAPSHOTS)):
                _cut_power(process.pid)
                process.wait()
                return None
            time.sleep(_LOOK_S)
        return process.returncode
    except BaseException:
        _cut_power(process.pid)
        raise


def _cut_power(pid: int) -> None:
    """Kill a process with all that it started, none of them given a chance to clear up."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        root.suspend()  # or it could start others meanwhile
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


class HiddenTest:
    """Clips that lie outside the project, with their landmarks."""

    def __init__(self, options: SoakOptions, params: Path) -> None:
        """Draw the clips and extract their landmarks, unless that is done.

        Args:
            options: Who signs how much in it.
            params: The project's parameters, for extraction and search.
        """
        self._folder = options.folder / "hidden"
        self._options = load_section(params, "evaluate", EvaluateOptions)
        plan = Delivery(signers=options.hidden_signers, clips=options.hidden_clips, words="all",
                        form="table", flaw="none")  # fmt: skip
        takes = plan_takes(options, options.folder / "hidden-videos", plan)
        if not self._folder.is_dir():
            draw_takes(takes, options.recording, options.seed)
            partial = options.folder / ".hidden.partial"
            shutil.rmtree(partial, ignore_errors=True)
            extract_corpus(
                as_clips(takes, "test"), load_section(params, "extract", ExtractOptions), partial
            )
            partial.rename(self._folder)
        self._references = [take.sentence.text for take in takes]
        self._sequences = _in_order(self._folder / "shards", takes)
        new = [options.language.is_new(take.sentence) for take in takes]
        self._rows = {
            "all": np.arange(len(takes)),
            "new": np.flatnonzero(new),
            "first": np.flatnonzero(np.logical_not(new)),
        }

    def score(self, version: int, checkpoint: Path) -> dict[str, dict[str, float]]:
        """Score a version, mean of its seeds; known versions are looked up.

        Args:
            version: Number of the model version.
            checkpoint: Its folder.

        Returns:
            Of `all` sentences, and of those with and without `new` words (`new`, `first`): BLEU-4,
            chrF and WER.
        """
        known = self._folder / "scores" / f"{version:04d}.json"
        if not known.is_file():
            found = [self._score(one) for one in (checkpoint, *seed_folders(checkpoint))]
            write_file(known, json.dumps(_mean(found), indent=1) + "\n")
        scores: dict[str, dict[str, float]] = json.loads(known.read_text(encoding="utf-8"))
        return scores

    def _score(self, checkpoint: Path) -> dict[str, dict[str, float]]:
        translator = Translator.load(checkpoint, precision=self._options.precision)
        said = [t.text for t in translator.translate(self._sequences, self._options.decoding)]
        counted = measure(said, self._references, self._options.score)
        return {
            part: {name: counted.select(rows).values()[name] for name in MAIN_METRICS}
            for part, rows in self._rows.items()
            if len(rows)
        }


def _in_order(shards: Path, takes: Sequence[Take]) -> list[LandmarkSequence]:
    stored = read_shards(shards)
    return [stored[take.path.stem] for take in takes]


def _mean(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean over the seeds, rounded for people."""
    return {
        part: {name: round(mean(one[part][name] for one in found), 2) for name in MAIN_METRICS}
        for part in found[0]
    }
