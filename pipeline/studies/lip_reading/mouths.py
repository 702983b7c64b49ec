"""Drawn speaking mouths: Arabic sentences as lip landmarks.

With its vowel signs Arabic is written nearly as it is spoken, so mouth shapes follow from the
text letter by letter. As in real lip reading several letters share a shape (ب and م, or ت and د):
only the rest of the word tells them apart.

Nothing is rendered: the 40 lip landmarks are placed where MediaPipe would find them. People differ
in size and place of the mouth, thickness of the lips, tempo, articulation and how they hold and
move their head; the detector adds jitter and loses the mouth now and then.
"""

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.config import Count, checked_dataclass
from signloom.corpus.landmarks import LandmarkSequence, build_layout
from signloom.corpus.manifest import Clip

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


FPS, WIDTH, HEIGHT = 25.0, 640, 480
LETTER_S = 0.09  # usual length of a letter
SMOOTHING_S = 0.11  # over which a mouth goes from one shape to the next
LAYOUT = build_layout(("lips",))

FloatArray = npt.NDArray[np.float64]


@checked_dataclass
class LipCorpusOptions:
    """Who speaks and how much."""

    seed: int
    speakers: dict[str, int]  # split to speakers, each in one split
    clips_per_speaker: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """What tells one person's speaking mouth from another's."""

    name: str
    mouth: float  # width at rest, pixels
    thickness: float  # of a lip, mouth widths
    place: tuple[float, float]  # of the mouth, pixels
    tilt: float  # of the head, radians
    tempo: float  # letters a letter's usual length
    articulation: float  # how far shapes are reached, about 1
    sway: float  # of the head, mouth widths
    jitter: float  # of the detector, standard deviation in mouth widths
    loss: float  # chance of a short loss of the mouth, per clip


def draw_speaker(name: str, generator: np.random.Generator) -> Speaker:
    """Draw a person."""
    draw = generator.uniform
    return Speaker(
        name=name,
        mouth=draw(45, 110),
        thickness=draw(0.11, 0.2),
        place=(draw(250, 390), draw(240, 360)),
        tilt=draw(-0.12, 0.12),
        tempo=draw(0.8, 1.25),
        articulation=draw(0.8, 1.15),
        sway=draw(0.05, 0.3),
        jitter=draw(0.004, 0.01),
        loss=draw(0.0, 0.3),
    )


def draw_lip_corpus(options: LipCorpusOptions) -> list[tuple[Clip, LandmarkSequence]]:
    """Draw clips of random sentences, sorted by clip id."""
    texts, corpus = sentences(), []
    generator = np.random.default_rng(options.seed)
    for split, count in options.speakers.items():
        for number in range(1, count + 1):
            speaker = draw_speaker(f"{split}-{number}", generator)
            chosen = generator.choice(len(texts), options.clips_per_speaker, replace=False)
            for place, index in enumerate(chosen.tolist()):
                clip = Clip(
                    clip_id=f"{speaker.name}-{place:03}",
                    video=Path("none.mp4"),
                    text=texts[index],
                    signer=speaker.name,
                    split=split,
                    language="ar",
                )
                corpus.append((clip, speak(texts[index], speaker, generator)))
    return sorted(corpus, key=lambda item: item[0].clip_id)


def speak(text: str, speaker: Speaker, generator: np.random.Generator) -> LandmarkSequence:
    """Return the lips of a speaker who says a sentence."""
    shapes = _movement(text, speaker, generator)
    frames = len(shapes)
    mouth = np.stack([lip_points(shape, speaker.thickness) for shape in shapes])  # (S, 40, 3)
    turn = np.array([[np.cos(speaker.tilt), -np.sin(speaker.tilt)],
                     [np.sin(speaker.tilt), np.cos(speaker.tilt)]])  # fmt: skip
    mouth[..., :2] = mouth[..., :2] @ turn.T
    phase = generator.uniform(0, 2 * np.pi, 2) + np.arange(frames)[:, None] / FPS * [2.1, 3.3]
    mouth[..., :2] += speaker.sway * np.sin(phase)[:, None]
    mouth += generator.normal(0, speaker.jitter, mouth.shape)
    pixels = mouth * speaker.mouth
    pixels[..., :2] += speaker.place
    points = (pixels / [WIDTH, HEIGHT, WIDTH]).astype(np.float16).astype(np.float32)
    present = np.ones((frames, 1), dtype=np.bool_)
    if generator.random() < speaker.loss:
        start = int(generator.integers(0, frames))
        present[start : start + int(generator.integers(2, 8))] = False
    points[~present[:, 0]] = np.nan
    return LandmarkSequence(
        points=points, present=present, fps=FPS, width=WIDTH, height=HEIGHT, layout=LAYOUT
    )


def _movement(text: str, speaker: Speaker, generator: np.random.Generator) -> FloatArray:
    """Return open, spread, round and tuck of each frame, shape (S, 4)."""
    targets, steps = [], []
    for hold in spell(text):
        length = hold.length * LETTER_S / speaker.tempo * generator.uniform(0.8, 1.25)
        targets.append(list(asdict(hold.mouth).values()))
        steps.append(max(1, round(length * FPS * 4)))  # four steps a frame
    path = np.repeat(np.array(targets), steps, axis=0)
    window = np.hanning(2 * round(SMOOTHING_S * FPS * 4) + 1)
    kernel = window / window.sum()
    padded = np.pad(path, ((len(kernel) // 2,) * 2, (0, 0)), mode="edge")
    smooth = [np.convolve(padded[:, column], kernel, mode="valid") for column in range(4)]
    return np.stack(smooth, axis=1)[::4] * speaker.articulation


def lip_points(shape: FloatArray, thickness: float) -> FloatArray:
    """Place the lip landmarks of one mouth shape.

    Args:
        shape: Open, spread, round and tuck.
        thickness: Of a lip, in mouth widths.

    Returns:
        Shape (40, 3), in mouth widths from the middle of the mouth; x to the right, y down, z
        smaller is nearer. The signer's right is at smaller x, as in unmirrored video.
    """
    opened, spread, rounded, tuck = shape
    half = 0.5 * (1 + 0.18 * spread - 0.42 * rounded)
    lift, drop = 0.12 * opened, 0.42 * opened * (1 - 0.8 * tuck)
    upper = thickness * (1 + 0.2 * rounded)
    lower = thickness * (1.15 + 0.2 * rounded) * (1 - 0.7 * tuck)
    outer, inner = half, half * (0.86 - 0.12 * rounded)
    return np.concatenate(
        [
            _line(outer, -(lift + upper), rounded, bow=0.12 * thickness),
            _line(outer, drop + lower, rounded),
            _line(inner, -lift, rounded),
            _line(inner, drop, rounded),
        ]
    )[_ORDER]


def _line(half: float, height: float, rounded: float, bow: float = 0.0) -> FloatArray:
    """Eleven points from corner to corner along a parabola; corners stay on the axis."""
    share = np.linspace(-1, 1, 11)
    arch = 1 - share**2
    y = height * arch + bow * np.exp(-((share / 0.15) ** 2))
    return np.stack((half * share, y, -(0.08 + 0.2 * rounded) * arch), axis=1)


def _line_order() -> npt.NDArray[np.int64]:
    """Rows of the four lines in the layout's order: corners once, each with its own line."""
    order = []
    for upper, lower in ((0, 11), (22, 33)):
        order += [upper, *range(upper + 1, upper + 11), *range(lower + 1, lower + 10)]
    return np.array(order)


_ORDER = _line_order()
