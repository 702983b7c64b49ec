"""Versions of a model come in, what they are worth on signers whom no night has seen goes out."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from signloom.config import load_section
from signloom.corpus.extract import ExtractOptions
from signloom.corpus.extract_corpus import extract_corpus
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards
from signloom.evaluation.options import EvaluateOptions
from signloom.evaluation.seeds import seed_folders
from signloom.metrics import measure
from signloom.reproducibility import write_atomically
from signloom.studies.soak_clips import Take, as_clips, draw_takes, plan_takes
from signloom.studies.soak_options import Delivery, SoakOptions
from signloom.translator import Translator

_METRICS = ("bleu4", "chrf", "wer")


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
            write_atomically(known, json.dumps(_mean(found), indent=1) + "\n")
        scores: dict[str, dict[str, float]] = json.loads(known.read_text(encoding="utf-8"))
        return scores

    def _score(self, checkpoint: Path) -> dict[str, dict[str, float]]:
        translator = Translator.load(checkpoint, precision=self._options.precision)
        said = [t.text for t in translator.translate(self._sequences, self._options.decoding)]
        counted = measure(said, self._references, self._options.score)
        return {
            part: {name: counted.select(rows).values()[name] for name in _METRICS}
            for part, rows in self._rows.items()
            if len(rows)
        }


def _in_order(shards: Path, takes: Sequence[Take]) -> list[LandmarkSequence]:
    stored = read_shards(shards)
    return [stored[take.path.stem] for take in takes]


def _mean(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean over the seeds, rounded for people."""
    return {
        part: {name: round(mean(one[part][name] for one in found), 2) for name in _METRICS}
        for part in found[0]
    }
