import gzip
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signloom.errors import UserError
from signloom_tools.importing.column_sources import find_sources
from signloom_tools.importing.dealing import deal_splits
from signloom_tools.importing.new_corpus import CorpusPlan, VideoFolder, clip_id_of
from signloom_tools.importing.user_tables import join_rows, read_user_table, same_header

TEXTS = ("ich möchte einen kaffee", 'sie sagt "hallo"', "je vais à la maison, demain")


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def cells(path: Path, encoding: str | None = None) -> list[dict[str, str]]:
    return [row.cells for row in read_user_table(path, None, encoding).rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("mark", ["\t", "|"])
def test_separator_and_encoding_are_found(tmp_path: Path, mark: str, encoding: str) -> None:
    lines = [mark.join(("name", "text"))] + [
        mark.join((str(number), text)) for number, text in enumerate(TEXTS)
    ]
    path = write(tmp_path / "a.csv", "\r\n".join(lines) + "\r\n", encoding)
    assert [row["text"] for row in cells(path)] == list(TEXTS)


@pytest.mark.parametrize("mark", [",", ";"])
def test_spreadsheets_quote_and_break_lines_in_cells(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path / "a.csv", f'name{mark}text\n1{mark}"a{mark} ""b""\nc"\n2{mark}d\n')
    table = read_user_table(path, None, None)
    assert [row.cells["text"] for row in table.rows] == [f'a{mark} "b" c', "d"]
    assert [row.line for row in table.rows] == [2, 4]


def test_a_guessed_encoding_is_said_and_can_be_overruled(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "name\ttext\n1\t手语\n", "gb18030")
    assert "taken for cp1252" in read_user_table(path, None, None).how
    assert cells(path, "gb18030") == [{"name": "1", "text": "手语"}]
    with pytest.raises(UserError, match="cannot be read as utf-8"):
        read_user_table(path, None, "utf-8")


def test_compressed_tables_are_read_and_torn_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"name|text\n1|x\n"))
    assert cells(path) == [{"name": "1", "text": "x"}]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(UserError, match="cannot be read"):
        read_user_table(path, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just a line\n", "the first line names the columns .*expected two or more"),
        ("", "the first line names the columns .*expected two or more"),
        ("a\ta\n1\t2\n", "each once"),
        ('a,b\n1,"open\n', "quotation mark"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_user_table(write(tmp_path / "a.csv", text), None, None)


def test_rows_that_do_not_fit_the_header_are_set_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "name\ttext\n1\tx\n2\tx\ty\n3\tz\n")
    table = read_user_table(path, None, None)
    assert [row.line for row in table.rows] == [2, 4]
    assert table.torn == [(3, "3 cells, but 2 columns")]
    for text in (  # one more in each row, and no names of R
        "id,gloss,text\na1,HELLO YOU,hello, there\na2,BYE,bye, you\n",
        "id,text\n1,hello, there\n2,bye, you\n",
        'name;text\n"1";hello;\n"2";bye;\n',
    ):
        table = read_user_table(write(path, text), None, None)
        assert (table.rows, [line for line, _ in table.torn]) == ([], [2, 3])


def test_tables_are_joined_by_the_columns_that_they_share(tmp_path: Path) -> None:
    first = read_user_table(write(tmp_path / "a.txt", "name|char\na|x\nb|y\n"), None, None)
    second = read_user_table(write(tmp_path / "b.txt", "name|split\nb|test\n"), None, None)
    joined = join_rows(first, second)
    assert [row.cells for row in joined.rows] == [
        {"name": "a", "split": "", "char": "x"},
        {"name": "b", "split": "test", "char": "y"},
    ]
    assert same_header([joined, first]) == ["name", "char"]
    twice = read_user_table(write(tmp_path / "b.txt", "name|split\nb|x\nb|y\n"), None, None)
    with pytest.raises(UserError, match="lines 2 and 3 have the same name"):
        join_rows(first, twice)
    third = read_user_table(write(tmp_path / "c.txt", "id|split\nb|x\n"), None, None)
    with pytest.raises(UserError, match="shares no column"):
        join_rows(first, third)
    with pytest.raises(UserError, match="no column in common"):
        same_header([first, third])


def test_columns_are_given_or_guessed() -> None:
    header = ["Name", "speaker", "translation", "orth", "note"]
    sources = find_sources(header, {"text": "note"}, {"language": "de"}, {})
    assert {field: source.column for field, source in sources.items()} == {
        "clip_id": "Name",
        "text": "note",
        "signer": "speaker",
        "gloss": "orth",
        "language": None,
    }
    assert sources["signer"].guessed
    assert not sources["text"].guessed


def test_a_pattern_takes_a_part_of_a_column() -> None:
    columns = {"signer": "VIDEO_NAME", "text": "SENTENCE"}
    pick = {"signer": r"-(\d+)-rgb_front"}
    sources = find_sources(["VIDEO_NAME", "SENTENCE"], columns, {}, pick)
    assert sources["signer"].of({"VIDEO_NAME": "--7E2sU6zP4-5-rgb_front"}) == "5"
    assert sources["signer"].of({"VIDEO_NAME": "other"}) == ""
    for pattern, message in (("(", "no regular expression"), ("a", "one pair of round brackets")):
        with pytest.raises(UserError, match=message):
            find_sources(["VIDEO_NAME", "SENTENCE"], columns, {}, {"signer": pattern})
    with pytest.raises(UserError, match="say with --column gloss=COLUMN"):
        find_sources(["SENTENCE", "x"], {}, {}, {"gloss": "(a)"})


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UserError, match="no such column; the table has x, y"):
        find_sources(["x", "y"], {"text": "z"}, {}, {})


