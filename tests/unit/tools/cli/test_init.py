import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from signloom.config import load_params
from signloom.corpus.manifest import read_manifest
from signloom_tools.cli.main import main
from tests.expect_error import expect_error
from tests.tiny import ROOT, shared
from tests.videos import write_video

PHOENIX = "name|video|start|end|speaker|orth|translation"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml, and videos that lie elsewhere."""
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(ROOT / "params.yaml", root)
    for split in ("train", "dev"):
        for number in range(3):
            path = tmp_path / "films" / split / f"{split}{number}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{split} {number}")
    monkeypatch.chdir(root)
    return root


def write_tables(folder: Path) -> list[str]:
    """Write a table a split, as PHOENIX-2014T has them; return how they are given."""
    for split in ("train", "dev"):
        rows = [
            f"{split}{n}|{split}{n}/1/*.png|-1|-1|Signer{n}|GUT {n}|es wird gut {n} ."
            for n in range(3)
        ]
        text = "\n".join((PHOENIX, *rows)).encode()
        (folder / f"{split}.csv.gz").write_bytes(gzip.compress(text))
    return ["--table", f"train={folder / 'train.csv.gz'}", f"dev={folder / 'dev.csv.gz'}"]


def init(tables: list[str], *more: str, corpus: str = "data/raw/weather") -> None:
    main(["init", corpus, "--videos", "../films", *tables, "--column", "video=name", *more])


def test_a_table_becomes_a_corpus(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = write_tables(project)
    init(tables, "--use")
    clips = read_manifest(Path("data/raw/weather/manifest.tsv"), signer_disjoint=False)
    assert [clip.clip_id for clip in clips] == [
        f"{s}{n}" for s in ("train", "dev") for n in range(3)
    ]
    assert (clips[4].text, clips[4].signer, clips[4].split) == ("es wird gut 1 .", "Signer1", "dev")
    assert clips[4].gloss == "GUT 1"
    assert clips[4].video is not None
    assert clips[4].video.is_symlink()
    assert clips[4].video.read_text() == "dev 1"
    params = load_params(Path("params.yaml"))
    assert params["corpus"] == {
        "folder": "data/raw/weather",
        "manifest": "manifest.tsv",
        "signer_disjoint": False,
    }
    assert params["tokenize_targets"]["ctc"] == "glosses"
    text = capsys.readouterr().out
    for words in (
        "columns parted by pipe",
        "text        <- translation (guessed)",
        "not used: video",
        "6 rows taken, 0 left out",
        "signers in several splits: 3 in train and dev",
        "go on with `dvc repro`",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("extract", {"groups": None}),
        ("features", {"fps": "x"}),
        ("evaluate", {"grid": [[[]]]}),
        ("train", None),
        ("report", []),
    ],
)
def test_a_wrong_value_of_the_parameters_is_named_before_the_corpus_is_written(
    project: Path, section: str, value: object
) -> None:
    tables = write_tables(project)
    Path("params.yaml").write_text(json.dumps(load_params(Path("params.yaml")) | {section: value}))
    with pytest.raises(SystemExit, match=rf"params\.yaml: {section}"):
        init(tables)
    assert not Path("data/raw/weather").exists()


@pytest.mark.parametrize("has_hands", [False, True])
def test_films_without_a_hand_are_told_where_lips_are_read(
    has_hands: bool, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for film in Path("../films").rglob("*.mp4"):
        write_video(film)
    if has_hands:  # a hand in one film is enough
        shutil.copyfile(ROOT / "tests/golden/signer.mp4", "../films/train/train2.mp4")
    init(write_tables(project))
    text, errors = capfd.readouterr()
    assert "TensorFlow" not in errors
    message = "no hand in the middle of any of "
    assert (message in text) == (not has_hands)
    assert ("`signloom adopt --preset lip-conformer`" in text) == (not has_hands)


def test_an_init_that_was_ended_before_params_yaml_named_the_corpus_is_simply_repeated(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise KeyboardInterrupt

    tables = write_tables(project)
    with monkeypatch.context() as patch:
        patch.setattr("signloom_tools.cli.init.adopt", end)
        with pytest.raises(SystemExit, match="stopped"):
            init(tables, "--use")
    assert Path("data/raw/weather/manifest.tsv").is_file()
    assert load_params(Path("params.yaml"))["corpus"]["folder"] != "data/raw/weather"
    init(tables, "--use")
    assert load_params(Path("params.yaml"))["corpus"]["folder"] == "data/raw/weather"
    with pytest.raises(SystemExit, match=r"manifest.tsv already exists, a Signloom manifest"):
        init(tables, "--use")


def test_nothing_is_overwritten_unless_asked_for(project: Path) -> None:
    tables = write_tables(project)
    init(tables, "--copy")
    video = Path("data/raw/weather/videos/train/train0.mp4")
    assert not video.is_symlink()
    manifest = Path("data/raw/weather/manifest.tsv")
    before = manifest.read_bytes()
    with pytest.raises(SystemExit, match=r"already exists.* --force replaces it"):
        init(tables, "--set", "language=de")
    assert manifest.read_bytes() == before
    manifest.unlink()
    with pytest.raises(SystemExit, match=r"train0\.mp4 already exists; --force replaces it"):
        init(tables)  # would put a link in the place of a copy
    assert not manifest.exists()
    init(tables, "--force")
    assert video.is_symlink()


def test_what_init_lacks_is_named_and_a_manifest_is_used_and_not_made_again(project: Path) -> None:
    tables = write_tables(project)
    for arguments, message in (
        (["--videos", "../films"], "give --table FILE"),
        (tables, "give --videos DIR"),
        ([*tables, "--videos", "nothing"], "no such folder"),
    ):
        expect_error(message, ["init", "data/raw/weather", *arguments])
    before = sorted(project.rglob("*"))
    init(tables, "--dry-run", "--use")
    assert sorted(project.rglob("*")) == before
    assert (project / "params.yaml").read_text() == (ROOT / "params.yaml").read_text()
    init(tables)
    manifest = "data/raw/weather/manifest.tsv"
    use = r"corpus.folder: data/raw/weather, corpus.manifest: manifest.tsv\); .*signloom ingest"
    expect_error(
        rf"{manifest} already exists, a Signloom mani.*{use}", ["init", "data/raw/weather"]
    )
    with pytest.raises(SystemExit, match=f"{manifest}: is a Signloom manifest already.*{use}"):
        init(["--table", f"train={manifest}"], corpus="other")
    assert not Path("other").exists()


def test_rows_that_make_no_clip_are_said_and_the_others_taken(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = project / "clips.csv"
    table.write_text(
        "id,text,person,split,from,to\n"
        "train0,one,A,training,,\n"
        "dev0,two,B,val,25,75\n"
        "dev1,,B,val,,\n"
        "train0,three,A,training,,\n"
        "train1,four,A,holdout,,\n"
        "train2,five,A,train,10,5\n"
        "nowhere,six,A,train,,\n"
        "dev2,seven,B\n"
    )
    arguments = ["--fps", "25", "--column", "start_frame=from", "end_frame=to"]
    expect_error(
        r"6 rows left out; .*refused\.tsv says why",
        ["init", "corpus", "--videos", "../films", "--table", str(table), *arguments],
    )
    clips = read_manifest(Path("corpus/manifest.tsv"))
    assert [(clip.clip_id, clip.start_s, clip.end_s) for clip in clips] == [
        ("train0", None, None),
        ("dev0", 1.0, 3.0),
    ]
    refused = [line.split("\t") for line in Path("corpus/refused.tsv").read_text().splitlines()]
    assert {(line, reason) for _, line, _, reason, _ in refused[1:]} == {
        ("4", "text is empty"),
        ("5", "an earlier row has its clip_id"),
        ("6", "its split is not known; --splits NAME=train says what it is"),
        ("7", "its start and end are no segment"),
        ("8", "no video of its name"),
        ("9", "its cells do not fit the columns"),
    }
    assert "left out 1: no video of its name (first clips.csv line 8: nowhere)" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--column", "text=words"], "no such column; the table has name, signs"),
        ([], "which column is text, signer, split?"),
        (["--column", "text=signs", "--set", "signer=a"], "or --shares 80 10 10"),
        (
            [
                "--column",
                "text=signs",
                "--set",
                "signer=a",
                "--shares",
                "8",
                "1",
                "1",
                "--by",
                "signer",
            ],
            "found 1 signer for 3 splits",
        ),
        (
            ["--column", "text=signs", "--set", "signer=a", "--shares", "8", "0", "1"],
            "train and dev need more than 0",
        ),
        (
            ["--column", "text=signs", "--set", "signer=a", "split=test"],
            "no clip is in the split train or dev",
        ),
        (
            [
                "--column",
                "text=signs",
                "clip_id=name",
                "start_frame=name",
                "--set",
                "signer=a",
                "split=dev",
            ],
            "give --fps",
        ),
        (["--separator", "comma"], "the first line names the columns"),
    ],
)
def test_what_is_missing_is_said(project: Path, arguments: list[str], message: str) -> None:
    table = project / "clips.tsv"
    table.write_text("name\tsigns\ntrain0\tx\ndev0\ty\ndev1\tz\n")
    refuse_table(table, message, *arguments)


def refuse_table(table: Path, message: str, *arguments: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["init", "corpus", "--videos", "../films", "--table", str(table), *arguments])
    assert message in str(stop.value)
    assert not Path("corpus").exists()


def test_a_table_without_a_clip_and_an_unwritable_corpus_are_refused(project: Path) -> None:
    header, rows = "name\ttext\tsigner\tsplit\n", "a\tx\tp\ttrain\nb\ty\tq\tdev\n"
    for text, message in (
        (header, "the table has no row after its header"),
        (header + rows, "2 of 2: no video of its name (t.tsv line 2: a)"),
        (
            "name\ttext\tsigner\tsplit\tbbox\ntrain0\tx\tp\ttrain\t10 0 90 99\n"
            "dev0\ty\tq\tdev\t90 0 70 99\n",
            "t.tsv line 3: box '90 0 70 99' is not left",
        ),
    ):
        Path("t.tsv").write_text(text)
        refuse_table(Path("t.tsv"), message)
    Path("film.mp4").write_bytes(b"\0\x9a\tftyp\t\0\n\0")
    refuse_table(Path("film.mp4"), "film.mp4: no text")
    Path("taken").write_text("a file")
    with pytest.raises(SystemExit, match="taken: Not a directory; something with this name"):
        init(write_tables(project), corpus="taken")


def test_imported_landmarks_need_no_videos(project: Path) -> None:
    generator = np.random.default_rng(0)
    frames = generator.uniform(0.2, 0.8, (5, 4, 126)).astype(np.float32)
    np.savez("takes.npz", takes=frames, fps=15.0, width=320, height=240)
    main(["import", "takes.npz", "--to", "corpus"])
    rows = [f"takes-{n}\tsign {n}\tperson{n % 2}\t0 0 1 1" for n in range(1, 7)]
    header = "sequence_id\tsign\tparticipant_id\tbbox"
    Path("t.tsv").write_text("\n".join((header, *rows)) + "\n")
    shares = ["--shares", "1", "1", "0"]
    with pytest.raises(SystemExit, match="1 row left out"):  # there are five takes
        main(["init", "corpus", "--table", "t.tsv", *shares, "--use"])
    clips = read_manifest(Path("corpus/manifest.tsv"))
    assert {clip.clip_id for clip in clips} == {f"takes-{n}" for n in range(1, 6)}
    assert all(clip.video is None for clip in clips)
    params = load_params(Path("params.yaml"))
    assert params["features"]["groups"] == ["hands"]  # there is no pose to normalise by
    assert params["features"]["normalise"] == "body"
    assert params["tokenize_targets"]["ctc"] == "none"  # six letters have no room in four frames
    assert params["train"]["ctc_weight"] == 0
    expect_error(
        "holds imported landmarks",
        ["init", "corpus", "--table", "t.tsv", "--videos", "../films", "--dry-run", *shares],
    )


def test_a_bare_name_that_files_of_two_folders_share_labels_neither(project: Path) -> None:
    hands = np.random.default_rng(1).uniform(0, 1, (5, 21, 3))
    for signer in ("anna", "ben"):
        (project / "in" / signer).mkdir(parents=True)
        np.savez(project / f"in/{signer}/1.npz", left_hand=hands, right_hand=hands)
    Path("t.csv").write_text("file,text,split\nanna/1.npz,hello,train\nben/1.npz,bye,dev\n")
    size = ["--fps", "25", "--width", "640", "--height", "480"]
    main(["import", "in/ben", "--to", "c", *size])
    expect_error(r"2 rows left out|no row", ["init", "c", "--table", "t.csv", "--set", "signer=x"])
    main(["import", "in", "--to", "both", *size])
    main(["init", "both", "--table", "t.csv", "--set", "signer=x"])
    clips = read_manifest(Path("both/manifest.tsv"), signer_disjoint=False)
    assert [(clip.clip_id, clip.text) for clip in clips] == [("anna_1", "hello"), ("ben_1", "bye")]


def test_rows_that_name_landmark_files_with_their_ending_are_taken(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("anna/a1", "anna/a2", "ben/b1"):
        (project / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        hands = np.random.default_rng(1).uniform(0, 1, (5, 21, 3))
        np.savez(project / f"in/{name}.npz", left_hand=hands, right_hand=hands)
    size = ["--fps", "25", "--width", "640", "--height", "480"]
    main(["import", "in", "--to", "c", *size])
    table = Path("t.csv")
    rows = ["anna/a1.npz,hello,train,en", "b1.NPZ,hello,dev,en", "b1.npz,hello,dev,de"]
    table.write_text("\n".join(["file,text,split,lang", *rows, "x9.npz,hello,test,en"]) + "\n")
    expect_error(
        "1 row left out",
        ["init", "c", "--table", "t.csv", "--set", "signer=x", "--only", "lang=en"],
    )
    out = capsys.readouterr().out
    assert "3 of 4 rows by --only" in out
    assert "no landmarks of its name were imported; imported are 3, named as a1" in out
    assert "x9.npz" in out
    clips = read_manifest(Path("c/manifest.tsv"), signer_disjoint=False)
    assert [(clip.clip_id, clip.split) for clip in clips] == [("a1", "train"), ("b1", "dev")]
    for number in range(6):
        rows.append(f"x{number}.npz,word{number},,en")
        shutil.copy("in/ben/b1.npz", f"in/x{number}.npz")
    table.write_text("\n".join(["file,text,split,lang", *rows[3:]]) + "\n")
    main(["import", "in", "--to", "e", *size])
    deal = ["--shares", "60", "20", "20", "--by", "order"]
    main(["init", "e", "--table", "t.csv", "--set", "signer=x", *deal])
    assert "warning: 6 clips have fewer takes of their signer and text" in capsys.readouterr().out
    for wrong, message in (
        ("speech=en", "no such column; t.csv has file"),
        ("lang=(", "no regular"),
    ):
        expect_error(
            message, ["init", "d", "--table", "t.csv", "--set", "signer=x", "--only", wrong]
        )


def test_phoenix_2014t_is_read_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("phoenix14t_text")
    tables = [f"{s}={folder / f'phoenix14t.{s}.tsv'}" for s in ("train", "dev", "test")]
    main(["init", str(tmp_path / "c"), "--dry-run", "--table", *tables])
    text = capsys.readouterr().out
    assert "8257 rows taken, 0 left out" in text
    assert "train 7096 clips, 9 signers" in text
    assert "test  642 clips, 9 signers" in text
    assert "signers in several splits: 9 in train and dev and test" in text


def test_a_text_corpus_needs_no_videos(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{n}\tsatz {n}\tanna{n % 3}\t{'' if n == 5 else f'GLOSSE {n}'}" for n in range(9)]
    Path("t.tsv").write_text("\n".join(("name\ttext\tsigner\tgloss", *rows)) + "\n")
    arguments = ["init", "texts", "--table", "t.tsv", "--shares", "1", "1", "1"]
    expect_error("--text-only for glosses and sentences", arguments)
    expect_error(
        "without videos and landmarks; found --videos",
        [*arguments, "--text-only", "--videos", "../films"],
    )
    expect_error("1 row left out", [*arguments, "--text-only", "--use"])
    clips = read_manifest(Path("texts/manifest.tsv"))
    assert len(clips) == 8
    assert all(clip.video is None and clip.gloss for clip in clips)
    assert "left out 1: gloss is empty" in capsys.readouterr().out
    params = load_params(Path("params.yaml"))
    assert params["tokenize_targets"]["source"] == "subwords"
    assert (params["model"]["source"], params["model"]["subsampling"]) == ("glosses", 1)
    assert params["train"]["ctc_weight"] == 0
    Path("u.tsv").write_text("name\ttext\tsigner\n1\ta\tb\n")
    expect_error(
        "which column is gloss",
        ["init", "u", "--text-only", "--table", "u.tsv", "--shares", "1", "1", "1"],
    )


def write_takes(folder: Path, takes: int) -> None:
    """Write what the tutorial's recorder does: a folder a sign and a take, a file a frame."""
    generator = np.random.default_rng(0)
    for sign in ("hello", "thanks"):
        for number in range(takes):
            place = folder / sign / str(number)
            place.mkdir(parents=True)
            for frame, row in enumerate(generator.uniform(0.2, 0.8, (4, 258))):
                np.save(place / f"{frame}.npy", row)


