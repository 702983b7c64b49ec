"""Sample translations of the page: words marked, skeletons, and where the model looked."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.metrics import ScoreOptions, align_words, split_words
from signloom.report.attention import Alignment, draw_alignment
from signloom.report.canvas import inline_svg
from signloom.report.skeletons import (
    Picture,
    Player,
    build_player,
    draw_pictures,
    inline_pictures,
    join_pictures,
)
from signloom.report.stage_files import Row

GROUPS = ("best", "median", "worst")


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
    """Choose the best, median and worst translations, `count` of each, each sentence once.

    All by word error rate; of the best, the longest sentences. The options say what a word is.
    """

    def length(row: Row) -> int:
        return len(split_words([row["reference"]], options)[0])

    rows = sorted(
        hypotheses, key=lambda row: (float(row["wer"]), -float(row["bleu"]), row["clip_id"])
    )
    middle = float(rows[len(rows) // 2]["wer"])
    orders = {
        "worst": sorted(
            (row for row in rows if float(row["wer"]) > 0),
            key=lambda row: (-float(row["wer"]), float(row["bleu"])),
        ),
        "median": sorted(rows, key=lambda row: abs(float(row["wer"]) - middle)),
        "best": sorted(rows, key=lambda row: (float(row["wer"]), -length(row))),
    }
    taken: set[str] = set()
    samples = []
    for group, ordered in orders.items():
        fresh = (row for row in ordered if row["reference"] not in taken)
        for _ in range(count):
            row = next(fresh, None)
            if row is not None:
                taken.add(row["reference"])
                samples.append(mark_words(row, options, group))
    return [sample for group in GROUPS for sample in samples
            if sample.group == group]  # fmt: skip


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
    attention: str = ""  # SVG; empty for a model without attention
    pictures: list[Picture] = field(default_factory=list)  # only where there is no attention
    figures: dict[str, str] = field(default_factory=dict)  # SVG files by name, to be written


def show_sample(
    sample: Sample,
    number: int,
    sequence: LandmarkSequence | None,
    alignment: Alignment | None,
    pictures: int,
) -> SampleView:
    """Draw a sample.

    Args:
        sample: The clip and its words.
        number: Of the samples on the page, from 1.
        sequence: The clip's landmarks; None for a model of glosses.
        alignment: Where the model looked; None if its decoder has no attention.
        pictures: Frames to draw.
    """
    if sequence is None:
        return SampleView(sample=sample)
    clip_id, name = sample.row["clip_id"], f"{number:02}-{sample.group}"
    drawn = draw_pictures(sequence, pictures)
    figures, attention = {f"sample-{name}": join_pictures(drawn)}, ""
    if alignment:
        svg = figures[f"attention-{name}"] = draw_alignment(alignment, sequence, pictures)
        attention = inline_svg(
            svg,
            f"attention{number}",
            f"Attention of each token of the translation of {html.escape(clip_id)} over the "
            "clip's time, skeletons below",
        )
    return SampleView(
        sample=sample,
        player=build_player(
            sequence, name=f"player{number}", label=f"Moving skeleton of {clip_id}"
        ),
        attention=attention,
        pictures=[] if attention else inline_pictures(drawn, f"sample{number}", clip_id),
        figures=figures,
    )
