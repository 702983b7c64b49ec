"""What a new clip must be like to come into the corpus."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestOptions:
    """Section `retrain.ingest` of params.yaml."""

    min_duration_s: float
    """Shortest clip accepted, seconds, 0 or more."""
    max_duration_s: float
    """Longest clip accepted, seconds, above the shortest."""
    min_side: int
    """Fewest pixels of the shorter side of the upright picture, 1 or more."""
    max_side: int
    """Most pixels of the longer side."""
    script_share: float
    """Least share of a sentence's letters in scripts that the sentences of train use, 0 to 1."""
    length_factor: float
    """A sentence may be so many times longer, or shorter, than any of train; 1 or more."""
    settle_s: float
    """A file that changed less than so many seconds ago may still be on its way: it waits."""
    shares: tuple[float, ...]
    """Of train, dev and test in the clips, which new signers are dealt to approach; any scale."""

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not 0 <= self.min_duration_s < self.max_duration_s:
            raise ValueError(
                f"min_duration_s, max_duration_s: found {self.min_duration_s} and "
                f"{self.max_duration_s}, expected 0 or more, and more than that"
            )
        if not 1 <= self.min_side <= self.max_side:
            raise ValueError(
                f"min_side, max_side: found {self.min_side} and {self.max_side}, expected 1 or "
                "more, and at least as many"
            )
        if not 0 <= self.script_share <= 1:
            raise ValueError(f"script_share: found {self.script_share}, expected 0 to 1")
        if self.length_factor < 1:
            raise ValueError(f"length_factor: found {self.length_factor}, expected 1 or more")
        if self.settle_s < 0:
            raise ValueError(f"settle_s: found {self.settle_s}, expected 0 or more")
        if len(self.shares) != 3 or min(self.shares) < 0 or self.shares[0] == 0:
            raise ValueError(
                f"shares: found {list(self.shares)}, expected three numbers for train, dev and "
                "test, 0 or more, of which train has some"
            )
