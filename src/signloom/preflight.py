"""What can be found wrong with the parameters and the corpus before hours of work."""

import contextlib
import importlib.util
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from signloom.config import get_map, load_params, load_section
from signloom.corpus.landmarks import build_layout
from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest
from signloom.corpus.shards import read_clip_frames, read_clip_rates, shards_metadata
from signloom.devices import pick_device
from signloom.errors import UserError, name_some
from signloom.evaluation.evaluate import ONE_SEED, EvaluateOptions
from signloom.evaluation.metrics import ScoreOptions
from signloom.extraction.extract import ExtractOptions
from signloom.features.augment import AugmentOptions
from signloom.features.features import (
    FeatureOptions,
    check_groups,
    feature_width,
    prepared_frames,
)
from signloom.features.sources import GlossSource
from signloom.features.targets import TokenizeOptions, build_glosses, build_targets
from signloom.files import disk_name
from signloom.grouping import group_pairs
from signloom.models.registry import build_model, planned
from signloom.models.seq2seq import ModelOptions
from signloom.paths import CHECKPOINT, EVALUATION, LANDMARKS, MODELS, SHARDS, TOKENS, TUNE
from signloom.provenance import project_folder
from signloom.report.build import ReportOptions
from signloom.tables import read_columns
from signloom.tracking.run import TrackingOptions
from signloom.training.options import TrainOptions
from signloom.training.train import (
    RunOptions,
    check_glosses,
    check_warmup,
    from_scratch,
    read_run_options,
)
from signloom.training.warm_start import describe_start
from signloom.translation.options import DecodingOptions
from signloom.tune.space import TuneOptions, check_fit, parse_space

logger = logging.getLogger(__name__)
OUTPUTS = (LANDMARKS, TOKENS, CHECKPOINT, EVALUATION, TUNE)  # folders that DVC removes first
# What the stages read of params.yaml, by section.
SECTIONS = {
    "corpus": CorpusOptions,
    "extract": ExtractOptions,
    "tokenize_targets": TokenizeOptions,
    "features": FeatureOptions,
    "augment": AugmentOptions,
    "model": ModelOptions,
    "train": TrainOptions,
    "tune": TuneOptions,
    "evaluate": EvaluateOptions,
    "report": ReportOptions,
    "tracking": TrackingOptions,
}
# What code and tests may set and params.yaml may not: a file of before version 0.3 is read where it
# names the constant.
FIXED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "extract": (
        ExtractOptions,
        ("min_detection_confidence", "min_tracking_confidence", "frames_per_shard"),
    ),
    "tune": (TuneOptions, ("seed", "heartbeat_s")),
    "evaluate.decoding": (DecodingOptions, ("min_tokens", "language")),
    "evaluate.score": (ScoreOptions, ("seed",)),
}


def check_params(path: Path) -> None:
    """Check every section that a stage reads, and that there is no other.

    Raises:
        UserError: If a section is missing, wrong or unknown; all of them in one message.
    """
    values = load_params(path)
    unknown = sorted(set(map(str, values)) - SECTIONS.keys())
    problems = [
        f"{path}: no stage reads a section `{name}`: expected {', '.join(SECTIONS)}; parameters of "
        "operations are in ops.yaml"
        for name in unknown
    ]
    problems += [f"{path}: {problem}" for problem in _fixed_problems(values)]
    checks = [partial(load_section, path, section, kind) for section, kind in SECTIONS.items()]
    _run_all([partial(_refuse, problems), *checks])


