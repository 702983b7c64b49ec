"""A good manifest becomes clips; of a bad one, every problem is told with its line."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.config import parse_options
from signloom.corpus.manifest import (
    IMPORTED_SHARDS,
    Clip,
    CorpusOptions,
    check_splits,
    read_manifest,
    read_table,
    write_manifest,
)
from signloom.errors import UserError

HEADER = "clip_id\tvideo\ttext\tsigner\tsplit"
FULL_HEADER = HEADER + "\tstart_s\tend_s\tgloss\tlanguage"


@pytest.fixture(autouse=True, params=["rows", "columns"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every manifest here as a small one, and again as a large one."""
    if request.param == "columns":
        monkeypatch.setattr("signloom.corpus.manifest.LARGE_BYTES", 0)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write lines into a manifest whose folder has videos/a.mp4, b.mp4 and c.mp4."""
    (tmp_path / "videos").mkdir()
    for name in "abc":
        (tmp_path / "videos" / f"{name}.mp4").touch()

    def write(*lines: str, name: str = "manifest.tsv") -> Path:
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
        return path

    return write


def problems_of(path: Path, signer_disjoint: bool = True) -> str:
    with pytest.raises(UserError) as caught:
        read_manifest(path, signer_disjoint)
    return str(caught.value)


def problem_of_row(write: Callable[..., Path], row: str, header: str = FULL_HEADER) -> str:
    """The one problem of a manifest with a good row, line 2, and this one, line 3."""
    good = "good\tvideos/a.mp4\tbonjour\tanna\ttrain"
    good += "\t" * (header.count("\t") - good.count("\t"))
    first, *further = problems_of(write(header, good, row)).splitlines()
    assert first.endswith("manifest.tsv: 1 problem; the format is in docs/data.md"), (
        first,
        further,
    )
    assert len(further) == 1
    return further[0].removeprefix("  manifest.tsv line 3: ")


def test_a_manifest_becomes_clips(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(
        "# signloom-manifest 1",
        FULL_HEADER,
        "a\tvideos/a.mp4\tje vais à l'école\tanna\ttrain\t1.5\t3\tMOI ÉCOLE ALLER\tfr",
        'b\tvideos/b.mp4\til a dit "non"\tbob\ttest\t\t\t\t',
    )
    first, second = read_manifest(path)
    assert first == Clip(
        clip_id="a",
        video=tmp_path / "videos" / "a.mp4",
        text="je vais à l'école",
        signer="anna",
        split="train",
        start_s=1.5,
        end_s=3.0,
        gloss="MOI ÉCOLE ALLER",
        language="fr",
    )
    assert second.text == 'il a dit "non"'
    assert (second.start_s, second.end_s, second.gloss, second.language) == (None,) * 4


@pytest.mark.parametrize("name", ["manifest.tsv", "manifest.csv", "manifest.parquet"])
def test_what_is_written_is_read(write: Callable[..., Path], tmp_path: Path, name: str) -> None:
    write(HEADER)  # makes the videos
    clips = [
        Clip(
            clip_id="ü 1.a_b-c",
            video=tmp_path / "videos" / "a.mp4",
            text='1, 2; l\'"été"',
            signer="7",
            split="train",
            start_s=0.1,
            gloss="EINS",
        ),
        Clip(
            clip_id="2",
            video=tmp_path / "videos" / "b.mp4",
            text="नमस्ते\u200d",
            signer="8",
            split="dev",
            end_s=1e-3,
        ),
    ]
    write_manifest(tmp_path / name, clips)
    assert read_manifest(tmp_path / name) == clips
    assert read_table(tmp_path / name).header == [*HEADER.split("\t"), "start_s", "end_s", "gloss"]
    assert [p.name for p in tmp_path.iterdir() if "tmp" in p.name] == []


def test_a_sentence_that_would_break_the_table_is_not_written(tmp_path: Path) -> None:
    clip = Clip(clip_id="a", video=tmp_path / "a.mp4", text="a\tb", signer="s", split="train")
    with pytest.raises(ValueError, match=r"text .* control character"):
        write_manifest(tmp_path / "m.tsv", [clip])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a\tvideos/a.mp4\tx\ts\ttrain\t3.4\t3.2\t\t", "end_s 3.2 is not after start_s 3.4"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t\t0\t\t", "end_s 0 is not after start_s 0"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t-1\t\t\t", "start_s '-1' is not a number of seconds"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t\tnan\t\t", "end_s 'nan' is not a number of seconds"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t\tinf\t\t", "end_s 'inf' is not a number of seconds"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t1,5\t\t\t", "start_s '1,5' is not .* as in 3.25"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t1_0\t\t\t", "start_s '1_0' is not a number"),
        ("a\tvideos/a.mp4\tx\ts\tval\t\t\t\t", "split 'val' is not train, dev or test"),
        ("a\tvideos/a.mp4\t \ts\ttrain\t\t\t\t", "text is empty"),
        ("\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", "clip_id is empty"),
        ("good\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", "clip_id 'good' is in line 2 already"),
        ("a/b\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", "clip_id 'a/b' has '/'; use letters, digits"),
        ("-a\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", "clip_id '-a' starts with '-'"),
        ("..\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", r"clip_id '\.\.' starts with '\.'"),
        ("é" * 101 + "\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t", "longer than 200 bytes"),
        ("a\tvideos/a.mp4\tx\x07\ts\ttrain\t\t\t\t", r"text has the control character '\\x07'"),
        ("a\tvideos/a.mp4\tx\u2028y\ts\ttrain\t\t\t\t", "text has the control character"),
        ('a\tvideos/a.mp4\t"say ""x"""\ts\ttrain\t\t\t\t', "text looks quoted; a .tsv"),
        ("a\tvideos/z.mp4\tx\ts\ttrain\t\t\t\t", "video 'videos/z.mp4' is not a file in .*restore"),
        ("a\tvideos\tx\ts\ttrain\t\t\t\t", "video 'videos' is not a file in"),
        (r"a" "\tvideos\\a.mp4\tx\ts\ttrain\t\t\t\t", "is not a file in .*write / between folders"),
        ("a\t../a.mp4\tx\ts\ttrain\t\t\t\t", "video '../a.mp4' leaves the manifest's folder"),
        ("a\t/tmp/a.mp4\tx\ts\ttrain\t\t\t\t", "video '/tmp/a.mp4' is an absolute path"),
        ("a\t\tx\ts\ttrain\t\t\t\t", "video is empty"),
        ("a\tvideos/a.mp4\tx\ts\ttrain", "5 fields, but 9 columns"),
        ("a\tvideos/a.mp4\tx\ts\ttrain\t\t\t\t\t", "10 fields, but 9 columns"),
    ],
)
def test_each_fault_of_a_row_is_named(write: Callable[..., Path], row: str, problem: str) -> None:
    assert re.search(problem, problem_of_row(write, row))


