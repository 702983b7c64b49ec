"""Drawn test sets and what systems of a wanted quality say about them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from signloom.evaluation.metrics import ScoreOptions
from signloom.features.targets import Target
from signloom_ops.nightly.gate import Decision, GateClips, GateOptions, Translations, decide

SCORE = ScoreOptions(tokenizer="13a", resamples=300, seed=1)
OPTIONS = GateOptions(
    seeds=3,
    metric="chrf",
    level=0.05,
    slice_min_clips=15,
    slice_tolerance=3.0,
)
WORDS = ("chat", "livre", "maison", "voiture", "jardin", "pomme", "route", "fleuve", "soleil")
SIGNERS = ("anna", "bela", "cora")


def targets(count: int, *, prefix: str = "clip", seed: int = 0) -> list[Target]:
    """Test clips of three signers, two or seven words each."""
    rng = np.random.default_rng(seed)
    return [
        Target(
            clip_id=f"{prefix}{number:03}",
            split="test",
            signer=SIGNERS[number % 3],
            text=" ".join(rng.choice(WORDS, 2 if number % 2 else 7)),
            ids=[0, 3, 1],
            gloss="",
            labels=[],
        )
        for number in range(count)
    ]


def system(
    clips: Sequence[Target],
    wrong: float,
    *,
    version: int = 2,
    seeds: int = 3,
    only: str = "",
    draw: int = 0,
) -> Translations:
    """A system that replaces a share of the words; of one signer alone, if named."""
    rng = np.random.default_rng([draw, version])

    def spoil(clip: Target) -> str:
        share = wrong if only in ("", clip.signer) else 0.0
        words = [
            str(rng.choice(WORDS)) if rng.random() < share else word for word in clip.text.split()
        ]
        return " ".join(words)

    texts = {clip.clip_id: [spoil(clip) for _ in range(seeds)] for clip in clips}
    return Translations(version=version, texts=texts, decoding={"beam_size": 1})


def gate_clips(test: Sequence[Target], **changes: Any) -> GateClips:
    """The clips of a decision, without newest ones and floors unless they are given."""
    return dataclasses.replace(GateClips(test=test, missing=[], newest=[], floors={}), **changes)


def rule(decision: Decision, name: str) -> str:
    """What became of a rule."""
    (outcome,) = (rule.result for rule in decision.rules if rule.name == name)
    return outcome


def decided(
    champion: Translations | None,
    challenger: Translations,
    clips: GateClips,
    *,
    refused: int = 0,
    **changes: Any,
) -> Decision:
    """Decide with `OPTIONS`, changed by the keywords."""
    options = dataclasses.replace(OPTIONS, **changes)
    return decide(champion, challenger, clips, options, SCORE, refused=refused)
