"""Drift of recordings and their sentences: signers, sizes, rates, colours, lengths and words."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import ks_2samp

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality
from signloom.corpus.words import locate_words
from signloom.detection.video import Video
from signloom.errors import ClipError
from signloom.features.features import HANDS
from signloom.features.tokenizer import load_source, normalise_text
from signloom_ops.intake.drift.findings import Finding, judge
from signloom_ops.options import DriftLimits, DriftOptions

_LEAST = 0.02  # octaves that durations may stray where the old clips are all of one pace
_NAMED = 8  # new words in a message
_LOOKED = 60  # frames from the first with a landmark that are decoded: two seconds
_PALM = (0, 5, 17)  # wrist, knuckles of index and little finger: skin lies between them
_HAND_PATCH = 0.25  # half a side of the square that is looked at, palm lengths
_FACE_PATCH = 0.06  # likewise, shoulder widths around the nose


def check_unread(new: Sequence[Clip], rows: Sequence[ClipQuality], limits: DriftLimits) -> Finding:
    """Count the new clips without landmarks; needs no old clip."""
    read = {row.clip_id for row in rows}
    unread = [clip.clip_id for clip in new if clip.clip_id not in read]
    return judge(
        "unread",
        limits,
        len(unread) / len(new),
        f"{len(unread)} of {len(new)} new clips have no landmarks",
        hint="rejects.tsv beside the landmarks says why",
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
        old_rows: Quality rows of the old clips that have landmarks; at least one.
        new_rows: Quality rows of the new clips that have landmarks; at least one.
        options: The limits.
    """
    return [
        _check_signers(old, new, options.signer_share),
        _check_seconds(old_rows, new_rows, options),
        _check_rates(old_rows, new_rows, options.fps),
        _check_sizes(old_rows, new_rows, options.pixels),
    ]


def _check_signers(old: Sequence[Clip], new: Sequence[Clip], limits: DriftLimits) -> Finding:
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
        f"{people}; one signs {100 * share:.0f} % of all clips now",
        hint="what one person signs most the model learns best: ask others",
        figures={"signers": float(len(comes)), "new_signers": float(len(fresh))},
        signer=largest,
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
        _factor(now, before) if enough else None,
        what,
        hint="look whether each clip is one sentence, and the frame rate is the true one",
        figures={"new": now, "old": before},
    )


def _check_rates(
    old: Sequence[ClipQuality], new: Sequence[ClipQuality], limits: DriftLimits
) -> Finding:
    rates = sorted({round(row.fps, 2) for row in old})
    factors = {row.clip_id: min(_factor(row.fps, rate) for rate in rates) for row in new}
    far = [name for name, found in factors.items() if _reaches(limits, found)]
    fps = [row.fps for row in new]
    return judge(
        "fps",
        limits,
        max(factors.values()),
        f"{_span(fps)} frames a second, {_span(rates)} in the old clips",
        hint="look whether the header is right (a clip must not play faster than it was signed)",
        clips=far,
        figures={"new": median(fps), "old": median(row.fps for row in old)},
    )


def _check_sizes(
    old: Sequence[ClipQuality], new: Sequence[ClipQuality], limits: DriftLimits
) -> Finding:
    smallest = min(min(row.width, row.height) for row in old)
    factors = {row.clip_id: smallest / min(row.width, row.height) for row in new}
    sides = [float(min(row.width, row.height)) for row in new]
    return judge(
        "pixels",
        limits,
        max(*factors.values(), 1.0),
        f"{_span(sides)} pixels on the shorter side, at least {smallest} in the old clips",
        hint="take the recordings in their full size",
        clips=[name for name, found in factors.items() if _reaches(limits, found)],
        figures={"new": min(sides), "old": float(smallest)},
    )


def _reaches(limits: DriftLimits, value: float) -> bool:
    found = [limit for limit in (limits.warn, limits.stop) if limit is not None]
    return bool(found) and value >= min(found)


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _factor(one: float, other: float) -> float:
    """How many times one number is the other, 1 or more whichever is larger; both above 0."""
    return max(one / other, other / one)


def check_timing(
    old: Sequence[Clip],
    new: Sequence[Clip],
    tokens: Mapping[str, int],
    seconds: Mapping[str, float],
    options: DriftOptions,
) -> list[Finding]:
    """Compare the tokens a second, and how well the durations follow the lengths of sentences.

    A table that lost a row gives each video its neighbour's sentence: nothing but the durations
    shows it. So a line is laid through the old clips, duration over length, and the new clips may
    not lie much farther from it than the old ones do, each part around its own mean.
    """
    now, before = (_log_lengths(part, tokens, seconds) for part in (new, old))
    if min(len(now), len(before)) < options.min_clips:
        what = "too few clips to compare the pace"
        checks = {"pace": options.pace, "pairing": options.pairing}
        return [judge(name, limits, None, what) for name, limits in checks.items()]
    paces = [2 ** float(np.median(part[:, 0] - part[:, 1])) for part in (now, before)]
    return [
        judge(
            "pace",
            options.pace,
            _factor(*paces),
            f"{paces[0]:.2f} tokens of text a second of video, {paces[1]:.2f} in the old clips",
            hint="look whether the frame rate is the true one, and each video has its sentence",
            figures={"new": paces[0], "old": paces[1]},
        ),
        _check_pairing(before, now, options),
    ]


