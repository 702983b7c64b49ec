"""Ingest of real little videos, as a person or the night calls it."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions, read_manifest, write_manifest
from signloom.errors import UserError
from signloom_ops.intake.changes import read_deliveries, read_rejects
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.withdraw import withdraw
from signloom_tools.cli.main import main
from signloom_tools.importing.captioned import film_cues
from signloom_tools.importing.captions import Cue, write_captions
from tests.intake import (
    DAY,
    OPTIONS,
    deliver,
    deliver_rows,
    plan,
    reasons,
    take,
    tree,
    write_rows,
)
from tests.tiny import ROOT
from tests.videos import encode_constant, write_video


@pytest.fixture(autouse=True, params=["rows", "columns"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the manifest as one of a small corpus, and again as that of a large one."""
    if request.param == "columns":
        monkeypatch.setattr("signloom.corpus.manifest.LARGE_BYTES", 0)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".parquet"])
def test_videos_with_text_files_come_in_by_the_folders_name(
    corpus: CorpusOptions, suffix: str
) -> None:
    before = read_manifest(corpus.path)
    corpus = replace(corpus, manifest=f"table{suffix}")
    write_manifest(corpus.path, before)
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


def test_a_second_ingest_changes_nothing(corpus: CorpusOptions) -> None:
    inbox = Path("in")
    deliver(inbox / "ada", "a", frames=20)
    deliver(inbox / "zoe", "b", frames=21)
    deliver(inbox / "zoe", "c", frames=21)  # the same again
    deliver(inbox / "zoe", "d", "non", frames=3)  # too short
    deliver(inbox / "zoe", "e", "?!", frames=22)
    assert has_new_files(corpus, inbox, OPTIONS)
    first = take(corpus, "in", inbox=True)
    assert [clip.clip_id for clip in first.clips] == ["a", "b"]
    before = tree(corpus.folder)
    assert not has_new_files(corpus, inbox, OPTIONS)
    second = take(corpus, "in", inbox=True, day="2026-11-22")
    assert (second.batch, second.clips, second.known) == (None, [], 2)
    assert second.rejects == first.rejects
    assert tree(corpus.folder) == before
    (delivery,) = read_deliveries(corpus)
    assert (delivery.batch, delivery.clips, delivery.rejects, delivery.source) == (DAY, 2, 3, "in")


def test_a_corrected_reject_comes_in_and_leaves_the_list(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "e", "?!", frames=22)
    assert take(corpus, "in").batch is None
    assert "no letter" in (corpus.folder / "intake_rejects.tsv").read_text()
    Path("in/ada/e.txt").write_text("elle est à Moscou")
    assert has_new_files(corpus, Path("in"), OPTIONS)
    assert take(corpus, "in").batch == DAY
    assert read_rejects(corpus) == []


def test_all_problems_of_a_clip_are_named_at_once(corpus: CorpusOptions) -> None:
    row = {"video": "v.mp4", "text": "?!" * 600, "signer": "ben", "split": "train", "start_s": "-1"}
    deliver_rows(Path("in"), row, frames=3)
    (reason,) = reasons(take(corpus, "in")).values()
    for part in (
        "start_s '-1'",
        "no letter",
        "has 1200 characters",
        "is in dev, not in train",
        "takes 0.12 s",
    ):
        assert part in reason


