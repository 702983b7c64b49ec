"""New clips of a corpus, the old ones they are compared with, and what was measured of both."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from scipy.stats import ks_2samp

from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality
from signloom.features.tokenizer import load_source, normalise_text
from signloom.grouping import group_pairs
from signloom_ops.intake.drift.movement import Movement

MIN_CLIPS = 5  # fewest clips, of a signer or a batch, whose distributions are judged
ALPHA = 0.01  # p-value below which two distributions differ


@dataclass(frozen=True, kw_only=True, slots=True)
class SignerGroup:
    """Some new clips, and the old ones that they should be like."""

    signer: str | None
    """The signer of the new ones; None: the group is the whole batch."""
    new: tuple[str, ...]
    old: tuple[str, ...]
    """Clips of the same signer, if the signer is known; else of all signers."""
    is_known: bool
    """Whether the old ones are the same signer's."""

    def describe(self, values: str) -> str:
        """Return a phrase about values of the group, which names no person."""
        label = "all new clips" if self.signer is None else "one signer"
        return f"{label}: {values}{' of the same signer' if self.is_known else ''}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A batch, and the corpus before it."""

    new: Sequence[Clip]
    old: Sequence[Clip]
    quality: Mapping[str, ClipQuality]  # of the clips that have landmarks
    movements: Mapping[str, Movement]  # of all new clips with landmarks, and of some old ones

    @cached_property
    def new_rows(self) -> list[ClipQuality]:
        """Quality of the new clips that have landmarks."""
        return [self.quality[clip.clip_id] for clip in self.new if clip.clip_id in self.quality]

    @cached_property
    def old_rows(self) -> list[ClipQuality]:
        """Quality of the old clips that have landmarks."""
        return [self.quality[clip.clip_id] for clip in self.old if clip.clip_id in self.quality]

    @cached_property
    def signers(self) -> dict[str, str]:
        """Who signs each clip."""
        return {clip.clip_id: clip.signer for clip in (*self.old, *self.new)}

    @cached_property
    def tokens(self) -> dict[str, list[int]]:
        """The text of each clip in tokens of the whole vocabulary."""
        source = load_source()
        return {
            clip.clip_id: source.encode(normalise_text(clip.text))
            for clip in (*self.old, *self.new)
        }

    @cached_property
    def groups(self) -> list[SignerGroup]:
        """Each signer of the batch, and the batch as a whole if it has several.

        One bad signer hides among good ones, and a bad batch in signers of too few clips.
        """
        before, now = (_by_signer(part, self.movements) for part in (self.old, self.new))
        everyone = tuple(name for names in before.values() for name in names)
        groups = []
        if len(now) > 1:
            batch = tuple(name for names in now.values() for name in names)
            groups.append(SignerGroup(signer=None, new=batch, old=everyone, is_known=False))
        for signer, names in sorted(now.items()):
            signer_clips = before.get(signer, ())
            is_known = len(signer_clips) >= MIN_CLIPS
            old = signer_clips if is_known else everyone
            groups.append(SignerGroup(signer=signer, new=names, old=old, is_known=is_known))
        return [group for group in groups if min(len(group.new), len(group.old)) >= MIN_CLIPS]


def _by_signer(clips: Sequence[Clip], measured: Collection[str]) -> dict[str, tuple[str, ...]]:
    clip_ids = group_pairs(
        (clip.signer, clip.clip_id) for clip in clips if clip.clip_id in measured
    )
    return {signer: tuple(names) for signer, names in clip_ids.items()}


def compare(now: Sequence[float], before: Sequence[float]) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov distance of two samples, and its p-value."""
    test = ks_2samp(now, before)
    return float(test.statistic), float(test.pvalue)
