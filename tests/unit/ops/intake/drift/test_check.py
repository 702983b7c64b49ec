"""Honest batches pass, each kind of ruin is found, and by the check that is meant to."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.augment import mirror
from signloom_ops.intake.drift.check import CHECKS, check_drift
from signloom_ops.intake.drift.findings import write_report
from signloom_ops.options import DriftLimit
from tests.tiny import lose
from tests.unit.ops.intake.drift.world import (
    FPS,
    OLD,
    OPTIONS,
    Taken,
    compare,
    finding,
    old_clips,
    reword,
    take,
    troubles,
    write_landmarks,
)

FOREIGN = ("it is raining", "we drink tea", "good evening", "he sleeps", "she is here", "no thanks")


@pytest.mark.parametrize("signer", [*OLD, "emma", "fred", "gina"])
def test_honest_clips_of_known_and_new_signers_raise_nothing(tmp_path: Path, signer: str) -> None:
    report = compare(tmp_path, take(signer, 8, first=8))
    assert troubles(report) == {}
    assert (report.new, report.old, report.level) == (8, 32, "ok")


def double_rate(sequence: LandmarkSequence) -> LandmarkSequence:
    return dataclasses.replace(sequence, fps=2 * FPS)


def shifted_texts() -> list[Taken]:
    new = take("emma", 21)
    texts = [recording.clip.text for recording in new]
    return reword(new, [*texts[1:], texts[0]])


def with_a_new_word() -> list[Taken]:
    new = take("emma", 8)
    return reword(new, [recording.clip.text.rsplit(" ", 1)[0] + " parapluie" for recording in new])


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: take("anna", 8, first=8, change=mirror), {"mirrored": "stop"}),
        (lambda: take("emma", 8, change=double_rate), {"speed": "stop", "pace": "warn"}),
        (lambda: reword(take("emma", 6), FOREIGN), {"new_words": "stop"}),
        (with_a_new_word, {"new_words": "warn"}),
        (shifted_texts, {"pairing": "stop"}),
        (lambda: take("emma", 2, change=mirror), {}),  # too few for a distribution
    ],
)
def test_each_kind_of_ruin_is_found(
    tmp_path: Path, make: Callable[[], list[Taken]], found: dict[str, str]
) -> None:
    report = compare(tmp_path, make())
    assert found.items() <= troubles(report).items()
    assert report.level == max([*found.values(), "ok"], key=("ok", "warn", "stop").index)


def test_every_check_measures_and_every_limit_is_of_one(tmp_path: Path) -> None:
    report = compare(tmp_path, [*take("anna", 8, first=8), *take("emma", 8)])
    assert [finding.check for finding in report.findings] == [check.name for check in CHECKS]
    assert all(finding.statistic is not None for finding in report.findings)
    assert {check.name for check in CHECKS} == {field.name for field in dataclasses.fields(OPTIONS)}
    assert all(getattr(OPTIONS, check.name).stop >= check.warn for check in CHECKS)


def test_a_limit_of_a_project_decides_what_stops(tmp_path: Path) -> None:
    for stop, level in ((None, "warn"), (100.0, "warn"), (4.0, "stop")):
        options = dataclasses.replace(OPTIONS, mirrored=DriftLimit(stop=stop))
        report = compare(tmp_path, take("anna", 8, first=8, change=mirror), options=options)
        assert troubles(report) == {"mirrored": level}


@pytest.mark.parametrize(("lost", "level"), [(4, "warn"), (5, "stop")])
def test_lost_hands_warn_and_then_stop(tmp_path: Path, lost: int, level: str) -> None:
    def drop(sequence: LandmarkSequence) -> LandmarkSequence:
        for frame in range(len(sequence.points)):
            if frame % 7 < lost:
                for hand in ("left_hand", "right_hand"):
                    sequence = lose(sequence, hand, slice(frame, frame + 1))
        return sequence

    # The bad one hides behind three others, and is measured alone, too.
    recordings = [recording for signer in ("emma", "fred", "gina") for recording in take(signer, 8)]
    lost_hands = finding(
        compare(tmp_path, [*recordings, *take("hugo", 8, change=drop)]), "lost_hands"
    )
    assert (lost_hands.level, lost_hands.signer) == (level, "hugo")
    assert set(lost_hands.clips) <= {f"hugo-{i:03}" for i in range(8)}


def test_clips_without_landmarks_are_counted(tmp_path: Path) -> None:
    everything = [*old_clips(), *take("emma", 8)]
    write_landmarks(tmp_path, everything[:-2])
    names = [recording.clip.clip_id for recording in everything[-8:]]
    report = check_drift(
        [recording.clip for recording in everything],
        names,
        batch="n",
        landmarks=tmp_path,
        options=OPTIONS,
    )
    assert finding(report, "unread").statistic == 0.25
    assert finding(report, "unread").clips == ("emma-006", "emma-007")


def test_the_first_clips_of_a_corpus_have_nothing_to_be_compared_with(tmp_path: Path) -> None:
    report = compare(tmp_path, take("emma", 8), old=[])
    assert {finding.check for finding in report.findings} == {"unread"}
    assert report.level == "ok"


def test_clips_that_are_not_in_the_corpus_are_refused(tmp_path: Path) -> None:
    clips = [recording.clip for recording in old_clips()]
    with pytest.raises(ValueError, match="new clips, of which 0"):
        check_drift(clips, ["nobody"], batch="n", landmarks=tmp_path, options=OPTIONS)
    with pytest.raises(UserError, match="dvc repro extract"):
        check_drift(clips, ["anna-000"], batch="n", landmarks=tmp_path, options=OPTIONS)


def test_a_report_has_every_finding_and_names_no_person_in_its_sentences(tmp_path: Path) -> None:
    report = compare(tmp_path, take("anna", 8, first=8, change=mirror))
    write_report(tmp_path / "drift.json", report)
    content = json.loads((tmp_path / "drift.json").read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(report.to_map()))
    assert (content["format_version"], content["level"]) == (1, "stop")
    (stop,) = [finding for finding in content["findings"] if finding["level"] == "stop"]
    assert (stop["check"], stop["signer"], stop["clips"][0]) == ("mirrored", "anna", "anna-008")
    assert not any(name in finding["what"] for finding in content["findings"] for name in OLD)
