"""Composed sentences: takes of single signs, joined in the order of glosses (`signloom compose`).

Nothing in a sign changes because of its neighbours, so they teach order, words and grammar, and no
fluent signing.
"""

import functools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip, has_ended
from signloom.corpus.shards import read_clip_frames, read_clip_rates, read_shards, shards_metadata
from signloom.grouping import group_pairs
from signloom_tools.importing.merge import write_landmarks

_KEPT_TAKES = 2_000  # in memory

Stock = Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]
"""Ids of takes by split, signer and `sign_key`."""
Composed = tuple[Clip, list[str]]  # a clip and its takes, in order


def sign_key(gloss: str) -> str:
    """Return what two spellings of a sign share: case and composed accents do not matter."""
    return unicodedata.normalize("NFC", "-".join(gloss.split())).casefold()


def stock_takes(clips: Sequence[Clip], frames: Mapping[str, int]) -> Stock:
    """Return the takes among clips that have landmarks: one gloss, or none and a text for it."""
    stock: dict[str, dict[str, dict[str, list[str]]]] = {}
    for clip in sorted(clips, key=lambda clip: (clip.signer, clip.clip_id)):
        is_single = len((clip.gloss or "").split()) <= 1
        if is_single and clip.clip_id in frames and not has_ended(clip.consent_until):
            signs = stock.setdefault(clip.split, {}).setdefault(clip.signer, {})
            signs.setdefault(sign_key(clip.gloss or clip.text), []).append(clip.clip_id)
    return stock


def draw_takes(
    clips: Sequence[Clip], stock: Stock, generator: np.random.Generator, per_sentence: int = 1
) -> tuple[list[Composed], dict[str, list[str]]]:
    """Draw who signs each sentence and with which takes, all of its own split.

    Args:
        clips: The sentences, with glosses.
        stock: What there is. Where no signer has all signs of a sentence, several sign it.
        generator: Decides the result.
        per_sentence: Clips of each sentence.

    Returns:
        The composed clips; and of sentences that cannot be composed the glosses without a take.
    """
    pools = {
        split: group_pairs(
            (key, clip_id)
            for takes in signers.values()
            for key, ids in takes.items()
            for clip_id in ids
        )
        for split, signers in stock.items()
    }

    def choose(values: Sequence[str]) -> str:
        return values[int(generator.integers(len(values)))]

    composed, missing, spelt = list[Composed](), dict[str, list[str]](), dict[str, str]()
    for number, clip in product(range(1, per_sentence + 1), clips):
        glosses, signers = (clip.gloss or "").split(), stock.get(clip.split, {})
        keys = [sign_key(gloss) for gloss in glosses]
        pool = pools.get(clip.split, {})
        if lacking := [g for g, key in zip(glosses, keys, strict=True) if key not in pool]:
            missing[clip.clip_id] = lacking
            continue
        able = [who for who, takes in signers.items() if takes.keys() >= set(keys)]
        signer = choose(able) if able else f"{clip.split}-several"
        signs: Mapping[str, Sequence[str]] = signers[signer] if able else pool
        # A sign is spelt as it was first, so that it has one CTC label.
        gloss = " ".join(map(spelt.setdefault, keys, glosses))
        clip_id = f"{clip.clip_id}-{number}" if per_sentence > 1 else clip.clip_id
        new_clip = replace(clip, clip_id=clip_id, signer=signer, gloss=gloss)
        composed.append((new_clip, [choose(signs[key]) for key in keys]))
    return composed, missing


def write_composed(
    corpus: Path, composed: Sequence[Composed], shards: Path, *, gap_s: float
) -> None:
    """Write the landmarks of composed clips, with `gap_s` seconds between takes of some shards."""
    frames, rates = read_clip_frames(shards), read_clip_rates(shards)
    of = {clip.clip_id: takes for clip, takes in composed}

    @functools.lru_cache(maxsize=_KEPT_TAKES)
    def read(take: str) -> LandmarkSequence:
        return read_shards(shards, [take])[take]

    def count(takes: Sequence[str]) -> int:
        fps = rates[takes[0]]
        gaps = (len(takes) - 1) * round(gap_s * fps)
        return gaps + sum(_count_frames(frames[take], rates[take], fps) for take in takes)

    write_landmarks(
        corpus,
        {clip_id: count(takes) for clip_id, takes in of.items()},
        lambda clip_id: join_takes([read(take) for take in of[clip_id]], gap_s),
        shards_metadata(shards),
        "composing",
    )


def join_takes(takes: Sequence[LandmarkSequence], gap_s: float) -> LandmarkSequence:
    """Join takes, with frames between them in which what both edges show moves evenly across.

    Args:
        takes: One or more, of one layout. They get the frame rate and the picture of the first.
        gap_s: Seconds between two takes.

    Returns:
        The takes and the gaps. A group is present in a gap if it is in the last frame before and
        the first one after it.
    """
    first = takes[0]
    gap_frames = round(gap_s * first.fps)
    points, present = [first.points], [first.present]
    for before, after in pairwise([_fit(take, first) for take in takes]):
        share = np.arange(1, gap_frames + 1, dtype=np.float32)[:, None, None] / (gap_frames + 1)
        points.append((1 - share) * before.points[-1] + share * after.points[0])  # NaN stays NaN
        in_gap = before.present[-1] & after.present[0]
        present.append(np.repeat(in_gap[None], gap_frames, axis=0))
        points.append(after.points)
        present.append(after.present)
    return replace(first, points=np.concatenate(points), present=np.concatenate(present))


def _fit(take: LandmarkSequence, first: LandmarkSequence) -> LandmarkSequence:
    """Return the frames of a take nearest to another's rate, as high in its picture as before."""
    frames = len(take.points)
    count = _count_frames(frames, take.fps, first.fps)
    nearest = ((np.arange(count) + 0.5) * (frames / count)).astype(np.int64)
    wide = np.float32(take.width / take.height * first.height / first.width)
    points = take.points[nearest]
    points[..., 0] = (points[..., 0] - 0.5) * wide + 0.5 if wide != 1 else points[..., 0]
    points[..., 2] *= wide  # in picture widths
    return replace(first, points=points, present=take.present[nearest])


def _count_frames(frames: int, old_fps: float, fps: float) -> int:
    return max(1, round(frames * fps / old_fps))