def test_folders_of_takes_become_a_corpus(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_takes(project / "MP_Data", 11)
    command = ["init", "mine", "--landmarks", "MP_Data", "--detector", "holistic"]
    expect_error("--fps 30 --width 640 --height 480", command)
    command += ["--fps", "30", "--width", "640", "--height", "480"]
    main([*command, "--dry-run"])
    assert not Path("mine/manifest.tsv").exists()
    main([*command, "--use"])
    clips = read_manifest(Path("mine/manifest.tsv"), signer_disjoint=False)
    of = {clip.clip_id: (clip.text, clip.split) for clip in clips}
    assert [of[f"hello_{number}"] for number in (2, 8, 9, 10)] == [
        ("hello", "train"),
        ("hello", "train"),
        ("hello", "dev"),
        ("hello", "test"),
    ]
    assert {clip.signer for clip in clips} == {"one"}
    output = capsys.readouterr().out
    for words in (
        "everything is by one signer",
        "dealt by order",
        "names one of 2 signs a clip",
        "films and cameras by the detector holistic",
    ):
        assert words in output
    main([*command, "--force"])  # as often as one likes


@pytest.mark.parametrize("frame", ["0", "2"])
def test_a_take_with_a_torn_frame_is_refused_for_that_frame(project: Path, frame: str) -> None:
    """Not for its path, where the first frame is the one that is torn."""
    write_takes(project / "MP_Data", 10)
    (project / f"MP_Data/hello/3/{frame}.npy").write_bytes(b"")
    size = ["--fps", "30", "--width", "640", "--height", "480"]
    expect_error(
        rf"1 files or clips could not .* MP_Data/hello/3: {frame}\.npy is not a readable NumPy",
        ["init", "mine", "--landmarks", "MP_Data", *size],
    )


def test_strays_lost_frames_and_the_recorders_rate_are_said_of_takes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_takes(project / "MP_Data", 10)
    (project / "MP_Data/hello/hello/3").mkdir(parents=True)
    (project / "MP_Data/hello/3/2.npy").rename(project / "MP_Data/hello/hello/3/0.npy")
    for path in project.glob("MP_Data/*/*/*.npy"):
        os.utime(path, (1e9, 1e9 + 0.1 * int(path.stem)))  # 10 a second
    size = ["--fps", "30", "--width", "640", "--height", "480"]
    command = ["init", "mine", "--landmarks", "MP_Data", *size]
    main(command)
    assert len(read_manifest(Path("mine/manifest.tsv"), signer_disjoint=False)) == 20
    printed, output = capsys.readouterr()
    assert "1 files lie at another depth and were left out (MP_Data/hello/hello/3)" in printed
    assert "hello/hello/3" in Path("mine/landmarks/rejects.tsv").read_text()
    for path in project.glob("MP_Data/thanks/9/*.npy"):
        np.save(path, np.full(258, 500.0))
    expect_error(
        r"1 files or clips could not .*the first is MP_Data/thanks/9", [*command, "--force"]
    )
    expect_error(
        r"could not be imported.*--pattern",
        [*command, "--force", "--pattern", "{text}/{clip}"],
    )
    assert "1 frames are missing within 1 takes (first MP_Data/hello/3)" in output
    assert "recorded at 10 frames a second, not at 30" in output


def test_a_folder_a_person_above_the_signs_says_who_signs(project: Path) -> None:
    for name in ("anna", "ben", "cem"):
        write_takes(project / "MP_Data" / name, 2)
    size = ["--fps", "30", "--width", "640", "--height", "480"]
    main(["init", "mine", "--landmarks", "MP_Data", *size])
    clips = read_manifest(Path("mine/manifest.tsv"))  # no signer in two splits
    assert {clip.signer for clip in clips} == {"anna", "ben", "cem"}
    assert {clip.text for clip in clips} == {"hello", "thanks"}
    expect_error(
        "expected takes in folders SIGN/TAKE or PERSON",
        ["init", "other", "--landmarks", "MP_Data/anna/hello", *size],
    )
    expect_error(
        "leave --table out", ["init", "other", "--landmarks", "MP_Data", "--table", "list.csv"]
    )


def test_takes_that_lie_in_the_corpus_are_refused(project: Path) -> None:
    write_takes(project / "c" / "landmarks", 4)
    files = sorted((project / "c").rglob("*.npy"))
    size = ["--fps", "25", "--width", "640", "--height", "480", "--shares", "0", "0", "0"]
    expect_error(r"overlap|lies in", ["init", "c", "--landmarks", "c/landmarks", *size])
    assert files
    assert sorted((project / "c").rglob("*.npy")) == files


def test_force_with_a_mistake_keeps_the_earlier_import(project: Path) -> None:
    write_takes(project / "MP_Data", 11)
    size = ["--fps", "25", "--width", "640", "--height", "480"]
    main(["init", "c", "--landmarks", "MP_Data", *size])
    before = {
        path: path.read_bytes() for path in sorted((project / "c").rglob("*")) if path.is_file()
    }
    for mistake in (["MP_Dato"], ["MP_Data", "--shares", "0", "0", "0"]):
        with pytest.raises(SystemExit):
            main(["init", "c", "--force", "--landmarks", *mistake, *size])
        assert before == {path: path.read_bytes() for path in before}
        assert before.keys() == {path for path in (project / "c").rglob("*") if path.is_file()}
