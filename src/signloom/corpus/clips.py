"""The clips of a split: their targets at hand, their landmarks read when a batch asks for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.corpus.targets import Target


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One clip ready for training."""

    target: Target
    sequence: LandmarkSequence


@dataclass(frozen=True, slots=True, eq=False)
class Clips(Sequence[Example]):
    """Examples by number, of which only the targets need to be in memory.

    Attributes:
        targets: One a clip.
        frames: Frames of each clip, as stored.
        fps: Frames a second of each clip.
        layout: Of all landmarks.
        read: From clip numbers to their landmarks, in that order.
    """

    targets: Sequence[Target]
    frames: Sequence[int]
    fps: Sequence[float]
    layout: Layout
    read: Callable[[Sequence[int]], list[LandmarkSequence]]

    def __len__(self) -> int:
        return len(self.targets)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """Read a clip, or several."""
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return Example(self.targets[numbers], self.read([numbers])[0])
        sequences = self.read(numbers)
        return [Example(self.targets[n], s) for n, s in zip(numbers, sequences, strict=True)]


def hold_clips(examples: Sequence[Example]) -> Clips:
    """Return examples that are in memory anyway as clips.

    Raises:
        ValueError: If there is none.
    """
    if not examples:
        raise ValueError("found no example, expected at least one")
    sequences = [example.sequence for example in examples]
    return Clips(
        targets=[example.target for example in examples],
        frames=[len(sequence.points) for sequence in sequences],
        fps=[sequence.fps for sequence in sequences],
        layout=sequences[0].layout,
        read=lambda numbers: [sequences[number] for number in numbers],
    )
