"""What is recorded in the weeks of a soak."""

from pathlib import Path
from typing import Any, Literal

from signloom.config import checked_dataclass
from signloom_demo.grammar import Sentence, sentences

Flaw = Literal["none", "swapped", "mirrored", "lazy"]


@checked_dataclass
class Recording:
    """How the camera is set."""

    fps: float
    width: int
    """Pixels, even, as is the height."""
    height: int


@checked_dataclass
class Language:
    """What may be signed."""

    max_signs: int
    """Longest sentence."""
    signs: list[str]
    """Known from the start."""
    later_signs: list[str]
    """Signed by the deliveries that say `words: all` and by the hidden test."""

    def pool(self, words: Literal["first", "all"]) -> list[Sentence]:
        """Return every sentence of these words."""
        known = {*self.signs, *(self.later_signs if words == "all" else ())}
        return [one for one in sentences(self.max_signs) if known.issuperset(one.glosses)]

    def is_new(self, sentence: Sentence) -> bool:
        """Whether a sentence needs a word that was not known from the start."""
        return not set(self.signs).issuperset(sentence.glosses)


@checked_dataclass
class Delivery:
    """What one folder of the inbox holds."""

    signers: list[str]
    clips: int
    """Of each signer."""
    words: Literal["first", "all"]
    form: Literal["table", "sidecars"]
    """A table beside the videos, or a text file beside each, in a folder for each signer."""
    flaw: Flaw
    """swapped: red and blue; mirrored: left and right; lazy: hands out of the picture."""


@checked_dataclass
class Night:
    """A week's deliveries, and what happens in the night after it."""

    event: str
    """For the chart; may be empty."""
    power_cut: bool
    """The night is killed in the middle of training and started again."""
    deliveries: list[Delivery]


@checked_dataclass
class SoakOptions:
    """Section `study` of studies/soak/params.yaml."""

    folder: Path
    """Where all of it happens; made anew if it does not exist, gone on with if it does."""
    seed: int
    recording: Recording
    language: Language
    founders: dict[str, list[str]]
    """The signers of train, dev and test that the corpus starts with."""
    founding_clips: dict[str, int]
    """Of each of them, by split."""
    hidden_signers: list[str]
    """Of the hidden test, which no night ever sees."""
    hidden_clips: int
    """Of each of them."""
    project: dict[str, dict[str, Any]]
    """What differs from the params.yaml of this project, by section."""
    ops: dict[str, Any]
    """What its ops.yaml has."""
    nights: list[Night]
    """The first is that of the founding stock and has no deliveries."""

    def __post_init__(self) -> None:
        seen = {name for names in self.founders.values() for name in names}
        seen |= {n for night in self.nights for one in night.deliveries for n in one.signers}
        if shown := seen & set(self.hidden_signers):
            raise ValueError(f"hidden_signers: {', '.join(sorted(shown))} are in the corpus, too")
