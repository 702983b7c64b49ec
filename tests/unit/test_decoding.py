import itertools

import pytest
import torch

from signloom.decoding import DecodingOptions, SpecialIds, search
from signloom.models.seq2seq import Memory, Seq2Seq
from tests import tiny

IDS = SpecialIds(pad=0, bos=1, eos=2)
LENGTHS = [9, 5, 12, 7]
FAMILIES = ["transformer", "conformer", "lstm"]


def memory_of(model: Seq2Seq, lengths: list[int] = LENGTHS) -> Memory:
    return model.encode(*tiny.source(1, lengths))


def options(
    beam_size: int, *, length_penalty: float = 1.0, max_tokens: int = 12
) -> DecodingOptions:
    return DecodingOptions(
        beam_size=beam_size, length_penalty=length_penalty, max_tokens=max_tokens
    )


def teacher_forced(model: Seq2Seq, memory: Memory, clip: int, tokens: tuple[int, ...]) -> float:
    """Return the log-probability of tokens given the source, pad and bos excluded."""
    row = memory.select(torch.tensor([clip]))
    given = torch.tensor([[IDS.bos, *tokens[:-1]]])
    log_probs = model.decode(row, given).log_softmax(dim=-1)[0]
    return sum(log_probs[step, token].item() for step, token in enumerate(tokens))


def small_model(vocab: int = 5, **changes: object) -> Seq2Seq:
    """Return a model with few tokens and sharp opinions, so that enumeration is possible."""
    model = tiny.model(7, **changes)
    with torch.no_grad():
        model.decoder.output.weight.mul_(4.0)
        model.decoder.output.weight[vocab:] = 0
        model.decoder.output.bias[vocab:] = -1e9
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


@pytest.mark.parametrize("subsampling", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_beam_of_one_equals_greedy_with_the_prefix_recomputed(
    family: str, subsampling: int
) -> None:
    model = tiny.model(2, family=family, subsampling=subsampling)
    memory = memory_of(model)
    found = search(model, memory, IDS, options(1))
    assert [h.tokens for h in found] == [greedy(model, memory, c, 12) for c in range(4)]


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_wide_beam_equals_full_enumeration(penalty: float) -> None:
    model = small_model()
    memory = memory_of(model)
    longest = 4
    with torch.inference_mode():
        found = search(model, memory, IDS, options(200, length_penalty=penalty, max_tokens=longest))
        for clip in range(len(LENGTHS)):
            scores = {}
            for length in range(1, longest + 1):
                for body in itertools.product((3, 4), repeat=length - 1):
                    tokens = (*body, IDS.eos)
                    log_prob = teacher_forced(model, memory, clip, tokens)
                    scores[tokens] = log_prob / length**penalty
            best = max(scores, key=scores.__getitem__)
            assert found[clip].tokens == best
            assert found[clip].score == pytest.approx(scores[best], abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_log_probability_is_the_teacher_forced_one(family: str, beam_size: int) -> None:
    model = tiny.model(2, family=family)
    memory = memory_of(model)
    with torch.inference_mode():
        for clip, found in enumerate(search(model, memory, IDS, options(beam_size))):
            expected = teacher_forced(model, memory, clip, found.tokens)
            assert found.log_prob == pytest.approx(expected, abs=1e-4)
            assert found.score == pytest.approx(expected / len(found.tokens), abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_company_in_the_batch_changes_no_hypothesis(beam_size: int) -> None:
    model = tiny.model(2)
    src, valid = tiny.source(1, LENGTHS)
    together = search(model, model.encode(src, valid), IDS, options(beam_size))
    for row, length in enumerate(LENGTHS):
        memory = model.encode(src[row : row + 1, :length], valid[row : row + 1, :length])
        (alone,) = search(model, memory, IDS, options(beam_size))
        assert alone.tokens == together[row].tokens


def test_wider_beams_find_no_worse_scores_without_penalty() -> None:
    model = small_model()
    with torch.no_grad():
        model.decoder.output.bias[IDS.eos] += 20.0  # so that the narrow search ends, too
    memory = memory_of(model)
    narrow = search(model, memory, IDS, options(1, length_penalty=0.0, max_tokens=6))
    wide = search(model, memory, IDS, options(64, length_penalty=0.0, max_tokens=6))
    pairs = [(n, w) for n, w in zip(narrow, wide, strict=True) if n.tokens[-1] == IDS.eos]
    assert pairs
    assert all(w.score >= n.score - 1e-6 for n, w in pairs)


def test_an_endless_model_stops_at_the_limit() -> None:
    model = tiny.model(2)
    with torch.no_grad():
        model.decoder.output.bias[IDS.eos] = -1e9
    found = search(model, memory_of(model), IDS, options(3, max_tokens=5))
    assert [len(hypothesis.tokens) for hypothesis in found] == [5] * 4


def test_pad_and_bos_are_never_produced() -> None:
    model = tiny.model(2)
    with torch.no_grad():
        model.decoder.output.bias[[IDS.pad, IDS.bos]] = 1e6
    for found in search(model, memory_of(model), IDS, options(3)):
        assert not {IDS.pad, IDS.bos} & set(found.tokens)


@pytest.mark.parametrize("change", [{"beam_size": 0}, {"max_tokens": 0}, {"length_penalty": -1.0}])
def test_impossible_options_are_refused(change: dict[str, float]) -> None:
    values = {"beam_size": 2, "length_penalty": 1.0, "max_tokens": 3} | change
    with pytest.raises(ValueError, match=next(iter(change))):
        DecodingOptions(**values)  # type: ignore[arg-type]
