"""Landmarks of other tools become ours, ours become theirs, and what cannot be read is told."""

import csv
import io
import json
import pickle
import re
import subprocess
import sys
import tracemalloc
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import scipy.io

from signloom.corpus.landmarks import (
    GROUP_CHOICES,
    GROUP_INDICES,
    PART_POINTS,
    LandmarkSequence,
    build_layout,
)
from signloom.corpus.manifest import read_manifest
from signloom.corpus.shards import read_shards, shards_metadata, write_shards
from signloom.errors import ClipError, UserError
from signloom_tools.cli.main import main
from signloom_tools.importing.foreign import ForeignClip, LandmarkPart, layout_of, to_sequence
from signloom_tools.importing.importer import Imported, import_landmarks
from signloom_tools.importing.options import ImportOptions, SourceDefaults
from tests.tiny import ROOT, lose, sequence

REAL = ROOT.parent / "shared" / "data"
DEFAULTS = SourceDefaults(fps=30.0, width=640, height=480)
NOTHING = SourceDefaults(fps=None, width=None, height=None)
SIZES = {"pose": 33, "face": 468, "left_hand": 21, "right_hand": 21}
needs_real_data = pytest.mark.skipif(
    not REAL.is_dir(), reason="the real landmark files are not on this machine"
)


def holistic(seed: int = 0, frames: int = 5) -> dict[str, np.ndarray]:
    """Points (S, N, 3) of all parts, as MediaPipe's Holistic gives them; all are there."""
    rng = np.random.default_rng(seed)
    return {name: rng.random((frames, count, 3)).astype("f4") for name, count in SIZES.items()}


def half(points: np.ndarray) -> np.ndarray:
    return points.astype(np.float16).astype(np.float32)


def run(
    sources: Sequence[Path],
    corpus: Path,
    groups: tuple[str, ...] | None = None,
    defaults: SourceDefaults = DEFAULTS,
    kind: str = "auto",
) -> tuple[Imported, dict[str, LandmarkSequence]]:
    options = ImportOptions(format=kind, groups=groups, defaults=defaults)
    result = import_landmarks(sources, corpus, options)
    return result, read_shards(corpus / "landmarks" / "shards")


def rejects(corpus: Path) -> list[dict[str, str]]:
    with (corpus / "landmarks" / "rejects.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def expected(parts: dict[str, np.ndarray], choices: Sequence[str]) -> np.ndarray:
    groups = [group for choice in choices for group in GROUP_CHOICES[choice]]
    columns = [parts[GROUP_INDICES[g.name][0]][:, GROUP_INDICES[g.name][1]] for g in groups]
    return half(np.concatenate(columns, axis=1))


def export(folder: Path, clips: dict[str, LandmarkSequence]) -> None:
    """Write clips to shards, and these to .pose files as the command does."""
    layout = next(iter(clips.values())).layout
    frames = {clip_id: len(clip.points) for clip_id, clip in clips.items()}
    shards = folder / "shards"
    write_shards(
        shards, frames, clips.__getitem__, layout=layout, extractor="{}", frames_per_shard=1000
    )
    main(["export", str(folder / "pose"), "--landmarks", str(shards)])


def assert_equal(actual: LandmarkSequence, clip: LandmarkSequence) -> None:
    assert actual.layout == clip.layout
    np.testing.assert_array_equal(actual.points, half(clip.points))
    np.testing.assert_array_equal(actual.present, clip.present)
    assert (actual.fps, actual.width, actual.height) == (clip.fps, clip.width, clip.height)


def test_npz_of_one_clip_by_part(tmp_path: Path) -> None:
    parts = holistic()
    parts["left_hand"][1] = 0.0
    parts["right_hand"][2, 3, 1] = np.nan
    face = np.concatenate([parts["face"], np.ones((5, 10, 3), "f4")], axis=1)  # irises
    pose = np.concatenate([parts["pose"], np.ones((5, 33, 1), "f4")], axis=2)  # visibility
    np.savez(
        tmp_path / "a.npz", **{**parts, "face": face, "pose": pose}, fps=25, width=300, height=200
    )
    choices = ("hands", "pose", "lips", "face_outline")
    result, clips = run([tmp_path / "a.npz"], tmp_path / "corpus", choices, NOTHING)
    (clip,) = clips.values()
    assert (clip.fps, clip.width, clip.height) == (25.0, 300, 200)
    assert clip.layout == result.layout == build_layout(choices)
    assert clip.present[:, 0].tolist() == [True, False, True, True, True]
    assert clip.present[:, 1].tolist() == [True, True, False, True, True]
    assert clip.present[:, 2:].all()
    is_present = np.repeat(clip.present, [len(g.landmarks) for g in clip.layout.groups], axis=1)
    np.testing.assert_array_equal(clip.points[is_present], expected(parts, choices)[is_present])


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (126, ["left_hand", "right_hand"]),
        (258, ["pose", "left_hand", "right_hand"]),
        (1662, ["pose", "face", "left_hand", "right_hand"]),
    ],
)
@pytest.mark.parametrize("shape", ["clip", "stack", "offsets"])
def test_flat_numbers(tmp_path: Path, width: int, names: list[str], shape: str) -> None:
    parts = holistic(frames=6)
    visible = {**parts, "pose": np.concatenate([parts["pose"], np.ones((6, 33, 1))], axis=2)}
    rows = np.concatenate([visible[name].reshape(6, -1) for name in names], axis=1)
    assert rows.shape == (6, width)
    if shape == "clip":
        np.save(tmp_path / "a.npy", rows)
        ids = ["a"]
    elif shape == "stack":
        np.save(tmp_path / "a.npy", rows.reshape(2, 3, width))
        ids = ["a-1", "a-2"]
    else:
        np.savez(tmp_path / "a.npz", frames=rows, offsets=[0, 1, 6], labels=["yes", "no"])
        ids = ["a-1", "a-2"]
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert list(clips) == ids
    choices = ["hands", "pose"] if "pose" in names else ["hands"]
    points = np.concatenate([clip.points for clip in clips.values()])
    np.testing.assert_array_equal(points, expected(parts, choices))
    listed = (tmp_path / "corpus/landmarks/clips.tsv").read_text(encoding="utf-8")
    assert ("\tno\t" in listed) == (shape == "offsets")


