"""Study of means against few sentences.

Question: of composed orders (studies/coffee) only a share has a sentence. How much lower
is the word error rate if train clips are recombined?
"""

import dataclasses
import itertools
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.checkpoint import Checkpoint
from signloom.config import Count, Natural, Share, checked_dataclass, load_params
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards, shards_metadata, write_shards
from signloom.evaluation.evaluate import EvaluateOptions, Evaluation, evaluate, try_searches
from signloom.evaluation.metric_names import Metric, System
from signloom.evaluation.metrics import score_corpus
from signloom.evaluation.systems import Setup, plain_texts
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.train import RunOptions, from_scratch, prepare, read_run_options
from signloom.translation.recognised_signs import align_glosses
from signloom.translation.translator import Translator
from signloom_tools.importing.recipe import choose_recipe, read_facts
from signloom_tools.importing.recombine import recombine
from studies.coffee.study import GOODS, SIZES, CoffeeOptions, build_corpus
from studies.runs import change_options, train_first_seed, write_tokens
from studies.sentences import read_scoring

FRAMES_PER_SHARD = 25_000
logger = logging.getLogger(__name__)


@checked_dataclass
class Means:
    """What is done about having few sentences."""

    # Dropout 0.3, no mirroring; or dropout 0.1, mirroring 0.3; null: as `init` sets them.
    regularised: bool | None = False
    teacher: str = ""  # the means, trained before, whose model cuts
    recombined: Natural = 0  # orders made of the pieces of those with sentences
    longer: Count = 1  # times as many steps


@checked_dataclass
class LittleOptions:
    """The section `study`."""

    words: Path  # words.npz, as for the study coffee
    orders: dict[str, Count]  # sentences of train, dev and test
    seeds: list[int]
    shares: list[Share]  # of the train orders that have a sentence
    steps: Count  # of each training, about; `longer` ones take more
    model: dict[str, Any]  # changes to the recipe of `signloom init`
    means: dict[str, Means]
    new_forms: bool = False  # train has no order of a form that dev or test has; shares of the rest


def order_form(text: str) -> str:
    """Return an order whatever is wanted and of what size: `hello can i get a _ please`."""
    return " ".join("_" if word in GOODS else word for word in text.split() if word not in SIZES)


def hold_out_forms(clips: list[Clip]) -> list[Clip]:
    """Return all clips but the train clips whose form dev or test has."""
    held = {order_form(clip.text) for clip in clips if clip.split != "train"}
    return [clip for clip in clips if clip.split != "train" or order_form(clip.text) not in held]


def choose_labelled(clips: list[Clip], share: float, seed: int) -> list[Clip]:
    """Return all clips but those train clips that are taken to have no sentence."""
    train = [clip for clip in clips if clip.split == "train"]
    count = max(2, round(share * len(train)))
    labelled = {int(n) for n in np.random.default_rng(seed).permutation(len(train))[:count]}
    return [clip for n, clip in enumerate(train) if n in labelled] + [
        clip for clip in clips if clip.split != "train"
    ]


