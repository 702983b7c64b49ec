"""Examples in memory as the clips of a split."""

from collections.abc import Mapping, Sequence
from typing import Any

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.sources import Clips, Example, LandmarkSource


def hold_clips(examples: Sequence[Example], extractor: Mapping[str, Any] | None = None) -> Clips:
    """Return examples of landmarks as clips."""
    sequences = [e.sequence for e in examples if isinstance(e.sequence, LandmarkSequence)]
    assert len(sequences) == len(examples) > 0
    return Clips(
        targets=[example.target for example in examples],
        frames=[len(sequence.points) for sequence in sequences],
        fps=[sequence.fps for sequence in sequences],
        source=LandmarkSource(layout=sequences[0].layout, extractor=dict(extractor or {})),
        read=lambda numbers: [sequences[number] for number in numbers],
    )
