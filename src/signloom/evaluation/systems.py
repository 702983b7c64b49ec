"""The systems that are scored: the model, its controls and the floors.

A score means something only beside what can be had without looking: the floors here (one constant
sentence, a random one, the sentence of the nearest training clip), and two controls: the model
with its landmarks zeroed, and with the video of another clip. For a model of glosses these are
unknown glosses and those of another clip, and copying the glosses is one more floor.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from signloom.errors import UserError
from signloom.evaluation.floors import best_constant, build_retrieval
from signloom.evaluation.metrics import ScoreOptions
from signloom.features.glosses import GlossSequence
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.progress import progress_file
from signloom.translation.search import DecodingOptions
from signloom.translation.translator import Translation, Translator

SYSTEMS = {
    "model": "the model, searched as configured",
    "greedy": "the model, greedy search",
    "blind": "the model, landmarks zeroed",
    "swapped": "the model, seeing another clip",
    "retrieval": "the sentence of the nearest training clip",
    "constant": "the best constant training sentence",
    "random": "a random training sentence",
}
COPY = "copy"  # one more system for a model of glosses: it says them, in lower case
HANDS = ("left_hand", "right_hand")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFacts:
    """What a clip's landmarks say about it before any model has seen them; of glosses nothing."""

    hands: float | None  # share of the frames with a hand; None where the layout has no hands
    fps: float | None  # of the video
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """What every system says for the clips of one split.

    Attributes:
        split: `dev` or `test`.
        targets: The clips that have landmarks or glosses, in the corpus's order.
        facts: One a target.
        missing: Ids of clips without them; they are counted and not scored.
        translations: The model's, one a target.
        texts: System (a key of `SYSTEMS`) to one sentence a target. `swapped` is left out where
            all clips have one sentence.
        unknown: Of the glosses of each clip, those that train never shows; None for landmarks.
    """

    split: str
    targets: list[Target]
    facts: list[ClipFacts]
    missing: list[str]
    translations: list[Translation]
    texts: dict[str, list[str]]
    unknown: list[tuple[str, ...]] | None


def run_systems(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    decoding: DecodingOptions,
    score: ScoreOptions,
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
        splits: What to evaluate; a split without clips is left out, with a warning.

    Raises:
        UserError: If no split has a clip with landmarks, or glosses.
    """
    train_texts = [target.text for target in targets if target.split == "train"]
    index = build_retrieval(translator, targets, sequences)
    results = []
    for split in splits:
        chosen = [target for target in targets if target.split == split]
        kept = [target for target in chosen if target.clip_id in sequences]
        missing = [target.clip_id for target in chosen if target.clip_id not in sequences]
        if missing:
            names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            what = translator.source.name
            logger.warning("%s: %d clips without %s: %s", split, len(missing), what, names)
        if not kept:
            logger.warning("%s: no clip to evaluate", split)
            continue
        clips = [sequences[target.clip_id] for target in kept]
        translations, texts = _model_texts(translator, clips, decoding, split)
        refs = [target.text for target in kept]
        seed = [score.seed, *split.encode()]
        others = swap_clips(refs, np.random.default_rng(seed))
        if others is not None:
            # What a model says depends on what it reads alone: nothing is translated again.
            texts["swapped"] = [texts["model"][other] for other in others]
        texts["retrieval"] = [index.nearest(clip) for clip in clips]
        texts |= _blind_floors(train_texts, refs, score, np.random.default_rng(seed))
        unknown = _copy_glosses(clips, texts, split) if translator.source.kind == "tokens" else None
        results.append(
            SplitResult(
                split=split,
                targets=kept,
                facts=[clip_facts(clip) for clip in clips],
                missing=missing,
                translations=translations,
                texts=texts,
                unknown=unknown,
            )
        )
    if not results:
        raise UserError(
            f"no clip of {' or '.join(splits)} has {translator.source.name}, so there is nothing "
            f"to evaluate; the manifest needs such clips, see {translator.source.where_missing}"
        )
    return results


def _copy_glosses(
    clips: Sequence[SourceSequence], texts: dict[str, list[str]], split: str
) -> list[tuple[str, ...]]:
    """Add the floor that copies glosses; return those that train lacks, and say how many."""
    lines = [clip for clip in clips if isinstance(clip, GlossSequence)]
    texts[COPY] = [" ".join(line.glosses) for line in lines]
    unknown = [line.unknown for line in lines]
    names = sorted({name for found in unknown for name in found})
    if names:
        logger.info(
            "%s: %d of %d glosses never stand in train: %s%s",
            split,
            sum(map(len, unknown)),
            sum(len(line.glosses) for line in lines),
            ", ".join(names[:5]),
            ", ..." if len(names) > 5 else "",
        )
    return unknown


def clip_facts(sequence: SourceSequence) -> ClipFacts:
    """Return what the landmarks say of their clip."""
    if isinstance(sequence, GlossSequence):
        return ClipFacts(hands=None, fps=None, seconds=None)
    groups = [sequence.layout.group(hand) for hand in HANDS if hand in sequence.layout.group_names]
    hands = float(sequence.present[:, groups].any(axis=1).mean()) if groups else None
    return ClipFacts(hands=hands, fps=sequence.fps, seconds=sequence.seconds)


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
    for place, index in enumerate(circle):
        others[index] = circle[(place + step) % len(circle)]
    return others


def _blind_floors(
    train_texts: Sequence[str], refs: Sequence[str], score: ScoreOptions, rng: np.random.Generator
) -> dict[str, list[str]]:
    """Return what can be said without looking at a clip."""
    chosen = rng.integers(0, len(train_texts), len(refs))
    return {
        "constant": [best_constant(train_texts, refs, score)] * len(refs),
        "random": [train_texts[i] for i in chosen],
    }


def _model_texts(
    translator: Translator,
    clips: Sequence[SourceSequence],
    decoding: DecodingOptions,
    split: str,
) -> tuple[list[Translation], dict[str, list[str]]]:
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
    said = {"model": model, "greedy": greedy, "blind": blind}
    return model, {name: plain_texts(translations) for name, translations in said.items()}


def plain_texts(translations: Sequence[Translation]) -> list[str]:
    """Return the sentences with single spaces.

    Byte-level tokens can spell tabs and line ends, which no table would survive.
    """
    return [" ".join(translation.text.split()) for translation in translations]
