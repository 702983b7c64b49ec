"""Signers who are new come in, and how many clips each split has; a split for each goes out."""

import hashlib
from collections.abc import Mapping, Sequence

from signloom.corpus.manifest import SPLITS


def deal_signers(
    new: Mapping[str, int], counts: Mapping[str, int], shares: Sequence[float]
) -> dict[str, str]:
    """Deal new signers to the splits so that the shares are approached; nobody else moves.

    The busiest go first, each to the split that lacks most clips. Ties are settled by a hash of
    the name: the order of a folder must not decide who is tested.

    Args:
        new: Signers and their clips.
        counts: Clips that each split has.
        shares: Of train, dev and test; any scale.

    Returns:
        Signer and split.
    """
    wanted = {name: share for name, share in zip(SPLITS, shares, strict=True) if share > 0}
    have = {name: counts.get(name, 0) for name in SPLITS}
    dealt: dict[str, str] = {}
    for signer in sorted(new, key=lambda signer: (-new[signer], _hash(signer))):
        total = sum(have.values()) + new[signer]
        lacks = {
            name: share / sum(wanted.values()) * total - have[name]
            for name, share in wanted.items()
        }
        split = max(wanted, key=lambda name: (lacks[name], _hash(signer + name)))
        dealt[signer] = split
        have[split] += new[signer]
    return dealt


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
