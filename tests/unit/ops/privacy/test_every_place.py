"""A person who lies in every place that a project has is found in every one."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from signloom import paths
from signloom.corpus.manifest import read_manifest, write_manifest
from signloom.detection.video import DECODER
from signloom.extraction.cache import LandmarkCache, cache_key, pack_landmarks
from signloom.extraction.extract import extractor_fingerprint
from signloom.files import hash_file
from signloom_ops.app.takes import Consent, TakeStore
from signloom_ops.intake.ingest import ingest
from signloom_ops.intake.withdraw import withdraw
from signloom_ops.options import IngestOptions
from signloom_tools.cli.main import main
from tests.elan import eaf
from tests.extraction import OPTIONS as EXTRACT
from tests.intake import deliver, request_of, tree, write_rows
from tests.unit.evaluation.world import sequence
from tests.unit.ops.privacy.forget_project import corpus_options, make_corpus, words
from tests.videos import write_video

OPEN = IngestOptions(
    min_duration_s=0.0,
    max_duration_s=600.0,
    min_side=16,
    settle_s=0.0,
    shares=(1.0, 0.0, 0.0),
)
INBOX = Path("data/inbox")
NOTE = "zoë signed well\n"
NOTED = json.dumps({"signers": {"zoë": 1}, "rows": [{"judge": "zoë"}, {"clip_id": "zoë-1"}]})


def record(signer: str = "zoë", frames: int = 31) -> str:
    """Have the app hold a recording of a signer who agreed."""
    store, film = TakeStore(), Path("film.mp4")
    write_video(film, frames=frames)
    consent = Consent(signer=signer, day="2026-11-24", purposes=["training"], until="", wording="w")
    store.agree(consent)
    take = store.begin(text="a sentence", signer=signer, suffix=".mp4")
    size = store.append(take, 0, film.read_bytes())
    store.finish(take, size)
    film.unlink()
    return take.id


def note(path: Path, text: str = NOTE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def films(*folders: str) -> list[str]:
    return [p.as_posix() for f in folders for p in sorted(Path(f).rglob("*.mp4"))]


# How a person comes into each place; None: no place for people, for the reason behind it.
PLACES: dict[str, Callable[[Path], None] | str] = {
    "OPS": "knobs",
    "START": "a folder of a model",
    "PARAMS": "knobs",
    "DVC_LOCK": "hashes",
    "PRESETS": "knobs",
    "DEMO_CORPUS": "drawn signers",
    "LANDMARKS": lambda place: note(place / "rejects.tsv"),
    "SHARDS": lambda place: note(place / "zoë.json", NOTED),
    "REJECTS": lambda place: note(place, "clip_id\tsigner\nzoë-1\tzoë\n"),
    "LANDMARK_CACHE": "entries by the film's hash: the test of the cache below",
    "LOOKUP": lambda place: note(place / "index.json", NOTED),
    "TOKENS": lambda place: note(place / "zoë.json", NOTED),
    "TARGETS": "written by the fixture, with signers",
    "TOKENIZER": lambda place: note(place, NOTED),
    "LABELS": lambda place: note(place, NOTED),
    "CHECKPOINT": "weights, which no program can clean: `tell_left` names them",
    "HISTORY": "losses",
    "SNAPSHOTS": lambda place: note(place / "1.json", NOTED),
    "MODELS": "written by the fixture, with signers",
    "WITHDRAWN_VIDEOS": "by `withdraw` below",
    "RETRAIN_LOCK": lambda place: note(place, NOTED),
    "LOGS": lambda place: note(place / "extract.log"),
    "SPOOL": lambda place: note(place / "box/params.json", NOTED),
    "REPORTS": lambda place: note(place / "judgements/task/judge-1.json", NOTED),
    "REPORT_PAGE": lambda place: note(place, f"<p>{NOTE}</p>"),
    "FIGURES": lambda place: note(place / "zoë.html"),
    "METRICS": "numbers",
    "EVALUATION": lambda place: note(place / "hypotheses.tsv", "clip_id\nzoë-1\n"),
    "TUNE": lambda place: note(place / "trials.json", NOTED),
    "JUDGEMENTS": lambda place: note(place / "task/judge-2.json", json.dumps({"judge": "zoë"})),
    "NIGHTS": lambda place: note(place / "2026-11-24/stages.log"),
    "LAST_NIGHT": lambda place: note(place, NOTED),
    "APP": "by `record` below",
}


def put_everywhere() -> None:
    """Have one person in the corpus, the app, the inbox, the withdrawn films and all else."""
    for name, put in PLACES.items():
        if callable(put):
            put(getattr(paths, name))
    for name in ("raw/.weekly.intake", ".models.change"):  # as versions before wrote it
        note(Path("data", name, "lock"), "process 1 on host: signloom ingest --signer zoë")
    store = TakeStore()
    record(frames=33)
    store.deliver(INBOX)
    ingest(corpus_options(), request_of(INBOX, inbox=True), OPEN)
    batch = next(c.batch for c in read_manifest(corpus_options().path) if c.batch)
    withdraw(corpus_options(), batch, "a mirror")
    record(frames=35)
    store.deliver(INBOX)
    record(frames=37)
    for name in ("zoë", "team"):
        (INBOX / name).mkdir()
        write_video(INBOX / name / "new.mp4", frames=40 + len(name))
    copy = INBOX / os.fsdecode(b"caf\xe9.mp4")
    copy.write_bytes((corpus_options().folder / "videos/zoë-1.mp4").read_bytes())
    note(INBOX / "zoë/new.txt", "a sentence\n")
    note(INBOX / "team/new.vtt", "WEBVTT\n\n00:00.000 --> 00:00.400\na sentence\n")
    note(INBOX / "team/signer.txt", "zoë\n")


def test_every_place_of_a_project_is_known_to_the_test_of_forgetting() -> None:
    names = {name for name, value in vars(paths).items() if isinstance(value, Path)}
    assert names == PLACES.keys(), "say how a person comes into a new place, or why none does"


def test_a_signer_in_every_place_is_forgotten_in_every_place(project: Path) -> None:
    make_corpus()
    put_everywhere()
    take_id = record("eve", frames=45)
    assert films("data/app", "data/inbox", "data/withdrawn") != []
    main(["forget", "zoë", "--yes"])
    assert [name for name, text in words(project).items() if "zoë" in text or "zoë" in name] == []
    assert films("data/app", "data/inbox", "data/withdrawn") == [
        f"data/app/takes/{take_id}/film.mp4"
    ]
    assert not list(INBOX.iterdir())
    result = ingest(corpus_options(), request_of(INBOX, inbox=True), OPEN)
    assert not result.clips


@pytest.mark.parametrize("signer", ["test", "model", "fr", "clips", "seen", "bleu4", "rose"])
def test_a_person_in_no_version_changes_no_version_whatever_the_name(
    project: Path, signer: str
) -> None:
    make_corpus()
    record(signer)
    deliver(INBOX / signer, "a", frames=50)
    before = tree(Path("data/models"))
    main(["forget", signer, "--yes"])
    assert tree(Path("data/models")) == before
    assert films("data/app", "data/inbox") == []


def test_sentences_of_others_are_never_changed_but_listed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_corpus()
    record("rose")
    deliver(INBOX / "eve", "a", "elle a rose un chat", frames=50)
    rows = [{"video": "b.mp4", "text": text, "signer": "eve"} for text in ("rose", "une rose")]
    write_rows(INBOX / "table/table.tsv", rows)
    write_video(INBOX / "table/b.mp4", frames=51)
    before = tree(INBOX)
    main(["forget", "rose", "--yes"])
    assert tree(INBOX) == before
    listed = "files still have a name of theirs (data/inbox/eve/a.txt, data/inbox/table/table.tsv)"
    assert listed in capsys.readouterr().out


def test_what_comes_in_while_a_person_is_asked_goes_as_well(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus()
    record("zoë")

    def answer(_question: str, _answer: str) -> None:
        TakeStore().deliver(INBOX)
        ingest(corpus_options(), request_of(INBOX, inbox=True), OPEN)
        record("zoë", frames=35)
        assert any(clip.batch for clip in read_manifest(corpus_options().path))

    monkeypatch.setattr("signloom_ops.cli.corpus.confirm", answer)
    main(["forget", "zoë"])
    assert films("data/app", "data/inbox") == []
    assert {clip.signer for clip in read_manifest(corpus_options().path)} == {
        "eve",
        "ben",
        "cleo",
        "dana",
    }
    assert not list(corpus_options().folder.glob("videos/20*/*"))


@pytest.mark.parametrize("place", ["app", "delivered", "inbox"])
def test_somebody_who_is_nowhere_but_in_app_or_inbox_is_forgotten(
    project: Path, place: str
) -> None:
    make_corpus()
    if place == "inbox":
        deliver(INBOX / "nina", "a", frames=50)
    else:
        record("nina")
    if place == "delivered":
        TakeStore().deliver(INBOX)
    main(["forget", "nina", "--yes"])
    assert films("data/app", "data/inbox") == []
    assert [name for name, text in words(project).items() if "nina" in text or "nina" in name] == []
    assert len(read_manifest(corpus_options().path)) == 7


def test_names_like_that_of_who_is_forgotten_stay_and_are_listed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_corpus()
    record(frames=33, signer="zo\u200bë")
    record(frames=35, signer="ZOË")
    main(["forget", "zoë", "--dry-run"])
    assert "ZOË is like this name and stays" in capsys.readouterr().out
    main(["forget", "zoë", "--yes"])
    output = capsys.readouterr().out
    assert "ZOË is like this name and stays" in output
    assert TakeStore().signers() == {"ZOË"}


def test_somebody_in_the_app_of_a_project_without_a_corpus_is_forgotten(project: Path) -> None:
    record("nina")
    main(["forget", "nina", "--yes"])
    assert films("data/app") == []


def test_a_film_that_shows_another_signer_stays_in_the_inbox_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_corpus()
    INBOX.mkdir(parents=True)
    write_video(INBOX / "two.mp4", frames=60)
    rows = "two.mp4\ta\tnina\t0\t0.5\ntwo.mp4\tb\teve\t0.5\t1\n"
    note(INBOX / "table.tsv", f"video\ttext\tsigner\tstart_s\tend_s\n{rows}")
    main(["forget", "nina", "--yes"])
    assert films("data/inbox") == ["data/inbox/two.mp4"]
    assert "nina" not in (INBOX / "table.tsv").read_text()
    assert "show others, too, stay (data/inbox/two.mp4)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("signer", "box"), [("nina", ""), ("nina", "0 0 0.5 1"), ("zoë", "0 0 0.5 1")]
)
def test_landmarks_go_from_the_cache_with_who_signs_in_them(
    project: Path, signer: str, box: str
) -> None:
    first, *other_clips = make_corpus()
    write_manifest(corpus_options().path, [replace(first, box=box or None), *other_clips])
    film = deliver(INBOX / "nina", "a", frames=50) if signer == "nina" else first.video
    row = {"video": "a.mp4", "text": "a", "signer": "nina", "box": box}
    write_rows(INBOX / "nina/table.tsv", [row])
    key = cache_key(
        video=hash_file(film or Path()),
        start_s=None,
        end_s=None,
        decoder=DECODER,
        extractor=extractor_fingerprint(EXTRACT.detector_options),
        **({"box": "0.0 0.0 0.5 1.0"} if box else {}),
    )
    cache = LandmarkCache(Path(os.environ["SIGNLOOM_CACHE"]))
    cache.store(key, pack_landmarks(sequence(1)))
    main(["forget", signer, "--yes"])
    assert cache.look_up(key) is None


@pytest.mark.parametrize("others", ["", "B"])
def test_captions_without_a_film_of_their_name_go_or_are_named_where_others_are_in_them(
    project: Path, capsys: pytest.CaptureFixture[str], others: str
) -> None:
    make_corpus()
    (INBOX / "day").mkdir(parents=True)
    for n, who in enumerate(("A", *others)):
        write_video(INBOX / f"day/14_{who}.mp4", frames=50 + n) if others else None
    tiers = {f"text{'@' if others else '_'}{who}": [(0, 900, "a")] for who in ("A", *others)}
    captions = eaf(INBOX / "day/14.eaf", tiers, participants=not others)
    main(["forget", "A", "--yes"])
    assert films("data/inbox") == ["data/inbox/day/14_B.mp4"] * bool(others)
    assert captions.exists() == bool(others)
    stay = f"show others, too, stay ({captions})" in capsys.readouterr().out
    assert stay == bool(others)