def test_the_same_content_by_another_name_or_signer_is_left_out(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    assert len(take(corpus, "in").clips) == 1
    for name, signer in (("b", "ada"), ("a", "eve")):
        deliver(Path("next") / signer, name, frames=20)
        (reject,) = take(corpus, f"next/{signer}").rejects
        assert "has its content already" in reject.reason
        assert reject.concerns == "a"
    rows = [{"video": "a.mp4", "text": "bonjour maman", "signer": "ben", "end_s": "0.5"}]
    table = write_rows(Path("next/eve.tsv"), rows)
    (reject,) = take(corpus, "next/eve", table=table).rejects[:1]
    assert "the same video is signed by another person" in reject.reason
    assert reject.concerns == "ada"


def test_the_whole_film_is_not_put_beside_its_half(corpus: CorpusOptions) -> None:
    whole = encode_constant(deliver(Path("next/ada"), "a", frames=1).with_suffix(".ts"), "libx264")
    whole.with_suffix(".mp4").unlink()
    deliver(Path("in/ada"), "a", frames=1).unlink()
    raw = whole.read_bytes()
    Path("in/ada/a.ts").write_bytes(raw[: len(raw) // 2 // 188 * 188])  # between two packets
    batch = take(corpus, "in").clips[0].batch
    (reject,) = take(corpus, "next").rejects
    assert "has its film already, cut off before its end" in reject.reason
    assert reject.concerns == f"a; {batch}"


def test_a_name_that_is_taken_becomes_another_always_the_same(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "ada-0", frames=20)
    first = take(corpus, "in")
    assert first.clips[0].clip_id.startswith("ada-0-")
    assert take(corpus, "in").known == 1


@pytest.mark.parametrize(
    "names",
    [("Hello", "hello"), ("É", "é"), ("Ada-0", "ADA-0")],  # ada-0 is a clip of the corpus
)
def test_names_that_differ_by_case_alone_get_a_film_each_on_any_disk(
    corpus: CorpusOptions, names: tuple[str, str]
) -> None:
    for signer, name, frames in zip(("ada", "eve"), names, (20, 24), strict=True):
        deliver(Path("in") / signer, name, f"bonjour {signer}", frames=frames)
    clips = take(corpus, "in").clips
    films = [clip.video for clip in read_manifest(corpus.path) if clip.video]
    assert len({film.as_posix().casefold() for film in films}) == 5 + len(clips)
    for clip, signer, name in zip(clips, ("ada", "eve"), names, strict=True):
        assert (clip.signer, clip.text) == (signer, f"bonjour {signer}")
        assert clip.video
        assert clip.video.read_bytes() == Path("in", signer, f"{name}.mp4").read_bytes()
    assert take(corpus, "in").known == 2


def test_segments_share_one_copy_of_their_video(corpus: CorpusOptions) -> None:
    rows: list[dict[str, object]] = [
        {
            "clip_id": f"part{n}",
            "video": "day.mp4",
            "text": f"bonjour maman {n}",
            "signer": "ada",
            "start_s": n,
            "end_s": n + 1,
        }
        for n in range(2)
    ]
    deliver_rows(Path("in"), *rows, frames=60)
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


def test_people_of_a_film_come_in_by_boxes_into_one_split(corpus: CorpusOptions) -> None:
    boxes = {"kim": "0 0 48 64", "lea": "0.5 0 1 1", "max": "90 0 200 64", "noe": "0 0 20 64"}
    rows = [
        {"video": "a.mp4", "clip_id": who, "text": f"bonjour {who}", "signer": who, "box": box}
        for who, box in boxes.items()
    ]
    deliver_rows(Path("in"), rows[0], frames=40)
    (first,) = take(corpus, "in").clips
    write_rows(Path("in/table.tsv"), rows)
    result = take(corpus, "in")
    assert [(clip.clip_id, clip.split) for clip in result.clips] == [("lea", first.split)]
    assert "is not in the picture" in reasons(result)["table.tsv line 4"]
    assert "has 20 x 64 pixels" in reasons(result)["table.tsv line 5"]


def test_a_signer_keeps_the_split_and_new_ones_are_dealt(corpus: CorpusOptions) -> None:
    for frames, signer in enumerate(("ben", "cleo", "zoe", "max"), start=20):
        deliver(Path("in") / signer, signer, frames=frames)
    splits = {clip.signer: clip.split for clip in take(corpus, "in").clips}
    assert (splits["ben"], splits["cleo"]) == ("dev", "test")
    assert splits["zoe"] == splits["max"] == "train"  # it lacks most


def test_tables_may_name_splits_of_new_signers_only(corpus: CorpusOptions) -> None:
    rows = [
        ("a", "zoe", "test"),
        ("b", "zoe", ""),
        ("c", "ben", "test"),
        ("d", "max", "dev"),
        ("e", "max", "train"),
        ("f", "lou", "moon"),
        ("g", "Ada", ""),
    ]
    cells = [{"video": f"{n}.mp4", "text": "bonjour", "signer": s, "split": p} for n, s, p in rows]
    deliver_rows(Path("in"), *cells)
    result = take(corpus, "in")
    assert [(clip.clip_id, clip.split) for clip in result.clips] == [("a", "test"), ("b", "test")]
    refused = [reject.reason for reject in result.rejects]
    expected = (
        "is in dev, not in test",
        "is new and in dev and train",
        "is new and in dev and",
        "'moon' is unknown",
        "also written otherwise",
    )
    for reason, words in zip(refused, expected, strict=True):
        assert words in reason


def test_where_signers_are_shared_new_clips_go_to_train(corpus: CorpusOptions) -> None:
    shared = replace(corpus, signer_disjoint=False)
    deliver(Path("in/ben"), "x", frames=20)
    row = {"video": "y.mp4", "text": "bonjour", "signer": "ada", "split": "test"}
    deliver_rows(Path("rows"), row, frames=21)
    clips = take(shared, "in", "rows").clips
    assert [(clip.clip_id, clip.split) for clip in clips] == [("x", "train"), ("y", "test")]


def test_a_dry_run_writes_nothing(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    before = tree(Path("data"))
    result = plan(corpus, "in")
    assert [clip.clip_id for clip in result.clips] == ["a"]
    before.update({k: v for k, v in tree(Path("data")).items() if k.startswith("cache/")})
    assert tree(Path("data")) == before


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


def test_the_commands_print_what_came_in_and_what_left(
    corpus: CorpusOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("data/demo/corpus", "data/raw/weekly"))
    Path("ops.yaml").write_text("ingest: {settle_s: 0.0, min_side: 48}\n")
    deliver(Path("data/inbox/ada"), "a", frames=20)
    main(["ingest", "data/inbox", "--dry-run"])
    assert "1 clip would come in as" in capsys.readouterr().out
    main(["ingest", "data/inbox", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert [clip["clip_id"] for clip in report["clips"]] == ["a"]
    assert report["clips"][0]["video"].startswith("data/raw/weekly/videos/")
    deliver(Path("data/inbox"), "b", frames=21)
    with pytest.raises(SystemExit, match="1 were left out"):
        main(["ingest", "data/inbox"])
    shown = capsys.readouterr().out
    assert "1 clip in the corpus before" in shown
    assert "left out data/inbox/b.mp4: no signer is named" in shown
    main(["withdraw", report["batch"], "--reason", "test"])
    assert "1 clip left the corpus (1 train, 0 dev, 0 test)" in capsys.readouterr().out


def test_a_name_that_is_not_utf8_is_rejected_and_the_others_come_in(corpus: CorpusOptions) -> None:
    bad = os.fsdecode(b"caf\xe9")
    deliver(Path("in/ada"), "good", frames=20)
    for suffix in (".mp4", ".txt"):  # OpenCV, which draws the videos, cannot name it
        deliver(Path("in/ada"), "bad", frames=21).with_suffix(suffix).rename(
            Path("in/ada") / f"{bad}{suffix}"
        )
    Path("in/ada/bad.mp4").unlink()
    deliver(Path("in/new"), "unseen", frames=22)
    Path("in/new").rename(Path("in") / bad)
    row = {"video": "t.mp4", "text": "il pleut", "signer": "eve"}
    deliver_rows(Path("in/tables"), row, frames=23)
    Path("in/tables/deep").mkdir()
    write_video(Path("in/tables/deep/u.mp4"), frames=24).rename(
        Path("in/tables/deep") / f"{bad}.mp4"
    )
    assert has_new_files(corpus, Path("in"), OPTIONS)
    result = take(corpus, "in", inbox=True)
    assert sorted(clip.clip_id for clip in result.clips) == ["good", "t"]
    assert reasons(result) == dict.fromkeys(
        [r"caf\xe9", r"caf\xe9.mp4", r"caf\xe9.txt"], "its name is not UTF-8"
    )
    assert len(result.rejects) == 4
    assert not has_new_files(corpus, Path("in"), OPTIONS)
    with pytest.raises(UserError, match=r"in/caf\\xe9: its name is not UTF-8; rename it"):
        take(corpus, f"in/{bad}")


def test_controls_in_the_name_of_a_delivered_file_are_written_down_as_text(
    corpus: CorpusOptions,
) -> None:
    deliver(Path("in/ada"), "red\x1b[31m", frames=20)
    assert list(reasons(take(corpus, "in"))) == [r"red\u001b[31m.mp4"]


def export(corpus: CorpusOptions, folder: Path) -> dict[str, Path]:
    """Write the captions of a corpus as `signloom export` does; return them by clip."""
    paths = {}
    for film, cues in film_cues(read_manifest(corpus.path), {}).items():
        path = folder / f"{film.stem}.eaf"
        write_captions(path, cues, film)
        paths.update((cue.clip_id, path) for cue in cues)
    return paths


def test_captions_beside_a_film_come_in_as_clips(corpus: CorpusOptions) -> None:
    Path("in/dora").mkdir(parents=True)
    film = write_video(Path("in/dora/talk.mp4"), frames=75)
    cues = [
        ("elle boit du café", 0.0, 1.0),
        ("il va à l'école", 1.2, 2.6),
        ("", 2.6, 2.9),
        ("tu vas à la maison", 2.9, 9.0),
    ]
    write_captions(
        film.with_suffix(".srt"),
        [Cue(start_s=start_s, end_s=end_s, text=text) for text, start_s, end_s in cues],
    )
    result = take(corpus, "in")
    assert [(c.clip_id, c.start_s, c.end_s, c.text, c.signer) for c in result.clips] == [
        ("talk-00000000", 0.0, 1.0, "elle boit du café", "dora"),
        ("talk-00001200", 1.2, 2.6, "il va à l'école", "dora"),
    ]
    assert len({clip.video for clip in result.clips}) == 1
    assert list(reasons(result).values()) == ["its text is empty", "it lies beyond its film"]
    again = take(corpus, "in")
    assert (len(again.clips), again.known) == (0, 2)


def test_a_corpus_in_elan_comes_home_as_it_left(corpus: CorpusOptions) -> None:
    export(corpus, Path("home"))
    before = corpus.path.read_bytes()
    result = take(corpus, "home")
    assert (result.clips, result.changes, result.rejects, result.known) == ([], [], [], 5)
    assert corpus.path.read_bytes() == before


def test_a_corrected_text_is_a_change_and_never_a_double(corpus: CorpusOptions) -> None:
    path = export(corpus, Path("home"))["ada-0"]
    path.write_text(path.read_text().replace("je vais à la maison", "je vais à l'école"))
    planned = plan(corpus, "home")
    assert [(old.text, new.text) for old, new in planned.changes] == [
        ("je vais à la maison", "je vais à l'école")
    ]
    assert has_new_files(corpus, Path("home"), OPTIONS)
    result = take(corpus, "home")
    assert len(result.changes) == 1
    clips = {clip.clip_id: clip for clip in read_manifest(corpus.path)}
    assert len(clips) == 5
    assert clips["ada-0"].text == "je vais à l'école"
    assert (clips["ada-0"].start_s, clips["ada-0"].end_s) == (None, None)
    again = take(corpus, "home")
    assert (again.changes, again.known) == ([], 5)
    assert not has_new_files(corpus, Path("home"), OPTIONS)


GLOSSED = {"video": "a.mp4", "gloss": "DEMAIN ELLE", "signer": "ada"}


def test_what_comes_into_a_corpus_of_glosses_alone_has_glosses(corpus: CorpusOptions) -> None:
    founders = read_manifest(corpus.path)
    write_manifest(corpus.path, [replace(clip, gloss=clip.text) for clip in founders])
    deliver_rows(Path("in/a"), GLOSSED)
    deliver(Path("in/ada"), "b", "ELLE EAU BOIRE", frames=22)
    assert [(c.text, c.gloss) for c in take(corpus, "in").clips] == [
        ("DEMAIN ELLE", "DEMAIN ELLE"),
        ("ELLE EAU BOIRE", "ELLE EAU BOIRE"),
    ]
    path = export(corpus, Path("home"))["ada-0"]
    old, new = "je vais à la maison", "je vais à l'école"
    path.write_text(path.read_text().replace(old, new, 1))  # in one tier
    assert [(c.text, c.gloss) for _, c in take(corpus, "home").changes] == [(new, new)]


def test_a_table_of_glosses_is_no_sentence_of_a_corpus_of_sentences(corpus: CorpusOptions) -> None:
    deliver_rows(Path("in/a"), GLOSSED)
    assert reasons(take(corpus, "in")) == {"table.tsv line 2": "the sentence is empty"}


def test_moved_times_and_a_forgotten_sentence_come_home_too(corpus: CorpusOptions) -> None:
    folder = Path("home")
    export(corpus, folder)
    [film] = [clip.video for clip in read_manifest(corpus.path) if clip.clip_id == "cleo-4"]
    write_captions(
        folder / "cleo-4.eaf",
        [
            Cue(
                start_s=0.0, end_s=0.28, text="maman boit du café", signer="cleo", clip_id="cleo-4"
            ),
            Cue(start_s=0.28, end_s=0.56, text="elle boit de l'eau", signer="cleo"),
        ],
        film,
    )
    result = take(corpus, "home")
    [(before, after)] = result.changes
    assert (before.end_s, after.start_s, after.end_s) == (None, None, 0.28)
    [new] = result.clips
    assert (new.clip_id, new.text, new.split, new.video) == (
        "cleo-4-00000280",
        "elle boit de l'eau",
        "test",
        film,
    )
    assert (new.start_s, new.end_s) == (0.28, 0.56)


def test_captions_that_correct_nothing_of_the_corpus_are_left_out(corpus: CorpusOptions) -> None:
    folder = Path("home")
    cue = Cue(start_s=0.0, end_s=1.0, text="elle boit du café", signer="ada")
    write_captions(folder / "a.eaf", [replace(cue, clip_id="gone-7")])
    write_captions(folder / "b.eaf", [cue])
    write_captions(folder / "c.eaf", [replace(cue, clip_id="ada-0", end_s=0.4, signer="eve")])
    write_captions(folder / "d.eaf", [replace(cue, clip_id="ada-1", end_s=50.0)])
    (folder / "e.eaf").write_text("<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>")
    before = corpus.path.read_bytes()
    result = take(corpus, "home")
    refused = reasons(result)
    for name, words in {
        "a.eaf annotation a1": "no such clip",
        "b.eaf annotation a1": "no such clip",
        "c.eaf annotation a1": "its signer is not",
        "d.eaf annotation a1": "0 to 50 s",
        "e.eaf": "declares a document type",
    }.items():
        assert words in refused.pop(name)
    assert not refused
    assert corpus.path.read_bytes() == before


def test_who_shares_a_film_comes_into_one_split(corpus: CorpusOptions) -> None:
    Path("in").mkdir()
    cues = [("elle boit du café", "mia"), ("il va à l'école", "noe"), ("tu manges du pain", "mia")]
    for number in range(6):
        film = write_video(Path(f"in/talk{number}.mp4"), frames=75 + number)
        write_captions(
            film.with_suffix(".vtt"),
            [
                Cue(start_s=start_s, end_s=start_s + 1.0, text=text, signer=f"{signer}{number}")
                for start_s, (text, signer) in enumerate(cues)
            ],
        )
    result = take(corpus, "in", signer="somebody")
    assert len(result.clips) == 18
    assert len({(clip.video, clip.split) for clip in result.clips}) == 6
    assert len({clip.split for clip in result.clips}) > 1
