"""The sentences of train come in; what is odd about a new one goes out."""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_RARE = 0.01  # share of train's letters; a script below it came in by names and slips
_FORMS = ("FULLWIDTH", "HALFWIDTH", "MODIFIER", "SMALL")  # words before the script in some names


@dataclass(frozen=True, slots=True)
class TextRules:
    """What the sentences of a corpus look like.

    Attributes:
        scripts: That its letters are of, by the first word of their Unicode names.
        characters: Of the shortest and the longest sentence.
        words: Of the sentence with the most, parted by spaces.
    """

    scripts: frozenset[str]
    characters: tuple[int, int]
    words: int

    def problems(self, text: str, *, script_share: float, length_factor: float) -> list[str]:
        """Say what is odd about a sentence.

        Args:
            text: With single spaces, not empty.
            script_share: Least share of its letters in known scripts.
            length_factor: How many times longer or shorter than all others it may be.
        """
        found = []
        scripts = Counter(_scripts(text))
        letters = sum(scripts.values())
        known = sum(count for name, count in scripts.items() if name in self.scripts)
        if letters and known < script_share * letters:
            other = ", ".join(sorted(scripts.keys() - self.scripts))
            found.append(
                f"{known} of {letters} letters of the text are in the corpus's script "
                f"({', '.join(sorted(self.scripts))}), the others in {other}"
            )
        if not any(character.isalnum() for character in text):
            found.append("the text has no letter and no digit")
        # One word alone is no fault: where all others have many, its letters are counted.
        for unit, count, (fewest, most) in (
            ("characters", len(text), self.characters),
            ("words", len(text.split()), (1, self.words)),
        ):
            if not fewest / length_factor <= count <= most * length_factor:
                found.append(
                    f"the text has {count} {unit}, the corpus's sentences {fewest} to {most}"
                )
        return found


def learn_rules(texts: Sequence[str]) -> TextRules:
    """Return what sentences, at least one, have in common."""
    counts = Counter(script for text in texts for script in _scripts(text))
    total = counts.total()
    lengths = [len(text) for text in texts]
    return TextRules(
        frozenset(name for name, count in counts.items() if count >= _RARE * total),
        (min(lengths), max(lengths)),
        max(len(text.split()) for text in texts),
    )


def _scripts(text: str) -> Iterable[str]:
    """Yield the script of each letter."""
    for character in text:
        if script := _script_of(character):
            yield script


@functools.cache
def _script_of(character: str) -> str | None:
    if not unicodedata.category(character).startswith("L"):
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    return next((word for word in words if word not in _FORMS), words[0])
