"""Clips leave a corpus of real little videos, and do not come back."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions, read_manifest, read_table, write_manifest
from signloom.errors import UserError
from signloom_ops.intake.changes import read_deliveries, read_withdrawn
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.withdraw import ENDED, withdraw, withdraw_ended
from tests.intake import DAY, OPTIONS, deliver, deliver_rows, reasons, take, tree
from tests.processes import call


def test_withdrawn_videos_leave_and_do_not_come_back(corpus: CorpusOptions) -> None:
    before = read_manifest(corpus.path)
    deliver(Path("in/ada"), "a", frames=20)
    take(corpus, "in")
    removed, _ = withdraw(corpus, DAY, "filmed\tin a mirror")
    assert [clip.clip_id for clip in removed] == ["a"]
    assert read_manifest(corpus.path) == before
    assert tree(Path("data/withdrawn", DAY, "videos")) == {
        f"{DAY}/a.mp4": Path("in/ada/a.mp4").read_bytes()
    }
    (refused,) = read_withdrawn(corpus).values()
    assert (refused.batch, refused.reason) == (DAY, "filmed in a mirror")
    assert [delivery.state for delivery in read_deliveries(corpus)] == ["withdrawn"]
    assert withdraw(corpus, DAY, "again")[0] == []
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    result = take(corpus, "in")
    assert result.batch is None
    assert "filmed in a mirror" in result.rejects[0].reason
    with pytest.raises(UserError, match="no clip is of the batch"):
        withdraw(corpus, "2020-01-01", "typo")


def test_withdrawn_films_keep_the_names_of_their_signers(corpus: CorpusOptions) -> None:
    for day, name, frames in ((DAY, "a", 20), ("2026-11-22", "b", 24)):
        row = {
            "video": f"{name}.mp4",
            "text": "demain elle boit",
            "signer": name,
            "consent_until": "2099-12-31",
        }
        deliver_rows(Path("in", name), row, frames=frames)
        take(corpus, "in", day=day)
        corpus.path.write_text(corpus.path.read_text().replace("2099-12-31", "2026-11-01"))
        withdraw_ended(corpus)
    (folder,) = Path("data/withdrawn").iterdir()
    table = read_table(folder / "table.tsv")
    assert [row[table.header.index("signer")] for _, row in table.rows] == ["a", "b"]
    for _, row in table.rows:
        assert (folder / row[table.header.index("video")]).is_file()


def test_a_film_that_was_withdrawn_is_not_overwritten_by_another_of_its_name(
    corpus: CorpusOptions,
) -> None:
    shutil.copytree(corpus.folder, "version")
    first, second = (deliver(Path(f"in{n}/ada"), "a", frames=n) for n in (20, 24))
    take(corpus, "in20")
    withdraw(corpus, DAY, "blurred")
    shutil.rmtree(corpus.folder)  # as `dvc checkout` of the version before
    shutil.copytree("version", corpus.folder)
    take(corpus, "in24")
    withdraw(corpus, DAY, "blurred again")
    folder = Path("data/withdrawn", DAY)
    assert {path.read_bytes() for path in folder.rglob("*.mp4")} == {
        first.read_bytes(),
        second.read_bytes(),
    }
    table = read_table(folder / "table.tsv")
    names = {row[table.header.index("video")] for _, row in table.rows}
    assert names == {path.relative_to(folder).as_posix() for path in folder.rglob("*.mp4")}


def test_withdrawn_films_get_a_name_each_where_the_folder_ignores_case(
    corpus: CorpusOptions,
) -> None:
    rows = [
        {"video": f"{name}.mp4", "text": f"elle {name}", "signer": "ada", "clip_id": clip_id}
        for name, clip_id in (("Hello", "a"), ("other", "b"))
    ]
    deliver_rows(Path("in"), *rows)
    take(corpus, "in")
    films = corpus.folder / "videos" / DAY
    (films / "b.mp4").rename(films / "A.mp4")  # as an older version named it
    corpus.path.write_text(corpus.path.read_text().replace("b.mp4", "A.mp4"))
    contents = {path.read_bytes() for path in films.iterdir()}
    withdraw(corpus, DAY, "test")
    moved = list(Path("data/withdrawn", DAY, "videos", DAY).iterdir())
    assert len({path.name.casefold() for path in moved}) == 2
    assert {path.read_bytes() for path in moved} == contents


def test_a_video_that_dvc_linked_leaves_as_a_file(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    (clip,) = take(corpus, "in").clips
    assert clip.video
    cached = Path(".dvc/cache/a").absolute()
    cached.parent.mkdir(parents=True)
    clip.video.rename(cached)
    clip.video.symlink_to(os.path.relpath(cached, clip.video.parent))
    withdraw(corpus, DAY, "test")
    cached.unlink()  # as `dvc gc` does
    assert tree(Path("data/withdrawn", DAY, "videos")) == {
        f"{DAY}/a.mp4": Path("in/ada/a.mp4").read_bytes()
    }


def test_clips_leave_when_the_consent_of_their_signer_has_ended(corpus: CorpusOptions) -> None:
    rows = [
        {"video": f"{name}.mp4", "text": "demain elle boit", "signer": "ada", "consent_until": day}
        for name, day in (("a", "2099-12-31"), ("b", "2020-01-31"))
    ]
    deliver_rows(Path("in"), *rows)
    result = take(corpus, "in")
    assert reasons(result) == {"table.tsv line 3": "its signer agreed until 2020-01-31"}
    assert [clip.clip_id for clip in result.clips] == ["a"]
    assert withdraw_ended(corpus)[0] == []
    text = corpus.path.read_text()
    assert text.count("2099-12-31") == 1
    corpus.path.write_text(text.replace("2099-12-31", "2026-11-01"))  # as time goes by
    removed, remaining = withdraw_ended(corpus)
    assert [clip.clip_id for clip in removed] == ["a"]
    assert list(remaining.clips) == read_manifest(corpus.path)
    assert (len(remaining.clips), "consent_until" in corpus.path.read_text()) == (5, False)
    assert [path.name for path in Path("data/withdrawn").rglob("*.mp4")] == ["a.mp4"]
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    assert ENDED in reasons(take(corpus, "in"))["table.tsv line 2"]


def test_no_consent_ends_by_a_clock_that_is_years_ahead(
    corpus: CorpusOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = read_manifest(corpus.path)
    write_manifest(corpus.path, [replace(clips[0], consent_until="2026-11-01"), *clips[1:]])
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2020-02-01T12:00:00")
    call("git", "init", "-q")
    call("git", "commit", "-q", "--allow-empty", "-m", "long ago")
    with pytest.raises(UserError, match=r"the last commit is of 2020-02-01"):
        withdraw_ended(corpus)
    assert len(read_manifest(corpus.path)) == 5
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    call("git", "commit", "-q", "--allow-empty", "-m", "the clock is right")
    assert [clip.clip_id for clip in withdraw_ended(corpus)[0]] == ["ada-0"]
