"""Composed coffee orders recognised from takes of the sittings of train, beside a trained model.

Usage: python -m labs.dictionary.coffee [--train]
"""

import dataclasses
import itertools
import sys

import numpy as np

from labs.dictionary.recognise import Costs, Dictionary
from pipeline.stage import run
from pipeline.studies.coffee.run import STUDY
from pipeline.studies.coffee.study import (
    SIGNS,
    CoffeeOptions,
    _split,
    build_corpus,
    import_takes,
    train_families,
    write_tokens,
)
from pipeline.studies.sentences import read_scoring
from signloom.config import load_section
from signloom.corpus.manifest import IMPORTED_SHARDS
from signloom.corpus.shards import read_shards
from signloom.evaluation.metrics import ScoreOptions, Statistics, count_gloss_wer
from signloom.features.features import FeatureOptions, compute_features
from signloom.features.targets import TokenizeOptions
from signloom.importing.compose import sign_key
from signloom.paths import PARAMS
from signloom.training.run import from_scratch, read_run_options

DRAWS = 3  # of the takes of the dictionary
PENALTIES, FILLERS = (0.0, 4.0, 8.0), (1.0, 1.2, 1.4, 1.7)  # tried on dev


def main() -> None:
    """Compose, recognise with one and five takes a sign, train one model if asked; print."""
    options = load_section(STUDY, "study", CoffeeOptions)
    features = load_section(PARAMS, "features", FeatureOptions)
    clips = build_corpus(options)
    landmarks = read_shards(options.corpus / IMPORTED_SHARDS)
    rows = {clip.clip_id: compute_features(landmarks[clip.clip_id], features) for clip in clips}
    takes, sequences = import_takes(options, SIGNS)
    blocks = _split(takes, sequences, options.same_sitting)
    of_split = {s: [c for c in clips if c.split == s] for s in ("dev", "test")}
    truth = {s: [(c.gloss or "").split() for c in part] for s, part in of_split.items()}
    for count, draw in itertools.product((1, 5), range(DRAWS)):
        generator = np.random.default_rng([options.seed, count, draw])
        names, known = list[str](), []
        for sign in SIGNS:
            of_train = [one for block in blocks[sign]["train"] for one in takes[sign][block]]
            for chosen in generator.permutation(len(of_train))[:count]:
                names.append(sign_key(sign).upper())
                known.append(compute_features(sequences[of_train[chosen]], features))
        dictionary = Dictionary.of_takes(names, known)
        far = {s: [dictionary.distances(rows[c.clip_id]) for c in p] for s, p in of_split.items()}

        def wer(split: str, costs: Costs) -> float:
            read = [dictionary.trace(one, costs) for one in far[split]]  # noqa: B023
            score = ScoreOptions(tokenizer="none", resamples=100)
            counted = count_gloss_wer(read, truth[split], score)
            return Statistics(parts=(counted,)).values()["gloss_wer"]

        tried = [Costs(sign=p, filler=f) for p, f in itertools.product(PENALTIES, FILLERS)]
        costs = min(tried, key=lambda one: wer("dev", one))
        print(
            f"{count} takes a sign, draw {draw}: dev {wer('dev', costs):.1f}, "
            f"test {wer('test', costs):.1f} ({costs})", flush=True,
        )  # fmt: skip
    if "--train" in sys.argv:
        folder = options.corpus.with_name(f"{options.corpus.name}-tokens")
        write_tokens(folder, clips, load_section(STUDY, "tokenize_targets", TokenizeOptions))
        one = dataclasses.replace(options, families={"conformer": options.families["conformer"]})
        base = from_scratch(read_run_options(PARAMS))
        for found in train_families(one, base, read_scoring(one_search=True), folder):
            print(f"trained: gloss WER {found['test']['gloss_wer']:.1f} on test")


if __name__ == "__main__":
    run(main)
