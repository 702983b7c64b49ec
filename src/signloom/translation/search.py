"""Beam search over any model family.

Shape letters: B clips in work, W beams a clip, R rows (B times W), T tokens so far, V vocabulary,
K tokens or beams taken of each row or clip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from signloom.models.seq2seq import Memory, Seq2Seq
from signloom.translation.options import DecodingOptions
from signloom.translation.tokens import (
    InternalLanguageModel,
    best_tokens,
    mean_log_probs,
)

# A batch is packed again when at most this share of its clips is still open: every packing copies
# the keys of those that stay, every clip that lingers is computed in vain.
PACKED_BELOW = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """The control tokens of a vocabulary; `first` must come first, if it is one."""

    pad: int
    bos: int
    eos: int
    first: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A translation in tokens."""

    tokens: tuple[int, ...]  # without bos; ends in eos unless the search ran out of length
    log_prob: float
    """Sum of the tokens' log-probabilities by the decoder, nats; of several the mean of all."""
    score: float
    """What hypotheses are ranked by: `log_prob`, less the decoder's own language model where that
    is used, after the length penalty, and less what the signs say against it."""
    sign_cost: float = 0.0  # what the signs say against it, nats; `SignCoverage.cost`


@torch.inference_mode()
def search(
    model: Seq2Seq,
    memory: Memory,
    ids: SpecialIds,
    options: DecodingOptions,
    *,
    n_best: int = 1,
    further: Sequence[tuple[Seq2Seq, Memory]] = (),
) -> list[list[Hypothesis]]:
    """Find the best hypotheses of each clip by beam search.

    A beam that ends becomes a hypothesis and leaves the search with its slot: a clip's beams,
    open and ended, are never more than `beam_size`, and beam size 1 is greedy search. A clip is
    done when nothing is open, or nothing open can still enter its n best.

    Args:
        model: In evaluation mode.
        memory: Encoded source of the clips.
        ids: Control tokens; pad and bos are never produced.
        n_best: Hypotheses returned of each clip, at most `beam_size`.
        further: Models of other seeds with their memories of the clips: a token has the mean of
            the probabilities that all give it. The internal language model is the first's.

    Returns:
        For each clip, in order, its hypotheses by falling score; those that did not end within
        `max_tokens` come after those that did. All differ. There are fewer than `n_best` where
        the vocabulary has no more to say, but always one.

    Raises:
        ValueError: If more hypotheses are asked for than beams are followed.
    """
    if not 1 <= n_best <= options.beam_size:
        raise ValueError(f"n_best: found {n_best}, expected 1 to beam_size ({options.beam_size})")
    weight = options.internal_lm_weight
    scorers = [InternalLanguageModel(model, memory, weight)] if weight else []
    return _BeamSearch([(model, memory), *further], ids, options, n_best, scorers).run()


@dataclass(frozen=True, slots=True, eq=False)
class _Beams:
    """Beams of the clips in work, all of the same length."""

    tokens: Int[Tensor, "B W T"]  # with bos
    parents: Int[Tensor, "B W"]  # which beam of the step before each continues
    log_probs: Float[Tensor, "B W"]
    gains: Float[Tensor, "B W"]  # the same, as the scorers change them
    totals: Float[Tensor, "B W"]  # what orders them; minus infinity: an empty slot

    def take(self, beams: Int[Tensor, "B K"]) -> "_Beams":
        """Return the given beams of each clip."""
        history = beams[..., None].expand(-1, -1, self.tokens.shape[2])
        return _Beams(
            self.tokens.gather(1, history),
            self.parents.gather(1, beams),
            self.log_probs.gather(1, beams),
            self.gains.gather(1, beams),
            self.totals.gather(1, beams),
        )

    def select(self, rows: Int[Tensor, " R"]) -> "_Beams":
        """Return the beams of the given clips."""
        return _Beams(
            self.tokens.index_select(0, rows),
            self.parents.index_select(0, rows),
            self.log_probs.index_select(0, rows),
            self.gains.index_select(0, rows),
            self.totals.index_select(0, rows),
        )


