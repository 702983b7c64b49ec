"""Versions on disk with real, untrained models in them: for what translates or describes them."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from signloom.checkpoint import WEIGHTS, Checkpoint, build_from_spec, save_checkpoint
from signloom.corpus.manifest import SPLITS
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.results import write_evaluation
from signloom.features.targets import NO_LABELS, CtcLabels, Target, write_targets
from signloom.features.tokenizer import Tokenizer
from signloom.files import hash_file
from signloom.translation.confidence import CONFIDENCE, Confidence, hash_seeds, write_confidence
from signloom.translation.translator import Translator
from signloom_ops.nightly.comparison import GateInputs
from signloom_ops.nightly.store import ModelStore
from tests import tiny
from tests.tiny import write_checkpoint
from tests.unit.evaluation import world
from tests.unit.ops.nightly.systems import OPTIONS, SCORE

EXTRACTOR = {"detector": "tiny"}
COUNTS = {"train": 4, "dev": 4, "test": 8}  # clips of the project
GATE = replace(OPTIONS, slice_min_clips=4, seeds=2)


def write_project(
    root: Path, *, extractor: dict[str, str] = EXTRACTOR, shift: int = 0, glosses: bool = False
) -> None:
    """Write landmarks, others for each `shift`, and targets where the stages do."""
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned")

    def target(number: int, split: str) -> Target:
        text = tiny.SENTENCES[number % 4]
        ids = [tokenizer.bos, *tokenizer.encode(text), tokenizer.eos]
        gloss = text if glosses else ""
        return Target(
            clip_id=f"{split}{number}",
            split=split,
            signer=split,
            text=text,
            ids=ids,
            gloss=gloss,
            labels=[],
        )

    targets = [target(n, split) for split, count in COUNTS.items() for n in range(count)]
    (root / "data").mkdir(parents=True, exist_ok=True)
    write_targets(root / "data/tokens/targets.parquet", targets)
    sequences = {
        target.clip_id: tiny.halve(tiny.sequence(number + shift, frames=10 + number % 3))
        for number, target in enumerate(targets)
    }
    tiny.write_clips(root / "data/landmarks/shards", sequences, json.dumps(extractor))


def add_version(
    root: Path, *, d_model: int, beam_size: int = 1, seeds: int = 2, ctc: CtcLabels = NO_LABELS
) -> int:
    """Keep a model of some width as the next version of the project; its evaluation is hollow."""
    run = root / f"run{d_model}-{beam_size}"
    for seed in range(seeds):
        folder = run / "checkpoint" / (f"seeds/{seed + 1}" if seed else "")
        write_checkpoint(folder, extractor=EXTRACTOR, d_model=d_model, d_ff=16 + 8 * seed, ctc=ctc)
    (run / "reports/evaluation").mkdir(parents=True)
    search = asdict(tiny.decoding(beam_size=beam_size, max_tokens=6))
    scores = {"decoding": search, "options": {"precision": "float32"}}
    (run / "reports/evaluation/scores.json").write_text(json.dumps(scores))
    store = ModelStore(root / "data/models")
    return store.add(run / "checkpoint", run / "reports/evaluation", {})


def inputs(root: Path, **changes: object) -> GateInputs:
    """What the gate reads of the project."""
    plain = GateInputs(
        shards=root / "data/landmarks/shards",
        targets=root / "data/tokens/targets.parquet",
        batches=[],
        score=SCORE,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def measure_as_one(checkpoint: Path, folder: Path) -> None:
    """Write into a folder the confidence of a checkpoint whose seeds were measured together."""
    measured = Confidence(
        weights=hash_file(checkpoint / WEIGHTS),
        unsure_below=0.5,
        levels=(),
        train=None,
        seeds=hash_seeds(checkpoint),
    )
    write_confidence(folder / CONFIDENCE, measured)


def add_evaluated_version(
    root: Path, clips: Sequence[Target] | None = None, *, models: str = "models", **more: object
) -> ModelStore:
    """Add a version with a real evaluation of some clips to a store; keywords are facts of it."""
    clips = world.targets() if clips is None else clips
    plain = world.untrained()
    tokenizer = Tokenizer.build(world.TRAIN, "pruned")
    store = ModelStore(root / models)
    torch.manual_seed(len(store.versions()))
    model = build_from_spec(plain.spec, tokenizer).eval()
    checkpoint = Checkpoint(spec=plain.spec, model=model, tokenizer=tokenizer)
    save_checkpoint(root / "checkpoint", checkpoint)
    sequences = {t.clip_id: world.sequence(i, frames=8 + i) for i, t in enumerate(clips)}
    translator = Translator(checkpoint, torch.device("cpu"))
    evaluation = evaluate(translator, clips, sequences, world.OPTIONS)
    write_evaluation(root / "reports", evaluation, world.history(root))
    store.add(root / "checkpoint", root / "reports/evaluation", {**facts(clips), **more})
    return store


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
