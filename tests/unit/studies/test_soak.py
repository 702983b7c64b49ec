from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signloom.config import load_section
from signloom.detection.video import Video
from signloom_tools.evaluate.study_page import render_study
from studies.soak.clips import (
    Take,
    as_clips,
    choose,
    draw_take,
    invent_person,
    plan_takes,
    write_texts,
)
from studies.soak.options import Recording, SoakOptions
from studies.soak.page import build_page, draw_weeks
from studies.soak.study import describe_night
from tests.tiny import ROOT

OPTIONS = load_section(ROOT / "studies/soak/params.yaml", "study", SoakOptions)
SMALL = Recording(fps=8.0, width=96, height=72)


def drawn(path: Path, flaw: Any) -> np.ndarray:
    """The frames of one sentence, shape (S, height, width, 3)."""
    sentence = OPTIONS.language.pool("first")[0]
    draw_take(Take(path=path, signer="adele", sentence=sentence, flaw=flaw), SMALL, seed=1)
    with Video(path) as video:
        return np.stack([frame.rgb.astype(float) for frame in video.frames()])


def test_flaws_are_what_they_are_called(tmp_path: Path) -> None:
    plain = drawn(tmp_path / "a" / "clip.mp4", "none")
    assert np.array_equal(plain, drawn(tmp_path / "b" / "clip.mp4", "none"))
    swapped = drawn(tmp_path / "c" / "clip.mp4", "swapped")
    assert np.abs(swapped - plain[..., ::-1]).mean() < 4  # MPEG-4 keeps colours roughly
    assert np.abs(swapped - plain).mean() > 12
    mirrored = drawn(tmp_path / "d" / "clip.mp4", "mirrored")
    assert np.abs(mirrored - plain[:, :, ::-1]).mean() < 4
    assert np.abs(mirrored - plain).mean() > 8
    lazy = drawn(tmp_path / "e" / "clip.mp4", "lazy")
    moved = [np.abs(np.diff(frames, axis=0)).mean(axis=(0, 3)) for frames in (plain, lazy)]
    upper = slice(0, SMALL.height // 2)
    assert moved[0][upper].mean() > 5 * moved[1][upper].mean()


def test_people_and_sentences_follow_from_the_seed() -> None:
    assert invent_person(1, "adele") == invent_person(1, "adele")
    assert len({repr(invent_person(1, name)) for name in OPTIONS.hidden_signers}) == 6
    pool = OPTIONS.language.pool("first")
    chosen = choose(pool, 1, "x", 40)
    assert chosen == choose(pool, 1, "x", 40) != choose(pool, 2, "x", 40)
    assert len({sentence.text for sentence in chosen}) > 35
    assert not any(OPTIONS.language.is_new(sentence) for sentence in chosen)
    assert any(OPTIONS.language.is_new(sentence) for sentence in OPTIONS.language.pool("all"))


@pytest.mark.parametrize("week", [1, 2])
def test_a_delivery_says_what_is_signed(tmp_path: Path, week: int) -> None:
    (delivery,) = OPTIONS.nights[week].deliveries
    folder = tmp_path / f"week-{week}"
    takes = plan_takes(OPTIONS, folder, delivery)
    for take in takes:
        take.path.parent.mkdir(parents=True, exist_ok=True)
    write_texts(folder, takes, delivery.form)
    assert len(takes) == len(delivery.signers) * delivery.clips
    if delivery.form == "table":
        header, *rows = (folder / "table.tsv").read_text(encoding="utf-8").splitlines()
        assert header.split("\t") == ["video", "text", "signer", "gloss"]
        assert [row.split("\t")[1] for row in rows] == [take.sentence.text for take in takes]
    else:
        assert {take.path.parent.name for take in takes} == set(delivery.signers)
        said = takes[0].path.with_suffix(".txt").read_text(encoding="utf-8")
        assert said == takes[0].sentence.text + "\n"
    assert len({clip.clip_id for clip in as_clips(takes, "train")}) == len(takes)


def test_a_hidden_signer_may_not_be_delivered() -> None:
    with pytest.raises(ValueError, match="hidden_signers: adele"):
        replace(OPTIONS, hidden_signers=["adele"])


def night(outcome: str, code: int, **last: Any) -> dict[str, Any]:
    """What `run_night` returns."""
    steps = [
        {"name": "ingest", "clips": 4, "rejects": ["x: too short"]},
        {"name": "drift", "level": "stop"},
    ]
    summary = {"outcome": outcome, "verdict": outcome, "champion": 1, "version": None,
               "steps": steps, **last}  # fmt: skip
    findings = [
        {"check": "colour", "level": "stop", "what": "blue skin", "clips": []},
        {"check": "fps", "level": "ok", "what": "", "clips": []},
    ]
    return {"exit_code": code, "seconds": 3.0, "was_killed": False, "summaries": [summary],
            "drift": {"findings": findings}}  # fmt: skip


def test_both_halves_of_a_night_that_was_cut_count() -> None:
    found = night("promoted", 0, version=2, champion=2)
    first = {"steps": [{"name": "ingest", "clips": 8}], "outcome": "running"}
    found["summaries"].insert(0, first)
    told = describe_night({**found, "was_killed": True})
    assert (told["ingested"], told["rejected"], told["champion"]) == (12, 1, 2)
    assert [finding["check"] for finding in told["drift"]["findings"]] == ["colour"]


def test_findings_of_an_earlier_night_are_not_told_again() -> None:
    found = night("nothing_new", 3, steps=[{"name": "plan"}])
    assert describe_night(found)["drift"] == {"level": None, "findings": []}


def weeks(scores: list[float]) -> list[dict[str, Any]]:
    """Decisions of nights whose champions have these scores, the last one with a bad delivery."""

    def hidden(value: float) -> dict[str, dict[str, float]]:
        return {part: {"bleu4": value / 2, "chrf": value, "wer": 50.0} for part in ("all", "new")}

    rows = []
    for number, value in enumerate(scores):
        bad = number == len(scores) - 1
        rows.append(
            {
                "week": number, "event": "<mirrored>" if bad else "", "delivered": 8,
                "flaws": ["mirrored"] if bad else [],
                **describe_night(night("data_refused" if bad else "promoted", 5 if bad else 0)),
                "hidden": {"champion": hidden(value), "trained": None if bad else hidden(value)},
            }
        )  # fmt: skip
    return rows


def test_the_page_says_what_the_numbers_say() -> None:
    better = render_study(build_page(weeks([20.0, 40.0, 40.0])))
    assert "from chrF 20.0 to 40.0" in better
    assert "it fell in no week" in better
    assert "Of 1 bad deliveries the data checks refused 1." in better
    assert "nan" not in better
    assert "<mirrored>" not in better
    assert "it fell in week 1." in render_study(build_page(weeks([20.0, 10.0, 10.0])))


def test_equal_numbers_are_drawn_with_equal_bytes() -> None:
    assert draw_weeks(weeks([20.0, 40.0])) == draw_weeks(weeks([20.0, 40.0]))
