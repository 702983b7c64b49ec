"""Finding signs in long films: the clips of each test signer one after another, with rests between.

Every sign of the demo is looked for by itself. What is found is right if it lies over half of a
true sign of that gloss, or half of it lies in one.
"""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.targets import Target, read_targets
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.films import find_film_signs, open_cutter
from signloom.translation.translator import Translator
from signloom_demo.draw import TRUTH, DrawOptions, Truth, read_truth
from tests.bench.board import Figure

PARAMS = Path("data/demo/params.yaml")
REST_S = 1.5  # between two clips the signer holds still

Span = tuple[str, float, float]  # gloss, start and end, seconds


def join_clips(
    targets: list[Target], clips: list[LandmarkSequence], truths: list[Truth]
) -> tuple[LandmarkSequence, list[Span]]:
    """Return a film of clips, and where its signs are."""
    points, present, spans, start_s = [], [], list[Span](), 0.0
    rest = round(REST_S * clips[0].fps)
    for target, clip, truth in zip(targets, clips, truths, strict=True):
        fps = len(truth.sign) / clip.seconds
        for place, gloss in enumerate(target.gloss.split()):
            frames = np.flatnonzero(truth.sign == place)
            if len(frames):
                spans.append((gloss, start_s + frames[0] / fps, start_s + (frames[-1] + 1) / fps))
        points += [clip.points, np.repeat(clip.points[-1:], rest, axis=0)]
        present += [clip.present, np.repeat(clip.present[-1:], rest, axis=0)]
        start_s += clip.seconds + rest / clip.fps
    film = replace(clips[0], points=np.concatenate(points), present=np.concatenate(present))
    return film, spans


def is_hit(found: Span, true: Span) -> bool:
    """Return whether a sign that was found is that one."""
    both_s = min(found[2], true[2]) - max(found[1], true[1])
    return found[0] == true[0] and 2 * both_s >= min(found[2] - found[1], true[2] - true[1])


def measure() -> list[Figure]:
    """Measure them."""
    truths = read_truth(load_section(PARAMS, "draw", DrawOptions).out / TRUTH)
    translator = Translator.load(CHECKPOINT)
    targets = [one for one in read_targets(TARGETS) if one.split == "test"]
    sequences = translator.source.read(targets, SHARDS)
    of_signer = defaultdict[str, list[Target]](list)
    for target in targets:
        of_signer[target.signer].append(target)
    cut, _ = open_cutter(CHECKPOINT, translator.source.landmarks(CHECKPOINT).extractor)
    right, wrong, met, missed, seconds = 0, 0, 0, 0, 0.0
    for own in of_signer.values():
        clips = [c for t in own if isinstance(c := sequences[t.clip_id], LandmarkSequence)]
        film, true = join_clips(own, clips, [truths[t.clip_id] for t in own])
        cues = find_film_signs(translator, film, cut(film), translator.spec.ctc.names)
        found = [(cue.text, cue.start_s, cue.end_s) for cue in cues]
        hits = [any(is_hit(one, sign) for sign in true) for one in found]
        right, wrong = right + sum(hits), wrong + len(hits) - sum(hits)
        reached = [any(is_hit(one, sign) for one in found) for sign in true]
        met, missed = met + sum(reached), missed + len(reached) - sum(reached)
        seconds += film.seconds
    return [
        Figure(f"right, % of {right + wrong} found", 100 * right / (right + wrong), at_least=90),
        Figure(f"found, % of {met + missed} signs", 100 * met / (met + missed), at_least=90),
        Figure(f"seconds of {len(of_signer)} films", seconds),
    ]
