"""Stress: what changes of real life cost a model, and whether it then warns.

Films of people begin late, pause, run faster or slower, lose hands and lean to one side. Every
change here keeps the sentence and moves the landmarks alone; docs/evaluation.md lists them.
Confidence is calibrated on these translations of dev, see `signloom.evaluation.calibrate`.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from signloom.corpus.landmarks import FEATURES, LandmarkSequence
from signloom.evaluation.metric_names import Metric
from signloom.evaluation.metrics import (
    Score,
    are_right,
    count_bleu,
    count_exact,
    count_wer,
    measure,
    score_statistics,
)
from signloom.evaluation.systems import Setup
from signloom.features.augment import mirror
from signloom.features.features import HANDS, FloatArray, resample, stretch
from signloom.features.targets import Target
from signloom.progress import progress_file
from signloom.translation.confidence import Confidence
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Translator

ClipChange = Callable[[LandmarkSequence, np.random.Generator], LandmarkSequence]
NONE = "none"
RUN_S = 0.2  # for which a detector loses a hand at a time


def hold(before_s: float = 0.0, after_s: float = 0.0, within_s: float = 0.0) -> ClipChange:
    """Hold the first, the last or the middle frame for some seconds."""

    def change(clip: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        frames = np.arange(len(clip.points))
        middle = len(frames) // 2
        times = np.ones(len(frames), int)
        for frame, seconds in ((0, before_s), (middle, within_s), (-1, after_s)):
            times[frame] += round(seconds * clip.fps)
        return _take(clip, np.repeat(frames, times))

    return change


def cut(before_s: float = 0.0, after_s: float = 0.0) -> ClipChange:
    """Cut seconds off the beginning and the end, at most half of the clip."""

    def change(clip: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        most = len(clip.points) // 4
        before, after = (min(round(s * clip.fps), most) for s in (before_s, after_s))
        return _take(clip, np.arange(before, len(clip.points) - after))

    return change


def faster(times: float) -> ClipChange:
    """Let a clip run `times` as fast; below 1: slower."""
    return lambda clip, _: stretch(clip, max(1, round(len(clip.points) / times)))


def lose_hands(share: float) -> ClipChange:
    """Lose each hand in a share of the frames, in runs."""

    def change(clip: LandmarkSequence, generator: np.random.Generator) -> LandmarkSequence:
        points, present = clip.points.copy(), clip.present.copy()
        run = max(1, round(RUN_S * clip.fps))
        for hand in (name for name in HANDS if name in clip.layout.group_names):
            lost = np.zeros(len(points), bool)
            while lost.mean() < share:
                first = int(generator.integers(len(points)))
                lost[first : first + run] = True
            points[lost, clip.layout.slice(hand)] = np.nan
            present[lost, clip.layout.group(hand)] = False
        return replace(clip, points=points, present=present)

    return change


def lose_body(share: float) -> ClipChange:
    """Lose the body in one run of a share of the frames."""

    def change(clip: LandmarkSequence, generator: np.random.Generator) -> LandmarkSequence:
        if "pose" not in clip.layout.group_names:
            return clip
        points, present = clip.points.copy(), clip.present.copy()
        run = round(share * len(points))
        first = int(generator.integers(len(points) - run + 1))
        points[first : first + run, clip.layout.slice("pose")] = np.nan
        present[first : first + run, clip.layout.group("pose")] = False
        return replace(clip, points=points, present=present)

    return change


def move(
    *, zoom: float = 1.0, wide: float = 1.0, right: float = 0.0, turn_deg: float = 0.0
) -> ClipChange:
    """Zoom about the picture's middle, widen, shift by picture widths and turn."""
    sine, cosine = np.sin(np.radians(turn_deg)), np.cos(np.radians(turn_deg))

    def change(clip: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        aspect, points = clip.width / clip.height, clip.points.copy()
        x, y = (points[..., 0] - 0.5) * aspect * zoom * wide, (points[..., 1] - 0.5) * zoom
        points[..., 0] = (cosine * x - sine * y) / aspect + 0.5 + right
        points[..., 1] = sine * x + cosine * y + 0.5
        points[..., 2] *= zoom
        return replace(clip, points=points)

    return change


def grow_hands(times: float) -> ClipChange:
    """Make each hand `times` as large about its wrist, as another person's are."""

    def change(clip: LandmarkSequence, _: np.random.Generator) -> LandmarkSequence:
        points = clip.points.copy()
        for hand in (name for name in HANDS if name in clip.layout.group_names):
            marks = points[:, clip.layout.slice(hand)]
            marks[...] = marks[:, :1] + times * (marks - marks[:, :1])
        return replace(clip, points=points)

    return change


def shake(deviation: float) -> ClipChange:
    """Add jitter to every coordinate, in picture heights."""

    def change(clip: LandmarkSequence, generator: np.random.Generator) -> LandmarkSequence:
        noise = generator.normal(0, deviation, clip.points.shape).astype(np.float32)
        noise[..., ::2] *= np.float32(clip.height / clip.width)
        return replace(clip, points=clip.points + noise)

    return change


def _take(clip: LandmarkSequence, frames: npt.NDArray[np.int64]) -> LandmarkSequence:
    return replace(clip, points=clip.points[frames], present=clip.present[frames])


# What lies in time alone can happen to features of another network, too.
OF_TIME: dict[str, ClipChange] = {
    NONE: hold(),
    "0.5 s still before": hold(0.5),
    "1 s still before": hold(1),
    "2 s still before": hold(2),
    "2 s still after": hold(0, 2),
    "1 s still before and after": hold(1, 1),
    "pause of 0.5 s": hold(within_s=0.5),
    "pause of 1 s": hold(within_s=1),
    "0.2 s cut off the beginning": cut(0.2),
    "0.2 s cut off the end": cut(0, 0.2),
    "1.33 times faster": faster(1.33),
    "1.33 times slower": faster(1 / 1.33),
    "1.6 times slower": faster(1 / 1.6),
    "10 frames a second": lambda clip, _: resample(clip, min(10.0, clip.fps)),
}
CHANGES: dict[str, ClipChange] = OF_TIME | {
    "zoom 0.75": move(zoom=0.75),
    "zoom 1.3": move(zoom=1.3),
    "shifted by 15 hundredths": move(right=0.15),
    "turned by 8 degrees": move(turn_deg=8),
    "narrower by a tenth": move(wide=0.9),
    "hands larger by a fifth": grow_hands(1.2),
    "jitter of 0.005": shake(0.005),
    "sides exchanged": lambda clip, _: mirror(clip),
    "hands lost in 1 of 10 frames": lose_hands(0.1),
    "hands lost in 3 of 10 frames": lose_hands(0.3),
    "body lost in 3 of 10 frames": lose_body(0.3),
}


def change_some(clips: Sequence[LandmarkSequence]) -> Iterator[LandmarkSequence]:
    """Yield each clip as it is and under two of the changes, in turn."""
    names = [name for name in CHANGES if name != NONE]
    for number, clip in enumerate(clips):
        generator = np.random.default_rng(number)
        yield clip
        if FEATURES not in clip.layout.group_names:
            for turn in (number, 7 * number + 3):
                yield CHANGES[names[turn % len(names)]](clip, generator)


def change_names(clips: Sequence[LandmarkSequence]) -> list[str]:
    """Return the changes that the landmarks of all these clips allow, `NONE` first."""
    has_points = all(FEATURES not in clip.layout.group_names for clip in clips)
    return list(CHANGES if has_points else OF_TIME)


def change_clips(
    name: str, clip_ids: Sequence[str], clips: Sequence[LandmarkSequence], seed: int
) -> list[LandmarkSequence]:
    """Return clips under a change; what is drawn follows from the seed and the clip's id."""
    return [
        CHANGES[name](clip, np.random.default_rng([seed, zlib.crc32(clip_id.encode())]))
        for clip_id, clip in zip(clip_ids, clips, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ChangedClips:
    """Clips of one split under one change, and what the model wrote of them."""

    split: str
    change: str
    clip_ids: list[str]
    originals: list[LandmarkSequence]
    """The clips without the change; of thousands under each change memory is short."""
    seed: int  # of the change
    hypotheses: list[Hypothesis]
    encodings: FloatArray  # mean states of the encoder, shape (N, D)
    right: list[bool]  # whether every word is right, of each clip
    score: Score  # the headline metric with its interval; `wer` and `exact` without
    wer: float
    exact: float

    @property
    def clips(self) -> list[LandmarkSequence]:
        """The clips under the change, made anew."""
        return change_clips(self.change, self.clip_ids, self.originals, self.seed)


def try_changes(setup: Setup, targets: Sequence[Target], *, most: int) -> list[ChangedClips]:
    """Translate clips of one split under every change that their landmarks allow.

    Args:
        setup: The model, the landmarks and the search; the seed of the changes is that of scoring.
            A model of glosses has nothing to change.
        most: Of more, every n-th is taken. 0: nothing is tried.
    """
    if not most or not setup.translator.source.has_frames:
        return []
    chosen = targets[:: -(-len(targets) // most)]
    clips = [clip for clip in setup.sequences_of(chosen) if isinstance(clip, LandmarkSequence)]
    names = tqdm(
        change_names(clips),
        desc=f"changes of real life, {chosen[0].split}",
        unit="change",
        file=progress_file(),
    )
    return [_try_change(setup, chosen, clips, name) for name in names]


def _try_change(
    setup: Setup, targets: Sequence[Target], originals: list[LandmarkSequence], name: str
) -> ChangedClips:
    """Translate clips of one split under a change, and score them."""
    ids, seed = [target.clip_id for target in targets], setup.score.seed
    changed = change_clips(name, ids, originals, seed)
    translations = setup.translator.translate(changed, setup.decoding)
    texts = [translation.text for translation in translations]
    refs = [target.text for target in targets]
    statistics = measure(texts, refs, setup.score, (count_bleu, count_wer, count_exact))
    scores = score_statistics(statistics, setup.score)
    return ChangedClips(
        split=targets[0].split,
        change=name,
        clip_ids=ids,
        originals=originals,
        seed=seed,
        hypotheses=[translation.hypothesis for translation in translations],
        encodings=setup.translator.encode_clips(changed),
        right=are_right(statistics),
        score=scores[setup.metric],
        wer=scores[Metric.WER].value,
        exact=scores[Metric.EXACT].value,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StressRow:
    """One split under one change. Shares are in percent."""

    split: str
    change: str
    clips: int
    score: float
    score_low: float
    score_high: float
    exact: float
    wer: float
    said: float  # share of the clips whose translation has no warning
    wrong: float  # share of these that is not right in every word; 0 where there are none


def has_no_warning(
    changed_clips: ChangedClips, translator: Translator, confidence: Confidence | None
) -> list[bool]:
    """Return of each clip whether its translation is shown without a warning."""
    if confidence is None:
        return [True] * len(changed_clips.clip_ids)
    return [
        not confidence.check(hypothesis, translator.trim(clip), encoding).word
        for hypothesis, clip, encoding in zip(
            changed_clips.hypotheses, changed_clips.clips, changed_clips.encodings, strict=True
        )
    ]


def stress_row(changed_clips: ChangedClips, shown: Sequence[bool]) -> StressRow:
    """Count the translations without a warning, and those of them that are wrong."""
    right = [
        is_right for is_right, is_shown in zip(changed_clips.right, shown, strict=True) if is_shown
    ]
    return StressRow(
        split=changed_clips.split,
        change=changed_clips.change,
        clips=len(changed_clips.clip_ids),
        score=changed_clips.score.value,
        score_low=changed_clips.score.low,
        score_high=changed_clips.score.high,
        exact=changed_clips.exact,
        wer=changed_clips.wer,
        said=100 * len(right) / len(shown),
        wrong=100 * right.count(False) / max(len(right), 1),
    )
