import importlib.util
from pathlib import Path

import numpy as np
import pytest

from signloom.errors import UserError
from signloom.report.films import Lettering, is_right_to_left, runs_both_ways, whole_words

ARABIC, HEBREW = "هل هي تأكل تفاحة", "האם היא אוכלת תפוח"


def ink(text: str, said: int) -> np.ndarray:
    """Where the bright letters are: shape (height, width)."""
    picture = Lettering(text, width=320, height=240, font=None).draw(said)
    return picture[..., 0].astype(int) > 200


@pytest.mark.parametrize(
    "text", ["elle mange une pomme", ARABIC, HEBREW, "Она ест яблоко", "τρώει"]
)
def test_text_is_drawn_in_the_middle_and_inside(text: str) -> None:
    columns = np.flatnonzero(ink(text, len(text)).any(axis=0))
    assert columns[0] > 5
    assert columns[-1] < 315
    assert abs(columns[0] + columns[-1] - 320) < 12


def test_what_is_said_first_stands_left_or_right_as_the_script_runs() -> None:
    for text, is_right in (("elle mange une pomme", False), (ARABIC, True), (HEBREW, True)):
        columns = np.flatnonzero(ink(text, 3).any(axis=0))
        assert (columns.mean() > 160) == is_right, text


def test_letters_of_arabic_are_joined() -> None:
    # A zero-width non-joiner between them keeps the same letters apart.
    joined = np.flatnonzero(ink("ببب", 3).any(axis=0))
    apart = np.flatnonzero(ink("ب\u200cب\u200cب", 5).any(axis=0))
    assert np.ptp(joined) < 0.75 * np.ptp(apart)


def test_long_sentences_are_wrapped_between_words_and_made_smaller() -> None:
    text = " ".join(["parapluie"] * 20)
    picture = Lettering(text, width=320, height=240, font=None).draw(0)
    assert picture.shape[1:] == (320, 4)
    assert len(picture) <= 240 / 2
    assert not ink(text, 0).any()  # nothing is said yet
    assert ink(text, len(text)).sum() > 2 * ink(text, len(text) // 3).sum() > 0


def test_a_text_without_spaces_is_wrapped_too() -> None:
    text = "a" * 200
    columns = np.flatnonzero(ink(text, 200).any(axis=0))
    assert columns[-1] < 320
    assert ink(text, 200).any(axis=1).sum() > 20  # several lines


def test_letters_that_the_font_lacks_are_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"DejaVuSans\.ttf has no 你 好; give one .* --font"):
        Lettering("你好 ok", width=320, height=240, font=None)


def test_another_font_can_be_given(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("matplotlib")
    assert spec
    assert spec.origin
    font = Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans-Bold.ttf"
    bold = Lettering("pomme", width=320, height=240, font=font).draw(5)
    assert (bold[..., 0] > 200).sum() > ink("pomme", 5).sum()
    bad = tmp_path / "bad.ttf"
    bad.write_text("no font")
    with pytest.raises(UserError, match=r"bad\.ttf is not a font"):
        Lettering("pomme", width=320, height=240, font=bad)


def test_the_direction_is_that_of_the_first_letter() -> None:
    assert is_right_to_left("25 " + HEBREW)
    assert not is_right_to_left("hello " + ARABIC)
    assert not is_right_to_left("25 !")
    assert runs_both_ways(ARABIC + " 25")
    assert not runs_both_ways(ARABIC)


def test_a_word_that_has_begun_is_bright_as_a_whole() -> None:
    assert [whole_words("elle mange", said) for said in (-4, 0, 1, 4, 5, 10, 99)] == [
        0, 0, 4, 4, 10, 10, 10,
    ]  # fmt: skip
    assert whole_words("你好吗", 2) == 2
