"""Wherever a change of a corpus is cut, the next call ends or undoes it; nothing else may begin."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError
from signloom.extraction import cache
from signloom_ops.intake.changes import (
    begin_change,
    change_corpus,
    changes_folder,
    is_unfinished,
    read_deliveries,
    recover_corpus,
    removal_note,
    settle_change,
)
from signloom_ops.intake.inbox import has_new_files
from signloom_ops.intake.withdraw import withdraw
from tests.intake import DAY, OPTIONS, deliver, plan, take, tree
from tests.power_cut import RENAMES, PowerCutError, cut_before

# Without those by which a scan clears its temporary folder.
OPERATIONS = (*RENAMES, "open", "mkdir", "link", "fsync")


@pytest.fixture(autouse=True)
def hashes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of films that lie there for seconds: else how long a call takes decides what it writes."""
    monkeypatch.setattr(cache, "_SETTLED_NS", -1)


def films(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.mp4"))


def without_cache(folder: str) -> dict[str, bytes]:
    return {name: data for name, data in tree(Path(folder)).items() if "cache/" not in name}


def cut_everywhere(act: Callable[[], object], start: str) -> Iterator[int]:
    """Do something from the same start again and again, cut one operation later each time."""
    for number in itertools.count():
        shutil.rmtree("data")
        shutil.copytree(start, "data")
        with cut_before(number, only=OPERATIONS):
            try:
                act()
            except PowerCutError:
                pass
            else:
                return
        yield number


def test_an_ingest_that_is_cut_leaves_nothing_or_all_of_the_delivery(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    deliver(Path("in/ada"), "odd", "?!", frames=21)
    plan(corpus, "in")  # the hashes are kept
    shutil.copytree("data", "start")
    before = tree(corpus.folder)
    take(corpus, "in")
    after, arrivals = tree(corpus.folder), []
    for _ in cut_everywhere(lambda: take(corpus, "in"), "start"):
        came_in = len(read_manifest(corpus.path)) == 6
        recover_corpus(corpus)
        assert not is_unfinished(corpus)
        assert films(corpus.folder) == [
            name for name in (after if came_in else before) if name.endswith("mp4")
        ]
        assert [delivery.batch for delivery in read_deliveries(corpus)] == [DAY] * came_in
        take(corpus, "in")
        assert tree(corpus.folder) == after
        assert not has_new_files(corpus, Path("in"), OPTIONS)
        arrivals.append(came_in)
    assert arrivals == sorted(arrivals)
    assert set(arrivals) == {False, True}


def test_a_withdrawal_that_is_cut_loses_no_film_and_ends_when_it_is_repeated(
    corpus: CorpusOptions,
) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    take(corpus, "in")
    shutil.copytree("data", "start")
    withdraw(corpus, DAY, "no")
    after, film = without_cache("data"), Path("in/ada/a.mp4").read_bytes()
    departures = []
    for _ in cut_everywhere(lambda: withdraw(corpus, DAY, "no"), "start"):
        is_gone = len(read_manifest(corpus.path)) == 5
        assert film in (path.read_bytes() for path in Path("data").rglob("*.mp4"))
        recover_corpus(corpus)
        assert (corpus.folder / "videos" / DAY / "a.mp4").is_file() != is_gone
        withdraw(corpus, DAY, "no")
        assert without_cache("data") == after
        departures.append(is_gone)
    assert departures == sorted(departures)
    assert set(departures) == {False, True}


def test_the_end_of_a_cut_change_may_be_cut_as_well(corpus: CorpusOptions) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    begin_change(corpus, DAY)
    (corpus.folder / "videos" / DAY).mkdir()
    for name in ("a.mp4", ".b.mp4.999999999-7f3a.tmp"):
        (corpus.folder / "videos" / DAY / name).write_bytes(b"film")
    shutil.copytree("data", "start")
    for _ in cut_everywhere(lambda: recover_corpus(corpus), "start"):
        recover_corpus(corpus)
        assert not (corpus.folder / "videos" / DAY).exists()
    assert take(corpus, "in").batch == DAY


def test_films_that_people_put_there_are_never_removed(corpus: CorpusOptions) -> None:
    own_film = corpus.folder / "videos" / DAY / "own.mp4"
    own_film.parent.mkdir()
    own_film.write_bytes(b"theirs")
    deliver(Path("in/ada"), "own", frames=20)
    result = take(corpus, "in")
    assert result.batch == f"{DAY}-2"
    withdraw(corpus, f"{DAY}-2", "no")
    begin_change(corpus)
    recover_corpus(corpus)
    assert own_film.read_bytes() == b"theirs"
    assert not (corpus.folder / "videos" / f"{DAY}-2" / "own.mp4").exists()


def test_a_manifest_that_is_edited_meanwhile_stays_as_it_is_edited(
    corpus: CorpusOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from signloom_ops.intake import ingest

    copy = ingest._copy_videos
    edited = corpus.path.read_text().replace("elle mange du pain", "elle mange")

    def edit(*arguments: object) -> object:
        corpus.path.write_text(edited)
        return copy(*arguments)  # type: ignore[arg-type]

    deliver(Path("in/ada"), "a", frames=20)
    before = tree(corpus.folder)
    monkeypatch.setattr(ingest, "_copy_videos", edit)
    with pytest.raises(UserError, match="was edited while"):
        take(corpus, "in")
    assert tree(corpus.folder) == {**before, "manifest.tsv": edited.encode()}
    monkeypatch.undo()


def test_a_film_that_changes_while_it_is_copied_waits(
    corpus: CorpusOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    from signloom_ops.intake import ingest

    copy = ingest._copy_videos
    film = deliver(Path("in/ada"), "a", frames=20)
    deliver(Path("in/ada"), "b", frames=21)

    def grow(*arguments: object) -> object:
        film.write_bytes(film.read_bytes() + b"more")
        return copy(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ingest, "_copy_videos", grow)
    result = take(corpus, "in")
    assert ([clip.clip_id for clip in result.clips], result.waiting) == (["b"], [film])
    assert films(corpus.folder / "videos" / DAY) == ["b.mp4"]


@pytest.mark.parametrize("name", ["journal.json", "removal.json"])
def test_what_this_command_cannot_finish_is_refused_and_names_no_person(
    corpus: CorpusOptions, name: str
) -> None:
    deliver(Path("in/ada"), "a", frames=20)
    before = tree(corpus.folder)
    note = changes_folder(corpus) / name
    note.parent.mkdir()
    note.write_text('{"signer": "zoë"}')
    assert is_unfinished(corpus)
    for act in (lambda: take(corpus, "in"), lambda: withdraw(corpus, DAY, "no")):
        with pytest.raises(UserError, match=r"was interrupted") as caught:
            act()
        assert "zoë" not in str(caught.value)
    assert tree(corpus.folder) == before


def test_nothing_is_settled_where_no_change_was_begun(corpus: CorpusOptions) -> None:
    with change_corpus(corpus):
        assert settle_change(corpus) == ""
    assert not is_unfinished(corpus)
    assert not removal_note(corpus).exists()
