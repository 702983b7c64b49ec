"""An encoded source comes in, the most likely target tokens go out; knows no model family.

Shape letters: B clips, W beam width, R = rows in work (clips still open times W), T tokens so far,
V vocabulary.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from signloom.models.seq2seq import Memory, Seq2Seq


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingOptions:
    """How target tokens are searched; `evaluate.decoding` in params.yaml."""

    beam_size: int  # hypotheses kept at each step; 1 is greedy
    length_penalty: float  # score = log_prob / tokens ** this; 0 favours short, 1 is the mean
    max_tokens: int  # longest translation, eos included, >= 1

    def __post_init__(self) -> None:
        for name in ("beam_size", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty: found {self.length_penalty}, expected 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialIds:
    """The control tokens of a vocabulary."""

    pad: int
    bos: int
    eos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A translation in tokens.

    Attributes:
        tokens: Without bos; ends in eos unless the search ran out of length.
        log_prob: Sum of the tokens' log-probabilities, nats.
        score: `log_prob` after the length penalty.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class _Beams:
    """The open clips of a search; everything is in rows of (clip, beam)."""

    tokens: Int[Tensor, "B W T"]
    log_probs: Float[Tensor, "B W"]
    lengths: Int[Tensor, "B W"]  # tokens up to eos
    finished: Bool[Tensor, "B W"]

    def scores(self, penalty: float) -> Float[Tensor, "B W"]:
        return self.log_probs / self.lengths.clamp(min=1) ** penalty


@torch.inference_mode()
def search(
    model: Seq2Seq, memory: Memory, ids: SpecialIds, options: DecodingOptions
) -> list[Hypothesis]:
    """Find the best hypothesis of each clip by beam search.

    A hypothesis that has ended keeps its place in the beam and competes by its log-probability;
    the length penalty decides among those that ended. A clip is closed when all its hypotheses
    have ended, or when none still open can overtake the best one that has. Its rows then leave
    the batch.

    Args:
        model: In evaluation mode.
        memory: Encoded source of B clips.
        ids: Control tokens; pad and bos are never produced.
        options: Width, penalty and limit.

    Returns:
        One hypothesis a clip, in order.
    """
    clips, width = len(memory.states), options.beam_size
    device = memory.states.device
    rows = torch.arange(clips, device=device).repeat_interleave(width)
    state = model.start(memory).select(rows)
    beams = _first_beams(clips, width, device)
    last = torch.full((clips * width,), ids.bos, device=device)
    open_clips = list(range(clips))
    best: dict[int, Hypothesis] = {}
    for step in range(1, options.max_tokens + 1):
        logits, state = model.step(last, state)
        origin, beams = _advance(beams, logits, ids, step)
        closed = _is_closed(beams, options)
        if step == options.max_tokens:
            closed = torch.ones_like(closed)
        for index in torch.nonzero(closed).flatten().tolist():
            best[open_clips[index]] = _best(beams, index, options.length_penalty)
        keep = ~closed
        if not keep.any():
            break
        open_clips = [clip for clip, kept in zip(open_clips, keep.tolist(), strict=True) if kept]
        state = state.select(origin[keep].flatten())
        beams = _Beams(
            beams.tokens[keep], beams.log_probs[keep], beams.lengths[keep], beams.finished[keep]
        )
        last = beams.tokens[:, :, -1].flatten()
    return [best[clip] for clip in range(clips)]


def _first_beams(clips: int, width: int, device: torch.device) -> _Beams:
    """All beams of a clip start alike, so only the first may be extended."""
    log_probs = torch.full((clips, width), -torch.inf, device=device)
    log_probs[:, 0] = 0
    return _Beams(
        tokens=torch.empty(clips, width, 0, dtype=torch.int64, device=device),
        log_probs=log_probs,
        lengths=torch.zeros(clips, width, dtype=torch.int64, device=device),
        finished=torch.zeros(clips, width, dtype=torch.bool, device=device),
    )


def _advance(
    beams: _Beams, logits: Float[Tensor, "R V"], ids: SpecialIds, step: int
) -> tuple[Int[Tensor, "B W"], _Beams]:
    """Extend every open beam by its best tokens and keep the best W of each clip.

    Returns:
        The row that each kept beam continues, and the beams.
    """
    clips, width = beams.log_probs.shape
    log_probs = logits.float().log_softmax(dim=-1).view(clips, width, -1)
    log_probs[..., [ids.pad, ids.bos]] = -torch.inf
    # A beam that has ended has one continuation, which costs nothing.
    log_probs[beams.finished] = -torch.inf
    log_probs[..., ids.eos] = torch.where(beams.finished, 0.0, log_probs[..., ids.eos])
    vocab = log_probs.shape[-1]
    total = (beams.log_probs[..., None] + log_probs).flatten(1)
    kept, chosen = total.topk(width, dim=1)
    parent, token = chosen // vocab, chosen % vocab
    was_finished = beams.finished.gather(1, parent)
    history = beams.tokens.gather(1, parent[..., None].expand(-1, -1, beams.tokens.shape[2]))
    after = _Beams(
        tokens=torch.cat((history, token[..., None]), dim=2),
        log_probs=kept,
        lengths=torch.where(was_finished, beams.lengths.gather(1, parent), step),
        finished=was_finished | (token == ids.eos),
    )
    return parent + torch.arange(clips, device=parent.device)[:, None] * width, after


def _is_closed(beams: _Beams, options: DecodingOptions) -> Bool[Tensor, " B"]:
    """Return which clips have nothing left to gain.

    An open beam's log-probability can only fall; divided by the longest length it could reach it
    bounds the score it could end with.
    """
    scores = beams.scores(options.length_penalty)
    ended = scores.masked_fill(~beams.finished, -torch.inf).amax(dim=1)
    bound = beams.log_probs / options.max_tokens**options.length_penalty
    hope = bound.masked_fill(beams.finished, -torch.inf).amax(dim=1)
    return beams.finished.all(dim=1) | (ended >= hope)


def _best(beams: _Beams, clip: int, penalty: float) -> Hypothesis:
    """Return the best ended hypothesis of a clip, or the best open one if none has ended."""
    scores = beams.scores(penalty)[clip]
    # With fewer tokens than beams some beams are empty places: log-probability minus infinity.
    finished = beams.finished[clip] & beams.log_probs[clip].isfinite()
    eligible = scores.masked_fill(~finished, -torch.inf) if finished.any() else scores
    beam = int(eligible.argmax())
    length = int(beams.lengths[clip, beam])
    return Hypothesis(
        tokens=tuple(beams.tokens[clip, beam, :length].tolist()),
        log_prob=float(beams.log_probs[clip, beam]),
        score=float(scores[beam]),
    )
