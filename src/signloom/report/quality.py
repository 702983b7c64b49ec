"""Landmark quality on the page: warnings, tables and the worst clips."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signloom.corpus.manifest import SPLITS
from signloom.corpus.quality import ClipQuality
from signloom.features.targets import Target
from signloom.tables import take_rows, to_table

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Figures = Callable[[str], FloatArray]
"""Returns a column of the quality table, a value a clip; NaN: unknown.

All columns of a large corpus together would be a second copy of the table.
"""

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
STRAY = "not in the manifest"
_HANDS = ("left_hand", "right_hand", "any_hand")
_JITTERS = ("left_hand_jitter", "right_hand_jitter")


@dataclass(frozen=True, slots=True)
class QualityCheck:
    """One thing that may be wrong with a clip."""

    text: str  # of the warning, after the number of clips
    hint: str
    columns: tuple[str, ...]  # of the quality table; what is unknown never fails
    least: float = -math.inf
    most: float = math.inf

    def fails(self, figures: Figures) -> BoolArray:
        """Return which clips have a figure beyond the limit, shape (N,)."""
        columns = map(figures, self.columns)
        failed = [(column < self.least) | (column > self.most) for column in columns]
        return np.logical_or.reduce(failed)


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
        _JITTERS,
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

    warnings: list[QualityWarning]  # the most frequent first
    flagged: int  # clips with a warning
    worst: list[ClipQuality]
    faults: dict[str, list[str]]  # names of the checks that a clip of `worst` fails, by its id
    signer_of: dict[str, str]  # of the clips of `worst` that are in the manifest, by their ids
    by_split: list[GroupQuality]
    by_signer: list[GroupQuality]  # the largest shares of clips with a warning, at most MAX_SIGNERS
    signers: int

    @property
    def group_labels(self) -> dict[str, str]:
        """The columns of the tables: groups of landmarks that the layout has."""
        return {
            name: label
            for name, label in GROUP_LABELS.items()
            if any(row.found[name] is not None for row in self.by_split)
        }


def assess(rows: Sequence[ClipQuality], targets: Sequence[Target]) -> Assessment:
    """Find what is wrong with how many clips, and which of them are the worst.

    Args:
        rows: The quality table, sorted by clip id.
        targets: The corpus.
    """
    figures = partial(read_figures, rows)
    clip_ids = to_table(rows, ["clip_id"], pa.string())["clip_id"]
    corpus = to_table(targets, ["split", "signer", "clip_id"], pa.string())
    rows_of = pc.index_in(clip_ids, corpus["clip_id"])
    # Numbers of names instead of copies of them.
    names = (corpus[name].dictionary_encode() for name in ("split", "signer"))
    splits, signers = (column.take(rows_of).combine_chunks() for column in names)
    failed = {name: check.fails(figures) for name, check in CHECKS.items()}
    faults = np.sum([*failed.values()], axis=0)
    # Equally many faults: the clip that shows least; of equal ones the first.
    numbers = np.lexsort((_shown(figures).round(12), -faults))[:WORST].tolist()
    worst = list(take_rows(rows, numbers))
    by_split = table_by(splits, figures, faults > 0)
    by_signer = table_by(signers, figures, faults > 0, most=MAX_SIGNERS)
    pa.default_memory_pool().release_unused()  # what the columns of a large corpus took
    return Assessment(
        warnings=list_warnings(clip_ids, failed),
        flagged=int(np.count_nonzero(faults)),
        worst=worst,
        faults={
            row.clip_id: [name for name in failed if failed[name][number]]
            for row, number in zip(worst, numbers, strict=True)
        },
        signer_of={
            row.clip_id: signer
            for row, number in zip(worst, numbers, strict=True)
            if (signer := signers[number].as_py())
        },
        by_split=sorted(by_split, key=lambda row: (*SPLITS, row.name).index(row.name)),
        by_signer=by_signer,
        signers=pc.count_distinct(signers.indices, "all").as_py(),
    )


def read_figures(rows: Sequence[ClipQuality], name: str) -> FloatArray:
    """Return a column that is checked or summed up, as of `Figures`."""
    return to_table(rows, [name], pa.float64())[name].to_numpy()


def list_warnings(
    clip_ids: pa.ChunkedArray, failed: Mapping[str, BoolArray]
) -> list[QualityWarning]:
    """Return what is wrong with how many clips, the most frequent fault first.

    Args:
        clip_ids: Of all clips.
        failed: Which of them fail each check.
    """
    warnings = [
        QualityWarning(
            name=name,
            clips=int(np.count_nonzero(failed[name])),
            share=float(np.mean(failed[name])),
            text=check.text,
            hint=check.hint,
            named=clip_ids.take(np.flatnonzero(failed[name])[:MAX_NAMED]).to_pylist(),
        )
        for name, check in CHECKS.items()
        if failed[name].any()
    ]
    return sorted(warnings, key=lambda warning: -warning.clips)


def table_by(
    labels: pa.DictionaryArray, figures: Figures, is_flagged: BoolArray, most: int | None = None
) -> list[GroupQuality]:
    """Sum the table up over groups of clips, such as a split or a signer.

    Shares are over frames, the gap is the longest one, jitter the median of the clips'.

    Args:
        labels: The group of each clip; null: it is not in the manifest.
        is_flagged: Whether each clip has a warning.
        most: Return so many groups, those with the largest shares of such clips; None: all.
    """
    labels = labels.fill_null(STRAY)
    numbers, codes = np.unique(labels.indices.to_numpy(), return_inverse=True)
    names = labels.dictionary.take(pa.array(numbers)).to_pylist()
    counts, flagged = np.bincount(codes), np.bincount(codes, is_flagged)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    ranks = sorted(range(len(names)), key=lambda code: (-flagged[code] / counts[code], names[code]))
    groups = [order[ends[code] - counts[code] : ends[code]] for code in ranks[:most]]

    def measure_each(measure: Callable[..., Any], *columns: str) -> list[Any]:
        parts = [figures(name) for name in columns]
        return [measure(*(part[rows] for part in parts)) for rows in groups]

    shares_found = {name: measure_each(share_of, name, "frames") for name in GROUP_LABELS}
    coincident = measure_each(share_of, "coincident", "frames")
    minutes = measure_each(lambda seconds: sum(memoryview(seconds)) / 60, "seconds")
    gaps = measure_each(lambda gaps: _measure_known(np.max, gaps), "any_hand_gap_s")
    jitters = measure_each(lambda *pair: _measure_known(np.median, np.fmax(*pair)), *_JITTERS)
    swaps = measure_each(np.nansum, "side_swaps")
    return [
        GroupQuality(
            name=names[code],
            clips=len(groups[rank]),
            minutes=minutes[rank],
            found={name: shares[rank] for name, shares in shares_found.items()},
            gap_s=gaps[rank],
            jitter=jitters[rank],
            swaps=float(swaps[rank]),
            coincident=coincident[rank],
            flagged=int(flagged[code]),
        )
        for rank, code in enumerate(ranks[:most])
    ]


def _measure_known(
    measure: Callable[[FloatArray], np.floating[Any]], values: FloatArray
) -> float | None:
    finite = values[~np.isnan(values)]
    return float(measure(finite)) if len(finite) else None


def share_of(shares: FloatArray, frames: FloatArray) -> float | None:
    """Share of all frames, from the shares of the clips; None if no clip has it."""
    known = ~np.isnan(shares)
    found: list[float] = (shares * frames)[known].tolist()
    return sum(found) / float(frames[known].sum()) if frames[known].any() else None


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


def _shown(figures: Figures) -> FloatArray:
    """Return how much of each clip was found, 0 to 1: hands count most."""
    hands, groups = (_mean_known(figures, names) for names in (_HANDS, GROUP_LABELS))
    return np.nan_to_num(np.where(np.isnan(hands), groups, hands))


def _mean_known(figures: Figures, names: Iterable[str]) -> FloatArray:
    total, count = np.zeros(1), np.zeros(1)
    for column in map(figures, names):
        total, count = total + np.nan_to_num(column), count + ~np.isnan(column)
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing is known
        return total / count