def long_table(parts: dict[str, np.ndarray], frames: Sequence[int]) -> pa.Table:
    rows = [
        (frame, f"{frame}-{name}-{mark}", name, mark, *map(float, parts[name][number, mark]))
        for number, frame in enumerate(frames)
        for name, count in SIZES.items()
        for mark in range(count)
    ]
    names = ("frame", "row_id", "type", "landmark_index", "x", "y", "z")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_kaggle_rows_of_landmarks(tmp_path: Path) -> None:
    parts = holistic(frames=3)
    parts["left_hand"][0] = np.nan
    pq.write_table(long_table(parts, frames=(20, 21, 23)), tmp_path / "77.parquet")
    _, clips = run([tmp_path / "77.parquet"], tmp_path / "corpus")
    clip = clips["77"]
    assert clip.present.tolist() == [
        [False, True, True],
        [True, True, True],
        [False] * 3,
        [True, True, True],
    ]
    np.testing.assert_array_equal(clip.points[3], expected(parts, ["hands", "pose"])[2])


def test_kaggle_rows_of_frames(tmp_path: Path) -> None:
    parts = {name: points for name, points in holistic(frames=5).items() if name != "face"}
    columns = {"sequence_id": [9, 9, 9, 4, 4], "frame": [0, 1, 2, 0, 1]}
    for name, points in parts.items():
        for mark in range(points.shape[1]):
            for axis, number in zip("xyz", range(3), strict=True):
                columns[f"{axis}_{name}_{mark}"] = points[:, mark, number]
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert list(clips) == ["4", "9"]
    points = np.concatenate([clips["9"].points, clips["4"].points])
    np.testing.assert_array_equal(points, expected(parts, ["hands", "pose"]))
    columns |= {"fps": [30, None, 30, 50, 50], "width": [None] * 5, "height": [np.nan] * 5}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in/train.parquet")
    (tmp_path / "in/names.csv").write_text("file,text\ntrain,x\n")  # tells of them, is none
    result, clips = run([tmp_path / "in"], tmp_path / "sizes", kind="kaggle")
    traits = [(clip.fps, clip.width) for clip in clips.values()]
    assert (result.rejects, traits) == ([], [(50, 640), (30, 640)])
    columns["fps"][1] = 25
    pq.write_table(pa.table(columns), tmp_path / "in/train.parquet")
    _, clips = run([tmp_path / "in"], tmp_path / "varies")
    assert "its fps is 25 and 30" in rejects(tmp_path / "varies")[0]["reason"]


@pytest.mark.parametrize(
    "choices",
    [["hands"], ["hands", "pose"], [name for name in GROUP_CHOICES if name != "gaze"], ["gaze"]],
)  # gaze has the corners of the eyes once more
def test_pose_files_hold_what_shards_hold(tmp_path: Path, choices: list[str]) -> None:
    layout = build_layout(choices)
    rng = np.random.default_rng(1)
    points = rng.normal(0.5, 0.6, (40, layout.points, 3)).astype(np.float32)
    points[..., 2] /= 1000  # also numbers below the normal ones of half precision
    clip = LandmarkSequence(
        points=points,
        present=np.ones((40, len(layout.groups)), np.bool_),
        fps=29.97,
        width=1279,
        height=717,
        layout=layout,
    )
    for group in layout.group_names:
        clip = lose(clip, group, slice(3, 5 + layout.group(group)))
    export(tmp_path, {"clip": clip})
    anywhere = replace(NOTHING, allow_outside=True)
    result, clips = run([tmp_path / "pose"], tmp_path / "corpus", tuple(choices), anywhere)
    assert result.layout == layout
    assert_equal(clips["clip"], clip)


@pytest.mark.parametrize("name", ["{part}/{clip}.npy", "{clip}/{part}.npy", "x/{part}/{clip}.npy"])
def test_a_folder_or_a_file_a_part_makes_one_clip(tmp_path: Path, name: str) -> None:
    parts = holistic()
    for clip in ("a", "b"):
        for part in ("left_hand", "right_hand", "pose"):
            path = tmp_path / "in" / name.format(part=part, clip=clip)
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, parts[part])
    _, clips = run([tmp_path / "in"], tmp_path / "corpus")
    assert [clip_id.removeprefix("x_") for clip_id in clips] == ["a", "b"]
    np.testing.assert_array_equal(
        clips["a" if "a" in clips else "x_a"].points, expected(parts, ("hands", "pose"))
    )


