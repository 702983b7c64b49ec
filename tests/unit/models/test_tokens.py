import copy
import math

import pytest
import torch

from signloom.models.layers import TiedProjection, TokenEmbedding
from tests.contract.variants import build

FAMILIES = ["transformer", "conformer", "lstm"]


@pytest.mark.parametrize(("is_scaled", "factor"), [(False, 1.0), (True, math.sqrt(6))])
def test_an_embedding_is_a_row_of_its_matrix(is_scaled: bool, factor: float) -> None:
    embedding = TokenEmbedding(10, 6, is_scaled=is_scaled)
    found = embedding(torch.tensor([[3, 0]]))
    torch.testing.assert_close(found[0], embedding.weight[[3, 0]] * factor)


def test_a_tied_projection_has_one_name_and_follows_its_embedding() -> None:
    embedding = TokenEmbedding(10, 6, is_scaled=True)
    tied = TiedProjection(embedding)
    assert list(tied.state_dict()) == ["bias"]
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(tied(x), x @ embedding.weight.T)
    tied(x).sum().backward()
    assert embedding.weight.grad is not None


def test_a_copied_projection_is_tied_to_the_copied_embedding() -> None:
    model = build(tied_embeddings=True).model
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.decoder.embedding.weight.zero_()
    x = torch.ones(1, 1, 16)
    assert not other.decoder.output(x).any()
    assert model.decoder.output(x).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_tying_saves_one_matrix_of_the_vocabulary(family: str) -> None:
    plain, tied = (build(family=family, tied_embeddings=flag).model for flag in (False, True))
    counts = [sum(p.numel() for p in model.parameters()) for model in (plain, tied)]
    assert counts[0] - counts[1] == 20 * 16


@pytest.mark.parametrize("initialization", ["xavier", "torch"])
@pytest.mark.parametrize(
    ("is_scaled", "is_tied", "deviation"),
    [(True, False, 0.25), (False, True, 0.25), (False, False, 1.0)],
)
def test_embeddings_begin_as_large_as_positions(
    initialization: str, is_scaled: bool, is_tied: bool, deviation: float
) -> None:
    model = build(
        source="tokens",
        initialization=initialization,
        embedding_scale=is_scaled,
        tied_embeddings=is_tied,
    ).model
    for embedding in (model.decoder.embedding, model.encoder.source.projection):
        # 320 numbers: their deviation is known to 4 %.
        assert embedding.weight.std().item() == pytest.approx(deviation, rel=0.15)