def _log_lengths(
    clips: Sequence[Clip], tokens: Mapping[str, int], seconds: Mapping[str, float]
) -> npt.NDArray[np.float64]:
    """Return tokens and seconds of the clips that have both, logarithms of base 2, shape (N, 2)."""
    names = [c.clip_id for c in clips if tokens[c.clip_id] and seconds.get(c.clip_id)]
    rows = [(math.log2(tokens[name]), math.log2(seconds[name])) for name in names]
    return np.array(rows).reshape(-1, 2)


def _check_pairing(
    before: npt.NDArray[np.float64], now: npt.NDArray[np.float64], options: DriftOptions
) -> Finding:
    tokens, seconds = before.T
    if np.ptp(tokens) == 0 or np.ptp(seconds) == 0:
        what = "the old clips are of one length, so nothing shows which sentence is whose"
        return judge("pairing", options.pairing, None, what)
    slope = float(np.polyfit(tokens, seconds, 1)[0])
    new, old = (
        max(float(np.std(part[:, 1] - slope * part[:, 0], ddof=1)), _LEAST)
        for part in (now, before)
    )
    # Chance of a ratio this large if both spread equally.
    p_value = float(f_distribution.sf((new / old) ** 2, len(now) - 1, len(before) - 1))
    return judge(
        "pairing",
        options.pairing,
        max(new / old, 1.0) if p_value < options.alpha else 1.0,
        f"durations spread by {new:.2f} octaves around what the sentences' lengths promise, "
        f"by {old:.2f} in the old clips",
        hint="look whether each video has its own sentence: is a row of the table missing?",
        figures={"new": new, "old": old, "p_value": p_value},
    )


def check_texts(
    old: Sequence[Clip], new: Sequence[Clip], seconds: Mapping[str, float], options: DriftOptions
) -> list[Finding]:
    """Compare length, timing, words and tokens.

    What the old text knows is the text of its training clips: no other decides the vocabulary.

    Args:
        old: At least one clip.
        new: At least one clip.
        seconds: Duration of every clip that has landmarks.
        options: The limits.
    """
    source = load_source()
    tokens = {clip.clip_id: source.encode(normalise_text(clip.text)) for clip in (*old, *new)}
    words = {
        clip.clip_id: [word for word, _, _ in locate_words(normalise_text(clip.text).casefold())]
        for clip in (*old, *new)
    }
    known = [clip for clip in old if clip.split == "train"] or old
    return [
        _compare_lengths(old, new, tokens, options),
        *check_timing(old, new, {name: len(row) for name, row in tokens.items()}, seconds, options),
        _find_new_words(known, new, words, options.new_words),
        _find_byte_tokens(known, new, tokens, options.byte_tokens),
    ]


def unseen_by_others(rows: Sequence[Sequence[str]] | Sequence[Sequence[int]]) -> float:
    """Return the share of items that occur in no other row: what one row more would bring.

    Good (1953): the chance that the next item is a new one is the share of those seen once.
    """
    rows_with = Counter(item for row in rows for item in set(row))
    items = [item for row in rows for item in row]
    return sum(rows_with[item] == 1 for item in items) / max(len(items), 1)


def _compare_lengths(
    old: Sequence[Clip], new: Sequence[Clip], tokens: Mapping[str, list[int]], options: DriftOptions
) -> Finding:
    lengths = [[float(len(tokens[clip.clip_id])) for clip in part] for part in (new, old)]
    medians = {"new": median(lengths[0]), "old": median(lengths[1])}
    what = f"{medians['new']:g} tokens in the median sentence, {medians['old']:g} in the old ones"
    if len(new) < options.min_clips:
        return judge("tokens", options.tokens, None, what, figures=medians)
    distance = ks_2samp(*lengths)
    sure = distance.pvalue < options.alpha
    return judge(
        "tokens",
        options.tokens,
        float(distance.statistic) if sure else 0.0,
        what if sure else f"{what}: no sure difference",
        hint="look whether the table has whole sentences, one a clip",
        figures={**medians, "ks": float(distance.statistic), "p_value": float(distance.pvalue)},
    )


def _find_new_words(
    known: Sequence[Clip], new: Sequence[Clip], words: Mapping[str, list[str]], limits: DriftLimits
) -> Finding:
    vocabulary = {word for clip in known for word in words[clip.clip_id]}
    found = Counter(
        word for clip in new for word in words[clip.clip_id] if word not in vocabulary
    )  # fmt: skip
    share = found.total() / max(sum(len(words[clip.clip_id]) for clip in new), 1)
    expected = unseen_by_others([words[clip.clip_id] for clip in known])
    named = ", ".join(word for word, _ in found.most_common(_NAMED))
    if len(found) > _NAMED:
        named += ", ..."
    what = f"{100 * share:.0f} % of the words are new ({100 * expected:.0f} % expected)"
    return judge(
        "new_words",
        limits,
        max(share - expected, 0.0),
        f"{what}: {named}" if named else what,
        hint="a few more clips of each new word teach it; if the words are none of your corpus's "
        "language, take the clips out",
        clips=[clip.clip_id for clip in new if set(words[clip.clip_id]) & found.keys()],
        figures={"share": share, "expected": expected, "distinct": float(len(found))},
    )


