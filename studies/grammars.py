"""Study of two small grammars: emphasis, and places in space that a pronoun points at.

Questions, both of document 000: is a sign that is larger and slower (*très*), or repeated
(*souvent*), understood; and does a pronoun get the gender of what was signed at the place that a
finger points at? Beside each grammar its control, drawn alike without what the question is about.

The landmarks are the drawn signers' own joints of both hands with noise, not seen by MediaPipe.
`python -m studies.grammars` draws, trains and prints Markdown.
"""

import argparse
import dataclasses
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence, build_layout
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import write_shards
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.features.targets import TokenizeOptions
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.run import RunOptions, from_scratch, read_run_options
from signloom_demo import grammar as french
from signloom_demo.motion import perform
from signloom_demo.render import Camera
from signloom_demo.scene import pose_arms, true_joints
from signloom_demo.signs import LEXICON, Key, Sign
from studies.architectures.study import CorpusJob
from studies.charts import spread
from studies.films import draw_person
from studies.options import change_options
from studies.sentences import read_scoring
from studies.trainings import write_tokens

LAYOUT = build_layout(["hands"])
NOISE = 0.003  # of every coordinate, picture heights
SEED, FPS, SIDE = 1, 15.0, 320  # of the clips; frames a second; pixels of the square picture
SIGNERS = {"train": 10, "dev": 1, "test": 4}  # nobody is in two splits
CLIPS = 10  # of each signer
LARGER = 1.6  # times as far and as long
PLACES = {"A": -8.0, "B": 11.0}  # cm from where a sign belongs: the hand's own side, or across
POINTING = {
    "A": LEXICON["ELLE"],
    "B": Sign((Key("point", -8.0, 5.0, "tilt_in"), Key("point", 6.0, 3.0, "medial"))),
    "AHEAD": LEXICON["TOI"],  # straight ahead, where nothing was signed
}
TRAIN = {"device": "cpu", "patience": 100, "max_frames": 250}  # small batches of few clips


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """A sentence: what the hands do, what a transcriber writes of it, and its French."""

    signs: tuple[Sign, ...]
    gloss: str
    text: str


def change(sign: Sign, *, larger: float = 1.0, times: int = 1, shift: float = 0.0) -> Sign:
    """Make a sign larger about its middle and slower, again, or elsewhere.

    Args:
        sign: As the lexicon has it.
        larger: Times as far and as long.
        times: How often it is made.
        shift: Towards the side of the other hand, cm.
    """
    hands = []
    for keys, aside in ((sign.dominant, shift), (sign.other, -shift)):
        x, y = (float(np.mean([getattr(key, axis) for key in keys] or [0])) for axis in "xy")
        hands.append(tuple(
            dataclasses.replace(key, x=x + aside + larger * (key.x - x), y=y + larger * (key.y - y))
            for key in keys
        ) * times)  # fmt: skip
    return Sign(hands[0], hands[1], sign.beats * larger * times)


def say_emphasis(generator: np.random.Generator, *, control: bool) -> list[Said]:
    """Return one signer's sentences, half of them stressed: *je suis très content*.

    Args:
        generator: Chooses.
        control: The hands stress nothing.
    """
    actions = [
        *((state, None) for state in french.ADJECTIVES),
        ("DORMIR", None),
        ("ALLER", "MAISON"),
    ]
    clauses = [
        french.Clause(person=p, action=a, place=at) for p in french.SUBJECTS for a, at in actions
    ]
    found = []
    for number, place in enumerate(generator.permutation(len(clauses))[:CLIPS]):
        clause, stressed = clauses[place], number % 2 == 0
        glosses, words = list(french.glosses_of(clause)), french.text_of(clause).split()
        signs = [LEXICON[gloss] for gloss in glosses]
        if stressed:
            is_state = clause.action in french.ADJECTIVES
            words.insert(2, "très" if is_state else "souvent")
            if not control:
                how: dict[str, Any] = {"larger": LARGER} if is_state else {"times": 2}
                signs[-1] = change(signs[-1], **how)
                glosses[-1] += "_FORT" if is_state else "_PLUS"
        found.append(Said(tuple(signs), " ".join(glosses), " ".join(words)))
    return found


def say_places(generator: np.random.Generator, *, control: bool) -> list[Said]:
    """Return one signer's sentences: two things, each at a side, and a word on one of them.

    Args:
        generator: Chooses.
        control: The finger points ahead.
    """
    kinds = [
        [gloss for gloss, noun in french.THINGS.items() if noun.feminine == feminine]
        for feminine in (False, True)
    ]
    found = []
    for number in range(CLIPS):
        things = [str(generator.choice(kind)) for kind in kinds]
        first, second = (things[place] for place in generator.permutation(2))
        sides = generator.permutation(list(PLACES))
        meant = number % 2  # 0: the masculine one
        place = "AHEAD" if control else str(sides[[first, second].index(things[meant])])
        placed = list(zip((first, second), sides, strict=True))
        found.append(
            Said(
                (
                    *(change(LEXICON[thing], shift=PLACES[side]) for thing, side in placed),
                    POINTING[place],
                    LEXICON["GRAND"],
                ),
                " ".join([*(f"{thing}_{side}" for thing, side in placed), f"IX_{place}", "GRAND"]),
                f"{french.indefinite(french.THINGS[first], large=False)} et "
                f"{french.indefinite(french.THINGS[second], large=False)}, "
                + ("elle est grande" if meant else "il est grand"),
            )
        )
    return found


