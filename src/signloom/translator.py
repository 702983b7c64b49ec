"""A checkpoint and the landmarks of clips come in, sentences go out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.checkpoint import Checkpoint, load_checkpoint
from signloom.config import UserError
from signloom.corpus.batches import group_by_length, pad_features
from signloom.corpus.features import FloatArray, compute_features
from signloom.corpus.fingerprints import check_same_make
from signloom.corpus.landmarks import LandmarkSequence
from signloom.decoding import DecodingOptions, Hypothesis, SpecialIds, search

# Padded frames encoded at once: bounds memory, and larger batches gain nothing on a CPU.
MAX_FRAMES = 8_000
MAX_CLIPS = 64  # decoded at once: each holds logits of beam width times vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A sentence and the hypothesis behind it."""

    text: str
    hypothesis: Hypothesis


class Translator:
    """A trained model with everything between landmarks and text."""

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.spec = checkpoint.spec
        self._model = checkpoint.model
        self._tokenizer = checkpoint.tokenizer
        self._device = device
        tokenizer = checkpoint.tokenizer
        self._ids = SpecialIds(pad=tokenizer.pad, bos=tokenizer.bos, eos=tokenizer.eos)

    @classmethod
    def load(cls, folder: Path, device: torch.device | None = None) -> "Translator":
        """Load a checkpoint folder, on a GPU if there is one and no device is named."""
        device = device or pick_device("auto")
        return cls(load_checkpoint(folder, device), device)

    def features(self, sequence: LandmarkSequence) -> FloatArray:
        """Return the features that the model was trained on, shape (S, F).

        Raises:
            UserError: If the landmarks have another layout than the model's.
        """
        if sequence.layout != self.spec.layout:
            raise UserError(
                f"these landmarks have layout {sequence.layout.name} version "
                f"{sequence.layout.version}, the checkpoint was trained on "
                f"{self.spec.layout.name} version {self.spec.layout.version}; extract them again"
            )
        return compute_features(sequence, self.spec.features)

    def check_extractor(self, extractor: Mapping[str, Any]) -> None:
        """Refuse landmarks that were found in another way than those of the model.

        Args:
            extractor: What made them, from the metadata of their shards.

        Raises:
            UserError: If anything differs; all of it in one message.
        """
        mend = "run `dvc repro`, which extracts and trains again"
        check_same_make(extractor, self.spec.extractor, mend=mend)

    def translate(
        self,
        sequences: Sequence[LandmarkSequence],
        options: DecodingOptions,
        *,
        blind: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """Translate clips.

        Args:
            sequences: Their landmarks.
            options: How to search.
            blind: Replace every feature by zero. The clip's length is all that is left, so what
                a model still scores is what it guesses without looking.
            progress: Called with the number of clips done after each batch.

        Returns:
            One translation a clip, in order.
        """
        matrices = [self.features(sequence) for sequence in sequences]
        if blind:
            matrices = [np.zeros_like(matrix) for matrix in matrices]
        done: dict[int, Translation] = {}
        for group in group_by_length([len(matrix) for matrix in matrices], MAX_FRAMES, None):
            for part in (group[i : i + MAX_CLIPS] for i in range(0, len(group), MAX_CLIPS)):
                found = self._search([matrices[i] for i in part], options)
                for index, hypothesis in zip(part, found, strict=True):
                    text = self._tokenizer.decode(hypothesis.tokens)
                    done[index] = Translation(text=text, hypothesis=hypothesis)
                if progress:
                    progress(len(part))
        return [done[index] for index in range(len(sequences))]

    @torch.inference_mode()
    def _search(self, matrices: list[FloatArray], options: DecodingOptions) -> list[Hypothesis]:
        if not matrices:
            return []
        src, valid = pad_features(matrices)
        memory = self._model.encode(src.to(self._device), valid.to(self._device))
        return search(self._model, memory, self._ids, options)


def pick_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU if there is one.

    Raises:
        UserError: If `cuda` was asked for and is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda was asked for, but torch sees no GPU; use `auto` or `cpu`")
    return torch.device(name)
