"""The systems that are scored: the model, its controls and the floors.

A score means something only compared with what can be had without looking: the floors here (one
constant sentence, a random one, the sentence of the nearest training clip, that of a logistic
regression), and two controls: the model with its landmarks zeroed, and with the video of another
clip. For a model of glosses these are unknown glosses and those of another clip, and copying the
glosses is one more floor.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from tqdm import tqdm

from signloom.errors import UserError, count_of
from signloom.evaluation.floors import (
    Floor,
    best_constant,
    fit_linear,
    fit_nearest,
    targets_with_clips,
)
from signloom.evaluation.metric_names import Metric, System
from signloom.evaluation.metrics import ScoreOptions
from signloom.features.features import FloatArray
from signloom.features.glosses import GlossSequence
from signloom.features.sources import Source, SourceSequence
from signloom.features.targets import Target, split_hash
from signloom.grouping import group_pairs
from signloom.progress import progress_file
from signloom.tables import read_columns
from signloom.translation.familiarity import share_with_hands
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translation, Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFacts:
    """What is known of a clip before any model has read it."""

    is_seen: bool  # whether train has its sentence
    hands: float | None  # share of the frames with a hand; None where the layout has no hands
    fps: float | None  # of the video; None of glosses
    seconds: float | None
    unknown: tuple[str, ...] | None  # glosses that train never shows; None of landmarks


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Setup:
    """What every measure reads: a model, the corpus, the search, and how sentences are scored."""

    translator: Translator  # the model, or the ensemble of all seeds
    targets: Sequence[Target]  # the whole corpus; floors come from its train split
    sequences: Mapping[str, SourceSequence]  # landmarks or glosses by clip id, of all splits
    decoding: DecodingOptions
    score: ScoreOptions  # tokenizer, resamples, and the seed of all that is drawn
    metric: Metric = Metric.BLEU4  # the headline

    def split(self, name: str) -> list[Target]:
        """Return the clips of a split that have landmarks, or glosses."""
        return targets_with_clips(self.targets, name, self.sequences)

    def sequences_of(self, targets: Iterable[Target]) -> list[SourceSequence]:
        """Return what the model reads of some clips."""
        return [self.sequences[target.clip_id] for target in targets]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SplitResult:
    """The sentences of every system for the clips of one split."""

    split: str  # `dev` or `test`
    source: Source  # what the model reads
    targets: list[Target]  # the clips that have landmarks or glosses, in the corpus's order
    clips: list[SourceSequence]  # those of the targets
    encodings: FloatArray | None  # mean states of the encoder, shape (N, D); None of glosses
    facts: list[ClipFacts]  # one a target
    missing: list[str]  # ids of clips without them; they are counted and not scored
    clips_hash: str  # what identifies all clips of the split with their sentences
    translations: list[Translation]  # the model's, one a target
    texts: dict[System, list[str]]
    """System to one sentence a target. `SWAPPED` is left out where all clips have one sentence,
    `COPY` where there are no glosses to copy, `LINEAR` where train has one text, or too many."""

    @property
    def refs(self) -> list[str]:
        """The reference of each target."""
        return [target.text for target in self.targets]


def train_texts(targets: Sequence[Target]) -> list[str]:
    """Return the sentences of train, with or without landmarks."""
    return [text for split, text in read_columns(targets, "split", "text") if split == "train"]


def run_systems(setup: Setup) -> list[SplitResult]:
    """Let the model, its controls and the floors translate dev and test.

    A split without clips is left out, with a warning.

    Raises:
        UserError: If no split has a clip with landmarks, or glosses.
    """
    source, targets = setup.translator.source, setup.targets
    nearest = fit_nearest(setup.translator, targets, setup.sequences)
    linear = (
        partial(_name_by_linear_classifier, setup.translator)
        if setup.translator.linear
        else fit_linear(setup.translator, targets, setup.sequences)
    )
    texts_of_train = train_texts(targets)
    train_sentences, results = frozenset(texts_of_train), []
    for split in ("dev", "test"):
        evaluated, missing = setup.split(split), _find_missing(setup, split)
        if not evaluated:
            logger.warning("%s: no clip to evaluate", split)
            continue
        request = _SystemInput(
            setup=setup,
            split=split,
            clips=setup.sequences_of(evaluated),
            refs=[t.text for t in evaluated],
            train_texts=texts_of_train,
            nearest=nearest,
            linear=linear,
        )
        texts = {system: say(request) for system, say in SYSTEMS.items()}
        pairs = zip(request.clips, request.refs, strict=True)
        facts = [clip_facts(clip, is_seen=ref in train_sentences) for clip, ref in pairs]
        if copied := texts[System.COPY]:
            _log_unknown(facts, copied, split)
        results.append(
            SplitResult(
                split=split,
                source=source,
                targets=evaluated,
                clips=request.clips,
                encodings=setup.translator.encode_clips(request.clips)
                if source.has_frames
                else None,
                facts=facts,
                missing=missing,
                clips_hash=split_hash(targets_with_clips(targets, split), split),
                translations=request.model,
                texts={
                    system: hypotheses
                    for system, hypotheses in texts.items()
                    if hypotheses is not None
                },
            )
        )
    if not results:
        raise UserError(
            f"no clip of dev or test has {source.name}, so there is nothing to evaluate; "
            f"the manifest needs such clips, see {source.where_missing}"
        )
    return results


def _name_by_linear_classifier(
    translator: Translator, clips: Sequence[SourceSequence]
) -> list[str]:
    """Name clips by the linear classifier of a model of single signs, which is the linear floor."""
    names = translator.spec.ctc.names
    return [names[int(translator.linear_log_probs(clip).argmax())] for clip in clips]


@dataclass(frozen=True, eq=False, kw_only=True)
class _SystemInput:
    """The clips of one split, for which each system writes its sentences."""

    setup: Setup
    split: str
    clips: list[SourceSequence]
    refs: list[str]
    train_texts: list[str]
    nearest: Floor
    linear: Floor | None

    def new_generator(self) -> np.random.Generator:
        """Return a generator of the split's own, at its beginning."""
        return np.random.default_rng([self.setup.score.seed, *self.split.encode()])

    @cached_property
    def model(self) -> list[Translation]:
        """What the model writes."""
        return self.translate()

    def translate(self, *, blind: bool = False, beam_size: int = 0) -> list[Translation]:
        """Translate the clips as configured, except for what is named."""
        search = self.setup.decoding
        search = replace(search, beam_size=beam_size or search.beam_size)
        label = f"translate {self.split}{', blind' * blind}{', greedily' * bool(beam_size)}"
        with tqdm(total=len(self.clips), desc=label, unit="clip", file=progress_file()) as bar:
            return self.setup.translator.translate(
                self.clips, search, blind=blind, progress=bar.update
            )


