"""The commands of docs/data.md, run as they stand there on folders of the corpora's shape."""

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
from tests.tiny import ROOT
from tests.videos import number_of, write_pictures


def commands(section: str) -> list[list[str]]:
    """Return the arguments of each `signloom` command of a section, variables filled in."""
    text = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    (part,) = re.findall(
        rf"^## {re.escape(section)}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL
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
    for split, other in (("train", "11August_2010"), ("dev", "12May_2011"), ("test", "1July_2010")):
        name = f"{other}_Wednesday_tagesschau-1"
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
    assert load_params(Path("params.yaml"))["model"]["family"] == "conformer"
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
    found = run("Isharah")
    assert [(clip.clip_id, clip.signer, clip.split) for clip in found] == [
        ("01_0001", "01", "train"), ("01_0002", "01", "train"), ("03_0001", "03", "dev"),
    ]  # fmt: skip
    assert found[0].gloss == found[0].text == "هو يذهب"
    clip = read_shards(Path("data/raw/isharah/landmarks/shards"))["01_0001"]
    points = clips["01_0001"]["keypoints"]
    for group, expected in (
        ("right_hand", points[:, :21]), ("left_hand", points[:, 21:42]),
        ("pose", points[:, [61, 72, 73, 74, 75, 76, 77, 84, 85]]),
    ):  # fmt: skip
        seen = clip.points[:, clip.layout.slice(group), :2]
        np.testing.assert_allclose(seen, expected, atol=1e-3)
    assert clip.layout.group_names[-1] == "lips"


def test_how2sign() -> None:
    header = "VIDEO_ID VIDEO_NAME SENTENCE_ID SENTENCE_NAME START_REALIGNED END_REALIGNED SENTENCE"
    for number, split in enumerate(("train", "val", "test")):
        clip = f"--7E2sU6zP{number}_10-{number}-rgb_front"
        write(
            f"how2sign_realigned_{split}.csv",
            header.replace(" ", "\t"),
            f"--7E2sU6zP{number}\t--7E2sU6zP{number}-{number}-rgb_front\t--7E2sU6zP{number}_10\t{clip}"
            '\t129.06\t142.48\tAnd I call them "decorative", really.',
        )
        write(f"How2Sign/{split}_rgb_front_clips/raw_videos/{clip}.mp4", split)
    clips = run("How2Sign")
    assert [(clip.split, clip.signer) for clip in clips] == [
        ("train", "0"), ("dev", "1"), ("test", "2"),
    ]  # fmt: skip
    assert clips[0].clip_id == "_--7E2sU6zP0_10-0-rgb_front"
    assert clips[0].text == 'And I call them "decorative", really.'
    assert clips[0].start_s is None


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
    with pytest.raises(SystemExit, match="1 rows were left out"):  # split_1.txt lacks one
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


def test_ksl_77() -> None:
    write(
        "ksl77/labels.csv",
        "word,example,original,small,frames,fps",
        "Seoul,1,original/Seoul__1.mp4,360p/Seoul__1.mp4,97,29.5",
        "Seoul,2,original/Seoul__2.mp4,360p/Seoul__2.mp4,94,29.49",
    )
    for number in (1, 2):
        write(f"ksl77/videos/Seoul__{number}.mp4", str(number))
    clips = run("KSL-77")
    assert [(clip.clip_id, clip.split) for clip in clips] == [
        ("Seoul__1", "train"), ("Seoul__2", "dev"),
    ]  # fmt: skip
