"""The translations come in; those worth showing go out, the words that are wrong marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from signloom.metrics import ScoreOptions, align_words, split_words
from signloom.report.sources import Row

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


def pick_samples(
    hypotheses: Sequence[Row], split: str, count: int, options: ScoreOptions
) -> list[Sample]:
    """Choose the best, median and worst translations of a split, each sentence once.

    All by word error rate; of the best, the longest sentences. The options say what a word is.
    """

    def length(row: Row) -> int:
        return len(split_words([row["reference"]], options)[0])

    rows = sorted(
        (row for row in hypotheses if row["split"] == split),
        key=lambda row: (float(row["wer"]), -float(row["bleu"]), row["clip_id"]),
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
