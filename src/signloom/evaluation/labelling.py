"""Labels of whole people that seem wrong: signers who exchanged two signs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from signloom.features.features import FloatArray

RIDGE = 0.1  # of the regression, relative to a clip's mean square
LEAST_SHARE = 0.6  # of the takes of each that the other signers' takes name as the other sign
LEAST_RIGHT = 0.7  # of the signer's takes once they are exchanged: others are read badly anyhow
MOST_TAKES = 3000  # that are compared, each with each


def find_exchanged(vectors: FloatArray, texts: Sequence[str], signers: Sequence[str]) -> list[str]:
    """Name signers whose takes of two signs all other signers' takes call by each other's name.

    Each signer is left out in turn of a ridge regression from clips to signs. The clearest case is
    put right before the next one is looked for: wrong labels also mislead about other signers.

    Args:
        vectors: Of the training clips of single signs, shape (N, D); NaN: missing.
        texts: The sign of each clip.
        signers: The signer of each; two cannot say which of them is wrong.
    """
    step = -(-len(texts) // MOST_TAKES)
    names, labels = np.unique(np.array(texts[::step]), return_inverse=True)
    people, hat = np.array(signers[::step]), _hat_matrix(vectors[::step])
    messages: dict[tuple[str, int, int], str] = {}
    while len({*signers}) > 2:
        named = _name_left_out(hat, labels, people)
        cases = [case for case in _find_cases(named, labels, people) if case[2:] not in messages]
        if not cases:
            break
        _, right, signer, first, second = max(cases)
        rows = people == signer
        messages[signer, first, second] = (
            f"signer {signer}: `{names[first]}` and `{names[second]}` seem exchanged, "
            f"{100 * np.mean(named[rows] == labels[rows]):.0f} -> {100 * right:.0f} %"
        )
        places = [rows & (labels == sign) for sign in (first, second)]
        labels[places[0]], labels[places[1]] = second, first
    return [*messages.values()]


def _hat_matrix(vectors: FloatArray) -> npt.NDArray[np.float64]:
    """Return what the regression makes of the labels of all clips, shape (N, N)."""
    scaling = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    scaled = scaling.fit_transform(vectors)
    kernel = (scaled @ scaled.T).astype(np.float64) / scaled.shape[1]
    return np.linalg.solve(kernel + RIDGE * np.eye(len(kernel)), kernel)


def _name_left_out(
    hat: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], people: npt.NDArray[np.str_]
) -> npt.NDArray[np.int64]:
    """Return the sign of each clip by the clips of the other signers alone (Allen 1974)."""
    signs = np.eye(labels.max() + 1)[labels]
    residuals, named = signs - hat @ signs, labels.copy()
    for signer in np.unique(people):
        rows = np.flatnonzero(people == signer)
        left_out = np.eye(len(rows)) - hat[np.ix_(rows, rows)]
        named[rows] = (signs[rows] - np.linalg.solve(left_out, residuals[rows])).argmax(axis=1)
    return named


def _find_cases(
    named: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], people: npt.NDArray[np.str_]
) -> Iterator[tuple[float, float, str, int, int]]:
    """Yield how clear a case is, the signer's share of right takes after it, signer and signs."""
    for signer in np.unique(people).tolist():
        rows = people == signer
        pairs = Counter(zip(labels[rows].tolist(), named[rows].tolist(), strict=True))
        takes = Counter(labels[rows].tolist())
        right = sum(pairs[sign, sign] for sign in takes)
        # A single take is named wrongly by chance.
        for first, second in combinations(sorted(sign for sign in takes if takes[sign] > 1), 2):
            ways = [(first, second), (second, first)]
            shares = [pairs[way] / takes[way[0]] for way in ways]
            gain = sum(pairs[way] - pairs[way[0], way[0]] for way in ways)
            share = (right + gain) / rows.sum()
            if min(shares) >= LEAST_SHARE and share >= LEAST_RIGHT:
                yield sum(shares), share, signer, first, second
