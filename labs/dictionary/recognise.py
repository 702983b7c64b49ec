"""Recognition from a dictionary: the sequence of takes that a clip is nearest to.

One-stage dynamic programming over all takes at once (Ney 1984, "The use of a one-stage dynamic
programming algorithm for connected word recognition"). Shape letters: S frames, F features, N
frames of all takes together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
START = -1  # where a path begins that no sign precedes


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a path pays beside the distances of its frames.

    Attributes:
        sign: For each sign that begins.
        filler: For each frame that is in none, as between two signs.
    """

    sign: float
    filler: float


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """Takes of single signs, joined frame by frame.

    Attributes:
        names: The sign of each take.
        frames: Features of all takes, each column in its own deviations, shape (N, F).
        firsts: The first frame of each take, and N.
        mean: Of each column, shape (F,).
        deviation: Likewise.
    """

    names: Sequence[str]
    frames: FloatArray
    firsts: npt.NDArray[np.int64]
    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of_takes(cls, names: Sequence[str], takes: Sequence[FloatArray]) -> "Dictionary":
        """Join takes, feature matrices of shape (S, F)."""
        frames = np.concatenate(takes)
        mean, deviation = frames.mean(axis=0), np.maximum(frames.std(axis=0), 1e-3)
        firsts = np.cumsum([0, *map(len, takes)])
        return cls(names, (frames - mean) / deviation, firsts, mean, deviation)

    def recognise(self, clip: FloatArray, costs: Costs) -> list[str]:
        """Return the signs of a clip, a feature matrix (S, F)."""
        return self.trace(self.distances(clip), costs)

    def distances(self, clip: FloatArray) -> FloatArray:
        """Return how far each frame of a clip is from each of the dictionary, shape (S, N)."""
        seen = (clip - self.mean) / self.deviation
        squares = (seen**2).sum(1)[:, None] + (self.frames**2).sum(1) - 2 * seen @ self.frames.T
        return np.sqrt(np.maximum(squares, 0) / clip.shape[1]).astype(np.float32)

    def trace(self, distances: FloatArray, costs: Costs) -> list[str]:
        """Return the signs of the cheapest path through a clip, by its distances (S, N)."""
        begins, ends = self.firsts[:-1], self.firsts[1:] - 1
        count = distances.shape[1]
        best = np.full(count, np.inf)
        entry = np.full(count, START)  # the frame before the sign that a path is in
        outside, left = 0.0, START  # cheapest path that is in no sign, and where it left its last
        inner = np.ones(count, bool)
        inner[begins] = False
        second = inner & np.roll(inner, 1)
        history: list[tuple[int, int]] = []  # at each frame: sign that ends there, its entry
        for number, row in enumerate(distances):
            one = np.where(inner, np.roll(best, 1), np.inf)
            two = np.where(second, np.roll(best, 2), np.inf)
            ways = np.stack((best, one, two))
            chosen = ways.argmin(axis=0)
            entries = np.stack((entry, np.roll(entry, 1), np.roll(entry, 2)))
            moved = np.take_along_axis(ways, chosen[None], 0)[0]
            came = np.take_along_axis(entries, chosen[None], 0)[0]
            new = moved[begins] > outside + costs.sign
            moved[begins] = np.where(new, outside + costs.sign, moved[begins])
            came[begins] = np.where(new, left, came[begins])
            best, entry = moved + row, came
            take = int(best[ends].argmin())
            waits = outside + costs.filler
            if best[ends[take]] < waits:
                outside, left = float(best[ends[take]]), number
                history.append((take, int(entry[ends[take]])))
            else:
                outside = waits
                history.append((START, START))
        found = []
        while left != START:
            take, left = history[left]
            found.append(self.names[take])
        return found[::-1]
