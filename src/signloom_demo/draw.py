"""The demo corpus: who signs what, drawn into videos with a manifest and the true joints.

Every clip has its own random numbers, so the files do not depend on the number of processes or on
who draws what.
"""

import functools
import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tqdm import tqdm

from signloom.config import Share, checked_dataclass
from signloom.corpus.manifest import Clip, write_manifest
from signloom.errors import UserError
from signloom.extraction.pool import count_workers, map_in_order
from signloom.files import whole_folder
from signloom.progress import progress_file
from signloom_demo.grammar import SignedSentence, sentences
from signloom_demo.motion import perform
from signloom_demo.render import Camera
from signloom_demo.scene import draw_frames, pose_arms, true_joints
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer
from signloom_demo.uncut import CUT, draw_camera, draw_manner, walk

CANDIDATES = 60  # sentences drawn for each clip, of which the most needed is taken
LEAST_SEEN = 2  # how often train has each word of a new dev or test sentence
PLAN_STREAM = 1_000_000  # keeps the plan's random numbers apart from those of the clips


@checked_dataclass
class DrawOptions:
    """Section `draw` of data/demo/params.yaml."""

    out: Path
    """Folder of the corpus; replaced as a whole."""
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    """Decides sentences, movements and camera."""
    train_signers: Annotated[int, Field(ge=1, le=len(TRAIN_SIGNERS))]
    """People in the split train."""
    dev_signers: Annotated[int, Field(ge=0, le=len(DEV_SIGNERS))]
    """People in dev, 0 or 1."""
    test_signers: Annotated[int, Field(ge=0, le=len(TEST_SIGNERS))]
    """People in test."""
    clips_per_signer: Annotated[int, Field(ge=1, le=10_000)]
    """Clips of each person."""
    max_signs: Annotated[int, Field(ge=1, le=5)]
    """Longest sentence, signs."""
    unseen_share: Share
    """Share of dev and test sentences that train does not have."""
    fps: Annotated[float, Field(ge=8, le=120)]
    """Frames a second."""
    width: Annotated[int, Field(ge=64, le=4096, multiple_of=2)]
    """Pixels, even."""
    height: Annotated[int, Field(ge=64, le=4096, multiple_of=2)]
    """Pixels, even."""
    uncut_share: Share = 0.0
    """Share of clips with what films have that nobody cut: waits, walking in, other cameras."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedClip:
    """One clip to draw; `index` counts through the corpus and seeds the clip."""

    index: int
    clip_id: str
    signer: Signer
    split: str
    sentence: SignedSentence


@dataclass(slots=True)
class _Tally:
    """What has been chosen so far."""

    signs: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    used: Counter[SignedSentence] = field(default_factory=Counter)

    def add(self, sentence: SignedSentence) -> None:
        self.signs.update(sentence.glosses)
        self.words.update(sentence.text.split())
        self.used[sentence] += 1

    def need(self, sentence: SignedSentence) -> float:
        """How much a sentence helps what is rare so far."""
        words = sentence.text.split()
        signs_need = sum(1 / (1 + self.signs[gloss]) for gloss in sentence.glosses)
        words_need = sum(1 / (1 + self.words[word]) for word in words)
        need = signs_need / len(sentence.glosses) + 0.2 * words_need / len(words)
        return need / (1 + self.used[sentence])


def plan_clips(options: DrawOptions) -> list[PlannedClip]:
    """Choose the sentences of all clips, the same for the same options.

    Dev and test only use signs and words that occur in train; of their sentences, `unseen_share`
    are new as a whole where the grammar has such sentences.
    """
    rng = np.random.default_rng(np.random.SeedSequence([options.seed, PLAN_STREAM]))
    pool = sentences(options.max_signs)
    train = TRAIN_SIGNERS[: options.train_signers]
    chosen = _choose_train(pool, train, options.clips_per_signer, rng)
    train_texts = [sentence.text for row in chosen for sentence in row]
    signers: list[tuple[str, Signer]] = [("train", signer) for signer in train]
    for split, people, count in (
        ("dev", DEV_SIGNERS, options.dev_signers),
        ("test", TEST_SIGNERS, options.test_signers),
    ):
        tally = _Tally()
        for signer in people[:count]:
            chosen.append(_choose_held_out(pool, train_texts, tally, options, rng))
            signers.append((split, signer))
    planned: list[PlannedClip] = []
    for (split, signer), row in zip(signers, chosen, strict=True):
        for number, sentence in enumerate(row, start=1):
            planned.append(
                PlannedClip(
                    index=len(planned),
                    clip_id=f"{signer.name}-{number:03d}",
                    signer=signer,
                    split=split,
                    sentence=sentence,
                )
            )
    return planned


def _choose_train(
    pool: Sequence[SignedSentence], signers: Sequence[Signer], clips: int, rng: np.random.Generator
) -> list[list[SignedSentence]]:
    """Choose sentences so that every sign is signed often, and by every signer if clips suffice."""
    overall, kinds = _Tally(), _by_kind(pool)
    rows: list[list[SignedSentence]] = []
    for _ in signers:
        signer_tally = _Tally()
        row: list[SignedSentence] = []
        for _ in range(clips):
            candidates = _draw(kinds, rng, signed=row)
            best = max(candidates, key=lambda s: overall.need(s) + 0.3 * signer_tally.need(s))
            overall.add(best)
            signer_tally.add(best)
            row.append(best)
        rows.append(row)
    return rows


def _choose_held_out(
    pool: Sequence[SignedSentence],
    train_texts: Sequence[str],
    tally: _Tally,
    options: DrawOptions,
    rng: np.random.Generator,
) -> list[SignedSentence]:
    """Choose the sentences of a dev or test signer: some new, some known from train."""
    counts = Counter(word for text in train_texts for word in text.split())
    train_words = {word for word, count in counts.items() if count >= LEAST_SEEN}
    texts = set(train_texts)
    train_sentences = [s for s in pool if s.text in texts]
    signs = {gloss for s in train_sentences for gloss in s.glosses}
    new = [
        s
        for s in pool
        if s.text not in texts
        and signs.issuperset(s.glosses)
        and train_words.issuperset(s.text.split())
    ]
    row: list[SignedSentence] = []
    unseen = int(np.ceil(options.unseen_share * options.clips_per_signer))
    for number in range(options.clips_per_signer):
        source = new if number < unseen and new else train_sentences
        best = max(_draw(_by_kind(source), rng, signed=row), key=tally.need)
        tally.add(best)
        row.append(best)
    return [row[i] for i in rng.permutation(len(row))]


def _by_kind(pool: Sequence[SignedSentence]) -> list[list[SignedSentence]]:
    kinds = defaultdict(list)
    for sentence in pool:
        kinds[sentence.kind].append(sentence)
    return [kinds[kind] for kind in sorted(kinds)]


def _draw(
    kinds: Sequence[Sequence[SignedSentence]],
    rng: np.random.Generator,
    signed: Sequence[SignedSentence],
) -> list[SignedSentence]:
    """Draw candidates, if possible without those this signer has signed.

    Small kinds come oftener than their share: without the square root, sentences with a thing and
    a place, the most numerous, would drown greetings and states.
    """
    weights = np.sqrt([len(kind) for kind in kinds])
    drawn = [
        kinds[index][int(rng.integers(len(kinds[index])))]
        for index in rng.choice(len(kinds), size=CANDIDATES, p=weights / weights.sum())
    ]
    return [sentence for sentence in drawn if sentence not in signed] or drawn


MANIFEST, TRUTH, VIDEOS = "manifest.tsv", "truth.npz", "videos"
TRUTH_VERSION = 1
ROOM_STREAM = 2_000_000  # keeps the rooms' random numbers apart from those of the clips
UNCUT_STREAM = 3_000_000  # and those of what is around the signing


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
    with whole_folder(options.out) as partial:
        (partial / VIDEOS).mkdir()
        truths = list(_draw_all(clips, options, partial, workers))
        write_truth(partial / TRUTH, [clip.clip_id for clip in clips], truths)
        write_manifest(partial / MANIFEST, [_row(clip, partial) for clip in clips])
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
    manner = CUT
    film = np.random.default_rng(np.random.SeedSequence([options.seed, UNCUT_STREAM, clip.index]))
    if film.random() < options.uncut_share:
        manner = draw_manner(film, len(clip.sentence.glosses))
        camera = draw_camera(film, options.width, options.height)
    performance = perform(clip.sentence.glosses, clip.signer, options.fps, rng, manner)
    beside = walk(manner, len(performance.sign), options.fps)
    arms = pose_arms(performance, clip.signer)
    write_video(
        folder / VIDEOS / f"{clip.clip_id}.mp4",
        draw_frames(arms, clip.signer, camera, room, beside=beside),
        options.fps,
        (options.width, options.height),
    )
    dominant, nondominant = performance.in_sign.T
    sides = (dominant, nondominant) if clip.signer.left_handed else (nondominant, dominant)
    return Truth(
        joints=true_joints(arms, camera, beside).astype(np.float16),
        in_sign=np.stack(sides, axis=1),
        sign=performance.sign.astype(np.int8),
    )


def write_video(
    path: Path, frames: Iterator[NDArray[np.uint8]], fps: float, size: tuple[int, int]
) -> None:
    """Encode BGR frames of a width and a height as MPEG-4.

    Raises:
        OSError: If OpenCV cannot encode or the file cannot be written.
    """
    fourcc = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), fourcc, fps, size)
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
    arrays = {
        "format_version": np.array(TRUTH_VERSION),
        "clip_ids": np.array(clip_ids),
        "starts": np.cumsum([0, *lengths]),
        "joints": np.concatenate([truth.joints for truth in truths]),
        "in_sign": np.concatenate([truth.in_sign for truth in truths]),
        "sign": np.concatenate([truth.sign for truth in truths]),
    }
    # Python 3.11.2 and 3.11.7 write other headers for what numpy.savez opens as large files.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            np.save(member := io.BytesIO(), array, allow_pickle=False)
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED
            )


def read_truth(path: Path) -> dict[str, Truth]:
    """Read what is true of each clip.

    Raises:
        ValueError: If the file has another format version.
    """
    with np.load(path, allow_pickle=False) as file:
        version = int(file["format_version"])
        if version != TRUTH_VERSION:
            raise ValueError(f"{path}: format version {version}, expected {TRUTH_VERSION}")
        starts = file["starts"]
        joints, in_sign, sign = file["joints"], file["in_sign"], file["sign"]
        return {
            str(clip_id): Truth(joints[a:b], in_sign[a:b], sign[a:b])
            for clip_id, a, b in zip(file["clip_ids"], starts[:-1], starts[1:], strict=True)
        }
