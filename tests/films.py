"""Drawn films of many sentences with pauses between them, and where each sentence lies."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from signloom.demo.draw import DrawOptions, write_video
from signloom.demo.motion import NO_SIGN, Performance, perform
from signloom.demo.render import Camera
from signloom.demo.scene import draw_frames, pose_arms
from signloom.demo.signer import Signer
from signloom.demo.skeleton import Floats, HandTrack

Spans = list[tuple[float, float]]  # start and end of each sentence, seconds
FIDGET_CM = 0.15  # of a hand at rest, a frame
LEAD_S = 1.0  # of rest at either end of a film


def draw_film(
    path: Path,
    glosses: Sequence[Sequence[str]],
    pauses_s: Sequence[float],
    signer: Signer,
    options: DrawOptions,
    seed: int,
) -> Spans:
    """Draw a signer who rests between sentences, before one camera that stands still.

    Args:
        path: The video.
        glosses: Of each sentence.
        pauses_s: Rest after each sentence, seconds; one less than sentences.
        signer: Who signs.
        options: Picture and frame rate.
        seed: Of movement and room.
    """
    rng = np.random.default_rng(seed)
    signed = [perform(one, signer, options.fps, rng) for one in glosses]
    lead = round(LEAD_S * options.fps)
    waits = [lead, *(round(pause_s * options.fps) for pause_s in pauses_s), lead]
    spans, now = [], lead
    for performance, wait in zip(signed, waits[1:], strict=True):
        end = now + len(performance.sign)
        spans.append((now / options.fps, end / options.fps))
        now = end + wait
    tracks = [
        _join([getattr(one, hand) for one in signed], waits, rng) for hand in ("dominant", "other")
    ]
    whole = Performance(
        dominant=tracks[0], other=tracks[1], in_sign=np.zeros((now, 2), np.bool_),
        sign=np.full(now, NO_SIGN),
    )  # fmt: skip
    camera = Camera(width=options.width, height=options.height)
    room = np.random.default_rng(seed)
    write_video(path, draw_frames(pose_arms(whole, signer), signer, camera, room), options)
    return spans


def _join(tracks: Sequence[HandTrack], waits: Sequence[int], rng: np.random.Generator) -> HandTrack:
    """Join tracks by rests of so many frames, before, between and behind them."""
    found = {}
    for field in fields(HandTrack):
        parts = [getattr(track, field.name) for track in tracks]
        joined = []
        for number, wait in enumerate(waits):
            before = parts[max(number - 1, 0)][-1 if number else 0]
            after = parts[min(number, len(parts) - 1)][0 if number < len(parts) else -1]
            share = (np.arange(wait) + 1).reshape(-1, *[1] * before.ndim) / (wait + 1)
            rest: Floats = before + share * (after - before)
            if field.name == "centre":
                rest += rng.normal(0, FIDGET_CM, rest.shape)
            joined += [rest, parts[number]] if number < len(parts) else [rest]
        found[field.name] = np.concatenate(joined)
    return HandTrack(**found)
