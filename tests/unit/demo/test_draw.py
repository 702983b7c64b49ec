import zipfile
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from signloom.config import load_section
from signloom.corpus.manifest import read_manifest
from signloom.errors import UserError
from signloom.files import hash_folder
from signloom_demo import draw
from signloom_demo.draw import MANIFEST, TRUTH, DrawOptions, draw_corpus, read_truth
from tests.tiny import ROOT


def tiny(out: Path) -> DrawOptions:
    options = load_section(ROOT / "data/demo/params.yaml", "draw", DrawOptions)
    return replace(
        options,
        out=out,
        train_signers=1,
        test_signers=1,
        clips_per_signer=1,
        max_signs=1,
        width=96,
        height=72,
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("drawn") / "corpus"
    draw_corpus(tiny(out), workers=1)
    return out


def read_frames(path: Path) -> list[np.ndarray]:
    capture = cv2.VideoCapture(str(path))
    frames = []
    while (read := capture.read())[0]:
        frames.append(read[1])
    assert capture.get(cv2.CAP_PROP_FPS) == 15
    capture.release()
    return frames


def test_videos_play_and_have_a_true_joint_set_for_every_frame(corpus: Path) -> None:
    truths, clips = read_truth(corpus / TRUTH), read_manifest(corpus / MANIFEST)
    assert [(clip.split, clip.language) for clip in clips] == [
        ("train", "fr"),
        ("dev", "fr"),
        ("test", "fr"),
    ]
    for clip in clips:
        assert clip.gloss
        frames, truth = read_frames(clip.video), truths[clip.clip_id]
        assert len(frames) == len(truth.sign) == len(truth.in_sign)
        assert truth.joints.shape == (len(frames), 2, 21, 2)
        assert truth.in_sign.any()
        assert frames[0].shape == (72, 96, 3)
        assert frames[0].std() > 10  # something is to be seen
        assert max(np.abs(frame.astype(int) - frames[0]).max() for frame in frames) > 60


def test_the_truth_has_the_bytes_that_every_python_writes(corpus: Path) -> None:
    """Of the large members of numpy.savez, Python 3.11.2 and 3.11.7 write other headers."""
    with zipfile.ZipFile(corpus / TRUTH) as archive:
        assert {member.extract_version for member in archive.infolist()} == {20}


def test_the_truth_marks_the_hand_that_signs(corpus: Path) -> None:
    """The test signer is right-handed: the left hand of a one-handed sign rests, low."""
    truth = read_truth(corpus / TRUTH)["ines-001"]
    right_wrist = truth.joints[truth.in_sign[:, 1], 1, 0]
    assert right_wrist[:, 0].mean() < 0.5  # the signer's right is the picture's left
    assert right_wrist[:, 1].mean() < 0.7


def test_drawing_again_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    draw_corpus(tiny(tmp_path / "corpus"), workers=1)
    assert hash_folder(tmp_path / "corpus") == hash_folder(corpus)


@pytest.mark.slow
def test_the_number_of_processes_does_not_change_a_byte(corpus: Path, tmp_path: Path) -> None:
    draw_corpus(tiny(tmp_path / "corpus"), workers=3)
    assert hash_folder(tmp_path / "corpus") == hash_folder(corpus)


def test_an_old_corpus_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "corpus"
    out.mkdir()
    for name in ("old", TRUTH):
        (out / name).touch()

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(draw, "write_video", stop)
        with pytest.raises(KeyboardInterrupt):
            draw_corpus(tiny(out), workers=1)
    assert sorted(path.name for path in out.iterdir()) == ["old", TRUTH]
    draw_corpus(tiny(out), workers=1)
    assert sorted(path.name for path in out.iterdir()) == [MANIFEST, TRUTH, "videos"]
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    (out / "raw.mp4").touch()
    with pytest.raises(UserError, match="holds something other than a drawn corpus"):
        draw_corpus(tiny(out))
    assert (out / "raw.mp4").exists()
