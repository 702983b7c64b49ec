"""Drawn people who speak: Arabic sentences as films of faces.

With its vowel signs Arabic is written nearly as it is spoken, so mouth shapes follow from the
text letter by letter. As in real lip reading several letters share a shape (ب and م, or ت and د):
only the rest of the word tells them apart.

People differ in looks, room, size and place in the picture, width of the mouth, thickness of the
lips, tempo and articulation; they blink, look about and move their brows.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.config import Count, checked_dataclass
from signloom_demo.face import Expression
from signloom_demo.render import VIEW_HEIGHT, Camera
from signloom_demo.signer import Signer
from studies.lip_reading.films import Film, draw_person

VERBS = {
    "want": ("أُرِيدُ", "تُرِيدُ", "يُرِيدُ"),
    "drink": ("أَشْرَبُ", "تَشْرَبُ", "يَشْرَبُ"),
    "love": ("أُحِبُّ", "تُحِبُّ", "يُحِبُّ"),
}
PERSONS = ("أَنَا", "أَنْتَ", "هُوَ")  # I, you, he
DRINKS = ("مَاءً", "قَهْوَةً", "شَايًا", "حَلِيبًا")  # water, coffee, tea, milk
FOODS = ("خُبْزًا", "تُفَّاحَةً", "لَحْمًا", "سَمَكًا")  # bread, an apple, meat, fish
TIMES = ("الْيَوْمَ", "غَدًا", "مَسَاءً")  # today, tomorrow, in the evening


@dataclass(frozen=True, slots=True)
class Hold:
    """A mouth shape and how long it is aimed at."""

    mouth: Expression
    length: float  # times that of a usual letter


REST = Expression(0.04)
_PRESSED = Expression(0.0)
_LIP_TEETH = Expression(0.08, tuck=1.0)
_ROUNDED = Expression(0.22, round=1.0)
_WIDE_OPEN = Expression(0.9)
_SPREAD = Expression(0.25, spread=1.0)
_BETWEEN_TEETH = Expression(0.34, spread=0.3)
_BEHIND_TEETH = Expression(0.26, spread=0.1)
_HISSED = Expression(0.14, spread=0.6)
_HUSHED = Expression(0.24, round=0.55)
_THROAT = Expression(0.42)

_LETTERS = {
    _PRESSED: "بم",
    _LIP_TEETH: "ف",
    _ROUNDED: "وؤ",
    _WIDE_OPEN: "اآ",
    _SPREAD: "يى",
    _BETWEEN_TEETH: "ثذظ",
    _BEHIND_TEETH: "تدنلطضر",
    _HISSED: "سزص",
    _HUSHED: "شج",
    _THROAT: "كقخغعحهةأإئء",
}
_VOWELS = {
    "َ": Expression(0.62),
    "ُ": Expression(0.2, round=0.85),
    "ِ": Expression(0.24, spread=0.8),
}
_SHAPES = {letter: mouth for mouth, letters in _LETTERS.items() for letter in letters}
_TANWIN, _SHADDA, _SUKUN = "ً", "ّ", "ْ"  # vowel and n, doubled letter, no vowel


def sentences() -> list[str]:
    """Return every sentence: person, verb, what, when."""
    texts = []
    for (verb, forms), (number, person) in itertools.product(VERBS.items(), enumerate(PERSONS)):
        nouns = DRINKS if verb == "drink" else (*DRINKS, *FOODS)
        for noun, time in itertools.product(nouns, TIMES):
            texts.append(f"{person} {forms[number]} {noun} {time}")
    return texts


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


FPS, SIDE = 20.0, 256  # frames a second; pixels of the square picture
LETTER_S = 0.11  # usual length of a letter
SMOOTHING_S = 0.12  # over which a mouth goes from one shape to the next
STEPS = 4  # of a movement in a frame
KEPT_BACK = 5  # of so many sentences one is not in train

FloatArray = npt.NDArray[np.float64]


@checked_dataclass
class LipCorpusOptions:
    """Who speaks and how much."""

    seed: int
    speakers: dict[str, int]  # split to speakers, each in one split
    clips_per_speaker: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """What tells one person's speech from another's."""

    signer: Signer
    camera: Camera
    tempo: float  # letters a letter's usual length
    articulation: float  # how far shapes are reached, about 1


def draw_speaker(name: str, generator: np.random.Generator) -> Speaker:
    """Draw a person whose head and shoulders are filmed."""
    draw = generator.uniform
    camera = Camera(
        width=SIDE,
        height=SIDE,
        zoom=VIEW_HEIGHT / draw(34, 46),
        shift_x=draw(-3, 3),
        shift_y=draw(18, 23),
    )
    return Speaker(
        signer=draw_person(name, generator),
        camera=camera,
        tempo=draw(0.85, 1.2),
        articulation=draw(0.85, 1.15),
    )


def plan_films(options: LipCorpusOptions) -> list[Film]:
    """Return films of random sentences, sorted by clip id; some sentences are not in train."""
    texts, films = sentences(), []
    generator = np.random.default_rng(options.seed)
    for split, count in options.speakers.items():
        split_texts = [text for n, text in enumerate(texts) if split != "train" or n % KEPT_BACK]
        for number in range(1, count + 1):
            speaker = draw_speaker(f"{split}-{number:02}", generator)
            for place, index in enumerate(
                generator.choice(
                    len(split_texts), options.clips_per_speaker, replace=False
                ).tolist()
            ):
                films.append(
                    Film(
                        clip_id=f"{speaker.signer.name}-{place:03}",
                        split=split,
                        text=split_texts[index],
                        language="ar",
                        signer=speaker.signer,
                        camera=speaker.camera,
                        fps=FPS,
                        faces=speak(split_texts[index], speaker, generator),
                    )
                )
    return sorted(films, key=lambda film: film.clip_id)


def speak(text: str, speaker: Speaker, generator: np.random.Generator) -> tuple[Expression, ...]:
    """Return the face of each frame of somebody who says a sentence."""
    mouths = _movement(text, speaker, generator)
    times = np.arange(len(mouths)) / FPS
    phases, rates = generator.uniform(0, 2 * np.pi, 2), generator.uniform(1, 3, 2)
    brows, gaze = 0.4 * np.sin(phases[:, None] + rates[:, None] * times)
    blink = -1.0 * (np.abs(times - generator.uniform(0, times[-1])) < 0.1)
    rows = np.column_stack([mouths, brows, blink, gaze])  # in the order of an expression's fields
    return tuple(Expression(*row) for row in rows.tolist())


def _movement(text: str, speaker: Speaker, generator: np.random.Generator) -> FloatArray:
    """Return open, spread, round and tuck of each frame, shape (S, 4)."""
    targets, steps = [], []
    for hold in spell(text):
        length = hold.length * LETTER_S / speaker.tempo * generator.uniform(0.8, 1.25)
        shape = hold.mouth
        targets.append([shape.open, shape.spread, shape.round, shape.tuck])
        steps.append(max(1, round(length * FPS * STEPS)))
    path = np.repeat(np.array(targets), steps, axis=0)
    window = np.hanning(2 * round(SMOOTHING_S * FPS * STEPS) + 1)
    kernel = window / window.sum()
    padded = np.pad(path, ((len(kernel) // 2,) * 2, (0, 0)), mode="edge")
    smooth = [np.convolve(padded[:, column], kernel, mode="valid") for column in range(4)]
    return np.stack(smooth, axis=1)[::STEPS] * speaker.articulation
