"""A corpus founded of what the page delivered: once, whole, and only with people enough."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from signloom.config import load_params
from signloom.corpus.manifest import read_manifest
from signloom.errors import UserError
from signloom.paths import PARAMS
from signloom_ops.app import first_corpus
from signloom_ops.app.takes import Consent, TakeStore
from tests.unit.ops.app.serving import Asker
from tests.videos import write_video

MANIFEST = Path("data/raw/mine/manifest.tsv")
TEXTS = ("oui", "non, merci")


def deliver(*signers: str, takes: int = 1) -> None:
    store = TakeStore()
    film = write_video(Path("film.mp4"), frames=20).read_bytes()
    for signer in signers:
        store.agree(
            Consent(signer=signer, day="2026-11-24", purposes=["training"], until="", wording="?")
        )
        for text in TEXTS * takes:
            take = store.begin(text=text, signer=signer, suffix=".mp4")
            store.film(take).write_bytes(film)
            store.finish(take, store.size(take))
    store.deliver(Path("data/inbox"))


def test_two_presses_at_once_found_one_corpus_that_a_night_can_begin_with(asker: Asker) -> None:
    deliver("anouk", takes=2)
    deliver("gildas é", "joao")  # deliveries of several days become one corpus
    proposal = first_corpus.propose()
    splits = {person.signer: person.split for person in proposal.people}
    assert splits["anouk"] == "train"
    assert {*splits.values()} == {"train", "dev", "test"}
    assert [lack.kind for lack in proposal.lacks] == ["test_clips", "takes"]
    splits = {"anouk": "train", "gildas é": "test", "joao": "dev"}  # as a person chose
    assert [lack.kind for lack in first_corpus.propose({**splits, "joao": "test"}).lacks] == [
        "uses"
    ]
    with ThreadPoolExecutor(2) as two:
        answers = list(
            two.map(lambda _: asker.change("POST", "/api/found", {"splits": splits}), range(2))
        )
    assert [status for status, _ in answers] == [201, 201]
    clips = read_manifest(MANIFEST)
    assert {clip.signer: clip.split for clip in clips} == splits
    assert len(clips) == 8
    params = load_params(PARAMS)
    assert params["corpus"]["folder"] == "data/raw/mine"
    assert params["train"]["seeds"] == [1, 2, 3]  # as many as the gate asks for
    before = MANIFEST.stat().st_mtime_ns
    first_corpus.found(splits)
    assert MANIFEST.stat().st_mtime_ns == before


def test_what_was_cut_off_before_the_parameters_is_founded_again(project: Path) -> None:
    deliver("anouk", "gildas", "joao")
    first_corpus.found()
    shutil.copy(Path(__file__).parents[4] / "params.yaml", PARAMS)  # as it was
    deliver("hana")
    first_corpus.found()
    assert len(read_manifest(MANIFEST)) == 8


def test_a_corpus_that_is_not_pulled_yet_is_not_replaced(project: Path) -> None:
    deliver("anouk", "gildas", "joao")
    Path("data/demo").mkdir()
    Path("data/demo/corpus.dvc").write_text("outs: []\n")
    first_corpus.found()
    assert not MANIFEST.exists()


def test_who_is_missing_is_said_and_others_clips_are_not_replaced(asker: Asker) -> None:
    deliver("anouk", "gildas")
    proposal = first_corpus.propose()
    assert [(lack.kind, lack.count, lack.wanted) for lack in proposal.lacks] == [("people", 2, 3)]
    assert {person.split for person in proposal.people} == {""}
    status, answer = asker.change("POST", "/api/found", {"splits": {}})
    assert status == 422
    assert "look at the table again" in answer["error"]
    with pytest.raises(UserError, match="a corpus needs 3 signers"):
        first_corpus.found()
    deliver("joao")
    first_corpus.found()
    shutil.copy(Path(__file__).parents[4] / "params.yaml", PARAMS)
    shutil.rmtree("data/inbox")
    deliver("kiri", "lou", "mo")
    with pytest.raises(UserError, match="has clips that the page did not deliver"):
        first_corpus.found()
