"""Keypoints of other detectors land on the right landmarks, and nothing in a file is run."""

import csv
import gzip
import json
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from signloom.config import load_params
from signloom.corpus.landmarks import Layout
from signloom.corpus.manifest import read_manifest
from signloom.corpus.shards import read_shards, shards_metadata
from signloom.errors import ClipError, UserError
from signloom.features.features import compute_features
from signloom.report.skeletons import build_player
from signloom_tools.cli.main import main
from signloom_tools.importing.options import SourceDefaults, compile_pattern
from signloom_tools.importing.pickles import load_pickle
from signloom_tools.importing.skeletons import SKELETONS
from tests import tiny
from tests.expect_error import expect_error
from tests.tiny import ROOT

_OTHER = {"left": "right", "right": "left"}
WIDTH, HEIGHT = 640, 480
SIZE = ["--fps", "25", "--width", str(WIDTH), "--height", str(HEIGHT)]
ALL = ["--groups", "hands", "pose", "lips", "face_outline", "brows", "eyes"]
SIZES = {"pose": 33, "face": 468, "left_hand": 21, "right_hand": 21}
ANY = SourceDefaults(fps=25, width=WIDTH, height=HEIGHT, allow_pickle=True)


def truth(frames: int = 6) -> dict[str, np.ndarray]:
    """Where all of MediaPipe's landmarks are, shares of the picture, shape (S, N, 2)."""
    rng = np.random.default_rng(4)
    return {name: rng.uniform(0.1, 0.9, (frames, n, 2)) for name, n in SIZES.items()}


def seen_by(count: int, parts: dict[str, np.ndarray], *, pixels: bool = True) -> np.ndarray:
    """The same person as a detector of `count` points gives it: (S, K, 3), x, y and score."""
    points = np.zeros((len(parts["pose"]), count, 3), np.float32)
    for part, columns in SKELETONS[count].parts.items():
        points[:, list(columns), :2] = parts[part][:, list(columns.values())]
        points[:, list(columns), 2] = 0.9
    return points * ([WIDTH, HEIGHT, 1] if pixels else [1, 1, 1])


def load(corpus: Path) -> tuple[dict[str, Any], Layout]:
    shards = corpus / "landmarks/shards"
    return read_shards(shards), shards_metadata(shards).layout


def bring(tmp_path: Path, *arguments: str) -> tuple[dict[str, Any], Layout]:
    main(["import", str(tmp_path / "in"), "--to", str(tmp_path / "corpus"), *arguments])
    return load(tmp_path / "corpus")


def assert_seen(clip: Any, parts: dict[str, np.ndarray], atol: float = 1e-3) -> None:
    """Compare hands and the pose's seven joints with the truth."""
    from signloom.corpus.landmarks import GROUP_INDICES

    for group in ("left_hand", "right_hand", "pose"):
        part, indices = GROUP_INDICES[group]
        landmarks = clip.layout.groups[clip.layout.group(group)].landmarks
        expected = parts[part][:, list(indices[: len(landmarks)])]
        points = clip.points[:, clip.layout.slice(group)]
        np.testing.assert_allclose(points[..., :2], expected, atol=atol)
        assert (points[..., 2] == 0).all()


def results_of(kind: str, frame: dict[str, np.ndarray | None]) -> dict[str, Any]:
    """One frame as one of MediaPipe's solutions gives it; a part may be absent."""

    def marks(part: str) -> list[dict[str, float]]:
        points = frame[part]
        return (
            [] if points is None else [dict(zip("xyz", map(float, p), strict=True)) for p in points]
        )

    sided = [(name, marks(f"{name}_hand")) for name in ("left", "right")]
    hands = [(name, points) for name, points in reversed(sided) if points]  # in no order of sides
    if kind == "js":
        named = {
            "poseLandmarks": marks("pose"),
            "ea": [{"x": 9}],
            "leftHandLandmarks": sided[0][1],
            "rightHandLandmarks": sided[1][1],
        }
        return {name: part for name, part in named.items() if part}
    if kind == "js tasks":
        named = {
            "poseLandmarks": marks("pose"),
            "poseWorldLandmarks": marks("pose")[:5],
            "leftHandLandmarks": sided[0][1],
            "rightHandLandmarks": sided[1][1],
        }
        return {name: [part] if part else [] for name, part in named.items()}
    if kind == "python tasks":
        return {
            "pose_landmarks": marks("pose"),
            "left_hand_landmarks": sided[0][1],
            "right_hand_landmarks": sided[1][1],
        }
    if kind == "hands":  # the older solution names the sides of a mirrored picture
        return {
            "multiHandLandmarks": [points for _, points in hands],
            "multiHandedness": [
                {"index": n, "label": _OTHER[side].title()} for n, (side, _) in enumerate(hands)
            ],
        }
    return {
        "landmarks": [points for _, points in hands],
        "handednesses": [[{"categoryName": side.title()}] for side, _ in hands],
    }


