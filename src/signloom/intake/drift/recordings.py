"""Drift of durations, frame rates, sizes and signers."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality
from signloom.intake.drift.findings import DriftOptions, Finding, Limits, judge
from signloom.intake.drift.statistics import factor


def check_unread(new: Sequence[Clip], rows: Sequence[ClipQuality], limits: Limits) -> Finding:
    """Count the new clips without landmarks; needs no old clip."""
    read = {row.clip_id for row in rows}
    unread = [clip.clip_id for clip in new if clip.clip_id not in read]
    return judge(
        "unread",
        limits,
        len(unread) / len(new),
        f"{len(unread)} of {len(new)} new clips have no landmarks",
        mend="rejects.tsv beside the landmarks says why",
        clips=unread,
    )


def check_recordings(
    old: Sequence[Clip],
    new: Sequence[Clip],
    old_rows: Sequence[ClipQuality],
    new_rows: Sequence[ClipQuality],
    options: DriftOptions,
) -> list[Finding]:
    """Compare signers, durations, frame rates and sizes.

    Args:
        old: At least one clip.
        new: At least one clip.
        old_rows: Of those old clips that have landmarks; at least one.
        new_rows: Of those new clips that have landmarks; at least one.
        options: The limits.
    """
    return [
        _check_signers(old, new, options.signer_share),
        _check_seconds(old_rows, new_rows, options),
        _check_rates(old_rows, new_rows, options.fps),
        _check_sizes(old_rows, new_rows, options.pixels),
    ]


def _check_signers(old: Sequence[Clip], new: Sequence[Clip], limits: Limits) -> Finding:
    known = {clip.signer for clip in old}
    comes = Counter(clip.signer for clip in new)
    total = Counter(clip.signer for clip in (*old, *new))
    largest = max(comes, key=lambda signer: (total[signer], signer))
    fresh = sorted(comes.keys() - known)
    named = f", {len(fresh)} of them new" if fresh else ", all known"
    share = total[largest] / total.total()
    people = f"{len(comes)} signer{'s' * (len(comes) > 1)}{named}"
    return judge(
        "signer_share",
        limits,
        share,
        f"{people}; {largest} signs {100 * share:.0f} % of all clips now",
        mend="what one person signs most the model learns best: ask others",
        figures={"signers": float(len(comes)), "new_signers": float(len(fresh))},
    )


def _check_seconds(
    old: Sequence[ClipQuality], new: Sequence[ClipQuality], options: DriftOptions
) -> Finding:
    now, before = (median(row.seconds for row in rows) for rows in (new, old))
    what = f"{now:.2f} s in the median clip, {before:.2f} s in the old ones"
    enough = min(len(old), len(new)) >= options.min_clips
    return judge(
        "seconds",
        options.seconds,
        factor(now, before) if enough else None,
        what,
        mend="look whether each clip is one sentence, and the frame rate is the true one",
        figures={"new": now, "old": before},
    )


def _check_rates(old: Sequence[ClipQuality], new: Sequence[ClipQuality], limits: Limits) -> Finding:
    rates = sorted({round(row.fps, 2) for row in old})
    factors = {row.clip_id: min(factor(row.fps, rate) for rate in rates) for row in new}
    far = [name for name, found in factors.items() if _reaches(limits, found)]
    fps = [row.fps for row in new]
    return judge(
        "fps",
        limits,
        max(factors.values()),
        f"{_span(fps)} frames a second, {_span(rates)} in the old clips",
        mend="look whether the header is right (a clip must not play faster than it was signed)",
        clips=far,
        figures={"new": median(fps), "old": median(row.fps for row in old)},
    )


def _check_sizes(old: Sequence[ClipQuality], new: Sequence[ClipQuality], limits: Limits) -> Finding:
    smallest = min(min(row.width, row.height) for row in old)
    factors = {row.clip_id: smallest / min(row.width, row.height) for row in new}
    sides = [float(min(row.width, row.height)) for row in new]
    return judge(
        "pixels",
        limits,
        max(*factors.values(), 1.0),
        f"{_span(sides)} pixels on the shorter side, at least {smallest} in the old clips",
        mend="take the recordings in their full size",
        clips=[name for name, found in factors.items() if _reaches(limits, found)],
        figures={"new": min(sides), "old": float(smallest)},
    )


def _reaches(limits: Limits, value: float) -> bool:
    found = [limit for limit in (limits.warn, limits.stop) if limit is not None]
    return bool(found) and value >= min(found)


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
