"""Recordings: whole or not at all, nothing twice, nobody without consent."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.files import to_text, write_file
from signloom_ops.app import takes
from signloom_ops.app.takes import Consent, FilmPart, Take, TakeError, TakeStore
from signloom_ops.intake.deliveries import ScanRequest, scan

FILM = bytes(range(256)) * 40


@pytest.fixture
def store(tmp_path: Path) -> TakeStore:
    return TakeStore(tmp_path / "app")


def record(store: TakeStore, text: str = "oui", signer: str = "anna", film: bytes = FILM) -> Take:
    take = store.begin(text=text, signer=signer, suffix=".webm")
    store.append(take, 0, film)
    return store.finish(take, len(film))


def agree(
    store: TakeStore, signer: str = "anna", until: str = "", *, training: bool = True
) -> None:
    purposes = ["training"] if training else ["showing"]
    values = {"signer": signer, "purposes": purposes, "until": until, "wording": "may we?"}
    store.agree(Consent(day=date.today().isoformat(), **values))  # type: ignore[arg-type]


def test_a_film_arrives_in_pieces_and_none_is_kept_twice(store: TakeStore) -> None:
    take = store.begin(text=" je\tvais\nlà ", signer="anna", suffix=".WebM")
    assert take.text == "je vais là"
    assert store.append(take, 0, FILM[:4000]) == 4000
    assert store.append(take, 0, FILM[:4000]) == 4000  # the answer was lost, so it came again
    assert store.append(take, 3000, FILM[3000:5000]) == 5000
    with pytest.raises(TakeError, match="next byte awaited is number 5000") as gap:
        store.append(take, 6000, b"x")
    assert gap.value.status == 409
    with pytest.raises(TakeError, match="5000 bytes are here, the whole film has 10240"):
        store.finish(take, len(FILM))
    store.append(take, 5000, FILM[5000:])
    finished = store.finish(take, len(FILM))
    assert store.film(finished).read_bytes() == FILM
    assert store.finish(finished, len(FILM)) == finished
    with pytest.raises(TakeError, match="whole already"):
        store.append(finished, len(FILM), b"more")


def test_only_ids_of_ours_become_paths(store: TakeStore) -> None:
    for name in ("..", "../../etc", "0123456789abcdeF", "0123456789abcdef/..", ""):
        with pytest.raises(TakeError, match="no such recording"):
            store.get(name)


def test_films_are_videos_bounded_in_size_and_number(
    store: TakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TakeError, match=r"'.exe' is no ending of a video"):
        store.begin(text="", signer="", suffix=".exe")
    monkeypatch.setattr(takes, "MAX_FILM", 100)
    monkeypatch.setattr(takes, "MAX_UNFINISHED", 2)
    take = store.begin(text="", signer="", suffix=".mp4")
    with pytest.raises(TakeError, match="a film may have"):
        store.append(take, 0, bytes(101))
    store.begin(text="", signer="", suffix=".mp4")
    with pytest.raises(TakeError, match="begun and not ended"):
        store.begin(text="", signer="", suffix=".mp4")


def test_after_a_full_disk_a_film_goes_on(store: TakeStore) -> None:
    take = store.begin(text="oui", signer="anna", suffix=".webm")
    store.append(take, 0, FILM[:500])
    film = store.film(take)
    moved = film.with_name("kept")
    film.rename(moved)
    film.symlink_to("/dev/full")
    with pytest.raises(TakeError, match="the disk takes no more") as full:
        store.append(take, 0, FILM)
    assert full.value.status == 507
    film.unlink()
    moved.rename(film)
    assert store.append(take, 500, FILM[500:]) == len(FILM)


def test_a_delivery_is_what_a_night_takes_in(store: TakeStore, tmp_path: Path) -> None:
    agree(store, until="2099-12-31")
    first, second = record(store), record(store, "non", film=FILM[::-1])
    inbox = tmp_path / "inbox"
    delivery = store.deliver(inbox)
    assert set(delivery.takes) == {first.id, second.id}
    assert delivery.left == {}
    candidates, waiting = scan(ScanRequest(sources=[inbox], inbox=True, settle_s=0.0))
    assert waiting == []
    assert {(candidate.values["text"], candidate.values["signer"]) for candidate in candidates} == {
        ("oui", "anna"),
        ("non", "anna"),
    }
    assert all(candidate.video and not candidate.problems for candidate in candidates)
    assert {candidate.values["consent_until"] for candidate in candidates} == {"2099-12-31"}
    assert {take.state for take in store.list_takes()} == {"delivered"}
    assert store.deliver(inbox).folder is None
    assert len(list(inbox.iterdir())) == 1


def test_a_long_film_is_delivered_as_the_clips_that_it_was_cut_into(
    store: TakeStore, tmp_path: Path
) -> None:
    agree(store)
    take = record(store, text="")
    later = FilmPart(start_s=3.5, end_s=5.0, text="", gloss="NON")
    parts = [later, FilmPart(start_s=0.25, end_s=2.0, text="oui ")]
    assert [part.text for part in store.change(take, parts=parts).parts] == ["oui", ""]
    assert "its sentence" in store.deliver(tmp_path / "inbox").left[take.id]
    with pytest.raises(TakeError, match="the same times"):
        store.change(store.get(take.id), parts=[later, replace(later, text="si")])
    with pytest.raises(UserError, match="ends too early"):
        FilmPart(start_s=2.0, end_s=2.0, text="")
    store.change(store.get(take.id), parts=[parts[1], replace(later, text="non")])
    store.deliver(tmp_path / "inbox")
    candidates, _ = scan(ScanRequest(sources=[tmp_path / "inbox"], inbox=True, settle_s=0.0))
    names = ("text", "start_s", "end_s", "gloss")
    assert [tuple(candidate.values[name] for name in names) for candidate in candidates] == [
        ("oui", "0.250", "2.000", ""),
        ("non", "3.500", "5.000", "NON"),
    ]
    assert len({candidate.name for candidate in candidates}) == 2
    assert len({candidate.video for candidate in candidates}) == 1
    assert not any(candidate.problems for candidate in candidates)


def test_who_has_not_agreed_is_not_delivered(store: TakeStore, tmp_path: Path) -> None:
    record(store, signer="silent")
    record(store, signer="shown")
    agree(store, "shown", training=False)
    record(store, signer="past")
    agree(store, "past", until="2020-01-31")
    record(store, text="")
    agree(store)
    store.begin(text="oui", signer="anna", suffix=".webm")
    delivery = store.deliver(tmp_path / "inbox")
    assert delivery.folder is None
    assert sorted(delivery.left.values()) == [
        "its film is not whole",
        "its sentence or its signer is missing",
        "past agreed until 2020-01-31",
        "shown has not agreed to training",
        "silent has not agreed to anything yet",
    ]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_delivery_that_died_is_finished_or_undone(
    store: TakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    agree(store)
    take = record(store)
    inbox = tmp_path / "inbox"
    rename = Path.rename

    def die(self: Path, target: Path) -> Path:
        if self.name.startswith(".app-"):
            if arrived:
                rename(self, target)
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            store.deliver(inbox)
    store.settle(inbox)
    assert store.get(take.id).state == ("delivered" if arrived else "whole")
    again = store.deliver(inbox)
    assert again.takes == ([] if arrived else [take.id])
    assert len(list(inbox.iterdir())) == 1


def test_a_delivered_take_is_not_changed_and_may_be_removed(
    store: TakeStore, tmp_path: Path
) -> None:
    agree(store)
    take = store.change(record(store, text=""), text="oui ")
    assert take.text == "oui"
    store.deliver(tmp_path / "inbox")
    with pytest.raises(TakeError, match="is delivered"):
        store.change(take, text="non")
    assert store.finish(replace(take, state="recording"), 5).state == "delivered"  # it came late
    assert store.deliver(tmp_path / "inbox").takes == []
    store.remove(store.get(take.id))
    assert store.list_takes() == []
    assert len(list((tmp_path / "inbox").glob("*/*.webm"))) == 1


def test_many_clicks_on_deliver_deliver_every_take_once(store: TakeStore, tmp_path: Path) -> None:
    agree(store)
    take_ids = {record(store).id for _ in range(6)}
    with ThreadPoolExecutor(8) as pool:
        deliveries = list(pool.map(lambda _: store.deliver(tmp_path / "inbox"), range(8)))
    assert sorted(take_id for delivered in deliveries for take_id in delivered.takes) == sorted(
        take_ids
    )
    (folder,) = (tmp_path / "inbox").iterdir()
    assert len(list(folder.glob("*.webm"))) == 6


def test_threads_that_change_a_take_leave_it_readable(store: TakeStore) -> None:
    take = record(store)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.change(take, text=f"text {n} " + "x" * n), range(200)))
    assert store.get(take.id).text.startswith("text ")
    assert [path.name for path in store.film(take).parent.glob(".*")] == []


def test_a_removed_take_stays_removed(store: TakeStore) -> None:
    take = record(store)
    store.remove(take)
    for act in (
        store.remove,
        lambda take: store.change(take, text="non"),
        lambda take: store.finish(replace(take, state="recording"), 5),
    ):
        with pytest.raises(TakeError, match="no such recording"):
            act(take)
    assert not store.film(take).parent.exists()


def test_a_delivery_that_fails_leaves_nothing_in_the_inbox(
    store: TakeStore, tmp_path: Path
) -> None:
    agree(store)
    record(store)
    store.film(record(store)).unlink()
    with pytest.raises(FileNotFoundError):
        store.deliver(tmp_path / "inbox")
    assert list((tmp_path / "inbox").iterdir()) == []


def test_a_damaged_take_hides_no_other(store: TakeStore) -> None:
    good, bad = record(store), record(store)
    (store.film(bad).parent / "take.json").write_text('{"id": 3')
    assert [take.id for take in store.list_takes()] == [good.id]
    with pytest.raises(UserError, match=r"take\.json"):
        store.get(bad.id)
    store.settle(store.film(good).parents[2] / "inbox")


def test_a_crash_between_a_films_name_and_its_note_loses_no_film(store: TakeStore) -> None:
    take = store.begin(text="oui", signer="anna", suffix=".webm")
    store.append(take, 0, FILM)
    store.film(take).rename(store.film(replace(take, state="whole")))
    again = store.get(take.id)
    assert again.state == "whole"
    assert store.film(again).read_bytes() == FILM


def test_texts_lose_what_cannot_be_written_or_seen(store: TakeStore) -> None:
    take = record(store, text="je\ud800 vais\x00 l\u200dà")
    assert take.text == "je? vais l\u200dà"  # joiners belong to Persian and Hindi
    assert store.get(take.id) == take


def test_the_last_consent_is_the_last_though_copies_and_clocks_change_the_times_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TakeStore(tmp_path)
    agree(store, "yes", training=False)
    agree(store, "yes")
    agree(store, "no")
    agree(store, "no", training=False)
    for number, path in enumerate(sorted((tmp_path / "consents").iterdir())):
        os.utime(path, (number, number))
    consents = store.last_consents()
    assert ["training" in consents[name].purposes for name in ("yes", "no")] == [True, False]


@pytest.mark.parametrize(
    ("no", "yes", "strangers", "is_agreed"),
    [
        ((2, "2026-11-22"), (7, "2026-11-20"), [], False),  # of a place with more consents
        ((7, "2026-11-20"), (2, "2026-11-22"), [], False),  # a clock may have been wrong
        ((2, "2026-11-20"), (7, "2026-11-22"), [], True),
        ((2, "2026-11-20"), (7, "2026-11-20"), [], True),
        ((2, "2026-11-20"), (7, "2026-11-20"), [2], False),  # numbers of two places
        ((2, "2026-11-20"), (7, "2026-11-22"), [2], True),
        ((2, "2026-11-20"), (2, "2026-11-22"), [], True),
    ],
)
def test_where_the_consents_of_two_places_lie_in_one_folder_doubt_means_no(
    tmp_path: Path,
    no: tuple[int, str],
    yes: tuple[int, str],
    strangers: list[int],
    is_agreed: bool,
) -> None:
    (tmp_path / "consents").mkdir()
    consents = [("ada", *no, []), ("ada", *yes, ["training"])]
    consents += [("bob", number, "2026-11-01", []) for number in strangers]
    for place, (signer, number, day, purposes) in enumerate(consents):
        consent = Consent(
            signer=signer, day=day, purposes=purposes, until="", wording="?", number=number
        )
        write_file(tmp_path / f"consents/{place}.json", to_text(asdict(consent)))
    store = TakeStore(tmp_path)
    assert ("training" in store.last_consents()["ada"].purposes) == is_agreed
    record(store, signer="ada")
    assert bool(store.deliver(tmp_path / "inbox").folder) == is_agreed


@pytest.mark.parametrize(
    ("day", "purposes", "until"),
    [("2026-11-20", [], "2030-01-01"), ("2026-11-19", ["training"], ""), ("2026-11-21", [], "")],
)
def test_of_older_consents_the_day_counts_and_in_doubt_what_both_allow(
    tmp_path: Path, day: str, purposes: list[str], until: str
) -> None:
    yes = {
        "signer": "ada",
        "day": "2026-11-20",
        "purposes": ["training"],
        "until": "",
        "wording": "may we?",
    }
    no = {**yes, "day": day, "purposes": [], "until": "2030-01-01" if until else ""}
    (tmp_path / "consents").mkdir()
    for name, consent in (("a", no), ("b", yes)):
        (tmp_path / f"consents/{name}.json").write_text(json.dumps(consent))
    last = TakeStore(tmp_path).last_consents()["ada"]
    assert (last.purposes, last.until) == (purposes, until)
