import itertools
import math

import pytest
import torch

from signloom.errors import UserError
from signloom.models.seq2seq import Memory, Seq2Seq
from signloom.translation.options import DecodingOptions
from signloom.translation.search import Hypothesis, SpecialIds, search
from signloom.translation.tokens import GROUP, PLAUSIBLE, best_tokens
from tests import tiny

IDS = SpecialIds(pad=0, bos=1, eos=2)
LENGTHS = [9, 5, 12, 7]
FAMILIES = ["transformer", "conformer", "lstm", "decoder_only"]
# Sums of float32 in another order: they differ by some 1e-7 of their size, and of the logits'.
CLOSE = {"rel": 1e-6, "abs": 1e-4}


def memory_of(model: Seq2Seq, lengths: list[int] = LENGTHS) -> Memory:
    return model.encode(*tiny.source(1, lengths))


def options(beam_size: int, **changes: float) -> DecodingOptions:
    return tiny.decoding(beam_size=beam_size, **changes)


def teacher_forced(model: Seq2Seq, memory: Memory, clip: int, tokens: tuple[int, ...]) -> float:
    """Return the log-probability of tokens given the source, pad and bos excluded."""
    row = memory.select(torch.tensor([clip]))
    prefix = torch.tensor([[IDS.bos, *tokens[:-1]]])
    log_probs = model.decode(row, prefix).log_softmax(dim=-1)[0]
    return sum(log_probs[step, token].item() for step, token in enumerate(tokens))


def small_model(vocab: int = 5, **changes: object) -> Seq2Seq:
    """Return a model with few tokens and sharp opinions, so that enumeration is possible."""
    model = tiny.model(7, **changes)
    with torch.no_grad():
        output = model.decoder.output
        output.weight.mul_(4.0)
        output.weight[vocab:] = 0
        output.bias[vocab:] = -1e9
    return model


@torch.inference_mode()
def greedy(model: Seq2Seq, memory: Memory, clip: int, max_tokens: int) -> tuple[int, ...]:
    """Return the plainest greedy search, recomputing the whole prefix at each step."""
    row = memory.select(torch.tensor([clip]))
    tokens: list[int] = []
    while len(tokens) < max_tokens and IDS.eos not in tokens:
        logits = model.decode(row, torch.tensor([[IDS.bos, *tokens]]))[0, -1]
        logits[[IDS.pad, IDS.bos]] = -torch.inf
        tokens.append(int(logits.argmax()))
    return tuple(tokens)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_seeds_as_one_rank_by_the_mean_of_their_probabilities(family: str, beam_size: int) -> None:
    """Compared with the mean of probabilities that are computed from whole prefixes."""
    models = [tiny.model(seed, family=family) for seed in (2, 3, 4)]
    memories = [memory_of(model) for model in models]
    first, *further = zip(models, memories, strict=True)
    hypotheses = search(*first, IDS, options(beam_size, length_penalty=0.0), further=further)
    for clip, (best,) in enumerate(hypotheses):
        prefix = torch.tensor([[IDS.bos, *best.tokens[:-1]]])
        with torch.inference_mode():
            distributions = [
                model.decode(memory.select(torch.tensor([clip])), prefix)[0].softmax(dim=-1)
                for model, memory in zip(models, memories, strict=True)
            ]
        mean = torch.stack(distributions).mean(dim=0)
        chosen = [mean[step, token].log().item() for step, token in enumerate(best.tokens)]
        assert best.score == pytest.approx(sum(chosen), **CLOSE)
        assert best.log_prob == best.score  # the doubt is that of all
        if beam_size == 1:
            mean[:, [IDS.pad, IDS.bos]] = 0
            assert mean.argmax(dim=1).tolist() == list(best.tokens)