@pytest.mark.parametrize(
    ("keys", "column", "hands"),
    [
        (("sample_id", "frame_id"), "{part}_{index}_{axis}", ("hand_0", "hand_1")),
        (("name", "frame_number"), "{part}_{axis}{index}", ("left_hand", "right_hand")),
        (("", "frame"), "{part}_{axis}_{index}", ("lh", "rh")),
    ],
)
def test_a_table_with_a_row_a_frame(
    tmp_path: Path, keys: tuple[str, str], column: str, hands: tuple[str, str]
) -> None:
    parts = holistic()
    named = {hands[0]: parts["left_hand"], hands[1]: parts["right_hand"], "pose": parts["pose"]}
    columns = {
        column.format(part=part, index=index, axis=axis): points[:, index, number]
        for part, points in named.items()
        for index in range(points.shape[1])
        for number, axis in enumerate("xyz")
    }
    table = {keys[0]: ["k::1"] * 5} if keys[0] else {}
    table |= {keys[1]: np.arange(5), "empty": [None] * 5, **columns}
    pacsv.write_csv(pa.table(table), tmp_path / "frames.csv")
    _, clips = run([tmp_path / "frames.csv"], tmp_path / "corpus")
    assert list(clips) == ["k__1" if keys[0] else "frames"]
    (clip,) = clips.values()
    np.testing.assert_allclose(clip.points, expected(parts, ("hands", "pose")), atol=1e-3)


def npy(*arrays: object) -> bytes:
    """Arrays that were saved into one file, one behind the other."""
    buffer = io.BytesIO()
    for array in arrays:
        np.save(buffer, np.array(array))
    return buffer.getvalue()


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