@pytest.mark.parametrize("kind", ["js", "js tasks", "python tasks", "hands", "hand landmarker"])
@pytest.mark.parametrize("form", ["list", "frames", "files", "clips", "entries", "pickle"])
def test_results_of_mediapipe_keep_their_sides_and_gaps(
    tmp_path: Path, kind: str, form: str
) -> None:
    if form == "entries" and "hand" in kind:
        pytest.skip("a list of hands for all frames does not say which frame is whose")
    parts = {name: np.dstack([part, part[..., 0] - 0.5]) for name, part in truth().items()}
    frames: list[dict[str, np.ndarray | None]] = [
        {name: part[number] for name, part in parts.items()} for number in range(6)
    ]
    frames[2]["left_hand"] = None
    steps = {"list": 0.04, "clips": 40_000, "pickle": 40_000_000, "files": 100}
    step = steps.get(form, 40)
    results = [{**results_of(kind, frame), "timestamp": step * n} for n, frame in enumerate(frames)]
    (tmp_path / "in").mkdir()
    size = ["--width", "640", "--height", "480"]
    if form == "files":
        for number, result in enumerate(results):
            (tmp_path / "in" / f"{number}.json").write_text(json.dumps(result))
        size += ["--fps", "25"]
    elif form == "pickle":
        np.save(tmp_path / "in" / "take.npy", np.array({"take": results}, dtype=object))
        size += ["--allow-pickle"]
    else:
        series = {key: [frame.get(key) for frame in results] for key in results[0]}
        content = {
            "entries": [{"info": {"fps": 25}, **series}],
            "frames": {"fps": 25, "width": 640, "height": 480, "frames": results},
            "list": results,
            "clips": {"take": results},
        }[form]
        (tmp_path / "in" / "take.json").write_text(json.dumps(content))
        size = [] if form == "frames" else size
        size += ["--keys", "fps=info.fps"] if form == "entries" else []
    ((clip,), layout) = (lambda imported: (list(imported[0].values()), imported[1]))(
        bring(tmp_path, *size)
    )
    assert clip.fps == 25
    assert ("pose" in layout.group_names) == ("hand" not in kind)
    assert clip.present[:, layout.group("right_hand")].all()
    assert clip.present[:, layout.group("left_hand")].tolist() == [True] * 2 + [False] + [True] * 3
    for hand in ("left_hand", "right_hand"):
        points = clip.points[3, layout.slice(hand)]
        np.testing.assert_allclose(points, parts[hand][3], atol=1e-3)


def test_a_file_of_lists_of_frames_is_a_take(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for frames in (3, 30):
        points = np.random.default_rng(0).uniform(0.1, 0.9, (2, frames, 21, 3))
        content = dict(zip(("left_hand", "right_hand"), points.tolist(), strict=True))
        (tmp_path / f"in/hello_{frames}.json").write_text(json.dumps(content))
    clips, layout = bring(tmp_path, *SIZE)
    assert [len(clips[name].points) for name in ("hello_3", "hello_30")] == [3, 30]
    hand = clips["hello_30"].points[-1, layout.slice("right_hand")]
    np.testing.assert_allclose(hand, points[1, -1], atol=1e-3)


def test_openpose_in_pose_files_has_its_own_points(tmp_path: Path) -> None:
    from pose_format import Pose
    from pose_format.numpy import NumPyPoseBody
    from pose_format.pose_header import PoseHeader, PoseHeaderDimensions
    from pose_format.utils.openpose import OpenPose_Components

    parts = truth()
    keypoints = seen_by(137, parts)  # body, hands and face; the file has the face before the hands
    keypoints = np.concatenate([keypoints[:, :25], keypoints[:, 67:], keypoints[:, 25:67]], axis=1)
    body = NumPyPoseBody(25, keypoints[:, None, :, :2], keypoints[:, None, :, 2])
    header = PoseHeader(0.2, PoseHeaderDimensions(WIDTH, HEIGHT), OpenPose_Components)
    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "a.pose").open("wb") as file:
        Pose(header, body).write(file)
    clips, _ = bring(tmp_path)
    assert (clips["a"].fps, clips["a"].width, clips["a"].height) == (25, WIDTH, HEIGHT)
    assert_seen(clips["a"], parts)


