"""Ingest and withdraw on real little videos, as a person or the night calls them."""

import fcntl
import json
import os
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signloom.cli.main import main
from signloom.config import UserError
from signloom.corpus.intake import (
    IngestResult,
    has_news,
    ingest,
    read_deliveries,
    read_withdrawn,
    remove_clips,
    run,
    withdraw,
    workshop,
)
from signloom.corpus.intake.looks import decode
from signloom.corpus.intake.workshop import workshop_of
from signloom.corpus.manifest import CorpusOptions, read_manifest, write_manifest
from tests import glosses
from tests.intake import DAY, OPTIONS, deliver, found_corpus, tree, write_rows
from tests.tiny import ROOT
from tests.videos import write_cut_off, write_video


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CorpusOptions:
    """A corpus in the working folder, for which this process decodes: others take a second each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "look_at", lambda looks: [decode(look) for look in looks])
    return found_corpus(tmp_path)


def take(corpus: CorpusOptions, *sources: str, **more: Any) -> IngestResult:
    return ingest(corpus, [Path(one) for one in sources], OPTIONS, **{"day": DAY, **more})


def reasons(result: IngestResult) -> dict[str, str]:
    return {reject.where: reject.reason for reject in result.rejects}


def test_videos_with_text_files_come_in_by_the_folders_name(corpus: CorpusOptions) -> None:
    before = read_manifest(corpus.path)
    deliver(Path("in/ada"), "new", frames=20)
    result = take(corpus, "in")
    assert (result.batch, result.rejects, result.known) == (DAY, [], 0)
    after = read_manifest(corpus.path)
    assert after[:-1] == before
    assert after[-1:] == result.clips
    clip = after[-1]
    assert (clip.clip_id, clip.signer, clip.split, clip.batch) == ("new", "ada", "train", DAY)
    assert clip.text == "demain elle boit de l'eau"
    assert clip.video == corpus.folder / "videos" / DAY / "new.mp4"
    assert clip.video.read_bytes() == Path("in/ada/new.mp4").read_bytes()
    assert not [p for p in corpus.folder.parent.rglob("*") if "staged" in p.parts]


def test_a_text_corpus_takes_no_videos_and_keeps_its_other_clips(tmp_path: Path) -> None:
    path = glosses.write_corpus(tmp_path / "corpus")
    corpus = CorpusOptions(folder=path.parent, manifest=path.name, signer_disjoint=True)
    deliver(tmp_path / "in/ada", "new", frames=20)
    before = read_manifest(path)
    with pytest.raises(UserError, match="is of glosses and sentences"):
        take(corpus, str(tmp_path / "in"))
    assert remove_clips(corpus, ["train0"], "typed wrongly", to=None) == before[:1]
    assert read_manifest(path) == before[1:]


def test_a_second_ingest_changes_nothing(corpus: CorpusOptions) -> None:
    inbox = Path("in")
    deliver(inbox / "ada", "a", frames=20)
    deliver(inbox / "zoe", "b", frames=21)
    deliver(inbox / "zoe", "c", frames=21)  # the same again
    deliver(inbox / "zoe", "d", "non", frames=3)  # too short
    deliver(inbox / "zoe", "e", "Москва и Киев", frames=22)
    assert has_news(corpus, inbox, OPTIONS)
    first = take(corpus, "in", inbox=True)
    assert [clip.clip_id for clip in first.clips] == ["a", "b"]
    there = tree(corpus.folder)
    assert not has_news(corpus, inbox, OPTIONS)
    second = take(corpus, "in", inbox=True, day="2026-11-22")
    assert (second.batch, second.clips, second.known) == (None, [], 2)
    assert second.rejects == first.rejects
    assert tree(corpus.folder) == there
    (delivery,) = read_deliveries(corpus)
    assert (delivery.batch, delivery.clips, delivery.rejects, delivery.source) == (DAY, 2, 3, "in")


def test_what_came_in_does_not_widen_what_may_come_in(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", "je vais " * 7, frames=20)  # near the bound of the founders
    deliver(Path("in/ada"), "b", "je vais " * 10, frames=21)
    for known in (0, 1):
        result = take(corpus, "in")
        assert (result.known, list(reasons(result))) == (known, ["b.mp4"])


def test_a_mended_reject_comes_in_and_leaves_the_list(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "e", "Москва и Киев", frames=22)
    assert take(corpus, "in").batch is None
    assert "CYRILLIC" in (corpus.folder / "intake_rejects.tsv").read_text()
    Path("in/ada/e.txt").write_text("elle est à Moscou")
    assert has_news(corpus, Path("in"), OPTIONS)
    assert take(corpus, "in").batch == DAY
    assert (corpus.folder / "intake_rejects.tsv").read_text().count("\n") == 1


def test_all_problems_of_a_clip_are_named_at_once(corpus: CorpusOptions) -> None:
    write_video(Path("v.mp4"), frames=3)
    row = {"video": "v.mp4", "text": "?!", "signer": "ben", "split": "train", "start_s": "-1"}
    Path("in").mkdir()
    Path("v.mp4").rename("in/v.mp4")
    write_rows(Path("in/table.tsv"), [row])
    (reason,) = reasons(take(corpus, "in")).values()
    for part in ("start_s '-1'", "no letter", "'ben' is in dev, not in train", "takes 0.12 s"):
        assert part in reason


def test_what_is_no_good_video_is_left_out(corpus: CorpusOptions) -> None:
    folder = Path("in/ada")
    deliver(folder, "good", frames=20)
    for name in ("cut", "zero", "link", "lone", "fifo"):
        (folder / f"{name}.txt").write_text("bonjour maman")
    write_cut_off(folder / "cut.mp4")
    (folder / "zero.mp4").touch()
    (folder / "link.mp4").symlink_to("good.mp4")
    os.mkfifo(folder / "fifo.mp4")
    write_video(folder / "mute.mp4", frames=23)
    Path("in/elsewhere").symlink_to("/")
    found = reasons(result := take(corpus, "in"))
    assert [clip.clip_id for clip in result.clips] == ["good"]
    assert set(found) == {"cut.mp4", "zero.mp4", "link.mp4", "lone.txt", "fifo.mp4", "mute.mp4",
                          "elsewhere"}  # fmt: skip
    assert "0 bytes" in found["zero.mp4"]
    assert "link" in found["link.mp4"]
    assert "link" in found["elsewhere"]
    assert "no sentence" in found["mute.mp4"]
    assert "no video" in found["lone.txt"]
    assert all(reject.mend for reject in result.rejects)


@pytest.mark.parametrize(
    ("cell", "words"),
    [("../../secret.mp4", "leads out"), ("/etc/secret.mp4", "leads out"),
     ("C:\\secret.mp4", "leads out"), ("gone.mp4", "no video of its name"),
     ("link.mp4", "is a link")],
)  # fmt: skip
def test_a_path_may_not_leave_the_delivery(corpus: CorpusOptions, cell: str, words: str) -> None:
    write_video(Path("secret.mp4"), frames=20)
    Path("in").mkdir()
    Path("in/link.mp4").symlink_to("../secret.mp4")
    write_rows(Path("in/table.tsv"), [{"video": cell, "text": "bonjour maman", "signer": "ada"}])
    result = take(corpus, "in")
    assert result.clips == []
    assert words in reasons(result)["table.tsv line 2"]


def test_a_file_that_has_just_changed_waits(corpus: CorpusOptions) -> None:
    video = deliver(Path("in/ada"), "new", frames=20)
    careful = replace(OPTIONS, settle_s=3600.0)
    assert not has_news(corpus, Path("in"), careful)
    result = ingest(corpus, [Path("in")], careful, day=DAY)
    assert (result.batch, result.rejects) == (None, [])
    assert video in result.waiting


def test_a_file_that_changes_while_it_is_copied_waits(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    late = deliver(Path("in/ada"), "b", frames=21)

    def grow(step: str) -> None:
        if step == "staged b.mp4":  # the other is copied next
            Path("in/ada/a.mp4").write_bytes(late.read_bytes() * 2)

    result = take(corpus, "in", watch=grow)
    assert [clip.clip_id for clip in result.clips] == ["b"]
    assert result.waiting == [Path("in/ada/a.mp4")]
    assert len(read_manifest(corpus.path)) == 6


def test_the_same_content_by_another_name_or_signer_is_left_out(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    assert len(take(corpus, "in").clips) == 1
    for name, signer in (("b", "ada"), ("a", "eve")):
        deliver(Path("next") / signer, name, frames=20)
        (reject,) = take(corpus, f"next/{signer}").rejects
        assert "has its content already, as 'a'" in reject.reason
    rows = [{"video": "a.mp4", "text": "bonjour maman", "signer": "ben", "end_s": "0.5"}]
    table = write_rows(Path("next/eve.tsv"), rows)
    (reject,) = take(corpus, "next/eve", table=table).rejects[:1]
    assert "the same video is signed by ada" in reject.reason


def test_a_name_that_is_taken_becomes_another_always_the_same(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "ada-0", frames=20)
    first = take(corpus, "in")
    assert first.clips[0].clip_id.startswith("ada-0-")
    assert take(corpus, "in").known == 1


def test_segments_share_one_copy_of_their_video(corpus: CorpusOptions) -> None:
    write_video(Path("day.mp4"), frames=60)
    rows: list[dict[str, object]] = [
        {"clip_id": f"part{n}", "video": "day.mp4", "text": f"bonjour maman {n}", "signer": "ada",
         "start_s": n, "end_s": n + 1}
        for n in range(2)
    ]  # fmt: skip
    Path("in").mkdir()
    Path("day.mp4").rename("in/day.mp4")
    write_rows(Path("in/table.tsv"), rows)
    clips = take(corpus, "in").clips
    assert len(clips) == 2
    assert len({clip.video for clip in clips}) == 1
    rows.append({**rows[0], "clip_id": "part2", "start_s": 0.5, "end_s": 1.5})
    write_rows(Path("in/table.tsv"), rows)
    more = take(corpus, "in")
    assert (more.known, more.batch) == (2, f"{DAY}-2")
    assert more.clips[0].video == clips[0].video
    # The first batch's video stays, since a clip of another one needs it.
    withdraw(corpus, DAY, "test")
    assert [c.clip_id for c in read_manifest(corpus.path) if c.batch] == ["part2"]


def test_tables_of_others_and_own_manifests_are_understood(corpus: CorpusOptions) -> None:
    for n, name in enumerate("abc"):
        folder = Path("in") / name
        folder.mkdir(parents=True)
        write_video(folder / f"{name}.mp4", frames=20 + n)
    Path("in/a/list.csv").write_text("name;sentence;speaker\na.mp4;bonjour maman;ada\n")
    Path("in/b/manifest.tsv").write_text(
        "# signloom-manifest 1\nclip_id\tvideo\ttext\tsigner\nb\tb.mp4\til dort\tada\n"
    )
    Path("in/c/table.tsv").write_text("file\ttext\nc.mp4\telle dort bien\n")
    Path("in/c/signer.txt").write_text("ada\n")
    result = take(corpus, "in")
    assert [(c.clip_id, c.text, c.signer) for c in result.clips] == [
        ("a", "bonjour maman", "ada"), ("b", "il dort", "ada"), ("c", "elle dort bien", "ada")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "words"),
    [("a\tb\n1\t2\n", "no column of the sentences"), ("video\ttext\nx\n", "cannot be told apart"),
     ("text\tsigner\nsalut\tada\n", "no column of the videos"), ("", "")],
)  # fmt: skip
def test_a_bad_table_stops_no_other_delivery(corpus: CorpusOptions, table: str, words: str) -> None:
    deliver(Path("in/ada"), "good", frames=20)
    Path("in/bad").mkdir()
    Path("in/bad/table.tsv").write_text(table)
    result = take(corpus, "in")
    assert len(result.clips) == 1
    assert words in result.rejects[0].reason


def test_a_signer_keeps_the_split_and_new_ones_are_dealt(corpus: CorpusOptions) -> None:
    for frames, signer in enumerate(("ben", "cleo", "zoe", "max"), start=20):
        deliver(Path("in") / signer, signer, frames=frames)
    splits = {clip.signer: clip.split for clip in take(corpus, "in").clips}
    assert (splits["ben"], splits["cleo"]) == ("dev", "test")
    assert splits["zoe"] == splits["max"] == "train"  # it lacks most


def test_tables_may_name_splits_of_new_signers_only(corpus: CorpusOptions) -> None:
    Path("in").mkdir()
    rows = [("a", "zoe", "test"), ("b", "zoe", ""), ("c", "ben", "test"), ("d", "max", "dev"),
            ("e", "max", "train"), ("f", "lou", "moon"), ("g", "Ada", "")]  # fmt: skip
    for frames, (name, _, _) in enumerate(rows, start=20):
        write_video(Path(f"in/{name}.mp4"), frames=frames)
    cells = [{"video": f"{n}.mp4", "text": "bonjour", "signer": s, "split": p} for n, s, p in rows]
    write_rows(Path("in/table.tsv"), cells)
    result = take(corpus, "in")
    assert [(clip.clip_id, clip.split) for clip in result.clips] == [("a", "test"), ("b", "test")]
    found = [reject.reason for reject in result.rejects]
    expected = ("is in dev, not in test", "is new and in dev and train", "is new and in dev and",
                "'moon' is unknown", "also written 'ada'")  # fmt: skip
    for reason, words in zip(found, expected, strict=True):
        assert words in reason


def test_where_signers_are_shared_new_clips_go_to_train(
    corpus: CorpusOptions,
) -> None:
    shared = replace(corpus, signer_disjoint=False)
    deliver(Path("in/ben"), "x", frames=20)
    Path("rows").mkdir()
    write_video(Path("rows/y.mp4"), frames=21)
    row = {"video": "y.mp4", "text": "bonjour", "signer": "ada", "split": "test"}
    write_rows(Path("rows/table.tsv"), [row])
    clips = take(shared, "in", "rows").clips
    assert [(clip.clip_id, clip.split) for clip in clips] == [("x", "train"), ("y", "test")]


def test_the_inbox_itself_names_no_signer(corpus: CorpusOptions) -> None:
    deliver(Path("inbox"), "x", frames=20)
    assert "nobody is named" in take(corpus, "inbox", inbox=True).rejects[0].reason
    assert take(corpus, "inbox", signer="ada").clips[0].signer == "ada"
    deliver(Path("2026-11"), "y", frames=21)
    assert "nobody is named" in take(corpus, "2026-11").rejects[0].reason
    Path("2026-11/signer.txt").write_text("eve")
    assert take(corpus, "2026-11").clips[0].signer == "eve"


def test_a_dry_run_writes_nothing(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    before = tree(Path("data"))
    result = take(corpus, "in", dry_run=True)
    assert [clip.clip_id for clip in result.clips] == ["a"]
    before.update({k: v for k, v in tree(Path("data")).items() if k.startswith("cache/")})
    assert tree(Path("data")) == before


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_kind_of_manifest_grows(corpus: CorpusOptions, suffix: str) -> None:
    other = CorpusOptions(folder=corpus.folder, manifest=f"table{suffix}", signer_disjoint=True)
    write_manifest(other.path, read_manifest(corpus.path))
    deliver(Path("in/ada"), "a", frames=20)
    clips = take(other, "in").clips
    assert read_manifest(other.path)[-1:] == clips


def test_corpora_that_cannot_grow_are_refused(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    with pytest.raises(UserError, match="holds the corpus or lies in it"):
        take(corpus, str(corpus.folder / "videos"))
    Path("dvc.yaml").write_text(
        "stages:\n  draw:\n    cmd: draw\n    outs:\n      - data/raw/weekly: {cache: false}\n"
    )
    with pytest.raises(UserError, match="stage `draw`"):
        take(corpus, "in")
    (corpus.imported_shards).mkdir(parents=True)
    with pytest.raises(UserError, match="imported landmarks"):
        take(corpus, "in")


def test_withdrawn_videos_leave_and_do_not_come_back(corpus: CorpusOptions) -> None:
    before = read_manifest(corpus.path)
    deliver(Path("in/ada"), "a", frames=20)
    take(corpus, "in")
    gone = withdraw(corpus, DAY, "filmed\tin a mirror")
    assert [clip.clip_id for clip in gone] == ["a"]
    assert read_manifest(corpus.path) == before
    assert tree(Path("data/withdrawn")) == {
        f"{DAY}/videos/{DAY}/a.mp4": Path("in/ada/a.mp4").read_bytes()
    }
    (refused,) = read_withdrawn(corpus).values()
    assert (refused.batch, refused.reason) == (DAY, "filmed in a mirror")
    assert [one.state for one in read_deliveries(corpus)] == ["withdrawn"]
    assert withdraw(corpus, DAY, "again") == []
    assert not has_news(corpus, Path("in"), OPTIONS)
    result = take(corpus, "in")
    assert result.batch is None
    assert "filmed in a mirror" in result.rejects[0].reason
    with pytest.raises(UserError, match="no clip is of the batch"):
        withdraw(corpus, "2020-01-01", "typo")


def test_clips_of_a_signer_can_be_deleted(corpus: CorpusOptions) -> None:
    gone = remove_clips(corpus, ["eve-2"], "asked to be forgotten", to=None)
    assert [clip.clip_id for clip in gone] == ["eve-2"]
    assert not (corpus.folder / "videos/eve-2.mp4").exists()
    assert not [path for path in Path("data").rglob("eve*")]
    with pytest.raises(UserError, match="no clip is in the split dev"):
        remove_clips(corpus, ["ben-3"], "asked to be forgotten", to=None)


def steps_of(corpus: CorpusOptions, sources: Sequence[str]) -> list[str]:
    found: list[str] = []
    take(corpus, *sources, watch=found.append)
    return found


def test_videos_lie_there_before_the_manifest_names_them(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    assert steps_of(corpus, ["in"]) == [
        "staged a.mp4", "journal", "moved a.mp4", "moved manifest.tsv", "moved deliveries.tsv",
        "done",
    ]  # fmt: skip


def test_names_are_found_however_a_system_writes_their_accents(corpus: CorpusOptions) -> None:
    Path("in").mkdir()
    write_video(Path("in") / unicodedata.normalize("NFD", "été.mp4"), frames=20)
    row = {"video": unicodedata.normalize("NFC", "été.mp4"), "text": "bonjour", "signer": "ada"}
    write_rows(Path("in/table.tsv"), [row])
    assert [clip.clip_id for clip in take(corpus, "in").clips] == ["été"]


def test_two_videos_may_not_share_a_text_file(corpus: CorpusOptions) -> None:
    video = deliver(Path("in/ada"), "a", frames=20)
    write_video(video.with_suffix(".avi"), frames=21, fourcc="MJPG")
    found = reasons(take(corpus, "in"))
    assert found == dict.fromkeys(("a.avi", "a.mp4"), "several videos have the name 'a'")


def test_who_holds_the_lock_is_said_and_waited_for(
    corpus: CorpusOptions, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = workshop_of(corpus)
    shop.folder.mkdir()
    with (shop.folder / "lock").open("w") as held:
        held.write("process 7 on elsewhere: signloom ingest")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        deliver(Path("in/ada"), "a", frames=20)
        letting_go = threading.Timer(0.5, fcntl.flock, (held, fcntl.LOCK_UN))
        letting_go.start()
        assert take(corpus, "in").batch == DAY
        letting_go.join()
        assert "waiting for process 7 on elsewhere" in caplog.text
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(workshop, "_PATIENCE_S", 0.3)
        with pytest.raises(UserError, match=r"is held by process .* wait until it ends"):
            take(corpus, "in")


def test_the_commands_say_what_came_in_and_what_left(
    corpus: CorpusOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "params.yaml").read_text()
    for old, new in (("data/demo/corpus", "data/raw/weekly"), ("settle_s: 10.0", "settle_s: 0.0"),
                     ("min_side: 120", "min_side: 48")):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    Path("params.yaml").write_text(text)
    deliver(Path("data/inbox/ada"), "a", frames=20)
    main(["ingest", "data/inbox", "--dry-run"])
    assert "1 clips would come in as" in capsys.readouterr().out
    main(["ingest", "data/inbox", "--json"])
    came = json.loads(capsys.readouterr().out)
    assert [clip["clip_id"] for clip in came["clips"]] == ["a"]
    assert came["clips"][0]["video"].startswith("data/raw/weekly/videos/")
    deliver(Path("data/inbox"), "b", frames=21)
    with pytest.raises(SystemExit, match="1 were left out"):
        main(["ingest", "data/inbox"])
    shown = capsys.readouterr().out
    assert "1 clips were in the corpus before" in shown
    assert "left out data/inbox/b.mp4: nobody is named" in shown
    main(["withdraw", came["batch"], "--reason", "test"])
    assert "1 clips left the corpus (1 train, 0 dev, 0 test)" in capsys.readouterr().out
