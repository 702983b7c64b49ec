"""Movement of the demo's signers: both hands of every frame, from glosses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from signloom_demo.lexicon import HAND_SHAPES, LEXICON, REST, Key, SignForm, orientation
from signloom_demo.signer import Signer
from signloom_demo.skeleton import Floats, HandTrack, turn
from signloom_demo.uncut import CUT, TOUCH_S, Manner

SIGN_S = 0.43  # one beat of signing
CHANGE_S = 0.19  # from one sign to the next
RAISE_S = 0.28  # from rest to the first sign and back
HOLD_S = 0.07  # at rest before and after
NO_SIGN = -1
HEAD = Key("relaxed", -11.0, 30.0, "back_in", 6.0)  # a hand that scratches it

# A posture as numbers, so that postures can be interpolated: palm (3), frame (9), flexion (8),
# spread (4), thumb (9).
FRAME = slice(3, 12)


@dataclass(frozen=True, slots=True, eq=False)
class Performance:
    """A signed sentence.

    dominant, other: Both hands, each written as a right hand, S frames.
    in_sign: Whether the dominant and the other hand perform a sign, shape (S, 2).
    sign: Position in the gloss sequence, or `NO_SIGN` in rests and transitions, shape (S,).
    """

    dominant: HandTrack
    other: HandTrack
    in_sign: NDArray[np.bool_]
    sign: NDArray[np.int64]


def perform(
    glosses: Sequence[str],
    signer: Signer,
    fps: float,
    rng: np.random.Generator,
    manner: Manner = CUT,
    lexicon: Mapping[str, SignForm] = LEXICON,
) -> Performance:
    """Sign a sentence the way one signer does it this time.

    Pace, size and place of each sign vary with the signer's style and with `rng`.
    """
    pace = signer.speed * manner.pace * float(np.clip(rng.normal(1.0, 0.06), 0.85, 1.15))
    tracks: list[list[tuple[float, Floats]]] = [[], []]  # (time in s, posture) of either hand
    spans: list[tuple[float, float, bool]] = []
    rest_postures = [_rest(signer, rng) for _ in tracks]
    _put(tracks, 0.0, rest_postures)
    now = HOLD_S * float(rng.uniform(0.6, 1.4)) + manner.before_s
    if manner.scratch_before:
        _scratch(tracks[0], rest_postures[0], signer, now)
    _put(tracks, now, rest_postures)
    last_other_end = now
    for position, gloss in enumerate(glosses):
        sign = lexicon[gloss]
        now += (RAISE_S if position == 0 else CHANGE_S) / pace
        lasts = SIGN_S * sign.beats / pace * float(rng.uniform(0.92, 1.08))
        if sign.other:
            _wait_at_rest(tracks[1], rest_postures[1], last_other_end, now, pace)
            last_other_end = now + lasts
        _add_sign(tracks, sign, signer, now, now + lasts, rng)
        spans.append((now, now + lasts, bool(sign.other)))
        now += lasts
        if position == manner.lower_after:
            sunk = now + RAISE_S / pace
            tracks[0].extend([(sunk, rest_postures[0]), (sunk + manner.lower_s, rest_postures[0])])
            now = sunk + manner.lower_s + (RAISE_S - CHANGE_S) / pace
    for track, ended, calm in zip(tracks, (now, last_other_end), rest_postures, strict=True):
        track.append((ended + RAISE_S / pace, calm))
    ends = now + RAISE_S / pace + HOLD_S + manner.after_s
    if manner.scratch_after:
        _scratch(tracks[0], rest_postures[0], signer, ends)
    return _crop(_sample(tracks, spans, ends, signer, fps, rng), manner, fps)


def _scratch(
    track: list[tuple[float, Floats]], rest_posture: Floats, signer: Signer, until: float
) -> None:
    """Let a hand that rests go to the head and back, just before a time."""
    head = posture(HEAD, signer, np.zeros(3))
    times = until - 0.1 - TOUCH_S * np.array([3, 2, 1, 0])
    track.extend(zip(times.tolist(), (rest_posture, head, head, rest_posture), strict=True))


def _crop(performance: Performance, manner: Manner, fps: float) -> Performance:
    """Take away what a film does not show that begins late or ends early."""
    signs = np.flatnonzero(performance.in_sign[:, 0])
    start, stop = 0, len(performance.sign)
    if manner.late_s is not None:
        start = max(0, int(signs[0]) - round(manner.late_s * fps))
    if manner.early_s is not None:
        stop = min(stop, int(signs[-1]) + 1 + round(manner.early_s * fps))
    if (start, stop) == (0, len(performance.sign)):
        return performance
    dominant, nondominant = (
        HandTrack(**{part.name: getattr(hand, part.name)[start:stop] for part in fields(hand)})
        for hand in (performance.dominant, performance.other)
    )
    return Performance(
        dominant=dominant,
        other=nondominant,
        in_sign=performance.in_sign[start:stop],
        sign=performance.sign[start:stop],
    )


def _rest(signer: Signer, rng: np.random.Generator) -> Floats:
    return posture(REST, signer, rng.normal(0.0, 0.5, 3))


def posture(key: Key, signer: Signer, shift: Floats) -> Floats:
    """A key as numbers, shape (33,); the place is scaled to the signer and shifted, cm."""
    shape = HAND_SHAPES[key.shape]
    palm = np.array([key.x, key.y, key.z]) * signer.size + shift
    return np.concatenate(
        [palm, orientation(key.turn).ravel(), shape.flex.ravel(), shape.spread, shape.thumb.ravel()]
    )


def _put(tracks: list[list[tuple[float, Floats]]], time: float, postures: list[Floats]) -> None:
    for track, value in zip(tracks, postures, strict=True):
        track.append((time, value))


def _add_sign(
    tracks: list[list[tuple[float, Floats]]],
    sign: SignForm,
    signer: Signer,
    start: float,
    end: float,
    rng: np.random.Generator,
) -> None:
    """Write the keys of one sign, amplitude scaled about the sign's middle."""
    amplitude = signer.amplitude * float(rng.uniform(0.93, 1.07))
    for track, keys in zip(tracks, (sign.dominant, sign.other), strict=True):
        if not keys:
            continue
        shift = rng.normal(0.0, signer.jitter_cm, 3)
        middle = np.mean([(key.x, key.y) for key in keys], axis=0)
        for time, key in zip(np.linspace(start, end, len(keys)), keys, strict=True):
            x, y = middle + (np.array([key.x, key.y]) - middle) * amplitude
            moved = Key(key.shape, float(x), float(y), key.turn, key.z)
            track.append((float(time), posture(moved, signer, shift)))


