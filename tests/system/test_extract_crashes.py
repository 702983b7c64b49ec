"""The stage `extract` is killed, stopped and starved for real; the output is as if nothing was.

Quick twins: tests/unit/extraction/test_pool.py (processes that die, hang or are interrupted) and
test_cache.py (a full disk, torn entries).
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import pytest
import yaml

from signloom.corpus.manifest import read_manifest, write_manifest
from signloom.errors import count_of
from signloom.extraction.cache import unpack_frames
from signloom_demo.draw import DrawOptions, draw_corpus
from tests.extraction import contents
from tests.processes import Stage, is_alive, is_inferring, wait_until
from tests.tiny import ROOT

DRAWING = DrawOptions(
    out=Path("corpus"),
    seed=5,
    train_signers=1,
    dev_signers=1,
    test_signers=0,
    clips_per_signer=3,
    max_signs=1,
    unseen_share=0.0,
    fps=8.0,
    width=320,
    height=240,
)
CLIPS = 6

pytestmark = [
    pytest.mark.slow,
    pytest.mark.mediapipe,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a small corpus, extracted without disturbance; its cache is thrown away."""
    folder = tmp_path_factory.mktemp("crashes")
    shutil.copytree(ROOT / "pipeline", folder / "pipeline")
    draw_corpus(replace(DRAWING, out=folder / "corpus"), workers=1)
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["corpus"]["folder"] = "corpus"
    params["extract"] |= {"frames_per_shard": 30, "max_rejected_share": 0.9}
    (folder / "params.yaml").write_text(json.dumps(params))
    with Stage(folder) as stage:
        assert stage.wait() == 0, stage.errors()
    (folder / "data/landmarks").rename(folder / "expected")
    shutil.rmtree(folder / "data")
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    """A copy of that project with nothing in its cache."""
    return Path(shutil.copytree(template, tmp_path / "project"))


def entries(project: Path) -> int:
    """Clips in the cache; each entry is whole."""
    clips = [unpack_frames(p.read_bytes()) for p in project.glob("data/cache/*/*/*.clip")]
    assert None not in clips
    return len(clips)


def finish(project: Path) -> None:
    """Run to the end and compare with the run that nobody disturbed."""
    with Stage(project) as stage:
        assert stage.wait() == 0, stage.errors()
    assert contents(project / "data/landmarks") == contents(project / "expected")


def test_kills_at_random_moments_change_no_byte(project: Path) -> None:
    """The stage or one of its workers is killed, six times."""
    dice = random.Random(2)
    begun = time.monotonic()
    finish(project)
    span_s = time.monotonic() - begun
    shutil.rmtree(project / "data")
    kills = 0
    while kills < 6:
        with Stage(project) as stage:
            while kills < 6 and not stage.ended():
                time.sleep(dice.uniform(0, span_s))
                if dice.random() < 0.5:
                    kills += not stage.ended()
                    break  # kills the stage
                if workers := stage.workers():
                    os.kill(dice.choice(workers), signal.SIGKILL)
                    kills += 1
        if entries(project) == CLIPS and dice.random() < 0.5:
            shutil.rmtree(project / "data/cache")
    finish(project)


def test_a_stage_that_is_killed_keeps_what_it_has_and_goes_on(project: Path) -> None:
    with Stage(project, workers=1) as stage:
        wait_until(lambda: entries(project) >= 2)
        stage.kill()
    count = entries(project)
    assert not (project / "data/landmarks/shards").exists()
    with Stage(project, workers=1) as stage:
        assert stage.wait() == 0
        assert f"{count_of(count, 'clip')} of an earlier run" in stage.errors()
    assert contents(project / "data/landmarks") == contents(project / "expected")


def test_ctrl_c_stops_without_noise_and_says_how_to_go_on(project: Path) -> None:
    with Stage(project) as stage:
        wait_until(lambda: entries(project) >= 1)
        workers = stage.workers()
        os.killpg(stage.pid, signal.SIGINT)  # as a terminal does
        assert stage.wait() == 1
        wait_until(lambda: not any(is_alive(pid) for pid in workers))
        errors = stage.errors()
    assert "Traceback" not in errors
    assert f"of {CLIPS} clips is kept, `dvc repro` goes on with the others" in errors
    finish(project)


def test_a_decoder_that_hangs_is_given_up_and_the_clip_tried_again(project: Path) -> None:
    set_option(project, time_limit_s=8.0)  # and a second for each of some 10 frames
    with Stage(project, workers=1) as stage:
        wait_until(lambda: any(map(is_inferring, stage.workers())))
        os.kill(next(filter(is_inferring, stage.workers())), signal.SIGSTOP)
        assert stage.wait() == 0, stage.errors()
    assert contents(project / "data/landmarks") == contents(project / "expected")


