"""The sentences and numbers at the top of the report."""

from dataclasses import dataclass
from typing import Any

from signloom.evaluation.compare import Difference, enlarge
from signloom.evaluation.metric_names import (
    FLOORS,
    GLOSS_SYSTEM_LABELS,
    SYSTEM_LABELS,
    TOO_FEW,
    Metric,
    System,
    are_few,
    describe_only,
    metric_heading,
    metric_label,
    shown_metrics,
)
from signloom.report.stage_files import Sources
from signloom.tables import read_columns

FEW_CLIPS = 20  # too few for a bootstrap


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of the page."""

    name: str
    value: str
    note: str


def headline_split(splits: dict[str, Any]) -> str:
    """The split that the page is about: test if there is one."""
    return "test" if "test" in splits else next(iter(splits))


def system_meanings(sources: Sources) -> dict[str, str]:
    """Return what each system is, by its name in every table, chart and file."""
    return GLOSS_SYSTEM_LABELS if sources.reads_glosses else SYSTEM_LABELS


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence above everything else."""

    kind: str  # good, bad or open
    text: str


def reach_verdict(sources: Sources, difference: Difference | None) -> Verdict:
    """Return what the scores say about the model, in one sentence.

    Args:
        difference: Of the best floor and the model; None where it was not computed.
    """
    split, headline = headline_split(sources.splits), sources.headline
    evaluation, systems = sources.splits[split], sources.splits[split]["systems"]
    score, best = systems[System.MODEL][headline], strongest_floor(systems, headline)
    floor = systems[best][headline]
    p_text = "" if difference is None else f", p = {difference.p_value:.3f}"
    clips = count(evaluation["clips"], f"{split} clip")
    scores = (
        f"{metric_heading(headline)} {_interval(score)} on {clips}; the best floor, {best}, has "
        f"{floor['value']:.1f}{p_text}"
    )
    check = evaluation.get("input_check")
    if "only_sentence" in evaluation:
        return Verdict("bad", f"{describe_only(evaluation['only_sentence'], evaluation['clips'])}.")
    if are_few(evaluation["clips"]):
        return Verdict("open", f"There are {TOO_FEW} whether the model is better than a floor.")
    if check and not check["uses_input"]:
        return Verdict("bad", f"The model ignores its input: {check['text']}")
    low, high = enlarge(score["value"], (score["low"], score["high"]), evaluation["clips"])
    if difference.is_better if difference else low > floor["value"]:
        return Verdict("good", f"The model has learnt to translate: {scores}.")
    if difference.is_worse if difference else high < floor["value"]:
        return Verdict("bad", f"The model is worse than {best}: {scores}.")
    return Verdict("open", f"The model is not clearly better than {best}: {scores}.")


def strongest_floor(systems: dict[str, Any], headline: Metric) -> str:
    """Name the system with the highest score of those that a model must surpass."""
    floors = [name for name in FLOORS if name in systems]
    return max(floors, key=lambda name: float(systems[name][headline]["value"]))


def verdict_sentences(sources: Sources) -> list[str]:
    """Return sentences that say what the scores are worth."""
    split = headline_split(sources.splits)
    evaluation = sources.splits[split]
    systems, headline = evaluation["systems"], sources.headline
    first, wer = systems[System.MODEL][headline], systems[System.MODEL][Metric.WER]
    pairs = {*read_columns(sources.targets, "split", "signer")}
    train, signers = ({s for name, s in pairs if name == which} for which in ("train", split))
    unseen = "none of whom is in train" if not signers & train else "some of whom are in train"
    sentences = [
        f"On {count(evaluation['clips'], f'{split} clip')} of {count(len(signers), 'signer')}, "
        f"{unseen}, {_subject(headline)} {_interval(first)} and the word error rate "
        f"{_interval(wer)} %."
    ]
    if sources.seeds and headline in (spreads := sources.seeds["splits"].get(split, {})):
        spread = spreads[headline]
        sentences.append(
            f"This is the score of {spread['n']} seeds as one model, whose probabilities are "
            f"averaged; alone they have {spread['mean']:.1f} {_points(headline)} in the mean."
            if sources.is_joint
            else f"These are means of {spread['n']} seeds with intervals over seeds and clips; one "
            f"seed is give or take {spread['std']:.1f} (standard deviation) from them."
        )
    if evaluation["clips"] < FEW_CLIPS:
        sentences.append("So few clips say little, and their intervals are too narrow.")
    if check := evaluation.get("input_check"):
        sentences.append(check["text"])
    sentences += [f"Labels of train: {case}; compare the takes." for case in sources.exchanged]
    if next_step := evaluation.get("next_step"):
        sentences.append(f"{next_step[0].upper()}{next_step[1:]}.")
    if evaluation["missing"]:
        clips = count(len(evaluation["missing"]), "clip")
        lacking = "glosses" if sources.reads_glosses else "landmarks"
        sentences.append(f"Not scored, because without {lacking}: {clips}.")
    return sentences


def _subject(headline: Metric) -> str:
    """Return the beginning of a sentence that a number ends."""
    return "BLEU-4 is" if headline == Metric.BLEU4 else "the share of exactly right texts, in %, is"


def _points(headline: Metric) -> str:
    return metric_label(headline) if headline == Metric.BLEU4 else "points"


def tiles(sources: Sources) -> list[Tile]:
    """Return the few numbers at the top of the page."""
    split = headline_split(sources.splits)
    systems, headline = sources.splits[split]["systems"], sources.headline
    model = systems[System.MODEL]
    first, *further = shown_metrics(headline)
    shown = [
        Tile(
            f"{split} {metric_heading(metric)}",
            f"{model[metric]['value']:.1f}",
            f"95 %: {model[metric]['low']:.1f} to {model[metric]['high']:.1f}",
        )
        for metric in (first, *reversed(further))
    ]
    best, meanings = strongest_floor(systems, headline), system_meanings(sources)
    controls = {best: "best floor", System.BLIND: "blind", System.SWAPPED: "swapped"}
    for system in (name for name in controls if name in systems):  # one sentence is not swapped
        name = f"{controls[system]}, {metric_heading(headline)}"
        note = f"{system}: {meanings[system]}" if system == best else meanings[system]
        shown.append(Tile(name, f"{systems[system][headline]['value']:.1f}", note))
    return shown


def _interval(score: dict[str, Any]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"


def count(number: int, noun: str) -> str:
    """Return `1 clip`, `2 clips`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
