"""Draws the demo corpus: options in; videos, a manifest and the true joints out.

Every clip has its own random numbers, so the files do not depend on the number of processes or on
who draws what.
"""

import functools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from signloom.config import UserError
from signloom.corpus.demo.motion import perform
from signloom.corpus.demo.plan import DrawOptions, PlannedClip, plan_clips
from signloom.corpus.demo.render import Camera
from signloom.corpus.demo.scene import draw_frames, pose_arms, true_joints
from signloom.corpus.manifest import Clip, write_manifest
from signloom.corpus.pool import count_workers, map_in_order
from signloom.corpus.progress import progress_file

MANIFEST, TRUTH, VIDEOS = "manifest.tsv", "truth.npz", "videos"
TRUTH_VERSION = 1
ROOM_STREAM = 2_000_000  # keeps the rooms' random numbers apart from those of the clips


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What is true of one clip, S frames.

    joints: Signer's left, then right hand, x and y in [0, 1] inside the picture, float16,
        shape (S, 2, 21, 2), MediaPipe's order of joints.
    in_sign: Whether that hand performs a sign, shape (S, 2).
    sign: Position in the gloss sequence, -1 between signs and at rest, shape (S,).
    """

    joints: NDArray[np.float16]
    in_sign: NDArray[np.bool_]
    sign: NDArray[np.int8]


def draw_corpus(options: DrawOptions, workers: int | None = None) -> int:
    """Draw the whole corpus into `options.out`, which appears only when it is complete.

    Args:
        options: What to draw.
        workers: Processes; None for SIGNLOOM_WORKERS or one a core. The files are the same for
            any number.

    Returns:
        How many frames were drawn.
    """
    if options.out.exists() and not (options.out / TRUTH).is_file():
        raise UserError(
            f"draw.out: {options.out} holds something other than a drawn corpus and would be "
            "replaced; name another folder"
        )
    clips = plan_clips(options)
    partial = options.out.with_name(f".{options.out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / VIDEOS).mkdir(parents=True)
    truths = list(_draw_all(clips, options, partial, workers))
    write_truth(partial / TRUTH, [clip.clip_id for clip in clips], truths)
    write_manifest(partial / MANIFEST, [_row(clip, partial) for clip in clips])
    shutil.rmtree(options.out, ignore_errors=True)
    partial.rename(options.out)
    return sum(len(truth.sign) for truth in truths)


def _draw_all(
    clips: Sequence[PlannedClip], options: DrawOptions, folder: Path, workers: int | None
) -> Iterator[Truth]:
    draw_one = functools.partial(draw_clip, options=options, folder=folder)
    count = min(workers or count_workers(), len(clips))
    drawn = map(draw_one, clips) if count == 1 else map_in_order(draw_one, clips, count)
    yield from tqdm(drawn, "draw", len(clips), unit="clip", file=progress_file())


def draw_clip(clip: PlannedClip, options: DrawOptions, folder: Path) -> Truth:
    """Draw one clip into `folder`/videos and return what is true of it."""
    cv2.setNumThreads(1)
    rng = np.random.default_rng(np.random.SeedSequence([options.seed, clip.index]))
    room_seed = [options.seed, ROOM_STREAM, *clip.signer.name.encode()]
    room = np.random.default_rng(np.random.SeedSequence(room_seed))
    camera = Camera(
        width=options.width,
        height=options.height,
        shift_x=float(rng.normal(0.0, 1.2)),
        shift_y=float(rng.normal(0.0, 0.8)),
        zoom=float(rng.uniform(0.97, 1.03)),
    )
    performance = perform(clip.sentence.glosses, clip.signer, options.fps, rng)
    arms = pose_arms(performance, clip.signer)
    write_video(
        folder / VIDEOS / f"{clip.clip_id}.mp4",
        draw_frames(arms, clip.signer, camera, room),
        options,
    )
    dominant, other = performance.in_sign.T
    sides = (dominant, other) if clip.signer.left_handed else (other, dominant)
    return Truth(
        joints=true_joints(arms, camera).astype(np.float16),
        in_sign=np.stack(sides, axis=1),
        sign=performance.sign.astype(np.int8),
    )


def write_video(path: Path, frames: Iterator[NDArray[np.uint8]], options: DrawOptions) -> None:
    """Encode BGR frames as MPEG-4.

    Raises:
        OSError: If OpenCV cannot encode or the file cannot be written.
    """
    fourcc = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), fourcc, options.fps, (options.width, options.height))
    if not writer.isOpened():
        raise OSError(f"{path}: OpenCV cannot write MPEG-4 video here")
    try:
        for frame in frames:
            writer.write(frame)
    finally:
        writer.release()


def _row(clip: PlannedClip, folder: Path) -> Clip:
    return Clip(
        clip_id=clip.clip_id,
        video=folder / VIDEOS / f"{clip.clip_id}.mp4",
        text=clip.sentence.text,
        signer=clip.signer.name,
        split=clip.split,
        gloss=" ".join(clip.sentence.glosses),
        language="fr",
    )


def write_truth(path: Path, clip_ids: Sequence[str], truths: Sequence[Truth]) -> None:
    """Write the truth of all clips, one after another, with the first frame of each."""
    lengths = [len(truth.sign) for truth in truths]
    np.savez_compressed(
        path,
        format_version=np.array(TRUTH_VERSION),
        clip_ids=np.array(clip_ids),
        starts=np.cumsum([0, *lengths]),
        joints=np.concatenate([truth.joints for truth in truths]),
        in_sign=np.concatenate([truth.in_sign for truth in truths]),
        sign=np.concatenate([truth.sign for truth in truths]),
    )


def read_truth(path: Path) -> dict[str, Truth]:
    """Read what is true of each clip.

    Raises:
        ValueError: If the file has another format version.
    """
    with np.load(path, allow_pickle=False) as file:
        found = int(file["format_version"])
        if found != TRUTH_VERSION:
            raise ValueError(f"{path}: format version {found}, expected {TRUTH_VERSION}")
        starts = file["starts"]
        joints, in_sign, sign = file["joints"], file["in_sign"], file["sign"]
        return {
            str(clip_id): Truth(joints[a:b], in_sign[a:b], sign[a:b])
            for clip_id, a, b in zip(file["clip_ids"], starts[:-1], starts[1:], strict=True)
        }
