"""Comparison: champion and challenger translate the same clips, on which the gate decides."""

import hashlib
import json
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from signloom.checkpoint_file import FORMAT_VERSION, SPEC
from signloom.config import check_shape, check_version, load_section, read_json, shape
from signloom.corpus.landmarks import LandmarkSequence, check_same_extractor
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.floors import best_constant, fit_nearest, thin_train
from signloom.evaluation.metric_names import GLOSS_WER, Metric, System, headline_metric
from signloom.evaluation.metrics import GlossRules, ScoreOptions, clean_glosses
from signloom.evaluation.summary import SeenInTrain
from signloom.evaluation.systems import plain_texts
from signloom.features.targets import Target, read_targets
from signloom.files import to_sealed, write_file
from signloom.grouping import group_pairs
from signloom.paths import REJECTS, SHARDS, TARGETS
from signloom.translation.confidence import find_confidence, seed_folders
from signloom.translation.options import DecodingOptions
from signloom.translation.precision import Precision
from signloom.translation.recognised_signs import read_signs
from signloom.translation.translator import Translator
from signloom_ops.nightly.gate import YEAR_DAYS, Decision, GateClips, Translations, decide
from signloom_ops.nightly.store import TRANSLATIONS, ModelStore
from signloom_ops.options import GateOptions
from signloom_tools.versions import check_kept

