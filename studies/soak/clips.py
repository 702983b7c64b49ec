"""Clips of a soak: drawn people sign drawn sentences.

Everything follows from the seed and from names, so a soak that is started again draws the same.
"""

import csv
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.manifest import Clip
from signloom.extraction.pool import count_workers, map_in_order
from signloom_demo.grammar import Sentence
from signloom_demo.motion import Performance, perform
from signloom_demo.render import Camera
from signloom_demo.scene import draw_frames, pose_arms
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer
from signloom_tools.video_writer import VideoWriter
from studies.soak.options import Delivery, Flaw, Recording, SoakOptions

_PERSON, _ROOM, _CLIP, _CHOICE = range(4)  # streams of random numbers
# A lazy signer's hands hang lower than others', and the camera looks at the face.
_HANGING_CM = np.array([0.0, -45.0, 0.0])
_RAISED_CM = 22.0
_LOOKS = (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """One video to draw, and what is signed in it."""

    path: Path
    signer: str
    sentence: Sentence
    flaw: Flaw


def generator(seed: int, stream: int, name: str) -> np.random.Generator:
    """Return the random numbers of something that has a name."""
    return np.random.default_rng(np.random.SeedSequence([seed, stream, *name.encode()]))


def invent_person(seed: int, name: str) -> Signer:
    """Return a person: the skin and shirt of one demo signer, in another's room, moving anew."""
    rng = generator(seed, _PERSON, name)
    look, room, head = (_LOOKS[int(i)] for i in rng.integers(len(_LOOKS), size=3))
    return replace(
        look,
        name=name,
        hair=head.hair,
        hair_style=head.hair_style,
        backdrop=room.backdrop,
        backdrop_colour=room.backdrop_colour,
        sleeve=float(rng.uniform(0.1, 0.8)),
        size=float(rng.uniform(0.95, 1.05)),
        width=float(rng.uniform(0.94, 1.08)),
        speed=float(rng.uniform(0.88, 1.12)),
        amplitude=float(rng.uniform(0.9, 1.12)),
        jitter_cm=float(rng.uniform(0.4, 0.8)),
        smoothness=float(rng.uniform(0.5, 0.9)),
        left_handed=bool(rng.random() < 0.15),
    )


def choose(pool: Sequence[Sentence], seed: int, name: str, count: int) -> list[Sentence]:
    """Draw sentences, rare kinds oftener than their share, none twice while there are others."""
    rng = generator(seed, _CHOICE, name)
    sizes = Counter(sentence.kind for sentence in pool)
    kinds = sorted(sizes)
    weights = np.sqrt([sizes[kind] for kind in kinds])
    left: dict[str, list[Sentence]] = {kind: [] for kind in kinds}
    chosen = []
    for number in rng.choice(len(kinds), size=count, p=weights / weights.sum()):
        kind = kinds[int(number)]
        if not left[kind]:
            own = [sentence for sentence in pool if sentence.kind == kind]
            left[kind] = [own[int(i)] for i in rng.permutation(len(own))]
        chosen.append(left[kind].pop())
    return chosen


def plan_takes(options: SoakOptions, folder: Path, delivery: Delivery) -> list[Take]:
    """Return what is recorded for a delivery that will lie in `folder`."""
    takes, pool = [], options.language.pool(delivery.words)
    for signer in delivery.signers:
        name = f"{folder.name}-{signer}"
        for number, sentence in enumerate(choose(pool, options.seed, name, delivery.clips), 1):
            own = folder / signer if delivery.form == "sidecars" else folder / "videos"
            path = own / f"{name}-{number:02d}.mp4"
            takes.append(Take(path=path, signer=signer, sentence=sentence, flaw=delivery.flaw))
    return takes


def draw_takes(takes: Sequence[Take], recording: Recording, seed: int) -> None:
    """Draw videos, by as many processes as there are cores."""
    draw = functools.partial(draw_take, recording=recording, seed=seed)
    for _ in map_in_order(draw, takes, min(count_workers(), len(takes))):
        pass


def draw_take(take: Take, recording: Recording, seed: int) -> None:
    """Draw one video."""
    person, rng = invent_person(seed, take.signer), generator(seed, _CLIP, take.path.stem)
    camera = Camera(
        width=recording.width,
        height=recording.height,
        shift_x=float(rng.normal(0.0, 1.2)),
        shift_y=float(rng.normal(_RAISED_CM if take.flaw == "lazy" else 0.0, 0.8)),
        zoom=float(rng.uniform(0.97, 1.03)),
    )
    performance = perform(take.sentence.glosses, person, recording.fps, rng)
    arms = pose_arms(_drop_hands(performance) if take.flaw == "lazy" else performance, person)
    drawn = draw_frames(arms, person, camera, generator(seed, _ROOM, take.signer))
    with VideoWriter(
        take.path, fps=recording.fps, width=recording.width, height=recording.height
    ) as video:
        for rgb in _spoil((bgr[..., ::-1] for bgr in drawn), take.flaw):
            video.write(np.ascontiguousarray(rgb))


def _drop_hands(performance: Performance) -> Performance:
    """Sign far below, where the camera hardly ever sees the hands."""
    low = [
        replace(hand, centre=hand.centre + _HANGING_CM)
        for hand in (performance.dominant, performance.other)
    ]
    return replace(performance, dominant=low[0], other=low[1])


def _spoil(frames: Iterator[npt.NDArray[np.uint8]], flaw: Flaw) -> Iterator[npt.NDArray[np.uint8]]:
    """Treat RGB frames as a wrong setting of the camera would."""
    for rgb in frames:
        if flaw == "swapped":
            yield rgb[..., ::-1]
        elif flaw == "mirrored":
            yield rgb[:, ::-1]
        else:
            yield rgb


def write_texts(folder: Path, takes: Sequence[Take], form: str) -> None:
    """Write what is said in the videos of a delivery, the way its sender does."""
    if form == "sidecars":
        for take in takes:
            take.path.with_suffix(".txt").write_text(take.sentence.text + "\n", encoding="utf-8")
        return
    with (folder / "table.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(["video", "text", "signer", "gloss"])
        for take in takes:
            glosses = " ".join(take.sentence.glosses)
            video = take.path.relative_to(folder).as_posix()
            table.writerow([video, take.sentence.text, take.signer, glosses])


def as_clips(takes: Sequence[Take], split: str) -> list[Clip]:
    """Return takes as rows of a manifest."""
    return [
        Clip(
            clip_id=take.path.stem,
            video=take.path,
            text=take.sentence.text,
            signer=take.signer,
            split=split,
            gloss=" ".join(take.sentence.glosses),
        )
        for take in takes
    ]
