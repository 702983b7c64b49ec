"""Honest batches pass, each kind of ruin is found, and by the check that is meant to."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmark_folder import QUALITY_NAME
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.quality import read_quality, write_quality
from signloom.errors import UserError
from signloom.features.augment import mirror
from signloom_ops.intake.drift.check import check_drift, classify
from signloom_ops.intake.drift.findings import write_report
from signloom_ops.intake.drift.signing import check_new_signers
from signloom_ops.options import LIMITS, DriftLimits
from tests.tiny import lose
from tests.unit.ops.intake.drift.test_recordings import film
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
)  # fmt: skip

FOREIGN = ("it is raining", "we drink tea", "good evening", "he sleeps", "she is here", "no thanks")


@pytest.mark.parametrize("signer", [*OLD, "emma", "fred", "gina"])
def test_honest_clips_of_known_and_new_signers_raise_nothing(tmp_path: Path, signer: str) -> None:
    report = compare(tmp_path, take(signer, 8, first=8))
    assert troubles(report) == {}
    assert (report.new, report.old, report.level) == (8, 32, "ok")


def test_every_limit_is_of_a_check(tmp_path: Path) -> None:
    report = compare(tmp_path, [*take("anna", 8, first=8), *take("emma", 8)])
    names = {found.check.removeprefix("movement.").split(".")[0] for found in report.findings}
    assert set(LIMITS) - names == {"movement"}
    judged = {found.check for found in report.findings if found.statistic is not None}
    assert {found.check for found in report.findings} - judged == {"colour"}  # no videos


def test_mirrored_videos_of_a_known_signer_stop(tmp_path: Path) -> None:
    report = compare(tmp_path, take("anna", 8, first=8, change=mirror))
    assert troubles(report) == {"mirrored": "stop"}
    assert "left hand moves" in finding(report, "mirrored").what
    assert finding(report, "mirrored").clips[0] == "anna-008"


def test_one_new_person_of_the_rarer_hand_warns_and_three_stop(tmp_path: Path) -> None:
    assert troubles(compare(tmp_path / "1", take("emma", 8, side="left"))) == {
        "mirrored_people": "warn"
    }
    crowd = [one for signer in ("emma", "fred", "gina") for one in take(signer, 8, change=mirror)]
    assert troubles(compare(tmp_path / "3", crowd)) == {"mirrored_people": "stop"}


def test_hundreds_of_people_of_the_rarer_hand_are_weighed_too() -> None:
    new = {f"s{n}": dict.fromkeys("abcde", -0.5) for n in range(400)}
    found = check_new_signers({}, new, OPTIONS)
    assert (found.level, found.statistic) == ("stop", 1e9)


def test_where_most_are_left_handed_the_right_hand_is_the_rarer(tmp_path: Path) -> None:
    old = [one for signer in OLD for one in take(signer, 8, side="left")]
    assert troubles(compare(tmp_path / "same", take("emma", 8, side="left"), old)) == {}
    found = compare(tmp_path / "other", take("emma", 8, side="right"), old)
    assert troubles(found) == {"mirrored_people": "warn"}


@pytest.mark.parametrize(("lost", "level"), [(4, "warn"), (5, "stop")])
def test_lost_hands_warn_and_then_stop(tmp_path: Path, lost: int, level: str) -> None:
    def drop(sequence: LandmarkSequence) -> LandmarkSequence:
        for frame in range(len(sequence.points)):
            if frame % 7 < lost:
                for hand in ("left_hand", "right_hand"):
                    sequence = lose(sequence, hand, slice(frame, frame + 1))
        return sequence

    # The lazy one hides behind three others, but is looked at alone too.
    others = [one for signer in ("emma", "fred", "gina") for one in take(signer, 8)]
    report = compare(tmp_path, [*others, *take("hugo", 8, change=drop)])
    assert finding(report, "lost_hands").level == level
    assert "one signer: a hand in" in finding(report, "lost_hands").what
    assert finding(report, "lost_hands").signer == "hugo"
    assert set(finding(report, "lost_hands").clips) <= {f"hugo-{i:03}" for i in range(8)}


def test_a_wrong_frame_rate_shows_in_speed_and_pace(tmp_path: Path) -> None:
    report = compare(
        tmp_path, take("emma", 8, change=lambda one: dataclasses.replace(one, fps=2 * FPS))
    )
    found = troubles(report)
    assert found["movement.speed"] == "stop"
    assert found["fps"] == found["pace"] == "warn"


def test_another_language_stops(tmp_path: Path) -> None:
    report = compare(tmp_path, reword(take("emma", 6), FOREIGN))
    assert finding(report, "new_words").level == finding(report, "byte_tokens").level == "stop"
    assert "raining" in finding(report, "new_words").what


def test_a_few_new_words_warn(tmp_path: Path) -> None:
    new = take("emma", 8)
    texts = [one.clip.text.rsplit(" ", 1)[0] + " parapluie" for one in new]
    report = compare(tmp_path, reword(new, texts))
    assert finding(report, "new_words").level == "warn"
    assert report.level == "warn"


def test_a_table_that_lost_a_row_is_found_by_the_durations(tmp_path: Path) -> None:
    new = take("emma", 21)
    texts = [one.clip.text for one in new]
    report = compare(tmp_path, reword(new, [*texts[1:], texts[0]]))
    assert troubles(report) == {"pairing": "stop"}


def test_hands_named_as_the_viewer_sees_them_stop(tmp_path: Path) -> None:
    def cross(sequence: LandmarkSequence) -> LandmarkSequence:
        points = sequence.points.copy()
        left, right = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")
        points[:, left], points[:, right] = sequence.points[:, right], sequence.points[:, left]
        return dataclasses.replace(sequence, points=points)

    assert troubles(compare(tmp_path, take("emma", 8, change=cross)))["sides"] == "stop"


def test_clips_without_landmarks_are_counted(tmp_path: Path) -> None:
    everything = [*old_clips(), *take("emma", 8)]
    write_landmarks(tmp_path, everything[:-2])
    names = [one.clip.clip_id for one in everything[-8:]]
    report = check_drift(
        [one.clip for one in everything], names, batch="n", landmarks=tmp_path, options=OPTIONS
    )
    assert finding(report, "unread").statistic == 0.25
    assert finding(report, "unread").clips == ("emma-006", "emma-007")


def test_red_and_blue_exchanged_stop_and_a_missing_video_says_nothing(tmp_path: Path) -> None:
    def filmed(taken: list[Taken], skin: tuple[int, int, int]) -> list[Taken]:
        return [
            Taken(film(tmp_path / f"{one.clip.clip_id}.mp4", one.sequence, skin), one.sequence)
            for one in taken
        ]

    brown, blue = (190, 140, 120), (120, 140, 190)
    old = filmed([one for signer in OLD[:2] for one in take(signer, 5)], brown)
    good, bad = filmed(take("emma", 4), brown), filmed(take("fred", 2), blue)
    report = compare(tmp_path / "landmarks", [*good, *bad], old)
    assert finding(report, "colour").level == "stop"
    assert finding(report, "colour").clips == ("fred-000", "fred-001")
    report = compare(tmp_path / "landmarks", good, old)
    assert finding(report, "colour").statistic == 0
    # In a corpus under blue light blue skin is no news.
    report = compare(tmp_path / "landmarks", bad, filmed(take("anna", 5), blue))
    assert finding(report, "colour").statistic == 0
    unseen = dataclasses.replace(OPTIONS, colour_clips=0)
    report = compare(tmp_path / "landmarks", [*good, *bad], old, unseen)
    assert finding(report, "colour").statistic is None


def test_the_first_clips_of_a_corpus_have_nothing_to_be_compared_with(tmp_path: Path) -> None:
    report = compare(tmp_path, take("emma", 8), old=[])
    assert {found.check for found in report.findings} == {"unread", "sides", "colour"}
    assert report.level == "ok"


def test_few_clips_are_not_judged_as_a_distribution(tmp_path: Path) -> None:
    report = compare(tmp_path, take("emma", 2, change=mirror))
    assert troubles(report) == {}
    assert finding(report, "movement.speed").statistic is None


def test_most_old_clips_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = compare(tmp_path / "all", take("anna", 8, first=8))
    few = dataclasses.replace(OPTIONS, old_clips=6)
    fewer = compare(tmp_path / "few", take("anna", 8, first=8), options=few)
    assert (fewer.old, fewer.level) == (report.old, "ok")
    # Six of the signer's own and six of the others'.
    signers = finding(fewer, "mirrored").figures
    assert signers == pytest.approx(finding(report, "mirrored").figures, abs=0.3)
    assert signers != finding(report, "mirrored").figures


def test_who_is_not_in_the_corpus_is_refused(tmp_path: Path) -> None:
    clips = [one.clip for one in old_clips()]
    for new in ([], ["nobody"]):
        with pytest.raises(ValueError, match="new clips, of which 0"):
            check_drift(clips, new, batch="n", landmarks=tmp_path, options=OPTIONS)
    with pytest.raises(UserError, match="dvc repro extract"):
        check_drift(clips, ["anna-000"], batch="n", landmarks=tmp_path, options=OPTIONS)


def test_a_report_has_every_finding_and_names_nobody_in_its_sentences(tmp_path: Path) -> None:
    report = compare(tmp_path, take("anna", 8, first=8, change=mirror))
    write_report(tmp_path / "drift.json", report)
    content = json.loads((tmp_path / "drift.json").read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(report.to_map()))
    assert (content["format_version"], content["level"]) == (1, "stop")
    (found,) = [one for one in content["findings"] if one["level"] == "stop"]
    assert (found["check"], found["signer"]) == ("mirrored", "anna")
    assert not any(name in one["what"] for one in content["findings"] for name in OLD)


def test_a_delivery_without_landmarks_has_no_overall_figure() -> None:
    assert classify([], ["clip"], {}, {}, 5) is None


def test_a_classifier_tells_other_clips_from_usual_ones_and_not_usual_ones(tmp_path: Path) -> None:
    usual = compare(tmp_path / "usual", take("anna", 8, first=8)).overall
    assert usual
    assert usual.p_value > 0.2
    assert not usual.is_grouped
    others = [one for signer in ("emma", "fred") for one in take(signer, 8)]
    people = compare(tmp_path / "people", others).overall
    assert people
    assert people.is_grouped
    fast = take("anna", 8, first=8, change=lambda one: dataclasses.replace(one, fps=2 * FPS))
    found = compare(tmp_path / "fast", fast).overall
    assert found
    assert found.auc > 0.95
    assert found.p_value == 0.05
    assert "AUC of 1.00" in found.what
    assert compare(tmp_path / "few", take("anna", 2, first=8)).overall is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_clips": 1}, "min_clips"), ({"alpha": 0.0}, "alpha"), ({"old_clips": 0}, "old_clips"),
        ({"left_handers": 0.6}, "left_handers"), ({"colour_frames": 0}, "colour_frames"),
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(change: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(OPTIONS, **change)


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="stop"):
        DriftLimits(warn=2.0, stop=1.0)
    with pytest.raises(ValueError, match="warn"):
        DriftLimits(warn=-1.0, stop=None)


def test_smaller_pictures_warn(tmp_path: Path) -> None:
    everything = [*old_clips(), *take("emma", 8)]
    write_landmarks(tmp_path, everything)
    rows = [
        dataclasses.replace(row, width=100) if row.clip_id.startswith("emma") else row
        for row in read_quality(tmp_path / QUALITY_NAME)
    ]
    write_quality(tmp_path / QUALITY_NAME, rows)
    names = [one.clip.clip_id for one in everything[-8:]]
    report = check_drift(
        [one.clip for one in everything], names, batch="n", landmarks=tmp_path, options=OPTIONS
    )
    assert troubles(report) == {"pixels": "warn"}
    assert finding(report, "pixels").statistic == 2
    assert len(finding(report, "pixels").clips) == 8


def test_one_signer_of_most_clips_warns(tmp_path: Path) -> None:
    report = compare(tmp_path, take("anna", 40, first=8))
    assert troubles(report) == {"signer_share": "warn"}
    assert np.isclose(finding(report, "signer_share").statistic or 0, 48 / 72, atol=1e-3)
