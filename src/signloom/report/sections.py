"""Tables, samples and last night of the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Literal

from signloom.corpus.manifest import SPLITS
from signloom.evaluation.metrics import ScoreOptions, align_words, split_words
from signloom.features.targets import Target
from signloom.report.quality import share_of
from signloom.report.stage_files import Row, Sources
from signloom.report.verdict import count

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


OUTCOMES = {
    "promoted": "a new champion", "refused": "the challenger was refused",
    "nothing_new": "nothing was new", "data_refused": "the new data were refused",
    "error": "an error",
}  # fmt: skip
LEVELS = ("stop", "warn", "ok")  # the worst first
METRICS = {"chrf": "chrF", "bleu4": "BLEU-4", "wer": "WER, %"}
MAX_NAMED = 5  # clips named beside a finding

Values = Mapping[str, Any]


def tell_night(content: Values) -> dict[str, Any] | None:
    """Prepare reports/retrain.json for the page; None before the first night.

    Args:
        content: `night`, and `drift` and `decision`, each of which may be None.
    """
    if not content:
        return None
    night = content["night"]
    drift, decision = content["drift"], content["decision"]
    return {
        "outcome": OUTCOMES.get(night["outcome"], night["outcome"]),
        "verdict": night["verdict"],
        "batches": night["batches"],
        "drift": tell_drift(drift) if drift else None,
        "decision": tell_decision(decision) if decision else None,
    }


def tell_drift(drift: Values) -> dict[str, Any]:
    """Sort the findings, the worst first, and say in a sentence how many there are."""
    findings = sorted(drift["findings"], key=lambda found: LEVELS.index(found["level"]))
    counts = {level: sum(found["level"] == level for found in findings) for level in LEVELS}
    said = [
        f"{counts[level]} {verb}"
        for level, verb in (("stop", "stopped the night"), ("warn", "warned"), ("ok", "are fine"))
        if counts[level]
    ]
    clips = f"{count(drift['new'], 'new clip')} of batch {drift['batch']}"
    return {
        "note": f"{clips} against {drift['old']} old ones: of {len(findings)} checks "
        f"{', '.join(said)}.",
        "rows": [_finding_row(found) for found in findings],
        "fine": counts["ok"],
    }


def tell_decision(decision: Values) -> dict[str, Any]:
    """Put rules, scores and slices of the gate into tables."""
    rival, level = decision["champion"], decision["level"]
    clips = count(decision["clips"], "test clip")
    both = f"The same {clips} for both, paired bootstrap at {level:g}."
    return {
        "verdict": decision["verdict"],
        "champion": "none" if rival is None else f"version {rival}",
        "challenger": f"version {decision['version']}",
        "note": f"{clips}." if rival is None else both,
        "interval": f"{100 * (1 - level):g} % interval",
        "rules": decision["rules"],
        "scores": [
            {"name": METRICS.get(name, name), **_difference(row)}
            for name, row in decision["scores"].items()
        ],
        "slices": [
            {
                "name": f"{row['kind']} {row['group']}",
                "clips": row["clips"],
                "result": row["result"],
                **_difference(row),
            }
            for row in decision["slices"]
        ],
        "notes": decision.get("notes", []),
    }


def _finding_row(found: Values) -> dict[str, Any]:
    clips: Sequence[str] = found["clips"]
    return {
        **found,
        "value": _number(found["statistic"]),
        "limits": " / ".join(_number(found[name]) for name in ("warn", "stop")),
        "named": list(clips[:MAX_NAMED]),
        "more": len(clips) > MAX_NAMED,
    }


def _difference(row: Values) -> dict[str, str]:
    """Scores of both and their difference as text; dashes where there is nothing to compare."""
    found = {"difference": "–", "interval": "–"}
    if row.get("difference") is not None:
        found["difference"] = f"{row['difference']:+.2f}"
        found["interval"] = f"{row['low']:+.2f} to {row['high']:+.2f}"
    return {"before": _score(row.get("champion")), "now": _score(row.get("challenger")), **found}


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
