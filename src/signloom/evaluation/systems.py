"""The systems that are scored: the model, its controls and the floors.

A score means something only beside what can be had without looking: the floors here (one constant
sentence, a random one, the sentence of the nearest training clip, that of a logistic regression),
and two controls: the model with its landmarks zeroed, and with the video of another clip. For a
model of glosses these are unknown glosses and those of another clip, and copying the glosses is one
more floor.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from signloom.errors import UserError
from signloom.evaluation.floors import best_constant, build_retrieval, fit_linear
from signloom.evaluation.metrics import ScoreOptions
from signloom.evaluation.names import Metric, System
from signloom.features.glosses import GlossSequence
from signloom.features.sources import Source, SourceSequence
from signloom.features.targets import Target, split_hash
from signloom.progress import progress_file
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translation, Translator

HANDS = ("left_hand", "right_hand")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFacts:
    """What is known of a clip before any model has read it."""

    hands: float | None  # share of the frames with a hand; None where the layout has no hands
    fps: float | None  # of the video; None of glosses
    seconds: float | None
    unknown: tuple[str, ...] | None  # glosses that train never shows; None of landmarks


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """The sentences of every system for the clips of one split."""

    split: str  # `dev` or `test`
    source: Source  # what the model reads
    targets: list[Target]  # the clips that have landmarks or glosses, in the corpus's order
    facts: list[ClipFacts]  # one a target
    missing: list[str]  # ids of clips without them; they are counted and not scored
    clips_hash: str  # what identifies all clips of the split with their sentences
    translations: list[Translation]  # the model's, one a target
    texts: dict[System, list[str]]
    """System to one sentence a target. `SWAPPED` is left out where all clips have one sentence,
    `COPY` where there are no glosses to copy, `LINEAR` where train has one text, or too many."""


def run_systems(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    decoding: DecodingOptions,
    score: ScoreOptions,
    metric: Metric = Metric.BLEU4,
    *,
    splits: Sequence[str] = ("dev", "test"),
) -> list[SplitResult]:
    """Let the model, its blind control and the floors translate the evaluated splits.

    Args:
        translator: The trained model.
        targets: The whole corpus; floors come from its train split.
        sequences: Clip id to landmarks or glosses, of all splits.
        decoding: How the model searches.
        score: Tokenizer of the constant floor and seed of the random one.
        metric: By which the constant floor is the best.
        splits: What to evaluate; a split without clips is left out, with a warning.

    Raises:
        UserError: If no split has a clip with landmarks, or glosses.
    """
    train_texts = [target.text for target in targets if target.split == "train"]
    index = build_retrieval(translator, targets, sequences)
    linear = fit_linear(translator, targets, sequences)
    results = []
    for split in splits:
        kept, missing = _find_clips(translator, targets, sequences, split)
        if not kept:
            logger.warning("%s: no clip to evaluate", split)
            continue
        clips = [sequences[target.clip_id] for target in kept]
        translations, texts = _model_texts(translator, clips, decoding, split)
        refs = [target.text for target in kept]
        seed = [score.seed, *split.encode()]
        others = swap_clips(refs, np.random.default_rng(seed))
        if others is not None:
            # A translation depends on what is read alone: nothing is translated again.
            texts[System.SWAPPED] = [texts[System.MODEL][other] for other in others]
        texts[System.RETRIEVAL] = [index.nearest(clip) for clip in clips]
        if linear:
            texts[System.LINEAR] = linear(clips)
        texts |= _blind_floors(train_texts, refs, score, metric, np.random.default_rng(seed))
        facts = [clip_facts(clip) for clip in clips]
        if copied := [" ".join(c.glosses) for c in clips if isinstance(c, GlossSequence)]:
            texts[System.COPY] = copied
            _tell_unknown(facts, copied, split)
        results.append(SplitResult(
            split=split, source=translator.source, targets=kept, facts=facts, missing=missing,
            clips_hash=split_hash(targets, split), translations=translations, texts=texts,
        ))  # fmt: skip
    if not results:
        raise UserError(
            f"no clip of {' or '.join(splits)} has {translator.source.name}, so there is nothing "
            f"to evaluate; the manifest needs such clips, see {translator.source.where_missing}"
        )
    return results


def _find_clips(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    split: str,
) -> tuple[list[Target], list[str]]:
    """Return the clips of a split that can be read, and the ids of the others, which are named."""
    chosen = [target for target in targets if target.split == split]
    missing = [target.clip_id for target in chosen if target.clip_id not in sequences]
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        what = translator.source.name
        logger.warning("%s: %d clips without %s: %s", split, len(missing), what, names)
    return [target for target in chosen if target.clip_id in sequences], missing


def _tell_unknown(facts: Sequence[ClipFacts], lines: Sequence[str], split: str) -> None:
    """Say how many glosses of a split train lacks, and name some."""
    unknown = [name for one in facts for name in one.unknown or ()]
    if unknown:
        names = sorted(set(unknown))
        logger.info(
            "%s: %d of %d glosses never occur in train: %s%s",
            split,
            len(unknown),
            sum(len(line.split()) for line in lines),
            ", ".join(names[:5]),
            ", ..." if len(names) > 5 else "",
        )


def clip_facts(sequence: SourceSequence) -> ClipFacts:
    """Return what is known of a clip from its landmarks or glosses."""
    if isinstance(sequence, GlossSequence):
        return ClipFacts(hands=None, fps=None, seconds=None, unknown=sequence.unknown)
    groups = [sequence.layout.group(hand) for hand in HANDS if hand in sequence.layout.group_names]
    hands = float(sequence.present[:, groups].any(axis=1).mean()) if groups else None
    return ClipFacts(hands=hands, fps=sequence.fps, seconds=sequence.seconds, unknown=None)


def swap_clips(texts: Sequence[str], rng: np.random.Generator) -> list[int] | None:
    """Give each clip another one, of another sentence wherever there are enough of them.

    Args:
        texts: The sentence of each clip.
        rng: Decides who gets whom.

    Returns:
        For each clip the index of the other; a permutation without fixed points. None where all
        have one sentence, so that another clip would be no other input.
    """
    groups: dict[str, list[int]] = {}
    for index in rng.permutation(len(texts)).tolist():
        groups.setdefault(texts[index], []).append(index)
    if len(groups) < 2:
        return None
    # Sentence by sentence in a circle: a step as long as the largest group leaves every group.
    circle = [index for group in groups.values() for index in group]
    step = max(len(group) for group in groups.values())
    others = [0] * len(texts)
    for position, index in enumerate(circle):
        others[index] = circle[(position + step) % len(circle)]
    return others


def _blind_floors(
    train_texts: Sequence[str],
    refs: Sequence[str],
    score: ScoreOptions,
    metric: Metric,
    rng: np.random.Generator,
) -> dict[System, list[str]]:
    """Return the floors that need no clip."""
    chosen = rng.integers(0, len(train_texts), len(refs))
    return {
        System.CONSTANT: [best_constant(train_texts, refs, score, metric)] * len(refs),
        System.RANDOM: [train_texts[i] for i in chosen],
    }


def _model_texts(
    translator: Translator, clips: Sequence[SourceSequence], decoding: DecodingOptions, split: str
) -> tuple[list[Translation], dict[System, list[str]]]:
    """Translate as configured, greedily and blind."""
    passes = 2 if decoding.beam_size == 1 else 3
    with tqdm(
        total=passes * len(clips), desc=f"translate {split}", unit="clip", file=progress_file()
    ) as bar:
        model = translator.translate(clips, decoding, progress=bar.update)
        greedy = model
        if decoding.beam_size > 1:
            greedy_options = replace(decoding, beam_size=1)
            greedy = translator.translate(clips, greedy_options, progress=bar.update)
        blind = translator.translate(clips, decoding, blind=True, progress=bar.update)
    found = {System.MODEL: model, System.GREEDY: greedy, System.BLIND: blind}
    return model, {system: plain_texts(translations) for system, translations in found.items()}


def plain_texts(translations: Sequence[Translation]) -> list[str]:
    """Return the sentences with single spaces.

    Byte-level tokens can spell tabs and line ends, which no table would survive.
    """
    return [" ".join(translation.text.split()) for translation in translations]
