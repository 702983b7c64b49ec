"""What a delivery may be made of, and what of it is left where it lies."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions
from signloom_ops.intake import deliveries
from signloom_ops.intake.inbox import correct_clip, has_new_files
from signloom_ops.intake.ingest import ingest
from signloom_ops.privacy.names import find_delivered
from tests.attack import inputs
from tests.elan import eaf
from tests.intake import DAY, OPTIONS, deliver, reasons, request_of, take, write_rows
from tests.videos import encode_video, write_cut_off, write_pictures, write_video


def test_what_is_no_good_video_is_left_out(corpus: CorpusOptions) -> None:
    folder = Path("in/ada")
    deliver(folder, "good", frames=20)
    for name in ("cut", "zero", "link", "lone", "fifo"):
        (folder / f"{name}.txt").write_text("bonjour maman")
    write_cut_off(folder / "cut.mp4")
    (folder / "zero.mp4").touch()
    (folder / "link.mp4").symlink_to("good.mp4")
    os.mkfifo(folder / "fifo.mp4")
    write_video(folder / "mute.mp4", frames=23)
    Path("in/elsewhere").symlink_to("/")
    refused = reasons(result := take(corpus, "in"))
    assert [clip.clip_id for clip in result.clips] == ["good"]
    assert set(refused) == {
        "cut.mp4",
        "zero.mp4",
        "link.mp4",
        "lone.txt",
        "fifo.mp4",
        "mute.mp4",
        "elsewhere",
    }
    assert "0 bytes" in refused["zero.mp4"]
    assert "link" in refused["link.mp4"]
    assert "link" in refused["elsewhere"]
    assert "no sentence" in refused["mute.mp4"]
    assert "no video" in refused["lone.txt"]
    assert all(reject.hint for reject in result.rejects)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("../../secret.mp4", "leads out"),
        ("/etc/secret.mp4", "leads out"),
        ("C:\\secret.mp4", "leads out"),
        ("gone.mp4", "no video of its name"),
        ("link.mp4", "is a link"),
    ],
)
def test_a_path_may_not_leave_the_delivery(corpus: CorpusOptions, cell: str, words: str) -> None:
    write_video(Path("secret.mp4"), frames=20)
    Path("in").mkdir()
    Path("in/link.mp4").symlink_to("../secret.mp4")
    write_rows(Path("in/table.tsv"), [{"video": cell, "text": "bonjour maman", "signer": "ada"}])
    result = take(corpus, "in")
    assert result.clips == []
    assert words in reasons(result)["table.tsv line 2"]


def test_files_that_have_just_changed_wait_and_a_folder_for_its_signer_file(
    corpus: CorpusOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = deliver(Path("in/team/monday"), "a", frames=20)
    careful = replace(OPTIONS, settle_s=60.0)
    assert not has_new_files(corpus, Path("in"), careful)
    result = ingest(corpus, request_of("in"), careful, day=DAY)
    assert (result.batch, result.rejects) == (None, [])
    assert video in result.waiting
    note = Path("in/team/signer.txt")
    note.write_text("zo")
    monkeypatch.setattr(deliveries, "_age_s", lambda path: 0.0 if path == note else 9e9)
    result = ingest(corpus, request_of("in"), careful, day=DAY)
    assert (result.clips, result.waiting) == ([], [note])


def test_tables_of_others_and_own_manifests_are_understood(corpus: CorpusOptions) -> None:
    for n, name in enumerate("abc"):
        Path("in", name).mkdir(parents=True)
        write_video(Path(f"in/{name}/{name}.mp4"), frames=20 + n)
    Path("in/a/list.csv").write_text("name;sentence;speaker\na.mp4;bonjour maman;ada\n")
    Path("in/b/manifest.tsv").write_text(
        "# signloom-manifest 1\nclip_id\tvideo\ttext\tsigner\nb\tb.mp4\til dort\tada\n"
    )
    Path("in/c/table.tsv").write_text("file\ttext\nc.mp4\telle dort bien\n")
    Path("in/c/signer.txt").write_text("ada\n")
    result = take(corpus, "in")
    assert [(c.clip_id, c.text, c.signer) for c in result.clips] == [
        ("a", "bonjour maman", "ada"),
        ("b", "il dort", "ada"),
        ("c", "elle dort bien", "ada"),
    ]


def test_one_elan_file_of_two_films_brings_each_its_own_sentences(corpus: CorpusOptions) -> None:
    Path("in/day").mkdir(parents=True)
    for n, name in enumerate(("A", "B", "wide")):
        write_video(Path(f"in/day/14_{name}.mp4"), frames=40 + n)
    tiers = {f"text@{who}": [(0, 900, f"bonjour {who.lower()}")] for who in "AB"}
    eaf(Path("in/day/14.eaf"), {**tiers, "text@C": [(0, 900, "bonjour c")]}, participants=False)
    result = take(corpus, "in")
    sentences = [
        (clip.text, clip.signer, clip.video.name[:4]) for clip in result.clips if clip.video
    ]
    assert sentences == [("bonjour a", "A", "14_A"), ("bonjour b", "B", "14_B")]
    assert ["14_wide.mp4" in reject.where for reject in result.rejects] == [True, False]
    assert "which of its films shows its signer" in result.rejects[1].reason


def test_the_last_caption_of_a_film_that_slows_down_comes_in(corpus: CorpusOptions) -> None:
    film = Path("in/ada/day.mp4")
    film.parent.mkdir(parents=True)
    times = [number / 24 for number in range(24)] + [1 + number / 8 for number in range(8)]
    options = {"preset": "ultrafast", "bf": "2", "b_strategy": "0"}
    encode_video(film, times, rate=24, options=options)  # its header ends at 1.75 s
    film.with_suffix(".srt").write_text("1\n00:00:01,000 --> 00:00:01,950\nmerci\n")
    (clip,) = take(corpus, "in").clips
    assert (clip.start_s, clip.end_s) == (1.0, 1.95)
    whole = replace(clip, start_s=None, end_s=None)
    for end_s, corrected_s in (("1.95", 1.95), ("2.0", None)):  # to its end: it stays whole
        values = {"text": "merci", "start_s": "0", "end_s": end_s}
        assert correct_clip(whole, values).end_s == corrected_s


@pytest.mark.parametrize("texts", [0, 1, 2])
def test_captions_of_no_signer_replace_no_sentence(corpus: CorpusOptions, texts: int) -> None:
    for n in range(2):
        film = deliver(Path("in/ada"), f"day_{n}", f"mot {n}", frames=40 + n)
        if n >= texts:
            film.with_suffix(".txt").unlink()
    Path("in/ada/day.srt").write_text("1\n00:00:00,000 --> 00:00:00,900\ntrois\n")
    result = take(corpus, "in")
    assert [clip.text for clip in result.clips] == ["mot 0", "mot 1"][:texts]
    assert len(result.rejects) == 3 - texts


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("a\tb\n1\t2\n", "no column of the sentences"),
        ("video\ttext\nx\n", "cannot be separated"),
        ("text\tsigner\nsalut\tada\n", "no column of the videos"),
        ("", ""),
    ],
)
def test_a_bad_table_stops_no_other_delivery(corpus: CorpusOptions, table: str, words: str) -> None:
    deliver(Path("in/ada"), "good", frames=20)
    Path("in/bad").mkdir()
    Path("in/bad/table.tsv").write_text(table)
    result = take(corpus, "in")
    assert len(result.clips) == 1
    assert words in result.rejects[0].reason


def test_a_table_that_is_a_link_or_a_pipe_is_left_out(corpus: CorpusOptions) -> None:
    for name in ("gone", "pipe", "round"):
        Path("in", name).mkdir(parents=True)
    Path("in/gone/table.tsv").symlink_to("/nowhere/table.tsv")
    Path("in/round/table.tsv").symlink_to("table.tsv")
    os.mkfifo("in/pipe/table.tsv")
    deliver(Path("in/ada"), "good", frames=20)
    result = take(corpus, "in")
    assert [clip.clip_id for clip in result.clips] == ["good"]
    assert reasons(result) == {"table.tsv": "the table is a link or no file"}
    assert len(result.rejects) == 3


def test_the_inbox_itself_names_no_signer(corpus: CorpusOptions) -> None:
    deliver(Path("inbox"), "x", frames=20)
    assert "no signer is named" in take(corpus, "inbox", inbox=True).rejects[0].reason
    assert take(corpus, "inbox", signer="ada").clips[0].signer == "ada"
    deliver(Path("2026-11"), "y", frames=21)
    assert "no signer is named" in take(corpus, "2026-11").rejects[0].reason
    Path("2026-11/signer.txt").write_text("eve")
    assert take(corpus, "2026-11").clips[0].signer == "eve"


def test_a_signer_file_that_cannot_be_read_lets_no_clip_in(
    corpus: CorpusOptions,
) -> None:
    for name, frames in (("ada", 20), ("pipe", 21), ("table", 22)):
        deliver(Path("in") / name, name, frames=frames)
    Path("in/ada/signer.txt").write_text("zoe", encoding="utf-16")
    os.mkfifo("in/pipe/signer.txt")
    write_rows(
        Path("in/table/table.tsv"), [{"video": "table.mp4", "text": "il dort", "signer": ""}]
    )
    Path("in/table/signer.txt").symlink_to("/nowhere")
    result = take(corpus, "in")
    assert result.clips == []
    refused = reasons(result)
    assert "signer.txt cannot be read" in refused["ada.mp4"]
    assert "signer.txt is a link or no file" in refused["pipe.mp4"]
    assert "signer.txt is a link or no file" in refused["table.tsv line 2"]
    assert list(find_delivered([Path("in")], "ada").films) == [Path("in/ada/ada.mp4")]


def test_two_videos_may_not_share_a_text_file(corpus: CorpusOptions) -> None:
    video = deliver(Path("in/ada"), "a", frames=20)
    write_video(video.with_suffix(".avi"), frames=21, fourcc="MJPG")
    refused = reasons(take(corpus, "in"))
    assert refused == dict.fromkeys(("a.avi", "a.mp4"), "several videos have its name")


def test_folders_of_pictures_are_left_out_and_found_by_forget(corpus: CorpusOptions) -> None:
    """Deliveries of version 0.2 may hold them."""
    deliver(Path("in/ada"), "good", frames=20)
    first_pictures = write_pictures(Path("in/table/films/one"), "f{}.jpg", range(8, 16))
    row = {"video": "films/one", "text": "demain elle boit", "signer": "eve"}
    write_rows(Path("in/table/table.tsv"), [row])
    two = write_pictures(Path("in/eve/two"), "{:04d}.png", range(20, 32))
    Path("in/eve/two.txt").write_text("elle boit de l'eau")
    for place in ("table", "ada"):
        write_pictures(Path("in", place, "unnamed"), "f{}.jpg", range(8, 16))
    result = take(corpus, "in")
    assert [clip.clip_id for clip in result.clips] == ["good"]
    assert ["folder of pictures" in reject.reason for reject in result.rejects] == [True] * 4
    assert {*find_delivered([Path("in")], "eve").films} == {first_pictures, two}


WORDS_OF_CAPTIONS = {
    "half.json3": "half of a character",
    "long.json3": "too large",
    "late.json3": "beyond every film",
    "deep.json3": "json3",
}


def test_one_file_of_captions_stops_no_delivery(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "good", frames=20)
    for number, name in enumerate(WORDS_OF_CAPTIONS):
        film = Path(f"in/{name}/film.mp4")
        film.parent.mkdir()
        write_video(film, frames=25 + number)
        inputs.CAPTIONS[name](film.with_suffix(Path(name).suffix))
    assert has_new_files(corpus, Path("in"), OPTIONS)
    result = take(corpus, "in")
    assert [clip.clip_id for clip in result.clips] == ["good"]
    refused = {
        f"{Path(reject.delivery).name}/{reject.where}": reject.reason for reject in result.rejects
    }
    for name, words in WORDS_OF_CAPTIONS.items():
        (reason,) = (why for where, why in refused.items() if where.startswith(f"{name}/"))
        assert words in reason