@pytest.fixture
def videos(tmp_path: Path) -> VideoFolder:
    for name in (
        "train/a.mp4",
        "dev/a.mp4",
        "train/b.AVI",
        "v1.2.mkv",
        "c/1/images0001.png",
        "c/1/images0002.png",
        "e.mp4",
        "e.webm",
        "notes.txt",
        "train/b/1.jpg",
        "train/b/2.jpg",
        "f.GIF",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return VideoFolder(tmp_path)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("train/a", "train/a.mp4"),
        ("dev\\a.mp4", "dev/a.mp4"),
        ("b", "train/b.AVI"),  # not the folder of its pictures, which lies beside it
        ("360p/b.avi", "train/b.AVI"),  # moved, but there is one only
        ("v1.2", "v1.2.mkv"),  # a dot is no ending
        ("e.webm", "e.webm"),
        ("f", "f.GIF"),
        ("c/1/*.png", "c/1"),
    ],
)
def test_a_video_is_found_by_what_tables_say(videos: VideoFolder, name: str, found: str) -> None:
    assert videos.find(name) == (Path(found), "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a", "2 videos have its name"),
        ("z", "no video of its name"),
        ("notes.txt", "no video of its name"),
        ("c", "no video of its name"),
    ],
)
def test_a_video_that_is_not_found_is_said_why(videos: VideoFolder, name: str, reason: str) -> None:
    path, why = videos.find(name)
    assert path is None
    assert reason in why


@pytest.mark.parametrize("video", ["a/HELLO.mp4", "a/hello.MP4"])
def test_videos_that_a_disk_may_take_for_one_get_a_place_each(video: str) -> None:
    plan, target = CorpusPlan(), Path("corpus/videos", video)
    first = plan.place(Path("corpus/videos/a/hello.mp4"), Path("films/a/hello.mp4"))
    other = plan.place(target, Path("films", video))
    assert first == Path("corpus/videos/a/hello.mp4")
    assert other.as_posix().casefold() != first.as_posix()
    assert other == plan.place(target, Path("films", video))  # of a second row
    assert plan.videos == {first: Path("films/a/hello.mp4"), other: Path("films", video)}


def test_names_become_ids() -> None:
    assert clip_id_of("train/11August_2010-1") == "train_11August_2010-1"
    assert clip_id_of("--7E2sU6zP4_10-5-rgb_front") == "_--7E2sU6zP4_10-5-rgb_front"
    assert clip_id_of("手语 1") == "手语 1"


@given(
    sizes=st.lists(st.integers(1, 30), min_size=3, max_size=12),
    shares=st.sampled_from([(80.0, 10.0, 10.0), (6.0, 2.0, 2.0), (1.0, 1.0, 0.0)]),
)
def test_dealt_splits_share_no_signer_and_none_is_empty(
    sizes: list[int], shares: tuple[float, float, float]
) -> None:
    signers = {
        f"{signer}-{clip}": f"s{signer}"
        for signer, size in enumerate(sizes)
        for clip in range(size)
    }
    dealt = deal_splits(signers, shares, "signer")
    assert dealt == deal_splits(dict(reversed(signers.items())), shares, "signer")
    assert dealt.keys() == signers.keys()
    of_signer = {(signers[clip], split) for clip, split in dealt.items()}
    assert len(of_signer) == len(sizes)
    splits = {name for name, share in zip(("train", "dev", "test"), shares, strict=True) if share}
    assert set(dealt.values()) == splits


def test_clips_are_dealt_by_share() -> None:
    signers = {f"clip{number}": "one" for number in range(100)}
    dealt = deal_splits(dict(zip(signers, signers, strict=True)), (80.0, 10.0, 10.0), "clip")
    assert Counter(dealt.values()) == {"train": 80, "dev": 10, "test": 10}
    with pytest.raises(UserError, match="found 1 signer for 3 splits"):
        deal_splits(signers, (80.0, 10.0, 10.0), "signer")


def test_who_deals_by_clip_is_told_to_deal_by_clip() -> None:
    with pytest.raises(UserError, match=r"found 1 clip for 2 splits.*Bring more"):
        deal_splits({"a": "a"}, (50.0, 50.0, 0.0), "clip")
