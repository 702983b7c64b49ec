"""A project of its own comes out, in which `signloom retrain` runs as it would from cron."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from signloom.config import UserError, load_params, load_section, read_json, update_params
from signloom.corpus.manifest import CorpusOptions, write_manifest
from signloom.retraining.options import read_settings
from signloom.studies.soak_clips import as_clips, draw_takes, plan_takes, write_texts
from signloom.studies.soak_options import Delivery, Night, SoakOptions

PARAMS = Path("params.yaml")
DECIDED = (0, 3, 4, 5)  # exit codes of nights that nobody must look after
_COPIED = ("src", "pipeline", PARAMS, "dvc.yaml", ".gitignore", "reports/baseline.json",
           "reports/retrain.json")  # fmt: skip
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
    settle_s = read_settings(project / PARAMS).retrain.ingest.settle_s
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
        summaries.append(read_json(project / _SUMMARY, mend=f"see {log}"))
        was_killed = code is None
        if was_killed:
            code = _run(project, file, cut=False)
            summaries.append(read_json(project / _SUMMARY, mend=f"see {log}"))
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
