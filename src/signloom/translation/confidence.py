"""Confidence: what can be said of a translation without knowing the right one.

Two things, both measured by `evaluate` and kept in `confidence.json`: how many of dev's
translations with such a score were right, and whether the clip is like the training clips
(`familiarity`). docs/translation.md describes both.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from signloom.checkpoint import WEIGHTS
from signloom.config import (
    Count,
    Natural,
    Share,
    check_version,
    checked_dataclass,
    parse_options,
    read_json,
)
from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.features import FloatArray
from signloom.features.sources import SourceSequence
from signloom.files import hash_file, to_sealed, write_file
from signloom.paths import EVALUATION, SEEDS_NAME
from signloom.translation.familiarity import TrainClips
from signloom.translation.linear_classifier import LinearClassifier
from signloom.translation.options import DecodingOptions, SignSearch
from signloom.translation.search import Hypothesis
from signloom.translation.word_signs import SignCoverage, WordOfSign

logger = logging.getLogger(__name__)
CONFIDENCE = "confidence.json"
FORMAT_VERSION = 1
LEAST_LIMIT = 0.5  # an even chance that every word is right; `calibrate.choose_limit` decides
UNSURE, UNFAMILIAR = "unsure", "not like anything this model has seen"
NOT_UNDERSTOOD = "not understood"  # what is said of such a clip instead of a sentence
NOT_CALIBRATED = "not calibrated"
HINT = "`dvc repro evaluate` measures it"

LEVEL_CLIPS = 4  # the least that a level of confidence is counted from
SIGN_SHARE = 0.2  # 0.1 to 1 part right from wrong about as well


@checked_dataclass
class Level:
    """The translations of dev with scores in one range, and how many of them were right."""

    score: float  # the lowest; the first level holds for less, too
    clips: Count
    right: Natural  # in every word
    confidence: Share  # (right + 1) / (clips + 2): few clips prove little
    low: Share  # 95 % interval of the share that is right (Wilson 1927)
    high: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Check of one translation. Fields that were not measured are None."""

    confidence: float | None  # share of dev's translations with such a score that were right
    is_unsure: bool  # whether that is less than `unsure_below`
    unlike: tuple[str, ...] | None
    """In what the clip is unlike train's, in words; empty: in nothing."""

    @property
    def word(self) -> str:
        """`UNFAMILIAR`, `UNSURE`, or nothing."""
        return UNFAMILIAR if self.unlike else UNSURE if self.is_unsure else ""

    @property
    def note(self) -> str:
        """What is said of the translation, with the reason, or that nothing was measured."""
        if self.unlike:
            return f"{UNFAMILIAR}: {'; '.join(self.unlike)}"
        if self.confidence is None:
            return NOT_CALIBRATED
        right = f"{100 * self.confidence:.0f} % of dev's translations with such a score were right"
        return f"{UNSURE}: {right}" if self.is_unsure else ""

    @property
    def usable_confidence(self) -> float | None:
        """The confidence; None for an unfamiliar clip, which is like none of dev."""
        return None if self.unlike else self.confidence

    def to_map(self) -> dict[str, Any]:
        """Return the fields of JSON; docs/translation.md describes them."""
        confidence = None if self.usable_confidence is None else round(self.usable_confidence, 3)
        familiar = None if self.unlike is None else not self.unlike
        return {"confidence": confidence, "familiar": familiar, "note": self.note}


NOT_CHECKED = Check(confidence=None, is_unsure=False, unlike=None)


@checked_dataclass
class Confidence:
    """What `evaluate` measured of a model, to check its translations by."""

    weights: str  # SHA-256 of the checkpoint's weights: it holds for no others
    unsure_below: Share  # a translation with less confidence is unsure
    levels: tuple[Level, ...]  # by score, rising; none without dev clips
    train: TrainClips | None  # None: of glosses
    decoding: DecodingOptions | None = None  # the search that was measured; older files lack it
    signs: SignSearch | None = None  # likewise, of signs; None where the model reads none
    words: tuple[WordOfSign, ...] = ()  # of train's sentences, and the signs that they translate
    signs_said: SignCoverage = field(
        default_factory=SignCoverage
    )  # by which sentences are held to signs
    seeds: dict[str, str] = field(default_factory=dict)
    """`hash_seeds` of the checkpoint of a measured ensemble; empty: the first seed was measured."""
    linear: LinearClassifier | None = None  # with which a model of single signs is read

    def check(
        self, hypothesis: Hypothesis, sequence: SourceSequence, encoding: FloatArray | None
    ) -> Check:
        """Check one translation.

        Args:
            encoding: Of the clip, shape (D,); None: the clip is not compared.
        """
        level = self.level(plain_score(hypothesis))
        unlike = None
        if self.train and encoding is not None and isinstance(sequence, LandmarkSequence):
            unlike = self.train.differences(sequence, encoding)
        return Check(
            confidence=level.confidence if level else None,
            is_unsure=level is not None and level.confidence < self.unsure_below,
            unlike=unlike,
        )

    def level(self, score: float) -> Level | None:
        """Return the level of a score; None where there is none."""
        reached = [level for level in self.levels if level.score <= score]
        return reached[-1] if reached else next(iter(self.levels), None)


