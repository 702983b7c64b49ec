"""The segmenter: a small network that marks where sentences begin and end in landmarks.

It tags every frame as the beginning of a sentence, inside one or outside (BIO), after Moryossef et
al. (2023), "Linguistically motivated sign language segmentation".
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from signloom.corpus.landmarks import LandmarkSequence, Layout, check_same_extractor
from signloom.errors import UserError
from signloom.features.augment import AugmentOptions, augment, lose_hands
from signloom.features.features import (
    FeatureOptions,
    FloatArray,
    GroupChoice,
    build_features,
    feature_width,
    has_choice,
    measure,
    prepare,
    resample,
)
from signloom.features.rests import find_runs
from signloom.files import write_file
from signloom.translation.segmentation import LEAST_S, Span, cut

FORMAT_VERSION = 1
_METADATA = "signloom"
HINT = "train it again: `python -m labs.segmenter.run`"
OUTSIDE, BEGIN, INSIDE = range(3)
_UNREADABLE = (
    safetensors.SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError,
)  # fmt: skip

FPS = 15.0
WIDTH = 48
DILATIONS = (1, 2, 4, 8, 16)  # a frame sees 2 s before and behind it
DROPOUT = 0.2
BEGIN_S = 0.2  # of a sentence that is tagged as its beginning

EPOCHS = 60
FILM_CLIPS = 8  # of a film that is joined for training
BATCH = 4  # films
LEARNING_RATE = 3e-3
LONGEST_PAUSE_S = 3.0
WINDOW_S = 60.0  # of a real film that one batch sees
FIDGET = 0.01  # shoulder widths, of a hand at rest
LOST_AT_REST = 0.25  # chance of a hand that is not found in a pause
AUGMENTATION = AugmentOptions(
    stretch=0.25, rotate_deg=6, scale=0.1, hand_shift=0.02, hand_scale=0.1, noise=0.002, mirror=0.5,
    hand_drop=0.01, time_mask=0, max_span=0,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Film:
    """Landmarks in which it is known where the sentences lie."""

    sequence: LandmarkSequence
    spans: Sequence[Span]


class _Network(nn.Module):
    """Dilated convolutions over time, (B, S, F) to logits of the tags (B, S, 3)."""

    def __init__(self, width_in: int) -> None:
        super().__init__()
        self.enter = nn.Linear(width_in, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in DILATIONS)
        self.blocks = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, 3, padding=d, dilation=d) for d in DILATIONS
        )
        self.leave = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3))

    def forward(self, src: Tensor) -> Tensor:
        states = functional.dropout(self.enter(src), DROPOUT, self.training)
        for norm, block in zip(self.norms, self.blocks, strict=True):
            mixed = block(functional.gelu(norm(states)).transpose(1, 2)).transpose(1, 2)
            states = states + functional.dropout(mixed, DROPOUT, self.training)
        return cast(Tensor, self.leave(states))


def _features(layout: Layout) -> FeatureOptions:
    known: tuple[GroupChoice, ...] = ("hands", "pose")
    groups = tuple(name for name in known if has_choice(layout, name))
    if not groups:
        raise UserError("a segmenter needs landmarks of hands or pose; extract.groups has neither")
    return FeatureOptions(
        fps=FPS, groups=groups, normalise="body", hand_origin="wrist", differences=1,
        presence=True, max_gap_s=0.2,
    )  # fmt: skip


class Segmenter:
    """A trained network with what it needs to cut a film.

    Attributes:
        layout: Of the landmarks that it reads.
        extractor: What made those that it was trained on.
    """

    def __init__(
        self, layout: Layout, extractor: Mapping[str, Any], weights: Mapping[str, Tensor] | None
    ) -> None:
        """Build it, untrained where there are no weights."""
        self.layout, self.extractor = layout, dict(extractor)
        self._features = _features(layout)
        self._network = _Network(feature_width(self._features, layout))
        if weights is not None:
            self._network.load_state_dict(weights)
        self._network.eval()

    @torch.inference_mode()
    def segment(self, sequence: LandmarkSequence) -> list[Span]:
        """Return the sentences of a film, in order."""
        rows = build_features(prepare(sequence, self._features), self._features)
        chances = self._network(torch.from_numpy(rows)[None])[0].softmax(dim=-1).numpy()
        spans: list[Span] = []
        for start, end in find_runs(chances[:, OUTSIDE] < 0.5):
            inside = chances[start:end, BEGIN] > 0.5
            # A second beginning, well within, is a sentence that follows without a rest.
            starts = [start]
            for begin, _ in find_runs(inside):
                if start + begin - starts[-1] >= LEAST_S * FPS:
                    starts.append(start + begin)
            ends = [*starts[1:], end]
            spans += [(a / FPS, b / FPS) for a, b in zip(starts, ends, strict=True)]
        return [
            (start, min(end, sequence.seconds)) for start, end in spans if end - start >= LEAST_S
        ]

    def fit(
        self,
        draw: Callable[[np.random.Generator], Sequence[Film]],
        dev: Sequence[Film],
        seed: int,
        epochs: int = EPOCHS,
    ) -> float:
        """Train it, keep the weights of the epoch with the lowest dev loss and return that.

        Args:
            draw: Gives the films of an epoch.
            dev: Films of other signers.
            seed: Of weights and chance.
            epochs: Passes over the films.
        """
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed)
        self._network = _Network(self._network.enter.in_features)
        optimizer = torch.optim.AdamW(self._network.parameters(), LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
        fixed = [self._example(film) for film in dev]
        best, kept = float("inf"), self._network.state_dict()
        for _ in range(epochs):
            self._network.train()
            films = [_augmented(film, generator) for film in draw(generator)]
            examples = [self._example(film) for film in films]
            for first in range(0, len(examples), BATCH):
                loss = self._loss(examples[first : first + BATCH])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            schedule.step()
            self._network.eval()
            with torch.inference_mode():
                loss_now = float(self._loss(fixed))
            if loss_now < best:
                best, kept = loss_now, copy.deepcopy(self._network.state_dict())
        self._network.load_state_dict(kept)
        self._network.eval()
        return best

    def _example(self, film: Film) -> tuple[Tensor, Tensor]:
        rows = build_features(prepare(film.sequence, self._features), self._features)
        tags = torch.full((len(rows),), OUTSIDE)
        for start, end in film.spans:
            a, b, inside = round(start * FPS), round(end * FPS), round((start + BEGIN_S) * FPS)
            tags[a:inside] = BEGIN
            tags[inside:b] = INSIDE
        return torch.from_numpy(rows), tags

    def _loss(self, examples: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        rows, tags = zip(*examples, strict=True)
        src = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
        wanted = nn.utils.rnn.pad_sequence(list(tags), batch_first=True, padding_value=-1)
        logits = self._network(src).transpose(1, 2)
        return functional.cross_entropy(logits, wanted, ignore_index=-1)

    def save(self, path: Path) -> None:
        """Write it, whole or not at all; the same weights give the same bytes."""
        made = {
            "format_version": FORMAT_VERSION,
            "layout": self.layout.to_json(),
            "extractor": self.extractor,
        }
        # One entry: safetensors writes several in any order.
        metadata = {_METADATA: json.dumps(made, sort_keys=True)}
        write_file(path, safetensors.torch.save(self._network.state_dict(), metadata))

    @classmethod
    def load(cls, path: Path, extractor: Mapping[str, Any]) -> "Segmenter":
        """Read it.

        Args:
            path: What `save` wrote.
            extractor: What makes the landmarks that it will read.

        Raises:
            UserError: If it is damaged, of another version or of other landmarks.
        """
        try:
            with safetensors.safe_open(path, "pt") as file:
                made = json.loads((file.metadata() or {})[_METADATA])
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if (found := made["format_version"]) != FORMAT_VERSION:
                raise ValueError(f"format version {found}, expected {FORMAT_VERSION}")
            made_by = dict(made["extractor"])
            segmenter = cls(Layout.from_json(made["layout"]), made_by, weights)
        except _UNREADABLE as error:
            raise UserError(f"{path}: no segmenter that can be read ({error}); {HINT}") from None
        check_same_extractor(extractor, made_by, hint=f"{HINT}, or remove {path}")
        return segmenter


def join_films(
    clips: Mapping[str, Sequence[LandmarkSequence]], generator: np.random.Generator
) -> list[Film]:
    """Join clips to films, in which their signer rests between the sentences.

    Args:
        clips: Of each signer; they begin and end at rest.
        generator: Deals the clips out to films and draws the pauses.
    """
    films = []
    for own in clips.values():
        order = generator.permutation(len(own))
        films += [
            _join([own[i] for i in order[first : first + FILM_CLIPS]], generator)
            for first in range(0, len(own), FILM_CLIPS)
        ]
    return films


def _join(clips: Sequence[LandmarkSequence], generator: np.random.Generator) -> Film:
    """Join clips at the first one's frame rate; every body lies where the first one's does."""
    first = clips[0]
    fitted = [_fit_body(clip, first) for clip in clips]
    points, present, spans, now = [], [], [], 0
    fidget = FIDGET * _measure(first)[1]
    for number in range(len(clips) + 1):
        frames = round(generator.uniform(0, LONGEST_PAUSE_S) * first.fps)
        before, after = fitted[max(number - 1, 0)], fitted[min(number, len(clips) - 1)]
        start, end = (-1 if number else 0), (0 if number < len(clips) else -1)
        share = np.linspace(0, 1, frames + 2, dtype=np.float32)[1:-1, None, None]
        rest = before.points[start] + share * (after.points[end] - before.points[start])
        # A hand that is lost at one end of a pause is lost in it.
        there = np.repeat((before.present[start] & after.present[end])[None], frames, axis=0)
        for column, group in enumerate(first.layout.groups):
            marks = first.layout.slice(group.name)
            if group.name.endswith("_hand") and generator.random() < LOST_AT_REST:
                there[:, column] = False
            rest[:, marks] += generator.normal(0, 1, (frames, 1, 3)) * fidget
            rest[~there[:, column], marks] = np.nan
        points.append(rest.astype(np.float32))
        present.append(there)
        now += frames
        if number < len(clips):
            points.append(fitted[number].points)
            present.append(fitted[number].present)
            spans.append((now / first.fps, (now + len(fitted[number].points)) / first.fps))
            now += len(fitted[number].points)
    sequence = replace(first, points=np.concatenate(points), present=np.concatenate(present))
    return Film(sequence=sequence, spans=spans)


def _fit_body(clip: LandmarkSequence, like: LandmarkSequence) -> LandmarkSequence:
    """Move and scale a clip so that its body lies where another's does, in the same picture.

    A step from clip to clip would tell the network where a sentence begins; films have none.
    """
    clip = resample(clip, like.fps)
    (old, old_unit), (new, new_unit) = _measure(clip), _measure(like)
    points = ((clip.points - old) / old_unit * new_unit + new).astype(np.float32)
    return replace(clip, points=points, fps=like.fps, width=like.width, height=like.height)


def _measure(clip: LandmarkSequence) -> tuple[FloatArray, FloatArray]:
    """Return where the body is and how large, in the coordinates of the landmarks, (3,) each."""
    aspect = np.float32(clip.width / clip.height)
    found = measure(clip.points * np.array([aspect, 1, aspect], np.float32), clip)
    centre, width = (found.centre, found.width) if found else ((0.0, 0.0), 1.0)
    unit = np.array([width / aspect, width, width / aspect], np.float32)
    return np.array([centre[0] / aspect, centre[1], 0], np.float32), unit


def crop_films(films: Sequence[Film], generator: np.random.Generator) -> list[Film]:
    """Return windows of films, as many as they have room for."""
    windows = []
    for film in films:
        room = max(film.sequence.seconds - WINDOW_S, 0.0)
        for _ in range(1 + int(room / WINDOW_S)):
            start = float(generator.uniform(0, room)) if room else 0.0
            windows.append(crop(film, (start, min(start + WINDOW_S, film.sequence.seconds))))
    return windows


def crop(film: Film, window: Span) -> Film:
    """Return the part of a film in a window, with the sentences that lie in it."""
    start, end = window
    spans = [(max(a, start) - start, min(b, end) - start) for a, b in film.spans]
    return Film(sequence=cut(film.sequence, window), spans=[s for s in spans if s[0] < s[1]])


def _augmented(film: Film, generator: np.random.Generator) -> Film:
    lost = lose_hands(film.sequence, AUGMENTATION, generator)
    sequence = augment(lost, AUGMENTATION, generator)
    factor = sequence.seconds / film.sequence.seconds
    return Film(sequence=sequence, spans=[(a * factor, b * factor) for a, b in film.spans])
