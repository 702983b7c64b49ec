"""New and old clips come in; which new ones are held against which old ones goes out."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from signloom.corpus.manifest import Clip


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Some new clips, and the old ones that they should be like."""

    name: str
    new: tuple[str, ...]
    old: tuple[str, ...]
    """Of the same signer, if the signer is known; else of all."""
    is_known: bool
    """Whether the old ones are the same signer's."""


def form_groups(
    old: Sequence[Clip], new: Sequence[Clip], measured: Collection[str], min_clips: int
) -> list[Group]:
    """Return each signer of the batch, and the batch as a whole if it has several.

    One bad signer hides among good ones, and a bad batch in signers of too few clips.

    Args:
        old: Clips to compare with.
        new: Clips of the batch.
        measured: Clips that have landmarks; the others are left out.
        min_clips: Fewest clips on each side.
    """
    before, now = _by_signer(old, measured), _by_signer(new, measured)
    everyone = tuple(name for names in before.values() for name in names)
    batch = tuple(name for names in now.values() for name in names)
    groups = []
    if len(now) > 1:
        groups.append(Group(name="all new clips", new=batch, old=everyone, is_known=False))
    for signer, names in sorted(now.items()):
        own = before.get(signer, ())
        is_known = len(own) >= min_clips
        groups.append(
            Group(name=signer, new=names, old=own if is_known else everyone, is_known=is_known)
        )
    return [group for group in groups if min(len(group.new), len(group.old)) >= min_clips]


def _by_signer(clips: Sequence[Clip], measured: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for clip in clips:
        if clip.clip_id in measured:
            found[clip.signer].append(clip.clip_id)
    return {signer: tuple(names) for signer, names in found.items()}
