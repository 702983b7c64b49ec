"""A project on disk with untrained versions of a model: for what translates with real ones."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.shards import write_shards
from signloom.features.targets import Target, write_targets
from signloom.features.tokenizer import Tokenizer
from signloom.nightly.candidates import GateInputs
from signloom.nightly.store import ModelStore
from tests import tiny
from tests.models_on_disk import write_checkpoint
from tests.unit.nightly.said import OPTIONS, SCORE

EXTRACTOR = {"detector": "tiny"}
SPLITS = {"train": 4, "dev": 4, "test": 8}
GATE = replace(OPTIONS, slice_min_clips=4, seeds=2)


def write_project(root: Path, *, extractor: dict[str, str] = EXTRACTOR, shift: int = 0) -> None:
    """Write landmarks and targets where the stages do; `shift` gives clips other landmarks."""
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned")
    targets = [
        Target(
            clip_id=f"{split}{number}",
            split=split,
            signer=split,
            text=tiny.SENTENCES[number % 4],
            ids=[tokenizer.bos, *tokenizer.encode(tiny.SENTENCES[number % 4]), tokenizer.eos],
            gloss="",
            labels=[],
        )
        for split, count in SPLITS.items()
        for number in range(count)
    ]
    (root / "data").mkdir(parents=True, exist_ok=True)
    write_targets(root / "data/tokens/targets.parquet", targets)
    sequences = {
        target.clip_id: tiny.halve(tiny.sequence(number + shift, frames=10 + number % 3))
        for number, target in enumerate(targets)
    }
    write_shards(
        root / "data/landmarks/shards",
        {clip: len(sequence.points) for clip, sequence in sequences.items()},
        sequences.__getitem__,
        layout=HANDS_POSE,
        extractor=json.dumps(extractor),
        frames_per_shard=1000,
    )


def add_version(root: Path, *, d_model: int, beam_size: int = 1, seeds: int = 2) -> int:
    """Keep an untrained model of some width as the next version."""
    run = root / f"run{d_model}-{beam_size}"
    for seed in range(seeds):
        place = run / "checkpoint" / (f"seeds/{seed + 1}" if seed else "")
        write_checkpoint(place, extractor=EXTRACTOR, d_model=d_model, d_ff=16 + 8 * seed)
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