@pytest.mark.parametrize(
    ("count", "facts"),
    [  # number, part, MediaPipe's index: from the papers and configurations of the detectors
        (
            133,
            [
                (0, "pose", 0),
                (5, "pose", 11),
                (6, "pose", 12),
                (9, "pose", 15),
                (91, "left_hand", 0),
                (95, "left_hand", 4),
                (99, "left_hand", 8),
                (112, "right_hand", 0),
                (132, "right_hand", 20),
                (31, "face", 152),
                (71, "face", 61),
                (77, "face", 291),
                (83, "face", 78),
                (87, "face", 308),
                (40, "face", 70),
                (49, "face", 300),
                (50, "face", 168),
                (59, "face", 33),
                (68, "face", 263),
            ],
        ),
        (
            134,
            [
                (2, "pose", 12),
                (5, "pose", 11),
                (92, "left_hand", 0),
                (113, "right_hand", 0),
                (32, "face", 152),
            ],
        ),
        (136, [(5, "pose", 11), (94, "left_hand", 0), (115, "right_hand", 0), (34, "face", 152)]),
        (
            135,
            [
                (9, "left_hand", 0),
                (28, "left_hand", 4),
                (10, "right_hand", 0),
                (64, "right_hand", 20),
                (73, "face", 152),
            ],
        ),
        (
            137,
            [
                (2, "pose", 12),
                (7, "pose", 15),
                (25, "left_hand", 0),
                (66, "right_hand", 20),
                (75, "face", 152),
            ],
        ),
        (
            86,
            [
                (0, "right_hand", 0),
                (41, "left_hand", 20),
                (42, "face", 0),
                (47, "face", 61),
                (56, "face", 291),
                (61, "pose", 0),
                (72, "pose", 11),
                (85, "pose", 24),
            ],
        ),
        (543, [(0, "face", 0), (468, "left_hand", 0), (489, "pose", 0), (522, "right_hand", 0)]),
        (75, [(11, "pose", 11), (33, "left_hand", 0), (54, "right_hand", 0)]),
        (
            128,
            [(2, "pose", 12), (26, "face", 152), (86, "left_hand", 0), (127, "right_hand", 20)],
        ),
        (
            308,
            [
                (5, "pose", 11),
                (41, "right_hand", 0),
                (21, "right_hand", 4),
                (24, "right_hand", 1),
                (40, "right_hand", 17),
                (62, "left_hand", 0),
                (46, "left_hand", 8),
                (62, "pose", 15),
            ],
        ),
    ],
)
def test_a_detectors_points_are_the_landmarks_that_its_authors_say(
    count: int, facts: Sequence[tuple[int, str, int]]
) -> None:
    for number, part, index in facts:
        assert SKELETONS[count].parts[part][number] == index
    for columns in SKELETONS[count].parts.values():
        assert max(columns) < count
        assert len(set(columns.values())) == len(columns)


def write_pose(path: Path, points: np.ndarray, components: list[Any]) -> None:
    """Write points (S, people, K, 3), x, y and score, as pose-format does."""
    from pose_format import Pose
    from pose_format.numpy import NumPyPoseBody
    from pose_format.pose_header import PoseHeader, PoseHeaderDimensions

    body = NumPyPoseBody(25, points[..., :2], points[..., 2])
    with path.open("wb") as file:
        Pose(PoseHeader(0.2, PoseHeaderDimensions(WIDTH, HEIGHT), components), body).write(file)


def connected() -> dict[str, np.ndarray]:
    """The truth with hands whose wrists are the body's."""
    parts = truth()
    for hand, wrist in (("left_hand", 15), ("right_hand", 16)):
        parts[hand][:, 0] = parts["pose"][:, wrist]
    return parts


