import random

import pytest

from signloom.corpus.manifest import is_single_word
from signloom.corpus.words import KnownSentences, Novelty, find_words, locate_words

ORDERS = [
    "one small tea please",
    "one large tea please",
    "one small coffee please",
    "two large juice please",
    "two large tea please",
    "is there milk",
]


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
def test_new_words_and_new_frames_are_distinguished(text: str, kind: Novelty | None) -> None:
    assert KnownSentences(ORDERS).novelty(text) == kind


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我要茶, please", "我 要 茶 please"),
        ("人々は𠮷野家へ。", "人 々 は 𠮷 野 家 へ"),
        ("か\u3099くせい ｶﾞ", "か\u3099 く せ い ｶ ﾞ"),
        ("ສະບາຍດີ", "ສະ ບາ ຍ ດີ"),  # Lao: vowels stand behind, above and before their consonant
        ("ແມ່ໃຈ", "ແມ່ ໃຈ"),
        ("สวัสดี ๑๒", "ส วั ส ดี ๑๒"),  # Thai, with digits
        ("น้ำไม่", "น้ำ ไม่"),
        ("សួស្តី។", "សួ ស្តី"),  # Khmer: a consonant below another one
        ("មិត្តភក្តិ", "មិ ត្ត ភ ក្តិ"),
        ("မင်္ဂလာပါ၊", "မ င်္ဂ လာ ပါ"),  # Burmese: stacked, with the mark that kills a vowel
        ("लड़की है।", "लड़की है"),
        ("Où vas-tu, l’AMI ?", "où vas tu l’ami"),
        ("Don't  GO.", "don't go"),
        ("!?", ""),
    ],
)
def test_words_of_every_script_keep_their_vowel_signs(text: str, words: str) -> None:
    assert find_words(text) == words.split()
    parts = words.replace("'", " ").replace("’", " ").split()
    assert [word for word, _, _ in locate_words(text)] == parts
    for word, start, end in locate_words(text):
        assert text[start:end].lower() == word


def written_out(known: set[tuple[str, ...]], line: tuple[str, ...]) -> Novelty | None:
    """The definition of `KnownSentences`, sentence by sentence."""

    def frames(word: str) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
        return {
            (other[:place], other[place + 1 :])
            for other in known
            for place in range(len(other))
            if other[place] == word
        }

    def may_stand(word: str, new: str) -> bool:
        return word == new or not frames(new) or bool(frames(word) & frames(new))

    if line in known:
        return None
    is_old = any(
        len(other) == len(line)
        and any(map(str.__eq__, other, line))
        and all(map(may_stand, other, line))
        for other in known
    )
    if all(map(frames, line)):
        return Novelty.OLD_OLD if is_old else Novelty.OLD_NEW
    return Novelty.NEW_OLD if is_old else Novelty.NEW_NEW


@pytest.mark.parametrize("seed", range(10))
def test_novelty_is_that_of_the_definition_written_out(seed: int) -> None:
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(chance.choice([3, 6, 12]))]

    def draw(words: list[str]) -> tuple[str, ...]:
        return tuple(chance.choices(words, k=chance.randrange(5)))

    known = {draw(words) for _ in range(chance.choice([0, 1, 30]))}
    sentences = KnownSentences(map(" ".join, known))
    for line in (draw([*words, "new"]) for _ in range(30)):
        assert sentences.novelty(" ".join(line)) == written_out(known, line)


def test_novelty_compares_what_a_script_writes_together() -> None:
    assert KnownSentences(["我要茶", "我要水", "你要茶"]).novelty("你要水") == Novelty.OLD_OLD
    assert KnownSentences(["लड़की है"]).novelty("लड़का है") is not None


@pytest.mark.parametrize(
    ("text", "is_single"),
    [
        ("DRINK-WATER", True),
        ("drink water", False),
        ("你好", True),
        ("我想喝一杯茶", False),
        ("สวัสดี", True),
        ("ສະບາຍດີ", True),
        ("ฉันอยากดื่มน้ำ", False),
        ("", False),
    ],
)
def test_a_name_of_a_sign_is_a_single_word_in_any_script(text: str, is_single: bool) -> None:
    assert is_single_word(text) == is_single
