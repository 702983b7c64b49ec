"""The commands of docs/datasets.md, run as they stand there on folders of the corpora's shape."""

import json
import pickle
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.config import load_params
from signloom.corpus.manifest import Clip, read_manifest
from signloom.corpus.shards import read_shards
from signloom.detection.video import Video
from signloom_tools.cli.main import main
from tests.elan import Marks, eaf
from tests.tiny import ROOT
from tests.videos import encode_video, number_of, write_pictures


def commands(section: str) -> list[list[str]]:
    """Return the arguments of each `signloom` command of a section, variables filled in."""
    text = (ROOT / "docs/datasets.md").read_text(encoding="utf-8")
    (part,) = re.findall(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    (block,) = re.findall(r"^```\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    block = block.replace("\\\n", " ")
    for name, value in re.findall(r"^([A-Z])=(\S+)$", block, re.MULTILINE):
        block = block.replace(f"${{{name}}}", value).replace(f"${name}.", f"{value}.")
    lines = [line for line in block.splitlines() if line.startswith("signloom ")]
    return [shlex.split(line)[1:] for line in lines]


def run(section: str) -> list[Clip]:
    """Run a section and return the clips of its corpus, which params.yaml must name."""
    for arguments in commands(section):
        main(arguments)
    corpus = load_params(Path("params.yaml"))["corpus"]
    return read_manifest(Path(corpus["folder"], corpus["manifest"]), corpus["signer_disjoint"])


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())


def write(path: str, *lines: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_phoenix_2014t() -> None:
    root = "PHOENIX-2014-T"
    for split, date in (("train", "11August_2010"), ("dev", "12May_2011"), ("test", "1July_2010")):
        name = f"{date}_Wednesday_tagesschau-1"
        write(
            f"{root}/annotations/manual/PHOENIX-2014-T.{split}.corpus.csv",
            "name|video|start|end|speaker|orth|translation",
            f"{name}|{name}/1/*.png|-1|-1|Signer08|JETZT WETTER|und nun das wetter .",
        )
        folder = Path(f"{root}/features/fullFrame-210x260px/{split}/{name}")
        write_pictures(folder, "images{:04d}.png", range(1, 8))
    clips = run("RWTH-PHOENIX-Weather 2014T")
    assert [clip.split for clip in clips] == ["train", "dev", "test"]
    assert (clips[0].clip_id, clips[0].text, clips[0].gloss, clips[0].language) == (
        "11August_2010_Wednesday_tagesschau-1", "und nun das wetter .", "JETZT WETTER", "de",
    )  # fmt: skip
    assert clips[1].video is not None
    with Video(clips[1].video) as video:
        assert video.fps == 25
        assert [number_of(frame.rgb) for frame in video.frames()] == list(range(1, 8))


def test_phoenix_2014() -> None:
    root = "phoenix-2014-multisigner"
    for split, name in (("train", "01April_2010"), ("dev", "11May_2010"), ("test", "2July_2010")):
        clip = f"{name}_Thursday_heute_default-0"
        write(
            f"{root}/annotations/manual/{split}.corpus.csv",
            "id|folder|signer|annotation",
            f"{clip}|{clip}/1/*.png|Signer04|__ON__ LIEB ZUSCHAUER loc-NORD __OFF__",
        )
        folder = Path(f"{root}/features/fullFrame-210x260px/{split}/{clip}/1")
        write_pictures(folder, f"{clip}.avi_pid0_fn{{:06d}}-0.png", range(1, 6))
    clips = run("RWTH-PHOENIX-Weather 2014")
    assert [clip.split for clip in clips] == ["train", "dev", "test"]
    assert clips[0].gloss == clips[0].text == "__ON__ LIEB ZUSCHAUER loc-NORD __OFF__"
    assert clips[0].clip_id == "01April_2010_Thursday_heute_default-0"
    assert load_params(Path("params.yaml"))["model"]["family"] == "convolution"
    assert clips[2].video is not None
    with Video(clips[2].video) as video:
        assert [number_of(frame.rgb) for frame in video.frames()] == list(range(1, 6))


def test_isharah() -> None:
    names = ["01_0001", "01_0002", "03_0001"]
    clips = {
        name: {"keypoints": np.random.default_rng(n).uniform(0.2, 0.8, (9 + n, 86, 2))}
        for n, name in enumerate(names)
    }
    Path("pose_data_isharah2000_hands_lips_body_phase2_SI.pkl").write_bytes(pickle.dumps(clips))
    write("annotations_v2/SI/train.txt", "id|gloss", f"{names[0]}|هو يذهب", f"{names[1]}|هو")
    write("annotations_v2/SI/dev.txt", "id|gloss", f"{names[2]}|هو يذهب")
    imported = run("Isharah")
    assert [(clip.clip_id, clip.signer, clip.split) for clip in imported] == [
        ("01_0001", "01", "train"), ("01_0002", "01", "train"), ("03_0001", "03", "dev"),
    ]  # fmt: skip
    assert imported[0].gloss == imported[0].text == "هو يذهب"
    clip = read_shards(Path("data/raw/isharah/landmarks/shards"))["01_0001"]
    points = clips["01_0001"]["keypoints"]
    for group, expected in (
        ("right_hand", points[:, :21]), ("left_hand", points[:, 21:42]),
        ("pose", points[:, [61, 72, 73, 74, 75, 76, 77, 84, 85]]),
    ):  # fmt: skip
        group_points = clip.points[:, clip.layout.slice(group), :2]
        np.testing.assert_allclose(group_points, expected, atol=1e-3)
    assert clip.layout.group_names[-1] == "lips"


def test_csl_daily() -> None:
    names = [f"S00000{number}_P000{number}_T00" for number in range(4)]
    write(
        "CSL-Daily/sentence_label/video_map.txt",
        "index|name|length|gloss|char|word|postag",
        *(
            f"{n}|{name}|56|他 今天 几|他 今 天 {n}|他 今天 {n}|r t m"
            for n, name in enumerate(names)
        ),
    )
    write(
        "CSL-Daily/sentence_label/split_1.txt",
        "name|split",
        *(f"{name}|{split}" for name, split in zip(names, ("train", "dev", "test"), strict=False)),
    )
    for name in names:
        folder = Path(f"CSL-Daily/sentence/frames_512x512/{name}")
        write_pictures(folder, "{:06d}.jpg", range(6))
    with pytest.raises(SystemExit, match="1 row left out"):  # split_1.txt lacks one
        run("CSL-Daily")
    clips = read_manifest(Path("data/raw/csl-daily/manifest.tsv"))
    assert [(clip.text, clip.signer, clip.split) for clip in clips] == [
        ("他今天0", "P0000", "train"), ("他今天1", "P0001", "dev"), ("他今天2", "P0002", "test"),
    ]  # fmt: skip
    assert clips[0].gloss == "他 今天 几"
    assert clips[0].video is not None
    with Video(clips[0].video) as video:
        assert (video.fps, len(list(video.frames()))) == (30, 6)


def landmarks(frames: int) -> dict[str, list[float]]:
    """Return columns of a row a frame, as the fingerspelling set has them."""
    generator = np.random.default_rng(0)
    sizes = {"left_hand": 21, "right_hand": 21, "pose": 33}
    return {
        f"{axis}_{part}_{number}": list(generator.uniform(0.2, 0.8, frames))
        for part, count in sizes.items()
        for axis in "xyz"
        for number in range(count)
    }


def test_kaggle_fingerspelling() -> None:
    sequences = range(1816796431, 1816796431 + 5)
    columns: dict[str, list[float]] = {
        "sequence_id": [sequence for sequence in sequences for _ in range(4)],
        "frame": [frame for _ in sequences for frame in range(4)],
        **landmarks(20),
    }
    Path("asl-fingerspelling/train_landmarks").mkdir(parents=True)
    pq.write_table(pa.table(columns), "asl-fingerspelling/train_landmarks/1019715464.parquet")
    write(
        "asl-fingerspelling/train.csv",
        "path,file_id,sequence_id,participant_id,phrase",
        *(
            f"train_landmarks/1019715464.parquet,1019715464,{s},{s % 5},3 creekhouse"
            for s in sequences
        ),
    )
    clips = run("Kaggle, fingerspelling")
    assert {clip.clip_id for clip in clips} == set(map(str, sequences))
    assert {clip.split for clip in clips} == {"train", "dev", "test"}
    assert all(clip.text == "3 creekhouse" for clip in clips)


def test_kaggle_isolated_signs() -> None:
    rows = []
    for number in range(3):
        name = f"asl-signs/train_landmark_files/{number}/100003556{number}.parquet"
        Path(name).parent.mkdir(parents=True)
        kinds = [
            kind for kind, size in (("left_hand", 21), ("right_hand", 21)) for _ in range(size)
        ]
        indices = [index for size in (21, 21) for index in range(size)]
        values = np.random.default_rng(number).uniform(0.2, 0.8, (3, 42))
        pq.write_table(
            pa.table(
                {"frame": [20] * 42, "type": kinds, "landmark_index": indices,
                 **dict(zip("xyz", values, strict=True))}
            ),
            name,
        )  # fmt: skip
        rows.append(f"{name.removeprefix('asl-signs/')},{number},100003556{number},blow")
    write("asl-signs/train.csv", "path,participant_id,sequence_id,sign", *rows)
    clips = run("Kaggle, isolated signs")
    assert sorted(clip.clip_id for clip in clips) == [f"100003556{number}" for number in range(3)]
    assert {(clip.text, clip.video) for clip in clips} == {("blow", None)}


MS_ASL = {"clean_text": "hi", "text": "hi", "signer_id": 3, "start": 10, "end": 40, "fps": 30.0,
          "org_text": "hi", "start_time": 0.4, "end_time": 3.6,
          "box": [0.1, 0.2, 0.9, 1.0]}  # fmt: skip
BOXES = {"WLASL": "0 0 9 9", "MS-ASL": "0.2 0.1 1 0.9", "OpenASL": "0.1 0 0.9 1"}
THEIRS = tuple(enumerate(("train", "val", "test")))
OURS = tuple(enumerate(("train", "dev", "test")))
HOW2SIGN = "VIDEO_ID VIDEO_NAME SENTENCE_ID SENTENCE_NAME START_REALIGNED END_REALIGNED SENTENCE"
SHAPES: dict[str, tuple[dict[str, str], list[tuple[str, ...]]]] = {
    "How2Sign": (
        {f"how2sign_realigned_{split}.csv": "\t".join((
            HOW2SIGN.replace(" ", "\t") + f"\n-E{n}", f"-E{n}-{n}-rgb_front", f"-E{n}_10",
            f"-E{n}_10-{n}-rgb_front", "129.06", "142.48", 'I call them "decorative", really.'))
         for n, split in THEIRS}
        | {f"How2Sign/{split}/raw_videos/-E{n}_10-{n}-rgb_front.mp4": "" for n, split in THEIRS},
        [(f"_-E{n}_10-{n}-rgb_front", 'I call them "decorative", really.', f"{n}", split)
         for n, split in OURS],
    ),
    "KSL-77": (
        {"ksl77/labels.csv": "word,example,original,small,frames,fps\n" + "".join(
            f"Seoul,{n},original/Seoul__{n}.mp4,360p/Seoul__{n}.mp4,97,29.5\n" for n in (1, 2)),
         **{f"ksl77/videos/Seoul__{n}.mp4": "" for n in (1, 2)}},
        [("Seoul__1", "Seoul", "unknown", "train"), ("Seoul__2", "Seoul", "unknown", "dev")],
    ),
    "WLASL": (
        {"WLASL/WLASL_v0.3.json": json.dumps([{"gloss": "book", "instances": [
            {"bbox": [0, 0, 9, 9], "fps": 25, "frame_end": -1, "frame_start": 1, "signer_id": n,
             "split": split, "video_id": f"6924{n}"} for n, split in THEIRS]}]),
         **{f"WLASL/videos/6924{n}.mp4": "" for n, _ in THEIRS}},
        [(f"6924{n}", "book", f"{n}", split) for n, split in OURS],
    ),
    "MS-ASL": (
        {f"MS-ASL/MSASL_{split}.json": json.dumps([
            {**MS_ASL, "url": f"https://www.youtube.com/watch?v=C37R_Ix8-q{n}", "signer_id": n},
            {**MS_ASL, "url": f"youtu.be/C37R_Ix8-q{n}", "signer_id": n, "start_time": 2.0}])
         for n, split in THEIRS}
        | {f"MS-ASL/films/C37R_Ix8-q{n}.mp4": "" for n, _ in THEIRS},
        [(f"C37R_Ix8-q{n}-{ms}", "hi", str(n), split)
         for n, split in OURS for ms in ("00000400", "00002000")],
    ),
    "ASL Citizen": (
        {f"ASL_Citizen/splits/{split}.csv": "Participant ID,Video file,Gloss,ASL-LEX Code\n"
         f"P{n},9{n}-THANK YOU.mp4,THANKYOU,A_1\n" for n, split in THEIRS}
        | {f"ASL_Citizen/videos/9{n}-THANK YOU.mp4": "" for n, _ in THEIRS},
        [(f"9{n}-THANK YOU", "THANKYOU", f"P{n}", split) for n, split in OURS],
    ),
    "AUTSL": (
        {"AUTSL/SignList_ClassId_TR_EN.csv": "\ufeffClassId,TR,EN\n0,abla,sister\n41,ev,house\n",
         **{f"AUTSL/{split.replace('val', 'validation')}_labels.csv":
            f"signer{n}_sample1,41\nsigner{n}_sample11,0\n" for n, split in THEIRS},
         **{f"AUTSL/{split}/signer{n}_sample{m}_{kind}.mp4": ""
            for n, split in THEIRS for m in (1, 11) for kind in ("color", "depth")}},
        [(f"signer{n}_sample{m}", word, f"signer{n}", split)
         for n, split in OURS for m, word in ((1, "ev"), (11, "abla"))],
    ),
    "LSA64": (
        {f"lsa64_cut/all/001_00{who}_001.mp4": "" for who in (1, 2, 3)},
        [(f"001_00{who}_001", "001", f"00{who}", split)
         for who, split in ((1, "train"), (3, "dev"), (2, "test"))],
    ),
    "OpenASL": (
        {"OpenASL/openasl-v1.0.tsv": "vid\tyid\tstart\tend\traw-text\tsplit\n" + "".join(
            f"-a{n}-00:00:0{n}.500-00:00:09.000\t-a{n}\t00:00:0{n}.500\t00:00:09.000\tHi.\t{split}\n"
            for n, split in THEIRS),
         "OpenASL/bbox-v1.0.json": json.dumps({
             f"-a{n}-00:00:0{n}.500-00:00:09.000": [0.1, -0.02, 0.9, 1.05] for n, _ in THEIRS}),
         **{f"OpenASL/films/-a{n}.mp4": "" for n, _ in THEIRS}},
        [(f"_-a{n}-00_00_0{n}.500-00_00_09.000", "Hi.", "unknown", split) for n, split in OURS],
    ),
    "GSL": (
        {f"GSL_continuous/gsl_split_SI_{split}.csv": "".join(
            f"kep1/kep1_signer{n}_rep1_sentences/sentences000{m}|ΓΕΙΑ ΕΓΩ(1)\n" for m in (0, 1))
         for n, split in OURS}
        | {f"GSL/kep1/kep1_signer{n}_rep1_sentences/sentences000{m}/": ""
           for n, _ in OURS for m in (0, 1)},
        [(f"kep1_signer{n}_rep1_sentences_sentences000{m}", "ΓΕΙΑ ΕΓΩ(1)", f"signer{n}", split)
         for n, split in OURS for m in (0, 1)],
    ),
    "ISL-CSLRT": (
        {"ISL_CSLRT_Corpus/corpus_csv_files/ISL_CSLRT_Corpus details.csv":
         ",Sentences,File location\n" + "".join(
             rf"{n},are you free today,ISL_CSLRT_Corpus\Videos_Sentence_Level\are you\{n}.MP4"
             "\n" for n, _ in OURS),
         **{f"ISL_CSLRT_Corpus/Videos_Sentence_Level/{place}/{n}.mp4": ""
            for n, _ in OURS for place in ("are you", "go")}},
        [(f"{n}", "are you free today", "unknown", split) for n, split in OURS],
    ),
}  # fmt: skip


@pytest.mark.parametrize("section", SHAPES)
def test_one_command_reads_a_published_corpus_whole(section: str) -> None:
    files, expected = SHAPES[section]
    for name, text in files.items():
        if name.endswith("/"):
            write_pictures(Path(name), "frame_{:04d}.jpg", range(4))
        else:
            write(name, text or name)
    clips = run(section)
    imported = {(clip.clip_id, clip.text, clip.signer, clip.split) for clip in clips}
    assert imported == set(expected)
    assert len({clip.video for clip in clips}) == len(clips) / (1 + (section == "MS-ASL"))
    assert section != "ISL-CSLRT" or all("are you/" in str(clip.video) for clip in clips)
    assert {clip.start_s for clip in clips} <= {None, 0.4, 0.5, 1.5, 2.0, 2.5}
    assert {clip.box for clip in clips} == {BOXES.get(section)}


def test_dgs_and_ngt_cut_each_person_from_their_own_film() -> None:
    def conversation(text: str, *glosses: str) -> dict[str, Marks]:
        signs = [(100, 400, "ICH1"), (500, 900, "HAUS1A*")]
        texts = {text.format(who): [(0, 1000, f"Satz {who}.")] for who in whos}
        return texts | {name.format(who): signs for name in glosses for who in whos}

    for folder in ("dgs", "ngt"):
        Path(folder).mkdir()
    for number in range(3):
        whos, dgs = ["A", "B"], f"dgs/141345{number}-11105600"
        tiers = conversation("Deutsche_Übersetzung_{}", "Lexem_Gebärde_r_{}", "Lexem_Gebärde_l_{}")
        eaf(Path(f"{dgs}.eaf"), tiers, participants=False)
        whos, ngt = [f"S00{2 * number + 1}", f"S00{2 * number + 2}"], f"ngt/CNGT000{number}"
        tiers = conversation("TranslationNarrow {}", "GlossL {}", "GlossR {}")
        films = [f"{ngt}_{who}_b.mpg" for who in whos]
        path = eaf(Path(f"{ngt}.eaf"), tiers, [Path(film).name for film in films])
        for place, who in enumerate(whos, start=1):  # tiers are called S1, S2 in every file
            path.write_text(path.read_text().replace(f' {who}"', f' S{place}"'))
        for film in (*films, *(f"{dgs}_1{side}1.mp4" for side in "ab")):
            encode_video(Path(film), [frame / 25 for frame in range(40)])
    rows = [f"141345{n}-11105600_1{side}1\t{side}{n}" for n in range(3) for side in "ab"]
    write("dgs/films.tsv", "video\tsigner", *rows)
    clips = run("DGS Corpus and Corpus NGT")  # the last command's
    clips += read_manifest(Path("data/raw/dgs/manifest.tsv"))
    assert len(clips) == 12
    assert {clip.gloss for clip in clips} == {"ICH1 HAUS1A*"}
    for clip in clips:
        assert clip.video is not None
        person = clip.text.removeprefix("Satz ").removesuffix(".")
        side = {"A": "_1a1", "B": "_1b1"}.get(person, f"_{person}_b")
        assert clip.video.stem.endswith(side)
        assert clip.signer in (person, f"{person.lower()}{clip.video.stem[6]}")