def write_as(shape: str, folder: Path) -> None:
    """Write the clip `a` of `truth` as somebody else's files have it."""
    frames = [{"people": [openpose(points)]} for points in seen_by(137, connected())]
    if shape == "AI-Hub":
        for number, frame in enumerate(frames):
            person = frame["people"][0] | {"person_id": -1, "pose_keypoints_3d": [0.0] * 100}
            text = json.dumps({"version": 1.3, "people": person})
            (folder / f"a_{number:012}_keypoints.json").write_text(text)
    elif shape == "DGS":
        by_number = {str(number): frame for number, frame in enumerate(frames)}
        camera = {"id": "a", "camera": "a1", "width": WIDTH, "height": HEIGHT, "frames": by_number}
        (folder / "x_openpose.json.gz").write_bytes(gzip.compress(json.dumps([camera]).encode()))
    elif shape == "numbers":
        (folder / "a.json").write_text(json.dumps({str(10 + n): f for n, f in enumerate(frames)}))
    elif shape == "Sapiens":
        for number, points in enumerate(seen_by(308, connected())):
            instance = {
                "keypoints": points[:, :2].tolist(),
                "keypoint_scores": points[:, 2].tolist(),
            }
            (folder / f"a_{number}.json").write_text(json.dumps({"instance_info": [instance]}))
    elif shape == "HDF5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "a.h5", "w") as file:
            points = seen_by(133, connected())
            file["poses"], file["confidence"] = points[..., :2], points[..., 2]
            file["frame_idx"] = np.zeros((len(points), 2), np.int64)
            file.attrs["fps"] = 25.0
    elif shape == "COCO in .pose":
        from pose_format.utils.cocowholebody133_header import cocowholebody_components

        write_pose(
            folder / "a.pose", seen_by(133, connected())[:, None], cocowholebody_components()
        )
    else:  # of two people in a .pose, the second is the larger one
        from pose_format.utils.openpose import OpenPose_Components

        points = seen_by(137, connected())
        points = np.concatenate([points[:, :25], points[:, 67:], points[:, 25:67]], axis=1)
        people = np.stack([points * [0.1, 0.1, 1], points], axis=1)
        write_pose(folder / "a.pose", people, OpenPose_Components)


@pytest.mark.parametrize(
    "shape",
    ["AI-Hub", "DGS", "numbers", "Sapiens", "HDF5", "COCO in .pose", "two people in .pose"],
)
def test_files_of_other_people_show_the_same_clip(tmp_path: Path, shape: str) -> None:
    (tmp_path / "in").mkdir()
    write_as(shape, tmp_path / "in")
    clips, _ = bring(tmp_path, *SIZE)
    assert list(clips) == ["a"]
    assert_seen(clips["a"], connected())


@pytest.mark.parametrize("kind", ["people", "parts", "rows"])
@pytest.mark.parametrize("step", [1, 5])
def test_the_numbers_of_files_are_times(tmp_path: Path, kind: str, step: int) -> None:
    (tmp_path / "in").mkdir()
    row = np.concatenate([truth()[hand].reshape(6, -1) for hand in ("left_hand", "right_hand")], 1)
    for number in (0, 1, 3, 4, 5):
        path = tmp_path / "in" / f"{step * number}.json"
        if kind == "people":
            path.write_text(json.dumps({"people": [openpose(seen_by(137, truth())[number])]}))
        elif kind == "parts":
            points = np.dstack([truth()["right_hand"], np.zeros((6, 21))])[number].tolist()
            path.write_text(json.dumps({"right_hand": points}))
        else:
            np.save(path.with_suffix(".npy"), np.resize(row[number], 126))
    clips, layout = bring(tmp_path, *SIZE)
    shown = clips["in"].present[:, layout.group("right_hand")]
    assert shown.tolist() == [True, True, False, True, True, True]


def test_a_pose_file_that_is_not_what_it_declares_is_refused(tmp_path: Path) -> None:
    from pose_format.utils.cocowholebody133_header import cocowholebody_components

    (tmp_path / "in").mkdir()
    path, points = tmp_path / "in" / "a.pose", seen_by(133, truth())[:, None]
    middle = points[..., :2].mean(axis=(0, 1, 2))
    changes = {
        "its points are no pixels of its picture": np.dstack([points[:, 0] / [200, 200, 1]])[
            :, None
        ],
        "its confidences are": points * [1, 1, 500],
    }
    for words, changed in changes.items():
        write_pose(path, changed, cocowholebody_components())
        with pytest.raises(SystemExit, match=words):
            bring(tmp_path, *SIZE)
    write_pose(path, points, cocowholebody_components())
    path.write_bytes(path.read_bytes() + bytes(400))
    with pytest.raises(SystemExit, match="bytes, and not what its header declares"):
        bring(tmp_path, *SIZE)
    assert middle.min() > 100  # in pixels