@pytest.mark.parametrize("subsampling", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_beam_of_one_equals_greedy_search_from_scratch(family: str, subsampling: int) -> None:
    model = tiny.model(2, family=family, subsampling=subsampling)
    memory = memory_of(model)
    hypotheses = search(model, memory, IDS, options(1))
    assert [best.tokens for (best,) in hypotheses] == [
        greedy(model, memory, c, 12) for c in range(4)
    ]


def every_translation(longest: int, shortest: int = 1) -> list[tuple[int, ...]]:
    """Return all that a model of two words can say, its end included."""
    return [
        (*body, IDS.eos)
        for length in range(shortest, longest + 1)
        for body in itertools.product((3, 4), repeat=length - 1)
    ]


@pytest.mark.parametrize("shortest", [0, 3])
@pytest.mark.parametrize(
    "penalty",
    [0.0, 1.0, *(pytest.param(penalty, marks=pytest.mark.slow) for penalty in (0.6, 2.0))],
)
@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_a_wide_beam_equals_full_enumeration(family: str, penalty: float, shortest: int) -> None:
    model = small_model(family=family)
    memory = memory_of(model)
    options = tiny.decoding(beam_size=64, length_penalty=penalty, min_tokens=shortest, max_tokens=4)
    hypotheses = search(model, memory, IDS, options, n_best=6)
    for clip in range(len(LENGTHS)):
        scores = {
            tokens: teacher_forced(model, memory, clip, tokens) / len(tokens) ** penalty
            for tokens in every_translation(4, max(1, shortest))
        }
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:6]
        assert [h.tokens for h in hypotheses[clip]] == best
        assert [h.score for h in hypotheses[clip]] == pytest.approx(
            [scores[t] for t in best], **CLOSE
        )


@pytest.mark.parametrize(
    ("family", "shortest"),
    [("transformer", 0), ("transformer", 3), ("lstm", 0), ("decoder_only", 0)],
)
@torch.inference_mode()
def test_a_beam_less_the_internal_lm_equals_full_enumeration(family: str, shortest: int) -> None:
    model = small_model(family=family)
    if shortest:
        model.decoder.output.bias[IDS.eos] += 8  # which is banned first, and nothing else plausible
    memory = memory_of(model)
    nothing = memory.select(torch.tensor([0])).emptied()
    options = tiny.decoding(beam_size=64, min_tokens=shortest, max_tokens=4, internal_lm_weight=0.4)
    hypotheses = search(model, memory, IDS, options, n_best=3)
    changed = 0
    for clip in range(len(LENGTHS)):
        row = memory.select(torch.tensor([clip]))
        scores = {}
        for tokens in every_translation(4, max(1, shortest)):
            prefix = torch.tensor([[IDS.bos, *tokens[:-1]]])
            plain_log_probs = model.decode(row, prefix).log_softmax(dim=-1)[0]
            raised = -0.4 * model.decode(nothing, prefix).log_softmax(dim=-1)[0]
            for step in range(
                len(plain_log_probs)
            ):  # what is unlikely gets no more than what is likely
                is_likely = plain_log_probs[step] >= plain_log_probs[step].max() + math.log(
                    PLAUSIBLE
                )
                raised[step, ~is_likely] = raised[step, is_likely].min()
            less = plain_log_probs + raised
            gains = less.log_softmax(dim=-1)
            total = sum(gains[step, token].item() for step, token in enumerate(tokens))
            scores[tokens] = total / len(tokens)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
        assert [h.tokens for h in hypotheses[clip]] == best
        assert [h.score for h in hypotheses[clip]] == pytest.approx(
            [scores[t] for t in best], **CLOSE
        )
        for hypothesis in hypotheses[
            clip
        ]:  # confidence is measured by what no option of the search changes
            plain = teacher_forced(model, memory, clip, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(plain, **CLOSE)
            changed += hypothesis.score != pytest.approx(plain / len(hypothesis.tokens), **CLOSE)
    assert changed


@pytest.mark.parametrize("weight", ["", "internal_lm_weight"])
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_company_and_order_change_no_hypothesis(family: str, beam_size: int, weight: str) -> None:
    model = tiny.model(0, family=family)
    with torch.no_grad():
        model.decoder.output.weight.mul_(8.0)  # clips end, and leave, at different times
        if weight == "internal_lm_weight":
            model.decoder.output.bias[IDS.eos] += 6  # as they would not, less what each expects
        if family == "lstm":
            model.decoder.output.bias[IDS.eos] += 4
    src, valid = tiny.source(1, LENGTHS)
    options = tiny.decoding(beam_size=beam_size, **({weight: 0.4} if weight else {}))

    def translate(rows: list[int]) -> list[list[Hypothesis]]:
        longest = max(LENGTHS[row] for row in rows)
        memory = model.encode(src[rows, :longest], valid[rows, :longest])
        return search(model, memory, IDS, options, n_best=beam_size)

    together, turned = translate([0, 1, 2, 3]), translate([2, 3, 1, 0])
    goes_on = family in ("transformer", "decoder_only") and weight != "internal_lm_weight"
    if not goes_on:  # to the limit, all clips
        assert len({len(beam[0].tokens) for beam in together}) > 1
    for row, searches in enumerate(
        zip(together, map(turned.__getitem__, (3, 2, 0, 1)), strict=True)
    ):
        (alone,) = translate([row])
        for hypotheses in searches:
            assert [h.tokens for h in hypotheses] == [h.tokens for h in alone]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in alone], **CLOSE)


