"""A signer is removed from a real little project: Git, DVC, videos, cache, models, reports."""

import hashlib
import json
import os
import shutil
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.config import read_json
from signloom.corpus.manifest import Clip, read_manifest, write_manifest
from signloom.corpus.shards import read_clip_frames
from signloom.detection.video import DECODER
from signloom.errors import UserError
from signloom.extraction.cache import LandmarkCache, cache_key, pack_landmarks
from signloom.extraction.extract import extractor_fingerprint
from signloom.files import hash_file, to_sealed
from signloom_ops.intake.changes import (
    DELIVERIES,
    INTAKE_REJECTS,
    Delivery,
    IntakeReject,
    is_unfinished,
    read_deliveries,
    read_rejects,
    write_ledger,
)
from signloom_ops.intake.withdraw import withdraw
from signloom_ops.nightly.store import ModelStore
from signloom_ops.privacy.forget import RemovalPart, _remove_kept
from signloom_tools import dvc
from signloom_tools.cli.main import main
from signloom_tools.dvc import DvcCache, track_version
from tests.expect_error import expect_error
from tests.extraction import OPTIONS as EXTRACT
from tests.power_cut import RENAMES, PowerCutError, cut_before
from tests.processes import call
from tests.unit.evaluation.world import sequence
from tests.unit.ops.nightly.night_project import cut_before_the_pointer
from tests.unit.ops.privacy.forget_project import (
    CLIPS,
    corpus_options,
    make_corpus,
    words,
    write_landmarks,
)

OPERATIONS = (*RENAMES, "open", "rmdir")
ZOE = unicodedata.normalize("NFD", "zoë")


def keys_of(clips: list[Clip]) -> dict[str, str]:
    """Fill the cache; return each clip's key."""
    cache, keys = LandmarkCache(Path(os.environ["SIGNLOOM_CACHE"])), {}
    for clip in clips:
        assert clip.video
        keys[clip.clip_id] = cache_key(
            video=hash_file(clip.video),
            start_s=clip.start_s,
            end_s=clip.end_s,
            decoder=DECODER,
            extractor=extractor_fingerprint(EXTRACT.detector_options),
        )
        cache.store(keys[clip.clip_id], pack_landmarks(sequence(1)))
    return keys


