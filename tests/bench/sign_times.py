"""When signs are read, against the spans that the demo's signer was drawn with.

Of the clips of dev and test whose signs are read without an error: how much of each true sign the
read one covers, and how far its borders are off. Of the clips that are translated rightly: whether
a word with a sign has the time of its own one, and whether the others have none.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from signloom.config import load_section
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target, read_targets
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.signs import read_signs
from signloom.translation.timed import translate_timed
from signloom.translation.translator import Translator
from signloom.translation.words import find_words
from signloom_demo.draw import TRUTH, DrawOptions, Truth, read_truth
from signloom_demo.grammar import ADJECTIVES, PLACES, SUBJECTS, THINGS, TIMES, VERBS
from tests.bench.board import Figure

PARAMS = Path("data/demo/params.yaml")
# Words that stand for a sign, each for one: no forms of "être", articles or prepositions.
GLOSS_OF = {
    **{word: gloss for gloss, word in SUBJECTS.items()},
    **{noun.word: gloss for gloss, noun in THINGS.items()},
    **{word: gloss for gloss, words in ADJECTIVES.items() for word in words},
    **{word: gloss for gloss, words in VERBS.items() if gloss != "ETRE" for word in words},
    **{find_words(text)[-1][0]: gloss for gloss, text in {**PLACES, **TIMES}.items()},
    "aujourd": "AUJOURDHUI", "j": "MOI", "pas": "NON", "grand": "GRAND", "grande": "GRAND",
    "bonjour": "BONJOUR", "merci": "MERCI",
}  # fmt: skip
ASKING = ("est", "ce", "que", "qu")  # all of them are the sign QUESTION


def measure() -> list[Figure]:
    """Measure them."""
    truths = read_truth(load_section(PARAMS, "draw", DrawOptions).out / TRUTH)
    translator = Translator.load(CHECKPOINT)
    targets = [one for one in read_targets(TARGETS) if one.split in ("dev", "test")]
    sequences = translator.source.read(targets, SHARDS)
    covered, starts, ends, clips = list[float](), list[float](), list[float](), 0
    for target in targets:
        clip, truth = sequences[target.clip_id], truths[target.clip_id].sign
        (signs,) = read_signs(translator, [clip])
        if [sign.gloss for sign in signs] != target.gloss.split():
            continue
        clips += 1
        fps = len(truth) / clip.seconds
        for place, sign in enumerate(signs):
            frames = np.flatnonzero(truth == place)
            if not len(frames):  # cut off the film
                continue
            start_s, end_s = frames[0] / fps, (frames[-1] + 1) / fps
            both_s = min(end_s, sign.end_s) - max(start_s, sign.start_s)
            covered.append(max(both_s, 0) / (end_s - start_s))
            starts.append(sign.start_s - start_s)
            ends.append(sign.end_s - end_s)
    half = 100 * float(np.mean(np.array(covered) >= 0.5))
    return [
        Figure(f"clips whose signs are all read, of {len(targets)}", clips),
        Figure(f"half of the true sign covered or more, % of {len(covered)}", half, at_least=90),
        Figure("start off, s, median", float(np.median(np.abs(starts))), at_most=0.15),
        Figure("end off, s, median", float(np.median(np.abs(ends))), at_most=0.15),
        *measure_words(translator, targets, sequences, truths),
    ]


def measure_words(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    truths: Mapping[str, Truth],
) -> list[Figure]:
    """Measure where the words of the clips are that are translated rightly."""
    found: dict[str, list[float]] = {}
    silent = list[bool]()
    clips = [sequences[target.clip_id] for target in targets]
    timed = translate_timed(translator, clips, translator.decoding, n_best=1)
    for target, clip, one in zip(targets, clips, timed, strict=True):
        if one.translation.text != target.text:
            continue
        truth, glosses = truths[target.clip_id].sign, target.gloss.split()
        fps, begins, spans = len(truth) / clip.seconds, 0, []
        for token in one.tokens or ():
            spans.append((begins, begins + len(token.text), token))
            begins += len(token.text)
        for word, start, end in find_words(target.text):
            token = next(t for first, last, t in spans if first < end and last > start)
            gloss = GLOSS_OF.get(word)
            if word in ASKING and "QUESTION" in glosses:
                continue
            if gloss is None:
                silent.append(token.start_s is None)
                continue
            frames = np.flatnonzero(truth == glosses.index(gloss)) if gloss in glosses else []
            if not len(frames):  # "nous" may be two signs; the rest is cut off the film
                continue
            start_s, end_s = frames[0] / fps, (frames[-1] + 1) / fps
            both_s = 0.0
            if token.start_s is not None and token.end_s is not None:
                both_s = min(end_s, token.end_s) - max(start_s, token.start_s)
            found.setdefault(gloss, []).append(max(both_s, 0) / (end_s - start_s))

    def share(names: Sequence[str]) -> Figure:
        own = np.array([one for name in names for one in found[name]])
        what = f"{len(own)} words" if len(names) > 1 else names[0]
        return Figure(
            f"word has half of its sign or more, % of {what}", 100 * float((own >= 0.5).mean()),
            at_least=90,
        )  # fmt: skip

    return [
        share(list(found)),
        *(share([name]) for name in ("MAISON", "ECOLE", "SOIR") if name in found),
        Figure(
            f"no time, % of {len(silent)} words without a sign", 100 * float(np.mean(silent)),
            at_least=85,
        ),
    ]  # fmt: skip
