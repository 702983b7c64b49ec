"""Untrained checkpoints in a folder, for tests of what reads them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from signloom.checkpoint import Checkpoint, CheckpointSpec, build_from_spec, save_checkpoint
from signloom.corpus.landmarks import HANDS_POSE, Layout
from signloom.extraction.extract import extractor_fingerprint
from signloom.features.features import FeatureOptions
from signloom.features.sources import LandmarkSource
from signloom.features.targets import NO_LABELS
from signloom.features.tokenizer import Tokenizer
from tests import tiny
from tests.extraction import OPTIONS


def write_checkpoint(
    folder: Path,
    *,
    extractor: dict[str, Any] | None = None,
    layout: Layout = HANDS_POSE,
    features: FeatureOptions = tiny.FEATURES,
    **changes: object,
) -> Path:
    """A tiny model with drawn weights; without an extractor, one of videos."""
    spec = CheckpointSpec(
        model=dataclasses.replace(tiny.MODEL, **changes),  # type: ignore[arg-type]
        features=features,
        source=LandmarkSource(
            layout=layout,
            extractor=extractor or json.loads(extractor_fingerprint(OPTIONS.detector_options)),
        ),
        ctc=NO_LABELS,
        provenance={"made_by": "tests"},
    )
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned")
    torch.manual_seed(1)
    model = build_from_spec(spec, tokenizer)
    save_checkpoint(folder, Checkpoint(spec=spec, model=model, tokenizer=tokenizer))
    return folder