class _BeamSearch:
    """One search over a batch of clips."""

    def __init__(
        self,
        models: Sequence[tuple[Seq2Seq, Memory]],
        ids: SpecialIds,
        options: DecodingOptions,
        n_best: int,
        scorers: Sequence[InternalLanguageModel],
    ) -> None:
        states = models[0][1].states
        clips, device = len(states), states.device
        self._ids, self._options, self._n_best = ids, options, n_best
        self._models = [model for model, _ in models]
        self._states = [model.start(memory) for model, memory in models]
        nothing = torch.zeros(clips, 1, device=device)
        bos = torch.full((clips, 1, 1), ids.bos, device=device)
        self._scorers = scorers
        self._beams = _Beams(bos, nothing.long(), nothing, nothing, nothing)
        self._clips = list(range(clips))  # the clip in each row of the batch
        self._ended: list[list[Hypothesis]] = [[] for _ in range(clips)]
        self._done: dict[int, list[Hypothesis]] = {}  # of the clips that are done

    def run(self) -> list[list[Hypothesis]]:
        """Search until every clip is done."""
        for step in range(1, self._options.max_tokens + 1):
            last = self._beams.tokens[:, :, -1].flatten()
            self._beams = self._end_beams(self._grow(self._step(last), last, step))
            self._finish_clips(is_last=step == self._options.max_tokens)
            if len(self._done) == len(self._ended):
                break
            self._states = [state.branch(self._beams.parents) for state in self._states]
            for scorer in self._scorers:
                scorer.branch(self._beams.parents)
            self._drop_finished()
        return [self._done[clip] for clip in range(len(self._ended))]

    def _step(self, last: Int[Tensor, " R"]) -> Float[Tensor, "R V"]:
        """Return the logits of the next tokens."""
        every = []
        for number, model in enumerate(self._models):
            logits, self._states[number] = model.step(last, self._states[number])
            every.append(logits)
        return mean_log_probs(every) if len(every) > 1 else every[0]

    def _grow(self, logits: Float[Tensor, "R V"], last: Int[Tensor, " R"], step: int) -> _Beams:
        """Return the best continuations of all beams, each clip's best first."""
        log_probs, gains, tokens = self._candidates(logits, last, step)
        clips, width, count = tokens.shape
        parents = torch.arange(width, device=tokens.device).repeat_interleave(count)
        parents = parents.expand(clips, -1)
        log_probs = self._beams.log_probs.gather(1, parents) + log_probs.flatten(1)
        gains = self._beams.gains.gather(1, parents) + gains.flatten(1)
        is_empty = self._beams.totals.gather(1, parents) == -torch.inf
        totals = gains.masked_fill(is_empty, -torch.inf)
        tokens = tokens.flatten(1)
        best = totals.topk(min(self._options.beam_size, totals.shape[1]), dim=1).indices
        parents, tokens = parents.gather(1, best), tokens.gather(1, best)
        history = parents[..., None].expand(-1, -1, self._beams.tokens.shape[2])
        return _Beams(
            torch.cat((self._beams.tokens.gather(1, history), tokens[..., None]), dim=2),
            parents,
            log_probs.gather(1, best),
            gains.gather(1, best),
            totals.gather(1, best),
        )

    def _candidates(
        self, logits: Float[Tensor, "R V"], last: Int[Tensor, " R"], step: int
    ) -> tuple[Float[Tensor, "B W K"], Float[Tensor, "B W K"], Int[Tensor, "B W K"]]:
        """Return log-probability, gain in rank and token of what may continue each beam.

        The gain is the log-probability, as the scorers change it.
        """
        clips, width, _ = self._beams.tokens.shape
        banned = [self._ids.pad, self._ids.bos]
        if step == 1 and self._ids.first is not None:
            logits.fill_(-torch.inf)[:, self._ids.first] = 0.0
        if step < self._options.min_tokens:
            banned.append(self._ids.eos)
        log_probs = logits.float().log_softmax(dim=-1) if self._scorers else logits
        ranked = log_probs
        for scorer in self._scorers:
            ranked = scorer.rank(ranked, last)
        count = min(self._options.beam_size, logits.shape[1])
        gains, tokens = best_tokens(ranked, count, banned=banned)
        log_probs = log_probs.gather(1, tokens) if self._scorers else gains
        return (
            log_probs.view(clips, width, -1),
            gains.view(clips, width, -1),
            tokens.view(clips, width, -1),
        )

    def _end_beams(self, grown: _Beams) -> _Beams:
        """Make hypotheses of the beams that end; return those that stay open."""
        room = [
            0 if clip in self._done else self._options.beam_size - len(self._ended[clip])
            for clip in self._clips
        ]
        slots = torch.arange(grown.totals.shape[1], device=grown.totals.device)
        is_full = slots >= torch.tensor(room, device=slots.device)[:, None]
        grown.totals.masked_fill_(is_full, -torch.inf)
        is_end = (grown.tokens[..., -1] == self._ids.eos) & grown.totals.isfinite()
        for row, slot in torch.nonzero(is_end).tolist():
            self._ended[self._clips[row]].append(self._hypothesis(grown, row, slot))
        grown.totals.masked_fill_(is_end, -torch.inf)
        width = max(1, int(grown.totals.isfinite().sum(dim=1).max()))
        return grown.take(grown.totals.topk(width, dim=1).indices)

    def _finish_clips(self, *, is_last: bool) -> None:
        """Finish the clips that have nothing left to gain.

        A total can only fall, so divided by the greatest possible length it bounds the score that
        an open beam can end with.
        """
        beams, penalty = self._beams, self._options.length_penalty
        hopes = (beams.totals.amax(dim=1) / self._options.max_tokens**penalty).tolist()
        for row, (clip, hope) in enumerate(zip(self._clips, hopes, strict=True)):
            if clip in self._done:
                continue
            ended = sorted(self._ended[clip], key=_score, reverse=True)
            is_safe = len(ended) >= self._n_best and ended[self._n_best - 1].score >= hope
            if is_last or is_safe or hope == -torch.inf:
                self._done[clip] = (ended + self._unended(beams, row))[: self._n_best]

    def _unended(self, beams: _Beams, row: int) -> list[Hypothesis]:
        slots = torch.nonzero(beams.totals[row].isfinite()).flatten().tolist()
        hypotheses = [self._hypothesis(beams, row, slot) for slot in slots]
        return sorted(hypotheses, key=_score, reverse=True)

    def _hypothesis(self, beams: _Beams, row: int, slot: int) -> Hypothesis:
        tokens = beams.tokens[row, slot, 1:].tolist()
        total = float(beams.totals[row, slot])
        return Hypothesis(
            tokens=tuple(tokens),
            log_prob=float(beams.log_probs[row, slot]),
            score=total / max(1, len(tokens)) ** self._options.length_penalty,
        )

    def _drop_finished(self) -> None:
        """Let finished clips leave the batch, once there are enough of them."""
        rows = [row for row, clip in enumerate(self._clips) if clip not in self._done]
        if len(rows) <= PACKED_BELOW * len(self._clips):
            indices = torch.tensor(rows, device=self._beams.totals.device)
            self._states = [state.select(indices) for state in self._states]
            self._beams = self._beams.select(indices)
            for scorer in self._scorers:
                scorer.select(indices)
            self._clips = [self._clips[row] for row in rows]


def _score(hypothesis: Hypothesis) -> float:
    return hypothesis.score