def _fixed_problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Name the parameters that are constants and have another value."""
    for section, (kind, names) in FIXED.items():
        read = values
        for part in section.split("."):
            read = get_map(read, part)
        constants = {field.name: field.default for field in fields(kind)}
        for name in names:
            if read.get(name, constants[name]) != constants[name]:
                yield (
                    f"{section}.{name}: found {read[name]!r}, but it is no parameter any more: it "
                    f"is always {constants[name]!r}; remove it"
                )


def check_together(params: Path, corpus: CorpusOptions) -> None:
    """Check what the sections must be for each other, for the corpus and for this machine.

    Each of these stops a later stage, too, but after the hours of the stages before it.

    Raises:
        UserError: If anything does not fit; all of it in one message.
    """
    run = read_run_options(params)
    extract = load_section(params, "extract", ExtractOptions)
    tokenize = load_section(params, "tokenize_targets", TokenizeOptions)
    evaluate = load_section(params, "evaluate", EvaluateOptions)
    tune = load_section(params, "tune", TuneOptions)
    searched, _ = tune.for_model(run.model)
    # A drawn corpus is not there yet.
    clips = read_manifest(corpus.path, signer_disjoint=False) if corpus.path.is_file() else []
    _warn_of_alike({video for (video,) in read_columns(clips, "video") if video})
    _run_all(
        [
            lambda: pick_device(run.train.device),
            lambda: _check_start(run.train.start_from),
            lambda: _check_texts(clips, tokenize, run),
            lambda: _check_input(corpus, extract, run),
            lambda: check_fit(from_scratch(run), parse_space(searched.space)) if tune.trials else 0,
            lambda: _refuse(_machine_problems(extract, evaluate, tune)),
            lambda: _refuse(_ctc_problems(clips, tokenize, run)),
            lambda: _refuse(_seed_problems(evaluate, run)),
            lambda: _check_lengths(clips, corpus, run),
        ]
    )


def check_corpus(corpus: CorpusOptions, *, is_drawn: bool) -> None:
    """Check that there is a manifest in a safe folder.

    Args:
        is_drawn: Whether a stage draws the corpus.

    Raises:
        UserError: If there is none and none will be drawn, or a stage would empty its folder.
    """
    folder = corpus.folder.resolve()
    for output in OUTPUTS:
        emptied = output.resolve()
        if emptied.is_relative_to(folder) or folder.is_relative_to(emptied):
            raise UserError(
                f"corpus.folder is {corpus.folder}, but stages empty {output} before they write "
                "it; put the corpus into a folder of its own, such as data/raw/NAME"
            )
    if is_drawn or corpus.path.is_file():
        return
    is_copy = project_folder().resolve() != Path().resolve()
    hint = " A queued experiment has only what Git or DVC knows: `dvc add` it." if is_copy else ""
    raise UserError(
        f"{corpus.path}: no manifest there, so no corpus. Put the videos and their table into "
        f"{corpus.folder} (`signloom init` does; docs/data.md), or set corpus.folder in "
        "params.yaml: data/demo/corpus is the demo corpus, which is drawn when it is needed."
        f"{hint}"
    )


def _warn_of_alike(films: Iterable[Path]) -> None:
    """Name films that a disk which ignores case takes for one, as where the corpus is pulled."""
    by_name = group_pairs((disk_name(film), film) for film in sorted(films))
    if alike := [" and ".join(map(str, paths)) for paths in by_name.values() if len(paths) > 1]:
        logger.warning(
            "the names of films differ by capitals alone (%s): a disk that ignores case, as most "
            "of macOS and Windows, keeps one of them; rename them here and in the manifest",
            name_some(alike),
        )


def _run_all(checks: Iterable[Callable[[], object]]) -> None:
    """Run every check; what any of them refuses comes in one message."""
    problems = []
    for check in checks:
        try:
            check()
        except UserError as error:
            problems.append(str(error))
    _refuse(problems)


def _refuse(problems: Iterable[str]) -> None:
    if messages := list(dict.fromkeys(problems)):
        raise UserError("\n".join(messages))


def _check_start(folder: str) -> None:
    """Refuse weights to start from that are not there."""
    # A night names the champion only when it trains: what it named last may be gone by now.
    if not Path(folder).is_relative_to(MODELS):
        describe_start(folder)


def _check_texts(clips: Sequence[Clip], tokenize: TokenizeOptions, run: RunOptions) -> None:
    """Refuse sentences that are too long, and clips without what the parameters need of them."""
    if run.model.source == "glosses":
        check_glosses(run)
        if tokenize.source == "none":
            raise UserError(
                "model.source is glosses, but tokenize_targets.source is none; set that to "
                "glosses, subwords or shared"
            )
    if not clips:
        return
    tokenizer, _, targets = build_targets(clips, tokenize)
    glosses = build_glosses(clips, tokenize.source, tokenizer)
    if run.model.source == "glosses":
        source = GlossSource(vocabulary=glosses)
        train = source.clips([target for target in targets if target.split == "train"])
        check_warmup(source.reader(run.features).lengths(train), run.train)


def _check_input(corpus: CorpusOptions, extract: ExtractOptions, run: RunOptions) -> None:
    """Refuse groups of landmarks that there will not be, and sizes that make no model."""
    width = 1
    if run.model.source == "landmarks":
        shards = corpus.imported_shards
        layout = shards_metadata(shards).layout if shards.is_dir() else build_layout(extract.groups)
        check_groups(run.features, layout)
        width = feature_width(run.features, layout)
    try:
        with planned():
            build_model(run.model, input_width=width, vocab_size=300, ctc_labels=2, eos=1)
    except ValueError as error:
        raise UserError(f"model: {error}") from None


def _check_lengths(clips: Sequence[Clip], corpus: CorpusOptions, run: RunOptions) -> None:
    """Warn of a warm-up that is longer than training, where landmarks were found before."""
    shards = corpus.imported_shards if corpus.imported_shards.is_dir() else SHARDS
    if run.model.source == "glosses" or not shards.is_dir():
        return
    with contextlib.suppress(UserError):  # of landmarks that the next stage replaces
        frames, rates = read_clip_frames(shards), read_clip_rates(shards)
        pairs = read_columns(clips, "clip_id", "split")
        train = [clip_id for clip_id, split in pairs if split == "train" and clip_id in frames]
        if train:
            lengths = [prepared_frames(frames[c], rates[c], run.features) for c in train]
            check_warmup(lengths, run.train)


def _machine_problems(
    extract: ExtractOptions, evaluate: EvaluateOptions, tune: TuneOptions
) -> Iterator[str]:
    """Name what this machine lacks."""
    if evaluate.precision == "int8" and torch.cuda.is_available():
        yield "evaluate.precision is int8, which is for CPUs, and there is a GPU; choose bfloat16"
    if tune.trials and tune.storage.startswith("postgresql") and _lacks("psycopg"):
        yield (
            "tune.storage is a PostgreSQL address, but its driver is missing; install it with "
            '`pip install "signloom[postgres]"`'
        )
    if extract.executor == "ray" and _lacks("ray"):
        yield 'extract.executor is ray, which is missing; `pip install "signloom[ray]"`'


def _lacks(module: str) -> bool:
    return importlib.util.find_spec(module) is None


def _ctc_problems(
    clips: Sequence[Clip], tokenize: TokenizeOptions, run: RunOptions
) -> Iterator[str]:
    """Name what the CTC loss would find nothing to spell in."""
    if not run.train.ctc_weight or run.model.source != "landmarks":
        return
    pairs = read_columns(clips, "split", "gloss")
    has_glosses = any(gloss for split, gloss in pairs if split == "train") or not clips
    hint = "or set train.ctc_weight: 0"
    if tokenize.ctc == "none":
        yield (
            f"train.ctc_weight is {run.train.ctc_weight}, but tokenize_targets.ctc is none, so "
            f"there is nothing to spell; choose glosses or characters, {hint}"
        )
    elif tokenize.ctc == "glosses" and not has_glosses:
        yield (
            f"train.ctc_weight is {run.train.ctc_weight} and tokenize_targets.ctc is glosses, "
            f"but no train clip has a gloss; choose characters, {hint}"
        )


def _seed_problems(evaluate: EvaluateOptions, run: RunOptions) -> Iterator[str]:
    """Name an ensemble of which there will be a single model."""
    if evaluate.together and len(run.train.seeds) < 2:
        yield f"evaluate.together is true, but {ONE_SEED}"
