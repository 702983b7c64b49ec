"""Keep the epoch of the lowest dev loss, or the last? `python -m studies.little.stopping`.

Usage: python -m studies.little.stopping [PARAMS]
"""

import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.stage import run
from signloom.checkpoint import Checkpoint
from signloom.config import Count, Natural, checked_dataclass, load_section
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip, read_manifest
from signloom.corpus.shards import read_shards
from signloom.evaluation.floors import fit_nearest
from signloom.evaluation.metric_names import Metric
from signloom.evaluation.metrics import score_corpus
from signloom.evaluation.systems import plain_texts
from signloom.features.targets import read_targets
from signloom.files import write_file
from signloom.training.data import TrainingData
from signloom.training.loop import Fit
from signloom.training.snapshots import Snapshots
from signloom.training.train import RunOptions, train
from signloom.translation.translator import Translator
from signloom_tools.importing.dealing import deal_splits
from signloom_tools.importing.recipe import read_facts
from studies.little.study import copy_shards
from studies.recipe import plan_recipe
from studies.sentences import read_scoring

STUDY = Path("studies/little/stopping.yaml")
OUT = Path("reports/studies/little_stopping/results.json")
WORK = Path("data/raw/little/stopping")


@checked_dataclass
class DrawnCorpus:
    """A corpus of which parts are drawn."""

    manifest: Path
    shards: Path
    sizes: list[Count]  # train clips
    shares: list[Natural]  # of train, dev and test, by which signers are dealt; empty: as they are


@checked_dataclass
class StoppingOptions:
    """The section `study`."""

    draws: list[Count]
    corpora: dict[str, DrawnCorpus]


def draw_clips(clips: Sequence[Clip], shares: Sequence[int], size: int, draw: int) -> list[Clip]:
    """Return some train clips of few signers, a third as many of dev, and all of test.

    They have no glosses, as most films that people bring.

    Args:
        shares: By which signers are dealt to the splits; empty: as they are.
        size: Train clips.
        draw: Decides signers and clips.
    """
    if shares:
        units = {clip.clip_id: f"{clip.signer} {draw}" for clip in clips}
        splits = deal_splits(units, shares, "signer")
        clips = [replace(clip, split=splits[clip.clip_id]) for clip in clips]
    order = np.random.default_rng(draw).permutation(len(clips))
    plain = [replace(clips[number], gloss=None) for number in order]
    train, dev, test = (
        [clip for clip in plain if clip.split == split] for split in ("train", "dev", "test")
    )
    few: set[str] = set()
    for signer in dict.fromkeys(clip.signer for clip in train):
        if sum(clip.signer in few for clip in train) < size:
            few.add(signer)
    chosen = [clip for clip in train if clip.signer in few][:size]
    return [*chosen, *dev[: size // 3], *test]


def train_both(
    data: TrainingData, options: RunOptions, folder: Path
) -> tuple[Checkpoint, Checkpoint, Fit]:
    """Train once: until early stopping would end it, then from there to the end.

    Args:
        options: With the patience of early stopping.
        folder: For snapshots; those of another training are removed.

    Returns:
        The model that early stopping keeps, that of the last epoch, and how the former was trained.
    """
    snapshots = Snapshots(folder)
    snapshots.remove()
    early, fit = _train(data, options, snapshots)
    to_the_end = replace(options, train=replace(options.train, patience=0))
    last, _ = _train(data, to_the_end, snapshots)
    # Where early stopping never ended it, nothing is left to train: the snapshot has the last.
    state = snapshots.read(torch.device("cpu"))
    assert state is not None
    last.model.load_state_dict(state["model"])
    return early, last, fit


def _train(data: TrainingData, options: RunOptions, snapshots: Snapshots) -> tuple[Checkpoint, Fit]:
    return train(data, options, provenance={}, log=lambda record: None, snapshots=snapshots)


def measure(corpus: DrawnCorpus, size: int, draw: int, work: Path) -> dict[str, Any]:
    """Train on some clips of a corpus; return chrF on test of both epochs and of the floor."""
    every = read_manifest(corpus.manifest)
    clips = draw_clips(every, corpus.shares, size, draw)
    sequences = read_shards(corpus.shards, [clip.clip_id for clip in clips])
    copy_shards(corpus.shards, work / IMPORTED_SHARDS, clips, sequences)
    files, options = plan_recipe(work, clips)
    epochs = options.train.epochs
    section = replace(options.train, seeds=[draw], patience=max(10, int(0.3 * epochs)))
    data = files.load(cache_mb=section.cache_mb)
    early, last, fit = train_both(data, replace(options, train=section), work / "snapshots")
    scoring, targets = read_scoring(), read_targets(files.targets)
    test = [target for target in targets if target.split == "test"]
    tested = [sequences[target.clip_id] for target in test]
    translators = {
        name: Translator(model, torch.device("cpu"))
        for name, model in (("early", early), ("last", last))
    }
    texts = {
        name: plain_texts(translator.translate(tested, scoring.decoding))
        for name, translator in translators.items()
    }
    texts["nearest"] = fit_nearest(translators["last"], targets, sequences)(tested)
    references = [target.text for target in test]
    return {
        "clips": size,
        "draw": draw,
        "dev": len(data.dev),
        "known": round(read_facts(clips, work, ("hands", "pose")).known, 2),
        "epochs": epochs,
        "best_epoch": fit.best_epoch,
        **{
            name: round(score_corpus(lines, references, scoring.score)[Metric.CHRF].value, 1)
            for name, lines in texts.items()
        },
    }


def measure_each(options: StoppingOptions, work: Path) -> Iterator[dict[str, Any]]:
    """Yield what `measure` returns of each corpus that there is, each size and each draw."""
    for name, corpus in options.corpora.items():
        if not (corpus.manifest.is_file() and corpus.shards.is_dir()):
            logging.warning("%s: %s or its shards are not there", name, corpus.manifest)
            continue
        for size in corpus.sizes:
            for draw in options.draws:
                yield {"corpus": name, **measure(corpus, size, draw, work)}


def main() -> None:
    """Train, and write what is known after each training."""
    study = Path(sys.argv[1]) if len(sys.argv) > 1 else STUDY
    options, measured = load_section(study, "study", StoppingOptions), list[dict[str, Any]]()
    for result in measure_each(options, WORK):
        logging.info("%s", result)
        measured.append(result)
        write_file(OUT, json.dumps({"format_version": 1, "measured": measured}, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
