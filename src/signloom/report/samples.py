"""Sample translations of the page: words marked, skeletons, and where the model looked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.metrics import ScoreOptions, align_words, pick_clips
from signloom.report.attention import AttentionMap, AttentionPart, build_picker
from signloom.report.skeletons import Player, build_player
from signloom.report.stage_files import Row


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a sentence and what is wrong with it."""

    text: str
    kind: Literal["equal", "wrong", "extra", "missing"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One clip of the evaluation with its words marked."""

    row: Row
    group: str
    reference: list[Word]
    hypothesis: list[Word]


def pick_samples(hypotheses: Sequence[Row], count: int, options: ScoreOptions) -> list[Sample]:
    """Choose the best, median and worst translations, `count` of each, and mark their words."""
    return [
        mark_words(row, options, group) for group, row in pick_clips(hypotheses, count, options)
    ]


def mark_words(row: Row, options: ScoreOptions, group: str = "") -> Sample:
    """Mark the words in which hypothesis and reference differ."""
    reference: list[Word] = []
    hypothesis: list[Word] = []
    for edit in align_words(row["hypothesis"], row["reference"], options):
        is_equal = edit.kind == "equal"
        reference += [Word(word, "equal" if is_equal else "missing") for word in edit.reference]
        wrong: Literal["extra", "wrong"] = "extra" if edit.kind == "insert" else "wrong"
        hypothesis += [Word(word, "equal" if is_equal else wrong) for word in edit.hypothesis]
    return Sample(row, group, reference, hypothesis)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleView:
    """What the page shows of a sample."""

    sample: Sample
    player: Player | None = None  # None for a model of glosses: the sample's row has them
    picker: Sequence[AttentionPart] = ()  # of a clip whose every head was kept


def show_sample(
    sample: Sample, number: int, sequence: LandmarkSequence | None, alignment: AttentionMap | None
) -> SampleView:
    """Draw a sample.

    Args:
        number: Of the samples on the page, from 1.
        sequence: The clip's landmarks; None for a model of glosses.
        alignment: Where the model looked; None if its decoder has no attention.
    """
    clip_id = sample.row["clip_id"]
    player, picker = None, list[AttentionPart]()
    if sequence is not None:
        player = build_player(
            sequence, name=f"player{number}", label=f"Moving skeleton of {clip_id}"
        )
    if alignment is not None:
        picker = build_picker(alignment, name=f"attention{number}", clip_id=clip_id)
    return SampleView(sample=sample, player=player, picker=picker)