@pytest.mark.slow  # DVC is started a dozen times
@pytest.mark.parametrize("link", ["copy", "symlink"])
def test_nothing_names_or_shows_a_forgotten_signer(
    project: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    call("git", "init", "-q")
    call("dvc", "init", "-q")
    call("dvc", "config", "cache.type", link)
    clips = make_corpus()
    store, keys = ModelStore(), keys_of(clips)
    track_version(corpus_options().folder)
    track_version(store.root)
    video = corpus_options().folder / "videos/zoë-1.mp4"
    inbox = Path("data/inbox/zoë")
    inbox.mkdir(parents=True)
    (inbox / "first.mp4").write_bytes(video.read_bytes())
    (inbox / "first.txt").write_text("phrase\n")
    (inbox / "table.tsv").write_text("video\tsigner\nfirst.mp4\tzoë\nother.mp4\teve\n")
    (inbox / "other.mp4").write_bytes(b"another's")
    objects = set(Path(".dvc/cache").rglob("*"))
    weights = hash_file(store.checkpoint(1) / "model.safetensors")

    main(["forget", ZOE, "--dry-run"])
    assert "nothing was removed" in capsys.readouterr().out
    assert len(read_manifest(corpus_options().path)) == 7
    expect_error("give --yes", ["forget", ZOE])
    capsys.readouterr()
    main(["forget", ZOE, "--yes"])
    output = capsys.readouterr().out

    remaining = read_manifest(corpus_options().path)
    assert [clip.clip_id for clip in remaining] == [c[0] for c in CLIPS if c[1] != "zoë"]
    assert not video.exists()
    assert sorted(path.name for path in inbox.iterdir()) == ["other.mp4", "table.tsv"]
    cache = LandmarkCache(project / "cache")
    assert [name for name, key in keys.items() if cache.look_up(key) is None] == ["zoë-1", "zoë-2"]
    assert not Path("data/landmarks").exists()
    assert not Path("data/tokens").exists()
    assert not Path("reports/evaluation").exists()
    refused = (corpus_options().folder / "withdrawn.tsv").read_text(encoding="utf-8")
    assert refused.splitlines()[1].split("\t")[1:] == ["(forgotten)", "", "consent withdrawn"]
    named = [name for name, text in words(project).items() if "zoë" in text]
    assert named == []
    removed = objects - set(Path(".dvc/cache").rglob("*"))
    assert len([path for path in removed if path.is_file() or path.suffix != ".dir"]) >= 2
    assert call("dvc", "status").strip() == "Data and pipelines are up to date."
    # The models stay as they are, with a mark.
    assert hash_file(store.checkpoint(1) / "model.safetensors") == weights
    (first,), (second,) = (store.marks(v)["forgotten"] for v in (1, 2))
    assert (first["clips"], first["splits"], first["through"]) == (2, ["train"], None)
    assert (second["clips"], second["splits"], second["through"]) == (0, [], 1)
    assert store.facts(1)["signers"]["train"] == {"eve": 2}
    assert store.decision(1)["slices"] == [{"kind": "signer", "group": "eve"}]
    card = (store.folder(1) / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "> **Withdrawn consent.**" in card
    for sentence in (
        "version 1, the champion, was made with 2 clips of theirs (train)",
        "version 2 started from the weights of version 1",
        "the next `signloom retrain` trains another from scratch",
        "videos that show others, too, were kept (videos/both.mp4)",
        "`dvc gc --workspace`",
        "Git's history",
    ):
        assert sentence in output, sentence
    assert not is_unfinished(corpus_options())
    expect_error(
        "no clip, recording, delivery or model version is of a signer 'zoë'",
        ["forget", "zoë", "--yes"],
    )


def test_a_signer_of_the_test_split_leaves_the_frozen_clips(project: Path) -> None:
    make_corpus()
    store = ModelStore()
    store.mark(1, "other", "stays")
    table, scores = (store.evaluation(1) / name for name in ("hypotheses.tsv", "scores.json"))
    content = {**read_json(scores, hint=""), "tables": {table.name: hash_file(table)}}
    scores.write_bytes(to_sealed(content))
    main(["forget", "cleo", "--yes"])
    assert store.frozen_test() == ["dana-1"]
    assert read_json(scores, hint="")["tables"] == {table.name: hash_file(table)}
    rows = table.read_text(encoding="utf-8")
    assert "dana-1" in rows
    assert "cleo" not in rows
    assert store.marks(1)["forgotten"][0]["splits"] == ["test"]
    card = (store.folder(2) / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "> 1 of its test clips are of a person who has since withdrawn." in card
    main(["forget", "dana", "--yes"])
    assert store.frozen_test() is None  # the next champion's are frozen
    assert store.marks(1)["other"] == "stays"


def test_the_landmarks_of_whole_films_go_with_who_signs_in_them(project: Path) -> None:
    films = [replace(clip, start_s=None, end_s=None) for clip in make_corpus()]
    keys = {
        clip.video and clip.video.name: key
        for clip, key in zip(films, keys_of(films).values(), strict=True)
    }
    main(["forget", ZOE, "--yes"])
    cache = LandmarkCache(project / "cache")
    removed = {name for name, key in keys.items() if cache.look_up(key) is None}
    assert removed == {"zoë-1.mp4", "both.mp4"}


def test_a_promotion_that_was_cut_keeps_no_copy_that_names_the_signer(project: Path) -> None:
    make_corpus()
    store = ModelStore()
    slices = [{"kind": "signer", "group": "cleo"}, {"kind": "signer", "group": "dana"}]
    decision = {
        "version": 2,
        "champion": 1,
        "promote": True,
        "verdict": "",
        "reasons": [],
        "test": ["cleo-1", "dana-1"],
        "slices": slices,
    }
    cut_before_the_pointer(store, decision)
    main(["forget", "cleo", "--yes"])
    assert store.champion() == 1
    kept_decision = json.loads((store.folder(2) / "decision.json").read_text(encoding="utf-8"))
    assert kept_decision["slices"] == slices[1:]
    assert [name for name, text in words(project).items() if "cleo" in text] == []


@pytest.mark.parametrize(
    "cuts",
    [(0, 15, 40, 65), pytest.param(tuple(range(400)), marks=pytest.mark.slow)],
    ids=["few", "all"],
)
def test_a_cut_anywhere_is_made_up_for_by_the_second_call(
    project: Path, tmp_path: Path, cuts: tuple[int, ...]
) -> None:
    clips = make_corpus()
    store, keys = ModelStore(), keys_of(clips)
    shutil.copytree(project, tmp_path / "start")
    states = []
    for number in cuts:
        for path in project.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(tmp_path / "start", project, dirs_exist_ok=True)
        with cut_before(number, only=OPERATIONS):
            try:
                main(["forget", "zoë", "--yes"])
            except PowerCutError:
                pass
            else:
                break
        states.append(is_unfinished(corpus_options()))
        if states[-1]:
            expect_error("the removal of 'zoë' was interrupted", ["forget", "eve", "--yes"])
            with pytest.raises(UserError, match="the same `signloom forget` again"):
                withdraw(corpus_options(), "2026-11-21", "a mistake")
        main(["forget", "zoë", "--yes"])
        assert [name for name, text in words(project).items() if "zoë" in text] == [], number
        assert len(store.marks(1)["forgotten"]) == 1
        assert "> **Withdrawn consent.**" in (store.folder(1) / "MODEL_CARD.md").read_text()
        assert len(read_manifest(corpus_options().path)) == 5
        assert not list(corpus_options().folder.glob("videos/zoë*"))
        assert LandmarkCache(project / "cache").look_up(keys["zoë-2"]) is None
    assert states == sorted(states)
    assert set(states) == {False, True}


def test_a_removal_ends_though_scores_and_consents_are_damaged_meanwhile(project: Path) -> None:
    make_corpus()
    store = ModelStore()
    with cut_before(10, only=RENAMES), pytest.raises(PowerCutError):
        main(["forget", "zoë", "--yes"])
    (store.evaluation(1) / "scores.json").write_text("{}")  # it lacks a metric of today, say
    Path("data/app/consents").mkdir(parents=True)
    Path("data/app/consents/torn.json").write_text("{")
    main(["forget", "zoë", "--yes"])
    assert not is_unfinished(corpus_options())
    assert len(read_manifest(corpus_options().path)) == 5
    assert store.marks(1)["forgotten"][0]["clips"] == 2


def test_nobody_is_removed_while_a_stage_could_write_their_landmarks_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus()
    before = words(project)
    # What the first look does not see yet, the one after the note does.
    looks = [[], ["`dvc repro` (process 7, since 10:20)"]]
    monkeypatch.setattr("signloom_ops.privacy.forget.stages_at_work", lambda: looks.pop(0))
    expect_error(r"`dvc repro` \(process 7, since 10:20\): at work in", ["forget", "zoë", "--yes"])
    assert before.items() <= words(project).items()  # but for locks
    assert not is_unfinished(corpus_options())


def test_landmarks_that_are_there_again_are_named_and_go_with_the_second_call(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus()
    # The last step of a removal; a stage that works on another machine writes before its end.
    with monkeypatch.context() as patch:
        patch.setattr(
            "signloom_ops.privacy.forget.track_again",
            lambda _: write_landmarks(Path("data/landmarks/shards"), ["zoë-1", "eve-1"]),
        )
        expect_error(
            "of what was removed, data/landmarks is there again", ["forget", "zoë", "--yes"]
        )
    assert is_unfinished(corpus_options())
    main(["forget", "zoë", "--yes"])
    assert not Path("data/landmarks").exists()
    assert not is_unfinished(corpus_options())


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_clone_that_shares_dvcs_cache_by_links_keeps_its_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    project, clone = tmp_path / "project", tmp_path / "clone"
    cache = (tmp_path if is_shared else project) / "cache"
    for name in ("manifest.tsv", "film.mp4"):
        digest = hashlib.md5(name.encode()).hexdigest()
        kept = cache / "files/md5" / digest[:2] / digest[2:]
        kept.parent.mkdir(parents=True)
        kept.write_text(name)
        for folder in (project, clone):
            (folder / "data/raw").mkdir(parents=True, exist_ok=True)
            (folder / "data/raw" / name).symlink_to(kept)
    (project / ".dvc").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(dvc, "ask_dvc", lambda *_: f"{cache}\n")
    manifest, film = Path("data/raw/manifest.tsv"), Path("data/raw/film.mp4")
    part = RemovalPart("all", [film], rewritten={manifest: ""}, removed=[film])
    _remove_kept([part], [manifest])
    assert (clone / manifest).exists() == is_shared
    assert not (clone / film).exists()
    assert manifest.read_text() == "manifest.tsv"  # what is written next replaces it
    assert bool(DvcCache().outside) == is_shared


def test_the_tables_beside_the_manifest_lose_the_name_and_keep_their_counts(project: Path) -> None:
    corpus = corpus_options()
    make_corpus()
    row = {"reason": "1 of 7 is odd", "hint": "no", "fingerprint": "f"}
    delivery = Delivery("2026-11-12", "2026-11-12", 12, 3, "data/inbox/zoë; old", "in", "")
    rejects = [
        IntakeReject("data/inbox/2", "a.mp4", "8", concerns="eve; zoë; zoë-1", **row),
        IntakeReject("data/inbox", "b.mp4", "zoë-1", concerns="", **row),
    ]
    write_ledger(corpus.folder / DELIVERIES, [delivery], Delivery)
    write_ledger(corpus.folder / INTAKE_REJECTS, rejects, IntakeReject)
    main(["forget", "zoë", "--yes"])
    assert read_deliveries(corpus) == [replace(delivery, source="data/inbox/(forgotten); old")]
    concerns = "eve; (forgotten); (forgotten)"
    assert read_rejects(corpus) == [replace(rejects[0], concerns=concerns)]


def test_what_was_interrupted_or_half_written_is_a_signers_too(project: Path) -> None:
    corpus = corpus_options()
    write_manifest(
        corpus.path,
        [
            replace(clip, batch="2026-11-21" if clip.signer == "zoë" else "")
            for clip in make_corpus()
        ],
    )
    half = Path("data/app/takes/0123456789abcdef/.take.json.999999999-7f3a.tmp")
    half.parent.mkdir(parents=True)
    half.write_text('{"signer": "zoë"}')
    with cut_before(6, only=RENAMES), pytest.raises(PowerCutError):
        withdraw(corpus, "2026-11-21", "a mistake")
    assert is_unfinished(corpus)
    main(["forget", "zoë", "--yes"])
    assert [name for name, text in words(project).items() if "zoë" in text] == []
    assert not [*project.rglob("zoë-1.mp4"), *half.parent.iterdir()]


def test_imported_landmarks_are_written_without_the_signer(project: Path) -> None:
    make_corpus(imported=True)
    shards = corpus_options().imported_shards
    main(["forget", "zoë", "--yes"])
    assert sorted(read_clip_frames(shards)) == sorted(c[0] for c in CLIPS if c[1] != "zoë")
    assert sorted(path.name for path in shards.parent.iterdir()) == ["shards"]
    assert len(read_manifest(corpus_options().path)) == 5


@pytest.mark.parametrize(
    ("signer", "message"),
    [
        ("zoé", r"signer 'zoé'; did you mean zoë\?"),
        ("ZOË", r"signer 'ZOË'; did you mean zoë\?"),
        ("quentin", "`signloom summary` names them"),
        ("ben", "no clip is in the split dev"),
    ],
)
def test_who_cannot_be_removed_is_named_before_anything_is_removed(
    project: Path, signer: str, message: str
) -> None:
    make_corpus()
    before = words(project)
    expect_error(message, ["forget", signer, "--yes"])
    assert before.items() <= words(project).items()  # but for locks
