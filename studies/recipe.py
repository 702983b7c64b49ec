"""Single signs, learnt with the recipe that `signloom init` chooses, read as `translate` does."""

import copy
import dataclasses
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from signloom.checkpoint import WEIGHTS
from signloom.config import load_params, load_section, parse_options
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import Evaluation, evaluate, load_seeds
from signloom.evaluation.metric_names import System
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.files import hash_file
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.train import (
    RunOptions,
    TrainingResult,
    each_seed,
    from_scratch,
    read_run_options,
    write_results,
)
from signloom.translation.confidence import CONFIDENCE, hash_seeds, write_confidence
from signloom.translation.translator import Translator
from signloom_tools.importing.recipe import choose_recipe, read_facts
from studies.runs import change_options, train_first_seed, write_tokens
from studies.sentences import read_scoring

CHECKPOINT = Path("model/checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntSigns:
    """A model of single signs and what was measured of it."""

    translator: Translator  # as `signloom translate` loads it: all seeds, with the confidence
    evaluation: Evaluation
    train_s: float  # CPU time of all trainings

    def score_parts(
        self, clips: Sequence[LandmarkSequence], signs: Sequence[str]
    ) -> dict[str, float]:
        """Return which share of clips of these signs is right, %: of both views, and of each."""
        alone = copy.copy(self.translator)
        alone.linear = None
        names = alone.spec.ctc.names
        texts = {
            str(System.MODEL): [t.text for t in self.translator.translate(clips, alone.decoding)],
            "seeds alone": [t.text for t in alone.translate(clips, alone.decoding)],
            str(System.LINEAR): [
                names[int(self.translator.linear_log_probs(clip).argmax())] for clip in clips
            ],
        }
        return {
            name: 100 * fmean(text == sign for text, sign in zip(named, signs, strict=True))
            for name, named in texts.items()
        }


def plan_recipe(folder: Path, clips: Sequence[Clip]) -> tuple[TrainingFiles, RunOptions]:
    """Return what is trained on, and how: with the recipe for these clips.

    Args:
        folder: Has the shards of their landmarks; the tokens are written there.
    """
    facts = read_facts(clips, folder, ("hands", "pose"))
    recipe, reasons = choose_recipe(facts, load_params(PARAMS))
    logging.info("%s", "\n".join(reasons))
    base = from_scratch(read_run_options(PARAMS))
    sections = {
        name: change_options(getattr(base, name), recipe[name], name)
        for name in ("features", "augment", "model", "train")
    }
    labels = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    spelt = {**dataclasses.asdict(labels), **recipe["tokenize_targets"]}
    write_tokens(folder / "tokens", clips, parse_options(spelt, TokenizeOptions, where="recipe"))
    files = TrainingFiles(shards=folder / IMPORTED_SHARDS, tokens=folder / "tokens")
    return files, RunOptions(**sections)


def train_signs(folder: Path, clips: Sequence[Clip]) -> TrainingFiles:
    """Train every seed of the recipe; return what they were trained on.

    Args:
        folder: Has the shards of the clips' landmarks; tokens and checkpoint are written there.
    """
    files, options = plan_recipe(folder, clips)
    data = files.load(cache_mb=options.train.cache_mb)
    results = []
    for run_options in each_seed(options):
        checkpoint, fit = train_first_seed(data, run_options)
        results.append(TrainingResult(seed=run_options.train.seed, checkpoint=checkpoint, fit=fit))
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    write_results(folder / CHECKPOINT, results)
    return files


def learn_signs(folder: Path, clips: Sequence[Clip]) -> LearntSigns:
    """Train every seed of the recipe and evaluate them together, as the stages do.

    Args:
        folder: As for `train_signs`; without clips of test, test is not evaluated.
    """
    started, checkpoint_folder = time.process_time(), folder / CHECKPOINT
    files = train_signs(folder, clips)
    train_s = time.process_time() - started
    scoring = dataclasses.replace(read_scoring(), together=True)
    evaluation = evaluate(
        Translator.load(checkpoint_folder),
        read_targets(files.targets),
        read_shards(files.shards, [clip.clip_id for clip in clips]),
        scoring,
        seed_translators=load_seeds(checkpoint_folder, scoring.precision),
        weights=hash_file(checkpoint_folder / WEIGHTS),
        seeds=hash_seeds(checkpoint_folder),
    )
    write_confidence(checkpoint_folder / CONFIDENCE, evaluation.confidence)
    return LearntSigns(
        translator=Translator.load(checkpoint_folder),
        evaluation=evaluation,
        train_s=train_s,
    )
