"""Films: frames, skeletons and subtitles in any script."""

import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.translation.confidence import Check
from signloom_tools.translate.film_video import (
    Lettering,
    count_bright,
    draw_skeleton,
    is_right_to_left,
    write_film,
)
from signloom_tools.translate.films import FilmSentence
from signloom_tools.translate.inputs import GivenClip
from signloom_tools.translate.timed import TimedToken
from tests import tiny
from tests.videos import FPS, encode_video, number_of, write_video


def given(source: Path, sequence: LandmarkSequence, *, is_video: bool) -> GivenClip:
    return GivenClip(source=source, clip_id="clip", sequence=sequence, is_video=is_video)


def said(text: str, tokens: Sequence[TimedToken] | None = None, *, note: str = "") -> FilmSentence:
    """A sentence that lasts as long as the clip; `unsure` is the only note."""
    check = Check(confidence=0.1, is_unsure=bool(note), unlike=None)
    return FilmSentence(text=text, tokens=tokens, check=check)


def absent(frames: int, fps: float) -> LandmarkSequence:
    nothing = tiny.sequence(frames=frames, fps=fps)
    points = np.full_like(nothing.points, np.nan)
    return dataclasses.replace(nothing, points=points, present=np.zeros_like(nothing.present))


def read(path: Path) -> tuple[float, list[np.ndarray]]:
    capture = cv2.VideoCapture(str(path))
    frames = []
    while True:
        there, frame = capture.read()
        if not there:
            return capture.get(cv2.CAP_PROP_FPS), frames
        frames.append(np.asarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)))


@pytest.mark.parametrize("suffix", ["webm", "mp4"])
def test_a_film_has_the_frames_of_its_video_in_their_order(tmp_path: Path, suffix: str) -> None:
    source = write_video(tmp_path / "in.mp4", frames=40)
    out = tmp_path / f"films/out.{suffix}"
    write_film(out, given(source, absent(40, FPS), is_video=True), [said("")], font=None)
    fps, frames = read(out)
    assert fps == FPS
    assert [number_of(frame) for frame in frames] == list(range(40))
    assert list(out.parent.iterdir()) == [out]  # nothing half written is left


def test_frames_at_a_varying_rate_come_as_evenly_as_the_landmarks(tmp_path: Path) -> None:
    times_s = [*(n / 25 for n in range(20)), *(1 + n / 5 for n in range(10))]
    source = encode_video(tmp_path / "in.mp4", times_s)
    fps = (len(times_s) - 1) / times_s[-1]
    sequence = absent(round(times_s[-1] * fps) + 1, fps)
    write_film(tmp_path / "out.mp4", given(source, sequence, is_video=True), [said("")], font=None)
    _, frames = read(tmp_path / "out.mp4")
    assert len(frames) == len(sequence.points)
    numbers = [number_of(frame) for frame in frames]
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(times_s) - 1


def test_landmarks_without_a_video_are_drawn_on_paper(tmp_path: Path) -> None:
    tokens = [
        TimedToken(text="je", start_s=0.0, end_s=1.0),
        TimedToken(text=" vais", start_s=0.6, end_s=1.0),
    ]
    sequence = tiny.sequence(frames=12)
    clip = given(tmp_path / "shards", sequence, is_video=False)
    write_film(tmp_path / "out.mp4", clip, [said("je vais", tokens)], font=None)
    fps, frames = read(tmp_path / "out.mp4")
    assert (fps, len(frames)) == (sequence.fps, 12)
    assert frames[0].shape == (480, 640, 3)
    top, below = frames[0][:400], [frame[425:].astype(int) for frame in frames]
    assert (top < 200).any()  # a skeleton on white
    assert below[0].mean() < 128  # the box of the subtitles
    assert (below[11] > 230).sum() > 1.5 * (below[1] > 230).sum()  # the second word is bright too


def test_a_film_shows_above_the_sentence_that_the_model_is_unsure(tmp_path: Path) -> None:
    clip = given(tmp_path / "shards", tiny.sequence(frames=3), is_video=False)
    heights = []
    for number, (text, note) in enumerate((("je vais", ""), ("je vais", "unsure"), ("", "unsure"))):
        out = tmp_path / f"{number}.webm"
        write_film(out, clip, [said(text, note=note)], font=None)
        rows = read(out)[1][0].mean(axis=(1, 2))
        heights.append(int((rows < 128).sum()))  # of the box of the subtitles
    plain, both, alone = heights
    assert plain == pytest.approx(alone, abs=2)
    assert both == pytest.approx(2 * plain, abs=2)


