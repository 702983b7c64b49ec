"""What the stages compute, in small, as a hash a part: `python -m tests.processors [PART ...]`.

Each is printed with whether it is the known one, so that a new kind of processor can be checked.
"""

import pipeline  # noqa: F401  # isort: skip  # before NumPy: it sets the code path of each stage

import argparse
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

KNOWN = Path(__file__).parent / "golden" / "processors.json"


def draw() -> Iterator[bytes]:
    """A drawn film of a third of a second, and its true joints."""
    from signloom_demo.draw import draw_clip, plan_clips
    from tests.extraction import DRAWING

    options = replace(DRAWING, width=96, height=64, fps=8.0)
    clip = plan_clips(options)[0]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "videos").mkdir()
        truth = draw_clip(clip, options, Path(folder))
        yield truth.joints.tobytes()
        yield (Path(folder) / "videos" / f"{clip.clip_id}.mp4").read_bytes()


def extract() -> Iterator[bytes]:
    """The landmarks of two frames of a film."""
    from signloom.extraction.extract import extract_video
    from tests.extraction import OPTIONS

    film = Path(__file__).parent / "golden" / "signer.mp4"
    yield extract_video(film, OPTIONS.detector_options, 0.0, 0.13).points.tobytes()


def features() -> Iterator[bytes]:
    """Features of clips with gaps, at another frame rate; augmented clips."""
    from signloom.features.augment import augment, augment_rows, lose_hands
    from signloom.features.features import compute_features
    from tests import tiny

    options = replace(tiny.AUGMENT, rest_s=0.5)
    for seed in range(4):
        clip = tiny.lose(tiny.sequence(seed, frames=31, fps=25.0), "left_hand", slice(5, 8))
        yield compute_features(clip, tiny.FEATURES).tobytes()
        yield tiny.trim_rests(clip, 0.2).points.tobytes()
        generator = np.random.default_rng(seed)
        augmented = augment(lose_hands(clip, options, generator), options, generator)
        yield compute_features(augmented, tiny.FEATURES).tobytes()
        rows = augment_rows(compute_features(clip, tiny.FEATURES), options, generator)
        yield rows.tobytes()


def step(model: dict[str, Any]) -> Iterator[bytes]:
    """An epoch of one family: the weights after it, its losses, and a beam search."""
    import torch

    from signloom.training.train import train
    from signloom.translation.translator import Translator
    from tests import tiny

    data = tiny.training_data(clips=4)
    torch.set_num_threads(1)
    model_options = replace(tiny.MODEL, d_model=48, d_ff=80, dropout=0.1, **model)
    options = replace(tiny.run_options(epochs=1), model=model_options)
    # An emulator ends where it meets the LSTM of oneDNN; PyTorch has another.
    torch.backends.mkldnn.enabled = model["family"] != "lstm"
    checkpoint, fit = train(data, options, provenance={}, log=lambda _: None)
    yield from (fit.weights[key].numpy().tobytes() for key in sorted(fit.weights))
    yield repr(fit.history).encode()
    clips = data.dev.read(range(2))
    translator = Translator(checkpoint, torch.device("cpu"))
    for translation in translator.translate(clips, tiny.decoding(beam_size=3)):
        yield f"{translation.text} {translation.hypothesis.log_prob.hex()}".encode()


def floors() -> Iterator[bytes]:
    """The linear floor, the nearest clip and the best constant sentence."""
    from signloom.evaluation.floors import best_constant, fit_classifier
    from signloom.evaluation.metrics import ScoreOptions, score_corpus
    from tests import tiny

    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(40, 60)).astype(np.float32)
    vectors[generator.random(vectors.shape) < 0.1] = np.nan
    texts = [tiny.SENTENCES[number % 4] for number in range(40)]
    classifier = fit_classifier(vectors, texts)
    yield classifier[-1].coef_.tobytes()
    yield classifier.predict_proba(vectors).tobytes()
    options = ScoreOptions(tokenizer="13a", resamples=200, seed=1)
    references = [*tiny.SENTENCES, *reversed(tiny.SENTENCES)]
    yield best_constant(tiny.SENTENCES, references, options).encode()
    hypotheses = [text.replace("je", "tu") for text in references]
    yield repr(score_corpus(hypotheses, references, options)).encode()


def lookup() -> Iterator[bytes]:
    """NumPy and SciPy as look-up, confidence and the report call them."""
    from scipy.spatial.distance import cdist

    generator = np.random.default_rng(2)
    vectors = generator.normal(size=(50, 24))
    yield np.linalg.svd(vectors, full_matrices=False)[1].tobytes()
    yield np.linalg.eigh(vectors.T @ vectors)[1].tobytes()
    yield cdist(vectors, vectors, "seuclidean").tobytes()
    yield np.logaddexp.reduce(vectors).tobytes()
    yield np.log(np.mean(np.exp(vectors), axis=0)).tobytes()
    yield np.arctan2(*vectors.astype(np.float32)[:2]).tobytes()
    yield np.argsort((vectors[:, 0] * 3).astype(np.int64)).tobytes()
    yield (np.abs(vectors) ** 1.7).tobytes()


def tune() -> Iterator[bytes]:
    """What a search tries: twelve trials of a made-up objective."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        width = trial.suggest_categorical("width", [32, 64, 128])
        return float(np.log(rate) ** 2 + width / 64 + trial.suggest_float("drop", 0.0, 0.5))

    study.optimize(objective, n_trials=14)
    yield repr([(trial.params, trial.value) for trial in study.trials]).encode()


FAMILIES = {
    "transformer": {"family": "transformer", "subsampling": 2},
    "conformer": {"family": "conformer", "positions": "relative"},
    "convolution": {"family": "convolution", "subsampling": 2},
    "lstm": {"family": "lstm", "attention": "additive"},
    "encoder_only": {"family": "encoder_only"},
    "decoder_only": {"family": "decoder_only"},
}
PARTS: dict[str, Callable[[], Iterator[bytes]]] = {
    part.__name__: part for part in (draw, extract, features, floors, lookup, tune)
} | {family: partial(step, model) for family, model in FAMILIES.items()}


def main() -> None:
    """Print a hash for each part, and whether it is the known one."""
    from signloom.devices import restart_portable

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--write", action="store_true", help=f"write {KNOWN} anew")
    arguments = parser.parse_args()
    restart_portable()
    libraries = {name: version(name) for name in ("numpy", "scipy", "torch", "scikit-learn")}
    known_hashes = json.loads(KNOWN.read_text(encoding="utf-8"))
    if libraries != known_hashes["libraries"]:
        print(f"the known hashes are of {known_hashes['libraries']}, found {libraries}")
    hashes = {}
    for name in arguments.parts or PARTS:
        digest = hashlib.sha256(b"".join(PARTS[name]())).hexdigest()[:16]
        verdict = "as known" if digest == known_hashes["sha256"].get(name) else "another"
        print(f"{name:12} {digest} {verdict}", flush=True)
        hashes[name] = digest
    if arguments.write:
        KNOWN.write_text(json.dumps({"libraries": libraries, "sha256": hashes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
