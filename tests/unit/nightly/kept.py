"""A store with a real version in it: a tiny checkpoint, what `evaluate` wrote of it, its facts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from signloom.checkpoint import Checkpoint, build_from_spec, save_checkpoint
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.results import write_evaluation
from signloom.features.targets import Target
from signloom.features.tokenizer import Tokenizer
from signloom.nightly.store import ModelStore
from signloom.translation.translator import Translator
from tests.unit.evaluation.world import OPTIONS, TRAIN, history, sequence, targets, untrained

SPLITS = ("train", "dev", "test")


def facts(clips: Sequence[Target]) -> dict[str, Any]:
    """What a night writes down about the data of a version."""
    return {
        "git_commit": "c0ffee",
        "dvc_lock": "10c4",
        "parent": None,
        "batches": ["2026-11-14", "2026-11-21"],
        "clips": {s: [t.clip_id for t in clips if t.split == s] for s in SPLITS},
        "signers": {s: dict(Counter(t.signer for t in clips if t.split == s)) for s in SPLITS},
        "hours": {"train": 0.5, "dev": 0.1, "test": 0.1},
    }


def keep_version(
    root: Path, clips: Sequence[Target] | None = None, *, models: str = "models", **more: object
) -> ModelStore:
    """Add a version to a store.

    Args:
        root: Of the project; gets `checkpoint/` and `reports/` besides.
        clips: Those of `world` if not given.
        models: The store, from the root.
        more: Facts.
    """
    clips = targets() if clips is None else clips
    plain = untrained()
    tokenizer = Tokenizer.build(TRAIN, "pruned")
    store = ModelStore(root / models)
    torch.manual_seed(len(store.versions()))
    model = build_from_spec(plain.spec, tokenizer).eval()
    made = Checkpoint(spec=plain.spec, model=model, tokenizer=tokenizer)
    save_checkpoint(root / "checkpoint", made)
    sequences = {t.clip_id: sequence(i, frames=8 + i) for i, t in enumerate(clips)}
    evaluation = evaluate(Translator(made, torch.device("cpu")), clips, sequences, OPTIONS)
    write_evaluation(root / "reports", evaluation, history(root))
    store.add(root / "checkpoint", root / "reports/evaluation", {**facts(clips), **more})
    return store
