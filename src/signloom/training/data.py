"""The data of a training run, from what extract and tokenize_targets wrote."""

from pathlib import Path

from signloom.features.sources import SourceKind, open_source
from signloom.features.targets import read_labels, read_targets
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file, hash_folder
from signloom.training.run import TrainingData


def load_training_data(
    *,
    shards: Path,
    targets: Path,
    tokenizer: Path,
    labels: Path,
    cache_mb: int,
    source: SourceKind = "landmarks",
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
    train, dev = open_source(source, shards=shards, targets=targets).open_clips(
        read_targets(targets), shards, cache_mb=cache_mb
    )
    return TrainingData(
        train=train, dev=dev, tokenizer=Tokenizer.load(tokenizer), labels=read_labels(labels)
    )


def hash_training_data(*, shards: Path, targets: Path) -> dict[str, str]:
    """Return content hashes of what training reads, for the record of a run."""
    return {"landmarks": hash_folder(shards), "targets": hash_file(targets)}
