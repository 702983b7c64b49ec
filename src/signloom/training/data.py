"""The data of a training run, from what extract and tokenize_targets wrote."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from signloom.corpus.landmarks import NO_LANDMARKS
from signloom.corpus.shards import shards_metadata
from signloom.errors import UserError
from signloom.features.clips import StoredLandmarks, read_gloss_clips
from signloom.features.targets import Target, read_glosses, read_labels, read_targets
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file, hash_folder
from signloom.paths import REJECTS
from signloom.training.run import TrainingData

logger = logging.getLogger(__name__)


def load_training_data(
    *,
    shards: Path,
    targets: Path,
    tokenizer: Path,
    labels: Path,
    cache_mb: int,
    source: Literal["landmarks", "tokens"] = "landmarks",
) -> TrainingData:
    """Read the train and dev clips of a corpus.

    Args:
        shards: Folder of landmark shards.
        targets: Text side of the clips.
        tokenizer: Of the targets.
        labels: Names of the CTC labels.
        cache_mb: Most memory for landmarks; clips beyond it stream from the shards.
        source: What the model reads, `model.source`.

    Raises:
        UserError: If a file is missing or of another format, or a split has no landmarks or no
            glosses.
    """
    if source == "tokens":
        return _load_glosses(targets, tokenizer, labels)
    if shards_metadata(shards).layout == NO_LANDMARKS:
        raise UserError(
            "model.source is landmarks, but the manifest has no column video: this corpus is one "
            "of glosses and sentences. Set model.source: tokens and tokenize_targets.source: "
            "subwords in params.yaml"
        )
    every = read_targets(targets)
    landmarks = StoredLandmarks(shards, cache_mb=cache_mb)
    train, dev = (_with_landmarks(every, landmarks, split) for split in ("train", "dev"))
    wanted = [target.clip_id for target in (*train, *dev)]
    kept = landmarks.keep(wanted)
    if kept < len(wanted):
        logger.info(
            "%d of %d clips fit into train.cache_mb: %d; the others stream from %s",
            kept,
            len(wanted),
            cache_mb,
            shards,
        )
    return TrainingData(
        train=landmarks.clips(train),
        dev=landmarks.clips(dev),
        tokenizer=Tokenizer.load(tokenizer),
        labels=read_labels(labels),
        extractor=json.loads(shards_metadata(shards).extractor),
    )


def _load_glosses(path: Path, tokenizer: Path, labels: Path) -> TrainingData:
    """Read the train and dev clips as glosses; those without landmarks count too."""
    glosses = read_glosses(path)
    if glosses.kind == "none":
        raise UserError(
            "model.source is tokens, but tokenize_targets.source is none, so there are no glosses "
            "to read; set it to subwords or glosses and run `dvc repro tokenize_targets`"
        )
    targets = read_targets(path)
    train, dev = (
        read_gloss_clips([target for target in targets if target.split == split], glosses)
        for split in ("train", "dev")
    )
    unknown = sorted({name for t in dev.targets for name in glosses.encode(t.gloss).unknown})
    if unknown:
        some = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        logger.info("%d glosses of dev never stand in train: %s", len(unknown), some)
    return TrainingData(
        train=train,
        dev=dev,
        tokenizer=Tokenizer.load(tokenizer),
        labels=read_labels(labels),
        extractor={},
        glosses=glosses,
    )


def hash_training_data(*, shards: Path, targets: Path) -> dict[str, str]:
    """Return content hashes of what training reads, for the record of a run."""
    return {"landmarks": hash_folder(shards), "targets": hash_file(targets)}


def _with_landmarks(
    targets: Sequence[Target], landmarks: StoredLandmarks, split: str
) -> list[Target]:
    """Return the targets of a split that have landmarks; say which have none."""
    chosen = [target for target in targets if target.split == split]
    missing = [target.clip_id for target in chosen if target.clip_id not in landmarks.frames]
    if missing:
        logger.warning(
            "%d of %d %s clips have no landmarks and are left out (%s says why): %s%s",
            len(missing),
            len(chosen),
            split,
            REJECTS,
            ", ".join(missing[:5]),
            ", ..." if len(missing) > 5 else "",
        )
    if len(missing) == len(chosen):
        raise UserError(
            f"no clip of split {split} has landmarks; the manifest needs train and dev clips, and "
            f"{REJECTS} says which were rejected"
        )
    return [target for target in chosen if target.clip_id in landmarks.frames]
