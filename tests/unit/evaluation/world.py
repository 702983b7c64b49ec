"""A small corpus and models that say what a test wants, for the tests of evaluation."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.evaluation.evaluate import EvaluateOptions, GridOptions
from signloom.evaluation.metrics import ScoreOptions
from signloom.evaluation.systems import Setup
from signloom.features.features import FloatArray
from signloom.features.targets import CtcLabels, Target
from signloom.features.tokenizer import Tokenizer
from signloom.translation.options import DecodingOptions
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Alignment, Translation, Translator
from tests import tiny

SCORE = ScoreOptions(tokenizer="13a", resamples=100, seed=1)
DECODING = tiny.decoding(beam_size=2, max_tokens=8)
NO_GRID = GridOptions(beam_sizes=(), length_penalties=())
OPTIONS = EvaluateOptions(precision="float32", decoding=DECODING, grid=NO_GRID, score=SCORE)
TRAIN = ["je vais à la maison", "elle mange une pomme", "demain tu viens", "je vais à la gare"]
DEV = ["je vais à la maison", "demain elle vient"]
TEST = ["demain tu viens", "elle mange à la gare", "tu vas à la maison demain"]


def targets() -> list[Target]:
    return [
        Target(
            clip_id=f"{split}{i}",
            split=split,
            signer=f"{split}_s{i % 2}",
            text=text,
            ids=[0],
            gloss=text.upper(),
            labels=[],
        )
        for split, texts in (("train", TRAIN), ("dev", DEV), ("test", TEST))
        for i, text in enumerate(texts)
    ]


def sequence(seed: int, frames: int = 12) -> LandmarkSequence:
    points = np.random.default_rng(seed).random((frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = np.ones((frames, len(HANDS_POSE.groups)), dtype=np.bool_)
    return LandmarkSequence(points=points, present=present, fps=25.0, width=320, height=240)


def corpus() -> dict[str, LandmarkSequence]:
    return {t.clip_id: sequence(i, frames=8 + i) for i, t in enumerate(targets())}


def setup(translator: Translator, **changes: Any) -> Setup:
    """A model on this corpus."""
    plain = Setup(
        translator=translator,
        targets=targets(),
        sequences=corpus(),
        decoding=DECODING,
        score=SCORE,
    )
    return replace(plain, **changes)


class Knowing(Translator):
    """Says the reference when it sees, nothing when it is blind, one word less when greedy."""

    def __init__(self, translator: Translator, sentences: dict[int, str]) -> None:
        self.spec, self.confidence, self._models = translator.spec, None, translator._models
        self._said = sentences  # frames to sentence: the clips here differ in length

    def translate(self, sequences, options, *, blind=False, progress=None):  # type: ignore[no-untyped-def]
        texts = ["" if blind else self._said[len(clip.points)] for clip in sequences]
        if options.beam_size == 1:
            texts = [text.rsplit(" ", 1)[0] for text in texts]
        hypothesis = Hypothesis(tokens=(3, 1), log_prob=-0.5, score=-0.25)
        return [Translation(text=text, hypothesis=hypothesis) for text in texts]

    hand_width = 2
    linear = None

    def encode_signs(self, sequences):  # type: ignore[no-untyped-def]
        states = self.encode_clips(sequences)
        return np.concatenate((states, 100 * states[:, 1:]), axis=1)

    def encode_clips(self, sequences):  # type: ignore[no-untyped-def]
        return np.stack([clip.points.mean(axis=(0, 1)) for clip in sequences])

    def align(self, sequences, translations):  # type: ignore[no-untyped-def]
        weights = np.full((2, 4), 0.25, np.float32)
        return [Alignment(tokens=("a", ""), step_s=0.4, weights=weights) for _ in translations]


class Changed(Knowing):
    """Says what `Knowing` does, changed by a test; remembers its searches, with their clips."""

    def __init__(self, knowing: Knowing, change: Callable[[str, DecodingOptions], str]) -> None:
        super().__init__(knowing, knowing._said)
        self._change, self.asked = change, list[tuple[DecodingOptions, int]]()

    def translate(self, sequences, options, *, blind=False, progress=None):  # type: ignore[no-untyped-def]
        self.asked.append((options, len(sequences)))
        translations = super().translate(sequences, options, blind=blind, progress=progress)
        return [
            replace(translation, text=self._change(translation.text, options))
            for translation in translations
        ]


def wrong_unless(is_right: Callable[[DecodingOptions], bool]) -> Callable[..., str]:
    """Return a change that leaves what a search says right, or not."""
    return lambda text, search: text if is_right(search) else text.replace("demain", "hier")


def history(folder: Path) -> Path:
    path = folder / "history.json"
    epochs = [{"epoch": i, "step": 4 * i, "train_loss": 3.0 / i, "dev_loss": 1 / 3} for i in (1, 2)]
    path.write_text(json.dumps({"epochs": epochs}))
    return path


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return list(csv.DictReader(file))
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def untrained() -> Translator:
    """A real, untrained model."""
    checkpoint = tiny.checkpoint(Tokenizer.build(TRAIN, "pruned"), seed=0)
    return Translator(checkpoint, torch.device("cpu"))


NAMES = tuple(sorted({word for text in TRAIN for word in text.upper().split()}))
CLIPS = corpus()


class SignReader(Translator):
    """Reads the glosses of a clip, but for the last `missing` ones; nothing when it is blind."""

    def __init__(self, missing: int = 0, sure: float = 0.9) -> None:
        model = untrained()
        self._models = model._models
        self.spec = replace(model.spec, ctc=CtcLabels(kind="glosses", names=NAMES))
        self.confidence, self._missing, self._sure = None, missing, sure

    def label_log_probs(self, sequences: Sequence[Any], *, blind: bool = False) -> list[FloatArray]:
        lines = {len(CLIPS[t.clip_id].points): t.gloss.split() for t in targets()}
        return [self._read([] if blind else lines[len(clip.points)]) for clip in sequences]

    def _read(self, line: list[str]) -> FloatArray:
        ids = [NAMES.index(name) + 1 for name in line if name in NAMES]
        labels = [part for label in ids[: len(ids) - self._missing] for part in (label, 0)]
        labels += [0] * (12 - len(labels))
        remainder = (1 - self._sure) / len(NAMES)
        rows = (
            np.full((len(labels), len(NAMES) + 1), remainder)
            + (self._sure - remainder) * np.eye(len(NAMES) + 1)[labels]
        )
        return np.log(rows).astype(np.float32)
