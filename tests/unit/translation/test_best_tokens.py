import pytest
import torch

from signloom.translation.search import GROUP, best_tokens, repeats


@pytest.mark.parametrize("vocab", [7, GROUP * 3, GROUP * 40 + 5])
@pytest.mark.parametrize("count", [1, 5])
def test_the_best_tokens_are_those_of_the_whole_log_softmax(vocab: int, count: int) -> None:
    logits = 3 * torch.randn(11, vocab, generator=torch.Generator().manual_seed(1))
    logits[3, -1] = 50.0  # behind the last whole group
    expected, tokens = logits.log_softmax(dim=-1).topk(count, dim=-1)
    found = best_tokens(logits.clone(), count, banned=[])
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(found[1], tokens)


def test_what_is_banned_keeps_its_share_and_is_never_chosen() -> None:
    logits = torch.tensor([[5.0, 1.0, 3.0, 2.0], [5.0, 1.0, 3.0, 2.0]])
    expected = logits.log_softmax(dim=-1)
    pairs = torch.tensor([[1, 2]])
    found, tokens = best_tokens(logits, 2, banned=[0], banned_pairs=pairs)
    assert tokens.tolist() == [[2, 3], [3, 1]]
    torch.testing.assert_close(found, expected.gather(1, tokens))


@pytest.mark.parametrize(
    ("history", "size", "expected"),
    [
        ([4, 5, 6, 4, 5], 3, [6]),
        ([4, 5, 6, 4, 5], 2, [6]),
        ([4, 5, 6, 4, 5], 4, []),
        ([4, 4], 2, [4]),
        ([4, 5, 6], 1, [4, 5, 6]),
        ([4], 3, []),
    ],
)
def test_a_token_that_would_repeat_a_run_is_named(
    history: list[int], size: int, expected: list[int]
) -> None:
    other = list(range(10, 10 + len(history)))
    pairs = repeats(torch.tensor([other, history]), size).tolist()
    assert [token for row, token in pairs if row == 1] == expected
    assert size == 1 or all(row == 1 for row, _ in pairs)
