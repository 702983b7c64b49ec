"""The tab Judge: blind in every answer of the server, each judge apart, films by id alone."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import Clip, write_manifest
from signloom.corpus.shards import write_shards
from signloom.evaluation.judgements import Judgements
from signloom.paths import SHARDS
from tests import tiny
from tests.unit.evaluation.judged import task
from tests.unit.ops.app.serving import Asker, serve
from tests.videos import write_video

CORPUS = Path("data/raw/c")


@pytest.fixture
def asker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    """A project with a task, and a corpus in which one of its clips has a film."""
    monkeypatch.chdir(tmp_path)
    params = yaml.safe_load((tiny.ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["corpus"] |= {"folder": CORPUS.as_posix(), "signer_disjoint": False}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    (CORPUS / "videos").mkdir(parents=True)
    film = write_video(CORPUS / "videos/film.mp4", frames=5)
    (CORPUS / "secret.mp4").write_text("secret")
    clips = [
        Clip(
            clip_id=pair.clip_id,
            video=film,
            text="t",
            signer="s",
            split="test",
            start_s=0.05,
            end_s=0.15,
        )
        for pair in task().pairs
    ]
    learnt = replace(clips[0], clip_id="learnt", split="train")
    write_manifest(CORPUS / "manifest.tsv", [*clips, learnt])
    Judgements().add("t", task())
    yield from serve()


def test_judges_answer_blind_and_go_on(asker: Asker) -> None:
    assert json.loads(asker.ask("GET", "/api/judge")[2]) == {"tasks": ["t"]}
    status, _, content = asker.ask("GET", "/api/judge/t?judge=anna")
    assert status == 200
    assert b"runs/" not in content
    assert b"weights" not in content
    clips = json.loads(content)["clips"]
    assert len(clips) == 20
    assert {key for clip in clips for key in clip} == {"clip_id", "sentences", "answer", "film"}
    clip = clips[3]
    new = "first" if clip["sentences"][0].startswith("new") else "second"
    answer = {"judge": " anna", "clip_id": clip["clip_id"], "preferred": new, "scores": [90, 30]}
    assert asker.change("POST", "/api/judge/t", answer) == (201, {})
    assert asker.change("POST", "/api/judge/t", {**answer, "judge": "ben"}) == (201, {})
    again = json.loads(asker.ask("GET", "/api/judge/t?judge=anna")[2])["clips"]
    assert [clip["answer"] for clip in again if clip["answer"]] == [
        {"preferred": new, "scores": [90, 30]}
    ]
    assert {sheet.judge for sheet in Judgements().sheets("t")} == {"anna", "ben"}
    assert b"runs/" not in json.dumps(again).encode()


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("/api/judge/none", {}, "there is no task 'none'"),
        ("/api/judge/t", {"clip_id": "../x"}, "is no clip of t"),
        ("/api/judge/t", {"judge": " "}, "a judge needs a name"),
        ("/api/judge/t", {"scores": [101, 5]}, "at most 100"),
        ("/api/judge/t", {"preferred": "new"}, "expected 'first', 'second' or 'equal'"),
        ("/api/judge/t", {"system": "a"}, "is not an option"),
    ],
)
def test_wrong_answers_are_refused_in_words(
    asker: Asker, path: str, change: dict[str, object], said: str
) -> None:
    answer = {"judge": "anna", "clip_id": "clip1", "preferred": "equal", "scores": [1, 2], **change}
    status, content = asker.change("POST", path, answer)
    assert (status, said in content["error"]) == (422, True), content
    assert Judgements().sheets("t") == []


def test_films_and_points_of_the_corpus_are_found_by_id_alone(asker: Asker) -> None:
    clip = json.loads(asker.ask("GET", "/api/judge/t?judge=a")[2])["clips"][0]
    assert clip["film"] == f"/api/film?clip={clip['clip_id']}#t=0.05,0.15"
    status, headers, film = asker.ask("GET", clip["film"].partition("#")[0])
    assert (status, headers["content-type"]) == (200, "video/mp4")
    assert film == (CORPUS / "videos/film.mp4").read_bytes()
    for wrong in ("secret", "../secret", "videos/film", "../../../params.yaml", ""):
        status, _, content = asker.ask("GET", f"/api/film?clip={quote(wrong, safe='')}")
        assert (status, b"no film of such a clip" in content) == (404, True)
        assert asker.ask("GET", f"/api/skeleton?clip={quote(wrong, safe='')}")[0] == 422
    write_shards(
        SHARDS,
        {clip["clip_id"]: 12},
        lambda _: tiny.sequence(),
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=1000,
    )
    points = json.loads(asker.ask("GET", f"/api/skeleton?clip={clip['clip_id']}")[2])
    assert (len(points["frames"]), points["ratio"]) == (12, pytest.approx(320 / 240))
    marks = {mark for bone in points["bones"] for mark in bone}
    assert marks <= set(range(len(points["frames"][0])))
    assert min(map(len, points["bones"])) > 1
    for purposes, is_shown in ((["training"], False), (["training", "showing"], True)):
        consent = {"signer": "s", "purposes": purposes, "until": "", "wording": "may we?"}
        asker.change("POST", "/api/consents", consent)
        again = json.loads(asker.ask("GET", "/api/judge/t?judge=a")[2])["clips"][0]
        assert bool(again["film"]) == is_shown
        assert asker.ask("GET", clip["film"].partition("#")[0])[0] == (200 if is_shown else 404)
    (CORPUS / "videos/film.mp4").unlink()
    assert json.loads(asker.ask("GET", "/api/judge/t?judge=a")[2])["clips"][0]["film"] == ""
