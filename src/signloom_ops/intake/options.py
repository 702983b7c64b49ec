"""Options of an ingest: what a new clip must be like to come into the corpus."""

from typing import Annotated

from pydantic import Field

from signloom.config import Count, NonNegative, Share, checked_dataclass


@checked_dataclass
class IngestOptions:
    """Section `retrain.ingest` of params.yaml."""

    min_duration_s: NonNegative
    """Shortest clip accepted, seconds."""
    max_duration_s: float
    """Longest clip accepted, seconds, above the shortest."""
    min_side: Count = 120
    """Fewest pixels of the shorter side of the upright picture."""
    max_side: int = 4096
    """Most pixels of the longer side."""
    script_share: Share = 0.8
    """Least share of a sentence's letters in scripts that the sentences of train use."""
    length_factor: Annotated[float, Field(ge=1)] = 3.0
    """A sentence may be so many times longer, or shorter, than any of train."""
    settle_s: NonNegative
    """A file that changed less than so many seconds ago may still be on its way: it waits."""
    shares: tuple[NonNegative, NonNegative, NonNegative]
    """Shares of train, dev and test that the dealing of new signers approaches; any scale."""

    def __post_init__(self) -> None:
        if self.max_duration_s <= self.min_duration_s:
            raise ValueError(
                f"max_duration_s: found {self.max_duration_s}, expected more than min_duration_s "
                f"({self.min_duration_s})"
            )
        if self.max_side < self.min_side:
            raise ValueError(
                f"max_side: found {self.max_side}, expected at least min_side ({self.min_side})"
            )
        if self.shares[0] == 0:
            raise ValueError("shares: found 0 for train, expected more")
