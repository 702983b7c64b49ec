import dataclasses
import os
import time
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
from tests.processes import fork


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


def save_marked(folder: Path, mark: int) -> None:
    """Write a checkpoint whose provenance and weights say the same number."""
    spec = dataclasses.replace(spec_of(), provenance={"mark": mark})
    tokenizer = Tokenizer.build(tiny.SENTENCES, "pruned")
    model = build_from_spec(spec, tokenizer)
    with torch.no_grad():
        for weights in model.parameters():
            weights.fill_(mark)
    save_checkpoint(folder, Checkpoint(spec=spec, model=model, tokenizer=tokenizer))


def marks(checkpoint: Checkpoint) -> set[float]:
    weights = checkpoint.model.state_dict().values()
    found = {float(value) for w in weights for value in (w.min(), w.max())}
    return found | {float(checkpoint.spec.provenance["mark"])}


def test_a_checkpoint_that_is_replaced_while_it_is_loaded_is_a_mixture(tmp_path: Path) -> None:
    """Another process writes one model after the other; its end ends the test."""
    folder = tmp_path / "checkpoint"
    save_marked(folder, 0)

    def write() -> None:
        for mark in range(1, 13):
            save_marked(folder, mark)
            time.sleep(0.01)

    writer, seen, ended = fork(write), list[float](), (0, 0)
    while ended == (0, 0):
        ended = os.waitpid(writer, os.WNOHANG)
        found = marks(load_checkpoint(folder, torch.device("cpu")))
        assert len(found) == 1, "the options of one model, the weights of another"
        seen += found
    assert ended == (writer, 0)
    assert (seen[-1], seen) == (12, sorted(seen))


def test_a_model_of_tokens_cannot_be_fed_with_landmarks() -> None:
    with pytest.raises(UserError, match=r"model\.source is tokens"):
        build_from_spec(spec_of(source="tokens"), Tokenizer.build(tiny.SENTENCES, "pruned"))
