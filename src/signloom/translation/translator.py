"""The translator: a trained model that writes sentences for landmarks or glosses.

Shape letters as in `seq2seq`.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool
from torch import Tensor

from signloom.checkpoint import WEIGHTS, Checkpoint, load_checkpoint
from signloom.config import MAX_FPS, MIN_FPS
from signloom.corpus.landmarks import LandmarkSequence
from signloom.devices import pick_device
from signloom.errors import UserError
from signloom.features.batches import group_by_length, pad_source
from signloom.features.features import FloatArray, interpolate
from signloom.features.glosses import GlossSequence
from signloom.features.sources import Rows, Source, SourceSequence
from signloom.models.seq2seq import Memory, Seq2Seq, SourceTensor
from signloom.paths import SEEDS_NAME
from signloom.translation.confidence import (
    HINT,
    NOT_CHECKED,
    Check,
    Confidence,
    find_confidence,
    seed_folders,
)
from signloom.translation.familiarity import EVEN_PACE, MOST_PACE
from signloom.translation.labels import Reading, rank_signs, search_signs, weigh_labels
from signloom.translation.linear_classifier import LinearClassifier, resample_clip
from signloom.translation.options import DECODING, DecodingOptions, SignSearch
from signloom.translation.precision import Precision, reduce_precision
from signloom.translation.search import Hypothesis, SpecialIds, search
from signloom.translation.tokens import NotFiniteError, check_finite, mean_log_probs
from signloom.translation.word_signs import SignCoverage

# Source frames of a part, padding included: what the layers of a model of width 512 compute of
# them stays nearer to the processor, which saves it some 7 % of the time of 8,000 together.
PART_FRAMES = 2_000
# Padded frames of a batch: bounds memory, and larger batches gain nothing on a CPU.
MAX_FRAMES = 8_000
BROKEN = "\N{REPLACEMENT CHARACTER}"
# At which convolutions also read signs, not only at a clip's own; folds of BOSTON-104's train have
# 1.4 % of errors less by the mean over all three (docs/log/2026-11-26.md).
OTHER_PACES = (0.9, 1.1)
Spelt = Literal["labels", "text"]  # by the CTC head; by a model without a decoder
THIRDS = 3  # of a clip, over each of which look-up knows where its hands are
MAX_CLIPS = 64  # decoded together: each holds logits of beam width times vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A sentence and the hypothesis behind it."""

    text: str  # what the hypothesis spells
    hypothesis: Hypothesis  # the best one
    alternatives: tuple["Translation", ...] = ()
    """The next best, with as many as were asked for; they have none themselves."""
    check: Check = NOT_CHECKED  # how far it can be trusted; says nothing of alternatives


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Alignment:
    """Where the model looked while it wrote a translation."""

    tokens: tuple[str, ...]
    """The text of each token of the hypothesis, eos being empty. A token that ends in the middle of
    a character is empty too: the one that completes it has the whole."""
    step_s: float  # time between two positions of the memory, seconds. Glosses lie in no time: 0.
    weights: FloatArray  # attention of each token over the positions, shape (T, M); rows sum to 1
    source: tuple[str, ...] = ()  # the glosses at each position; empty where positions are moments
    maps: Mapping[str, FloatArray] = field(default_factory=dict)
    """Of every layer and head, shape (L, H, rows, columns), where the model has them: `encoder`
    (M x M), `decoder` (T x T), `cross` (T x M)."""


