"""Filters of MediaPipe that smooth landmarks along a clip, all landmarks together."""

import math

import numpy as np
import numpy.typing as npt

F = np.float32
_FRAME_S = 33_333_000 * 1e-9  # MediaPipe takes the frames to be so far apart


class OneEuroFilter:
    """Smooths slow movements much and fast ones little (one_euro_filter.cc).

    Casiez, Roussel and Vogel: 1 Euro Filter, CHI 2012.

    Args:
        min_cutoff: Of the low-pass filter at rest.
        beta: How much the cutoff rises with speed.
    """

    def __init__(self, min_cutoff: float, beta: float) -> None:
        self._min_cutoff, self._beta = float(F(min_cutoff)), beta
        self._last: npt.NDArray[np.float32] | None = None
        self._filtered = self._speed = np.zeros(0, np.float32)

    def apply(self, values: npt.NDArray[np.float32], scale: np.float32) -> npt.NDArray[np.float32]:
        """Return the next values smoothed, of any shape that stays the same.

        Args:
            values: Pixels.
            scale: Of the object, pixels: its speed is measured by this.
        """
        if scale < 1e-6:
            return values
        if self._last is None:
            self._speed, self._filtered = np.zeros_like(values), values
        else:
            fps = 1.0 / _FRAME_S
            way = values.astype(np.float64) - self._last
            speed = (way * float(F(1) / scale) * fps).astype(np.float32)
            self._speed = _mix(speed, self._speed, F(_share(1.0, fps)))
            cutoff = self._min_cutoff + self._beta * np.abs(self._speed.astype(np.float64))
            self._filtered = _mix(values, self._filtered, _share(cutoff, fps).astype(np.float32))
        self._last = values
        return self._filtered


class LowPassFilter:
    """Keeps nine tenths of what was (low_pass_filter.cc with an alpha of 0.1)."""

    def __init__(self) -> None:
        self._filtered: npt.NDArray[np.float32] | None = None

    def apply(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the next values smoothed, of any shape that stays the same."""
        last = values if self._filtered is None else _mix(values, self._filtered, F(0.1))
        self._filtered = last
        return last


def _share(cutoff: npt.ArrayLike, fps: float) -> npt.NDArray[np.float64]:
    """Return the share of a new value in a low-pass filter, as double precision has it."""
    return np.asarray(1.0 / (1.0 + 1.0 / (2 * math.pi * np.asarray(cutoff)) / (1.0 / fps)))


def _mix(
    new: npt.NDArray[np.float32], old: npt.NDArray[np.float32], share: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    share = np.asarray(share, np.float32)
    old_part = (1.0 - share.astype(np.float64)) * old.astype(np.float64)
    return (share * new + old_part).astype(np.float32)
