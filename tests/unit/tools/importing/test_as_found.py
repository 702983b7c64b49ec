"""Tables, films and ELAN files as other programs and people leave them."""

import gzip
import itertools
import json
import pickle
import shutil
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from signloom.corpus.manifest import Clip, read_manifest
from signloom.errors import UserError
from signloom_tools.cli.main import main
from signloom_tools.importing.captions import read_captions
from signloom_tools.importing.cells import parse_time
from signloom_tools.importing.column_sources import find_sources
from signloom_tools.importing.new_corpus import VideoFolder
from signloom_tools.importing.options import Choice, compile_pattern
from signloom_tools.importing.user_tables import read_user_table
from tests.elan import Marks, eaf
from tests.tiny import ROOT
from tests.videos import write_picture, write_video

ROWS = [("a.mp4", 'she says "yes", twice'), ("b.mp4", "été")]
LINES = "video;text\na.mp4;x\nb.mp4;été\n"
WLASL = [
    {"gloss": "book", "instances": [
        {"video_id": "07", "split": "train", "bbox": [1, 2, 3, 4], "signer_id": 1},
        {"video_id": "08", "split": "val", "bbox": [1, 2, 3, 4], "signer_id": 2}]},
    {"gloss": "go", "instances": [{"video_id": "09", "split": "test"}]},
]  # fmt: skip
JSON_ROWS = [("a.mp4", "x"), ("b.mp4", "y")]
LISTS = [["a.mp4", "x"], ["b.mp4", "y"]]
RECORDS = [{"video": "a.mp4", "text": "x", "n": {"k": 1}}, {"video": "b.mp4", "text": "y"}]