def _find_byte_tokens(
    known: Sequence[Clip], new: Sequence[Clip], tokens: Mapping[str, list[int]], limits: DriftLimits
) -> Finding:
    """Measure how much of the text the old vocabulary must spell in bytes."""
    vocabulary = {token for clip in known for token in tokens[clip.clip_id]}
    found = [token for clip in new for token in tokens[clip.clip_id]]
    share = sum(token not in vocabulary for token in found) / max(len(found), 1)
    expected = unseen_by_others([tokens[clip.clip_id] for clip in known])
    return judge(
        "byte_tokens",
        limits,
        max(share - expected, 0.0),
        f"{100 * share:.0f} % of the tokens are none of the old text's, which must spell them in "
        f"bytes ({100 * expected:.0f} % expected)",
        hint="look at the language and script of the sentences",
        figures={"share": share, "expected": expected},
    )


def check_colour(
    redness: Mapping[str, float], new: Collection[str], limits: DriftLimits
) -> Finding:
    """Count the clips with blue skin, beyond the share that the old clips have of them."""
    now = {name: value for name, value in redness.items() if name in new}
    before = [value for name, value in redness.items() if name not in new]
    if not now:
        return judge("colour", limits, None, "no video to look at")
    blue = [name for name, value in now.items() if value < 0]
    usual = sum(value < 0 for value in before) / max(len(before), 1)
    figures = {"new": median(now.values()), "usual_share": usual}
    return judge(
        "colour",
        limits,
        max(len(blue) / len(now) - usual, 0.0),
        f"in {len(blue)} of {len(now)} clips the skin is bluer than red",
        hint="red and blue are exchanged, or the light is blue: write the videos again, in RGB",
        clips=blue,
        figures=figures | ({"old": median(before)} if before else {}),
    )


def measure_redness(clip: Clip, sequence: LandmarkSequence, frames: int) -> float | None:
    """Return the median of (red - blue) / (red + green + blue) where skin is.

    Skin of every tone is redder than it is blue. Where it is not, red and blue were exchanged when
    the video was made (a frame written in another order than the writer expects), or the light is
    blue.

    Args:
        clip: A clip with a video or without.
        sequence: Its landmarks.
        frames: How many frames to look at; those before them are decoded too.

    Returns:
        -1 to 1, about 0.1 to 0.3 for skin; None without a video, or without landmarks in it.
    """
    if clip.video is None or not clip.video.is_file():
        return None
    seen = np.flatnonzero(sequence.present.any(axis=1))
    if not len(seen):
        return None
    first = seen[0]
    seen = seen[: np.searchsorted(seen, first + _LOOKED)]
    wanted = {int(index) for index in seen[np.linspace(0, len(seen) - 1, frames).astype(int)]}
    found = []
    try:
        with Video(clip.video) as video:
            for index, frame in enumerate(video.frames(clip.start_s, clip.end_s)):
                if index in wanted:
                    found += [_redness(patch) for patch in _skin(frame.rgb, sequence, index)]
                if index >= max(wanted):
                    break
    except ClipError:  # was read once, for its landmarks; what is gone since cannot be judged
        return None
    return float(np.median(found)) if found else None


def _skin(
    rgb: npt.NDArray[np.uint8], sequence: LandmarkSequence, index: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """Cut the palms and the nose out of a frame, as far as they are inside of it."""
    layout = sequence.layout
    height, width = rgb.shape[:2]
    points = sequence.points[index, :, :2] * np.array([width, height], np.float32)
    squares = []
    for hand in HANDS:
        if hand in layout.group_names and sequence.present[index, layout.group(hand)]:
            marks = points[layout.slice(hand)]
            palm = float(np.linalg.norm(marks[9] - marks[0]))
            squares.append((marks[list(_PALM)].mean(axis=0), _HAND_PATCH * palm))
    if "pose" in layout.group_names and sequence.present[index, layout.group("pose")]:
        nose, left, right = (
            points[layout.index("pose", name)]
            for name in ("nose", "left_shoulder", "right_shoulder")
        )
        squares.append((nose, _FACE_PATCH * float(np.linalg.norm(left - right))))
    for middle, radius in squares:
        x, y, r = int(middle[0]), int(middle[1]), max(int(radius), 1)
        patch = rgb[max(y - r, 0) : max(y + r, 0), max(x - r, 0) : max(x + r, 0)]
        if patch.size:
            yield patch


def _redness(patch: npt.NDArray[np.uint8]) -> float:
    red, green, blue = patch.reshape(-1, 3).mean(axis=0)
    return float((red - blue) / max(red + green + blue, 1.0))
