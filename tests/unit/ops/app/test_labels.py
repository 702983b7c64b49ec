"""Captions, texts and tables that were dropped beside films."""

from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom_ops.app.labels import Labels, read_labels
from signloom_ops.app.takes import FilmPart, Take, TakeStore
from tests.videos import encode_video, write_video

SRT = """1
00:00:00,500 --> 00:00:01,000
oui

2
00:00:01,200 --> 00:00:01,800
non <i>merci</i>

3
00:00:09,000 --> 00:00:09,500
after the end
"""
Found = list[tuple[Take, Path]]


@pytest.fixture
def films(tmp_path: Path) -> Found:
    """Two films of two seconds, the newest first."""
    store, recorded = TakeStore(tmp_path / "app"), []
    for name in ("day.mp4", "Été 2.mp4"):
        take = store.begin(text="", signer="", suffix=".mp4", name=name)
        content = write_video(tmp_path / "film.mp4").read_bytes()
        store.append(take, 0, content)
        finished = store.finish(take, len(content))
        recorded.insert(0, (finished, store.film(finished)))
    return recorded


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_captions_cut_the_film_of_their_name(tmp_path: Path, films: Found) -> None:
    labels, left_out = read_labels(write(tmp_path, "day.fr.srt", SRT), films)
    assert labels == {
        films[1][0].id: Labels(
            parts=[
                FilmPart(start_s=0.5, end_s=1.0, text="oui", language="fr"),
                FilmPart(start_s=1.2, end_s=1.8, text="non merci", language="fr"),
            ]
        )
    }
    assert len(left_out) == 1
    assert "day.fr.srt line 10" in left_out[0]


def test_the_last_caption_of_a_film_that_slows_down_stays(tmp_path: Path, films: Found) -> None:
    times = [number / 24 for number in range(24)] + [1 + number / 8 for number in range(8)]
    options = {"preset": "ultrafast", "bf": "2", "b_strategy": "0"}
    encode_video(films[1][1], times, rate=24, options=options)  # its header ends at 1.75 s
    text = "1\n00:00:01,650 --> 00:00:01,950\nmerci\n"
    labels, left_out = read_labels(write(tmp_path, "day.srt", text), films)
    assert [part.end_s for part in labels[films[1][0].id].parts or []] == [1.95]
    assert left_out == []


def test_a_text_beside_a_film_is_its_sentence(tmp_path: Path, films: Found) -> None:
    labels, _ = read_labels(write(tmp_path, "Été 2.txt", "tu vas\nsecond line"), films)
    assert labels == {films[0][0].id: Labels(text="tu vas")}


def test_a_table_gives_each_film_its_sentence_or_its_clips(tmp_path: Path, films: Found) -> None:
    rows = (
        "video,sentence,speaker,start_s,end_s\n"
        "day.mp4,oui,ada,0.1,1\nday,non,ada,1,1.5\nÉté 2.mp4,tu vas,eve,,\n"
        "none.mp4,je,ada,,\nday.mp4,je,ada,2,1\n"
    )
    labels, left_out = read_labels(write(tmp_path, "words.csv", rows), films)
    parts = [FilmPart(start_s=0.1, end_s=1, text="oui"), FilmPart(start_s=1, end_s=1.5, text="non")]
    assert labels == {
        films[1][0].id: Labels(signer="ada", parts=parts),
        films[0][0].id: Labels(signer="eve", text="tu vas"),
    }
    assert "no film called 'none.mp4'" in left_out[0]
    assert "line 6: end_s 1 is not after" in left_out[1]


def test_a_table_of_glosses_alone_gives_a_film_no_sentence(tmp_path: Path, films: Found) -> None:
    labels, left_out = read_labels(
        write(tmp_path, "words.csv", "video,gloss\nday.mp4,OUI\n"), films
    )
    assert (labels, left_out) == ({films[1][0].id: Labels()}, [])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("other.srt", SRT, "no film of its name is here"),
        ("day.srt", "nothing", "holds no line of times"),
        (
            "day.vtt",
            "WEBVTT\n\n00:00.100 --> 00:00.500\n<v ada>oui\n\n00:01.000 --> 00:01.500\n"
            "<v eve>non\n",
            "ada, eve sign in it",
        ),
    ],
)
def test_what_is_of_no_use_is_said(
    tmp_path: Path, films: Found, name: str, text: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        read_labels(write(tmp_path, name, text), films)
