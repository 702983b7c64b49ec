"""When signs are read, against the spans that the demo's signer was drawn with.

Of the clips of dev and test whose signs are read without an error: how much of each true sign the
read one covers, and how far its borders are off.
"""

from pathlib import Path

import numpy as np

from signloom.config import load_section
from signloom.features.targets import read_targets
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation.signs import read_signs
from signloom.translation.translator import Translator
from signloom_demo.draw import TRUTH, DrawOptions, read_truth
from tests.bench.board import Figure

PARAMS = Path("data/demo/params.yaml")


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
    ]