class Translator:
    """A trained model with everything between landmarks, or glosses, and text.

    It may be an ensemble of the models of several seeds: the mean of their probabilities decides on
    tokens and signs. What lies inside a model, its states and its attention, is then the first
    one's.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        precision: Precision = "float32",
        confidence: Confidence | None = None,
        name: str = "the checkpoint",
    ) -> None:
        """Take a checkpoint and what its translations are checked by.

        Args:
            checkpoint: Its model is on the device.
            confidence: What `evaluate` measured of this model; None: nothing is checked.
            name: How messages call the checkpoint.
        """
        self.spec = checkpoint.spec
        self.confidence = confidence
        self.sign_costs = confidence.signs_said if confidence else SignCoverage()
        self.sign_search = (confidence and confidence.signs) or SignSearch()
        self.linear = confidence.linear if confidence else None
        self._name = name
        self._models = Ensemble([reduce_precision(checkpoint.model, precision)], device)
        self._tokenizer = checkpoint.tokenizer
        tokenizer = checkpoint.tokenizer
        self._ids = SpecialIds(pad=tokenizer.pad, bos=tokenizer.bos, eos=tokenizer.eos)

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | None = None, *, precision: Precision = "float32"
    ) -> "Translator":
        """Load a checkpoint folder, on a GPU if there is one and no device is named.

        If the models of all its seeds were measured as an ensemble, they are loaded as one.

        Args:
            precision: Of its weights; docs/translation.md compares them.
        """
        device = device or pick_device("auto")
        checkpoint = load_checkpoint(folder, device)
        confidence = find_confidence(folder)
        translator = cls(checkpoint, device, precision, confidence, name=str(folder))
        # Models of further seeds are not measured by themselves; they learnt from the same clips.
        first = folder.parent.parent
        is_further = folder.parent.name == SEEDS_NAME and (first / WEIGHTS).is_file()
        if is_further and (checked := find_confidence(first)):
            translator = translator.with_signs(
                checked.signs or SignSearch(), checked.signs_said, checked.linear
            )
        if confidence and confidence.seeds:
            further = [load_checkpoint(seed_folder, device) for seed_folder in seed_folders(folder)]
            return translator.with_seeds(
                [cls(seed_checkpoint, device, precision) for seed_checkpoint in further]
            )
        return translator

    def with_signs(
        self,
        search: SignSearch | None = None,
        costs: SignCoverage | None = None,
        linear: LinearClassifier | None = None,
    ) -> "Translator":
        """Return a translator with another search of signs, other costs or linear classifier."""
        translator = copy.copy(self)
        translator.sign_search = search or self.sign_search
        translator.sign_costs = costs or self.sign_costs
        translator.linear = linear or self.linear
        return translator

    def with_seeds(self, further: "Sequence[Translator]") -> "Translator":
        """Return a translator that averages the probabilities of further seeds' models, too.

        Its sentences are unchecked unless the confidence was measured of all of them.

        Args:
            further: Of the same training: their tokens mean the same.

        Raises:
            UserError: If one reads other things.
        """
        for translator in further:
            if (translator.spec.source, translator.spec.features) != (
                self.spec.source,
                self.spec.features,
            ):
                raise UserError("models of other features cannot translate together")
        ensemble = copy.copy(self)
        models = [self._model, *(translator._model for translator in further)]
        ensemble._models = replace(self._models, models=models)
        return ensemble

    @property
    def is_joint(self) -> bool:
        """Whether it is the models of several seeds."""
        return len(self._models.models) > 1

    @property
    def first_seed(self) -> "Translator":
        """The translator of the first model alone."""
        return self.with_seeds(()) if self.is_joint else self

    @property
    def is_checked(self) -> bool:
        """Whether the confidence was measured of what translates: the first model, or all."""
        return self.confidence is not None and bool(self.confidence.seeds) == self.is_joint

    @property
    def decoding(self) -> DecodingOptions:
        """The search that `evaluate` chose for these weights, for sentences of any length."""
        chosen = self.confidence.decoding if self.confidence else None
        if chosen is None:
            return DECODING
        return replace(chosen, max_tokens=max(chosen.max_tokens, DECODING.max_tokens))

    @property
    def source(self) -> Source:
        """What the model reads of a clip."""
        return self.spec.source

    def rows(self, sequence: SourceSequence) -> Rows:
        """Return what the model reads of a clip.

        Raises:
            UserError: If it was trained on something else.
        """
        return self.spec.reader.rows(sequence)

    def _rows(self, sequences: Sequence[SourceSequence], *, blind: bool = False) -> list[Rows]:
        rows = [self.rows(sequence) for sequence in sequences]
        return [self.spec.reader.blind(matrix) for matrix in rows] if blind else rows

    def trim(self, sequence: SourceSequence) -> SourceSequence:
        """Return the part of a clip that the model reads: without rests at its ends."""
        return self.spec.reader.trim(sequence)

    def _paced(self, sequence: SourceSequence) -> SourceSequence:
        """Return a clip of one sign at the training pace, as recorders err in their rates."""
        train = self.confidence and self.confidence.train
        durations = train.figures.get("seconds") if train else None
        if not (durations and self.spec.ctc.kind == "texts"):
            return sequence
        part = self.trim(sequence)  # at its own rate: at train's, more rest than sign may be kept
        if not isinstance(part, LandmarkSequence):
            return sequence
        if durations.low / EVEN_PACE <= part.seconds <= EVEN_PACE * durations.high:
            return sequence
        pace = part.seconds / max(math.sqrt(durations.low * durations.high), 1 / part.fps)
        fps = part.fps * min(max(pace, 1 / MOST_PACE), MOST_PACE)
        return replace(part, fps=min(max(fps, MIN_FPS), MAX_FPS))

    def differences(self, sequence: SourceSequence) -> tuple[str, ...] | None:
        """Say in what a clip is unlike the training clips; None where that was not measured."""
        train = self.confidence and self.confidence.train
        paced = self._paced(sequence)
        part = self.trim(paced)
        if not train or not isinstance(part, LandmarkSequence):
            return None
        return train.differences(part, self.encode_clips([paced])[0])

    def translate(
        self,
        sequences: Sequence[SourceSequence],
        options: DecodingOptions,
        *,
        n_best: int = 1,
        skip_unsure: bool = False,
        guess: bool = True,
        blind: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """Translate clips.

        Args:
            sequences: Their landmarks or glosses, as the model was trained.
            n_best: Translations wanted of each clip, at most `options.beam_size`.
            skip_unsure: Give those an empty text, and no alternatives, that are unsure or of a clip
                unlike the training clips.
            guess: Also write what the model makes of clips that are unlike the training clips.
            blind: Replace every feature by zero, every gloss by an unknown one. The clip's length
                is all that is left, so what a model still scores is guessed without looking.
            progress: Called with the number of clips done after each batch.

        Returns:
            One translation a clip, in order.

        Raises:
            UserError: If unsure ones are to be skipped, and nothing says which are.
        """
        if skip_unsure and not self.is_checked:
            raise UserError(
                "which translations are unsure is not known: there is no confidence.json of these "
                f"weights; {HINT}"
            )
        if options.language and not self._model.has_decoder:
            raise UserError("language: the model has no decoder that could begin with one")
        sequences = [self._paced(sequence) for sequence in sequences]
        rows = self._rows(sequences, blind=blind)
        translations: dict[int, Translation] = {}
        for part in _batches([len(row) for row in rows]):
            clips, clip_rows = [sequences[i] for i in part], [rows[i] for i in part]
            memories = self._models.encode(clip_rows)
            with self._named_errors():
                hypotheses = (
                    self._search(memories, clips, options, n_best, blind=blind)
                    if self._model.has_decoder
                    else self._read_texts(memories, clips, clip_rows, n_best, blind=blind)
                )
            batch = [self._spell(candidates) for candidates in hypotheses]
            if not blind:
                checked = zip(batch, clips, mean_states(memories[0]), strict=True)
                batch = [
                    self._checked(*clip, skip_unsure=skip_unsure, guess=guess) for clip in checked
                ]
            translations |= zip(part, batch, strict=True)
            if progress:
                progress(len(part))
        return [translations[index] for index in range(len(sequences))]

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the checkpoint where its numbers are not finite."""
        try:
            yield
        except NotFiniteError as error:
            raise UserError(f"{self._name}: {error}") from None

    def _search(
        self,
        memories: Sequence[Memory],
        sequences: Sequence[SourceSequence],
        options: DecodingOptions,
        n_best: int,
        *,
        blind: bool,
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses of a batch, ranked by the signs where the model reads them."""
        ids = self._ids
        if options.language:
            ids = replace(ids, first=self._tokenizer.language_id(options.language))
        weight = 0.0 if blind or not self.ranks_by_signs else options.sign_weight
        # Confidence counts what the signs cost, by either ranking.
        ranks = self.ranks_by_signs and not blind
        (model, memory), *further = zip(self._models.models, memories, strict=True)
        count = options.beam_size if weight else n_best
        hypotheses = search(model, memory, ids, options, n_best=count, further=further)
        if ranks:
            pairs = zip(hypotheses, self._costs(sequences, memories), strict=True)
            hypotheses = [self._rank_by_signs(*pair, weight, options)[:n_best] for pair in pairs]
        return hypotheses

    def _read_texts(
        self,
        memories: Sequence[Memory],
        sequences: Sequence[SourceSequence],
        rows: Sequence[Rows],
        n_best: int,
        *,
        blind: bool,
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses of a batch by a model without a decoder."""
        linear = [
            self.linear_log_probs(clip) if self.linear and not blind else None for clip in sequences
        ]
        pairs = zip(self._paces(rows, "text", memories), linear, strict=True)
        return [self._read_text(*pair, n_best) for pair in pairs]

    def linear_log_probs(self, sequence: SourceSequence) -> npt.NDArray[np.float64]:
        """Return the log-probabilities of single signs by the linear classifier, shape (K,)."""
        assert self.linear
        return self.linear.log_probs(resample_clip(self.source, self.spec.features, sequence))

    @property
    def reads_single_signs(self) -> bool:
        """Whether each of its texts is one label, and nothing else is written."""
        is_single = self.spec.ctc.kind == "texts" and not self._model.has_decoder
        return is_single and not self._model.spells_tokens

    def _read_text(
        self, log_probs: FloatArray, linear: npt.NDArray[np.float64] | None, n_best: int
    ) -> list[Hypothesis]:
        """Return the best texts by the log-probabilities of what CTC spells alone, (M, K)."""
        names, spells_tokens = self.spec.ctc.names, self._model.spells_tokens
        if self.reads_single_signs:
            costs = enumerate(weigh_labels(log_probs, linear), start=1)
            readings = sorted((Reading((n,), -c, -c) for n, c in costs), key=lambda one: -one.score)
        else:
            readings = rank_signs(log_probs, SignSearch() if spells_tokens else self.sign_search)
        space = " " if self.reads_signs else ""
        hypotheses = []
        for labels, log_prob, score in readings[:n_best]:
            tokens = [label - 1 for label in labels]
            if not spells_tokens:
                tokens = self._tokenizer.encode(space.join(names[n] for n in tokens))
            tokens.append(self._ids.eos)
            hypotheses.append(Hypothesis(tokens=tuple(tokens), log_prob=log_prob, score=score))
        return hypotheses

    def _checked(
        self,
        translation: Translation,
        sequence: SourceSequence,
        encoding: FloatArray,
        *,
        skip_unsure: bool,
        guess: bool,
    ) -> Translation:
        """Return a translation with its check, without text where this is asked for."""
        if not self.confidence or not self.is_checked:
            return translation
        check = self.confidence.check(translation.hypothesis, self.trim(sequence), encoding)
        if (skip_unsure and check.word) or (check.unlike and not guess):
            translation = replace(translation, text="", alternatives=())
        return replace(translation, check=check)

    def _spell(self, hypotheses: Sequence[Hypothesis]) -> Translation:
        """Return the text of the best hypothesis, with the others."""
        best, *alternatives = (
            Translation(text=self._tokenizer.decode(hypothesis.tokens), hypothesis=hypothesis)
            for hypothesis in hypotheses
        )
        return replace(best, alternatives=tuple(alternatives))

    def encode_clips(self, sequences: Sequence[SourceSequence]) -> FloatArray:
        """Return the mean of the encoder's states over each clip, shape (N, D)."""
        return self._mean_states(self._rows(sequences), self._first)

    def label_log_probs(
        self, sequences: Sequence[SourceSequence], *, blind: bool = False
    ) -> list[FloatArray]:
        """Return the log-probabilities of the CTC labels of each clip, shapes (M, K).

        Label 0 is the blank; the others are numbered as in `spec.ctc.names`, from 1. Blind as in
        `translate`. Convolutions know signs at the paces that they have seen, so their
        probabilities are the mean over some paces of the clip.
        """
        return self._paces(self._rows(sequences, blind=blind), "labels")

    def _paces(
        self, rows: Sequence[Rows], spelt: Spelt, memories: Sequence[Memory] = ()
    ) -> list[FloatArray]:
        plain = (
            self._models.log_probs(memories, spelt) if memories else self._log_probs(rows, spelt)
        )
        if self.spec.model.family != "convolution" or not self.source.has_frames:
            return plain
        paced = [
            self._log_probs([_resample(row, round(pace * len(row)) or 1) for row in rows], spelt)
            for pace in OTHER_PACES
        ]
        return [
            np.log(
                np.mean(
                    [
                        _resample(np.exp(log_probs, dtype=np.float64), len(clip[0]))
                        for log_probs in clip
                    ],
                    axis=0,
                )
            ).astype(np.float32)
            for clip in zip(plain, *paced, strict=True)
        ]

    def _log_probs(self, rows: Sequence[Rows], spelt: Spelt) -> list[FloatArray]:
        by_clip: dict[int, FloatArray] = {}
        for part in _batches([len(row) for row in rows]):
            memories = self._models.encode([rows[i] for i in part])
            with self._named_errors():
                by_clip |= zip(part, self._models.log_probs(memories, spelt), strict=True)
        return [by_clip[index] for index in range(len(rows))]

    @property
    def reads_signs(self) -> bool:
        """Whether the model has the signs of a clip: by its CTC head, or as its source."""
        return self.spec.ctc.kind == "glosses" or self.source.kind == "glosses"

    @property
    def ranks_by_signs(self) -> bool:
        """Whether something that it reads speaks for one sentence and against another."""
        return self.reads_signs and bool(self.sign_costs.costs)

    def _costs(
        self, sequences: Sequence[SourceSequence], memories: Sequence[Memory]
    ) -> list[Callable[[str], float]]:
        """Return what speaks against a text by what is read of each clip, nats.

        That is the likeliest signs by the CTC head alone, or the glosses of the clip.
        """
        if self.source.kind == "glosses":
            every = [
                sequence.glosses if isinstance(sequence, GlossSequence) else ()
                for sequence in sequences
            ]
            return [partial(self.sign_costs.cost, glosses=glosses) for glosses in every]
        names, log_probs = self.spec.ctc.names, self._models.log_probs(memories, "labels")
        read = (search_signs(clip_log_probs, SignSearch()) for clip_log_probs in log_probs)
        return [
            partial(self.sign_costs.cost, glosses=[names[n - 1] for n in labels]) for labels in read
        ]

    def _rank_by_signs(
        self,
        hypotheses: Sequence[Hypothesis],
        price: Callable[[str], float],
        weight: float,
        options: DecodingOptions,
    ) -> list[Hypothesis]:
        """Return the hypotheses of a clip with the cost of its signs, and rank them by it.

        The weight is relative to the mean log-probability of a token, for every length penalty.
        """
        ranked = []
        for hypothesis in hypotheses:
            cost = price(self._tokenizer.decode(hypothesis.tokens))
            scale = max(1, len(hypothesis.tokens)) ** (1 - options.length_penalty)
            ranked.append(
                replace(hypothesis, sign_cost=cost, score=hypothesis.score - weight * cost * scale)
            )
        if weight:  # what did not end stays behind what did
            ranked.sort(key=lambda h: (h.tokens[-1:] == (self._ids.eos,), h.score), reverse=True)
        return ranked

    def encode_signs(self, sequences: Sequence[SourceSequence]) -> FloatArray:
        """Return what look-up compares of clips, shape (N, D + H).

        First the means of the encoder's states, those of each seed's model, then `hand_width`
        numbers: the means of the features of hands over each third of the clip.
        """
        rows = self._rows(sequences)
        states = self._mean_states(rows, self._models).astype(np.float32)
        if not self.hand_columns:
            return states
        hands = [_resample(row, max(len(row), THIRDS))[:, self.hand_columns] for row in rows]
        thirds = [[part.mean(axis=0) for part in np.array_split(row, THIRDS)] for row in hands]
        return np.concatenate((states, np.reshape(thirds, (len(rows), -1))), axis=1)

    @cached_property
    def hand_columns(self) -> list[int]:
        """Which features are of hands; all where the model sees none, none of glosses."""
        return [*self.spec.reader.hand_columns]

    @property
    def hand_width(self) -> int:
        """How many numbers of `encode_signs`, at the end, are of hands."""
        return THIRDS * len(self.hand_columns)

    def _mean_states(self, rows: Sequence[Rows], models: "Ensemble") -> FloatArray:
        states: dict[int, FloatArray] = {}
        for part in _batches([len(row) for row in rows]):
            memories = models.encode([rows[i] for i in part])
            means = np.concatenate([mean_states(memory) for memory in memories], axis=1)
            with self._named_errors():
                check_finite(torch.from_numpy(means))
            states |= zip(part, means, strict=True)
        return np.stack([states[index] for index in range(len(rows))])

    @torch.inference_mode()
    def align(
        self, sequences: Sequence[SourceSequence], translations: Sequence[Translation]
    ) -> list[Alignment]:
        """Return where the model looks when it writes these translations.

        Args:
            translations: One a clip, as `translate` gave them.

        Returns:
            One alignment a clip, in order.

        Raises:
            ValueError: If the model's decoder does not look at the source.
        """
        model, has_time = self.spec.model, self.source.has_frames
        alignments = []
        for sequence, translation in zip(sequences, translations, strict=True):
            tokens, names = translation.hypothesis.tokens, self.spec.reader.labels(sequence)
            src, valid = self._first.pad([self.rows(sequence)])
            ids = torch.tensor([[self._ids.bos, *tokens[:-1]]], device=self._models.device)
            weights = self._model.align(self._model.encode(src, valid), ids)[0]
            alignments.append(
                Alignment(
                    tokens=self._pieces(tokens),
                    step_s=model.subsampling / self.spec.features.fps if has_time else 0.0,
                    weights=weights.float().cpu().numpy(),
                    source=tuple(
                        " ".join(names[i : i + model.subsampling])
                        for i in range(0, len(names), model.subsampling)
                    ),
                    maps=self._model.attention_maps(src, valid, ids).of_clip(0),
                )
            )
        return alignments

    def pieces(self, translation: Translation) -> tuple[str, ...]:
        """Return what each token of a translation adds to its text."""
        return self._pieces(translation.hypothesis.tokens)

    def _pieces(self, tokens: Sequence[int]) -> tuple[str, ...]:
        pieces, before = [], ""
        for end in range(1, len(tokens) + 1):
            # A broken character at the end is one that later tokens complete.
            after = self._tokenizer.decode(tokens[:end]).rstrip(BROKEN)
            pieces.append(after.removeprefix(before))
            before = after
        return tuple(pieces)

    @property
    def _model(self) -> Seq2Seq:
        return self._models.models[0]

    @property
    def _first(self) -> "Ensemble":
        return replace(self._models, models=[self._model])


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Models of one seed or of several, whose probabilities are averaged."""

    models: Sequence[Seq2Seq]
    device: torch.device

    def pad(self, rows: list[Rows]) -> tuple[SourceTensor, Tensor]:
        """Return a batch as the models take it, and which positions are real."""
        src, valid = pad_source(rows)
        if src.is_floating_point():
            src = src.to(next(self.models[0].parameters()).dtype)
        return src.to(self.device), valid.to(self.device)

    @torch.inference_mode()
    def encode(self, rows: list[Rows]) -> list[Memory]:
        """Return the memory of a batch by each model."""
        src, valid = self.pad(rows)
        return [encode_in_parts(model, src, valid) for model in self.models]

    @torch.inference_mode()
    def log_probs(self, memories: Sequence[Memory], spelt: Spelt) -> list[FloatArray]:
        """Return the log-probabilities of what CTC spells of each clip, shapes (M, K)."""
        log_probs_BPK = mean_log_probs(
            [
                model.ctc_logits(memory) if spelt == "labels" else model.text_logits(memory)
                for model, memory in zip(self.models, memories, strict=True)
            ]
        )
        check_finite(log_probs_BPK.logsumexp(dim=-1))
        log_probs = log_probs_BPK.cpu().numpy()
        lengths = memories[0].valid.sum(dim=1).tolist()
        return [log_probs[row, :length] for row, length in enumerate(lengths)]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the indices of clips of like length, as many as may be encoded together."""
    if not lengths:
        return
    for group in group_by_length(lengths, MAX_FRAMES, None):
        yield from (group[i : i + MAX_CLIPS] for i in range(0, len(group), MAX_CLIPS))


def _resample(rows: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    return interpolate(rows, np.linspace(0, len(rows) - 1, count))


def mean_states(memory: Memory) -> FloatArray:
    """Return the mean of the states of each clip over its real positions, shape (B, D)."""
    real = memory.states.float().masked_fill(~memory.valid[..., None], 0)
    means = real.sum(dim=1) / memory.valid.sum(dim=1, keepdim=True)
    return np.asarray(means.cpu().numpy())


def encode_in_parts(model: Seq2Seq, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> Memory:
    """Return what `model.encode` does, for inference.

    On a CPU some clips are encoded at a time. A GPU gets all together, and so does a recurrent
    model, which reads its weights at every frame of each part.
    """
    count = max(1, PART_FRAMES // src.shape[1])
    if src.device.type != "cpu" or not model.encodes_in_parts or count >= len(src):
        return model.encode(src, src_valid)
    pairs = zip(torch.split(src, count), torch.split(src_valid, count), strict=True)
    parts = [model.encode(*pair) for pair in pairs]
    return Memory(
        torch.cat([part.states for part in parts]), torch.cat([part.valid for part in parts])
    )
