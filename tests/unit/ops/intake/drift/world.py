"""A corpus of people who wave: old clips of four signers, and a batch of whoever is asked for."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import measure_quality, write_quality
from signloom_ops.intake.drift.check import check_drift
from signloom_ops.intake.drift.findings import DriftReport, Finding
from signloom_ops.options import DriftOptions
from tests.tiny import write_clips

OPTIONS = DriftOptions()
WORDS = ("chat", "livre", "maison", "voiture", "jardin", "pomme", "route", "fleuve", "soleil")
OLD = ("anna", "bela", "cora", "dora")
FPS = 25.0

Change = Callable[[LandmarkSequence], LandmarkSequence]


@dataclasses.dataclass(frozen=True)
class Taken:
    """A clip with its landmarks."""

    clip: Clip
    sequence: LandmarkSequence


def wave(seed: int, *, seconds: float = 2.0) -> LandmarkSequence:
    """One hand goes round and round, the other one trembles along at a third of its way."""
    rng = np.random.default_rng(seed)
    frames = round(seconds * FPS)
    points = np.zeros((frames, HANDS_POSE.points, 3), np.float32)
    palm = np.linspace(0, 0.1, 21)[:, None] * np.array([0.2, -1.0, 0.0])
    turn = 2 * np.pi * rng.normal(1.0, 0.1) * np.arange(frames) / FPS
    for hand, x in (("left_hand", 0.62), ("right_hand", 0.38)):
        size = 0.08 if hand == "right_hand" else 0.08 * rng.uniform(0.2, 0.45)
        middle = np.array([x, 0.7, 0.0]) + rng.normal(0, 0.01, 3)
        round_it = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1) * size
        points[:, HANDS_POSE.slice(hand)] = (middle + round_it)[:, None] + palm
    points[:, HANDS_POSE.slice("pose")] = (0.5, 0.9, 0.0)
    points[:, HANDS_POSE.index("pose", "nose")] = (0.5, 0.25, 0.0)
    points[:, HANDS_POSE.index("pose", "left_shoulder")] = (0.65, 0.45, 0.0)
    points[:, HANDS_POSE.index("pose", "right_shoulder")] = (0.35, 0.45, 0.0)
    present = np.ones((frames, len(HANDS_POSE.groups)), np.bool_)
    return LandmarkSequence(points=points, present=present, fps=FPS, width=200, height=200)


def take(signer: str, count: int, *, first: int = 0, change: Change | None = None) -> list[Taken]:
    """Clips of one signer, two to eight words each, a third of a second a word."""
    recordings = []
    for number in range(first, first + count):
        seed = 1000 * sum(signer.encode()) + number
        rng = np.random.default_rng(seed)
        length = 2 + number % 7
        text = " ".join(rng.choice(WORDS, length))
        sequence = wave(seed, seconds=length / 3 + rng.uniform(0.4, 0.6))
        name = f"{signer}-{number:03}"
        clip = Clip(clip_id=name, video=None, text=text, signer=signer, split="train")
        recordings.append(Taken(clip, change(sequence) if change else sequence))
    return recordings


def old_clips() -> list[Taken]:
    """Eight clips of each of four right-handed signers."""
    return [recording for signer in OLD for recording in take(signer, 8)]


def write_landmarks(folder: Path, recordings: Sequence[Taken]) -> None:
    """Write what `extract` writes."""
    folder.mkdir(parents=True, exist_ok=True)
    sequences = {recording.clip.clip_id: recording.sequence for recording in recordings}
    write_clips(folder / SHARDS_NAME, sequences)
    write_quality(folder / QUALITY_NAME, [measure_quality(*row) for row in sequences.items()])


def compare(
    folder: Path,
    new: Sequence[Taken],
    old: Sequence[Taken] | None = None,
    options: DriftOptions = OPTIONS,
) -> DriftReport:
    """Check new clips against old ones."""
    everything = [*(old_clips() if old is None else old), *new]
    write_landmarks(folder, everything)
    return check_drift(
        [recording.clip for recording in everything],
        [recording.clip.clip_id for recording in new],
        batch="night",
        landmarks=folder,
        options=options,
    )


def finding(report: DriftReport, check: str) -> Finding:
    """The one finding of a check."""
    (sought,) = (candidate for candidate in report.findings if candidate.check == check)
    return sought


def troubles(report: DriftReport) -> dict[str, str]:
    """Level of the checks that are not fine."""
    return {finding.check: finding.level for finding in report.findings if finding.level != "ok"}


def reword(recordings: Sequence[Taken], texts: Sequence[str]) -> list[Taken]:
    """The same videos with other sentences."""
    return [
        dataclasses.replace(recording, clip=dataclasses.replace(recording.clip, text=text))
        for recording, text in zip(recordings, texts, strict=True)
    ]
