"""How clips are dealt to train, dev and test where no table says it."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from signloom.corpus.manifest import SPLITS, Clip
from signloom.corpus.words import find_words
from signloom.errors import UserError, count_of
from signloom.grouping import group_pairs

UNITS = ("signer", "film", "sentence", "order", "clip")
"""What may be dealt. `sentence`: all clips of a sentence to one split; `order`: of each signer and
text, the first takes to train and the last to test; `clip`: signers and films are torn apart."""

Shares = Sequence[float]


def deal_clips(clips: Sequence[Clip], shares: Shares, by: str) -> tuple[dict[str, str], str]:
    """Deal clips to the splits, always in the same way.

    Args:
        clips: All of the corpus.
        shares: Of train, dev and test; any scale.
        by: Of `UNITS`; or `auto`: signers, and where there are fewer of them than splits, films, or
            where those are unknown as well, the order of recording.

    Returns:
        Clip id and split; and by what was dealt.

    Raises:
        UserError: If there are fewer units than splits to fill.
    """
    if by == "auto":
        split_count = sum(share > 0 for share in shares)
        counts = {unit: len({*_group_clips(clips, unit).values()}) for unit in ("signer", "film")}
        by = "signer" if counts["signer"] >= split_count else "order"
        if by == "order" and split_count <= counts["film"] < len(clips):
            by = "film"
    if by == "order":
        return _deal_in_order(clips, shares), by
    return deal_splits(_group_clips(clips, by), shares, by), by


def _deal_in_order(clips: Sequence[Clip], shares: Shares) -> dict[str, str]:
    """Give the first takes to train, the last to test.

    Takes of one sitting are nearly the same film: shuffled, a model is tested on what it has seen.
    """
    split_count = sum(share > 0 for share in shares)
    pooled = few_takes(clips, split_count)
    dealt: dict[str, str] = {}
    for series in [pooled, *(takes for takes in _takes(clips) if len(takes) >= split_count)]:
        dev, test = (
            max(1, round(share / sum(shares) * len(series)))
            if share and len(series) >= split_count
            else 0
            for share in shares[1:]
        )
        for number, clip in enumerate(sorted(series, key=recording_order), start=1):
            remaining = len(series) - number
            dealt[clip.clip_id] = SPLITS[(remaining < dev + test) + (remaining < test)]
    return dealt


def few_takes(clips: Sequence[Clip], splits: int) -> list[Clip]:
    """Return the clips of texts with fewer takes by their signer than there are splits."""
    return [clip for series in _takes(clips) if len(series) < splits for clip in series]


def _takes(clips: Sequence[Clip]) -> list[list[Clip]]:
    """Return the takes of each signer and text."""
    return list(group_pairs(((clip.signer, clip.text), clip) for clip in clips).values())


def recording_order(clip: Clip) -> tuple[list[tuple[str, int]], float]:
    """Return what sorts takes as they were recorded: by film, time and the numbers in names."""
    name = str(clip.video or "") if clip.start_s is not None else clip.clip_id
    parts = re.findall(r"([^0-9]*)([0-9]*)", name)
    return [(text, int(number or -1)) for text, number in parts], clip.start_s or 0.0


def shuffled_takes(clips: Sequence[Clip]) -> int:
    """Count the signers' texts whose takes lie in several splits, though not in order."""
    count = 0
    for series in (takes for takes in _takes(clips) if len({clip.split for clip in takes}) > 1):
        splits = [clip.split for clip in sorted(series, key=recording_order)]
        changes = sum(before != after for before, after in pairwise(splits))
        count += changes > len({*splits}) - 1
    return count


def deal_splits(of: Mapping[str, str], shares: Sequence[float], by: str) -> dict[str, str]:
    """Deal clips to the splits, always in the same way; new ones later: `ingest.deal_signers`.

    Args:
        of: Clip id and its signer, film or sentence: all clips of one go to one split, the busiest
            first, each to the split that lacks most.
        shares: Of train, dev and test; any scale.
        by: What they are: of `UNITS`, but not `order`.

    Returns:
        Clip id and split.

    Raises:
        UserError: If there are fewer units than splits to fill.
    """
    splits = [name for name, share in zip(SPLITS, shares, strict=True) if share > 0]
    # A hash, and not the order of the table: neighbours may come from one recording.
    sizes = Counter(of.values())
    if len(sizes) < len(splits):
        instead = "--by film, --by order or --by clip," if by == "signer" else "--by clip"
        hint = f"Say {instead} to have the same signers in all splits, and say so beside the scores"
        if by == "clip":
            hint = "Bring more, or say 0 in --shares for what may stay empty"
        raise UserError(
            f"found {count_of(len(sizes), by)} for {len(splits)} splits; expected one or more "
            f"each. {hint}"
        )
    order = sorted(sizes, key=lambda unit: (-sizes[unit], hashlib.sha256(unit.encode()).digest()))
    goal = {name: share / sum(shares) * len(of) for name, share in zip(SPLITS, shares, strict=True)}
    lacks = {name: goal[name] for name in splits}
    dealt: dict[str, str] = {}
    for position, unit in enumerate(order):
        remaining = len(order) - position
        empty = [name for name in splits if lacks[name] == goal[name]]
        split = max(empty if len(empty) >= remaining else splits, key=lambda name: lacks[name])
        dealt[unit] = split
        lacks[split] -= sizes[unit]
    return {clip: dealt[unit] for clip, unit in of.items()}


def _group_clips(clips: Sequence[Clip], by: str) -> dict[str, str]:
    """Return the unit of each clip; signers who share a film count as a single signer."""
    if by == "clip":
        return {clip.clip_id: clip.clip_id for clip in clips}
    if by == "sentence":
        return {clip.clip_id: " ".join(find_words(clip.text)) for clip in clips}
    films = {clip.clip_id: str(clip.video or clip.clip_id) for clip in clips}
    if by == "film":
        return films
    same = join_signers((films[clip.clip_id], clip.signer) for clip in clips)
    return {clip.clip_id: same[clip.signer] for clip in clips}


def join_signers(signed: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return for each signer one of those who share films, the same for all of them."""
    same: dict[str, str] = {}

    def first_of(signer: str) -> str:
        while same.setdefault(signer, signer) != signer:
            signer = same[signer]
        return signer

    films: dict[str, str] = {}
    for film, signer in signed:
        same[first_of(signer)] = first_of(films.setdefault(film, signer))
    return {signer: first_of(signer) for signer in same}
