"""The clips of a split: their targets at hand, their sources read when a batch asks for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from signloom.corpus.glosses import GlossSequence, GlossVocabulary
from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.corpus.targets import Target

# What a model may translate.
SourceSequence = LandmarkSequence | GlossSequence


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One clip ready for training."""

    target: Target
    sequence: SourceSequence


@dataclass(frozen=True, slots=True, eq=False)
class Clips(Sequence[Example]):
    """Examples by number, of which only the targets need to be in memory.

    Attributes:
        targets: One a clip.
        frames: Frames of each clip, as stored; of glosses, source tokens.
        fps: Frames a second of each clip; glosses have none, and 1 stands in.
        layout: Of all landmarks; `NO_LANDMARKS` for clips of glosses.
        read: From clip numbers to their landmarks or glosses, in that order.
    """

    targets: Sequence[Target]
    frames: Sequence[int]
    fps: Sequence[float]
    layout: Layout
    read: Callable[[Sequence[int]], Sequence[SourceSequence]]

    @property
    def are_glosses(self) -> bool:
        """Whether the sources are glosses, not landmarks."""
        return self.layout == NO_LANDMARKS

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


def read_gloss_clips(targets: Sequence[Target], vocabulary: GlossVocabulary) -> Clips:
    """Return the clips of these targets, whose sources are their glosses."""
    sequences = [vocabulary.encode(target.gloss) for target in targets]
    return Clips(
        targets=targets,
        frames=[len(sequence.ids) for sequence in sequences],
        fps=[1.0] * len(sequences),
        layout=NO_LANDMARKS,
        read=lambda numbers: [sequences[number] for number in numbers],
    )


def hold_clips(examples: Sequence[Example]) -> Clips:
    """Return examples of landmarks that are in memory anyway as clips.

    Raises:
        ValueError: If there is none, or one is of glosses.
    """
    sequences = [e.sequence for e in examples if isinstance(e.sequence, LandmarkSequence)]
    if not examples or len(sequences) < len(examples):
        raise ValueError(f"found {len(sequences)} examples of landmarks of {len(examples)}")
    return Clips(
        targets=[example.target for example in examples],
        frames=[len(sequence.points) for sequence in sequences],
        fps=[sequence.fps for sequence in sequences],
        layout=sequences[0].layout,
        read=lambda numbers: [sequences[number] for number in numbers],
    )