def test_a_film_shows_each_sentence_while_it_is_signed(tmp_path: Path) -> None:
    clip = given(tmp_path / "shards", tiny.sequence(frames=40, fps=10), is_video=False)
    sentences = [
        dataclasses.replace(said("je vais"), start_s=0.5, end_s=1.5),
        dataclasses.replace(said("tu vas à la maison"), start_s=1.5, end_s=3.0),
    ]
    write_film(tmp_path / "out.webm", clip, sentences, font=None)
    _, frames = read(tmp_path / "out.webm")
    has_box = [bool(frame[450:].mean() < 128) for frame in frames]
    assert has_box == [False] * 5 + [True] * 25 + [False] * 10
    with pytest.raises(UserError, match="has no 你"):  # before the first frame, not at the last
        write_film(tmp_path / "late.webm", clip, [*sentences, said("你")], font=None)
    assert not (tmp_path / "late.webm").exists()


def test_words_are_shown_in_their_order_though_signs_come_in_another() -> None:
    tokens = [
        TimedToken(text="tu", start_s=1.0, end_s=2.0),
        TimedToken(text=" vas", start_s=0.2, end_s=0.5),
        TimedToken(text=" bien", start_s=1.5, end_s=2.0),
    ]
    bright = count_bright("tu vas bien", tokens)
    assert [bright(time_s) for time_s in (0.0, 0.5, 1.0, 1.4, 1.5)] == [0, 0, 6, 6, 11]
    assert count_bright("tu vas", None)(0.0) == 6
    no_sign = [tokens[0], TimedToken(text=" y", start_s=None, end_s=None), tokens[2]]
    assert [count_bright("tu y bien", no_sign)(time_s) for time_s in (0.9, 1.0, 1.5)] == [0, 4, 9]


def test_absent_hands_are_not_drawn_and_lines_keep_to_the_landmarks() -> None:
    sequence = tiny.sequence()
    blank = np.full((240, 320, 3), 255, np.uint8)
    both, one = blank.copy(), blank.copy()
    draw_skeleton(both, sequence, 0)
    draw_skeleton(one, tiny.lose(sequence, "left_hand", slice(None)), 0)
    rows, columns = np.nonzero((both != one).any(axis=2))
    hand = sequence.points[0, sequence.layout.slice("left_hand"), :2] * [320, 240]
    assert len(rows)
    for found, place in ((columns, hand[:, 0]), (rows, hand[:, 1])):
        assert found.min() == pytest.approx(place.min(), abs=4)
        assert found.max() == pytest.approx(place.max(), abs=4)


ARABIC, HEBREW = "هل هي تأكل تفاحة", "האם היא אוכלת תפוח"


def ink(text: str, reached: int) -> np.ndarray:
    """Where the bright letters are: shape (height, width)."""
    picture = Lettering(text, width=320, height=240, font=None).draw(reached)
    return picture[..., 0].astype(int) > 200


@pytest.mark.parametrize(
    "text", ["elle mange une pomme", ARABIC, HEBREW, "Она ест яблоко", "τρώει"]
)
def test_text_is_drawn_in_the_middle_and_inside(text: str) -> None:
    columns = np.flatnonzero(ink(text, len(text)).any(axis=0))
    assert columns[0] > 5
    assert columns[-1] < 315
    assert abs(columns[0] + columns[-1] - 320) < 12


def test_the_first_word_stands_left_or_right_as_the_script_runs() -> None:
    for text, is_right in (("elle mange une pomme", False), (ARABIC, True), (HEBREW, True)):
        assert is_right_to_left(f"25 {text}") == is_right  # as its first letter
        columns = np.flatnonzero(ink(text, 3).any(axis=0))
        assert (columns.mean() > 160) == is_right, text


@pytest.mark.parametrize("text", [" ".join(["parapluie"] * 20), "a" * 200])
def test_long_sentences_are_wrapped_and_made_smaller(text: str) -> None:
    picture = Lettering(text, width=320, height=240, font=None).draw(0)
    assert picture.shape[1:] == (320, 4)
    assert len(picture) <= 240 / 2
    assert not ink(text, 0).any()  # nothing is said yet
    assert ink(text, len(text)).sum() > 2 * ink(text, len(text) // 3).sum() > 0
    assert ink(text, len(text)).any(axis=1).sum() > 20  # several lines


def test_another_font_can_be_given_and_letters_that_it_lacks_are_refused(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("matplotlib")
    assert spec
    assert spec.origin
    font = Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans-Bold.ttf"
    bold = Lettering("pomme", width=320, height=240, font=font).draw(5)
    assert (bold[..., 0] > 200).sum() > ink("pomme", 5).sum()
    (bad := tmp_path / "bad.ttf").write_text("no font")
    with pytest.raises(UserError, match=r"bad\.ttf is not a font"):
        Lettering("pomme", width=320, height=240, font=bad)
    with pytest.raises(UserError, match=r"DejaVuSans\.ttf has no 你 好.* --font"):
        Lettering("你好 ok", width=320, height=240, font=None)


def test_letters_of_arabic_are_joined() -> None:
    # A zero-width non-joiner between them keeps the same letters apart.
    joined = np.flatnonzero(ink("ببب", 3).any(axis=0))
    apart = np.flatnonzero(ink("ب\u200cب\u200cب", 5).any(axis=0))
    assert np.ptp(joined) < 0.75 * np.ptp(apart)