def test_all_problems_come_in_one_message_by_line(write: Callable[..., Path]) -> None:
    path = write(
        HEADER + "\tend_s",
        "a\tvideos/a.mp4\tx\ts\ttrain\t",
        "a\tvideos/z.mp4\t\ts\tvalid\tlate",
        "",
        "c\tvideos/c.mp4\tx\ts",
    )
    first, *problems = problems_of(path).splitlines()
    assert first.startswith(f"{path}: 6 problems")
    for problem_line, problem in zip(
        problems, ("end_s", "text", "split", "video", "clip_id", "4 fields"), strict=True
    ):
        line = 5 if problem == "4 fields" else 3
        assert problem_line.startswith(f"  manifest.tsv line {line}: {problem}")
    rows = [f"c{n}\tvideos/{n}.mp4\tx\ts\ttrain" for n in range(1234)]
    lines = problems_of(write(HEADER, *rows)).splitlines()
    assert (len(lines), lines[-1]) == (52, "  ... and 1184 more")


def test_a_linked_folder_outside_is_refused_and_a_linked_file_is_not(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "b.mp4").touch()
    (tmp_path / "more").symlink_to(outside)
    rows = [
        f"{clip_id}\t{folder}/b.mp4\tx\ts\ttrain"
        for clip_id, folder in (("a", "more"), ("b", "more"), ("c", "videos/../more"))
    ]
    assert problems_of(write(HEADER, *rows)).count("leaves the manifest's folder") == 3
    # As DVC keeps big files: links to its cache, which lies outside.
    (tmp_path / "videos" / "link.mp4").symlink_to(outside / "b.mp4")
    assert read_manifest(write(HEADER, "a\tvideos/link.mp4\tx\ts\ttrain"))


