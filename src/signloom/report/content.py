"""What the stages found comes in; the tables of the report go out."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

from signloom.corpus.targets import Target
from signloom.metrics import ScoreOptions, split_words
from signloom.report.quality import share_of
from signloom.report.sources import Row, Sources
from signloom.report.verdict import count

SPLITS = ("train", "dev", "test")
MAX_CONFUSIONS = 20


def corpus_table(sources: Sources) -> list[dict[str, Any]]:
    """One row a split: clips, signers, time, words, and how much of it train knows."""
    seconds = {row.clip_id: row.seconds for row in sources.quality}
    train = [target for target in sources.targets if target.split == "train"]
    train_texts = {target.text for target in train}
    train_words = {word for words in _split(train, sources.scoring) for word in words}
    rows = []
    for split in SPLITS:
        targets = [target for target in sources.targets if target.split == split]
        if not targets:
            continue
        words = [word for words in _split(targets, sources.scoring) for word in words]
        rows.append(
            {
                "split": split,
                "clips": len(targets),
                "signers": len({target.signer for target in targets}),
                "minutes": sum(seconds.get(target.clip_id, 0.0) for target in targets) / 60,
                "words": len(words),
                "distinct_words": len(set(words)),
                "words_per_sentence": len(words) / len(targets),
                "distinct_sentences": len({target.text for target in targets}),
                "seen": mean(target.text in train_texts for target in targets),
                "new_words": mean(word not in train_words for word in words),
            }
        )
    return rows


def words_per_sentence(targets: Sequence[Target], options: ScoreOptions) -> dict[str, list[int]]:
    """Split to the number of words of each of its sentences."""
    lengths: dict[str, list[int]] = {split: [] for split in SPLITS}
    for target, words in zip(targets, _split(targets, options), strict=True):
        lengths[target.split].append(len(words))
    return {split: counts for split, counts in lengths.items() if counts}


def _split(targets: Sequence[Target], options: ScoreOptions) -> list[list[str]]:
    return split_words([target.text for target in targets], options, keep_case=True)


def list_confusions(rows: Iterable[Row], split: str) -> list[Row]:
    """Return the words that the model most often gets wrong on a split, the most frequent first.

    Words that are only once wrong say nothing, unless all are.
    """
    found = [row for row in rows if row["split"] == split]
    often = [row for row in found if int(row["count"]) > 1]
    return (often or found)[:MAX_CONFUSIONS]


def tabulate_grid(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the grid of searches as a table: beams down, length penalties across.

    Returns:
        `penalties`, and `rows` of `beam_size` and `cells`, each a row of the grid with its `share`
        of the way from the worst BLEU-4 to the best; no rows for an empty grid.
    """
    values = [float(row["bleu4"]) for row in rows]
    span = (max(values) - min(values) or 1.0) if values else 1.0
    cells = {
        (row["beam_size"], row["length_penalty"]): {
            **row, "share": (float(row["bleu4"]) - min(values)) / span
        }
        for row in rows
    }  # fmt: skip
    penalties = sorted({penalty for _, penalty in cells})
    return {
        "penalties": penalties,
        "rows": [
            {"beam_size": beam, "cells": [cells.get((beam, penalty)) for penalty in penalties]}
            for beam in sorted({beam for beam, _ in cells})
        ],
    }


def run_details(sources: Sources) -> dict[str, dict[str, str]]:
    """Title to key and value: everything that made the numbers."""
    checkpoint = sources.checkpoint
    provenance = checkpoint.get("provenance", {})
    idle = ("Features", "Augmentation", "Landmark extraction") if sources.reads_glosses else ()
    sections = {
        "Model": checkpoint["model"],
        "Features": checkpoint["features"],
        "Training": provenance.get("params", {}).get("train", {}),
        "Augmentation": provenance.get("params", {}).get("augment", {}),
        "Search of translations": {"precision": sources.options["precision"], **sources.decoding},
        "Scoring": sources.options["score"],
        "Landmark extraction": checkpoint.get("extractor", {}),
        "Data hashes (SHA-256)": provenance.get("data", {}),
        "Environment": {
            **provenance.get("libraries", {}),
            **{key: value for key, value in provenance.items() if key == "threads"},
        },
    }
    return {
        title: {key: str(value) for key, value in _flat(values)}
        for title, values in sections.items()
        if values and title not in idle
    }


def _flat(values: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def quality_note(sources: Sources) -> str:
    """Say how well the landmarks were found, over all frames; nothing of a text corpus."""
    if not sources.quality:
        return ""
    labels = {
        "any_hand": "a hand", "left_hand": "the left hand", "right_hand": "the right one",
        "pose": "the upper body", "lips": "the lips", "face_outline": "the outline of the face",
    }  # fmt: skip
    frames = sum(row.frames for row in sources.quality)
    found = {name: share_of(sources.quality, name) for name in labels}
    shares = [
        f"{labels[name]} in {100 * share:.1f} %"
        for name, share in found.items()
        if share is not None
    ]
    clips = count(len(sources.quality), "clip")
    note = f"In {frames:,} frames of {clips} the detector found {', '.join(shares)}."
    gaps = [row for row in sources.quality if row.any_hand_gap_s]
    if gaps:
        worst = max(gaps, key=lambda row: row.any_hand_gap_s or 0.0)
        note += f" The longest time without a hand is {worst.any_hand_gap_s:.1f} s, in "
        note += f"{worst.clip_id}."
    return note
