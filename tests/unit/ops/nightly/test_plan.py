"""Is there anything to do tonight, and why?"""

from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import load_manifest, read_manifest, write_manifest
from signloom.errors import UserError
from signloom_ops.intake.ingest import ingest
from signloom_ops.nightly.plan import (
    NightPlan,
    Settings,
    choose_parent,
    corpus_key,
    make_plan,
    new_clips,
    read_settings,
)
from signloom_ops.nightly.store import ModelStore
from tests import glosses
from tests.intake import DAY, deliver, request_of
from tests.unit.ops.nightly.night_project import PARAMS, keep_decided, make_project


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")
    return make_project()


def plan(settings: Settings, *, to_finish: int | None = None, force: bool = False) -> NightPlan:
    manifest = load_manifest(settings.corpus)
    return make_plan(settings, manifest, ModelStore(), to_finish=to_finish, force=force)


def take(settings: Settings) -> str:
    """Deliver a clip and take it in; return its batch."""
    deliver(settings.ops.inbox / "dan", "new", frames=25)
    request = request_of(settings.ops.inbox, inbox=True)
    ingested = ingest(settings.corpus, request, settings.ops.ingest, day=DAY)
    assert ingested.batch is not None, ingested.rejects
    return ingested.batch


def test_a_project_without_a_model_trains_its_first(settings: Settings) -> None:
    planned = plan(settings)
    assert (planned.kind, planned.reasons) == ("train", ("no model has been decided on yet",))
    # The founding stock is what drift is measured against, not new.
    assert new_clips(read_manifest(settings.corpus.path), ModelStore()) == {}


def test_a_champion_of_another_corpus_is_refused_before_a_night_of_work(settings: Settings) -> None:
    keep_decided(settings, ModelStore(), promote=True)
    clips = read_manifest(settings.corpus.path)
    renamed = [replace(clip, clip_id=f"new {clip.clip_id}") for clip in clips]
    write_manifest(settings.corpus.path, renamed)
    with pytest.raises(UserError, match=r"made from another corpus: none of its .*mv data/models"):
        plan(settings)


@pytest.mark.parametrize("promote", [True, False])
def test_what_was_decided_on_is_not_new_whatever_was_decided(
    settings: Settings, promote: bool
) -> None:
    keep_decided(settings, ModelStore(), promote=promote)
    assert (plan(settings).kind, plan(settings).reasons) == ("nothing", ())
    assert plan(settings, force=True).kind == "train"


def test_parameters_are_no_reason(settings: Settings) -> None:
    keep_decided(settings, ModelStore(), promote=True)
    text = PARAMS.read_text(encoding="utf-8")
    PARAMS.write_text(text.replace("dropout: 0.0", "dropout: 0.3"), encoding="utf-8")
    assert plan(read_settings(PARAMS)).kind == "nothing"


def test_a_delivery_is_news_in_the_inbox_and_in_the_corpus(settings: Settings) -> None:
    keep_decided(settings, ModelStore(), promote=True)
    deliver(settings.ops.inbox / "dan", "new", frames=25)
    assert plan(settings).reasons == ("something new lies in data/inbox",)
    # A night that was cut after its ingest leaves it there, and it is new still.
    batch = take(settings)
    assert plan(settings).reasons == (f"1 clip of {batch} wait in the corpus",)
    assert new_clips(read_manifest(settings.corpus.path), ModelStore()) == {batch: ["new"]}
    keep_decided(settings, ModelStore(), promote=False)
    assert plan(settings).kind == "nothing"


def test_clips_that_left_or_changed_are_a_reason_and_a_rolled_back_corpus_is_none(
    settings: Settings,
) -> None:
    keep_decided(settings, ModelStore(), promote=True)
    path = settings.corpus.path
    before, clips = path.read_bytes(), read_manifest(path)
    expected = ("clips left the corpus or were changed since the last model",)
    write_manifest(path, clips[1:])
    assert plan(settings).reasons == expected
    write_manifest(path, [replace(clips[0], text="autre chose"), *clips[1:]])
    assert plan(settings).reasons == expected
    keep_decided(settings, ModelStore(), promote=False)
    path.write_bytes(before)  # as `git checkout` and `dvc checkout` do
    assert plan(settings).kind == "nothing"


def test_a_night_that_was_cut_after_its_decision_is_finished(settings: Settings) -> None:
    version = keep_decided(settings, ModelStore(), promote=True)
    assert plan(settings, to_finish=version).kind == "finish"
    deliver(settings.ops.inbox / "dan", "new", frames=25)
    assert plan(settings, to_finish=version).kind == "train"


def test_the_order_of_the_manifest_and_the_name_of_a_delivery_make_no_other_corpus(
    settings: Settings,
) -> None:
    clips = read_manifest(settings.corpus.path)
    reordered = [replace(clip, batch="2026-01-01") for clip in reversed(clips)]
    assert corpus_key(clips) == corpus_key(reordered)
    assert corpus_key(clips) != corpus_key([replace(clips[0], split="dev"), *clips[1:]])


def test_a_night_trains_without_who_was_forgotten_though_the_corpus_is_as_it_was(
    settings: Settings,
) -> None:
    store = ModelStore()
    version = keep_decided(settings, store, promote=True)
    assert choose_parent(store, "champion") == version
    assert choose_parent(store, "scratch") is None
    mark = {"request": "r", "clips": 2, "splits": ["test"], "through": None}
    store.mark(version, "forgotten", [mark])
    assert choose_parent(store, "champion") is None  # its weights are not handed on
    assert plan(settings).kind == "nothing"  # nothing was learnt from test
    store.mark(version, "forgotten", [{**mark, "splits": [], "through": 1}])
    assert plan(settings).reasons == (
        "the model of this corpus learnt from a signer who was forgotten",
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("ops.yaml", "seeds: 2", "seeds: 3", r"set train.seeds: \[1, 2, 3\]"),
        ("params.yaml", "source: landmarks", "source: glosses", "model.source is glosses"),
    ],
)
def test_wrong_parameters_are_refused_before_a_night_of_work(
    settings: Settings, name: str, before: str, after: str, said: str
) -> None:
    text = Path(name).read_text(encoding="utf-8")
    assert before in text
    Path(name).write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(UserError, match=said):
        read_settings(PARAMS)


def test_a_corpus_without_videos_is_refused(settings: Settings) -> None:
    glosses.write_corpus(settings.corpus.folder)
    with pytest.raises(UserError, match=r"is of glosses and sentences.* repro`, or name"):
        plan(settings)
