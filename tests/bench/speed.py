"""What a trained model makes of signing that is faster or slower than that of its corpus.

`python -m tests.bench.speed` plays the test clips of the project at other speeds, by calling their
frames shorter or longer, and scores what `data/checkpoint` writes. Nothing is trained.
"""

from dataclasses import replace
from pathlib import Path

from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.metrics import score_corpus
from signloom.evaluation.names import Metric
from signloom.features.targets import read_targets
from signloom.paths import CHECKPOINT, PARAMS, SHARDS, TARGETS
from signloom.translation.translator import Translator

SPEEDS = (0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0)


def main(root: Path = Path()) -> None:
    """Print scores at each speed."""
    options = load_section(root / PARAMS, "evaluate", EvaluateOptions)
    translator = Translator.load(root / CHECKPOINT)
    targets = [target for target in read_targets(root / TARGETS) if target.split == "test"]
    read = translator.source.read(targets, root / SHARDS)
    clips = [(target.text, read[target.clip_id]) for target in targets if target.clip_id in read]
    print(f"{len(clips)} test clips\n| speed | BLEU-4 | WER, % |\n|---|---|---|")
    for speed in SPEEDS:
        played = [
            replace(clip, fps=clip.fps * speed)
            for _, clip in clips
            if isinstance(clip, LandmarkSequence)
        ]
        found = translator.translate(played, options.decoding)
        scores = score_corpus(
            [one.text for one in found], [text for text, _ in clips], options.score
        )
        figures = (scores[name].value for name in (Metric.BLEU4, Metric.WER))
        print(f"| {speed:g} | {' | '.join(f'{figure:.1f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    main()