def test_wholebody_keypoints_become_hands_pose_lips_and_outline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    points = seen_by(133, truth())
    np.savez(tmp_path / "in/a.npz", keypoints=points[:, None, :, :2], scores=points[:, None, :, 2])
    np.save(tmp_path / "in/b.npy", points)
    low = points.copy()
    low[2, 91:112, 2] = 0.1  # the left hand is not there
    np.save(tmp_path / "in/c.npy", low)
    np.save(tmp_path / "in/d.npy", seen_by(133, truth(), pixels=False))
    clips, layout = bring(tmp_path, *SIZE, *ALL)
    assert layout.name == (
        "hands-pose-lips-face_outline-brows-eyes-without-left_hip-right_hip-20-of-lips-"
        "19-of-face_outline-10-of-brows-20-of-eyes-flat"
    )
    names = set(layout.landmark_names)
    assert {re.sub("left|right", lambda m: _OTHER[m[0]], name) for name in names} == names
    for clip in (clips["a"], clips["b"], clips["d"]):
        assert_seen(clip, truth())
        assert clip.present.all()
        assert build_player(clip, name="one", label="a clip")
    groups = ("hands", "pose", "lips", "face_outline", "brows", "eyes")
    assert np.isfinite(compute_features(clips["a"], replace(tiny.FEATURES, groups=groups))).all()
    main(
        ["export", str(tmp_path / "pose"), "--landmarks", str(tmp_path / "corpus/landmarks/shards")]
    )
    main(["import", str(tmp_path / "pose"), "--to", str(tmp_path / "again"), *ALL])
    again, _ = load(tmp_path / "again")
    np.testing.assert_array_equal(again["a"].points, clips["a"].points)
    corner = layout.index("lips", "right_outer_corner")
    np.testing.assert_allclose(clips["b"].points[:, corner, :2], truth()["face"][:, 61], atol=1e-3)
    assert clips["c"].present[:, 0].tolist() == [True, True, False, True, True, True]
    output = capsys.readouterr().err
    for words in (
        "points of COCO-WholeBody, 133 points: 4 clips",
        "pose: 7 of 9 landmarks",
        "lips: 20 of 40",
        "no depth",
        "left_hand: 21 of 21 landmarks, in 96%",
        "frames a second: 25 (4 clips)",
    ):
        assert words in output


def openpose(points: np.ndarray) -> dict[str, Any]:
    """A person as OpenPose writes it."""
    cuts = dict(
        zip(
            ("pose", "hand_left", "hand_right", "face"), np.split(points, [25, 46, 67]), strict=True
        )
    )
    return {"person_id": [-1], **{f"{k}_keypoints_2d": v.ravel().tolist() for k, v in cuts.items()}}


def test_openpose_folders_give_the_signer_and_bridge_lost_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = seen_by(137, truth(frames=12))
    bystander = points * [0.2, 0.2, 1] + [500, 10, 0]  # a small person in the corner
    points[3, 25 + 8] = 0  # a finger tip is lost
    for name in ("clip_a", "clip_b"):
        for number in range(12):
            people = [openpose(bystander[number]), openpose(points[number])]
            people = people[:: 1 if number % 2 else -1]
            path = tmp_path / f"in/{name}_{number:012d}_keypoints.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"version": 1.3, "people": people}))
    clips, layout = bring(tmp_path, *SIZE)
    assert sorted(clips) == ["clip_a", "clip_b"]
    assert layout.name == "hands-pose-without-left_hip-right_hip-flat"
    expected = truth(frames=12)
    expected["left_hand"][3, 8] = expected["left_hand"][[2, 4], 8].mean(axis=0)
    assert_seen(clips["clip_a"], expected)
    assert "2 clips show several people" in capsys.readouterr().err


def test_alphapose_and_mmpose_results_are_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    points = seen_by(136, truth())
    rows = [
        {
            "image_id": f"{n}.jpg",
            "category_id": 1,
            "keypoints": points[n].ravel().tolist(),
            "score": 3.1,
            "idx": 1,
            "box": [0, 0, 1, 1],
        }
        for n in range(6)
        if n != 2
    ]
    rows.insert(1, {**rows[0], "idx": 2, "keypoints": (points[0] / 9).ravel().tolist()})
    (tmp_path / "in/alpha.json").write_text(json.dumps(rows))
    points = seen_by(133, truth())
    frames = [
        {
            "frame_id": n,
            "instances": [
                {
                    "keypoints": points[n, :, :2].tolist(),
                    "keypoint_scores": points[n, :, 2].tolist(),
                }
            ],
        }
        for n in range(6)
    ]
    (tmp_path / "in/mm.json").write_text(json.dumps({"meta_info": {}, "instance_info": frames}))
    (tmp_path / "in/list.json").write_text(json.dumps(frames))
    for n, frame in enumerate(frames):
        path = tmp_path / f"in/each/{n}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(frame["instances"]))
    clips, _ = bring(tmp_path, *SIZE)
    for name in ("mm", "list", "each"):
        assert_seen(clips[name], truth())
    assert clips["alpha"].present[:, 0].tolist() == [True, True, False, True, True, True]
    np.testing.assert_allclose(
        clips["alpha"].points[3, 0, :2], truth()["left_hand"][3, 0], atol=1e-3
    )


