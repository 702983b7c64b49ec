"""What the checks of new data notice: honest signers of the demo corpus, and batches ruined.

Usage: python -m tests.bench.drift [--corpus DIR]

Needs the demo corpus and its landmarks (`make demo`). Honest: all clips of each signer against
those of the others, and each signer's last 8 clips against everything before. Ruined: 8 clips of
one signer, known (16 clips stay) and new (none does). Red and blue are exchanged in the videos,
which are extracted anew; the other faults are made in landmarks and sentences.
"""

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from signloom.config import load_section
from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip, read_manifest
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import read_shards, write_shards
from signloom.extraction.extract import ExtractOptions, extract_video
from signloom.extraction.video import Video, VideoWriter
from signloom.features.augment import mirror
from signloom.paths import LANDMARKS, PARAMS
from signloom_ops.intake.drift.check import check_drift
from signloom_ops.intake.drift.findings import DriftReport
from signloom_ops.nightly.plan import RetrainOptions
from tests.tiny import lose

SIGNER, CLIPS = "ines", 8
OPTIONS = load_section(PARAMS, "retrain", RetrainOptions).drift
GERMAN = (
    "das wetter ist heute schön", "meine schwester trinkt kaffee", "wo wohnst du jetzt",
    "wir gehen morgen zur schule", "er will keinen apfel", "guten abend", "ich arbeite gern",
    "wie heißt du",
)  # fmt: skip

Sequences = Mapping[str, LandmarkSequence]


def swap_colours(clip: Clip, folder: Path) -> Clip:
    """Write the clip's video again with red and blue exchanged."""
    assert clip.video
    path = folder / clip.video.name
    with Video(clip.video) as video:
        frames = [frame.rgb for frame in video.frames()]
        height, width = frames[0].shape[:2]
        with VideoWriter(path, fps=video.fps, width=width, height=height) as out:
            for rgb in frames:
                out.write(np.ascontiguousarray(rgb[:, :, ::-1]))
    return dataclasses.replace(clip, video=path)


def lose_hands(sequence: LandmarkSequence, share: float, *, seed: int) -> LandmarkSequence:
    """Take both hands out of a share of the frames."""
    for frame in np.flatnonzero(np.random.default_rng(seed).random(len(sequence.points)) < share):
        for hand in ("left_hand", "right_hand"):
            sequence = lose(sequence, hand, slice(frame, frame + 1))
    return sequence


def check(clips: Sequence[Clip], new: Sequence[Clip], sequences: Sequences) -> DriftReport:
    """Write the landmarks and check them."""
    with tempfile.TemporaryDirectory() as name:
        folder, kept = Path(name), {clip.clip_id: sequences[clip.clip_id] for clip in clips}
        frames = {clip_id: len(sequence.points) for clip_id, sequence in kept.items()}
        layout = next(iter(kept.values())).layout
        write_shards(folder / SHARDS_NAME, frames, kept.__getitem__, layout=layout, extractor="{}",
                     frames_per_shard=25_000)  # fmt: skip
        write_quality(folder / QUALITY_NAME, [measure_quality(*row) for row in kept.items()])
        ids = [clip.clip_id for clip in new]
        return check_drift(clips, ids, batch="bench", landmarks=folder, options=OPTIONS)


def tell(name: str, report: DriftReport) -> None:
    """Print a row: what stopped or warned, with its statistic."""
    found = [
        f"{one.check} {one.statistic:.3g} ({level})"
        for level in ("stop", "warn")
        for one in report.of(level)
    ]
    print(f"| {name} | **{report.level}** | {', '.join(found)} |", flush=True)


def ruin(clips: Sequence[Clip], sequences: Sequences, folder: Path) -> None:
    """Print what is found of each fault."""
    extract = load_section(PARAMS, "extract", ExtractOptions).detector_options
    own = [clip for clip in clips if clip.signer == SIGNER][:CLIPS]
    swapped = [swap_colours(clip, folder) for clip in own]
    blue = {c.clip_id: extract_video(c.video, extract) for c in swapped if c.video}
    shifted = [clip.text for clip in own[1:]] + [own[0].text]

    def change(how: Callable[[LandmarkSequence], LandmarkSequence]) -> Sequences:
        return {clip.clip_id: how(sequences[clip.clip_id]) for clip in own}

    def lose_share(share: float) -> Sequences:
        return {
            clip.clip_id: lose_hands(sequences[clip.clip_id], share, seed=number)
            for number, clip in enumerate(own, start=1)  # or all would lose the same frames
        }

    def reword(texts: Sequence[str]) -> list[Clip]:
        return [dataclasses.replace(c, text=t) for c, t in zip(own, texts, strict=True)]

    faults: dict[str, tuple[Sequence[Clip], Sequences]] = {
        "red and blue exchanged": (swapped, blue),
        "mirrored": (own, change(mirror)),
        "header says twice the rate": (
            own,
            change(lambda s: dataclasses.replace(s, fps=2 * s.fps)),
        ),
        "header says half the rate": (own, change(lambda s: dataclasses.replace(s, fps=s.fps / 2))),
        "hands lost in 30 %": (own, lose_share(0.3)),
        "hands lost in 70 %": (own, lose_share(0.7)),
        "German sentences": (reword(GERMAN), {}),
        "each clip has the next one's sentence": (reword(shifted), {}),
    }
    for name, (new, changed) in faults.items():
        ids = {clip.clip_id for clip in own}
        others = [clip for clip in clips if clip.clip_id not in ids]
        strangers = [clip for clip in others if clip.signer != SIGNER]
        for who, old in (("known", others), ("new", strangers)):
            found = check([*old, *new], new, {**sequences, **changed})
            tell(f"{name}, {who} signer", found)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    clips = read_manifest(parser.parse_args().corpus / "manifest.tsv")
    sequences = read_shards(LANDMARKS / SHARDS_NAME)
    print("| batch | level | what is found |\n|---|---|---|")
    for signer in sorted({clip.signer for clip in clips}):
        own = [clip for clip in clips if clip.signer == signer]
        tell(f"honest: {signer}, new", check(clips, own, sequences))
        tell(f"honest: {signer}, known", check(clips, own[-CLIPS:], sequences))
    with tempfile.TemporaryDirectory() as folder:
        ruin(clips, sequences, Path(folder))


if __name__ == "__main__":
    main()
