from hypothesis import given
from hypothesis import strategies as st

from signloom.features.tokenizer import Tokenizer

TOKENIZER = Tokenizer.build(["je vais à la maison"], "pruned")


@given(st.text())
def test_any_text_round_trips(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
