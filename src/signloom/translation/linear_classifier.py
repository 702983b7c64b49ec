"""A linear classifier of the frames of single signs, read together with the model."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from signloom.config import checked_dataclass
from signloom.corpus.landmarks import FEATURES, LandmarkSequence
from signloom.features.features import HANDS, FeatureOptions, feature_names
from signloom.features.sources import Source, SourceSequence

LINEAR_FRAMES = 8  # that the linear classifier sees of a clip
Vector = npt.NDArray[np.float32]


def resample_clip(source: Source, features: FeatureOptions, sequence: SourceSequence) -> Vector:
    """Return some frames of a clip, flattened: each hand in its own size, NaN what is missing."""
    options = replace(features, differences=0, presence=True)
    rows = np.array(source.reader(options).rows(sequence), np.float32)
    frames = np.linspace(0, len(rows) - 1, LINEAR_FRAMES).round().astype(np.int64)
    assert isinstance(sequence, LandmarkSequence)  # what has frames
    if sequence.layout.group_names == (FEATURES,):
        return rows[frames].ravel()
    names = feature_names(options, sequence.layout)
    for name in {name.split(".")[0] for name in names}:
        part_columns = [n for n, feature in enumerate(names) if feature.split(".")[0] == name]
        columns, bit = part_columns[:-1], part_columns[-1]
        rows[np.ix_(rows[:, bit] == 0, columns)] = np.nan
        if name in HANDS and np.isfinite(rows[:, columns]).any():
            # Without a body in the picture nothing else says how near the camera is.
            shape = [n for n in columns if ".at." not in names[n]]
            rows[:, shape] /= max(float(np.sqrt(np.nanmean(rows[:, shape] ** 2))), 1e-6)
    return rows[frames].ravel()


@checked_dataclass
class LinearClassifier:
    """A logistic regression from `resample_clip` to the labels of a model, as `evaluate` fits it.

    It sees whole postures and knows the time in the clip; convolutions see neither. So the two err
    in different clips, and the product of their probabilities is right more often than either
    (docs/results.md).
    """

    middle: tuple[float, ...]  # of train, which replaces what is missing, shape (D,)
    weights: tuple[tuple[float, ...], ...]  # of each label, shape (K, D)
    bias: tuple[float, ...]  # shape (K,)

    def log_probs(self, vector: Vector) -> npt.NDArray[np.float64]:
        """Return the log-probability of each label for the vector of a clip, shape (K,)."""
        middle, weights, bias = self._arrays
        logits = weights @ np.nan_to_num(vector - middle) + bias
        return np.asarray(logits - np.logaddexp.reduce(logits))

    @cached_property
    def _arrays(self) -> tuple[npt.NDArray[np.float64], ...]:
        return tuple(np.array(values) for values in (self.middle, self.weights, self.bias))