def test_a_pickle_is_refused_unless_asked_for_and_then_read(tmp_path: Path) -> None:
    points = seen_by(133, truth()).astype(np.float32)
    (tmp_path / "in").mkdir()
    arrays = {"one": {"keypoint": torch.from_numpy(points), "name": "one", "text": "REGEN"}}
    with gzip.open(tmp_path / "in/split.pkl", "wb") as file:  # as MSKA publishes PHOENIX
        pickle.dump(arrays, file)
    shares = seen_by(133, truth(), pixels=False)
    lists = {
        "keypoints": [share[None, :, :2] for share in shares],
        "scores": [share[None, :, 2] for share in shares],
    }
    (tmp_path / "in/two.pkl").write_bytes(pickle.dumps(lists))  # as Uni-Sign and CSL-News do
    with pytest.raises(SystemExit, match="say --allow-pickle"):
        bring(tmp_path, *SIZE)
    clips, _ = bring(tmp_path, *SIZE, "--allow-pickle")
    assert_seen(clips["one"], truth())
    assert_seen(clips["two"], truth())
    with (tmp_path / "corpus/landmarks/clips.tsv").open() as file:
        labels = {row["clip_id"]: row["label"] for row in csv.DictReader(file, delimiter="\t")}
    assert labels == {"one": "REGEN", "two": ""}


class Hostile:
    """Anything that a pickle may ask for when it is read."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._call, self._arguments = call, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call, self._arguments


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    import os

    victim = tmp_path / "victim"
    attacks: list[Any] = [
        Hostile(os.system, f"touch {victim}"),
        Hostile(eval, f"open({str(victim)!r}, 'w')"),
        Hostile(Path.touch, victim),
        {"keypoints": np.array([Hostile(os.system, f"touch {victim}")], dtype=object)},
        Hostile(torch.load, "x"),
        Hostile(np.ndarray, (1,), np.dtype(object), bytearray(8)),  # any memory as an object
        Hostile(np.frombuffer, b"12345678", "O"),
        Hostile(getattr, "x", "__class__"),
    ]
    for attack in attacks:
        path = tmp_path / "bad.pkl"
        path.write_bytes(pickle.dumps(attack, protocol))
        with pytest.raises(ClipError, match=r"is not run|not a readable pickle"):
            load_pickle(path, ANY)
    inner = pickle.dumps(Hostile(os.system, f"touch {victim}"))
    storage = Hostile(torch.storage._load_from_bytes, inner)  # which PyTorch itself would run
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(storage, protocol))
    with pytest.raises(ClipError, match="not a readable pickle"):
        load_pickle(tmp_path / "bad.pkl", ANY)
    assert not victim.exists()
    good = {"a": np.arange(6.0).reshape(2, 3), "b": [np.float32(2), "x", None, True, b"y"]}
    (tmp_path / "good.pkl").write_bytes(pickle.dumps(good, protocol))
    loaded = load_pickle(tmp_path / "good.pkl", ANY)
    np.testing.assert_array_equal(loaded["a"], good["a"])
    assert loaded["b"] == good["b"]


def test_a_pickle_that_unpacks_to_more_than_memory_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "big.pkl", "wb") as file:
        file.write(b"\0" * 3_000_000)
    with pytest.raises(ClipError, match="of memory"):
        load_pickle(
            tmp_path / "big.pkl",
            SourceDefaults(fps=25, width=9, height=9, memory_mb=2, allow_pickle=True),
        )


def write_tutorial(folder: Path) -> dict[str, np.ndarray]:
    """The best known tutorial's layout: a folder a sign and a recording, a file a frame."""
    rng = np.random.default_rng(0)
    rows = {}
    for split, sign, number in (("train", "hello", 0), ("train", "hello", 1), ("dev", "thanks", 0)):
        name = f"{split}/{sign}/anna_{number}"
        rows[name] = rng.uniform(0.1, 0.9, (12, 1662)).astype(np.float32)
        (folder / name).mkdir(parents=True)
        for frame, row in enumerate(rows[name]):
            np.save(folder / name / f"{frame}.npy", row)
    return rows


