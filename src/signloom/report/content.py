"""What the stages found comes in; the sentences, tables and samples of the report go out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Literal

from signloom.corpus.targets import Target
from signloom.metrics import align_words
from signloom.report.quality import share_of
from signloom.report.sources import Row, Sources

SPLITS = ("train", "dev", "test")
SYSTEM_NAMES = {
    "model": "model",
    "greedy": "model, greedy search",
    "retrieval": "nearest training clip",
    "blind": "model, landmarks zeroed",
    "constant": "best constant sentence",
    "random": "random training sentence",
}
FLOORS = ("retrieval", "blind", "constant", "random")
BLIND_MARGIN = 5.0  # BLEU-4 by which a blind model may beat the constant sentence
MAX_LISTED = 1000  # hypotheses in the page's full table; hypotheses.tsv always has all


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


def headline_split(splits: dict[str, Any]) -> str:
    """The split that the page is about: test if there is one."""
    return "test" if "test" in splits else next(iter(splits))


def verdict(sources: Sources) -> list[str]:
    """Say in sentences what the scores are worth."""
    split = headline_split(sources.splits)
    found = sources.splits[split]
    systems = found["systems"]
    bleu, wer = systems["model"]["bleu4"], systems["model"]["wer"]
    train = {target.signer for target in sources.targets if target.split == "train"}
    signers = {target.signer for target in sources.targets if target.split == split}
    unseen = "none of whom is in train" if not signers & train else "some of whom are in train"
    sentences = [
        f"On {found['clips']} {split} clips of {_count(len(signers), 'signer')}, {unseen}, BLEU-4 "
        f"is {_interval(bleu)} and the word error rate {_interval(wer)} %."
    ]
    strongest = max(FLOORS, key=lambda name: float(systems[name]["bleu4"]["value"]))
    floor = systems[strongest]["bleu4"]
    name = SYSTEM_NAMES[strongest]
    margin = bleu["value"] - floor["value"]
    if bleu["low"] > floor["value"]:
        sentences.append(
            f"That is {margin:.1f} BLEU-4 above the strongest floor ({name}, {_interval(floor)}): "
            "the model's whole interval lies above it."
        )
    else:
        sentences.append(
            f"This is not clearly better than the strongest floor ({name}, {_interval(floor)}): "
            "the model's interval reaches down to it."
        )
    sentences.append(_blind_verdict(systems))
    if found["missing"]:
        clips = _count(len(found["missing"]), "clip")
        sentences.append(f"Not scored, because without landmarks: {clips}.")
    return sentences


def _blind_verdict(systems: dict[str, Any]) -> str:
    blind, constant = systems["blind"]["bleu4"]["value"], systems["constant"]["bleu4"]["value"]
    compared = f"With its landmarks zeroed the model gets {blind:.1f}; the best constant sentence "
    compared += f"gets {constant:.1f}"
    if blind > constant + BLIND_MARGIN:
        return compared + ": part of its score is guessed without looking."
    if systems["model"]["bleu4"]["low"] > max(blind, constant):
        return compared + ": its score comes from looking, not from guessing."
    return compared + "."


def corpus_table(sources: Sources) -> list[dict[str, Any]]:
    """One row a split: clips, signers, time, words, and how much of it train knows."""
    seconds = {row.clip_id: row.seconds for row in sources.quality}
    train = [target for target in sources.targets if target.split == "train"]
    train_texts = {target.text for target in train}
    train_words = {word for target in train for word in target.text.split()}
    rows = []
    for split in SPLITS:
        targets = [target for target in sources.targets if target.split == split]
        if not targets:
            continue
        words = [word for target in targets for word in target.text.split()]
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


def words_per_sentence(targets: Iterable[Target]) -> dict[str, list[int]]:
    """Split to the number of words of each of its sentences."""
    lengths: dict[str, list[int]] = {split: [] for split in SPLITS}
    for target in targets:
        lengths[target.split].append(len(target.text.split()))
    return {split: counts for split, counts in lengths.items() if counts}


def pick_samples(hypotheses: Sequence[Row], split: str, count: int) -> list[Sample]:
    """Choose the best, typical and worst translations of a split, each sentence once.

    Best: the longest of the lowest word error rate. Typical: around the median. Worst: the highest.
    """
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
        "typical": sorted(rows, key=lambda row: abs(float(row["wer"]) - middle)),
        "best": sorted(rows, key=lambda row: (float(row["wer"]), -len(row["reference"].split()))),
    }
    taken: set[str] = set()
    samples = []
    for group, ordered in orders.items():
        fresh = (row for row in ordered if row["reference"] not in taken)
        for _ in range(count):
            row = next(fresh, None)
            if row is not None:
                taken.add(row["reference"])
                samples.append(mark_words(row, group))
    return [sample for group in ("best", "typical", "worst") for sample in samples
            if sample.group == group]  # fmt: skip


def mark_words(row: Row, group: str = "") -> Sample:
    """Mark the words in which hypothesis and reference differ."""
    reference: list[Word] = []
    hypothesis: list[Word] = []
    for edit in align_words(row["hypothesis"], row["reference"]):
        is_equal = edit.kind == "equal"
        reference += [Word(word, "equal" if is_equal else "missing") for word in edit.reference]
        wrong: Literal["extra", "wrong"] = "extra" if edit.kind == "insert" else "wrong"
        hypothesis += [Word(word, "equal" if is_equal else wrong) for word in edit.hypothesis]
    return Sample(row, group, reference, hypothesis)


def run_details(sources: Sources) -> dict[str, dict[str, str]]:
    """Title to key and value: everything that made the numbers."""
    checkpoint = sources.checkpoint
    provenance = checkpoint.get("provenance", {})
    sections = {
        "Model": checkpoint["model"],
        "Features": checkpoint["features"],
        "Training": provenance.get("params", {}).get("train", {}),
        "Augmentation": provenance.get("params", {}).get("augment", {}),
        "Search of translations": sources.options["decoding"],
        "Scoring": sources.options["score"],
        "Landmark extraction": checkpoint.get("extractor", {}),
        "Data hashes (SHA-256)": provenance.get("data", {}),
        "Library versions": provenance.get("libraries", {}),
    }
    return {
        title: {key: str(value) for key, value in _flat(values)}
        for title, values in sections.items()
        if values
    }


def _flat(values: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + str(key), value


def _interval(score: dict[str, Any]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def tiles(sources: Sources) -> list[dict[str, str]]:
    """The few numbers at the top of the page."""
    split = headline_split(sources.splits)
    systems = sources.splits[split]["systems"]
    names = {"bleu4": f"{split} BLEU-4", "wer": f"{split} WER, %", "chrf": f"{split} chrF"}
    shown = [
        {
            "name": name,
            "value": f"{systems['model'][metric]['value']:.1f}",
            "note": f"95 %: {systems['model'][metric]['low']:.1f} to "
            f"{systems['model'][metric]['high']:.1f}",
        }
        for metric, name in names.items()
    ]
    strongest = max(FLOORS, key=lambda name: float(systems[name]["bleu4"]["value"]))
    for name, system in (("strongest floor", strongest), ("blind control", "blind")):
        score = systems[system]["bleu4"]
        note = SYSTEM_NAMES[system]
        shown.append({"name": f"{name}, BLEU-4", "value": f"{score['value']:.1f}", "note": note})
    return shown


def quality_note(sources: Sources) -> str:
    """Say how well the landmarks were found, over all frames."""
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
    clips = _count(len(sources.quality), "clip")
    note = f"In {frames:,} frames of {clips} the detector found {', '.join(shares)}."
    gaps = [row for row in sources.quality if row.any_hand_gap_s]
    if gaps:
        worst = max(gaps, key=lambda row: row.any_hand_gap_s or 0.0)
        note += f" The longest time without a hand is {worst.any_hand_gap_s:.1f} s, in "
        note += f"{worst.clip_id}."
    return note
