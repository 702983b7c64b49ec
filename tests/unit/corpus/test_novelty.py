import pytest

from signloom.corpus.novelty import KnownSentences, Novelty, find_words

ORDERS = [
    "one small tea please", "one large tea please", "one small coffee please",
    "two large juice please", "two large tea please", "is there milk",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("One small tea, please!", None),
        ("one large coffee please", Novelty.OLD_OLD),
        ("two small coffee please", Novelty.OLD_OLD),  # three words differ from any known order
        ("one small milk please", Novelty.OLD_NEW),  # milk stands where no drink does
        ("is there tea please", Novelty.OLD_NEW),
        ("one small cocoa please", Novelty.NEW_OLD),
        ("where is cocoa", Novelty.NEW_NEW),
        ("cocoa", Novelty.NEW_NEW),
    ],
)
def test_new_words_and_new_frames_are_told_apart(text: str, kind: Novelty | None) -> None:
    assert KnownSentences(ORDERS).judge(text) == kind


def test_scripts_without_spaces_have_a_word_a_sign() -> None:
    assert find_words("我要茶, please") == ["我", "要", "茶", "please"]
    assert find_words("Don't  GO.") == ["don't", "go"]
    assert KnownSentences(["我要茶", "我要水", "你要茶"]).judge("你要水") == Novelty.OLD_OLD


def test_words_of_devanagari_keep_their_vowel_signs() -> None:
    assert find_words("लड़की है।") == ["लड़की", "है"]
    assert KnownSentences(["लड़की है"]).judge("लड़का है") is not None
