"""Drawn films of faces, and what the stages make of them: landmarks, tokens, checkpoint, scores."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from signloom.corpus.manifest import Clip, write_manifest
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions, Evaluation, evaluate
from signloom.extraction.extract import ExtractOptions, extract_corpus
from signloom.extraction.pool import count_workers, map_in_order
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.training.data import TrainingFiles
from signloom.training.loop import EpochRecord
from signloom.training.train import RunOptions, TrainingResult, write_results
from signloom.translation.translator import Translator
from signloom_demo.draw import MANIFEST, VIDEOS, write_video
from signloom_demo.face import Expression
from signloom_demo.motion import Performance, perform
from signloom_demo.render import Camera
from signloom_demo.scene import Image, draw_frames, pose_arms
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer
from studies.runs import train_first_seed, write_tokens

LANDMARKS, TOKENS, CORPUS = "landmarks", "tokens", "corpus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """One clip to draw: somebody before a camera whose face moves."""

    clip_id: str
    split: str
    text: str
    language: str
    signer: Signer
    camera: Camera
    fps: float
    faces: tuple[Expression, ...]  # of each frame; the hands rest

    def row(self, corpus: Path) -> Clip:
        """The film's line in the manifest."""
        return Clip(
            clip_id=self.clip_id,
            video=corpus / VIDEOS / f"{self.clip_id}.mp4",
            text=self.text,
            signer=self.signer.name,
            split=self.split,
            language=self.language,
        )


def draw_person(name: str, generator: np.random.Generator) -> Signer:
    """Draw somebody with one demo signer's build and room, another's colours, and a mouth."""
    people = (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS)
    body, look = (people[number] for number in generator.integers(len(people), size=2))
    return dataclasses.replace(
        body,
        name=name,
        skin=look.skin,
        palm=look.palm,
        hair=look.hair,
        shirt=look.shirt,
        mouth=generator.uniform(0.85, 1.15),
        lips=generator.uniform(0.75, 1.3),
    )


def draw_film(film: Film, corpus: Path) -> None:
    """Write the video of a film; what it shows depends on the film alone."""
    write_video(
        corpus / VIDEOS / f"{film.clip_id}.mp4",
        film_frames(film),
        film.fps,
        (film.camera.width, film.camera.height),
    )


def film_frames(film: Film) -> Iterator[Image]:
    """Return the pictures of a film."""
    cv2.setNumThreads(1)
    room = np.random.default_rng(list(film.signer.name.encode()))
    resting = perform([], film.signer, film.fps, np.random.default_rng(0))
    arms = pose_arms(hold(resting, len(film.faces)), film.signer)
    return draw_frames(arms, film.signer, film.camera, room, film.faces)


def hold(performance: Performance, frames: int) -> Performance:
    """Return the first posture for that many frames."""
    tracks = [
        dataclasses.replace(
            track,
            **{
                field.name: np.repeat(getattr(track, field.name)[:1], frames, axis=0)
                for field in dataclasses.fields(track)
            },
        )
        for track in (performance.dominant, performance.other)
    ]
    return dataclasses.replace(performance, dominant=tracks[0], other=tracks[1])


def prepare(
    folder: Path, films: Sequence[Film], extracting: ExtractOptions, tokens: TokenizeOptions
) -> None:
    """Draw, find the landmarks and write the tokens: the stages up to `tokenize_targets`."""
    corpus = folder / CORPUS
    (corpus / VIDEOS).mkdir(parents=True, exist_ok=True)
    draw = functools.partial(draw_film, corpus=corpus)
    list(map_in_order(draw, films, min(count_workers(), len(films))))
    clips = [film.row(corpus) for film in films]
    write_manifest(corpus / MANIFEST, clips)
    extract_corpus(clips, extracting, folder / LANDMARKS)
    write_tokens(folder / TOKENS, clips, tokens)


def learn(
    folder: Path,
    options: RunOptions,
    scoring: EvaluateOptions,
    checkpoint: Path,
    log: Callable[[EpochRecord], None],
) -> Evaluation:
    """Train on what `prepare` wrote and score the checkpoint: the stages `train` and `evaluate`."""
    files = TrainingFiles(shards=folder / LANDMARKS / "shards", tokens=folder / TOKENS)
    data = files.load(cache_mb=options.train.cache_mb)
    model, fit = train_first_seed(data, options, log)
    write_results(checkpoint, [TrainingResult(seed=options.train.seed, checkpoint=model, fit=fit)])
    return evaluate(
        Translator.load(checkpoint, precision=scoring.precision),
        read_targets(files.targets),
        read_shards(files.shards),
        scoring,
    )