def test_a_file_a_frame_and_a_pattern_make_a_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    rows = write_tutorial(tmp_path / "in")
    clips, _ = bring(tmp_path, *SIZE, "--pattern", "{split}/{text}/{signer}_{clip}.npy")
    assert sorted(clips) == ["dev_thanks_anna_0", "train_hello_anna_0", "train_hello_anna_1"]
    left_hand = rows["train/hello/anna_1"][:, 132 + 1404 : 132 + 1404 + 63].reshape(12, 21, 3)
    np.testing.assert_allclose(clips["train_hello_anna_1"].points[:, :21], left_hand, atol=1e-3)
    assert "clips are named by their paths" in capsys.readouterr().err
    main(["init", "corpus", "--table", "corpus/landmarks/clips.tsv", "--use"])
    manifest = read_manifest(Path("corpus/manifest.tsv"), signer_disjoint=False)
    assert {(clip.text, clip.signer, clip.split) for clip in manifest} == {
        ("hello", "anna", "train"),
        ("thanks", "anna", "dev"),
    }
    assert load_params(Path("params.yaml"))["corpus"]["folder"] == "corpus"


def test_files_of_one_name_in_several_folders_are_named_by_their_paths(tmp_path: Path) -> None:
    for signer in ("anna", "ben"):
        (tmp_path / "in" / signer).mkdir(parents=True)
        for number in range(3):
            rows = np.random.default_rng(number).uniform(0, 1, (5, 258))
            np.save(tmp_path / f"in/{signer}/{number}.npy", rows)
    clips, _ = bring(tmp_path, *SIZE)
    assert sorted(clips) == [f"{who}_{number}" for who in ("anna", "ben") for number in range(3)]


def test_keys_are_listed_and_mapped_and_the_archive_says_rate_and_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    for number, fps in enumerate((25, 30, 30)):
        np.savez(
            tmp_path / f"in/{number}.npz",
            hand_a=rng.uniform(0, 1, (5, 63)),
            hand_b=rng.uniform(0, 1, (5, 21, 3)),
            rate=fps,
            size_x=100,
            height=50,
        )
    with pytest.raises(SystemExit, match=r"arrays are hand_a \(5, 63\).*--keys left_hand="):
        bring(tmp_path, *SIZE)
    keys = ["left_hand=hand_a", "right_hand=hand_b", "fps=rate", "width=size_x"]
    clips, _ = bring(tmp_path, "--keys", *keys)
    assert {(clip.fps, clip.width, clip.height) for clip in clips.values()} == {
        (25.0, 100, 50),
        (30.0, 100, 50),
    }
    assert "frames a second: 30 (2 clips), 25 (1 clip)" in capsys.readouterr().err


def test_a_files_own_video_info_is_named_by_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    parts = {name: np.random.default_rng(1).uniform(0, 1, (5, 21, 3)) for name in ("lh", "rh")}
    info = {"rate": 50.0, "size": [300, 200]}
    record = np.array((60.0, [300, 200]), [("rate", float), ("size", int, 2)])
    np.savez(tmp_path / "in/map.npz", video_info=np.array(info, object), **parts)
    np.savez(tmp_path / "in/record.npz", video_info=record, **parts)
    keys = ["left_hand=lh", "right_hand=rh", "fps=video_info.rate", "width=video_info.size.0"]
    more = ["--keys", *keys, "height=video_info.size.1", "--to", str(tmp_path / "corpus")]
    expect_error("1 files or clips could not be imported", ["import", str(tmp_path / "in"), *more])
    assert "--allow-pickle" in (tmp_path / "corpus/landmarks/rejects.tsv").read_text()
    main(["import", str(tmp_path / "in"), *more, "--allow-pickle", "--force"])
    clips, _ = load(tmp_path / "corpus")
    traits = {name: (clip.fps, clip.width, clip.height) for name, clip in clips.items()}
    assert traits == {"map": (50, 300, 200), "record": (60, 300, 200)}
    (tmp_path / "json").mkdir()
    people = [{"people": [{"keypoints": seen_by(133, truth())[0].tolist()}]}] * 4
    content = json.dumps({"video_info": {"rate": "25", "size": [WIDTH, HEIGHT]}, "frames": people})
    (tmp_path / "json/a.json").write_text(content)
    keys = ["keypoints=frames", *keys[2:], "height=video_info.size.1"]
    main(["import", str(tmp_path / "json"), "--keys", *keys, "--to", str(tmp_path / "other")])
    clips, _ = load(tmp_path / "other")
    assert (clips["a"].fps, clips["a"].width, len(clips["a"].points)) == (25, WIDTH, 4)
    keys[1] = "fps=video_info.rat"
    expect_error(
        r"it has no rat of video_info.rat \(found rate, size\)",
        ["import", str(tmp_path / "json"), "--keys", *keys, "--to", str(tmp_path / "bad")],
    )


