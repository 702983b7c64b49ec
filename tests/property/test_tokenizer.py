import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signloom.features.tokenizer import Tokenizer, Vocabulary

TEXTS = ("je vais à la maison", "bonjour", "je t'aime")


@pytest.mark.parametrize("vocabulary", ["pruned", "full"])
@given(text=st.text())
@example("<｜begin▁of▁sentence｜>a<think>b</think>")
@example("👩🏽‍🦱 et 👋")
@example("  spaces  ")
def test_any_text_round_trips(vocabulary: Vocabulary, text: str) -> None:
    tokenizer = Tokenizer.build(TEXTS, vocabulary)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(ids)
    assert all(0 <= index < tokenizer.vocab_size for index in ids)