def set_option(project: Path, **options: object) -> None:
    params = json.loads((project / "params.yaml").read_text())
    params["extract"] |= options
    (project / "params.yaml").write_text(json.dumps(params))


def has_open(pid: int, file: Path | None) -> bool:
    """Whether a process has a file open."""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        return any(
            descriptor.readlink() == file for descriptor in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False


def test_a_poisoned_clip_is_rejected_and_the_others_go_on(project: Path) -> None:
    manifest = project / "corpus/manifest.tsv"
    clips = read_manifest(manifest)
    assert clips[0].video
    poison = replace(clips[0], clip_id="poison", video=manifest.parent / "poison.mp4")
    repeat_video(clips[0].video, manifest.parent / "poison.mp4", times=60)
    write_manifest(manifest, [*clips, poison])
    with Stage(project) as stage:
        for finished in (0, CLIPS):  # the longest clip comes first, and its second try last
            victims: list[int] = []

            def seek(finished: int = finished, victims: list[int] = victims) -> bool:
                victims[:] = [pid for pid in stage.workers() if has_open(pid, poison.video)]
                return bool(victims) and entries(project) >= finished

            wait_until(seek)
            os.kill(victims[0], signal.SIGKILL)
        assert stage.wait() == 0, stage.errors()
    header, *rejects = (project / "data/landmarks/rejects.tsv").read_text().splitlines()
    assert header.startswith("clip_id\t")
    (row,) = rejects
    assert row.startswith("poison\tcorpus/poison.mp4\tits process was killed by signal 9")
    assert "also when tried again alone" in row
    files, expected = (contents(project / name) for name in ("data/landmarks", "expected"))
    del files["rejects.tsv"], expected["rejects.tsv"]
    assert files == expected


def repeat_video(source: Path, target: Path, times: int) -> None:
    """Write a video over and over into one file."""
    writer = None
    for _ in range(times):
        capture = cv2.VideoCapture(str(source))
        while True:
            is_read, frame = capture.read()
            if not is_read:
                break
            writer = writer or cv2.VideoWriter(
                str(target), cv2.VideoWriter.fourcc(*"mp4v"), 6.0, frame.shape[1::-1]
            )
            writer.write(frame)
    assert writer
    writer.release()


@pytest.mark.parametrize(
    ("max_file_bytes", "place"), [(1500, "data/cache/landmarks"), (8000, "data/landmarks")]
)
def test_a_file_that_cannot_grow_is_named(project: Path, max_file_bytes: int, place: str) -> None:
    with Stage(project, max_file_bytes=max_file_bytes) as stage:
        assert stage.wait() == 1
        check_full(stage, place)
    count = entries(project)
    assert count == (0 if max_file_bytes == 1500 else CLIPS)
    assert not list(project.rglob("*.tmp"))
    finish(project)


@pytest.mark.parametrize(("place", "kilobytes"), [("data/cache/landmarks", 24), ("data", 76)])
def test_a_full_disk_keeps_what_is_done_and_says_what_to_do(
    project: Path, small_disk: Callable[[str, int], None], place: str, kilobytes: int
) -> None:
    small_disk(place, kilobytes)
    with Stage(project) as stage:
        assert stage.wait() == 1
        check_full(stage, place)
    count = entries(project)
    assert 0 < count <= CLIPS
    assert not list(project.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=10m", str(project / place)], check=True)
    with Stage(project) as stage:
        assert stage.wait() == 0, stage.errors()
        assert f"{count_of(count, 'clip')} of an earlier run" in stage.errors()
    assert contents(project / "data/landmarks") == contents(project / "expected")


def check_full(stage: Stage, place: str) -> None:
    errors = stage.errors()
    assert f"error: {place}" in errors
    assert "the disk is full" in errors
    assert "`dvc repro` goes on with the others" in errors
    assert "Traceback" not in errors


def test_ray_gives_the_same_bytes_though_a_worker_is_killed(project: Path) -> None:
    pytest.importorskip("ray")
    set_option(project, executor="ray")
    with Stage(project, RAY_ADDRESS="") as stage:
        wait_until(lambda: any(map(is_inferring, stage.workers())))
        os.kill(next(filter(is_inferring, stage.workers())), signal.SIGKILL)
        assert stage.wait() == 0, stage.errors()
        assert "by 2 workers" in stage.errors()
        assert "Traceback" not in stage.errors()
    assert contents(project / "data/landmarks") == contents(project / "expected")
