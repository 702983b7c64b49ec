"""Clips leave a corpus of real little videos, and do not come back."""

import os
from pathlib import Path

import pytest

from signloom.corpus.manifest import Clip, CorpusOptions, read_manifest, read_table
from signloom.errors import UserError
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.ledgers import read_deliveries, read_withdrawn
from signloom_ops.intake.staging import change_corpus, commit
from signloom_ops.intake.withdraw import ENDED, stage_removal, withdraw, withdraw_ended
from tests import glosses
from tests.intake import DAY, OPTIONS, deliver, reasons, take, tree, write_rows


def remove_clips(corpus: CorpusOptions, clip_ids: list[str]) -> list[Clip]:
    clips = read_manifest(corpus.path)
    gone = [clip for clip in clips if clip.clip_id in clip_ids]
    with change_corpus(corpus) as (change, _):
        stage_removal(change, corpus, clips, gone, "asked to be forgotten", to=None)
        commit(corpus, change)
    return gone


def test_withdrawn_videos_leave_and_do_not_come_back(corpus: CorpusOptions) -> None:
    before = read_manifest(corpus.path)
    deliver(Path("in/ada"), "a", frames=20)
    take(corpus, "in")
    gone, _ = withdraw(corpus, DAY, "filmed\tin a mirror")
    assert [clip.clip_id for clip in gone] == ["a"]
    assert read_manifest(corpus.path) == before
    assert tree(Path("data/withdrawn", DAY, "videos")) == {
        f"{DAY}/a.mp4": Path("in/ada/a.mp4").read_bytes()
    }
    (refused,) = read_withdrawn(corpus).values()
    assert (refused.batch, refused.reason) == (DAY, "filmed in a mirror")
    assert [one.state for one in read_deliveries(corpus)] == ["withdrawn"]
    assert withdraw(corpus, DAY, "again")[0] == []
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    result = take(corpus, "in")
    assert result.batch is None
    assert "filmed in a mirror" in result.rejects[0].reason
    with pytest.raises(UserError, match="no clip is of the batch"):
        withdraw(corpus, "2020-01-01", "typo")


def test_withdrawn_films_keep_the_names_of_their_signers(corpus: CorpusOptions) -> None:
    for day, name, frames in ((DAY, "a", 20), ("2026-11-22", "b", 24)):
        deliver(Path("in", name), name, frames=frames)
        take(corpus, "in", day=day)
    clips = [clip for clip in read_manifest(corpus.path) if clip.batch]
    for clip in clips:
        with change_corpus(corpus) as (change, _):
            left = read_manifest(corpus.path)
            stage_removal(change, corpus, left, [clip], "over", to=Path("data/withdrawn/day"))
            commit(corpus, change)
    table = read_table(Path("data/withdrawn/day/table.tsv"))
    assert [row[table.header.index("signer")] for _, row in table.rows] == ["a", "b"]


def test_clips_of_a_signer_can_be_deleted(corpus: CorpusOptions) -> None:
    gone = remove_clips(corpus, ["eve-2"])
    assert [clip.clip_id for clip in gone] == ["eve-2"]
    assert not (corpus.folder / "videos/eve-2.mp4").exists()
    assert not [path for path in Path("data").rglob("eve*")]
    with pytest.raises(UserError, match="no clip is in the split dev"):
        remove_clips(corpus, ["ben-3"])


def test_a_text_corpus_takes_no_videos_and_keeps_its_other_clips(tmp_path: Path) -> None:
    path = glosses.write_corpus(tmp_path / "corpus")
    corpus = CorpusOptions(folder=path.parent, manifest=path.name, signer_disjoint=True)
    deliver(tmp_path / "in/ada", "new", frames=20)
    before = read_manifest(path)
    with pytest.raises(UserError, match="is of glosses and sentences"):
        take(corpus, str(tmp_path / "in"))
    assert remove_clips(corpus, ["train0"]) == before[:1]
    assert read_manifest(path) == before[1:]


def test_a_video_that_dvc_linked_leaves_as_a_file(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    (clip,) = take(corpus, "in").clips
    assert clip.video
    kept = Path(".dvc/cache/a").absolute()
    kept.parent.mkdir(parents=True)
    clip.video.rename(kept)
    clip.video.symlink_to(os.path.relpath(kept, clip.video.parent))
    withdraw(corpus, DAY, "test")
    kept.unlink()  # as `dvc gc` does
    assert tree(Path("data/withdrawn", DAY, "videos")) == {
        f"{DAY}/a.mp4": Path("in/ada/a.mp4").read_bytes()
    }


def test_clips_leave_when_the_consent_of_their_signer_has_ended(corpus: CorpusOptions) -> None:
    deliver(Path("in"), "a", frames=20)
    deliver(Path("in"), "b", frames=21)
    rows = [
        {"video": f"{name}.mp4", "text": "demain elle boit", "signer": "ada", "consent_until": day}
        for name, day in (("a", "2099-12-31"), ("b", "2020-01-31"))
    ]
    write_rows(Path("in/table.tsv"), rows)
    found = take(corpus, "in")
    assert reasons(found) == {"table.tsv line 3": "its signer agreed until 2020-01-31"}
    assert [clip.clip_id for clip in found.clips] == ["a"]
    assert withdraw_ended(corpus)[0] == []
    text = corpus.path.read_text()
    assert text.count("2099-12-31") == 1
    corpus.path.write_text(text.replace("2099-12-31", "2026-11-01"))  # as time goes by
    gone, left = withdraw_ended(corpus)
    assert [clip.clip_id for clip in gone] == ["a"]
    assert list(left.clips) == read_manifest(corpus.path)
    assert (len(left.clips), "consent_until" in corpus.path.read_text()) == (5, False)
    assert [path.name for path in Path("data/withdrawn").rglob("*.mp4")] == ["a.mp4"]
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    assert ENDED in reasons(take(corpus, "in"))["table.tsv line 2"]
