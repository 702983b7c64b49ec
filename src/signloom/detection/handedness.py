"""Handedness: which of the hands found in a frame is the signer's left or right.

A detector's own word for the side is not enough: it changes from frame to frame, and calls both
hands left. So hands are followed from frame to frame, and each gathers evidence of its side.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

# Found on drawn clips, whose sides are known, and on real ones; docs/extraction.md has the figures.
_SAME_HAND = 0.38  # palms closer than this, in hand sizes and on average: one hand, found twice
_REACH = 0.8  # hand sizes that a hand may move between frames and still be taken for the same
_FRAMES_KEPT = 15  # that a hand may be unseen
_MEMORY = 0.9  # share of the evidence that lasts to the next frame
# Evidence is in log-odds for the right hand.
_LABEL_LIMIT = 3.0  # what the detector says of one frame
_BESIDE = 2.0  # for lying a hand's size to the right of the other hand, as the signer sees it
_ARM = 4.0  # for lying a hand's size closer to the right wrist of the pose than to the left one
_WRIST, _MIDDLE_KNUCKLE = 0, 9
_PALM = [0, 1, 5, 9, 13, 17]  # fingers of two hands that touch can lie on each other, palms cannot


@dataclass(frozen=True, slots=True, eq=False)
class FoundHand:
    """A hand as a detector gives it."""

    points: FloatArray  # shape (21, 3) float32, as in `LandmarkSequence`
    right: float  # how sure the detector is that it is the signer's right hand, 0 to 1


@dataclass(slots=True, eq=False)
class _Track:
    """A hand that is being followed."""

    hand: FoundHand
    outline: FloatArray  # shape (21, 2), picture heights
    evidence: float = 0.0
    unseen: int = 0


@dataclass(slots=True)
class HandednessTracker:
    """Tells the signer's left hand from the right, frame after frame of one clip."""

    _tracks: list[_Track] = field(default_factory=list)

    def reset(self) -> None:
        """Forget the clip."""
        self._tracks = []

    def assign(
        self, hands: Sequence[FoundHand], *, arms: FloatArray | None, aspect: float
    ) -> tuple[FoundHand | None, FoundHand | None]:
        """Return the left and the right hand of the next frame, each if it was found.

        Args:
            hands: In any order; the same hand may be among them twice.
            arms: Where the pose has its left and its right wrist, shape (2, 2), picture
                coordinates; None if there is no pose.
            aspect: Width of the picture by its height.
        """
        scale = np.array([aspect, 1.0], np.float32)
        tracks = [_Track(hand, hand.points[:, :2] * scale) for hand in hands]
        tracks = _drop_doubles(tracks)
        for track in self._tracks:
            track.unseen += 1
        for track, old in zip(tracks, _match(tracks, self._tracks), strict=True):
            track.evidence = _MEMORY * old.evidence if old else 0.0
            track.evidence += _weigh(track, tracks, None if arms is None else arms * scale)
            if old:
                self._tracks.remove(old)
        waiting = [track for track in self._tracks if track.unseen <= _FRAMES_KEPT]
        self._tracks = (tracks + sorted(waiting, key=lambda track: track.unseen))[:2]
        return _split(tracks)


def _drop_doubles(tracks: Sequence[_Track]) -> list[_Track]:
    """Return at most two hands, each once: those of whose side the detector is surest."""
    distinct: list[_Track] = []
    for track in sorted(tracks, key=lambda track: -abs(track.hand.right - 0.5)):
        distances = [
            np.linalg.norm((track.outline - other_hand.outline)[_PALM], axis=1).mean()
            / max(_size(track), _size(other_hand))
            for other_hand in distinct
        ]
        if all(distance > _SAME_HAND for distance in distances):
            distinct.append(track)
    return distinct[:2]


def _match(tracks: Sequence[_Track], old: Sequence[_Track]) -> tuple[_Track | None, ...]:
    """Return the old track that each hand continues: the choice with the shortest ways."""
    choices = itertools.permutations([*old, *[None] * len(tracks)], len(tracks))
    return min(choices, key=lambda choice: sum(map(_way, tracks, choice)))


def _way(track: _Track, old: _Track | None) -> float:
    if old is None:
        return _REACH
    way = np.linalg.norm(track.outline[_WRIST] - old.outline[_WRIST])
    return float(way) / _size(track)


def _weigh(track: _Track, tracks: Sequence[_Track], arms: FloatArray | None) -> float:
    """Return what this frame says for the hand being the right one, in log-odds."""
    right = float(np.clip(track.hand.right, 0.01, 0.99))
    evidence = float(np.clip(np.log(right / (1 - right)), -_LABEL_LIMIT, _LABEL_LIMIT))
    wrist = track.outline[_WRIST]
    for rival in tracks:
        if rival is not track:  # the signer's right is the left of the picture
            apart = float(rival.outline[_WRIST][0] - wrist[0]) / _size(track)
            evidence += _BESIDE * float(np.clip(apart, -1, 1))
    if arms is not None:
        left_way, right_way = np.linalg.norm(arms - wrist, axis=1) / _size(track)
        evidence += _ARM * float(np.clip(left_way - right_way, -2, 2))
    return evidence


def _split(tracks: Sequence[_Track]) -> tuple[FoundHand | None, FoundHand | None]:
    if not tracks:
        return None, None
    if len(tracks) == 1:
        hand = tracks[0].hand
        return (None, hand) if tracks[0].evidence > 0 else (hand, None)
    left, right = sorted(tracks, key=lambda track: track.evidence)
    return left.hand, right.hand


def _size(track: _Track) -> float:
    """Return twice the length of the palm: what a hand measures, however its fingers are bent."""
    palm = np.linalg.norm(track.outline[_MIDDLE_KNUCKLE] - track.outline[_WRIST])
    return max(2 * float(palm), 1e-6)