def plain_score(hypothesis: Hypothesis) -> float:
    """Return what a translation is trusted by, which no option of the search changes.

    It is the mean log-probability of a token, less a share of what the signs say against it.
    """
    mean = hypothesis.log_prob / max(len(hypothesis.tokens), 1)
    return mean - SIGN_SHARE * hypothesis.sign_cost


def fit_levels(scores: Sequence[float], right: Sequence[bool]) -> tuple[Level, ...]:
    """Return the levels of confidence: isotonic regression over groups of a few clips.

    Neighbours in score are pooled until higher scores are right more often (pool adjacent
    violators, Ayer et al. 1955).
    """
    groups: list[list[tuple[float, bool]]] = []
    for pair in sorted(zip(scores, right, strict=True)):
        if not groups or (len(groups[-1]) >= LEVEL_CLIPS and pair[0] > groups[-1][-1][0]):
            groups.append([])
        groups[-1].append(pair)
    if len(groups) > 1 and len(groups[-1]) < LEVEL_CLIPS:
        groups[-2:] = [groups[-2] + groups[-1]]
    levels: list[Level] = []
    for group in groups:
        level = _level(group[0][0], len(group), sum(is_right for _, is_right in group))
        while levels and levels[-1].confidence >= level.confidence:
            below = levels.pop()
            level = _level(below.score, below.clips + level.clips, below.right + level.right)
        levels.append(level)
    return tuple(levels)


def _level(score: float, clips: int, right: int) -> Level:
    low, high = wilson(clips, right)
    confidence = (right + 1) / (clips + 2)
    return Level(score=score, clips=clips, right=right, confidence=confidence, low=low, high=high)


def wilson(clips: int, right: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    z = 1.96
    share, spread = right / clips, z * z / clips
    middle = share + spread / 2
    half = z * ((share * (1 - share) + spread / 4) / clips) ** 0.5
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return max(low, 0.0), min(high, 1.0)


def write_confidence(path: Path, confidence: Confidence) -> None:
    """Write `confidence.json`; signs where there are some, as versions before 0.3 knew none."""
    content = {"format_version": FORMAT_VERSION, **asdict(confidence)}
    if confidence.train and not confidence.train.signs:
        del content["train"]["signs"]
    if not confidence.linear:
        del content["linear"]
    if (posture := content["train"] and content["train"]["posture"]) and not posture["signs"]:
        for name in ("signs", "held_out", "parts", "finer"):
            del posture[name]
    write_file(path, to_sealed(content))


def read_confidence(path: Path) -> Confidence:
    """Read `confidence.json`.

    Raises:
        UserError: If it is missing, damaged or of another version.
    """
    content = read_json(path, hint=HINT)
    check_version(path, content, FORMAT_VERSION, hint=HINT)
    values = {name: value for name, value in content.items() if name != "format_version"}
    return parse_options(values, Confidence, where=str(path))


def find_confidence(checkpoint: Path) -> Confidence | None:
    """Return what was measured of a checkpoint's weights; see `find_confidence_file`."""
    path = find_confidence_file(checkpoint)
    return read_confidence(path) if path else None


def seed_folders(checkpoint: Path) -> list[Path]:
    """Return the checkpoints of the further seeds, by number.

    Args:
        checkpoint: The folder of the first; `seeds/` in it has a folder for each other one.

    Raises:
        UserError: If a folder is not named by a number.
    """
    folders = [path for path in (checkpoint / SEEDS_NAME).glob("*") if path.is_dir()]
    wrong = sorted(path.name for path in folders if not path.name.isdigit())
    if wrong:
        raise UserError(
            f"{checkpoint / SEEDS_NAME}: expected folders named by their seed, found "
            f"{', '.join(wrong)}; remove them or train again"
        )
    return sorted(folders, key=lambda path: int(path.name))


def hash_seeds(checkpoint: Path) -> dict[str, str]:
    """Return the SHA-256 of the weights of each further seed, by name; empty of missing ones."""
    files = [folder / WEIGHTS for folder in seed_folders(checkpoint)]
    return {path.parent.name: hash_file(path) if path.is_file() else "" for path in files}


def find_confidence_file(checkpoint: Path) -> Path | None:
    """Return the file that was measured of a checkpoint's weights; None if there is none.

    It is searched in the folder, next to it, in the evaluation next to it (of a version that
    `signloom retrain` kept), and where `evaluate` writes it. What holds for other weights, or for
    other further seeds, is passed over.

    Raises:
        UserError: If a file is damaged or of another version.
    """
    beside = checkpoint.parent
    folders = (checkpoint, beside, beside / EVALUATION.name, EVALUATION)
    paths = [path for folder in folders if (path := folder / CONFIDENCE).is_file()]
    if not paths:
        return None
    weights = hash_file(checkpoint / WEIGHTS)
    for path in paths:
        confidence = read_confidence(path)
        if confidence.weights != weights:
            continue
        if not confidence.seeds or confidence.seeds == hash_seeds(checkpoint):
            return path
        logger.warning(
            "%s was measured of the first seed with %s as one model, which are not those in %s: "
            "nothing of it is used. Copy the whole checkpoint again, or `dvc repro evaluate`",
            path,
            ", ".join(confidence.seeds),
            checkpoint / SEEDS_NAME,
        )
    return None