# Name to how a signer's sentences are drawn, and the words of which one must be the right one.
GRAMMARS = {"emphasis": (say_emphasis, ("très", "souvent")), "places": (say_places, ("il", "elle"))}


@contextmanager
def lexicon_with(signs: Sequence[Sign]) -> Iterator[list[str]]:
    """Put signs into the demo's lexicon for a while; give their names."""
    names = [f"{number}" for number in range(len(signs))]
    LEXICON.update(zip(names, signs, strict=True))
    try:
        yield names
    finally:
        for name in names:
            del LEXICON[name]


def draw_clips(grammar: str, *, control: bool) -> list[tuple[Clip, LandmarkSequence]]:
    """Return the clips of a grammar: the same people and sentences with and without `control`."""
    say, _ = GRAMMARS[grammar]
    clips = []
    for number, split in enumerate(split for split, n in SIGNERS.items() for _ in range(n)):
        people, words = (np.random.default_rng([SEED, number, stream]) for stream in (0, 1))
        signer = draw_person(f"{split}-{number:02}", people)
        camera = Camera(width=SIDE, height=SIDE, shift_x=people.normal(0, 1.2),
                        shift_y=people.normal(0, 0.8), zoom=people.uniform(1.0, 1.1))  # fmt: skip
        for place, said in enumerate(say(words, control=control)):
            with lexicon_with(said.signs) as names:
                performance = perform(names, signer, FPS, people)
            joints = true_joints(pose_arms(performance, signer), camera)
            points = np.zeros((len(joints), 42, 3), dtype=np.float32)  # no depth
            points[..., :2] = joints.reshape(-1, 42, 2) + people.normal(
                0, NOISE, (len(joints), 42, 2)
            )
            clip = Clip(
                clip_id=f"{signer.name}-{place:02}", video=None, text=said.text, gloss=said.gloss,
                signer=signer.name, split=split, language="fr",
            )  # fmt: skip
            present = np.ones((len(joints), 2), dtype=np.bool_)
            clips.append((clip, LandmarkSequence(points, present, FPS, SIDE, SIDE, LAYOUT)))
    return clips


def write_corpus(
    clips: Sequence[tuple[Clip, LandmarkSequence]], tokens: TokenizeOptions, folder: Path
) -> TrainingFiles:
    """Write landmarks and tokens."""
    files = TrainingFiles(shards=folder / "shards", tokens=folder / "tokens")
    known = {clip.clip_id: sequence for clip, sequence in clips}
    frames = {name: len(sequence.points) for name, sequence in known.items()}
    write_shards(files.shards, frames, known.__getitem__, layout=LAYOUT,
                 extractor='{"name": "drawn joints"}', frames_per_shard=25_000)  # fmt: skip
    write_tokens(files.tokens, [clip for clip, _ in clips], tokens)
    return files


def find_marked(text: str, words: Sequence[str]) -> list[str]:
    """Return which of the words a sentence has."""
    return [word for word in text.split() if word in words]


def train_one(
    files: TrainingFiles,
    words: Sequence[str],
    seed: int,
    base: RunOptions,
    scoring: EvaluateOptions,
) -> dict[str, float]:
    """Train on what was drawn; return scores of test, and the share of marked words right, %."""
    options = dataclasses.replace(
        base,
        features=dataclasses.replace(base.features, groups=("hands",)),
        train=change_options(base.train, {**TRAIN, "seeds": [seed]}, "train"),
    )
    row = CorpusJob(variant="", options=options, evaluate=scoring, files=files).run()
    pairs = [(ref, hyp) for split, ref, hyp in row["sentences"] if split == "test"]
    right = [find_marked(ref, words) == find_marked(hyp, words) for ref, hyp in pairs]
    scores = {name: row["scores"]["test"][name] for name in ("bleu4", "wer")}
    return {"marked": 100 * float(np.mean(right)), **scores, "clips": len(right)}


def main() -> None:
    """Draw, train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    seeds = parser.parse_args().seeds
    tokens = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    base, scoring = from_scratch(read_run_options(PARAMS)), read_scoring(one_search=True)
    lines = ["| grammar | test clips | marked word right, % | BLEU-4 | WER, % |", "|---" * 5 + "|"]
    for grammar, (_, words) in GRAMMARS.items():
        for control in (False, True):
            with TemporaryDirectory() as folder:
                clips = draw_clips(grammar, control=control)
                files = write_corpus(clips, tokens, Path(folder))
                rows = [train_one(files, words, seed, base, scoring) for seed in seeds]
            cells = (spread(row[key] for row in rows) for key in ("marked", "bleu4", "wer"))
            name = f"{grammar}, control" if control else grammar
            lines.append(f"| {name} | {rows[0]['clips']} | {' | '.join(cells)} |")
            logging.info("%s", lines[-1])
    logging.info("%s", "\n".join(lines))


if __name__ == "__main__":
    run(main)
