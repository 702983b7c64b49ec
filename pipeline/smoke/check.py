"""Fail if the model has not learnt its clips by heart, a run is missing or the notebook fails."""

import json
import logging
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.stage import run
from signloom.config import load_section, read_json
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.corpus.shards import read_shards
from signloom.features.targets import read_targets
from signloom.paths import CHECKPOINT, PARAMS, SHARDS, TARGETS, TUNE
from signloom.training.train import read_run_options
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator

GREEDY = replace(DECODING, beam_size=1, max_tokens=32)
LEAST_EXACT = 0.75  # share of train clips translated word for word; a blind model gets one or two


def main() -> None:
    """Check what the stages wrote, and the way from a video to its sentence."""
    by_heart = check_sentences()
    check_command(by_heart)
    run_notebook(Path("docs/demo.ipynb"))
    with sqlite3.connect(Path("mlflow.db")) as database:
        (runs,) = database.execute("SELECT count(*) FROM runs WHERE status = 'FINISHED'").fetchone()
    search = read_json(TUNE / "trials.json", hint="run `dvc repro tune` first")
    confirmed = sum(len(row["values"]) for row in search["best"]["confirmed"])
    seeds = len(read_run_options(PARAMS).train.seeds)  # each is a run below that of train
    # Six stages, and above them the two times that run.sh calls `dvc repro`.
    expected = 6 + 2 + seeds + len(search["trials"]) + confirmed
    if runs != expected:
        sys.exit(f"smoke: {runs} finished MLflow runs, expected {expected}")


def check_sentences() -> dict[str, str]:
    """Translate the train clips from their stored landmarks; return the exact ones by clip id."""
    targets = [target for target in read_targets(TARGETS) if target.split == "train"]
    sequences = read_shards(SHARDS)
    translations = Translator.load(CHECKPOINT).translate(
        [sequences[target.clip_id] for target in targets], GREEDY
    )
    exact = {}
    for target, translation in zip(targets, translations, strict=True):
        logging.info("%s | %s | %s", target.clip_id, target.text, translation.text)
        if target.text == translation.text:
            exact[target.clip_id] = target.text
    if len(exact) < LEAST_EXACT * len(targets):
        sys.exit(f"smoke: {len(exact)} of {len(targets)} train sentences, not {LEAST_EXACT:.0%}")
    return exact


def check_command(by_heart: dict[str, str]) -> None:
    """Run `signloom translate` on the video of a clip that the model knows by heart."""
    clips = read_manifest(load_section(PARAMS, "corpus", CorpusOptions).path)
    clip = next(clip for clip in clips if clip.clip_id in by_heart)
    process = subprocess.run(
        ["signloom", "translate", str(clip.video), "--beam-size", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    logging.info("signloom translate %s: %s", clip.video, process.stdout.strip())
    if process.returncode or process.stdout != f"{by_heart[clip.clip_id]}\n":
        sys.exit(f"smoke: expected {by_heart[clip.clip_id]!r}; {process.stderr}")


def run_notebook(path: Path) -> None:
    """Run the cells of a notebook of plain Python one after the other, as Jupyter does."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    quiet = {**os.environ, "MPLBACKEND": "agg"}
    process = subprocess.run(
        [sys.executable, "-"],
        input="\n".join(code),
        capture_output=True,
        text=True,
        env=quiet,
        check=False,
    )
    logging.info("%s:\n%s", path, process.stdout)
    if process.returncode:
        sys.exit(f"smoke: {path} failed: {process.stderr}")


if __name__ == "__main__":
    run(main)
