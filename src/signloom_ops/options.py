"""Parameters of operations: the file ops.yaml, next to params.yaml.

No stage reads them. Each has a default, so the file holds what a project decides for itself, or is
missing; docs/ops/nights.md and docs/ops/deliveries.md list them.
"""

import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from signloom.config import (
    Count,
    Gone,
    NonNegative,
    checked_dataclass,
    load_params,
    parse_options,
)
from signloom.errors import UserError
from signloom.paths import OPS

Start = Literal["champion", "scratch"]


@checked_dataclass
class IngestOptions:
    """Section `ingest`: what a new clip must be like to come into the corpus."""

    GONE: ClassVar = {
        name: Gone(off, "its check left in version 0.3; remove it")
        for name, off in {"script_share": 0.8, "length_factor": 3.0}.items()
    }

    min_duration_s: NonNegative = 0.3
    """Shortest clip accepted, seconds."""
    max_duration_s: float = 120.0
    """Longest clip accepted, seconds, above the shortest."""
    min_side: Count = 120
    """Fewest pixels of the shorter side of the upright picture."""
    max_side: int = 4096
    """Most pixels of the longer side."""
    settle_s: NonNegative = 10.0
    """Seconds for which a file must not have changed: a younger one may be on its way."""
    shares: tuple[NonNegative, NonNegative, NonNegative] = (80.0, 10.0, 10.0)
    """Shares of train, dev and test that the dealing of new signers approaches; any scale."""

    def __post_init__(self) -> None:
        if self.max_duration_s <= self.min_duration_s:
            raise ValueError(
                f"max_duration_s: found {self.max_duration_s}, expected more than min_duration_s "
                f"({self.min_duration_s})"
            )
        if self.max_side < self.min_side:
            raise ValueError(
                f"max_side: found {self.max_side}, expected at least min_side ({self.min_side})"
            )
        if self.shares[0] == 0:
            raise ValueError("shares: found 0 for train, expected more")


@checked_dataclass
class DriftLimit:
    """From which statistic on a check refuses a delivery."""

    GONE: ClassVar = {"warn": Gone(math.nan, "a warning changes nothing, so its limit is fixed")}

    stop: NonNegative | None
    """None: never."""


@checked_dataclass
class DriftOptions:
    """Section `drift`: the limits of the checks that can refuse a delivery.

    Every statistic is 0 or more (a factor 1 or more), and more is worse. From which value on a
    check warns, and the checks that only warn, are in `intake/drift/check.py`.
    """

    GONE: ClassVar = {
        name: Gone(off, "it is a constant since version 0.3; remove it")
        for name, off in {
            "min_clips": 5,
            "old_clips": 1000,
            "alpha": 0.01,
            "left_handers": 0.1,
            "colour_clips": 20,
            "colour_frames": 5,
        }.items()
    } | {
        name: Gone(off, "its check left in version 0.3; remove it")
        for name, off in {
            "signer_share": {"warn": 0.5, "stop": None},
            "tokens": {"warn": 0.5, "stop": None},
            "fps": {"warn": 1.6, "stop": None},
            "pixels": {"warn": 1.5, "stop": None},
            "byte_tokens": {"warn": 0.2, "stop": 0.6},
            "lost_hand": {"warn": 0.4, "stop": None},
            "sides": {"warn": 0.2, "stop": 0.5},
            "colour": {"warn": 0.05, "stop": 0.2},
            "mirrored_people": {"warn": 5.0, "stop": 100.0},
            "movement": {"warn": 3.0, "stop": 8.0},
        }.items()
    }

    unread: DriftLimit = DriftLimit(stop=0.5)
    """Share of the new clips that have no landmarks."""
    seconds: DriftLimit = DriftLimit(stop=4.0)
    """Factor between the median durations."""
    pace: DriftLimit = DriftLimit(stop=3.0)
    """Factor between the median numbers of tokens a second."""
    pairing: DriftLimit = DriftLimit(stop=2.0)
    """Factor between how much durations stray from what the lengths of the sentences promise."""
    new_words: DriftLimit = DriftLimit(stop=0.6)
    """Share of words that the old text lacks, beyond what one more old clip would bring."""
    lost_hands: DriftLimit = DriftLimit(stop=0.6)
    """Share of the usual frames with a hand that are missing."""
    speed: DriftLimit = DriftLimit(stop=4.0)
    """Shift of the speed of the hands, in spreads: how much signers differ from each other."""
    mirrored: DriftLimit = DriftLimit(stop=5.0)
    """For known signers: standard errors by which the preferred hand has changed sides."""


@checked_dataclass
class GateOptions:
    """Section `gate`: what a challenger must show."""

    GONE: ClassVar = {
        name: Gone(off, "its rule left in version 0.3; remove it")
        for name, off in {"equal_margin": 1.0, "saving": 0.1}.items()
    }

    seeds: Annotated[int, Field(ge=1, le=1000)] = 3
    """Models of the challenger, of different seeds, at least."""
    metric: Literal["auto", "chrf", "bleu4", "exact", "gloss_wer"] = "auto"
    """That every rule is about. auto: exact match of single words, gloss_wer where the texts are
    the glosses, else chrF."""
    level: Annotated[float, Field(ge=0.002, le=0.5)] = 0.05
    """The chance that a year's nights promote a model that is not better."""
    slice_min_clips: Annotated[int, Field(ge=2)] = 20
    """Smaller groups of clips are shown and not judged."""
    slice_tolerance: Annotated[float, Field(ge=0, le=100)] = 3.0
    """Refuse if a group significantly loses more than this many points."""


@checked_dataclass
class OpsOptions:
    """The whole file."""

    GONE: ClassVar = {
        "hook": Gone("", "let what starts the night run it (docs/ops/nights.md)"),
    }

    inbox: Path = Path("data/inbox")
    """Where new deliveries lie, from the project's root; it may be missing."""
    start: Start = "champion"
    """The weights that training starts from: the champion's, or none."""
    remote: str = ""
    """DVC remote to pull from first and push to at the end; empty: none."""
    commit: bool = False
    """Commit what the night wrote to git."""
    ingest: IngestOptions = IngestOptions()
    drift: DriftOptions = DriftOptions()
    gate: GateOptions = GateOptions()


def load_ops(params: Path) -> OpsOptions:
    """Read the parameters of operations of a project.

    Args:
        params: Its params.yaml; ops.yaml lies next to it, or is missing.

    Raises:
        UserError: If a key is unknown or a value is wrong, all in one message.
    """
    path = params.with_name(OPS.name)
    if params.exists() and "retrain" in load_params(params, may_be_empty=True):
        raise UserError(
            f"{params}: its section `retrain` is {path.name} now, in the same folder: move its "
            "keys there, to the left margin, and remove the section"
        )
    params_of_ops = load_params(path, may_be_empty=True) if path.exists() else {}
    return parse_options(params_of_ops, OpsOptions, where=f"{path}: ")