def _wait_at_rest(
    track: list[tuple[float, Floats]], posture: Floats, since: float, until: float, pace: float
) -> None:
    """Let the other hand sink while only the dominant one signs, if there is time for it."""
    move = RAISE_S / pace
    if until - since > 2 * move:
        track.extend([(since + move, posture), (until - move, posture)])


def _sample(
    tracks: list[list[tuple[float, Floats]]],
    spans: list[tuple[float, float, bool]],
    duration: float,
    signer: Signer,
    fps: float,
    rng: np.random.Generator,
) -> Performance:
    """Interpolate the keys at the frame times and mark which frames belong to a sign."""
    times = np.arange(int(np.ceil(duration * fps)) + 1) / fps
    hands = []
    for track in tracks:
        values = _blur(_interpolate(track, times), signer.smoothness)
        drift = _blur(rng.normal(0.0, 1.0, (len(times), 3)), 3.0) * 2.5
        values[:, :3] += 0.6 * signer.jitter_cm * drift
        hands.append(_track(values))
    in_sign = np.zeros((len(times), 2), dtype=bool)
    sign = np.full(len(times), NO_SIGN, dtype=np.int64)
    for position, (start, end, two_handed) in enumerate(spans):
        inside = (times >= start) & (times <= end)
        sign[inside] = position
        in_sign[inside, 0] = True
        in_sign[inside, 1] = two_handed
    return Performance(dominant=hands[0], other=hands[1], in_sign=in_sign, sign=sign)


def _interpolate(track: list[tuple[float, Floats]], times: Floats) -> Floats:
    """Minimum-jerk interpolation between keys, shape (S, 33)."""
    at = np.array([time for time, _ in track])
    values = np.stack([value for _, value in track])
    index = np.clip(np.searchsorted(at, times, side="right") - 1, 0, len(at) - 2)
    share = (times - at[index]) / np.maximum(at[index + 1] - at[index], 1e-9)
    share = np.clip(share, 0.0, 1.0)
    # Flash & Hogan (1985): arm movements between rests minimise jerk.
    eased = share**3 * (10 - 15 * share + 6 * share**2)
    between: Floats = values[index] + eased[:, None] * (values[index + 1] - values[index])
    frames = values[:, FRAME].reshape(-1, 3, 3)
    between[:, FRAME] = turn(frames[index], frames[index + 1], eased).reshape(-1, 9)
    return between


def _blur(values: Floats, sigma: float) -> Floats:
    """Gaussian smoothing along time; the ends are held."""
    radius = max(1, int(np.ceil(3 * sigma)))
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    padded = np.pad(values, ((radius, radius), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, kernel, mode="valid") for column in padded.T], axis=1)


def _track(values: Floats) -> HandTrack:
    """Split postures (S, 33) into a hand track; rotations and directions are made exact again."""
    frames = len(values)
    left_vectors, _, right_vectors = np.linalg.svd(values[:, FRAME].reshape(frames, 3, 3))
    thumb = values[:, 24:33].reshape(frames, 3, 3)
    return HandTrack(
        centre=values[:, :3],
        # The nearest rotation: smoothing has shrunk the axes a little.
        frame=left_vectors @ right_vectors,
        flex=values[:, 12:20].reshape(frames, 4, 2),
        spread=values[:, 20:24],
        thumb=thumb / np.linalg.norm(thumb, axis=2, keepdims=True),
    )
