"""Study of means against few sentences: stitched clips, and pretraining on clips without them.

Question: of composed orders (pipeline/studies/coffee) only a share has a sentence. How much lower
is the word error rate if train clips are stitched, or the encoder is pretrained on all of them?
"""

import dataclasses
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.studies.coffee.study import CoffeeOptions, build_corpus, write_tokens
from pipeline.studies.options import change_options
from signloom.cli.recipe import choose_recipe, read_facts
from signloom.config import Count, Positive, Share, checked_dataclass, load_params
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions, evaluate
from signloom.features.augment import AugmentOptions
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.pretraining import (
    PretrainOptions,
    load_pretraining,
    pretrain,
    pretraining_options,
)
from signloom.training.run import (
    Result,
    RunOptions,
    from_scratch,
    prepare,
    read_run_options,
    train,
    write_results,
)
from signloom.translation.translator import Translator

logger = logging.getLogger(__name__)


@checked_dataclass
class Means:
    """What is done about having few sentences."""

    stitch: Share  # augment.stitch
    pretrained: bool
    streams: bool = False  # model.streams


@checked_dataclass
class Hiding:
    """The section `pretrain` but for what is read."""

    epochs: Count
    mask_share: Share
    span_s: Positive


@checked_dataclass
class LittleOptions:
    """The section `study`."""

    words: Path  # words.npz, as for the study coffee
    orders: dict[str, Count]  # sentences of train, dev and test
    seeds: list[int]
    shares: list[Share]  # of the train orders that have a sentence
    steps: Count  # of each training, about
    model: dict[str, Any]  # changes to the recipe of `signloom init`
    pretrain: Hiding
    means: dict[str, Means]


def choose_labelled(clips: list[Clip], share: float, seed: int) -> list[Clip]:
    """Return all clips but those train clips that are taken to have no sentence."""
    train = [clip for clip in clips if clip.split == "train"]
    count = max(2, round(share * len(train)))
    kept = {int(n) for n in np.random.default_rng(seed).permutation(len(train))[:count]}
    return [clip for n, clip in enumerate(train) if n in kept] + [
        clip for clip in clips if clip.split != "train"
    ]


def train_each(
    options: LittleOptions, coffee: CoffeeOptions, tokenize: TokenizeOptions,
    scoring: EvaluateOptions, out: Path,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Train with each seed, share and means; yield what each reaches on test.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    clips = build_corpus(coffee)
    for seed in options.seeds:
        for share in options.shares:
            some = choose_labelled(clips, share, seed)
            files = TrainingFiles(
                shards=coffee.corpus / IMPORTED_SHARDS, tokens=out / "tokens" / f"{seed}-{share}"
            )
            write_tokens(files.tokens, some, tokenize)
            base = plan_run(options, some, coffee.corpus, seed)
            for name, means in options.means.items():
                chosen = dataclasses.replace(
                    base,
                    augment=_stitching(base.augment, means.stitch),
                    model=dataclasses.replace(base.model, streams=means.streams),
                )
                if means.pretrained:
                    folder = _pretrained(options, files, base, out / "pretrained" / str(seed))
                    section = dataclasses.replace(chosen.train, start_from=str(folder))
                    chosen = dataclasses.replace(chosen, train=section)
                found = _score(files, _at_steps(files, chosen, options.steps), scoring)
                yield {"means": name, "share": share, "seed": seed, **found}


def plan_run(options: LittleOptions, clips: list[Clip], corpus: Path, seed: int) -> RunOptions:
    """Return what `signloom init` chooses for these clips, with the changes of the study."""
    recipe, _ = choose_recipe(read_facts(clips, corpus, ("hands", "pose")), load_params(PARAMS))
    recipe["model"] |= options.model
    recipe["train"]["seeds"] = [seed]
    base = from_scratch(read_run_options(PARAMS))
    sections = {name: change_options(getattr(base, name), recipe[name], name)
                for name in ("features", "augment", "model", "train")}  # fmt: skip
    return RunOptions(**sections)


def _stitching(augment: AugmentOptions, share: float) -> AugmentOptions:
    return dataclasses.replace(augment, stitch=share)


def _at_steps(files: TrainingFiles, options: RunOptions, steps: int) -> RunOptions:
    """Return the options with as many epochs as make that many steps, none of which is skipped."""
    plain = from_scratch(options)
    source = prepare(files.load(cache_mb=0), plain, provenance={})[1]
    epochs = math.ceil(steps / source.steps)
    section = dataclasses.replace(options.train, epochs=epochs, patience=epochs)
    return dataclasses.replace(options, train=section)


def _pretrained(
    options: LittleOptions, files: TrainingFiles, base: RunOptions, folder: Path
) -> Path:
    """Return the encoder that was pretrained with a seed; made once, for all shares."""
    if not folder.is_dir():
        own = PretrainOptions(corpora=files.shards.parent, **dataclasses.asdict(options.pretrain))
        section = pretraining_options(base, own)
        began = time.process_time()
        data = load_pretraining(files, section, own)
        done, fit = pretrain(data, section, own=own, provenance={}, log=lambda record: None)
        first, last = fit.history[0].dev_loss, fit.dev_loss
        logger.info("pretrained on %d clips: dev loss %.3f, then %.3f, %.0f CPU-s",
                    len(data.train), first, last, time.process_time() - began)  # fmt: skip
        write_results(folder, [Result(seed=base.train.seed, checkpoint=done, fit=fit)])
    return folder


def _score(files: TrainingFiles, options: RunOptions, scoring: EvaluateOptions) -> dict[str, Any]:
    data = files.load(cache_mb=options.train.cache_mb)
    began = time.process_time()
    checkpoint, fit = train(data, options, provenance={}, log=lambda record: None)
    cpu_s = time.process_time() - began
    translator = Translator(checkpoint, torch.device("cpu"), scoring.precision)
    sequences = read_shards(files.shards)
    found = evaluate(translator, read_targets(files.targets), sequences, scoring).metrics["test"]
    return {
        "clips": len(data.train), "epochs": options.train.epochs, "best_epoch": fit.best_epoch,
        "dev_loss": round(fit.dev_loss, 3), "cpu_s": round(cpu_s),
        "wer": round(found["wer"], 1), "bleu4": round(found["bleu4"], 1),
    }  # fmt: skip
