"""Films of many sentences with pauses between them, drawn or sketched as landmarks."""

import io
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from PIL import Image

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom_demo.draw import DrawOptions, write_video
from signloom_demo.motion import NO_SIGN, Performance, perform
from signloom_demo.render import Camera
from signloom_demo.scene import draw_frames, pose_arms
from signloom_demo.signer import Signer
from signloom_demo.skeleton import Floats, HandTrack
from tests import tiny

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
    """Draw a signer who rests between sentences, before one camera; return where these lie.

    Args:
        path: The video.
        glosses: Of each sentence.
        pauses_s: Rest after each sentence, seconds; one less than sentences.
        signer: Who signs.
        options: Picture and frame rate.
        seed: Of movement and room.
    """
    rng = np.random.default_rng(seed)
    signed = [perform(gloss, signer, options.fps, rng) for gloss in glosses]
    lead = round(LEAD_S * options.fps)
    waits = [lead, *(round(pause_s * options.fps) for pause_s in pauses_s), lead]
    spans, now = [], lead
    for performance, wait in zip(signed, waits[1:], strict=True):
        end = now + len(performance.sign)
        spans.append((now / options.fps, end / options.fps))
        now = end + wait
    tracks = [
        _join([getattr(sign, hand) for sign in signed], waits, rng)
        for hand in ("dominant", "other")
    ]
    film = Performance(
        dominant=tracks[0],
        other=tracks[1],
        in_sign=np.zeros((now, 2), np.bool_),
        sign=np.full(now, NO_SIGN),
    )
    camera = Camera(width=options.width, height=options.height)
    room = np.random.default_rng(seed)
    frames = draw_frames(pose_arms(film, signer), signer, camera, room)
    write_video(path, frames, options.fps, (options.width, options.height))
    return spans


def _join(tracks: Sequence[HandTrack], waits: Sequence[int], rng: np.random.Generator) -> HandTrack:
    """Join tracks by rests of so many frames, before, between and behind them."""
    track = {}
    for field in fields(HandTrack):
        parts = [getattr(track, field.name) for track in tracks]
        joined = []
        for number, wait in enumerate(waits):
            before = parts[max(number - 1, 0)][-1 if number else 0]
            after = parts[min(number, len(parts) - 1)][0 if number < len(parts) else -1]
            share = (np.arange(wait) + 1).reshape(-1, *[1] * before.ndim) / (wait + 1)
            transition: Floats = before + share * (after - before)
            if field.name == "centre":
                transition += rng.normal(0, FIDGET_CM, transition.shape)
            joined += [transition, parts[number]] if number < len(parts) else [transition]
        track[field.name] = np.concatenate(joined)
    return HandTrack(**track)


def sketch_film(
    spans: Sequence[tuple[float, float]], seconds: float, fps: float = 15.0, seed: int = 0
) -> LandmarkSequence:
    """Return the landmarks of a signer who raises a hand or both in each span and rests else."""
    rng = np.random.default_rng(seed)
    still = tiny.sequence(seed, frames=1, fps=fps)
    points = np.repeat(still.points, round(seconds * fps), axis=0)
    for side, x in (("left", 0.62), ("right", 0.38)):
        points[:, HANDS_POSE.index("pose", f"{side}_hip")] = (x, 0.9, 0)
    times_s = np.arange(len(points)) / fps
    for number, (start, end) in enumerate(spans):
        # After a tenth of a second, up within a quarter of one; down again likewise.
        raised = np.clip((np.minimum(times_s - start, end - times_s) - 0.1) / 0.25, 0, 1)
        for side in ("left", "right") if number % 2 else ("right",):
            phase = rng.uniform(0, 6)
            moved = np.zeros((len(points), 1, 3), np.float32)
            moved[:, 0, 0] = 0.08 * raised * np.sin(8 * times_s + phase)
            moved[:, 0, 1] = -0.35 * raised
            points[:, HANDS_POSE.slice(f"{side}_hand")] += moved
    for side in ("left", "right"):
        hand = points[:, HANDS_POSE.slice(f"{side}_hand")]
        hand[..., 1] += 0.85 - hand[0, 0, 1]
        points[:, HANDS_POSE.index("pose", f"{side}_wrist")] = hand[:, 0]
    points += rng.normal(0, 0.002, points.shape)
    present = np.ones((len(points), len(HANDS_POSE.groups)), np.bool_)
    return replace(still, points=points.astype(np.float32), present=present)


def jpeg(brightness: int, size: tuple[int, int] = (64, 48)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, (brightness,) * 3).save(buffer, "JPEG")
    return buffer.getvalue()
