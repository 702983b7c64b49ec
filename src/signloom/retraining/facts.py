"""A finished training comes in, what made it goes out: the content of version.json."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from signloom.config import load_params
from signloom.corpus.manifest import SPLITS, Clip
from signloom.corpus.shards import read_clip_frames, read_clip_rates
from signloom.corpus.targets import read_targets
from signloom.reproducibility import git_state, hash_file, hash_folder
from signloom.retraining.plan import corpus_key

LANDMARKS = Path("data/landmarks")
SHARDS = LANDMARKS / "shards"
TARGETS = Path("data/tokens/targets.parquet")
DVC_LOCK = Path("dvc.lock")


def gather_facts(
    clips: Sequence[Clip], *, params: Path, parent: int | None, reasons: Sequence[str]
) -> dict[str, Any]:
    """Return what made the model that was just trained.

    Args:
        clips: The corpus.
        params: The parameters file.
        parent: Version whose weights it started from; None: from scratch.
        reasons: Why it was trained.
    """
    targets = {target.clip_id: target for target in read_targets(TARGETS)}
    frames, rates = read_clip_frames(SHARDS), read_clip_rates(SHARDS)
    used = [targets[name] for name in sorted(targets.keys() & frames.keys())]
    parts = {split: [one for one in used if one.split == split] for split in SPLITS}
    return {
        "created": datetime.now().astimezone().date().isoformat(),
        **git_state(),
        "parent": parent,
        "trigger": "; ".join(reasons),
        "dvc_lock": hash_file(DVC_LOCK) if DVC_LOCK.is_file() else None,
        "params": load_params(params),
        "data": {"landmarks": hash_folder(SHARDS), "targets": hash_file(TARGETS)},
        "corpus_key": corpus_key(clips),
        "batches": list(dict.fromkeys(clip.batch for clip in clips if clip.batch)),
        "clips": {split: [one.clip_id for one in part] for split, part in parts.items()},
        "rejected": sorted({clip.clip_id for clip in clips} - {one.clip_id for one in used}),
        "signers": {
            split: dict(sorted(Counter(one.signer for one in part).items()))
            for split, part in parts.items()
        },
        "frames": {split: sum(frames[o.clip_id] for o in part) for split, part in parts.items()},
        "hours": {
            split: round(math.fsum(frames[o.clip_id] / rates[o.clip_id] for o in part) / 3600, 4)
            for split, part in parts.items()
        },
    }
