import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from signloom.checkpoint import (
    Checkpoint,
    CheckpointSpec,
    build_from_spec,
    load_checkpoint,
    save_checkpoint,
)
from signloom.corpus.landmarks import HANDS_POSE
from signloom.errors import UserError
from signloom.features.sources import LandmarkSource
from signloom.features.targets import CtcLabels
from signloom.features.tokenizer import Tokenizer
from tests import tiny


def spec_of(**changes: Any) -> CheckpointSpec:
    return CheckpointSpec(
        model=dataclasses.replace(tiny.MODEL, **changes),
        features=tiny.FEATURES,
        source=LandmarkSource(layout=HANDS_POSE, extractor={}),
        ctc=CtcLabels(kind="glosses", names=("A", "B")),
        provenance={},
    )


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_a_loaded_checkpoint_is_the_saved_one(tmp_path: Path, family: str, is_tied: bool) -> None:
    spec = spec_of(family=family, tied_embeddings=is_tied)
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned")
    saved = Checkpoint(spec=spec, model=build_from_spec(spec, tokenizer), tokenizer=tokenizer)
    save_checkpoint(tmp_path / "checkpoint", saved)
    assert len({path.stat().st_mode for path in (tmp_path / "checkpoint").iterdir()}) == 1
    loaded = load_checkpoint(tmp_path / "checkpoint", torch.device("cpu"))
    assert loaded.spec == spec
    weights = loaded.model.state_dict()
    assert weights.keys() == saved.model.state_dict().keys()
    assert all(torch.equal(weights[name], w) for name, w in saved.model.state_dict().items())


def test_a_model_of_tokens_cannot_be_fed_with_landmarks() -> None:
    with pytest.raises(UserError, match=r"model\.source is tokens"):
        build_from_spec(spec_of(source="tokens"), Tokenizer.build(tiny.SENTENCES, "pruned"))
