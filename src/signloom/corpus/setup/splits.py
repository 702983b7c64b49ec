"""What a table calls its splits comes in, or clips without any; train, dev and test go out."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from signloom.config import UserError
from signloom.corpus.manifest import SPLITS

NAMES = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "val": "dev",
    "valid": "dev", "validation": "dev", "test": "test", "testing": "test",
}  # fmt: skip


def deal_splits(signers: Mapping[str, str], shares: Sequence[float], by: str) -> dict[str, str]:
    """Deal clips to the splits, always in the same way.

    Args:
        signers: Clip id and signer.
        shares: Of train, dev and test; any scale.
        by: `signer`: all clips of a signer go to one split, the busiest signers first, each to
            the split that lacks most; `clip`: signers are torn apart.

    Returns:
        Clip id and split.

    Raises:
        UserError: If there are fewer signers than splits to fill.
    """
    wanted = [name for name, share in zip(SPLITS, shares, strict=True) if share > 0]
    # A hash, and not the order of the table: neighbours may come from one recording.
    units = {clip: signer if by == "signer" else clip for clip, signer in signers.items()}
    sizes = Counter(units.values())
    if len(sizes) < len(wanted):
        raise UserError(
            f"found {len(sizes)} signers for {len(wanted)} splits; expected one or more each. Say "
            "--by clip to have the same signers in all splits, and say so beside the scores"
        )
    order = sorted(sizes, key=lambda unit: (-sizes[unit], hashlib.sha256(unit.encode()).digest()))
    goal = {
        name: share / sum(shares) * len(units) for name, share in zip(SPLITS, shares, strict=True)
    }
    lacks = {name: goal[name] for name in wanted}
    dealt: dict[str, str] = {}
    for place, unit in enumerate(order):
        left = len(order) - place
        empty = [name for name in wanted if lacks[name] == goal[name]]
        split = max(empty if len(empty) >= left else wanted, key=lambda name: lacks[name])
        dealt[unit] = split
        lacks[split] -= sizes[unit]
    return {clip: dealt[unit] for clip, unit in units.items()}
