"""Landmark quality on the page: warnings, tables and the worst clips."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from signloom.corpus.manifest import SPLITS
from signloom.corpus.quality import ClipQuality
from signloom.features.targets import Target
from signloom.grouping import group_pairs
from signloom.tables import read_columns

GROUP_LABELS = {
    "left_hand": "left",
    "right_hand": "right",
    "any_hand": "any hand",
    "pose": "body",
    "lips": "lips",
    "face_outline": "face",
}
MAX_NAMED = 5  # clips named in a warning
WORST = 6  # clips that are drawn
MAX_SIGNERS = 40  # signers in the table; those with the most warnings are shown


@dataclass(frozen=True, slots=True)
class QualityCheck:
    """One thing that may be wrong with a clip."""

    text: str  # of the warning, after the number of clips
    hint: str
    columns: tuple[str, ...]  # of the quality table; what is unknown never fails
    least: float = -math.inf
    most: float = math.inf

    def fails(self, row: ClipQuality) -> bool:
        """Whether a figure of the clip is beyond the limit."""
        return any(not self.least <= value <= self.most for value in _known(row, self.columns))


CHECKS = {  # of a clip, by a short name; docs/extraction.md lists the limits
    "few hands": QualityCheck(
        "a hand in less than 50 % of the frames",
        "look whether the hands are in the picture, lit and unblurred",
        ("any_hand",),
        least=0.5,
    ),
    "no body": QualityCheck(
        "the body or face in less than 90 % of the frames",
        "head and shoulders must be in the picture",
        ("pose", "lips", "face_outline"),
        least=0.9,
    ),
    "gap": QualityCheck(
        "no hand at all for more than 1.5 s",
        "cut rest and entering out with start_s and end_s",
        ("any_hand_gap_s",),
        most=1.5,
    ),
    "jitter": QualityCheck(
        "a hand that jitters by more than 1 palm lengths",
        "blur, low light or a false hand in the background",
        ("left_hand_jitter", "right_hand_jitter"),
        most=1.0,
    ),
    "swaps": QualityCheck(
        "left and right exchanged more than 2 times",
        "a second person in the picture, or try another extract.detector",
        ("side_swaps",),
        most=2,
    ),
    "coincident": QualityCheck(
        "both sides on one hand in more than 5 % of the frames",
        "try another extract.detector",
        ("coincident",),
        most=0.05,
    ),
    "slow": QualityCheck(
        "fewer than 12 frames a second",
        "fast signing gets lost between the frames",
        ("fps",),
        least=12.0,
    ),
    "small": QualityCheck(
        "a picture whose shorter side has less than 144 pixels",
        "take the recording in its full size",
        ("width", "height"),
        least=144,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityWarning:
    """How many clips fail a check."""

    name: str  # of the check
    clips: int
    share: float  # of all clips
    text: str
    hint: str
    named: list[str]  # some of the clips


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuality:
    """The clips of a split or a signer."""

    name: str
    clips: int
    minutes: float
    found: dict[str, float | None]  # share of the frames, by group of landmarks
    gap_s: float | None  # longest time without any hand
    jitter: float | None  # median of the clips, palm lengths
    swaps: float
    coincident: float | None  # share of the frames with both sides on one hand
    flagged: int  # clips with a warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What the quality table says about a corpus."""

    faults: dict[str, tuple[str, ...]]  # names of the checks that a clip fails, by clip id
    warnings: list[QualityWarning]  # the most frequent first
    worst: list[ClipQuality]
    by_split: list[GroupQuality]
    by_signer: list[GroupQuality]
    signer_of: dict[str, str]  # by clip id

    @property
    def flagged(self) -> int:
        """Clips with a warning."""
        return sum(map(bool, self.faults.values()))

    @property
    def signers_shown(self) -> list[GroupQuality]:
        """The rows of the table of signers: those with the largest share of warnings."""
        return sorted(self.by_signer, key=lambda row: -row.flagged / row.clips)[:MAX_SIGNERS]

    @property
    def group_labels(self) -> dict[str, str]:
        """The columns of the tables: groups of landmarks that the layout has."""
        return {
            name: label
            for name, label in GROUP_LABELS.items()
            if any(row.found[name] is not None for row in self.by_split)
        }