def test_an_endless_model_stops_at_the_limit() -> None:
    model = tiny.model(2)
    with torch.no_grad():
        model.decoder.output.bias[IDS.eos] = -1e9
    hypotheses = search(model, memory_of(model), IDS, options(3, max_tokens=5))
    assert [len(best.tokens) for (best,) in hypotheses] == [5] * 4


@pytest.mark.parametrize("beam_size", [1, 3, 8])
@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_the_n_best_are_different_and_sorted_with_the_teacher_forced_log_probability(
    family: str, beam_size: int
) -> None:
    model = tiny.model(2, family=family)
    memory = memory_of(model)
    for clip, hypotheses in enumerate(
        search(model, memory, IDS, options(beam_size), n_best=beam_size)
    ):
        assert len(hypotheses) == len({h.tokens for h in hypotheses}) == beam_size
        ended = [h for h in hypotheses if h.tokens[-1] == IDS.eos]
        assert hypotheses[: len(ended)] == ended  # those that never ended stand behind
        for part in (ended, hypotheses[len(ended) :]):
            assert [h.score for h in part] == sorted((h.score for h in part), reverse=True)
        for hypothesis in hypotheses:
            expected = teacher_forced(model, memory, clip, hypothesis.tokens)
            assert hypothesis.log_prob == pytest.approx(expected, **CLOSE)
            assert hypothesis.score == pytest.approx(expected / len(hypothesis.tokens), **CLOSE)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_the_search_stops_when_no_open_beam_can_win(
    penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, steps = tiny.model(2), list[int]()
    with torch.no_grad():
        model.decoder.output.bias[IDS.eos] += 20
    step, memory = model.step, memory_of(model)
    monkeypatch.setattr(model, "step", lambda *arguments: steps.append(1) or step(*arguments))
    hypotheses = search(model, memory, IDS, options(3, length_penalty=penalty, max_tokens=50))
    assert {best.tokens for (best,) in hypotheses} == {(IDS.eos,)}
    assert len(steps) == 1


@pytest.mark.parametrize("vocab", [7, GROUP * 3, GROUP * 40 + 5])
@pytest.mark.parametrize("count", [1, 5])
def test_the_best_tokens_are_those_of_the_whole_log_softmax(vocab: int, count: int) -> None:
    logits = 3 * torch.randn(11, vocab, generator=torch.Generator().manual_seed(1))
    logits[3, -1] = 50.0  # behind the last whole group
    expected, tokens = logits.log_softmax(dim=-1).topk(count, dim=-1)
    best = best_tokens(logits.clone(), count, banned=[])
    torch.testing.assert_close(best[0], expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(best[1], tokens)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_tokens": 13}, "min_tokens: found 13"),
        ({"internal_lm_weight": 1.5}, "internal_lm_weight: found 1.5"),
        ({"temperature": 1.0}, "temperature is no option any more"),
    ],
)
def test_impossible_options_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tiny.decoding(**changes)
