"""When signs are read, and where they are found, against the spans that the demo was drawn with.

Of the clips of dev and test whose signs are read without an error: how much of each true sign the
read one covers, and how far its borders are off. Of the clips that are translated rightly: whether
a word with a sign has the time of its own one, and whether the others have none.

And in long films, the clips of each test signer one after another, with rests between, every sign
of the demo is looked for by itself. What is found is right if it lies over half of a true sign of
that gloss, or half of it lies in one.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.words import locate_words
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target, read_targets
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.recognised_signs import find_signs, read_signs
from signloom.translation.translator import Translator
from signloom_demo.draw import TRUTH, DrawOptions, Truth, read_truth
from signloom_demo.grammar import ADJECTIVES, PLACES, SUBJECTS, THINGS, TIMES, VERBS
from signloom_tools.translate.segmentation import cut, segment_by_rest
from signloom_tools.translate.timed import translate_timed
from tests.bench.figures import Figure

PARAMS = Path("data/demo/params.yaml")
# Words that stand for a sign, each for one: no forms of "être", articles or prepositions.
GLOSS_OF = {
    **{word: gloss for gloss, word in SUBJECTS.items()},
    **{noun.word: gloss for gloss, noun in THINGS.items()},
    **{word: gloss for gloss, words in ADJECTIVES.items() for word in words},
    **{word: gloss for gloss, words in VERBS.items() if gloss != "ETRE" for word in words},
    **{locate_words(text)[-1][0]: gloss for gloss, text in {**PLACES, **TIMES}.items()},
    "aujourd": "AUJOURDHUI",
    "j": "MOI",
    "pas": "NON",
    "grand": "GRAND",
    "grande": "GRAND",
    "bonjour": "BONJOUR",
    "merci": "MERCI",
}
REST_S = 1.5  # between two clips of a film the signer holds still
ASKING = ("est", "ce", "que", "qu")  # all of them are the sign QUESTION

Span = tuple[str, float, float]  # gloss, start and end, seconds


def measure() -> list[Figure]:
    """Measure them."""
    truths = read_truth(load_section(PARAMS, "draw", DrawOptions).out / TRUTH)
    translator = Translator.load(CHECKPOINT)
    targets = [target for target in read_targets(TARGETS) if target.split in ("dev", "test")]
    sequences = translator.source.read(targets, SHARDS)
    films = [sequences[target.clip_id] for target in targets]
    true = [find_spans(t, film, truths[t.clip_id]) for t, film in zip(targets, films, strict=True)]
    return [
        *measure_borders(translator, films, true),
        *measure_words(translator, targets, sequences, truths),
        *measure_films(translator, targets, sequences, truths),
    ]


def measure_borders(
    translator: Translator, clips: Sequence[SourceSequence], true: Sequence[Sequence[Span]]
) -> list[Figure]:
    """Measure where the signs of the clips are that are all read rightly."""
    covered, inside, offs, read = list[float](), list[float](), list[tuple[float, float]](), 0
    for signs, spans in zip(read_signs(translator, clips), true, strict=True):
        if [sign.gloss for sign in signs] != [gloss for gloss, _, _ in spans]:
            continue
        read += 1
        for sign, (_, start_s, end_s) in zip(signs, spans, strict=True):
            if start_s < end_s:
                both_s = min(end_s, sign.end_s) - max(start_s, sign.start_s)
                covered.append(max(both_s, 0) / (end_s - start_s))
                inside.append(max(both_s, 0) / (sign.end_s - sign.start_s))
                offs.append((sign.start_s - start_s, sign.end_s - end_s))
    half, half_inside = (
        100 * float(np.mean(np.array(shares) >= 0.5)) for shares in (covered, inside)
    )
    start, end = np.median(np.abs(offs), axis=0).tolist()
    return [
        Figure(f"clips whose signs are all read, of {len(clips)}", read),
        Figure(f"half of the true sign covered or more, % of {len(covered)}", half, at_least=90),
        Figure("half of what was read or more is in the true sign, %", half_inside),
        Figure("start off, s, median", start, at_most=0.15),
        Figure("end off, s, median", end, at_most=0.15),
    ]


def find_spans(target: Target, clip: SourceSequence, truth: Truth) -> list[Span]:
    """Return where the signs of a drawn clip are; one that is cut off the film has no length."""
    assert isinstance(clip, LandmarkSequence)
    fps, spans = len(truth.sign) / clip.seconds, list[Span]()
    for place, gloss in enumerate(target.gloss.split()):
        frames = np.flatnonzero(truth.sign == place)
        ends = (frames[0] / fps, (frames[-1] + 1) / fps) if len(frames) else (0.0, 0.0)
        spans.append((gloss, *ends))
    return spans


def measure_words(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    truths: Mapping[str, Truth],
) -> list[Figure]:
    """Measure where the words of the clips are that are translated rightly."""
    gloss_shares: dict[str, list[float]] = {}
    silent = list[bool]()
    clips = [sequences[target.clip_id] for target in targets]
    timed = translate_timed(translator, clips, translator.decoding, n_best=1)
    for target, clip, reading in zip(targets, clips, timed, strict=True):
        if reading.translation.text != target.text:
            continue
        truth, glosses = truths[target.clip_id].sign, target.gloss.split()
        fps, begins, spans = len(truth) / clip.seconds, 0, []
        for token in reading.tokens or ():
            spans.append((begins, begins + len(token.text), token))
            begins += len(token.text)
        for word, start, end in locate_words(target.text):
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
            gloss_shares.setdefault(gloss, []).append(max(both_s, 0) / (end_s - start_s))

    def share(names: Sequence[str]) -> Figure:
        shares = np.array([value for name in names for value in gloss_shares[name]])
        subject = f"{len(shares)} words" if len(names) > 1 else names[0]
        return Figure(
            f"word has half of its sign or more, % of {subject}",
            100 * float((shares >= 0.5).mean()),
            at_least=90,
        )

    return [
        share(list(gloss_shares)),
        *(share([name]) for name in ("MAISON", "ECOLE", "SOIR") if name in gloss_shares),
        Figure(
            f"no time, % of {len(silent)} words without a sign",
            100 * float(np.mean(silent)),
            at_least=85,
        ),
    ]


def measure_films(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    truths: Mapping[str, Truth],
) -> list[Figure]:
    """Measure which signs are found in films of the test signers."""
    of_signer = defaultdict[str, list[Target]](list)
    for target in targets:
        if target.split == "test":
            of_signer[target.signer].append(target)
    hits, reached, seconds = list[bool](), list[bool](), 0.0
    for signer_targets in of_signer.values():
        clips = [
            c for t in signer_targets if isinstance(c := sequences[t.clip_id], LandmarkSequence)
        ]
        film, true = join_clips(signer_targets, clips, [truths[t.clip_id] for t in signer_targets])
        spans, names = segment_by_rest(film), translator.spec.ctc.names
        parts = find_signs(translator, [cut(film, span) for span in spans], names)
        read_signs = [
            (sign.gloss, start_s + sign.start_s, start_s + sign.end_s)
            for (start_s, _), signs in zip(spans, parts, strict=True)
            for sign in signs
        ]
        hits += [any(is_hit(span, sign) for sign in true) for span in read_signs]
        reached += [any(is_hit(span, sign) for span in read_signs) for sign in true]
        seconds += film.seconds
    return [
        Figure(f"right, % of {len(hits)} found in films", 100 * float(np.mean(hits)), at_least=90),
        Figure(f"found in films, % of {len(reached)}", 100 * float(np.mean(reached)), at_least=90),
        Figure(f"seconds of {len(of_signer)} films", seconds),
    ]


def join_clips(
    targets: list[Target], clips: list[LandmarkSequence], truths: list[Truth]
) -> tuple[LandmarkSequence, list[Span]]:
    """Return a film of clips, and where its signs are."""
    points, present, spans, start_s = [], [], list[Span](), 0.0
    pause = round(REST_S * clips[0].fps)
    for target, clip, truth in zip(targets, clips, truths, strict=True):
        clip_spans = find_spans(target, clip, truth)
        spans += [(gloss, start_s + a, start_s + b) for gloss, a, b in clip_spans if a < b]
        points += [clip.points, np.repeat(clip.points[-1:], pause, axis=0)]
        present += [clip.present, np.repeat(clip.present[-1:], pause, axis=0)]
        start_s += clip.seconds + pause / clip.fps
    film = replace(clips[0], points=np.concatenate(points), present=np.concatenate(present))
    return film, spans


def is_hit(guess: Span, true: Span) -> bool:
    """Return whether a sign that was found is that one."""
    both_s = min(guess[2], true[2]) - max(guess[1], true[1])
    return guess[0] == true[0] and 2 * both_s >= min(guess[2] - guess[1], true[2] - true[1])