def train_each(
    options: LittleOptions,
    coffee: CoffeeOptions,
    tokenize: TokenizeOptions,
    scoring: EvaluateOptions,
    out: Path,
) -> Iterator[dict[str, Any]]:
    """Train with each seed, share and means; yield what each reaches on test.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    clips, shards = build_corpus(coffee), coffee.corpus / IMPORTED_SHARDS
    clips = hold_out_forms(clips) if options.new_forms else clips
    sequences = read_shards(shards)
    for seed, share in itertools.product(options.seeds, options.shares):
        some = choose_labelled(clips, share, seed)
        base = plan_run(options, some, coffee.corpus, seed)
        trained: dict[str, Checkpoint] = {}
        for name, means in options.means.items():
            used_clips, landmarks = some, sequences
            if means.teacher:
                teacher = Teacher(trained[means.teacher], sequences)
                recombined, cut = teacher.recombine(
                    [clip for clip in some if clip.split == "train"], means.recombined, seed
                )
                used_clips, landmarks = [*recombined, *some], {**sequences, **cut}
            folder = out / "runs" / f"{seed}-{share}-{name.replace(' ', '_')}"
            files = TrainingFiles(shards=folder / IMPORTED_SHARDS, tokens=folder)
            copy_shards(shards, files.shards, used_clips, landmarks)
            write_tokens(files.tokens, used_clips, tokenize)
            chosen = base
            if means.regularised is not None:
                dropout, mirror = (0.3, 0.0) if means.regularised else (0.1, 0.3)
                model = dataclasses.replace(base.model, dropout=dropout)
                changes = dataclasses.replace(base.augment, mirror=mirror)
                chosen = dataclasses.replace(base, augment=changes, model=model)
            chosen = _at_steps(files, chosen, options.steps * means.longer)
            trained[name], scores = _score(files, chosen, scoring)
            yield {"means": name, "share": share, "seed": seed, **scores}


class Teacher:
    """A model that says what is signed where."""

    def __init__(self, checkpoint: Checkpoint, sequences: Mapping[str, LandmarkSequence]) -> None:
        """Take a trained model with a CTC head over glosses, and the landmarks of all orders."""
        self._sequences = sequences
        self._translator = Translator(checkpoint, torch.device("cpu"))

    def recombine(
        self, clips: Sequence[Clip], count: int, seed: int
    ) -> tuple[list[Clip], dict[str, LandmarkSequence]]:
        """Return new clips of the pieces of some, and their landmarks."""
        if not count:
            return [], {}
        sequences = [self._sequences[clip.clip_id] for clip in clips]
        glosses = [(clip.gloss or "").split() for clip in clips]
        aligned = align_glosses(self._translator, sequences, glosses)
        pairs = zip(clips, aligned, strict=True)
        spans = {clip.clip_id: span for clip, span in pairs if span is not None}
        source_clips = [clip for clip in clips if clip.clip_id in spans]
        return recombine(source_clips, spans, self._sequences, count, np.random.default_rng(seed))


def copy_shards(
    source: Path, folder: Path, clips: Sequence[Clip], landmarks: Mapping[str, LandmarkSequence]
) -> None:
    """Write the landmarks of some clips as shards like others."""
    metadata = shards_metadata(source)
    frames = {clip.clip_id: len(landmarks[clip.clip_id].points) for clip in clips}
    write_shards(
        folder,
        frames,
        landmarks.__getitem__,
        layout=metadata.layout,
        extractor=metadata.extractor,
        frames_per_shard=FRAMES_PER_SHARD,
    )


def plan_run(options: LittleOptions, clips: list[Clip], corpus: Path, seed: int) -> RunOptions:
    """Return what `signloom init` chooses for these clips, with the changes of the study."""
    recipe, _ = choose_recipe(read_facts(clips, corpus, ("hands", "pose")), load_params(PARAMS))
    recipe["model"] |= options.model
    recipe["train"] |= {"seeds": [seed], "max_frames": 1200}
    base = from_scratch(read_run_options(PARAMS))
    sections = {
        name: change_options(getattr(base, name), recipe[name], name)
        for name in ("features", "augment", "model", "train")
    }
    return RunOptions(**sections)


def _at_steps(files: TrainingFiles, options: RunOptions, steps: int) -> RunOptions:
    """Return the options with as many epochs as make that many steps, none of which is skipped."""
    plain = from_scratch(options)
    source = prepare(files.load(cache_mb=0), plain, provenance={})[1]
    epochs = math.ceil(steps / source.steps)
    patience = epochs if options.train.patience else 0
    section = dataclasses.replace(options.train, epochs=epochs, patience=patience)
    return dataclasses.replace(options, train=section)


def _score(
    files: TrainingFiles, options: RunOptions, scoring: EvaluateOptions
) -> tuple[Checkpoint, dict[str, Any]]:
    data = files.load(cache_mb=options.train.cache_mb)
    began = time.process_time()
    checkpoint, fit = train_first_seed(data, options)
    cpu_s = time.process_time() - began
    translator = Translator(checkpoint, torch.device("cpu"), scoring.precision)
    sequences = read_shards(files.shards)
    evaluation = evaluate(translator, read_targets(files.targets), sequences, scoring)
    splits = evaluation.splits
    systems = splits["test"].systems
    scores = systems[System.MODEL]
    return checkpoint, {
        "clips": len(data.train),
        "epochs": options.train.epochs,
        "best_epoch": fit.best_epoch,
        "dev_loss": round(fit.dev_loss, 3),
        "cpu_s": round(cpu_s),
        "dev_wer": round(splits["dev"].systems[System.MODEL][Metric.WER].value, 1),
        "wer": round(scores[Metric.WER].value, 1),
        "wer_low": round(scores[Metric.WER].low, 1),
        "wer_high": round(scores[Metric.WER].high, 1),
        "bleu4": round(scores[Metric.BLEU4].value, 1),
        "others": {
            str(name): round(values[Metric.WER].value, 1)
            for name, values in systems.items()
            if name != System.MODEL
        },
        "held": _hold_against_signs(
            translator.with_signs(costs=evaluation.confidence.signs_said),
            evaluation,
            sequences,
            scoring,
        ),
    }


def _hold_against_signs(
    translator: Translator,
    evaluation: Evaluation,
    sequences: Mapping[str, LandmarkSequence],
    scoring: EvaluateOptions,
) -> dict[str, float]:
    """Score the same model where dev may hold its sentences against the signs that it reads."""
    plain, grid = scoring.decoding, read_scoring().grid
    sizes = (plain.beam_size, max(grid.beam_sizes))
    grid = dataclasses.replace(grid, beam_sizes=sizes, length_penalties=(plain.length_penalty,))
    splits = {split: evaluated.result for split, evaluated in evaluation.splits.items()}
    setup = Setup(
        translator=translator,
        targets=splits["dev"].targets,
        sequences=sequences,
        decoding=plain,
        score=scoring.score,
        metric=evaluation.headline,
    )
    search, _ = try_searches(setup, grid)
    held = {"beam_size": search.beam_size, "sign_weight": search.sign_weight}
    for split, name in (("dev", "dev_wer"), ("test", "wer")):
        texts = plain_texts(translator.translate(splits[split].clips, search))
        scores = score_corpus(texts, splits[split].refs, scoring.score)
        held[name] = round(scores[Metric.WER].value, 1)
    return held