def read(path: Path, content: str | bytes, *names: str) -> list[tuple[str, ...]]:
    """Return video and text of a table's rows, as they are found without an option."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read_user_table(path, None, None, names)
    sources = find_sources(table.header)
    assert table.torn == []
    rows = [row.values(sources) for row in table.rows]
    return [
        (row.get("video") or row["clip_id"], row.get("text") or row.get("gloss", ""))
        for row in rows
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (',video,text\n0,a.mp4,"she says ""yes"", twice"\n1,b.mp4,été\n', ROWS),  # pandas
        ('\tvideo\ttext\n0\ta.mp4\t"she says ""yes"", twice"\n1\tb.mp4\tété\n', ROWS),
        ('video|text\na.mp4|"she says\n""yes"", twice"\nb.mp4|été\n', ROWS),
        (
            '"video"\t"text"\n"1"\t"a.mp4"\t"x, y"\n"2"\t"b.mp4"\t"été"\n',  # R, with names of rows
            [("a.mp4", "x, y"), ("b.mp4", "été")],
        ),
        (
            'video\ttext\na.mp4\t"Yes."\nb.mp4\t"no" way\n',  # quotes of the text
            [("a.mp4", '"Yes."'), ("b.mp4", '"no" way')],
        ),
        ("sep=;\r\n" + LINES.replace("\n", "\r\n"), [("a.mp4", "x"), ("b.mp4", "été")]),  # Excel
        (LINES.replace("\n", ";;\n"), [("a.mp4", "x"), ("b.mp4", "été")]),  # empty columns
        (LINES.replace("\n", "\r"), [("a.mp4", "x"), ("b.mp4", "été")]),
        *(
            ((mark + LINES).encode(how), [("a.mp4", "x"), ("b.mp4", "été")])
            for how in ("utf-16-le", "utf-16-be")
            for mark in ("\ufeff", "")
        ),
        (",text\na.mp4,x\nb.mp4,y\n", JSON_ROWS),  # the index has the names
        ('# ours\n#\nvideo,text\na.mp4, "x, y"\n', [("a.mp4", "x, y")]),
        ("video\ttext\n1\ta.mp4\tx\n2\tb.mp4\ty\n", JSON_ROWS),  # R, without quotes
        ("PK,video,text\n1,a.mp4,x\n2,b.mp4,y\n", JSON_ROWS),  # a key, no archive
        ("video,text,rating 1\na.mp4,x,rating 3\nb.mp4,y,rating 4\n", JSON_ROWS),
    ],
)
def test_a_table_is_read_as_programs_write_it(
    tmp_path: Path, content: str | bytes, found: list[tuple[str, str]]
) -> None:
    assert read(tmp_path / "t.csv", content) == found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            "h1/h1_s1/sentences0000|ΓΕΙΑ ΕΓΩ(1)\nh1/h1_s2/sentences0001|ΤΙ\n",
            [("h1/h1_s1/sentences0000", "ΓΕΙΑ ΕΓΩ(1)"), ("h1/h1_s2/sentences0001", "ΤΙ")],
        ),
        (
            "signer0_sample1,41\nsigner2_sample11,7\n",
            [("signer0_sample1", "41"), ("signer2_sample11", "7")],
        ),
        (
            "apple,fruit\nbook,thing\nplum,fruit\n",  # what occurs again is no name
            [("apple", "fruit"), ("book", "thing"), ("plum", "fruit")],
        ),
        ("Adjectives/1. loud/MVI_5177.MOV\tloud\n", [("Adjectives/1. loud/MVI_5177.MOV", "loud")]),
        ("a.mp4 0\nx/bc1.mp4 1\n", [("a.mp4", "0"), ("x/bc1.mp4", "1")]),
        ("000000 他是警察\n000001 hi, you\n", [("000000", "他是警察"), ("000001", "hi, you")]),
        (
            "book/anna_1.mp4\nthank you/ben_2.mp4\n",
            [("book/anna_1.mp4", ""), ("thank you/ben_2.mp4", "")],
        ),
    ],
)
def test_a_table_without_a_line_of_names_keeps_its_first_row(
    tmp_path: Path, content: str, found: list[tuple[str, str]]
) -> None:
    assert read(tmp_path / "t.txt", content) == found


def test_a_folder_of_files_is_a_table_of_films(tmp_path: Path) -> None:
    for number, sign in enumerate(("왼쪽", "학교")):
        signs = [{"start": 0.2, "end": 0.9, "attributes": [{"name": sign}]}]
        content = {"metaData": {"name": f"{number}.mp4", "duration": 2.5}, "data": signs}
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/a_morpheme.json").write_text(json.dumps(content))
    table = read_user_table(tmp_path, None, None)
    rows = [row.values(find_sources(table.header)) for row in table.rows]
    assert [[row[name] for name in ("video", "text", "start_s", "end_s")] for row in rows] == [
        ["0.mp4", "왼쪽", "0.2", "0.9"],
        ["1.mp4", "학교", "0.2", "0.9"],
    ]


def test_what_is_no_table_says_so(tmp_path: Path) -> None:
    (tmp_path / "labels.train").write_bytes(gzip.compress(pickle.dumps({"a": {"text": "x"}})))
    with pytest.raises(UserError, match="a pickle, which is a program, and none is run here"):
        read_user_table(tmp_path / "labels.train", None, None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"a folder without \.json files"):
        read_user_table(tmp_path / "empty", None, None)


def test_films_are_found_by_the_ids_that_downloaders_write(project: Path) -> None:
    films("My first [-abC1dEfG_h].mp4", "What - ok-x_Y-z123456.mp4", "x-corrections.mp4")
    Path("t.csv").write_text("video,text\n-abC1dEfG_h,1\nx_Y-z123456,2\nx-corrections,3\n")
    assert [clip.clip_id for clip in init("--table", "t.csv", *SHARES)] == [
        "_-abC1dEfG_h",
        "x_Y-z123456",
        "x-corrections",
    ]


def test_names_are_given_to_a_table_that_has_none(tmp_path: Path) -> None:
    rows = read(tmp_path / "t.csv", "ICH,ich\nDU,du\n", "gloss", "clip_id")
    assert rows == [("ich", "ICH"), ("du", "DU")]
    assert read(tmp_path / "t.csv", "clip_1,text\n1,x\n2,clip_1\n", "id", "word")[0][1] == "text"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (json.dumps(WLASL, indent=1), [("07", "book"), ("08", "book"), ("09", "go")]),
        (json.dumps(RECORDS), JSON_ROWS),
        ("\ufeff" + json.dumps({"annotations": RECORDS}), JSON_ROWS),
        (json.dumps({"train": RECORDS[:1], "val": RECORDS[1:]}), JSON_ROWS),
        (json.dumps({"info": {"year": 1}, "licenses": [{"id": 1}], "Train": RECORDS}), JSON_ROWS),
        (json.dumps({"info": {"year": 1}, "annotations": RECORDS}), JSON_ROWS),
        (
            json.dumps({"bus": [{"video": "a.mp4"}], "train": [{"video": "b.mp4"}]}),
            [("a.mp4", ""), ("b.mp4", "")],
        ),  # signs
        (json.dumps({"a.mp4": {"text": "x"}, "b.mp4": {"text": "y", "box": [0, 1]}}), JSON_ROWS),
        (json.dumps({"a.mp4": "x", "b.mp4": "y"}), JSON_ROWS),
        (
            json.dumps(
                {
                    "train": {"x": {"video": ["a.mp4"], "probs": [0.9]}},
                    "val": {"y": {"video": ["b.mp4"], "probs": [0.8]}},
                }
            ),
            JSON_ROWS,
        ),  # BOBSL's spottings
        (json.dumps([["video", "text"], *LISTS]), JSON_ROWS),
        (json.dumps(LISTS), JSON_ROWS),
        (json.dumps({"columns": ["video", "text"], "index": [0, 1], "data": LISTS}), JSON_ROWS),
        (json.dumps({"schema": {"fields": [{"name": "text"}]}, "data": RECORDS}), JSON_ROWS),
        (json.dumps({"0": RECORDS[0], "1": RECORDS[1]}), JSON_ROWS),
        ("\n".join(map(json.dumps, RECORDS)), JSON_ROWS),
        (
            json.dumps({"video": {"0": "a.mp4", "1": "b.mp4"}, "text": {"0": "x", "1": "y"}}),
            JSON_ROWS,
        ),
        (json.dumps({"video": ["a.mp4", "b.mp4"], "text": ["x", "y"]}), JSON_ROWS),
        (json.dumps([{"video": "a.mp4", "text": float("nan")}]), [("a.mp4", "")]),
    ],
)
def test_json_is_a_table_of_its_innermost_records(
    tmp_path: Path, content: str, found: list[tuple[str, str]]
) -> None:
    assert read(tmp_path / "t.json", content) == found


@pytest.mark.parametrize(
    ("header", "cell", "found"),
    [
        ("video\tbbox", "[385, 37, 885, 720]", "385 37 885 720"),
        ("video\tbox", "640:720:320:0", "320 0 960 720"),  # FFmpeg's crop
        ("org_text\tbox", "[0.1, 0.2, 0.9, 1.0]", "0.2 0.1 1 0.9"),  # MS-ASL
        ("video\tbox", "(-0.05, 0, 1.02, 1e0)", "0 0 1 1"),
        ("video\tbox", ".5:1:.5:0", "0.5 0 1 1"),
        ("video\tbbox_xywh", "[320, 10, 100, 200]", "320 10 420 210"),  # COCO
        ("video\tBBox_xywh", "[320, 10, 100, 200]", "320 10 420 210"),
        ("bbox_xywh\tbbox", "[320, 10, 420, 210]", "320 10 420 210"),  # the box is the second's
        ("video\tbox", "10-20-1e+2-400", "10 20 100 400"),
        ("video\tbox", "left", "left"),  # refused with its row
    ],
)
def test_a_box_is_left_top_right_bottom_whoever_wrote_it(
    tmp_path: Path, header: str, cell: str, found: str
) -> None:
    (tmp_path / "t.tsv").write_text(f"{header}\na\t{cell}\nb\t\n")
    table = read_user_table(tmp_path / "t.tsv", None, None)
    sources = find_sources(table.header)
    assert [row.values(sources)["box"] for row in table.rows] == [found, ""]


def test_four_rows_below_names_that_say_nothing_are_no_boxes(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"x": [*"abcd"], "y": [*"efgh"]}))
    rows = read_user_table(tmp_path / "t.json", None, None).rows
    assert [row.cells for row in rows][:2] == [{"x": "a", "y": "e"}, {"x": "b", "y": "f"}]


def test_json_of_splits_may_say_more(tmp_path: Path) -> None:
    content = {
        "info": 1,
        "train": RECORDS[:1],
        "test": {"b.mp4": {"text": "y"}},
        "new": RECORDS[:1],
    }
    (tmp_path / "t.json").write_text(json.dumps(content))
    rows = read_user_table(tmp_path / "t.json", None, None).rows
    assert [row.cells["split"] + row.cells["text"] for row in rows] == ["trainx", "testy", "newx"]


def test_a_damaged_or_foreign_file_is_told(tmp_path: Path) -> None:
    splits = json.dumps({"train": RECORDS[1:], "holdout": RECORDS[1:]})  # no two signs
    for name, content, why in (
        ("t.json", '[{"video": 1},', ""),
        ("u.json", "[]", "empty"),
        ("v.json", splits, "holdout is no split"),
    ):
        with pytest.raises(UserError, match=rf"{name}: JSON without records .*{why}"):
            read(tmp_path / name, content)
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
        file.writestr("xl/workbook.xml", "<workbook/>")
    for name in ("t.xlsx", "named.csv"):  # whatever its ending
        with pytest.raises(UserError, match=r"an Excel file .*save it as CSV UTF-8"):
            read(tmp_path / name, (tmp_path / "t.xlsx").read_bytes())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.25", 1.25),
        ("1,25", 1.25),
        ("00:01:02.500", 62.5),
        ("1:02,5", 62.5),
        ("01:00:00", 3600),
        ("00:00:00.033333", 0.033333),
        ("-1", -1),
        ("1_0", None),
        ("soon", None),
        ("", None),
    ],
)
def test_times_are_read_as_clocks_and_with_decimal_commas(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml and a film to copy."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_video(tmp_path / "film.mp4")  # two seconds
    monkeypatch.chdir(tmp_path)
    return tmp_path


def films(*names: str) -> None:
    for name in names:
        Path("in", name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("film.mp4", Path("in", name))


def init(*argv: str, signer_disjoint: bool = False) -> list[Clip]:
    """Run `signloom init` on films and return the clips."""
    main(["init", "corpus", "--videos", "in", "--force", *argv])
    return read_manifest(Path("corpus/manifest.tsv"), signer_disjoint)


SHARES = ["--set", "signer=a", "--shares", "50", "50", "0", "--by", "clip"]
IN_MS = ("start_ms=start", "end_ms=end")


def test_names_and_texts_are_one_however_their_accents_are_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [unicodedata.normalize("NFD", name) for name in ("été", "한국어", "Über/Ä")]
    films(*(f"{name}.mp4" for name in names), "A.MP4", "\u200eb.mp4")
    caption = "1\n00:00:00,000 --> 00:00:01,000\nété\n"
    Path("in", f"{names[2]}.srt").write_text(caption)
    texts = ["é", "e\u0301", "\ufeffé", "\u200bé"]
    cells = ["été.mp4", "한국어", "Über/Ä", "corpus\\films\\a.mp4", "b.mp4"]
    rows = [f"{name}\t{text}" for name, text in zip(cells, [*texts, "ohne"], strict=True)]
    Path("t.tsv").write_text("\n".join(["video\ttext", *rows]))
    clips = init("--table", "t.tsv", *SHARES)
    assert [clip.clip_id for clip in clips] == ["été", "한국어", "Ä", "a", "b"]
    assert [clip.text for clip in clips] == ["é"] * 4 + ["ohne"]
    table = "video\tcaptions\nÜber/Ä\tin/Über/Ä.srt\n"
    Path("films.tsv").write_text(table)
    shutil.copy("film.mp4", "in/x.mp4")
    with pytest.raises(SystemExit, match="found 1 clip for 2 splits"):
        init("--captions", "--table", "films.tsv", *SHARES)


def test_a_clip_is_called_as_its_file_and_no_more_than_tells_it_apart(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films("a.mp4", "x/c.mp4", "y/c.mp4", "long.mp4")
    rows = [
        "/home/joe/in/a.mp4,1,,",
        r"D:\films\x\c.mp4,2,,",
        r"D:\films\y\c.mp4,3,,",
        "long.mp4,4,00:00:00.000,00:00:00.800",
        'long.mp4,5,"0,8","1,6"',
    ]
    Path("t.csv").write_text("\n".join(["video,text,start_s,end_s", *rows]))
    clips = init("--table", "t.csv", *SHARES)
    assert [clip.clip_id for clip in clips] == ["a", "x_c", "y_c", "long-00000000", "long-00000800"]
    assert [(clip.start_s, clip.end_s) for clip in clips[3:]] == [(0, 0.8), (0.8, 1.6)]
    Path("t.csv").write_text("video,text,start_ms,end_ms\na,1,200,900\nlong,2,0,800\n")
    assert [clip.start_s for clip in init("--table", "t.csv", *SHARES)] == [0.2, 0]
    Path("t.csv").write_text("video,text,start_s,duration\na,1,0.2,0.4\nlong,2,0,\n")
    assert [clip.end_s for clip in init("--table", "t.csv", *SHARES)] == [0.6, None]
    capsys.readouterr()
    Path("t.csv").write_text("video,text,start,end\na,1,200,900\nlong,2,0,800\n")
    init("--table", "t.csv", *SHARES)
    assert "start and end may be times within films" in capsys.readouterr().out
    assert [c.end_s for c in init("--table", "t.csv", *SHARES, "--column", *IN_MS)] == [0.9, 0.8]
    Path("t.csv").write_text("video,text,start_time,stopAt\na,1,0.2,0.9\nlong,2,0,0.8\n")
    assert [clip.start_s for clip in init("--table", "t.csv", *SHARES)] == [None, None]
    assert "start_time and stopAt may be times within films" in capsys.readouterr().out
    Path("t.csv").write_text("id,video,text\n/x/p:1.mp4,a,1\nq,long,2\n")
    assert [clip.clip_id for clip in init("--table", "t.csv", *SHARES)] == ["p_1", "q"]


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (["400,800", "900,1600"], "As milliseconds they would fit: --column start_ms=t0 end_ms=t1"),
        (["5,20", "20,49"], "As frames (25 a second) they would fit: --column start_frame=t0"),
        (["400000,800000", "0,1e6"], "As microseconds they would fit: write them in seconds"),
        (["10.5,11.5", "70,71.25"], "--set start_s= end_s= takes each film whole"),
        (["00:01:10,00:01:12", "2:00,2:03"], "--set start_s= end_s= takes each film whole"),
    ],
)
def test_times_that_are_no_seconds_of_the_film_are_told_at_once(
    project: Path, rows: Sequence[str], advice: str
) -> None:
    films("a.mp4", "long.mp4")
    cells = zip(("a", "long"), rows, strict=True)
    Path("t.csv").write_text("\n".join(["video,text,t0,t1", *(f"{v},{v},{r}" for v, r in cells)]))
    columns = ["--column", "start_s=t0", "end_s=t1"]
    with pytest.raises(SystemExit, match="beyond the end of its film") as caught:
        init("--table", "t.csv", *SHARES, *columns)
    assert advice in str(caught.value)
    assert not Path("corpus").exists()
    clips = init("--table", "t.csv", *SHARES, "--set", "start_s=", "end_s=")
    assert {(clip.start_s, clip.end_s) for clip in clips} == {(None, None)}


def test_a_time_beyond_its_film_among_others_costs_its_row(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    films("a.mp4", "long.mp4")
    lines = ["a,1,0,0.5", "long,2,0.2,0.9", "long,3,1,1.5", "a,4,7,8"]
    Path("t.csv").write_text("\n".join(["video,text,start_s,end_s", *lines]))
    with pytest.raises(SystemExit, match="1 row left out"):
        init("--table", "t.csv", *SHARES)
    assert "7 to 8 s, the film ends at 2.00 s" in Path("corpus/refused.tsv").read_text()
    Path("t.csv").write_text("video,text,start_s,end_s\na,1,0,0.05\nlong,2,0.01,0.03\n")
    init("--table", "t.csv", *SHARES)
    assert "half of the clips last less than 0.1 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("there", "cells", "found"),
    [
        (["s1/a"], ["s2/a.mp4", "s1/a.mp4"], {"s1_a": "s1/a"}),
        (["a"], ["s1/a.mp4", "s2/a.mp4", "a"], {"a": "a"}),
        (["s3/c", "b"], ["s3/c.mp4", "b", "./s3/c.mp4"], {"c": "s3/c", "b": "b"}),
        (["d", "d/d"], ["d.mp4", "d/d.mp4"], {"d_d": "d/d"}),
    ],
)
def test_rows_get_films_and_names_of_their_own(
    project: Path, there: Sequence[str], cells: Sequence[str], found: Mapping[str, str]
) -> None:
    films("z.mp4", *(f"{name}.mp4" for name in there))
    Path("t.csv").write_text("\n".join(["video,text", "z,z", *(f"{cell},x" for cell in cells)]))
    with pytest.raises(SystemExit, match=r"rows? left out"):
        init("--table", "t.csv", *SHARES)
    clips = read_manifest(Path("corpus/manifest.tsv"), signer_disjoint=False)
    paired = {clip.clip_id: str(clip.video).partition("videos/")[2] for clip in clips}
    assert paired == {name: f"{film}.mp4" for name, film in {"z": "z", **found}.items()}
    assert "is empty" not in Path("corpus/refused.tsv").read_text()


PATHS = ("book/anna_1.mp4", "book/ben_1.mp4", "thank you/anna_1.mp4", "thank you/ben_1.mp4")


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        ("", "{text}/{signer}_{clip}.mp4"),
        ("\n".join(PATHS), "{text}/{signer}_{clip}"),
        ("path\n" + "\n".join(PATHS), "{text}/{signer}_{clip}"),
        ("video,signer,text\n" + "".join(f"{i}_1,{'ab'[i % 2]},t{i}\n" for i in range(4)), ""),
    ],
)
def test_paths_of_films_say_what_no_table_does(project: Path, table: str, pattern: str) -> None:
    films(*PATHS)
    more = ["--shares", "50", "50", "0", "--by", "clip"]
    if not pattern:  # the table's names are parts of those of the films
        for number, name in enumerate(PATHS):
            Path("in", name).rename(f"in/{number}_1_color.mp4")
        pattern = "{clip}_color"
    if table:
        Path("t.txt").write_text(table)
        more += ["--table", "t.txt"]
    clips = init("--pattern", pattern, *more)
    assert {(clip.text, clip.signer) for clip in clips} == (
        {(f"t{i}", "ab"[i % 2]) for i in range(4)}
        if pattern == "{clip}_color"
        else {(text, who) for text in ("book", "thank you") for who in ("anna", "ben")}
    )
    films("stray.mp4")
    if table.startswith("path"):  # whose first film is missing
        Path("t.txt").write_text(table.replace("path\n", "path\nbook/cleo_1.mp4\n"))
        with pytest.raises(SystemExit, match="1 row left out"):
            init("--pattern", pattern, *more)
        assert "cleo_1.mp4\tno video of its name" in Path("corpus/refused.tsv").read_text()
    if not table:
        with pytest.raises(SystemExit, match="1 row left out"):
            init("--pattern", pattern, *more)
        assert "stray.mp4\tits path does not fit" in Path("corpus/refused.tsv").read_text()


@pytest.mark.parametrize(
    ("right", "left", "found"),
    [
        ([(0, 400, "ICH"), (400, 800, "HAUS")], [(400, 800, "HAUS")], "ICH HAUS"),
        (
            [(0, 400, "ICH"), (400, 800, "HAUS")],
            [(430, 1000, "HAUS"), (100, 300, "DA")],
            "ICH DA HAUS",
        ),  # the other hand stays up
        ([(400, 800, "NEIN")], [(0, 1000, "HAUS")], "HAUS NEIN"),  # as they begin
        ([(0, 400, "JA"), (400, 800, "JA")], [(0, 800, "JA")], "JA JA"),  # one hand holds
        ([(0, 400, "JA"), (400, 800, "JA")], [(0, 400, "JA"), (400, 800, "JA")], "JA JA"),
        ([(0, 400, "JA")], [(380, 800, "JA")], "JA JA"),  # one after the other
        ([], [(0, 400, "JA")], "JA"),
    ],
)
def test_a_sign_of_both_hands_is_one_gloss(
    tmp_path: Path, right: Marks, left: Marks, found: str
) -> None:
    tiers = {"Satz_A": [(0, 1000, "Satz.")], "Glosse_r_A": right, "Glosse_l_A": left}
    choice = Choice(tier="Satz_*", gloss_tier="Glosse_*")
    (cue,) = read_captions(eaf(tmp_path / "f.eaf", tiers), choice).cues
    assert cue.gloss == found


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        ([(0, 400, "THANK YOU"), (400, 800, " I  SAY "), (800, 900, " ")], "THANK-YOU I-SAY"),
        ([(0, 1000, "ICH GEHEN HAUS")], "ICH GEHEN HAUS"),  # a line of glosses for a sentence
    ],
)
def test_an_annotation_of_two_words_is_one_sign(tmp_path: Path, marks: Marks, found: str) -> None:
    path = eaf(tmp_path / "f.eaf", {"Satz_A": [(0, 1000, "Satz.")], "Glosse_A": marks})
    (cue,) = read_captions(path, Choice(tier="Satz_*", gloss_tier="Glosse_*")).cues
    assert cue.gloss == found


@pytest.mark.parametrize(
    ("marks", "is_warned"),
    [
        ([(0, 400, "BUENOS DIAS"), (500, 900, "HAUS")], True),
        ([(0, 400, "BUENOS-DIAS"), (500, 900, "HAUS")], False),
        ([(0, 200, "BUENOS DIAS"), (200, 400, "DU"), (500, 900, "HAUS")], False),  # a sign each
    ],
)
def test_words_of_a_sentences_only_gloss_that_become_signs_are_warned_of(
    project: Path, capsys: pytest.CaptureFixture[str], marks: Marks, is_warned: bool
) -> None:
    films("a.mp4")
    tiers = {"Satz_A": [(0, 450, "Guten Tag."), (450, 1000, "Haus.")], "Glosse_A": marks}
    eaf(Path("in/a.eaf"), tiers)
    clips = init("--captions", "--tier", "Satz_*", "--gloss-tier", "Glosse_*", *SHARES)
    assert (clips[0].gloss == "BUENOS DIAS") == is_warned
    words = "in 1 ELAN files (first a.eaf) each sentence has one gloss annotation"
    assert (words in capsys.readouterr().out) == is_warned


def test_glosses_of_protocols_come_without_their_frames(project: Path) -> None:
    films("a.mp4", "long.mp4")
    Path("t.csv").write_text("video,gloss\na,WETTER1/2/9 1/2 HEUTE1A^/10/18\nlong,DU1:0:9\n")
    clips = init("--table", "t.csv", *SHARES)
    assert [(clip.gloss, clip.text) for clip in clips] == [
        ("WETTER1 1/2 HEUTE1A^", "WETTER1 1/2 HEUTE1A^"),
        ("DU1", "DU1"),
    ]


def test_glosses_are_of_whom_their_tier_is_named_after(tmp_path: Path) -> None:
    tiers = {
        "Satz_A": [(0, 1000, "Eins.")],
        "Satz_B": [(0, 1000, "Zwei.")],
        "Glosse_r_A": [(0, 500, "EINS")],
        "Glosse_r_B": [(0, 500, "ZWEI")],
    }
    path = eaf(tmp_path / "f.eaf", tiers, participants=False)
    cues = read_captions(path, Choice(tier="Satz_*", gloss_tier="Glosse_*")).cues
    assert [(cue.signer, cue.gloss) for cue in cues] == [("A", "EINS"), ("B", "ZWEI")]
    for names, is_known in {"Dutch English": 0, "EN NL": 0, "P1 AB2": 1, "Anna Ben": 1}.items():
        tiers = {f"T {who}": [(0, 500, "x")] for who in names.split()}
        eaf(path, tiers, ["1_anna.mp4", "1_ben.mp4"], participants=False)
        captions = read_captions(path, Choice(tier="T *"))
        assert {cue.signer for cue in captions.cues} == ({*names.split()} if is_known else {""})
        assert bool(captions.signers) == is_known  # said


TWO = {"Satz_{}": ("A", "B"), "TranslationNarrow {}": ("S1", "S2"), "T_{}": ("S015", "S016")}


@pytest.mark.parametrize(
    ("tier", "names", "media", "table", "found"),
    [
        ("Satz_{}", ("14_1a1", "14_1b1"), False, "", "AB"),  # DGS
        ("Satz_{}", ("14_1b1", "14_1a1"), False, "14_1b1\tB\n14_1a1\tA\n", "BA"),
        ("Satz_{}", ("14_1a1", "14_1b1"), False, "14_1b1\tX\n14_1a1\tY\n", "AB"),
        ("TranslationNarrow {}", ("C1_S001_b", "C1_S002_b"), True, "", ("S1", "S2")),  # NGT
        ("T_{}", ("C1_S016_b", "C1_S015_b"), True, "", ("S016", "S015")),
        ("TranslationNarrow {}", ("C1_S016_b", "C1_S015_b"), True, "", ("S2", "S1")),
        ("TranslationNarrow {}", ("C1_a", "C1_b"), True, "", ()),  # who is the first?
        ("Satz_{}", ("front", "side"), True, "", ()),
        ("Satz_{}", ("front", "side"), False, "front\tA\nside\tB\n", "AB"),
        ("Satz_{}", ("front", "side"), False, "front\t\nside\t\n", ()),
        ("Satz_{}", ("14_1a1",), True, "", "A"),  # the other film is elsewhere
        ("Satz_{}", ("front",), False, "front\tA\n", "A"),
    ],
)
def test_two_signers_of_one_file_are_cut_from_their_own_films(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    tier: str,
    names: Sequence[str],
    media: bool,
    table: str,
    found: Sequence[str],
) -> None:
    films(*(f"{name}.mp4" for name in names))
    links = [f"{name}.mp4" for name in (*names, "14_1b1")[:2]] if media else []
    tiers = {
        tier.format(who): [(0, 500 + 100 * n, who), (900, 1500, f"{who} 2")]
        for n, who in enumerate(TWO[tier])
    }
    eaf(Path("in/14.eaf"), tiers, links)
    more = ["--captions", "--tier", tier.format("*"), "--shares", "1", "1", "0", "--by", "clip"]
    if table:
        rows = table.replace("\t", "\tin/14.eaf\t")
        Path("films.tsv").write_text("video\tcaptions\tsigner\n" + rows)
        more += ["--table", "films.tsv"]
    if not found:
        with pytest.raises(SystemExit, match="which of its films shows its signer is not known"):
            init(*more)
        return
    if len(names) == 1:
        with pytest.raises(SystemExit, match="2 rows left out"):
            init(*more)
        clips = read_manifest(Path("corpus/manifest.tsv"), signer_disjoint=False)
    else:
        clips = init(*more)
    cut = {(clip.text.split()[0], clip.video.stem) for clip in clips if clip.video}
    assert cut == set(zip(found, names, strict=True))
    if "C1_S016_b" in names:  # who is S1 in every file is another one in each
        assert {clip.signer for clip in clips} == {"S015", "S016"}
        assert ("S1 is S015, S2 is S016" in capsys.readouterr().out) == (found[0] == "S2")
    if "X" in table:  # a table's names of people count more than A and B
        assert {(clip.text, clip.signer) for clip in clips} >= {("A", "Y"), ("B", "X")}


def test_times_of_a_second_film_are_its_own(project: Path) -> None:
    films("1_a.mp4", "1_b.mp4")
    tiers = {"T_a": [(0, 500, "eins")], "T_b": [(0, 500, "zwei")]}
    eaf(Path("in/1.eaf"), tiers, ["1_a.mp4", '1_b.mp4 TIME_ORIGIN="250"'])
    clips = init("--captions", "--tier", "T_*", "--shares", "1", "1", "0", "--by", "clip")
    assert {(clip.text, clip.start_s) for clip in clips} == {("eins", 0.0), ("zwei", 0.25)}


@pytest.mark.parametrize(
    "options",
    [
        ("--pattern", "{signer}/{text}/{clip}"),
        ("--table", "letters.csv", "--column", "video=image", "text=letter"),
    ],
    ids=["paths", "table"],
)
def test_pictures_of_letters_are_a_clip_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Sequence[str]
) -> None:
    """Not the frames of one film, as the pictures of a folder are elsewhere."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", ".")
    lines = ["image,letter,signer"]
    for signer, letter in itertools.product(("ann", "bo"), "AB"):
        folder = Path("letters", signer, letter)
        folder.mkdir(parents=True)
        for number in (1, 2):
            name = write_picture(folder / f"{letter}{number}.jpg", "jpg").name
            lines.append(f"{signer}/{letter}/{name},{letter},{signer}")
    Path("letters.csv").write_text("\n".join(lines))
    shares = ("--shares", "50", "50", "0")
    main(["init", "corpus", "--videos", "letters", *options, *shares])
    clips = read_manifest(Path("corpus/manifest.tsv"))
    read = {(c.signer, c.text, c.video.as_posix()) for c in clips if c.video}
    assert read == {
        (signer, letter, f"corpus/videos/{signer}/{letter}/{letter}{number}.jpg.mov")
        for signer, letter, number in itertools.product(("ann", "bo"), "AB", (1, 2))
    }