@pytest.mark.parametrize("name", ["x" * 300, "loop"])
def test_a_missing_video_is_named(write: Callable[..., Path], tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    problem = problem_of_row(write, f"a\t{name}/b.mp4\tx\ts\ttrain", header=HEADER)
    assert "cannot be looked up" in problem or "is not a file" in problem


def test_two_videos_that_are_one_file_on_a_disk_without_case_are_named(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    rows = [f"{name}\tvideos/{name}.mp4\tbonjour\tanna\ttrain" for name in ("a", "A")]
    path = write(HEADER, *rows)
    shutil.copy(tmp_path / "videos/a.mp4", tmp_path / "videos/A.mp4")
    assert len(read_manifest(path)) == 2  # here they are two
    (tmp_path / "videos/A.mp4").unlink()
    os.link(tmp_path / "videos/a.mp4", tmp_path / "videos/A.mp4")  # as such a disk answers
    with pytest.raises(UserError, match=r"'videos/A.mp4' is one file with 'videos/a.mp4'"):
        read_manifest(path)


def test_a_manifest_in_the_working_folder_is_read(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(HEADER, "a\tvideos/a.mp4\tx\ts\ttrain")
    monkeypatch.chdir(tmp_path)
    assert read_manifest(Path("manifest.tsv"))[0].video == Path("videos/a.mp4")


def test_a_signer_in_two_splits_is_refused_unless_allowed(write: Callable[..., Path]) -> None:
    path = write(
        HEADER,
        "a\tvideos/a.mp4\tx\tanna\ttrain",
        "b\tvideos/b.mp4\tx\tbob\ttrain",
        "c\tvideos/c.mp4\tx\tanna\ttest",
    )
    message = problems_of(path)
    assert "line 2: signer 'anna' is in train (lines 2) and test (lines 4); give each" in message
    assert "corpus.signer_disjoint" in message
    assert len(read_manifest(path, signer_disjoint=False)) == 3
    # One signer, typed in two ways.
    rows = ("a\tvideos/a.mp4\tx\tZo\u00eb\ttrain", "b\tvideos/b.mp4\tx\tZoe\u0308\ttest")
    assert "signer" in problems_of(write(HEADER, *rows))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "the file is empty"),
        ([HEADER, "a\tvideos/a.mp4\tx\ts\ttrain"], "no clip is in the split dev"),
        (["# signloom-manifest 1"], "the file is empty"),
        ([HEADER], "line 1: no clip follows the header"),
        ([HEADER, "", ""], "line 1: no clip follows the header"),
        ([HEADER, "a\tvideos/a.mp4\tx\ts\tdev"], "no clip is in the split train"),
        (["# signloom-manifest 2", HEADER], "found manifest version '2', this program reads.* 1"),
        (["# signloom manifest", HEADER], "found manifest version '# signloom manifest'"),
    ],
)
def test_a_manifest_without_use_is_refused(
    write: Callable[..., Path], lines: list[str], problem: str
) -> None:
    path = write(*lines)
    with pytest.raises(UserError, match=problem):
        check_splits(path, read_manifest(path))