def test_a_table_says_the_rates_of_files_that_differ(tmp_path: Path) -> None:
    for name in ("anna/1", "ben/1", "ben/2"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / f"in/{name}.npy", seen_by(133, truth()))
    table = tmp_path / "rates.csv"
    table.write_text("file,fps,width\nanna/1.npy,50,\nben/1,60,1280\n")
    clips, _ = bring(tmp_path, *SIZE, "--rates", str(table))
    assert {name: (clip.fps, clip.width) for name, clip in clips.items()} == {
        "anna_1": (50, WIDTH),
        "ben_1": (60, 1280),
        "ben_2": (25, WIDTH),
    }
    table.write_text("file,fps\nanna/1.npy,fast\n")
    with pytest.raises(SystemExit, match=r"rates.csv line 2: found fps 'fast', expected numbers"):
        bring(tmp_path, *SIZE, "--rates", str(table), "--force")
    assert len(load(tmp_path / "corpus")[0]) == 3  # as before
    table.write_text("file,rate\nanna/1.npy,50\n")
    with pytest.raises(SystemExit, match=r"its columns are file, rate; expected file, and fps"):
        bring(tmp_path, *SIZE, "--rates", str(table), "--force")


def test_an_import_with_rejects_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/a.npy", seen_by(133, truth()))
    (tmp_path / "in/b.npy").write_bytes(b"torn")
    with pytest.raises(SystemExit, match="--force imports all again"):
        bring(tmp_path, *SIZE)
    np.save(tmp_path / "in/b.npy", seen_by(133, truth()))
    with pytest.raises(SystemExit, match="--force imports again in its place"):
        bring(tmp_path, *SIZE)
    clips, _ = bring(tmp_path, *SIZE, "--force")
    assert sorted(clips) == ["a", "b"]
    notes = tmp_path / "corpus/landmarks/notes.txt"
    notes.write_text("mine")
    with pytest.raises(SystemExit, match=r"holds .notes.txt., which this command does not make"):
        bring(tmp_path, *SIZE, "--force")
    assert notes.read_text() == "mine"
    notes.unlink()
    listed = notes.with_name("clips.tsv")
    listed.write_text("clip_id\tlabel\na\thello\n")
    with pytest.raises(SystemExit, match="no list of an import"):
        bring(tmp_path, *SIZE, "--force")
    assert "hello" in listed.read_text()
    expect_error(
        "which is read, overlap",
        ["import", str(tmp_path), "--to", str(tmp_path / "corpus"), *SIZE, "--force"],
    )


def test_hands_outside_of_the_picture_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in/a.npy", seen_by(133, truth()) * [2, 1.5, 1])  # it was 1280x720
    with pytest.raises(SystemExit, match=r"outside of the picture of 640x480 \(x from .*its size"):
        bring(tmp_path, *SIZE)
    clips, _ = bring(tmp_path, *SIZE, "--allow-outside")
    assert clips["a"].points[..., 0].max() > 1.5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not readable JSON"),
        ("[" * 100_000, "is not readable JSON"),
        ('{"a": 1}', "its keys are a"),
        ("[]", "points have the shape"),
        ('[{"instances": []}, {"instances": []}]', "nobody in it"),
        ('{"keypoints": [[[1, 2], [3, 4]]]}', "its frames have 2 points; known are 17"),
        ('{"people": []}', "it holds one frame"),
        ('{"hand_landmarks": 5, "handedness": 5}', "its keys are hand_landmarks"),
        (
            f'{{"lefthand": {[[[1] * 3] * 21] * 3}, "righthand": {[[[1] * 3] * 21] * 2}}}',
            "hand 3, r",
        ),
        ('[{"keypoints": [[[1, 2]]]}, 5]', "its frames have 1 points"),
    ],
)
def test_bad_keypoint_files_are_told(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text(content)
    with pytest.raises(SystemExit, match=words):
        bring(tmp_path, *SIZE)


def test_patterns_that_say_nothing_are_refused() -> None:
    for text in ("a/b", "{name}", "{text}/{text}"):
        with pytest.raises(UserError, match="--pattern"):
            compile_pattern(text)
    match = compile_pattern("{split}/x+y/{clip}.npy").fullmatch("dev/x+y/7")
    assert match is not None
    assert match.groupdict() == {"split": "dev", "clip": "7"}