def test_a_picture_next_to_a_film_is_no_clip(tmp_path: Path) -> None:
    folder = tmp_path / "films" / "A"
    folder.mkdir(parents=True)
    write_video(folder / "take.mp4")
    write_picture(folder / "take.webp", "webp")
    videos = VideoFolder(tmp_path / "films", compile_pattern("{text}/{clip}"))
    assert videos.all(pictures=True) == [Path("A/take.mp4")]
    assert videos.find("take") == (Path("A/take.mp4"), "")
    assert videos.beside_films == []  # it has the film's name


def test_pictures_of_letters_next_to_films_are_left_out_with_a_reason(project: Path) -> None:
    films = Path("films/A")
    films.mkdir(parents=True)
    for name in ("take.mp4", "other.mp4"):
        shutil.copy("film.mp4", films / name)
    for name in ("A1.jpg", "A2.jpg", "take.jpg"):
        write_picture(films / name, "jpg")
    given = ("--pattern", "{text}/{clip}", "--set", "signer=ann", "--shares", "50", "50", "0")
    with pytest.raises(SystemExit, match="2 rows left out"):
        main(["init", "corpus", "--videos", "films", *given])
    refused = Path("corpus/refused.tsv").read_text("utf-8").splitlines()[1:]
    assert [line.split("\t")[2] for line in refused] == ["A/A1.jpg", "A/A2.jpg"]
    assert all("a picture next to films" in line for line in refused)


def test_a_picture_that_is_missing_is_no_clip_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "A").mkdir()
    for number in (1, 2):
        write_picture(tmp_path / "A" / f"A{number}.jpg", "jpg")
    videos = VideoFolder(tmp_path)
    videos.take_alone(["A/A1.jpg", "A/A2.jpg", "A/A3.jpg"])
    assert videos.find("A/A2.jpg") == (Path("A/A2.jpg"), "")
    assert videos.find("A/A3.jpg") == (None, "no video of its name")


def test_a_folder_without_a_film_or_picture_says_what_is_read(project: Path) -> None:
    Path("photos/A").mkdir(parents=True)
    Path("photos/A/A1.heic").touch()
    with pytest.raises(SystemExit, match=r"no file below photos ends in \.mp4"):
        main(["init", "corpus", "--videos", "photos", "--pattern", "{text}/{clip}"])
