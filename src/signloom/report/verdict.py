"""The sentences and numbers at the top of the report."""

from dataclasses import dataclass
from typing import Any

from signloom.evaluation.names import (
    FLOORS,
    GLOSS_SYSTEM_LABELS,
    MAIN_METRICS,
    SYSTEM_LABELS,
    Metric,
    System,
    describe_only,
    metric_heading,
    metric_label,
)
from signloom.report.stage_files import Sources

FEW_CLIPS = 20  # of which a bootstrap knows too little
BLIND_MARGIN = 5.0  # BLEU-4 by which a blind model may beat the constant sentence


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of the page."""

    name: str
    value: str
    note: str


def headline_split(splits: dict[str, Any]) -> str:
    """The split that the page is about: test if there is one."""
    return "test" if "test" in splits else next(iter(splits))


def system_names(sources: Sources) -> dict[str, str]:
    """Return what the page calls each system, in the order of its tables."""
    return GLOSS_SYSTEM_LABELS if sources.reads_glosses else SYSTEM_LABELS


def strongest_floor(systems: dict[str, Any]) -> str:
    """Name the system with the highest BLEU-4 of those that learn nothing or see nothing."""
    there = [name for name in FLOORS if name in systems]
    return max(there, key=lambda name: float(systems[name][Metric.BLEU4]["value"]))


def verdict_sentences(sources: Sources) -> list[str]:
    """Return sentences that say what the scores are worth."""
    split = headline_split(sources.splits)
    found = sources.splits[split]
    systems = found["systems"]
    bleu, wer = systems[System.MODEL][Metric.BLEU4], systems[System.MODEL][Metric.WER]
    train = {target.signer for target in sources.targets if target.split == "train"}
    signers = {target.signer for target in sources.targets if target.split == split}
    unseen = "none of whom is in train" if not signers & train else "some of whom are in train"
    sentences = [
        f"On {count(found['clips'], f'{split} clip')} of {count(len(signers), 'signer')}, "
        f"{unseen}, BLEU-4 is {_interval(bleu)} and the word error rate {_interval(wer)} %."
    ]
    if found["clips"] < FEW_CLIPS:
        sentences.append("So few clips say little, and their intervals are too narrow.")
    names = system_names(sources)
    sentences.append(_floor_sentence(systems, names))
    sentences.append(_blind_sentence(systems, is_read=sources.reads_glosses))
    if "only_sentence" in found:
        sentences.append(describe_only(found["only_sentence"], found["clips"]) + ".")
    if found["hallucination"]:
        sentences.append(found["hallucination"]["text"])
    if sources.seeds and Metric.BLEU4 in sources.seeds["splits"].get(split, {}):
        spread = sources.seeds["splits"][split][Metric.BLEU4]
        sentences.append(
            f"Over {spread['n']} seeds BLEU-4 is {spread['mean']:.1f}, give or take "
            f"{spread['std']:.1f} (standard deviation)."
        )
    sentences.append(_change_sentence(found, sources.before.get(split)))
    if found["missing"]:
        clips = count(len(found["missing"]), "clip")
        lacking = "glosses" if sources.reads_glosses else "landmarks"
        sentences.append(f"Not scored, because without {lacking}: {clips}.")
    return sentences


def _floor_sentence(systems: dict[str, Any], names: dict[str, str]) -> str:
    bleu, strongest = systems[System.MODEL][Metric.BLEU4], strongest_floor(systems)
    floor = systems[strongest][Metric.BLEU4]
    named = f"the strongest floor ({names[strongest]}, {_interval(floor)})"
    if bleu["low"] > floor["value"]:
        margin = bleu["value"] - floor["value"]
        return (
            f"That is {margin:.1f} BLEU-4 above {named}: the model's whole interval lies above it."
        )
    if bleu["high"] < floor["value"]:
        return f"This is worse than {named}: the model's whole interval lies below it."
    return f"This is not clearly better than {named}: the model's interval reaches down to it."


def _change_sentence(found: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Compare the scores with those of the run that was kept."""
    if not before:
        return "No earlier run is kept to compare with; `signloom scores --keep` keeps this one."
    model = found["systems"][System.MODEL]
    changes = [
        f"{metric_label(metric)} {model[metric]['value'] - before[metric]:+.1f}"
        for metric in MAIN_METRICS
        if metric in before
    ]
    text = f"Against the run that was kept: {', '.join(changes)}"
    if before["clips"] != found["clips"]:
        return text + f" (of {count(before['clips'], 'clip')}, so not quite comparable)."
    if before["signature"] != model[Metric.BLEU4]["signature"]:
        return text + f" (scored in another way: {before['signature']})."
    low, high = model[Metric.BLEU4]["low"], model[Metric.BLEU4]["high"]
    if low <= before[Metric.BLEU4] <= high:
        return text + "; its BLEU-4 lies within this one's interval."
    return text + "; its BLEU-4 lies outside this one's interval."


def _blind_sentence(systems: dict[str, Any], *, is_read: bool) -> str:
    blind, constant = (
        systems[system][Metric.BLEU4]["value"] for system in (System.BLIND, System.CONSTANT)
    )
    hidden = "With every gloss unknown to it" if is_read else "With its landmarks zeroed"
    compared = f"{hidden} the model gets {blind:.1f}; the best constant sentence gets "
    compared += f"{constant:.1f}"
    if blind > constant + BLIND_MARGIN:
        return compared + ": part of its score is guessed without looking."
    if systems[System.MODEL][Metric.BLEU4]["low"] > max(blind, constant):
        return compared + ": its score comes from looking, not from guessing."
    return compared + "."


def tiles(sources: Sources) -> list[Tile]:
    """Return the few numbers at the top of the page."""
    split = headline_split(sources.splits)
    systems = sources.splits[split]["systems"]
    model = systems[System.MODEL]
    before = sources.before.get(split, {})
    shown = [
        Tile(
            f"{split} {metric_heading(metric)}",
            f"{model[metric]['value']:.1f}",
            f"95 %: {model[metric]['low']:.1f} to {model[metric]['high']:.1f}"
            + (f"; before {before[metric]:.1f}" if metric in before else ""),
        )
        for metric in (Metric.BLEU4, Metric.WER, Metric.CHRF)
    ]
    controls = [("strongest floor", strongest_floor(systems)), ("blind control", System.BLIND)]
    if System.SWAPPED in systems:  # not with a single sentence
        controls.append(
            ("wrong glosses" if sources.reads_glosses else "wrong video", System.SWAPPED)
        )
    for name, system in controls:
        score = systems[system][Metric.BLEU4]
        note = system_names(sources)[system]
        shown.append(Tile(f"{name}, BLEU-4", f"{score['value']:.1f}", note))
    return shown


def _interval(score: dict[str, Any]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def count(number: int, noun: str) -> str:
    """Return `1 clip`, `2 clips`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
