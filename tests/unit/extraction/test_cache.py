"""An entry is whole or not there, and the hash of a file is that of its bytes."""

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence, build_layout
from signloom.corpus.quality import measure_quality
from signloom.errors import Problem, UserError
from signloom.extraction import cache as video_hashes
from signloom.extraction.cache import (
    LandmarkCache,
    VideoHashes,
    cache_folder,
    cache_key,
    explain_full_disk,
    pack_landmarks,
    pack_unreadable,
    unpack_frames,
)
from signloom.extraction.extract import clip_key
from signloom.files import hash_file
from signloom_tools.cli.main import main
from tests import tiny, videos

KEY, OTHER = "ab" * 32, "cd" * 32
REJECT = Problem("nothing in it", "film it again")
DAY_S = 86_400


@pytest.fixture
def cache(tmp_path: Path) -> LandmarkCache:
    return LandmarkCache(tmp_path / "cache")


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """A file that was written a while ago."""
    path = tmp_path / "video.mp4"
    path.write_bytes(b"1")
    return path


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the times of files that are being written just now."""
    monkeypatch.setattr(video_hashes, "_SETTLED_NS", -1)


def entry_path(cache: LandmarkCache, key: str = KEY) -> Path:
    (path,) = cache.folder.glob(f"*/{key}*")
    return path


HANDS = replace(
    tiny.sequence(),
    points=tiny.sequence().points[:, :42],
    present=tiny.sequence().present[:, :2],
    layout=build_layout(("hands",)),
)


@pytest.mark.parametrize(
    "clip",
    [
        tiny.lose(tiny.sequence(), "left_hand", slice(2, 5)),
        HANDS,
        replace(tiny.sequence(), missing_frames=3),
    ],
)
def test_landmarks_come_back_in_half_floats(cache: LandmarkCache, clip: LandmarkSequence) -> None:
    cache.store(KEY, pack_landmarks(clip))
    assert cache.look_up(KEY) == len(clip.points)
    loaded = cache.load(KEY)
    np.testing.assert_array_equal(loaded.points, clip.points.astype(np.float16))
    np.testing.assert_array_equal(loaded.present, clip.present)
    for name in ("fps", "width", "height", "layout", "missing_frames"):
        assert getattr(loaded, name) == getattr(clip, name)
    assert measure_quality("a", loaded).missing_frames == clip.missing_frames


def test_a_reject_that_was_stored_comes_back_unless_it_is_of_older_rules(
    cache: LandmarkCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.look_up(KEY) is None
    with pytest.raises(UserError, match="vanished or was damaged"):
        cache.load(KEY)
    cache.store(KEY, pack_unreadable(REJECT))
    assert cache.look_up(KEY) == REJECT
    monkeypatch.setattr(video_hashes, "_REJECT_RULES", video_hashes._REJECT_RULES + 1)
    assert cache.look_up(KEY) is None


@pytest.mark.parametrize("entry", [pack_landmarks(tiny.sequence()), pack_unreadable(REJECT)])
def test_an_entry_that_is_damaged_anywhere_is_not_there(cache: LandmarkCache, entry: bytes) -> None:
    for place in (0, 7, len(entry) // 2, len(entry) - 1):
        torn = bytearray(entry)
        torn[place] ^= 1
        cache.store(KEY, bytes(torn))
        assert cache.look_up(KEY) is None
    for size in (0, 1, 31, 32, 33, len(entry) // 2, len(entry) - 1):
        cache.store(KEY, entry[:size])
        assert cache.look_up(KEY) is None
    assert unpack_frames(entry) is not None


def test_the_key_follows_everything_that_decides_an_entry() -> None:
    parts = {"video": "aa", "start_s": None, "end_s": 2.0, "extractor": "{}", "decoder": "cv 1"}
    keys = {cache_key(**parts)}
    for name in parts:
        keys.add(cache_key(**{**parts, name: "1"}))
    assert len(keys) == 1 + len(parts)
    assert cache_key(**dict(reversed(parts.items()))) in keys


def test_what_is_used_is_kept_and_what_is_not_is_pruned(cache: LandmarkCache) -> None:
    for key in (KEY, OTHER):
        cache.store(key, pack_landmarks(tiny.sequence()))
        os.utime(entry_path(cache, key), (0, time.time() - 9 * DAY_S))
    cache.look_up(KEY)
    size = entry_path(cache, OTHER).stat().st_size
    assert cache.prune(8.0, dry_run=True) == (1, size)
    assert cache.measure().entries == 2
    assert cache.prune(8.0) == (1, size)
    assert cache.look_up(KEY) == 12
    assert cache.look_up(OTHER) is None
    os.utime(entry_path(cache), (0, time.time() + DAY_S))  # by a machine whose clock is ahead
    assert cache.prune(0.0)[0] == 1
    assert cache.measure().entries == 0


def test_what_a_killed_writer_left_is_pruned_and_a_living_one_stays(cache: LandmarkCache) -> None:
    cache.store(KEY, pack_landmarks(tiny.sequence()))
    folder = entry_path(cache).parent
    stale, fresh = folder / ".x.clip.1.tmp", folder / ".y.clip.2.tmp"
    stale.write_bytes(b"123")
    fresh.write_bytes(b"123")
    os.utime(stale, (0, time.time() - DAY_S))
    cache.prune(30.0)
    assert not stale.exists()
    assert fresh.exists()
    assert cache.look_up(KEY) == 12


def test_entries_of_others_are_used(cache: LandmarkCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, pack_unreadable(REJECT))
    os.utime(entry_path(cache), (0, time.time() - DAY_S))

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.look_up(KEY) == REJECT


def test_entries_that_go_while_they_are_counted_are_no_error(
    cache: LandmarkCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.store(KEY, pack_unreadable(REJECT))
    paths = [entry_path(cache), cache.folder / "cd" / f"{OTHER}.clip"]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(paths))
    assert cache.measure().entries == 1
    assert cache.prune(0.0)[0] == 1


def test_an_unusable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        with pytest.raises(UserError, match=r"cannot be kept there .* SIGNLOOM_CACHE name"):
            LandmarkCache(folder).make_folder()
    LandmarkCache(tmp_path / "a/b").make_folder()
    assert (tmp_path / "a/b").is_dir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as root, who may all
    with pytest.raises(UserError, match="it may not be written"):
        LandmarkCache(tmp_path / "a/b").make_folder()


def test_the_hash_is_that_of_the_bytes_and_read_once(
    tmp_path: Path, video: Path, no_wait: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    expected = hash_file(video)
    assert VideoHashes(folder).hash_videos([video, video])[video].sha256 == expected
    monkeypatch.setattr(video_hashes, "hash_file", None)  # a second reading would fail
    assert VideoHashes(folder).hash_videos([video])[video].sha256 == expected


def test_a_hash_of_an_older_version_is_kept_and_the_header_read(
    tmp_path: Path, no_wait: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = videos.encode_beside(tmp_path / "late.mov", late_s=1.0)
    hashed = VideoHashes(tmp_path / "cache").hash_videos([film])[film]
    (log,) = (tmp_path / "cache").iterdir()
    name, *noted, traits = json.loads(log.read_text())
    log.write_text(json.dumps([name, *noted]))  # as before 0.3
    monkeypatch.setattr(video_hashes, "hash_file", None)  # a second reading would fail
    for _ in range(2):
        assert VideoHashes(tmp_path / "cache").hash_videos([film])[film] == hashed
    assert hashed.traits == traits == {"begins_s": 1.0}
    # The key changes with what changes the landmarks alone: here the times of segments.
    old = replace(hashed, traits={"interlaced": 1})
    assert clip_key(hashed, "x") == clip_key(old, "x")
    assert clip_key(hashed, "x", 1.0, 2.0) != clip_key(old, "x", 1.0, 2.0)


@pytest.mark.parametrize("size", [1, 2])
def test_a_changed_file_is_rehashed(tmp_path: Path, video: Path, no_wait: None, size: int) -> None:
    folder = tmp_path / "cache"
    old = VideoHashes(folder).hash_videos([video])[video]
    assert old.is_still(video)
    stat = video.stat()
    time.sleep(0.02)  # times of files have the kernel's tick
    video.write_bytes(b"2" * size)
    assert not old.is_still(video)
    os.utime(video, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as some copying tools do
    new = VideoHashes(folder).hash_videos([video])[video]
    assert new.sha256 == hash_file(video) != old.sha256


def test_a_file_just_written_is_not_trusted_to_stay(tmp_path: Path, video: Path) -> None:
    VideoHashes(tmp_path / "cache").hash_videos([video])
    assert not (tmp_path / "cache").exists()


def test_a_torn_line_costs_one_hash(tmp_path: Path, video: Path, no_wait: None) -> None:
    folder = tmp_path / "cache"
    second = tmp_path / "a film\n \udce9.mp4"
    second.write_bytes(b"5")
    VideoHashes(folder).hash_videos([video])
    (log,) = folder.iterdir()
    log.write_text(log.read_text() + log.read_text()[:30])
    VideoHashes(folder).hash_videos([second])
    assert VideoHashes(folder)._known.keys() == {str(video), str(second)}


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # reading it would wait for ever
    assert VideoHashes(tmp_path).hash_videos([tmp_path / "none", tmp_path, fifo]) == {}


def test_hashes_of_removed_files_are_pruned(tmp_path: Path, video: Path, no_wait: None) -> None:
    folder = tmp_path / "cache"
    hashes = VideoHashes(folder)
    hashes.hash_videos([video, Path(__file__)])
    video.unlink()
    hashes.prune()
    assert VideoHashes(folder)._known.keys() == {__file__}


def test_a_full_disk_is_explained_and_other_errors_are_not(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"the disk is full .* are kept .* `dvc repro` goes on"),
        explain_full_disk(tmp_path),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(PermissionError), explain_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_the_command_shows_and_prunes(
    cache: LandmarkCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIGNLOOM_CACHE", str(cache.folder))
    assert cache_folder() == cache.folder
    main(["cache"])
    assert "entries     0" in capsys.readouterr().out
    cache.store(KEY, pack_landmarks(tiny.sequence()))
    cache.store(OTHER, pack_unreadable(REJECT))
    os.utime(entry_path(cache), (0, time.time() - 3 * DAY_S))
    main(["cache"])
    shown = capsys.readouterr().out
    assert str(cache.folder) in shown
    assert "entries     2, of which 1 tell why" in shown
    assert "3.0 days ago" in shown
    main(["cache", "prune", "--days", "2", "--dry-run"])
    assert "would remove 1 entries" in capsys.readouterr().out
    main(["cache", "prune", "--days", "2"])
    assert "removed 1 entries" in capsys.readouterr().out
    assert cache.look_up(KEY) is None
    for days in ("-1", "nan"):
        with pytest.raises(SystemExit):
            main(["cache", "prune", "--days", days])
        assert f"--days: found {days!r}, expected" in capsys.readouterr().err