Clips = Mapping[str, LandmarkSequence]
"""Landmarks by clip id."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """A version as it would translate."""

    version: int
    folder: Path
    checkpoints: tuple[Path, ...]  # one a seed; the first is the one that translates for people,
    is_joint: bool  # or all of them together, as an ensemble
    decoding: DecodingOptions  # the search that its evaluation chose on dev
    precision: Precision  # precision of the weights, likewise
    signs: GlossRules | None = None
    """The rules by which the signs that it reads are compared; None: its sentences are."""

    @property
    def systems(self) -> tuple[Path, ...]:
        """The checkpoints whose sentences are judged."""
        return self.checkpoints[:1] if self.is_joint else self.checkpoints

    @property
    def as_one(self) -> int:
        """How many seeds translate together."""
        return len(self.checkpoints) if self.is_joint else 1

    @property
    def search(self) -> dict[str, Any]:
        """How it searches, as far as that tells it from other searches with the same weights."""
        settings = {**asdict(self.decoding), "precision": self.precision}
        return {**settings, "seeds_as_one": self.as_one} if self.is_joint else settings

    def load(self, folder: Path | None = None) -> Translator:
        """Load the model that translates for people, or that of a seed."""
        return Translator.load(folder or self.checkpoints[0], precision=self.precision)

    def with_texts(self, texts: Mapping[str, Sequence[str]]) -> Translations:
        """Return sentences of its models as the gate takes them."""
        return Translations(
            version=self.version, texts=texts, decoding=self.search, as_one=self.as_one
        )


def read_stored(store: ModelStore, version: int) -> StoredVersion:
    """Return a version of the store.

    Raises:
        UserError: If it is not there, has no weights any more, or its evaluation is damaged.
    """
    store.check_known(version)
    checkpoint, search = store.checkpoint(version), store.search_options(version)
    if not store.has_weights(version):
        raise UserError(
            f"version {version} has no weights any more; train it again, and `signloom champion "
            "add` brings them back"
        )
    check_kept(checkpoint)
    confidence = find_confidence(checkpoint)
    return StoredVersion(
        version=version,
        folder=store.folder(version),
        checkpoints=(checkpoint, *seed_folders(checkpoint)),
        is_joint=bool(confidence and confidence.seeds),
        **search,
    )


def check_readable(store: ModelStore, shards: Path) -> None:
    """Refuse landmarks that the champion was not made for, before a challenger is trained.

    Raises:
        UserError: If champion and challenger could not be compared on them.
    """
    champion = store.champion()
    if champion is None:
        return
    go_on = "`dvc repro evaluate`, `signloom champion add`, `signloom champion promote N --force`"
    hint = (
        f"version {champion}, the champion, cannot be compared with anything on them. Set the "
        "options of `extract` back to those it was trained with; or go on with the new ones: "
        f"{go_on}"
    )
    path = store.checkpoint(champion) / SPEC
    content, metadata = read_json(path, hint=hint), shards_metadata(shards)
    old = f"go back to the Signloom that made the champion, or go on without it: {go_on}"
    check_version(path, content, FORMAT_VERSION, hint=old)
    landmarks = shape(extractor=dict[str, object], layout=dict[str, object])
    check_shape(content, landmarks, where=path, hint=hint)
    check_same_extractor(json.loads(metadata.extractor), content["extractor"], hint=hint)
    if json.loads(metadata.layout.to_json()) != content["layout"]:
        name = content["layout"].get("name")
        raise UserError(
            f"these landmarks have layout {metadata.layout.name}, the champion reads {name}, or "
            f"another version of it; {hint}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInputs:
    """The corpus of today."""

    shards: Path  # landmarks of all splits
    targets: Path  # the text side
    batches: Sequence[Collection[str]]
    """Clip ids of the newest batch, of the one before, and so on; any split."""
    score: ScoreOptions  # how sentences are scored


def newest_first(clips: Sequence[Clip]) -> list[list[str]]:
    """Return the ids of each batch, newest batch first; the manifest has it last."""
    of_batch = group_pairs((clip.batch, clip.clip_id) for clip in clips if clip.batch)
    return list(reversed(of_batch.values()))


def read_inputs(clips: Sequence[Clip], params: Path) -> GateInputs:
    """Return what the gate reads where the stages write it.

    Args:
        clips: The corpus.
        params: The parameters file, which says how sentences are scored.
    """
    score = load_section(params, "evaluate", EvaluateOptions).score
    return GateInputs(shards=SHARDS, targets=TARGETS, batches=newest_first(clips), score=score)


def ask_gate(store: ModelStore, version: int, inputs: GateInputs, options: GateOptions) -> Decision:
    """Let champion and challenger translate the same clips, and decide by the rules of the gate.

    Nothing is written but the translations of the frozen test clips, which are kept; and these
    clips are frozen if there is a champion that the gate was never asked about.

    Args:
        version: The challenger.

    Raises:
        UserError: If the two cannot be compared: too few seeds, other landmarks, no test clip, or
            a frozen one that is in another split now; or too few resamples for the level.
    """
    _check_resamples(inputs.score, options)
    champion_version = store.champion()
    if champion_version == version:
        raise UserError(f"version {version} is the champion already; there is nothing to decide")
    refused = store.refused_before(version, YEAR_DAYS)
    challenger = read_stored(store, version)
    _check_seeds(challenger, options)
    check_readable(store, inputs.shards)
    clip_ids = read_clip_frames(inputs.shards).keys()
    targets = [t for t in read_targets(inputs.targets) if t.clip_id in clip_ids]
    versions = [version] if champion_version is None else [version, champion_version]
    reads_signs = all(_has_signs(store.checkpoint(number)) for number in versions)
    options = _settle_metric(options, targets, reads_signs=reads_signs)
    test, missing = _test_clips(store, targets, is_first=champion_version is None)
    if options.metric == GLOSS_WER:
        challenger = replace(challenger, signs=inputs.score.gloss_rules)
        targets, test = _as_signs(targets, test, inputs.score.gloss_rules)
        # Glosses are words as they are written.
        inputs = replace(inputs, score=replace(inputs.score, tokenizer="none"))
    if champion_version is None:
        return _compare_with_floors(challenger, targets, test, inputs, options, refused)
    champion = replace(read_stored(store, champion_version), signs=challenger.signs)
    newest = _newest(targets, inputs.batches, options.slice_min_clips)
    logger.info(
        "versions %d and %d translate %d test clips and %d of the newest clips",
        champion_version,
        version,
        len(test),
        len(newest),
    )
    frozen = read_shards(inputs.shards, [clip.clip_id for clip in test])
    latest = read_shards(inputs.shards, [clip.clip_id for clip in newest]) if newest else {}
    pair = (champion, challenger)
    old, new = (_translate(stored, frozen, latest) for stored in pair)
    clips = GateClips(
        test=test, missing=missing, newest=newest, floors={}, trained=SeenInTrain(targets)
    )
    return decide(old, new, clips, options, inputs.score, refused=refused)


def _check_resamples(score: ScoreOptions, options: GateOptions) -> None:
    least = 2 / (score.resamples + 1)  # p-value that a resampling can show
    if least > options.level:
        raise UserError(
            f"{score.resamples} bootstrap resamples are too few for level {options.level:g} (their "
            f"least p is {least:.3f}); raise evaluate.score.resamples to "
            f"{math.ceil(2 / options.level)}, or gate.level of ops.yaml"
        )


def _check_seeds(challenger: StoredVersion, options: GateOptions) -> None:
    if (count := len(challenger.checkpoints)) < options.seeds:
        raise UserError(
            f"version {challenger.version} was trained with {count} seeds, the gate asks for "
            f"{options.seeds}; set train.seeds to as many, or lower gate.seeds in ops.yaml"
        )


def _has_signs(checkpoint: Path) -> bool:
    path, hint = checkpoint / SPEC, "bring the version back by `dvc pull`"
    content = check_shape(
        read_json(path, hint=hint), shape(ctc=dict[str, object]), where=path, hint=hint
    )
    return bool(content["ctc"].get("kind") == "glosses")


def _settle_metric(
    options: GateOptions, targets: Sequence[Target], *, reads_signs: bool
) -> GateOptions:
    """Return the options with a metric that fits the training texts, where none is named."""
    if options.metric != "auto":
        return options
    train = [target for target in targets if target.split == "train"]
    if headline_metric(target.text for target in train) == Metric.EXACT:
        return replace(options, metric="exact")
    are_signs = bool(train) and all(target.text == target.gloss for target in train)
    return replace(options, metric="gloss_wer" if are_signs and reads_signs else "chrf")


def _as_signs(
    targets: Sequence[Target], test: Sequence[Target], rules: GlossRules
) -> tuple[list[Target], list[Target]]:
    """Return the clips that have glosses, with these as texts, and the test clips among them.

    Raises:
        UserError: If a test clip has none.
    """
    mute = [target.clip_id for target in test if not target.gloss.split()]
    if mute:
        raise UserError(
            f"gate.metric is gloss_wer, but {len(mute)} of {len(test)} test clips have no glosses "
            f"({mute[0]}); fill in the manifest's column gloss, or set another metric in ops.yaml"
        )

    def named(targets: Sequence[Target]) -> list[Target]:
        lines = clean_glosses([target.gloss.split() for target in targets], rules)
        pairs = zip(targets, lines, strict=True)
        return [replace(target, text=" ".join(line)) for target, line in pairs if line]

    return named(targets), named(test)


def _translate(stored: StoredVersion, frozen: Clips, latest: Clips) -> Translations:
    # The frozen clips come last: of a clip that is in both, one translation counts.
    newest = translate_clips(stored, latest, keep=False)
    return stored.with_texts({**newest, **translate_clips(stored, frozen, keep=True)})


def _compare_with_floors(
    challenger: StoredVersion,
    targets: Sequence[Target],
    test: Sequence[Target],
    inputs: GateInputs,
    options: GateOptions,
    refused: int,
) -> Decision:
    """Compare with what needs no learning, as there is no champion."""
    clip_ids = {target.clip_id for target in (*thin_train(targets), *test)}
    sequences = read_shards(inputs.shards, clip_ids)
    nearest = fit_nearest(challenger.load(), targets, sequences)
    train = [target.text for target in targets if target.split == "train"]
    refs = [clip.text for clip in test]
    frozen = {clip.clip_id: sequences[clip.clip_id] for clip in test}
    floors = {
        System.CONSTANT: [best_constant(train, refs, inputs.score, headline_metric(train))]
        * len(refs),
        System.RETRIEVAL: nearest(list(frozen.values())),
    }
    new = challenger.with_texts(translate_clips(challenger, frozen, keep=True))
    clips = GateClips(test=test, missing=[], newest=[], floors=floors)
    return decide(None, new, clips, options, inputs.score, refused=refused)


def _test_clips(
    store: ModelStore, targets: Sequence[Target], *, is_first: bool
) -> tuple[list[Target], list[str]]:
    """Return the frozen test clips that have landmarks today, and the ids of those that have not.

    A first champion has all test clips of today; they are frozen when it is promoted.
    """
    of_id = {target.clip_id: target for target in targets}
    today = sorted(target.clip_id for target in targets if target.split == "test")
    frozen = None if is_first else store.frozen_test()
    if frozen is None:
        frozen = today if is_first else store.freeze_test(today)
    moved = [clip for clip in frozen if clip in of_id and of_id[clip].split != "test"]
    if moved:
        raise UserError(
            f"{len(moved)} of the frozen test clips are in another split now ({moved[0]} in "
            f"{of_id[moved[0]].split}): a model trained on them would be flattered; give them the "
            "split test again"
        )
    test = [of_id[clip] for clip in frozen if clip in of_id]
    missing = [clip for clip in frozen if clip not in of_id]
    if not test:
        raise UserError(
            "no test clip has landmarks, so there is nothing to judge on; give some signers the "
            f"split test, and look into {REJECTS}"
        )
    return test, missing


def _newest(
    targets: Sequence[Target], batches: Sequence[Collection[str]], least: int
) -> list[Target]:
    """Return the held-out clips of the newest batches, of as few batches as are enough to judge."""
    held_out = [target for target in targets if target.split in ("dev", "test")]
    newest: list[Target] = []
    for batch in batches:
        newest += [target for target in held_out if target.clip_id in batch]
        if len(newest) >= least:
            break
    return sorted(newest, key=lambda target: target.clip_id)


def translate_clips(stored: StoredVersion, clips: Clips, *, keep: bool) -> dict[str, list[str]]:
    """Translate clips with the model of every seed, or all together, as the version searches.

    Args:
        clips: Landmarks by clip id.
        keep: Write the sentences into the version's folder, and read them there if the same
            models have seen the same landmarks before.

    Returns:
        Clip id to the sentence of each seed, or to that of all together.
    """
    if not clips:
        return {}
    path = stored.folder / TRANSLATIONS / f"{_hash_task(stored, clips)}.json"
    if keep and path.is_file():
        return _read_kept(path)
    sequences = list(clips.values())
    by_seed = [_write(stored.load(folder), sequences, stored) for folder in stored.systems]
    texts = {clip: [sentences[row] for sentences in by_seed] for row, clip in enumerate(clips)}
    return _keep(path, texts) if keep else texts


def _keep(path: Path, texts: dict[str, list[str]]) -> dict[str, list[str]]:
    write_file(path, to_sealed(texts, indent=0))
    return texts


def _read_kept(path: Path) -> dict[str, list[str]]:
    hint = f"remove {path}"
    texts = check_shape(read_json(path, hint=hint), dict[str, list[str]], where=path, hint=hint)
    return dict(texts)


def _write(
    translator: Translator, clips: Sequence[LandmarkSequence], stored: StoredVersion
) -> list[str]:
    """Return the sentences of one model of a version, or the signs that it reads."""
    if stored.signs is None:
        return plain_texts(translator.translate(clips, stored.decoding))
    first = find_confidence(stored.checkpoints[0])  # the others have no search of their own
    lines = read_signs(translator, clips, first.signs if first else None)
    glosses = clean_glosses([[sign.gloss for sign in signs] for signs in lines], stored.signs)
    return [" ".join(line) for line in glosses]


def _hash_task(stored: StoredVersion, clips: Clips) -> str:
    """Return what names a version's search over these landmarks; its weights never change."""
    search = stored.search | ({} if stored.signs is None else {"signs": stored.signs})
    digest = hashlib.sha256(json.dumps(search, sort_keys=True).encode())
    for clip, sequence in clips.items():
        size = (sequence.points.shape, sequence.fps, sequence.width, sequence.height)
        digest.update(f"\0{clip}\0{size}".encode())
        digest.update(sequence.points.tobytes() + sequence.present.tobytes())
    return digest.hexdigest()[:32]