HAND = np.full((5, 21, 3), 0.5)
UNKNOWN = {
    "four.npy": (npy(HAND, HAND, HAND[:, :5]), "more behind its first array, of the shape .5, 21"),
    "objects.npy": (npy([None]), "not objects; --allow-pickle"),
    "k51.npy": (npy(np.ones((5, 51, 3))), r"k51 \(5, 51, 3\)"),
    "wide.npy": (npy(np.ones((5, 1629))), r"wide \(5, 1629\)"),
    "names.npz": (npz(links=HAND, rechts=HAND), r"links \(5, 21, 3\).*rechts.*--keys left_hand="),
    "torso.npz": (npz(torso=HAND[:, :9]), r"torso \(5, 9, 3\)"),
    "torn.npz": (b"PK\x03\x04torn", "torn.npz is not a readable NumPy array"),
    "letters.csv": (b"label,x0,y0\n" + b"A" + b",0.5" * 2, "its columns are label, x0, y0"),
    "hands.csv": (
        ",".join(["label", *(f"x{n}" for n in range(42))]).encode() + b"\nA" + b",0.5" * 42,
        "each row is one picture .label, x0, x1, x2, ...: 42 numbers",
    ),
    "classes.csv": (b"class_id,sign\n1,hello\n", "its columns are class_id, sign"),
    "wlasl.json": (b'[{"gloss": "A", "instances": [{"video_id": "1"}]}]', "the keys video_id"),
    "smplx.json": (b'[{"betas": [0.1], "expression": [0.2]}]', "the keys betas, expression"),
    "info.json": (b'{"year": 2026, "version": "1"}', "its keys are year, version"),
    "empty.json": (b"[]", r"the shape \(0,\)"),
    "h36m.json": (json.dumps({"poses": [[[1, 2]] * 32]}).encode(), "its frames have 32 points"),
    "text.json": (b"no json", "text.json is not readable JSON"),
    "numbers.json.gz": (b"\x1f\x8btorn", "numbers.json.gz is not readable JSON"),
    "torn.pose": (bytes(40), "not a readable .pose file"),
    "some.pkl": (pickle.dumps({"a": 1}), "a pickle is a program"),
    "torn.parquet": (b"PAR1 torn PAR1", "not a readable Parquet file"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cannot_be_read_is_told_by_what_is_in_it(tmp_path: Path, name: str) -> None:
    content, words = UNKNOWN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=words):
        run([tmp_path / name], tmp_path / "corpus")


def test_pose_files_open_in_their_own_library(tmp_path: Path) -> None:
    from pose_format import Pose
    from pose_format.pose_visualizer import PoseVisualizer

    export(tmp_path, {"clip": lose(sequence(frames=6), "left_hand", slice(0, 2))})
    pose = Pose.read((tmp_path / "pose" / "clip.pose").read_bytes())
    names = [component.name for component in pose.header.components]
    assert names == ["POSE_LANDMARKS", "LEFT_HAND_LANDMARKS", "RIGHT_HAND_LANDMARKS"]
    assert (pose.body.confidence[:, 0, 9:30] == np.array([0, 0, 1, 1, 1, 1])[:, None]).all()
    pictures = list(PoseVisualizer(pose).draw())
    assert pictures[5].shape == (240, 320, 3)
    assert (pictures[5] != 255).any(axis=2).sum() > 300  # lines on white
    pose.normalize()  # by the shoulders, which it finds by name


def test_a_pose_file_without_a_nose_has_a_layout_of_its_own(tmp_path: Path) -> None:
    plain = sequence()
    nose = plain.layout.index("pose", "nose")
    clip = ForeignClip(
        clip_id="a",
        fps=10.0,
        width=320,
        height=240,
        parts={
            "left_hand": LandmarkPart(plain.points[:, :21], tuple(range(21))),
            "right_hand": LandmarkPart(plain.points[:, 21:42], tuple(range(21))),
            "pose": LandmarkPart(plain.points[:, nose + 1 :], (11, 12, 13, 14, 15, 16, 23, 24)),
        },
    )
    layout = layout_of(clip, None)
    assert layout.name == "hands-pose-without-nose"
    reduced = to_sequence(clip, layout)
    export(tmp_path, {"a": reduced})
    _, clips = run([tmp_path / "pose"], tmp_path / "corpus")
    assert_equal(clips["a"], reduced)
    with pytest.raises(ClipError, match="it has no nose of the pose, which the first clip has"):
        to_sequence(clip, plain.layout)


def test_shifted_depths_are_moved_to_the_wrist() -> None:
    points = holistic()["left_hand"]
    wrist = points[:, :1, 2].copy()
    points[..., 2] += 640 - wrist
    parts = {name: LandmarkPart(points, tuple(range(21))) for name in ("left_hand", "right_hand")}
    clip = ForeignClip(clip_id="a", parts=parts, fps=1.0, width=9, height=9)
    depths = to_sequence(clip, layout_of(clip, None)).points[:, :21, 2]
    np.testing.assert_allclose(depths, points[..., 2] - 640, atol=1e-3)
    assert (depths[:, 0] == 0).all()


def test_bad_files_are_told_and_the_others_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    (source / "more").mkdir(parents=True)
    good = {name: holistic()[name] for name in ("left_hand", "right_hand", "pose")}
    traits = {"fps": 10, "width": 320, "height": 240}
    np.savez(source / "a.npz", **good, **traits)
    np.savez(source / "more" / "a.npz", **good, **traits)
    np.savez(source / "b.npz", left_hand=good["left_hand"], right_hand=good["right_hand"], **traits)
    np.savez(source / "c(1).npz", **good, **traits)
    np.savez(source / "d.npz", **{name: 300 * part for name, part in good.items()}, **traits)
    np.savez(source / "e.npz", left_hand=good["left_hand"][:2], pose=good["pose"], **traits)
    np.savez(source / "f.npz", words=np.zeros((4, 77)), **traits)
    np.savez(source / "g.npz", frames=np.zeros((4, 126)), offsets=[0, 9], **traits)
    np.save(source / "h.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (source / "i.npz").write_bytes((source / "a.npz").read_bytes()[:700])
    (source / "j.pose").write_bytes(b"nothing of use")
    (source / "k.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"a": [1]}), source / "l.parquet")
    pq.write_table(long_table(holistic(frames=2), frames=(0, 999)), source / "m.parquet")
    np.savez(source / "n.npz", **good, fps=[10, 10], width=320, height=240)
    np.savez(source / "o.npz", left_hand=np.full((5, 21, 3), "x"), **traits)
    np.save(source / "p.npy", np.zeros((0, 4, 126)))
    pq.write_table(long_table(holistic(frames=1), frames=("first",)), source / "q.parquet")
    np.savez(source / "r\t1.npz", **good, **traits)
    (source / "notes.txt").touch()
    size = ["--fps", "30", "--width", "640", "--height", "480"]
    with pytest.raises(SystemExit, match=r"15 files or clips could not be .*rejects.tsv says why"):
        main(["import", str(source), "--to", str(tmp_path / "corpus"), *size])
    assert "4 clips, 20 frames" in capsys.readouterr().err
    assert list(read_shards(tmp_path / "corpus" / "landmarks" / "shards")) == [
        "a",
        "c_1_",
        "more_a",
        "r_1",
    ]
    refused = {row["video"].removeprefix(f"{source}/"): row for row in rejects(tmp_path / "corpus")}
    reasons = {
        "b.npz": "it has no nose of the pose, which the first clip has",
        "d.npz": "expected 0 to 1 in the picture",
        "e.npz": "its frames are: left_hand 2, pose 5",
        "f.npz": "its arrays are words (4, 77) float64",
        "g.npz": "its offsets do not run from 0 to its 4 frames",
        "h.npy": "h is not a readable NumPy array (Object arrays",
        "i.npz": "i.npz is not a readable NumPy array",
        "j.pose": "not a readable .pose file",
        "k.parquet": "not a readable Parquet file",
        "l.parquet": "its columns are a",
        "m.parquet": "its frames are numbered up to 999, but only 2 are there",
        "n.npz": "its fps are 2 numbers",
        "o.npz": "its left_hand has values of type <U1",
        "p.npy": "its p has no frames",
        "q.parquet": "its column frame holds string, expected numbers",
    }
    assert refused.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert reason in refused[name]["reason"], name
        assert refused[name]["hint"], name


@pytest.mark.parametrize("number", [np.inf, -np.inf, 1e300])
def test_infinite_coordinates_are_refused(tmp_path: Path, number: float) -> None:
    good = holistic()
    np.savez(tmp_path / "good.npz", **good)
    np.savez(tmp_path / "bad.npz", left_hand=np.full((5, 21, 3), number))
    wide = np.random.default_rng(0).random((5, 126))
    wide[2, 3] = number
    np.save(tmp_path / "wide.npy", wide)
    result, _ = run([tmp_path / name for name in ("good.npz", "bad.npz", "wide.npy")], tmp_path)
    assert (result.clips, len(rejects(tmp_path))) == (1, 2)
    for row in rejects(tmp_path):
        assert "inf" in row["reason"]
        assert "write NaN where nothing was found" in row["hint"]


def test_hands_that_are_no_numbers_are_refused_in_words(tmp_path: Path) -> None:
    traits = {"fps": 10, "width": 320, "height": 240}
    right = holistic()["right_hand"]
    np.savez(tmp_path / "a.npz", **{name: holistic()[name] for name in SIZES}, **traits)
    np.savez(
        tmp_path / "complex.npz", left_hand=np.full((5, 21, 3), 1j), right_hand=right, **traits
    )
    np.savez(tmp_path / "times.npz", left_hand=right.astype("M8[s]"), right_hand=right, **traits)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as out:
        out.writestr("left_hand", "hello")
        out.writestr("fps", "25")
    np.savez(tmp_path / "labels.npz", frames=np.zeros((9, 126)), offsets=[0, 4, 9], labels=["a"])
    _, clips = run([tmp_path], tmp_path / "corpus", groups=("hands",))
    assert list(clips) == ["a"]
    refused = {Path(row["video"]).name: row["reason"] for row in rejects(tmp_path / "corpus")}
    assert refused == {
        "complex.npz": "its left_hand has values of type complex128",
        "labels.npz": "it has labels of the shape (1,) for 2 clips",
        "text.npz": refused["text.npz"],
        "times.npz": "its left_hand has values of type datetime64[s]",
    }
    assert "fps is not a readable NumPy array" in refused["text.npz"]


def test_frames_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    long = long_table(holistic(frames=2), frames=(0, 1))
    half_way = long.set_column(0, "frame", pc.divide(long["frame"], 2.0))
    pq.write_table(half_way, tmp_path / "a.parquet")
    marks = [
        f"{axis}_{hand}_{mark}"
        for hand in ("left_hand", "right_hand")
        for mark in range(21)
        for axis in "xyz"
    ]
    columns = {"sequence_id": [1, 1, 2], "frame": [0, 0, 0], **dict.fromkeys(marks, [0.5] * 3)}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    _, clips = run([tmp_path], tmp_path / "corpus", groups=("hands",))
    assert list(clips) == ["2"]
    assert [row["reason"] for row in rejects(tmp_path / "corpus")] == [
        "its frames are no whole numbers",
        "a frame occurs twice",
    ]


def test_a_bad_clip_does_not_cost_the_others_of_its_file(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((6, 126))
    np.savez(tmp_path / "a.npz", frames=rows, offsets=[0, 2, 2, 6])
    _, clips = run([tmp_path / "a.npz"], tmp_path / "one")
    assert {name: len(clip.points) for name, clip in clips.items()} == {"a-1": 2, "a-3": 4}
    assert [row["clip_id"] for row in rejects(tmp_path / "one")] == ["a-2"]
    marks = [
        f"{axis}_{hand}_{mark}"
        for hand in ("left_hand", "right_hand")
        for mark in range(21)
        for axis in "xyz"
    ]
    columns = {"sequence_id": ["x", "x", "y"], "frame": [0, 9999, 0]}
    columns |= {mark: rows[:3, number] for number, mark in enumerate(marks)}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    _, clips = run([tmp_path / "b.parquet"], tmp_path / "two")
    assert list(clips) == ["y"]
    assert [row["clip_id"] for row in rejects(tmp_path / "two")] == ["x"]


def write_bombs(folder: Path) -> None:
    """Write small files that unpack to gigabytes, or to more than 100 MB."""
    rows = 2_000_000
    long = {
        "frame": pa.repeat(pa.scalar(1, pa.int16()), rows),
        "type": pa.repeat("face", rows),
        "landmark_index": pa.repeat(pa.scalar(2, pa.int16()), rows),
        **{axis: pa.repeat(pa.scalar(0.5, pa.float32()), rows) for axis in "xyz"},
    }
    pq.write_table(pa.table(long), folder / "long.parquet")
    names = ["sequence_id", "frame", *(f"{axis}_left_hand_{n}" for n in (0, 1) for axis in "xyz")]
    wide = {name: pa.repeat(pa.scalar(0, pa.int64()), rows) for name in names}
    pq.write_table(pa.table(wide), folder / "wide.parquet")
    # A row for each of 50,000 frames: 543 landmarks of each would be kept.
    sparse = pa.table(long).slice(0, 50_000).set_column(0, "frame", pa.array(range(50_000)))
    pq.write_table(sparse, folder / "sparse.parquet")
    shapes = {"big": (1_000_000, 1662), "huge": (10**15, 126), "many": (10**9, 0, 126)}
    for name, shape in shapes.items():
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        with (
            zipfile.ZipFile(folder / f"{name}.npz", "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("frames.npy", "w") as member,
        ):
            np.lib.format.write_array_header_1_0(member, header)
            member.write(b"\0" * 1_000_000)


def test_small_files_that_unpack_to_gigabytes_are_refused_by_their_headers(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_bombs(source)
    good = {name: holistic()[name] for name in ("left_hand", "right_hand")}
    np.savez(source / "good.npz", **good, notes=np.array([{}], dtype=object))
    size = ["--fps", "30", "--width", "640", "--height", "480", "--memory-mb", "100"]
    code = (
        "from pathlib import Path; from signloom_tools.cli.main import main\ntry: main()\nfinally: "
    )
    code += "print(Path('/proc/self/status').read_text())"
    process = subprocess.run(
        [sys.executable, "-c", code, "import", str(source), "--to", str(tmp_path / "c"), *size],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1, process.stderr
    assert "1 clip, 5 frames" in process.stderr
    assert "Traceback" not in process.stderr
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", process.stdout)
    assert int(peak_kb) < 500_000
    reasons = {row["clip_id"]: row["reason"] for row in rejects(tmp_path / "c")}
    assert reasons.pop("many") == "its frames has no frames"
    assert reasons.keys() == {"long", "wide", "sparse", "big", "huge"}
    for reason in reasons.values():
        assert "MB of memory, expected at most 100" in reason


def test_what_one_file_may_take_can_be_changed(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2_100, 126), np.float32))
    few = SourceDefaults(fps=30.0, width=640, height=480, memory_mb=1)
    with pytest.raises(UserError, match=r"would take 1 MB .*at most 1; .*more with --memory-mb"):
        run([tmp_path], tmp_path / "few", defaults=few)
    more = SourceDefaults(fps=30.0, width=640, height=480, memory_mb=2)
    assert len(run([tmp_path], tmp_path / "more", defaults=more)[1]) == 1


def test_a_bad_member_of_an_archive_does_not_cost_the_others(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((6, 126))
    labels = np.array(["yes", None], dtype=object)
    np.savez(tmp_path / "a.npz", frames=rows, offsets=[0, 2, 6], labels=labels, notes=labels)
    _, clips = run([tmp_path / "a.npz"], tmp_path / "one")
    assert list(clips) == ["a-1", "a-2"]
    (reject,) = rejects(tmp_path / "one")
    assert (reject["clip_id"], "labels.npy is not a read" in reject["reason"]) == ("a-labels", True)
    # A damaged part costs its clip: without it, the first clip would decide what all others have.
    good = {name: holistic()[name] for name in ("left_hand", "right_hand")}
    np.savez(tmp_path / "b.npz", **good, pose=labels)
    np.savez(tmp_path / "c.npz", **good)
    _, clips = run([tmp_path / "b.npz", tmp_path / "c.npz"], tmp_path / "two")
    assert list(clips) == ["c"]
    assert "pose.npy is not a readable NumPy array" in rejects(tmp_path / "two")[0]["reason"]


def test_odd_columns_of_parquet_files_are_told(tmp_path: Path) -> None:
    plain = long_table(holistic(frames=2), frames=(0, 1))
    names = plain.column_names
    for name, (column, values) in {
        "list": ("x", pa.array([[0.5]] * len(plain))),
        "float": ("landmark_index", pa.array(np.ones(len(plain)))),
        "empty": ("frame", pa.array([None, *[1] * (len(plain) - 1)])),
        "numbers": ("type", pa.array([1] * len(plain))),
    }.items():
        pq.write_table(
            plain.set_column(names.index(column), column, values), tmp_path / f"{name}.parquet"
        )
    pq.write_table(plain, tmp_path / "plain.parquet")
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert list(clips) == ["plain"]
    reasons = {row["clip_id"]: row["reason"] for row in rejects(tmp_path / "corpus")}
    assert "its column x holds list" in reasons["list"]
    assert "its column landmark_index holds double, expected whole numbers" in reasons["float"]
    assert "some rows have no frame" in reasons["empty"]
    assert "its column type holds int64, expected texts" in reasons["numbers"]


def test_names_are_taken_as_manifests_are_read(tmp_path: Path) -> None:
    name = "\u00c9l\u00e9onore"
    with (tmp_path / f"{unicodedata.normalize('NFD', name)}.NPY").open("wb") as file:
        np.save(file, np.ones((4, 126)))
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert list(clips) == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.npy"], "does not say its frame rate and the size of its picture; give what is right"),
        (["b.npy"], "b.npy: no such file or folder"),
        (["empty"], "no file there ends in .pose, .parquet, .csv, .npz, .npy"),
        (["a.txt"], "of what format is it"),
        (["h5"], "h5/a.H5: it needs h5py: pip install h5py"),
        (["a.npy", "--groups", "feet"], "--groups: .*expected some of hands, pose"),
        (
            ["a.npy", "--fps", "5", "--width", "8", "--height", "8", "--groups", "lips"],
            "no clip could be imported.*has no lips",
        ),
    ],
)
def test_mistakes_of_the_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((2, 126)))
    Path("empty").mkdir()
    Path("h5").mkdir()
    Path("h5/a.H5").touch()
    monkeypatch.setitem(sys.modules, "h5py", None)  # as if it were not installed
    Path("a.txt").touch()
    with pytest.raises(SystemExit) as caught:
        main(["import", *arguments, "--to", "corpus"])
    assert re.search(message, str(caught.value))
    assert not Path("corpus/landmarks/shards").exists()


@pytest.mark.parametrize("ending", [".npz", ".pkl"])
def test_what_is_wrong_with_every_file_is_told_in_one_refusal(
    tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Letters whose hands leave the picture, and whose rate and size are a list."""
    points = np.random.default_rng(0).uniform(0, 1.6, (4, 75, 3))
    parts = {"lh": points[:, :21], "rh": points[:, 21:42], "pose": points[:, 42:]}
    letter = {**parts, "video_info": np.array([12.5, 640, 480])}
    file = tmp_path / f"ka{ending}"
    if ending == ".npz":
        np.savez(file, **letter)
    else:
        file.write_bytes(pickle.dumps(letter))
    command = ["import", str(file), "--to", str(tmp_path / "corpus"), "--allow-pickle"]
    outside = r"Also: \d+% of its hands lie outside of the picture \(x .*--allow-outside"
    for options, problem in (
        ([], r"does not say its frame rate.*\. "),
        (["--keys", "fps=video_info.fps"], r"it has no fps .*places are names.*info\.0\. "),
    ):
        with pytest.raises(SystemExit) as caught:
            main([*command, *options])
        assert re.search(problem + outside, str(caught.value))
    places = [f"{name}=video_info.{place}" for place, name in enumerate(("fps", "width", "height"))]
    main([*command, "--allow-outside", "--keys", *places])
    assert "frames a second: 12.5 (1 clip)" in capsys.readouterr().err


def test_matlab_files_give_their_arrays(tmp_path: Path) -> None:
    hands = np.random.default_rng(0).uniform(0.2, 0.8, (5, 21, 3))
    named = {"left_hand": hands, "right_hand": hands, "fps": 12.5, "cells": np.array(["x", 1], "O")}
    scipy.io.savemat(tmp_path / "a.mat", named)
    (tmp_path / "torn.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:900])
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert {name: clip.fps for name, clip in clips.items()} == {"a": 12.5}
    np.testing.assert_allclose(clips["a"].points[:, :21], hands, atol=1e-3)
    assert "not a readable .mat file" in rejects(tmp_path / "corpus")[0]["reason"]


HAND, SHAPES = ["left_hand", "right_hand"], {"fps": 12.5, "width": 80, "height": 60}


@pytest.mark.parametrize(
    ("kind", "arrays", "clips"),
    [
        ("auto", {hand: (5, 21, 3) for hand in HAND}, {"f": (5, 42)}),
        ("auto", {"some name": (5, 126)}, {"f": (5, 42)}),
        (
            "auto",
            {f"{clip}/{hand}": (5, 21, 3) for clip in "ab" for hand in HAND},
            {"a": (5, 42), "b": (5, 42)},
        ),
        ("auto", {"train/a": (5, 126), "train/b": (7, 126)}, {"a": (5, 42), "b": (7, 42)}),
        (
            "auto",
            {"train/a/keypoints": (5, 133, 3), "test/b/keypoints": (5, 133, 3)},
            {"train_a": (5, 49), "test_b": (5, 49)},
        ),
        (
            "features",
            {"a/features": (5, 1024), "b/features": (6, 1024)},
            {"a": (5, 342), "b": (6, 342)},
        ),
        ("features", {"a": (5, 6), "b": (6, 6)}, {"a": (5, 2), "b": (6, 2)}),
    ],
)
def test_hdf5_files_give_their_clips(
    tmp_path: Path, kind: str, arrays: dict[str, tuple[int, ...]], clips: dict[str, tuple[int, ...]]
) -> None:
    h5py, rng = pytest.importorskip("h5py"), np.random.default_rng(0)
    numbers = {name: rng.uniform(0.2, 0.8, shape) for name, shape in arrays.items()}
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.attrs.update(SHAPES)
        for name, array in numbers.items():
            file[name] = array
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")  # not followed
    defaults = replace(NOTHING, fps=12.5) if kind == "features" else NOTHING
    _, sequences = run([tmp_path / "f.h5"], tmp_path / "corpus", defaults=defaults, kind=kind)
    assert {name: sequence.points.shape[:2] for name, sequence in sequences.items()} == clips
    assert {sequence.fps for sequence in sequences.values()} == {12.5}
    first = next(iter(numbers.values()))
    if kind == "auto" and first.shape[-1] == 126:
        np.testing.assert_allclose(sequences[min(clips)].points, first.reshape(5, 42, 3), atol=1e-3)


def test_what_an_hdf5_file_has_besides_clips_is_told(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    for name in ("good", "pandas", "torn", "huge"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["left_hand"] = file["right_hand"] = np.full((3, 21, 3), 0.5)
            if name == "huge":
                file.create_dataset("pose", (10**9, 33, 3), "f4", chunks=(1000, 33, 3))
            if name == "pandas":
                file.create_group("table").attrs["pandas_type"] = "frame_table"
    (tmp_path / "torn.h5").write_bytes((tmp_path / "torn.h5").read_bytes()[:600])
    _, clips = run([tmp_path], tmp_path / "corpus")
    assert list(clips) == ["good"]
    reasons = {row["clip_id"]: row["reason"] for row in rejects(tmp_path / "corpus")}
    assert "table of pandas" in reasons["pandas"]
    assert "not a readable .h5 file" in reasons["torn"]
    assert "MB of memory" in reasons["huge"]


@pytest.mark.parametrize("storage", ["external", "virtual"])
def test_an_hdf5_file_gives_no_bytes_of_other_files(tmp_path: Path, storage: str) -> None:
    h5py, secret = pytest.importorskip("h5py"), str(tmp_path / "secret")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        if storage == "external":
            file.create_dataset("clip/x", (5, 126), "u1", external=[(secret, 0, 630)])
        else:
            layout = h5py.VirtualLayout((5, 126), "f8")
            layout[:] = h5py.VirtualSource(secret, "rows", (5, 126))
            file.create_virtual_dataset("clip/x", layout)
    with pytest.raises(UserError, match="clip/x lies in other files"):
        run([tmp_path / "f.h5"], tmp_path / "corpus")


def test_packed_files_cost_neither_memory_nor_clips(tmp_path: Path) -> None:
    h5py, rows = pytest.importorskip("h5py"), np.full((5, 126), 0.5)
    notes = {"of all clips": np.zeros(4_000_000)}  # listed as (1, 1)
    scipy.io.savemat(tmp_path / "m.mat", {"file": rows, "s": notes}, do_compression=True)
    scipy.io.savemat(tmp_path / "old.mat", {"allow_pickle": rows}, format="4")
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["a/file"], file["kind"], file["none"] = rows, np.dtype("f8"), h5py.Empty("f4")
    for name, shape, chunks in (("f8", (15_000, 126), None), ("chunk", (5, 126), (50_000, 126))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("x", shape, "f8", chunks=chunks, maxshape=chunks and (None, 126))
    tracemalloc.start()
    _, clips = run([tmp_path], tmp_path / "corpus", defaults=replace(DEFAULTS, memory_mb=10))
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert list(clips) == ["h", "m", "old"]
    assert [row["clip_id"] for row in rejects(tmp_path / "corpus")] == ["chunk", "f8"]


def test_the_numbers_of_one_hand_are_taken_for_the_right_one(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(0.2, 0.8, (5, 63))
    np.save(tmp_path / "a.npy", rows)
    _, clips = run([tmp_path / "a.npy"], tmp_path / "corpus")
    assert clips["a"].present.tolist() == [[False, True]] * 5
    np.testing.assert_allclose(clips["a"].points[:, 21:], rows.reshape(5, 21, 3), atol=1e-3)


def test_landmarks_that_no_detector_of_ours_finds_so_are_not_called_its(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).uniform(0.2, 0.8, (5, 258)))
    size = ["--fps", "25", "--width", "300", "--height", "200"]
    command = ["import", str(tmp_path / "a.npy"), *size]
    with pytest.raises(SystemExit, match=r"--detector hands: found landmarks of the layout hands-"):
        main([*command, "--to", str(tmp_path / "one"), "--detector", "hands"])
    main([*command, "--to", str(tmp_path / "two"), "--detector", "holistic"])
    made_by = json.loads(shards_metadata(tmp_path / "two/landmarks/shards").extractor)
    assert (made_by["films"], made_by["groups"]) == ("holistic", ["hands", "pose"])


def test_an_import_replaces_none_and_its_bytes_depend_on_the_files_alone(tmp_path: Path) -> None:
    for number in range(5):
        np.save(tmp_path / f"{number}.npy", np.random.default_rng(number).random((4, 258)))
    sources = sorted(tmp_path.glob("*.npy"))
    run(sources, tmp_path / "one")
    with pytest.raises(UserError, match="already exists; --force imports again"):
        run(sources, tmp_path / "one")
    run(sources[::-1], tmp_path / "two")
    files = [
        {p.name: p.read_bytes() for p in sorted((tmp_path / name / "landmarks/shards").iterdir())}
        for name in ("one", "two")
    ]
    assert files[0] == files[1]
    made_by = json.loads(shards_metadata(tmp_path / "one" / "landmarks" / "shards").extractor)
    assert made_by == {"detector": "imported", "source": "numpy", "import_version": 1}
    names = ["clips.tsv", "rejects.tsv", "shards"]
    assert sorted(path.name for path in (tmp_path / "one/landmarks").iterdir()) == names


def test_imported_landmarks_and_a_manifest_make_a_corpus(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 258)))
    run([tmp_path / "a.npy"], tmp_path / "corpus")
    manifest = tmp_path / "corpus" / "manifest.tsv"
    manifest.write_text("clip_id\ttext\tsigner\tsplit\na\thello\tanna\ttrain\n", encoding="utf-8")
    (clip,) = read_manifest(manifest)
    assert clip.video is None


@needs_real_data
def test_real_pose_files_come_in_and_go_out(tmp_path: Path) -> None:
    result, clips = run([REAL / "pose_format"], tmp_path / "one", defaults=NOTHING)
    assert {name: len(clip.points) for name, clip in clips.items()} == {
        "mediapipe": 170,
        "mediapipe_long": 278,
    }
    assert result.layout.name == "hands-pose-without-nose"
    clip = clips["mediapipe"]
    shares = dict(zip(clip.layout.group_names, clip.present.mean(axis=0), strict=True))
    assert shares == {"left_hand": 0.0, "right_hand": pytest.approx(145 / 170), "pose": 1.0}
    wrist = clip.layout.index("pose", "right_wrist")
    hand = clip.layout.index("right_hand", "wrist")
    distance = np.linalg.norm(clip.points[:, wrist, :2] - clip.points[:, hand, :2], axis=1)
    assert np.nanmedian(distance) < 0.02  # the hand is where the arm ends
    assert np.nanmax(np.abs(clip.points)) < 4  # the file's depths lie at 625
    export(tmp_path, clips)
    _, again = run([tmp_path / "pose"], tmp_path / "two", defaults=NOTHING)
    for clip_id, clip in clips.items():
        assert_equal(again[clip_id], clip)


@needs_real_data
def test_real_kaggle_files_come_in(tmp_path: Path) -> None:
    groups = tuple(name for name in GROUP_CHOICES if name != "gaze")  # no irises
    _, clips = run([REAL / "kaggle_schema"], tmp_path, groups)
    assert len(clips) == 6
    table = pq.read_table(REAL / "kaggle_schema" / "1052.parquet").to_pandas()
    right = table[table["type"] == "right_hand"].sort_values("landmark_index")
    hand = clips["1052"].points[0, clips["1052"].layout.slice("right_hand")]
    np.testing.assert_array_equal(hand, half(right[["x", "y", "z"]].to_numpy("f4")))


@needs_real_data
def test_a_real_archive_comes_in(tmp_path: Path) -> None:
    with np.load(REAL / "asl_coffee" / "words.npz") as archive:
        rows, labels = archive["frames"][:600], archive["labels"][:30]
    np.savez(tmp_path / "words.npz", frames=rows, offsets=np.arange(31) * 20, labels=labels)
    _, clips = run([tmp_path / "words.npz"], tmp_path / "corpus")
    assert len(clips) == 30
    right = np.concatenate([clip.points[:, 21:42] for clip in clips.values()])
    zero = ~rows[:, -63:].any(axis=1)
    assert np.isnan(right[zero]).all()
    np.testing.assert_array_equal(right[~zero], half(rows[~zero, -63:].reshape(-1, 21, 3)))


def test_every_part_is_known_by_its_size() -> None:
    assert PART_POINTS == SIZES