def _greedy(request: _SystemInput) -> list[str]:
    is_greedy = request.setup.decoding.beam_size == 1
    return plain_texts(request.model if is_greedy else request.translate(beam_size=1))


def _swapped(request: _SystemInput) -> list[str] | None:
    partners = swap_clips(request.refs, request.new_generator())
    # A translation depends on what is read alone: nothing is translated again.
    texts = plain_texts(request.model)
    return None if partners is None else [texts[partner] for partner in partners]


def _constant(request: _SystemInput) -> list[str]:
    setup, count = request.setup, len(request.clips)
    return [best_constant(request.train_texts, request.refs, setup.score, setup.metric)] * count


def _random(request: _SystemInput) -> list[str]:
    chosen = request.new_generator().integers(0, len(request.train_texts), len(request.clips))
    return [request.train_texts[index] for index in chosen]


def _copy(request: _SystemInput) -> list[str] | None:
    return [" ".join(c.glosses) for c in request.clips if isinstance(c, GlossSequence)] or None


# To add a system: a function here, its name and label in `metric_names.py`.
SYSTEMS: dict[System, Callable[[_SystemInput], list[str] | None]] = {
    System.MODEL: lambda request: plain_texts(request.model),
    System.GREEDY: _greedy,
    System.BLIND: lambda request: plain_texts(request.translate(blind=True)),
    System.SWAPPED: _swapped,
    System.RETRIEVAL: lambda request: request.nearest(request.clips),
    System.LINEAR: lambda request: request.linear(request.clips) if request.linear else None,
    System.CONSTANT: _constant,
    System.RANDOM: _random,
    System.COPY: _copy,
}


def _find_missing(setup: Setup, split: str) -> list[str]:
    """Return the ids of the clips of a split that cannot be read, and log some of them."""
    pairs = read_columns(setup.targets, "split", "clip_id")
    missing = [name for of, name in pairs if of == split and name not in setup.sequences]
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        source_name = setup.translator.source.name
        count = count_of(len(missing), "clip")
        logger.warning("%s: %s without %s: %s", split, count, source_name, names)
    return missing


def _log_unknown(facts: Sequence[ClipFacts], lines: Sequence[str], split: str) -> None:
    """Log how many glosses of a split train lacks, and some of them."""
    unknown = [name for fact in facts for name in fact.unknown or ()]
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


def clip_facts(sequence: SourceSequence, *, is_seen: bool) -> ClipFacts:
    """Return what is known of a clip from its landmarks or glosses."""
    if isinstance(sequence, GlossSequence):
        return ClipFacts(
            is_seen=is_seen, hands=None, fps=None, seconds=None, unknown=sequence.unknown
        )
    return ClipFacts(
        is_seen=is_seen,
        hands=share_with_hands(sequence),
        fps=sequence.fps,
        seconds=sequence.seconds,
        unknown=None,
    )


def swap_clips(texts: Sequence[str], rng: np.random.Generator) -> list[int] | None:
    """Give each clip another one, of another sentence wherever there are enough of them.

    Args:
        texts: The sentence of each clip.
        rng: Decides who gets whom.

    Returns:
        For each clip the index of the other; a permutation without fixed points. None where all
        have one sentence, so that another clip would be no other input.
    """
    groups = group_pairs((texts[index], index) for index in rng.permutation(len(texts)).tolist())
    if len(groups) < 2:
        return None
    # Sentence by sentence in a circle: a step as long as the largest group leaves every group.
    circle = [index for group in groups.values() for index in group]
    step = max(len(group) for group in groups.values())
    partners = [0] * len(texts)
    for position, index in enumerate(circle):
        partners[index] = circle[(position + step) % len(circle)]
    return partners


def plain_texts(translations: Sequence[Translation]) -> list[str]:
    """Return the sentences with single spaces.

    Byte-level tokens can spell tabs and line ends, which no table would survive.
    """
    return [" ".join(translation.text.split()) for translation in translations]