@pytest.mark.parametrize(
    ("imported", "header", "problem"),
    [
        (False, "clip_id\tvideo\ttext\tsigner", "missing column split; found clip_id, video, te"),
        (False, HEADER + "\tstart", "unknown column 'start'; did you mean 'start_s'?"),
        (False, HEADER + "\tGloss", "unknown column 'Gloss'; did you mean 'gloss'?"),
        (False, HEADER + "\tcamera", "unknown column 'camera'; remove it"),
        (False, HEADER + "\ttext", "column 'text' is there 2 times"),
        (False, "clip_id\ttext\tsigner\tsplit", "missing column video; it names the videos; land"),
        (True, HEADER, "column 'video' is there, and imported landmarks in"),
        (True, "clip_id\ttext\tsigner\tsplit\tend_s", "column 'end_s' cuts videos, but the landm"),
    ],
)
def test_each_fault_of_the_header_is_named(
    write: Callable[..., Path], tmp_path: Path, imported: bool, header: str, problem: str
) -> None:
    if imported:
        (tmp_path / IMPORTED_SHARDS).mkdir(parents=True)
    cells = {"clip_id": "a", "video": "videos/a.mp4", "split": "train"}
    row = "\t".join(cells.get(name, "1") for name in header.split("\t"))
    message = problems_of(write("# signloom-manifest 1", header, row))
    assert f"manifest.tsv line 2: {problem}" in message


def test_a_missing_manifest_names_the_ways_to_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no corpus.*make demo.*docs/data.md"):
        read_manifest(tmp_path / "manifest.tsv")


@pytest.mark.parametrize("name", ["m.xlsx", "sub/m.tsv", "../m.tsv", ""])
def test_the_options_name_a_table_in_the_folder(name: str) -> None:
    section: dict[str, object] = {"folder": "data/raw", "signer_disjoint": True}
    good = parse_options(section | {"manifest": "m.csv"}, CorpusOptions, where="params.yaml")
    assert good.path == Path("data/raw/m.csv")
    with pytest.raises(UserError, match=f"manifest: found '{name}', expected the name of a .tsv"):
        parse_options(section | {"manifest": name}, CorpusOptions, where="params.yaml")


def test_parquet_problems_carry_the_row(write: Callable[..., Path], tmp_path: Path) -> None:
    write(HEADER)
    rows = {
        "clip_id": ["a", "b"],
        "video": ["videos/a.mp4", "videos/a.mp4"],
        "text": ["x", None],
        "signer": [1, 2],
        "split": ["train", "train"],
        "start_s": [float("nan"), -2.0],
    }
    path = tmp_path / "manifest.parquet"
    pq.write_table(pa.table(rows), path)
    message = problems_of(path)
    assert "manifest.parquet row 2: text is empty" in message
    assert "manifest.parquet row 2: start_s '-2.0' is not a number" in message
    assert "row 1" not in message  # NaN is what pandas writes for no value


def test_imported_landmarks_need_no_videos(write: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / IMPORTED_SHARDS).mkdir(parents=True)
    path = write("clip_id\ttext\tsigner\tsplit\tgloss", "a\tbonjour\tanna\ttrain\tBONJOUR")
    (clip,) = read_manifest(path)
    assert clip.video is None
    write_manifest(tmp_path / "again.tsv", [clip])
    assert read_manifest(tmp_path / "again.tsv") == [clip]


def test_a_small_file_with_billions_of_rows_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signloom.corpus.manifest.MOST_ROWS", 1)
    path = tmp_path / "manifest.parquet"
    pq.write_table(pa.table({"clip_id": ["a", "b"]}), path)
    with pytest.raises(UserError, match=r"has 2 rows, expected at most 1, a row a clip"):
        read_manifest(path)
