"""Familiarity: how near a clip lies to the training clips.

`evaluate` measures the training clips and keeps what they are like in `confidence.json`.
docs/translation.md describes it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from signloom.config import Count, Positive, Share, checked_dataclass
from signloom.corpus.landmarks import FEATURES, LandmarkSequence
from signloom.features.features import HANDS, FloatArray, normalise, resample

RANGE_MARGIN = 2.0  # a figure may be half the minimum of train, or twice the maximum
MOST_PACE = 5.0  # times as long as train's clips, or as short: a sign is judged at train's pace
EVEN_PACE = 1.25  # times the longest training clip, or as short, has train's pace
TAIL = 0.01  # share of the training clips at either end that the range leaves out
DIRECTIONS = 32  # in which the deviation of the training encodings is kept one by one
FARTHER = 1.25  # times the farthest clip of dev: the limit of what is like train
SIGN_FARTHER = 2.0  # times the distance from the nearest sign within which `SIGN_WITHIN` lie
SIGN_WITHIN = 0.9  # of dev: the farthest one may be five times as far as the next
FOLDS = 5  # of the training clips, each judged by the others
FEWEST_PEOPLE = 3  # whose clips say how far those of further people may lie
FEWEST_SIGNS = 3
SIGN_PARTS = 1, 2, 3  # a posture of a sign is of its whole clip, of each half and of each third
KNOWN_WITHIN = 0.75, 0.8  # of the clips of known signs by people held out, at least and at most
TAKES_WITHIN = 0.95, 0.03  # of takes held out, of known signs, and if more, of unknown ones
UNKNOWN_COST = 3.0  # of naming an unknown sign, in known ones that are not named
LEAST_SPREAD = 1e-3  # shoulder widths: a landmark that train holds still may move a little
LEAST_DEVIATION = 1e-4  # smallest deviation, as a share of the largest: rounding must not count
MOVEMENT_FPS = 10.0  # frames a second at which movement is measured: jitter counts little
# Of each figure: what is said of a clip, how its numbers are written, in parts of what.
DESCRIPTIONS = {
    "hands": ("a hand in {} % of its frames", "{:.0f}", 0.01),
    "movement": ("it moves {} shoulder widths a second", "{:.2f}", 1),
    "seconds": ("it lasts {} s", "{:.1f}", 1),
}
Vectors = npt.NDArray[np.floating[Any]]


@checked_dataclass
class Range:
    """The minimum and the maximum of a figure over the training clips."""

    low: float
    high: float


@checked_dataclass
class MahalanobisModel:
    """Where the training clips lie among vectors that describe a clip.

    How far a vector lies from them is the Mahalanobis distance, as in Ren et al. (2023),
    "Out-of-distribution detection and selective generation for conditional language models"; the
    covariance is that of probabilistic PCA (Tipping and Bishop 1999), so the file stays small and
    holds no clip.
    """

    centre: tuple[float, ...]  # mean vector, shape (D,)
    directions: tuple[tuple[float, ...], ...]  # unit vectors, shape (K, D)
    deviations: tuple[Positive, ...]  # of the training vectors along them, shape (K,)
    rest: Positive  # deviation in every other direction
    limit: Positive  # a distance beyond it is unlike train
    signs: tuple[tuple[float, ...], ...] = ()
    """Mean vector of the clips of each sign, shape (K, D), where each clip is one: deviations are
    then those within a sign."""

    def distances(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        """Return how far vectors (N, D) are from train's, shape (N,)."""
        return self._lengths(vectors.astype(np.float64) - np.array(self.centre))

    def find_limit(self, vectors: Vectors, times: float = FARTHER, within: float = 1.0) -> float:
        """Return some times the distance within which a share of other vectors (N, D) lie."""
        return max(_round(times * float(np.quantile(self.distances(vectors), within))), 1.0)

    @cached_property
    def _sign_means(self) -> npt.NDArray[np.float64]:
        return np.array(self.signs)

    @cached_property
    def _axes(self) -> npt.NDArray[np.float64]:
        return np.array(self.directions).reshape(-1, len(self.centre))

    def sign_distances(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        """Return how far vectors (N, D) are from each sign, shape (N, K)."""
        return np.stack([self._lengths(vectors - mean) for mean in self._sign_means], axis=1)

    def _lengths(self, offset: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        along = offset @ self._axes.T
        beside = np.maximum((offset**2).sum(axis=1) - (along**2).sum(axis=1), 0)
        squares = (along / np.array(self.deviations)) ** 2
        return np.sqrt(squares.sum(axis=1) + beside / self.rest**2)


@checked_dataclass
class HeldOut:
    """How far training clips lie from signs that were measured without them."""

    by: Literal["people", "takes"]  # what is held out in turn
    known: Share  # of these clips that are within the limit, and
    unknown: Share  # if all clips of their sign are held out, too
    curve: tuple[tuple[float, Share, Share], ...]  # other limits, with these two shares


@checked_dataclass
class Posture(MahalanobisModel):
    """Where hands and body are held, see `measure_posture`, in train's deviations of each."""

    middle: tuple[float, ...]  # mean of each number over train, shape (D,)
    scale: tuple[Positive, ...]  # its deviation
    parts: Count = 1  # equal ones of a clip, of each of which there is a posture
    finer: "Posture | None" = None  # the same of more parts, which counts as much; of signs alone
    held_out: "HeldOut | None" = None  # what the limit was chosen by, of signs

    @property
    def part_counts(self) -> tuple[int, ...]:
        """How many parts the postures are of, as `measure_posture` takes them."""
        return (self.parts, *(self.finer.part_counts if self.finer else ()))

    def distances(self, postures: Vectors) -> npt.NDArray[np.float64]:
        """Return how far postures (N, D) are from train's, or how near to no single sign."""
        if not self.signs:
            return super().distances(self.scaled(postures))
        return _nearness(self.distances_by_parts(postures))

    def distances_by_parts(self, postures: Vectors) -> npt.NDArray[np.float64]:
        """Return how far postures (N, D) are from each sign, by `part_counts`, shape (V, N, K)."""
        width = len(self.middle)
        by_these = self.sign_distances(self.scaled(postures[:, :width]))[None]
        if not self.finer:
            return by_these
        return np.concatenate((by_these, self.finer.distances_by_parts(postures[:, width:])))

    def scaled(self, postures: Vectors) -> FloatArray:
        """Return postures in train's deviations; what no frame shows is as in train."""
        scaled = (postures - np.array(self.middle)) / np.array(self.scale)
        return np.nan_to_num(scaled).astype(np.float32)


@checked_dataclass
class TrainClips(MahalanobisModel):
    """What the training clips are like: their figures, encodings and postures.

    An encoding is the mean of the encoder's states over a clip: it shows what a model makes of a
    film, which may be something known though the film is not. So postures are compared, too.
    """

    figures: dict[str, Range]  # of `measure_clip`, by name
    posture: Posture | None = None  # None: not measured

    def distances(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        """Return how far vectors (N, D) are from train's, or from the nearest sign's.

        Source: Lee et al. (2018), "A simple unified framework for detecting out-of-distribution
        samples and adversarial attacks".
        """
        if not self.signs:
            return super().distances(vectors)
        return cast(npt.NDArray[np.float64], self.sign_distances(vectors).min(axis=1))

    def differences(self, sequence: LandmarkSequence, encoding: FloatArray) -> tuple[str, ...]:
        """Say in what a clip is unlike train's; nothing where it is like them.

        Of single signs the posture alone tells how near one is: movement and encoding depend on the
        frame rate, which files often have wrong.
        """
        messages, figures = [], measure_clip(sequence)
        if by_posture := bool(self.posture and self.posture.signs):
            figures.pop("movement", None)
        for name, value in figures.items():
            interval = self.figures.get(name)
            if (
                interval
                and not interval.low / RANGE_MARGIN <= value <= interval.high * RANGE_MARGIN
            ):
                text, number, unit = DESCRIPTIONS[name]
                shown, low, high = (
                    number.format(x / unit) for x in (value, interval.low, interval.high)
                )
                messages.append(f"{text.format(shown)} (train's clips: {low} to {high})")
        distance = float(self.distances(encoding[None])[0])
        if distance > self.limit and not by_posture:
            messages.append(
                f"{distance / self.limit:.1f} times as far from train's clips as the limit"
            )
        held = measure_posture(sequence, self.posture.part_counts) if self.posture else None
        if self.posture and held is not None:
            apart = float(self.posture.distances(held[None])[0]) / self.posture.limit
            if apart > 1:
                messages.append(
                    f"hands and body are held {apart:.1f} times as far off as the limit"
                )
        return tuple(messages)


def share_with_hands(sequence: LandmarkSequence) -> float | None:
    """Return the share of frames with a hand, 0 to 1; None where the layout has no hands."""
    layout = sequence.layout
    groups = [layout.group(hand) for hand in HANDS if hand in layout.group_names]
    return float(sequence.present[:, groups].any(axis=1).mean()) if groups else None


def measure_clip(sequence: LandmarkSequence) -> dict[str, float]:
    """Return what clips are compared by.

    Returns:
        `hands`, the share of frames with a hand, where the layout has hands; `movement`, how far a
        landmark moves in a second, shoulder widths, the mean over all; `seconds`.
    """
    hands = share_with_hands(sequence)
    figures = {} if hands is None else {"hands": hands}
    if FEATURES in sequence.layout.group_names:  # which move in no picture
        return {"seconds": sequence.seconds}
    points = normalise(resample(sequence, MOVEMENT_FPS), "body")[..., :2]
    steps = np.linalg.norm(np.diff(points, axis=0), axis=-1)
    finite = steps[np.isfinite(steps)]
    figures["movement"] = float(finite.mean()) * MOVEMENT_FPS if len(finite) else 0.0
    figures["seconds"] = sequence.seconds
    return figures


def measure_posture(
    sequence: LandmarkSequence, part_counts: Sequence[int] = (1,)
) -> npt.NDArray[np.float64] | None:
    """Return the mean place of each landmark of hands and body over the frames that show it.

    In shoulder widths from between the shoulders, those of a hand from its wrist; NaN where no
    frame shows it. None for features of another network.

    Args:
        part_counts: Into how many equal parts the clip is cut; of each part there is a posture.

    Returns:
        The postures of all parts, one after another, shape (3 P sum(part_counts),).
    """
    groups = [name for name in (*HANDS, "pose") if name in sequence.layout.group_names]
    if FEATURES in sequence.layout.group_names or not groups:
        return None
    points = normalise(sequence, "body").astype(np.float64)
    for hand in (name for name in groups if name in HANDS):
        marks = points[:, sequence.layout.slice(hand)]
        marks[:, 1:] -= marks[:, :1]
    places = np.concatenate([points[:, sequence.layout.slice(name)] for name in groups], axis=1)
    postures = []
    for part in (part for count in part_counts for part in np.array_split(places, count)):
        finite = np.isfinite(part)
        count = finite.sum(axis=0)
        total = np.where(finite, part, 0).sum(axis=0)
        postures.append(np.where(count, total / np.maximum(count, 1), np.nan).ravel())
    return np.concatenate(postures)


def describe_train(
    train: Sequence[LandmarkSequence],
    encodings: FloatArray,
    held_out_states: FloatArray,
    signs: Sequence[str] = (),
) -> TrainClips:
    """Measure the training clips.

    Args:
        encodings: Their encodings, shape (N, D).
        held_out_states: Encodings of clips of the same kind that no weight was fitted to: dev's.
        signs: What each training clip shows, if each shows one sign.
    """
    figures = [measure_clip(sequence) for sequence in train]
    ranges = {}
    for name in figures[0]:
        low, high = np.quantile([row[name] for row in figures], [TAIL, 1 - TAIL])
        ranges[name] = Range(low=_round(low), high=_round(high))
    train_clips = TrainClips(figures=ranges, **_fit_mahalanobis(encodings, signs))
    limits = (SIGN_FARTHER, SIGN_WITHIN) if signs else (FARTHER, 1.0)
    return replace(train_clips, limit=train_clips.find_limit(held_out_states, *limits))


def describe_postures(
    train: Sequence[LandmarkSequence], held_out_clips: Sequence[LandmarkSequence]
) -> Posture | None:
    """Measure how hands and body are held; None for features of another network.

    Args:
        train: Training clips, unchanged and under real-life changes.
        held_out_clips: Dev clips, likewise; the farthest of them sets the limit.
    """
    rows = [row for clip in train if (row := measure_posture(clip)) is not None]
    held_out = [row for clip in held_out_clips if (row := measure_posture(clip)) is not None]
    if not rows or not held_out:
        return None
    model = _fit_posture(np.stack(rows))
    return replace(model, limit=model.find_limit(np.stack(held_out)))


def describe_sign_postures(
    train: Sequence[LandmarkSequence],
    signs: Sequence[str],
    signers: Sequence[str],
    strangers: Sequence[tuple[LandmarkSequence, str]] = (),
) -> Posture | None:
    """Measure how each of some signs is held; None for features, or fewer than three signs.

    The limit is from clips that are judged by the clips of other people, as those of a known sign;
    and without their sign's clips, as those of an unknown sign. These are the clips of strangers,
    without any train's own, of which each person is held out; of fewer than three people each take.

    Args:
        train: Training clips.
        signs: What each of them shows.
        signers: Who shows it.
        strangers: Clips of people whom train lacks, of signs that it has, and these.
    """
    rows = [row for clip in train if (row := measure_posture(clip, SIGN_PARTS)) is not None]
    if len(rows) < len(train) or len({*signs}) < FEWEST_SIGNS:
        return None
    postures, names = np.stack(rows), np.array(signs)
    by_people = len({*signers}) >= FEWEST_PEOPLE
    by_people &= len({*zip(signs, signers, strict=True)}) >= 2 * len({*signs})
    known, unknown = list[float](), list[float]()
    if strangers:
        by_people = True
        held_out = [
            row for clip, _ in strangers if (row := measure_posture(clip, SIGN_PARTS)) is not None
        ]
        held_out_signs = [sign for _, sign in strangers]
        known, unknown = _judge_postures(postures, signs, np.stack(held_out), held_out_signs)
    else:
        folds = np.array(_deal_people(signers) if by_people else _deal_takes(signs))
        for fold in range(FOLDS):
            is_out = folds == fold
            if is_out.any() and len({*names[~is_out]}) >= FEWEST_SIGNS:
                judged = _judge_postures(
                    postures[~is_out],
                    names[~is_out].tolist(),
                    postures[is_out],
                    names[is_out].tolist(),
                )
                known, unknown = known + judged[0], unknown + judged[1]
    if not known:
        return None
    known_at, unknown_at = np.array(known), np.array(unknown)
    limit = _choose_posture_limit(known_at, unknown_at, by_people=by_people)
    points = [
        (_round(x), _round(np.mean(known_at <= x)), _round(np.mean(unknown_at <= x)))
        for x in (limit, *np.quantile(known_at, np.linspace(0.5, 1, 11)))
    ]
    errors = HeldOut(
        by="people" if by_people else "takes",
        known=points[0][1],
        unknown=points[0][2],
        curve=tuple(points[1:]),
    )
    posture = _fit_posture(postures, signs, SIGN_PARTS)
    return replace(posture, limit=points[0][0], held_out=errors)


def _judge_postures(
    train: npt.NDArray[np.float64],
    signs: Sequence[str],
    held_out: npt.NDArray[np.float64],
    held_out_signs: Sequence[str],
) -> tuple[list[float], list[float]]:
    """Return how near held-out postures are to signs: with their own sign among them, and without.

    Args:
        train: Postures, shape (N, D).
        held_out: Those that are judged, shape (M, D).
    """
    model, columns = _fit_posture(train, signs, SIGN_PARTS), np.array([*dict.fromkeys(signs)])
    distances = model.distances_by_parts(held_out)
    near = _nearness(distances)
    return (
        [float(near[row]) for row, sign in enumerate(held_out_signs) if sign in columns],
        [
            float(_nearness(distances[:, row, columns != sign]))
            for row, sign in enumerate(held_out_signs)
        ],
    )


def _deal_people(signers: Sequence[str]) -> list[int]:
    """Return a fold for each clip, the same for all of a person."""
    numbers = {signer: number for number, signer in enumerate(dict.fromkeys(signers))}
    return [numbers[signer] % FOLDS for signer in signers]


def _deal_takes(signs: Sequence[str]) -> list[int]:
    """Return a fold for each clip, as many as possible for those of a sign."""
    counts, folds = Counter[str](), []
    for sign in signs:
        folds.append(counts[sign] % FOLDS)
        counts[sign] += 1
    return folds


def _choose_posture_limit(
    known: npt.NDArray[np.float64], unknown: npt.NDArray[np.float64], *, by_people: bool
) -> float:
    """Return the limit of postures, by the nearness of held-out clips of known and other signs.

    Takes of the same people do not say how far those of others lie, so as much passes then as
    unknown signs allow.
    """
    if not by_people:
        return max(
            float(np.quantile(*pair)) for pair in zip((known, unknown), TAKES_WITHIN, strict=True)
        )
    fewest, most = np.quantile(known, KNOWN_WITHIN).tolist()
    limits = np.unique(np.concatenate((known, unknown)))
    costs = [np.mean(known > x) + UNKNOWN_COST * np.mean(unknown <= x) for x in limits]
    return float(np.clip(limits[np.argmin(costs)], fewest, most))


def _nearness(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the distance to the nearest sign, more where the next is as near, shape (...).

    Distances differ from person to person, their ratio less (Lowe 2004, "Distinctive image
    features from scale-invariant keypoints").

    Args:
        distances: To each sign, by `part_counts`, whose geometric mean it is; shape (V, ..., K).
    """
    nearest, second = np.moveaxis(np.partition(distances, 1, axis=-1)[..., :2], -1, 0)
    near = nearest * nearest / np.maximum(second, 1e-9)
    return np.asarray(near.prod(axis=0) ** (1 / len(near)))


def _fit_posture(
    postures: npt.NDArray[np.float64], signs: Sequence[str] = (), part_counts: Sequence[int] = (1,)
) -> Posture:
    """Return where postures (N, D) of such parts lie, its limit still open."""
    parts, *finer = part_counts
    width = postures.shape[1] * parts // sum(part_counts)
    further, postures = postures[:, width:], postures[:, :width]
    finite = np.isfinite(postures)
    count = np.maximum(finite.sum(axis=0), 1)
    middle = np.where(finite, postures, 0).sum(axis=0) / count
    spread = np.sqrt((np.where(finite, postures - middle, 0) ** 2).sum(axis=0) / count)
    frame = Posture(
        middle=rounded_floats(middle),
        scale=rounded_floats(spread + LEAST_SPREAD),
        centre=(),
        directions=(),
        deviations=(),
        rest=1.0,
        limit=1.0,
        parts=parts,
        finer=_fit_posture(further, signs, finer) if finer else None,
    )
    return replace(frame, **_fit_mahalanobis(frame.scaled(postures), signs))


def _fit_mahalanobis(vectors: FloatArray, signs: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a `MahalanobisModel` of vectors (N, D), its limit still open.

    Args:
        vectors: Of the training clips.
        signs: What each clip shows, if each shows one sign.
    """
    means = []
    vectors = vectors.copy()
    for sign in dict.fromkeys(signs):
        is_of_sign = np.array([name == sign for name in signs])
        means.append(vectors[is_of_sign].mean(axis=0, dtype=np.float64))
        vectors[is_of_sign] -= means[-1]
    centre = vectors.mean(axis=0, dtype=np.float64)
    _, spread, directions = np.linalg.svd(vectors - centre, full_matrices=False)
    variances = spread**2 / max(len(vectors) - 1, 1)
    width = vectors.shape[1]
    # Few clips do not show in which directions they vary.
    count = min(DIRECTIONS, len(vectors) // 4, width - 1)
    remainder = variances[count:].sum() / (width - count)
    least = max(LEAST_DEVIATION * float(spread[0]), 1e-9)
    return {
        "signs": tuple(map(rounded_floats, means)),
        "centre": rounded_floats(centre),
        "directions": tuple(rounded_floats(direction) for direction in directions[:count]),
        "deviations": rounded_floats(np.maximum(np.sqrt(variances[:count]), least)),
        "rest": _round(max(remainder**0.5, least)),
        "limit": 1.0,
    }


def _round(value: float) -> float:
    return float(f"{value:.5g}")  # more digits differ from machine to machine


def rounded_floats(values: npt.NDArray[np.float64]) -> tuple[float, ...]:
    """Return numbers as files keep them."""
    return tuple(_round(value) for value in values.tolist())
