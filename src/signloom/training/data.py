"""What extract and tokenize_targets wrote comes in, the data of a training run goes out."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.batches import Example
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.shards import read_shards, shards_metadata
from signloom.corpus.targets import Target, read_labels, read_targets
from signloom.corpus.tokenizer import Tokenizer
from signloom.reproducibility import hash_file, hash_folder
from signloom.training.run import TrainingData

logger = logging.getLogger(__name__)


def load_training_data(
    *, shards: Path, targets: Path, tokenizer: Path, labels: Path
) -> TrainingData:
    """Read the train and dev clips of a corpus.

    Raises:
        UserError: If a file is missing or of another format, or a split has no landmarks.
    """
    every = read_targets(targets)
    sequences = read_shards(shards)
    return TrainingData(
        train=_pair(every, sequences, "train"),
        dev=_pair(every, sequences, "dev"),
        tokenizer=Tokenizer.load(tokenizer),
        labels=read_labels(labels),
        extractor=json.loads(shards_metadata(shards).extractor),
    )


def hash_training_data(*, shards: Path, targets: Path) -> dict[str, str]:
    """Return content hashes of what training reads, for the record of a run."""
    return {"landmarks": hash_folder(shards), "targets": hash_file(targets)}


def _pair(
    targets: Sequence[Target], sequences: Mapping[str, LandmarkSequence], split: str
) -> list[Example]:
    """Join the targets of a split with their landmarks; say which have none."""
    chosen = [target for target in targets if target.split == split]
    missing = [target.clip_id for target in chosen if target.clip_id not in sequences]
    if missing:
        logger.warning(
            "%d of %d %s clips have no landmarks and are left out (data/landmarks/rejects.tsv "
            "says why): %s%s",
            len(missing),
            len(chosen),
            split,
            ", ".join(missing[:5]),
            ", ..." if len(missing) > 5 else "",
        )
    if len(missing) == len(chosen):
        raise UserError(
            f"no clip of split {split} has landmarks; the manifest needs train and dev clips, and "
            "data/landmarks/rejects.tsv says which were rejected"
        )
    return [Example(t, sequences[t.clip_id]) for t in chosen if t.clip_id in sequences]
