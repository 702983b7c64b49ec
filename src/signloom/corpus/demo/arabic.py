"""Vowelled Arabic sentences and the mouth shapes that speak them.

With its vowel signs Arabic is written nearly as it is spoken, so mouth shapes follow from the
text letter by letter. As in real lip reading several letters share a shape (ب and م, or ت and د):
only the rest of the word tells them apart.
"""

import itertools
from dataclasses import dataclass

VERBS = {"want": ("أُرِيدُ", "تُرِيدُ", "يُرِيدُ"), "drink": ("أَشْرَبُ", "تَشْرَبُ", "يَشْرَبُ"),
         "love": ("أُحِبُّ", "تُحِبُّ", "يُحِبُّ")}  # fmt: skip
PERSONS = ("أَنَا", "أَنْتَ", "هُوَ")  # I, you, he
DRINKS = ("مَاءً", "قَهْوَةً", "شَايًا", "حَلِيبًا")  # water, coffee, tea, milk
FOODS = ("خُبْزًا", "تُفَّاحَةً", "لَحْمًا", "سَمَكًا")  # bread, an apple, meat, fish
TIMES = ("", "الْيَوْمَ", "غَدًا", "مَسَاءً")  # -, today, tomorrow, in the evening


@dataclass(frozen=True, slots=True)
class Mouth:
    """How a mouth is held; shares of what it can do, 0 to 1."""

    open: float  # distance of the lips
    spread: float = 0.0  # corners drawn apart
    round: float = 0.0  # corners drawn together, lips pushed forward
    tuck: float = 0.0  # lower lip against the upper teeth


@dataclass(frozen=True, slots=True)
class Hold:
    """A mouth shape and how long it is aimed at."""

    mouth: Mouth
    length: float  # times that of a usual letter


REST = Mouth(0.04)
_PRESSED = Mouth(0.0)
_LIP_TEETH = Mouth(0.08, tuck=1.0)
_ROUNDED = Mouth(0.22, round=1.0)
_WIDE_OPEN = Mouth(0.9)
_SPREAD = Mouth(0.25, spread=1.0)
_BETWEEN_TEETH = Mouth(0.34, spread=0.3)
_BEHIND_TEETH = Mouth(0.26, spread=0.1)
_HISSED = Mouth(0.14, spread=0.6)
_HUSHED = Mouth(0.24, round=0.55)
_THROAT = Mouth(0.42)

_LETTERS = {
    _PRESSED: "بم", _LIP_TEETH: "ف", _ROUNDED: "وؤ", _WIDE_OPEN: "اآ", _SPREAD: "يى",
    _BETWEEN_TEETH: "ثذظ", _BEHIND_TEETH: "تدنلطضر", _HISSED: "سزص", _HUSHED: "شج",
    _THROAT: "كقخغعحهةأإئء",
}  # fmt: skip
_VOWELS = {
    "َ": Mouth(0.62), "ُ": Mouth(0.2, round=0.85), "ِ": Mouth(0.24, spread=0.8),
}  # fmt: skip
_SHAPES = {letter: mouth for mouth, letters in _LETTERS.items() for letter in letters}
_TANWIN, _SHADDA, _SUKUN = "ً", "ّ", "ْ"  # vowel and n, doubled letter, no vowel


def sentences() -> list[str]:
    """Return every sentence: person, verb, what, when."""
    told = []
    for (verb, forms), (number, person), time in itertools.product(
        VERBS.items(), enumerate(PERSONS), TIMES
    ):
        for thing in DRINKS if verb == "drink" else (*DRINKS, *FOODS):
            told.append(" ".join(filter(None, (person, forms[number], thing, time))))
    return told


def spell(text: str) -> list[Hold]:
    """Return the mouth shapes of a vowelled sentence, at rest before and after it.

    Raises:
        ValueError: If it has a character without a shape.
    """
    holds = [Hold(REST, 2.0)]
    for character in text:
        if character == _SHADDA:
            holds[-1] = Hold(holds[-1].mouth, 2.0)
        elif character == _TANWIN:
            holds += [Hold(_VOWELS["َ"], 1.0), Hold(_BEHIND_TEETH, 1.0)]
        elif character in _VOWELS:
            holds.append(Hold(_VOWELS[character], 1.0))
        elif character in _SHAPES:
            holds.append(Hold(_SHAPES[character], 1.0))
        elif character == " ":
            holds.append(Hold(REST, 0.5))
        elif character != _SUKUN:
            raise ValueError(f"no mouth shape for {character!r} in {text!r}")
    return [*holds, Hold(REST, 2.0)]
