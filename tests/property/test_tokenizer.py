import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signloom.features.tokenizer import Tokenizer, Vocabulary, load_source

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


ODD = (
    "a e\u0301 É 日本 の 12 3456 . ?! <think> ' \u00a0 \u3000 \u200d \u0301 \n \t \x85 \x1c  नमस्ते "
)
ODD += "👩🏽‍🦱 ½ _"


@given(
    text=st.one_of(st.text(), st.lists(st.sampled_from([*ODD, " ", " "]), max_size=12).map("".join))
)
@example(ODD)
@example("l'été 2024 coûte 1234567 €, non ?")
def test_words_are_tokenised_each_by_itself_as_the_whole_text(text: str) -> None:
    source = load_source()
    assert source.model is not None
    for form in (text, " ".join(text.split())):
        assert source.encode(form) == source.model.encode(form, add_special_tokens=False).ids