def assess(rows: Sequence[ClipQuality], targets: Sequence[Target]) -> Assessment:
    """Find what is wrong with how many clips, and which of them are the worst."""
    faults = {
        row.clip_id: tuple(name for name, check in CHECKS.items() if check.fails(row))
        for row in rows
    }
    splits = table_by(rows, faults, dict(read_columns(targets, "clip_id", "split")))
    signer_of = dict(read_columns(targets, "clip_id", "signer"))
    return Assessment(
        faults=faults,
        warnings=list_warnings(faults),
        worst=pick_worst(rows, faults),
        by_split=sorted(splits, key=lambda row: (*SPLITS, row.name).index(row.name)),
        by_signer=sorted(table_by(rows, faults, signer_of), key=lambda row: row.name),
        signer_of=signer_of,
    )


def list_warnings(faults: Mapping[str, Sequence[str]]) -> list[QualityWarning]:
    """Return what is wrong with how many clips, the most frequent fault first."""
    warnings = []
    for name, check in CHECKS.items():
        if clips := [clip_id for clip_id, failed in faults.items() if name in failed]:
            warnings.append(
                QualityWarning(
                    name=name,
                    clips=len(clips),
                    share=len(clips) / len(faults),
                    text=check.text,
                    hint=check.hint,
                    named=clips[:MAX_NAMED],
                )
            )
    return sorted(warnings, key=lambda warning: -warning.clips)


def pick_worst(
    rows: Sequence[ClipQuality], faults: Mapping[str, Sequence[str]]
) -> list[ClipQuality]:
    """Return the clips with the most faults; of equally many, those that show least."""
    ordered = sorted(rows, key=lambda row: (-len(faults[row.clip_id]), _shown(row), row.clip_id))
    return ordered[:WORST]


def table_by(
    rows: Sequence[ClipQuality], faults: Mapping[str, Sequence[str]], group_of: Mapping[str, str]
) -> list[GroupQuality]:
    """Sum the table up over groups of clips, such as a split or a signer.

    Shares are over frames, the gap is the longest one, jitter the median of the clips'.

    Args:
        faults: Names of the checks that a clip fails, by clip id.
        group_of: The group of each clip, by clip id.
    """
    groups = group_pairs((group_of.get(row.clip_id, "not in the manifest"), row) for row in rows)
    return [_sum_up(name, clips, faults) for name, clips in groups.items()]


def _sum_up(
    name: str, clips: Sequence[ClipQuality], faults: Mapping[str, Sequence[str]]
) -> GroupQuality:
    hands = ("left_hand_jitter", "right_hand_jitter")
    jitters = [max(values) for row in clips if (values := _known(row, hands))]
    return GroupQuality(
        name=name,
        clips=len(clips),
        minutes=sum(row.seconds for row in clips) / 60,
        found={group: share_of(clips, group) for group in GROUP_LABELS},
        gap_s=max(_column(clips, "any_hand_gap_s"), default=None),
        jitter=median(jitters) if jitters else None,
        swaps=sum(_column(clips, "side_swaps")),
        coincident=share_of(clips, "coincident"),
        flagged=sum(bool(faults[row.clip_id]) for row in clips),
    )


def share_of(rows: Sequence[ClipQuality], name: str) -> float | None:
    """Share of all frames, from the shares of the clips; None if no clip has it."""
    weighted = [(getattr(row, name), row.frames) for row in rows if getattr(row, name) is not None]
    frames = sum(count for _, count in weighted)
    return sum(share * count for share, count in weighted) / frames if frames else None


def describe(row: ClipQuality) -> str:
    """Return the figures of one clip as a phrase."""
    parts = [f"{row.seconds:.1f} s at {round(row.fps, 1):g} frames/s, {row.width}x{row.height}"]
    parts += [
        f"{label} {100 * value:.0f} %"
        for name, label in GROUP_LABELS.items()
        if name != "any_hand"
        for value in _known(row, [name])
    ]
    parts += [f"longest without a hand {value:.1f} s" for value in _known(row, ["any_hand_gap_s"])]
    parts += [f"{value:g} side swaps" for value in _known(row, ["side_swaps"]) if value]
    return ", ".join(parts)


def _known(row: ClipQuality, names: Iterable[str]) -> list[float]:
    return [float(getattr(row, name)) for name in names if getattr(row, name) is not None]


def _column(rows: Iterable[ClipQuality], name: str) -> list[float]:
    return [value for row in rows for value in _known(row, [name])]


def _shown(row: ClipQuality) -> float:
    """How much of the clip was found, 0 to 1: hands count most."""
    hands = _known(row, ["any_hand"]) + _known(row, ["left_hand", "right_hand"])
    return mean(hands or _known(row, GROUP_LABELS) or [0.0])
