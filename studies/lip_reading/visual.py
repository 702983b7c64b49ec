"""Visual features of the mouth, as document 003 starts from: a small network's, of drawn faces.

A 3D convolution and two of pictures learn to name single words, as the front ends of lip readers
do; what they see in each frame of the sentences of `mouths.py` becomes a row of features.
`signloom import --format features` and `init` read what is written.

Usage: python -m studies.lip_reading.visual OUT; README.md goes on.

Source: Stafylakis and Tzimiropoulos (2017), "Combining residual networks with LSTMs for
lipreading", whose front end is larger.
"""

import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from pipeline.stage import run
from signloom.config import load_section
from signloom.extraction.pool import count_workers, map_in_order
from signloom_demo.face import FACE_Z, MOUTH
from signloom_demo.scene import HEAD
from studies.lip_reading.films import Film, film_frames
from studies.lip_reading.mouths import (
    FPS,
    LipCorpusOptions,
    draw_speaker,
    plan_films,
    sentences,
    speak,
)

PARAMS = Path(__file__).with_name("params.yaml")
SIDE, HALF_CM = 32, 4.5  # pixels of a mouth's picture; cm from its middle to an edge
COLUMNS = 64
PEOPLE, EPOCHS, BATCH, RATE, SEED = 20, 60, 16, 2e-3, 1  # of the words that the network learns
UNIT = 32
SHIFT = 2  # most pixels by which a picture is moved in training

Mouths = npt.NDArray[np.int8]  # (S, SIDE, SIDE), mean 0 and deviation UNIT over the clip


class FrontEnd(nn.Module):
    """Pictures of a mouth to columns, a row a frame."""

    def __init__(self) -> None:
        super().__init__()
        self.moving = nn.Conv3d(1, 16, (5, 5, 5), stride=(1, 2, 2), padding=2)
        self.pictures = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.GroupNorm(4, 64),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, COLUMNS),
        )

    def forward(self, mouths: Float[Tensor, "B S H W"]) -> Float[Tensor, "B S F"]:
        """Read each frame with the two before and behind it."""
        batch, frames = mouths.shape[:2]
        moving = self.moving(mouths[:, None]).transpose(1, 2).flatten(0, 1)
        return self.pictures(moving).unflatten(0, (batch, frames))


class WordReader(nn.Module):
    """The front end, and what it is trained by: which word is said?"""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.front = FrontEnd()
        self.order = nn.GRU(COLUMNS, COLUMNS, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * COLUMNS, words)

    def forward(self, mouths: Float[Tensor, "B S H W"]) -> Float[Tensor, "B W"]:
        """Return a logit a word."""
        return self.head(self.order(self.front(mouths).relu())[0].mean(dim=1))


def cut_mouth(film: Film) -> Mouths:
    """Return a grey picture of the mouth in each frame, found where it was drawn."""
    corners = np.array([[-HALF_CM, HALF_CM, 0], [HALF_CM, -HALF_CM, 0]])
    mouth = HEAD + np.array([*MOUTH, FACE_Z])
    edges = film.camera.project((mouth + corners) * film.signer.size)
    (left, top), (right, bottom) = np.rint(edges).astype(int)
    pictures = [
        cv2.resize(cv2.cvtColor(frame[top:bottom, left:right], cv2.COLOR_BGR2GRAY), (SIDE, SIDE))
        for frame in film_frames(film)
    ]
    mouths = np.array(pictures, np.float32)
    light = UNIT * (mouths - mouths.mean()) / mouths.std()
    return light.clip(-127, 127).astype(np.int8)


def as_tensor(mouths: Mouths) -> Float[Tensor, "S H W"]:
    """Return pictures as the network reads them."""
    return torch.from_numpy(mouths) / UNIT


def plan_words() -> list[Film]:
    """Return films of every word, said once by each of `PEOPLE` who say no sentence."""
    words = sorted({word for text in sentences() for word in text.split()})
    generator, films = np.random.default_rng(SEED), []
    for number in range(PEOPLE):
        speaker = draw_speaker(f"words-{number:02}", generator)
        films += [
            Film(
                clip_id=f"{speaker.signer.name}-{place:02}",
                split="train",
                text=word,
                language="ar",
                signer=speaker.signer,
                camera=speaker.camera,
                fps=FPS,
                faces=speak(word, speaker, generator),
            )
            for place, word in enumerate(words)
        ]
    return films


def learn_words(films: Sequence[Film], mouths: Sequence[Mouths]) -> FrontEnd:
    """Train a front end on single words; the last tenth of the people only tells how well."""
    torch.manual_seed(SEED)
    generator = np.random.default_rng(SEED)
    words = sorted({film.text for film in films})
    answers = torch.tensor([words.index(film.text) for film in films])
    pictures = [as_tensor(mouth) for mouth in mouths]
    train_count = len(films) * 9 // 10
    model = WordReader(len(words))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        order = generator.permutation(train_count)
        for start in range(0, train_count, BATCH):
            batch = order[start : start + BATCH].tolist()
            shown = pad_sequence([pictures[clip] for clip in batch], batch_first=True)
            if generator.random() < 0.5:
                shown = shown.flip(-1)  # a mirrored mouth says the same
            moved = tuple(generator.integers(-SHIFT, SHIFT + 1, 2).tolist())
            shown = shown.roll(moved, (-2, -1))  # nobody's mouth lies exactly so
            loss = nn.functional.cross_entropy(model(shown), answers[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    with torch.inference_mode():
        right = [
            int(model(pictures[clip][None]).argmax()) == int(answers[clip])
            for clip in range(train_count, len(films))
        ]
    logging.info("words of people not seen: %.1f %% of %d", 100 * np.mean(right), len(right))
    return model.front.eval()


def main() -> None:
    """Draw, learn words, write features.parquet and table.tsv."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    cut = partial(map_in_order, cut_mouth)
    words, films = plan_words(), plan_films(load_section(PARAMS, "study", LipCorpusOptions))
    workers = count_workers()
    front = learn_words(words, list(cut(words, workers)))
    parts = []
    with torch.inference_mode():
        for film, mouths in zip(films, cut(films, workers), strict=True):
            rows = pd.DataFrame(front(as_tensor(mouths)[None])[0].numpy())
            parts.append(rows.add_prefix("column_").assign(clip_id=film.clip_id))
    pd.concat(parts).to_parquet(out / "features.parquet", index=False)
    table = [(f.clip_id, f.text, f.signer.name, f.split, f.language) for f in films]
    names = ["clip_id", "text", "signer", "split", "language"]
    pd.DataFrame(table, columns=names).to_csv(out / "table.tsv", sep="\t", index=False)


if __name__ == "__main__":
    run(main)
