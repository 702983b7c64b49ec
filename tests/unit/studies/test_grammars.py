import numpy as np
import pytest

from signloom_demo.grammar import THINGS
from signloom_demo.signs import LEXICON
from studies import grammars
from studies.grammars import change, draw_clips, find_marked, say_places


def test_a_sign_is_made_larger_slower_twice_and_elsewhere() -> None:
    sign = LEXICON["FATIGUE"]
    large, twice = change(sign, larger=1.6), change(sign, times=2)
    across = change(sign, shift=10.0)
    for keys, larger in ((sign.dominant, large.dominant), (sign.other, large.other)):
        way, further = keys[-1].y - keys[0].y, larger[-1].y - larger[0].y
        assert further == pytest.approx(1.6 * way)
    assert (large.beats, twice.beats) == (sign.beats * 1.6, sign.beats * 2)
    assert [key.y for key in twice.dominant] == pytest.approx([key.y for key in sign.dominant] * 2)
    # The other hand is written like a right one, so that it moves to the same side.
    assert across.dominant[0].x - sign.dominant[0].x == pytest.approx(10)
    assert across.other[0].x - sign.other[0].x == pytest.approx(-10)


def test_a_pronoun_has_the_gender_of_what_lies_where_the_finger_points() -> None:
    genders = {gloss: noun.feminine for gloss, noun in THINGS.items()}
    said = [
        one for seed in range(4) for one in say_places(np.random.default_rng(seed), control=False)
    ]
    for one in said:
        first, second, finger, _ = (gloss.split("_") for gloss in one.gloss.split())
        at = {place: genders[thing] for thing, place in (first, second)}
        assert sorted(at.values()) == [False, True]
        assert find_marked(one.text, ("il", "elle")) == ["elle" if at[finger[1]] else "il"]
    assert {one.gloss.split()[2] for one in said} == {"IX_A", "IX_B"}


@pytest.mark.parametrize("grammar", grammars.GRAMMARS)
def test_the_control_says_the_same_and_shows_less(
    grammar: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars, "SIGNERS", {"train": 1})
    clips, control = (draw_clips(grammar, control=value) for value in (False, True))
    assert [clip.text for clip, _ in clips] == [clip.text for clip, _ in control]
    signs = [{gloss for clip, _ in some for gloss in (clip.gloss or "").split()}
             for some in (clips, control)]  # fmt: skip
    marks = ("_FORT", "_PLUS") if grammar == "emphasis" else ("IX_A", "IX_B")
    assert [sum(gloss.endswith(marks) for gloss in some) > 0 for some in signs] == [True, False]
    assert all(sequence.present.all() for _, sequence in clips)
    assert "0" not in LEXICON  # the demo's lexicon is what it was
