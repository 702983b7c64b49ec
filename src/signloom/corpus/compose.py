"""Takes of single signs come in; sequences in which one follows another, as in a sentence, go out.

Composed sentences are no signing: nothing in a sign changes because of its neighbours, nobody
speeds up, and body and camera jump between takes. They test whether a model finds order, words
and grammar in real landmarks, and no more.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence

Block = int
"""Number of a series of takes of one sign that were recorded one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """One recording of one sign."""

    clip_id: str
    sign: str
    block: Block


def compose(takes: Sequence[LandmarkSequence], gap_frames: int) -> LandmarkSequence:
    """Join takes, with frames between them in which what both edges show moves evenly across.

    Args:
        takes: One or more, of one layout, frame rate and picture size.
        gap_frames: Frames between two takes.

    Returns:
        The takes, unchanged, and the gaps. A group is present in a gap if it is in the last frame
        before and the first one after it.

    Raises:
        ValueError: If the takes differ in layout, frame rate or picture size.
    """
    first = takes[0]
    for take in takes[1:]:
        for name in ("layout", "fps", "width", "height"):
            if getattr(take, name) != getattr(first, name):
                raise ValueError(f"takes differ in their {name}")
    points, present = [first.points], [first.present]
    for before, after in pairwise(takes):
        share = np.arange(1, gap_frames + 1, dtype=np.float32)[:, None, None] / (gap_frames + 1)
        points.append((1 - share) * before.points[-1] + share * after.points[0])  # NaN stays NaN
        both = before.present[-1] & after.present[0]
        present.append(np.repeat(both[None], gap_frames, axis=0))
        points.append(after.points)
        present.append(after.present)
    return LandmarkSequence(
        points=np.concatenate(points),
        present=np.concatenate(present),
        fps=first.fps,
        width=first.width,
        height=first.height,
        layout=first.layout,
    )


def measure_framing(takes: Sequence[LandmarkSequence]) -> npt.NDArray[np.float64]:
    """Return where the signer of some takes stands and how large, in shares of the picture.

    Returns:
        Shape (3,): x and y of the middle of the shoulders, and their distance; medians over all
        frames that show them, NaN if none does.
    """
    layout = takes[0].layout
    left, right = (layout.index("pose", f"{side}_shoulder") for side in ("left", "right"))
    points = np.concatenate([take.points for take in takes]).astype(np.float64)
    points = points[np.isfinite(points[:, [left, right], :2]).all(axis=(1, 2))]
    if not len(points):
        return np.full(3, np.nan)
    middle = (points[:, left, :2] + points[:, right, :2]) / 2
    width = np.linalg.norm(points[:, left, :2] - points[:, right, :2], axis=1)
    return np.append(np.median(middle, axis=0), np.median(width))


def find_sittings(
    framings: Mapping[Block, npt.NDArray[np.float64]], within: float
) -> list[list[Block]]:
    """Group the blocks of a sign that may be of one person in one sitting, by how they look.

    Blocks whose framing differs by less than `within` belong together, and so do all that a chain
    of such pairs connects.

    Args:
        framings: `measure_framing` of each block.
        within: Shares of the picture.

    Returns:
        Blocks of each sitting, the largest sitting first, then by its first block.
    """
    left = sorted(framings)
    sittings: list[list[Block]] = []
    while left:
        waiting, sitting = [left.pop(0)], []
        while waiting:
            block = waiting.pop()
            sitting.append(block)
            near = [b for b in left if np.linalg.norm(framings[b] - framings[block]) < within]
            waiting += near
            left = [b for b in left if b not in near]
        sittings.append(sorted(sitting))
    return sorted(sittings, key=lambda blocks: (-len(blocks), blocks[0]))


def split_blocks(sittings: Sequence[Sequence[Block]]) -> dict[str, list[Block]]:
    """Give the blocks of a sign to the splits, so that no sitting is in test and elsewhere.

    Every fifth sitting, and at least one, is for test, as many for dev, the small ones. A sign
    with two sittings has its dev block from the sitting of train: dev only says when to stop.

    Raises:
        ValueError: If there are fewer than two sittings, or three blocks.
    """
    count = max(1, len(sittings) // 5)
    if len(sittings) < 2 or sum(map(len, sittings)) < 3:
        raise ValueError(f"found sittings {list(sittings)}, expected two or more, of three blocks")
    test, rest = sittings[-count:], sittings[:-count]
    if len(rest) > count:
        train, dev = rest[:-count], rest[-count:]
    else:
        blocks = [block for sitting in rest for block in sitting]
        if len(blocks) < 2:  # a large sitting was held out: give one of its blocks back
            raise ValueError(f"found sittings {list(sittings)}, too few for three splits")
        train, dev = [blocks[:-1]], [blocks[-1:]]
    named = {"train": train, "dev": dev, "test": test}
    return {name: sorted(b for sitting in part for b in sitting) for name, part in named.items()}


def takes_of(takes: Sequence[Take]) -> dict[str, dict[Block, list[str]]]:
    """Return the clip ids by sign and block, in order."""
    found: dict[str, dict[Block, list[str]]] = defaultdict(lambda: defaultdict(list))
    for take in takes:
        found[take.sign][take.block].append(take.clip_id)
    return {sign: dict(sorted(blocks.items())) for sign, blocks in sorted(found.items())}
