"""Study of faces that ask and deny.

Question: where the hands say the same and only the face tells a statement from a question and a
denial, what are the landmarks of brows, eyes and gaze worth, for signers never seen?
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from signloom.config import checked_dataclass
from signloom.evaluation.evaluate import EvaluateOptions, Evaluation
from signloom.evaluation.names import System
from signloom.features.features import GroupChoice
from signloom.training.run import RunOptions
from signloom_demo.face import Expression
from signloom_demo.grammar import ADJECTIVES, SUBJECTS, Clause, glosses_of, text_of
from signloom_demo.motion import perform
from signloom_demo.render import Camera
from studies.films import Film, draw_person, learn
from studies.options import change_options

FPS, SIDE = 15.0, 320  # frames a second; pixels of the square picture
MANNERS = {
    "said": Expression(),
    "asked": Expression(brows=1.0, lids=0.8),
    "denied": Expression(brows=-1.0, lids=-0.35, gaze=0.9),
}
SHOWN = ("bleu4", "wer", "exact")


@checked_dataclass
class FacesOptions:
    """Section `study`."""

    seed: int
    signers: dict[str, int]  # split to signers, each in one split
    groups: dict[str, tuple[GroupChoice, ...]]  # name to what a model sees
    augment: dict[str, Any]
    model: dict[str, Any]
    train: dict[str, Any]


def clauses() -> list[Clause]:
    """Return what is signed: two signs each, a person and a state or sleep."""
    actions = (*ADJECTIVES, "DORMIR")
    return [Clause(person=person, action=action) for person in SUBJECTS for action in actions]


def in_manner(clause: Clause, manner: str) -> Clause:
    """Return a clause said, asked or denied."""
    return dataclasses.replace(clause, asked=manner == "asked", negated=manner == "denied")


def plan_films(options: FacesOptions) -> list[Film]:
    """Return films in which everybody signs every clause once, a third of them in each manner."""
    generator, films = np.random.default_rng(options.seed), []
    for split, count in options.signers.items():
        for number in range(1, count + 1):
            signer = draw_person(f"{split}-{number:02}", generator)
            camera = Camera(
                width=SIDE, height=SIDE,
                shift_x=generator.normal(0, 1.2), shift_y=generator.normal(0, 0.8),
                zoom=generator.uniform(1.0, 1.1),
            )  # fmt: skip
            manners = generator.permutation(np.resize(list(MANNERS), len(clauses())))
            for place, (clause, manner) in enumerate(zip(clauses(), manners, strict=True)):
                # QUESTION or NON is in the glosses, as they are written of faces; no hand signs it.
                said = in_manner(clause, manner)
                performance = perform(glosses_of(clause), signer, FPS, generator)
                films.append(
                    Film(
                        clip_id=f"{signer.name}-{place:02}-{manner}",
                        split=split,
                        text=text_of(said),
                        gloss=" ".join(glosses_of(said)),
                        language="fr",
                        signer=signer,
                        camera=camera,
                        fps=FPS,
                        faces=move_face(MANNERS[manner], len(performance.sign), generator),
                        performance=performance,
                    )
                )
    return films


def move_face(
    aim: Expression, frames: int, generator: np.random.Generator
) -> tuple[Expression, ...]:
    """Return the face of each frame: it comes and goes with the signs, blinks and looks about."""
    strength, start = generator.uniform(0.7, 1.1), generator.uniform(0.1, 0.25)
    share = strength * np.interp(
        np.linspace(0, 1, frames), [start, start + 0.15, 0.8, 0.95], [0, 1, 1, 0]
    )
    side = generator.choice([-1, 1])  # to which a signer looks away
    brows, gaze = generator.normal(0, 0.12, 2)
    blink = int(generator.integers(frames))
    return tuple(
        Expression(
            brows=float(brows + weight * aim.brows),
            lids=-1.0 if abs(place - blink) < 2 else float(weight * aim.lids),
            gaze=float(gaze + side * weight * aim.gaze),
        )
        for place, weight in enumerate(share)
    )


def find_manner(text: str) -> str:
    """Return the manner of a French sentence."""
    if text.endswith("?"):
        return "asked"
    return "denied" if "pas" in text.split() else "said"


def train_each(
    folder: Path, study: FacesOptions, base: RunOptions, scoring: EvaluateOptions
) -> Iterator[dict[str, Any]]:
    """Train with each choice of groups and each seed; yield scores of the test clips."""
    augment = dataclasses.replace(base.augment, **study.augment)
    model = change_options(base.model, study.model, "study.model")
    train = change_options(base.train, study.train, "study.train")
    for name, groups in study.groups.items():
        for seed in train.seeds:
            options = dataclasses.replace(
                base,
                features=dataclasses.replace(base.features, groups=groups),
                augment=augment,
                model=model,
                train=dataclasses.replace(train, seeds=[seed]),
            )
            checkpoint = folder / "checkpoints" / f"{name}-{seed}".replace(" ", "-")
            found = learn(folder, options, scoring, checkpoint, lambda record: None)
            row = {"groups": name, "seed": seed, **read_scores(found)}
            logging.info("%s", row)
            yield row


def read_scores(found: Evaluation) -> dict[str, Any]:
    """Return the scores of the test clips, and the share of each manner that was understood."""
    test = found.splits["test"].result
    scores: Mapping[Any, Any] = found.splits["test"].systems[System.MODEL]
    right: dict[str, list[bool]] = {manner: [] for manner in MANNERS}
    for target, text in zip(test.targets, test.texts[System.MODEL], strict=True):
        right[find_manner(target.text)].append(find_manner(text) == find_manner(target.text))
    everything = [one for row in right.values() for one in row]
    return {
        **{name: scores[name].value for name in SHOWN},
        "manner": 100 * float(np.mean(everything)),
        "by_manner": {manner: 100 * float(np.mean(row)) for manner, row in right.items()},
        "clips": len(everything),
    }
