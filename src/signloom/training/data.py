"""The data of a training: the training and dev clips, their tokeniser and CTC labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.features.sources import Clips, Source, SourceKind, open_source
from signloom.features.targets import CtcLabels, read_labels, read_targets
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file, hash_folder
from signloom.paths import LABELS, SHARDS, TARGETS, TOKENIZER, TOKENS

TRAINED = ("clip_id", "split", "ids", "labels")
"""Columns of the targets of which a model of landmarks with a decoder is trained."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingData:
    """What every training of a corpus reads."""

    train: Clips
    dev: Clips
    tokenizer: Tokenizer
    labels: CtcLabels  # empty where there are none

    @property
    def source(self) -> Source:
        """What a model reads of the clips."""
        return self.train.source


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFiles:
    """Where the data of a training lie: what extract and tokenize_targets wrote."""

    shards: Path = SHARDS  # folder of landmark shards
    tokens: Path = TOKENS  # folder of targets, tokeniser and names of the CTC labels

    @property
    def targets(self) -> Path:
        """The sentences as token ids."""
        return self.tokens / TARGETS.name

    @property
    def tokenizer(self) -> Path:
        """The tokeniser of the targets."""
        return self.tokens / TOKENIZER.name

    @property
    def labels(self) -> Path:
        """The names of the CTC labels."""
        return self.tokens / LABELS.name

    def load(
        self,
        *,
        cache_mb: int,
        source: SourceKind = "landmarks",
        columns: Sequence[str] | None = None,
    ) -> TrainingData:
        """Read the train and dev clips of the corpus.

        Args:
            cache_mb: Most memory for landmarks; clips beyond it stream from the shards.
            source: What the model reads, `model.source`.
            columns: Of the targets, those that are needed; None: all.

        Raises:
            UserError: If a file is missing or of another format, or a split has no landmarks or
                no glosses.
        """
        train, dev = open_source(source, shards=self.shards, targets=self.targets).open_clips(
            read_targets(self.targets, columns), self.shards, cache_mb=cache_mb
        )
        return TrainingData(
            train=train,
            dev=dev,
            tokenizer=Tokenizer.load(self.tokenizer),
            labels=read_labels(self.labels),
        )

    def hashes(self) -> dict[str, str]:
        """Return content hashes of what training reads, for the record of a run.

        Of another tokenizer.json than DeepSeek V3's also its own.
        """
        hashes = {"landmarks": hash_folder(self.shards), "targets": hash_file(self.targets)}
        tokenizer = Tokenizer.load(self.tokenizer) if self.tokenizer.is_file() else None
        if tokenizer and tokenizer.source_json:
            hashes["tokenizer"] = tokenizer.source_sha256
        return hashes
