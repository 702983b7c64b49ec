"""A text corpus whose sentences are its glosses turned round, in other words; models of it."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from signloom.corpus.manifest import Clip, write_manifest
from signloom.features.glosses import GlossKind
from signloom.features.sources import GlossSource
from signloom.features.targets import TokenizeOptions, build_glosses, build_targets
from signloom.models.seq2seq import ModelOptions
from signloom.training.data import TrainingData
from signloom.training.train import RunOptions
from signloom.translation.translator import Translator
from tests import tiny

WORDS = {
    "HAUS": "maison",
    "REGEN": "pluie",
    "SONNE": "soleil",
    "WIND": "vent",
    "NORD": "nord",
    "KALT": "froid",
}
MODEL = dataclasses.replace(tiny.MODEL, source="glosses")


def clips(train: int = 12, dev: int = 4, test: int = 4) -> list[Clip]:
    """Return clips of one to four glosses, none twice."""
    rng, names = random.Random(1), sorted(WORDS)
    lines: dict[tuple[str, ...], None] = {}
    while len(lines) < train + dev + test:
        lines[tuple(rng.choices(names, k=rng.randint(1, 4)))] = None
    splits = ["train"] * train + ["dev"] * dev + ["test"] * test
    return [
        Clip(
            clip_id=f"{split}{number}",
            video=None,
            signer=split,
            split=split,
            text=" ".join(WORDS[name] for name in reversed(line)),
            gloss=" ".join(line),
        )
        for number, (line, split) in enumerate(zip(lines, splits, strict=True))
    ]


def tokenize_options(kind: GlossKind, tokenizer: str = "") -> TokenizeOptions:
    """Return the section `tokenize_targets`."""
    return TokenizeOptions(
        vocabulary="pruned", max_tokens=60, ctc="none", source=kind, tokenizer=tokenizer
    )


def training_data(
    kind: GlossKind = "glosses", corpus: Sequence[Clip] = (), tokenizer_path: str = ""
) -> TrainingData:
    """Return what a run on glosses reads."""
    corpus = corpus or clips()
    tokenizer, labels, targets = build_targets(corpus, tokenize_options(kind, tokenizer_path))
    glosses = build_glosses(corpus, kind, tokenizer)
    train, dev = (
        GlossSource(vocabulary=glosses).clips([t for t in targets if t.split == split])
        for split in ("train", "dev")
    )
    return TrainingData(train=train, dev=dev, tokenizer=tokenizer, labels=labels)


def run_options(model: ModelOptions = MODEL, **changes: object) -> RunOptions:
    """Return options for a tiny run; keyword arguments change the section `train`."""
    plain = tiny.run_options(**{"ctc_weight": 0.0, **changes})
    return dataclasses.replace(plain, model=model)


def untrained(data: TrainingData, model_options: ModelOptions = MODEL) -> Translator:
    """Return a real, untrained model of the data's glosses."""
    checkpoint = tiny.checkpoint(data.tokenizer, seed=0, model=model_options, source=data.source)
    return Translator(checkpoint, torch.device("cpu"))


def write_corpus(folder: Path, corpus: Sequence[Clip] = ()) -> Path:
    """Write a text corpus; return its manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder / "manifest.tsv", list(corpus or clips()))
    return folder / "manifest.tsv"
