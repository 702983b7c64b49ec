"""A film in, tiers and a picture out."""

import csv
import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from signloom.detection.video import Video
from signloom_demo.signer import TRAIN_SIGNERS
from signloom_tools.cli.main import main
from signloom_tools.holistic import FilmLandmarks, read_film
from signloom_tools.importing.elan import read_elan
from signloom_tools.tiers.events import RULES, Event, EventRule, find_events
from signloom_tools.tiers.files import CROWD, list_values, to_elan, to_json
from signloom_tools.tiers.signals import Signals, measure
from studies.tiers.draw import Act, draw_film, write_script
from studies.tiers.films import read_labels
from studies.tiers.run import count, find_drawn, to_events
from studies.tiers.scores import EventCounts, measure_overlap
from tests.tiny import ROOT
from tests.videos import write_video

ACTS = [
    Act("eyes", "blink", 0.5, 0.72),
    Act("head turn", "left", 1.2, 2.0),
    Act("mouth", "open", 2.5, 3.1),
    Act("head movement", "nod", 3.6, 4.6, times=2),
]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film of a drawn signer who blinks, turns the head, opens the mouth and nods."""
    path = tmp_path_factory.mktemp("drawn") / "film.mp4"
    draw_film(path, ACTS, TRAIN_SIGNERS[0], face_px=80, fps=15.0)
    return path


@pytest.fixture(scope="module")
def landmarks(film: Path) -> FilmLandmarks:
    return read_film(film, face="refined")


@pytest.fixture(scope="module")
def written(film: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    main(["landmarks", str(film), "--write", "elan", "--video", "--to", str(folder)])
    return folder


def test_what_a_face_does_is_found(landmarks: FilmLandmarks) -> None:
    events = find_events(measure(landmarks))
    kinds = {(act.tier, act.value) for act in ACTS}
    found = [event for event in events if (event.tier, event.value) in kinds]
    for event, act in zip(
        sorted(found, key=lambda event: event.start_s), to_events(ACTS), strict=True
    ):
        assert (event.tier, event.value) == (act.tier, act.value)
        assert measure_overlap(event, act) >= 0.5
    assert {event.value for event in events} - {act.value for act in ACTS} <= {"closed"}


def test_an_eaf_has_the_events_their_strength_and_the_rules(
    film: Path, landmarks: FilmLandmarks, written: Path
) -> None:
    events = find_events(measure(landmarks))
    text = (written / "film.eaf").read_text(encoding="utf-8")
    elan = read_elan(written / "film.eaf", text)
    values = {tier.name: tier for tier in elan.tiers}
    for rule in RULES:
        marks = [(mark.start_ms, mark.end_ms, mark.value) for mark in values[rule.tier].annotations]
        assert marks == [
            (round(1000 * event.start_s), round(1000 * event.end_s), event.value)
            for event in events
            if event.tier == rule.tier
        ]
    (strength,) = values["head turn strength"].annotations
    (turn,) = (event for event in events if event.tier == "head turn")
    assert strength.value == f"{turn.number:.3g} degrees"
    assert list(elan.media) == [film.name] or next(iter(elan.media)).endswith(film.name)
    root = ET.fromstring(text)
    properties = {row.attrib["NAME"] for row in root.iterfind("HEADER/PROPERTY")}
    assert {f"signloom {rule.tier}: {rule.value}" for rule in RULES} == properties
    brows = root.find("CONTROLLED_VOCABULARY[@CV_ID='brows']")
    assert brows is not None
    assert [value.text for value in brows.iter("CVE_VALUE")] == ["up", "down"]
    names = [mark.attrib["ANNOTATION_ID"] for mark in root.iterfind("TIER/ANNOTATION/*")]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_a_second_run_writes_the_same_bytes(film: Path, written: Path) -> None:
    """Quick twin: test_an_eaf_has_the_events_their_strength_and_the_rules."""
    again = written.parent / "again"  # as far from the film, whose path is in the file
    main(["landmarks", str(film), "--write", "elan", "--video", "--to", str(again)])
    for name in ("film.eaf", "film.svg", "film.webm"):
        assert (again / name).read_bytes() == (written / name).read_bytes()


def test_a_picture_shows_the_film_and_each_event(
    film: Path, landmarks: FilmLandmarks, written: Path
) -> None:
    space = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring((written / "film.svg").read_text(encoding="utf-8"))
    assert len(root.findall(f"{space}image")) >= 5
    shown = [title.text for title in root.iter(f"{space}title")][1:]
    assert len(shown) == len(find_events(measure(landmarks)))
    with Video(film) as before, Video(written / "film.webm") as after:
        plain = [frame.rgb for frame in before.frames()]
        marked = [frame.rgb for frame in after.frames()]

    def count_written(time_s: float) -> int:
        """How many numbers of the upper part of a picture are others than before."""
        frame, rows = round(time_s * 15), slice(0, plain[0].shape[0] // 4)
        return int((np.abs(marked[frame][rows].astype(int) - plain[frame][rows]) > 100).sum())

    assert count_written(1.6) > 1.2 * count_written(0.2)  # "mouth: closed", then the turn as well


@pytest.mark.slow
def test_a_table_and_json_hold_the_same_events(film: Path, tmp_path: Path) -> None:
    """Quick twin: test_an_eaf_has_the_events_their_strength_and_the_rules."""
    main(["landmarks", str(film), "--write", "tiers.csv", "--to", str(tmp_path), "--fps", "8"])
    rows = list(csv.DictReader((tmp_path / "film.tiers.csv").read_text("utf-8").splitlines()))
    events = find_events(measure(read_film(film, face="refined", fps=8.0)))
    of_json = json.loads(to_json(events))["events"]
    assert {row["tier"] for row in rows} >= {"head turn", "mouth"}
    assert rows == [
        {key: "" if value is None else str(value) for key, value in event.items()}
        for event in of_json
    ]


def test_a_still_film_has_no_event(landmarks: FilmLandmarks) -> None:
    times_s = np.arange(450) / 15
    parts = {part: np.repeat(points[:1], 450, axis=0) for part, points in landmarks.parts.items()}
    assert find_events(measure(dataclasses.replace(landmarks, times_s=times_s, parts=parts))) == []


@pytest.mark.parametrize(("face", "count"), [("mesh", 1), ("none", 0)])
def test_a_film_in_which_no_face_is_found_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], face: str, count: int
) -> None:
    """Or empty tiers would say that nobody blinks."""
    film = write_video(tmp_path / "film.mp4", frames=5)
    main(["landmarks", str(film), "--write", "tiers.csv", "--face", face])
    assert capsys.readouterr().err.count("no face was found") == count


def test_a_film_without_face_or_hands_has_the_tiers_of_the_rest(landmarks: FilmLandmarks) -> None:
    for part in ("face", "left_hand", "right_hand", "pose"):
        absent = np.full_like(landmarks.parts[part], np.nan)
        without = dataclasses.replace(landmarks, parts=landmarks.parts | {part: absent})
        tiers = {event.tier for event in find_events(measure(without))}
        assert ("eyes" in tiers) == (part != "face")


def make_signals(**values: list[float]) -> Signals:
    arrays = {name: np.array(value, float) for name, value in values.items()}
    frames = len(next(iter(arrays.values())))
    return Signals({"signing": np.zeros(frames), **arrays}, 10.0, 2.0)


def test_an_event_needs_its_threshold_and_its_length() -> None:
    rule = next(rule for rule in RULES if (rule.tier, rule.value) == ("head turn", "left"))
    near, far = (rule.on + rule.off) / 2, rule.on + 1
    signals = make_signals(
        yaw=[0, near, near, near, near, 0, near, near, far, near, 0, 0, 0, 0, far, far, 0, -far]
    )
    (event,) = find_events(signals)
    assert (event.value, event.number, event.unit) == ("left", far, "degrees")
    assert (event.start_s, event.end_s) == pytest.approx((2.6, 3.0))


def test_a_film_of_several_people_says_whose_tiers_these_are() -> None:
    assert CROWD in to_elan([], None, Path(), is_crowded=True).decode()
    assert CROWD not in to_elan([], None, Path()).decode()
    assert json.loads(to_json([], is_crowded=True))["is_crowded"]


def test_the_page_has_the_rules_as_they_are() -> None:
    page = (ROOT / "docs" / "tiers.md").read_text(encoding="utf-8")
    for rule in RULES:
        assert describe(rule) in page, describe(rule)


def describe(rule: EventRule) -> str:
    """A rule as a row of the page's table."""
    numbers = (f"{number:g}" for number in (rule.on, rule.off, rule.least_s, rule.join_s))
    unit = "" if rule.signal == "signing" else rule.unit
    cells = (rule.tier, rule.value, f"`{rule.signal}`", *numbers, unit, rule.source)
    return f"| {' | '.join(cells)} |"


def test_labels_of_real_films_name_what_tiers_may_say() -> None:
    films = read_labels()
    assert len(films) >= 10
    for event in (event for events in films.values() for event in events):
        assert event.value in list_values(event.tier)
        assert 0 <= event.start_s < event.end_s


def test_counts_take_each_event_once() -> None:
    counts = EventCounts()
    blink = Event("eyes", "blink", 1.0, 2.0, 1.0, "")
    near = dataclasses.replace(blink, start_s=1.4)
    counts.add([blink], [near, blink, dataclasses.replace(blink, start_s=1.6)])
    assert "eyes: blink" in counts.to_table()
    kind = ("eyes", "blink")
    assert (counts.known[kind], counts.found[kind], counts.both[kind]) == (1, 3, 1)


@pytest.mark.slow  # its quick twin is `test_what_a_face_does_is_found`
def test_all_that_a_drawn_face_does_is_found() -> None:
    acts, counts = write_script(), EventCounts()
    count(acts, find_drawn(acts, TRAIN_SIGNERS[0], face_px=100, fps=25.0), counts)
    assert counts.both.total() >= 0.9 * counts.known.total(), counts.to_table()
    assert counts.both.total() >= 0.9 * counts.found.total(), counts.to_table()


@pytest.mark.slow  # its quick twin is `test_a_still_film_has_no_event`
def test_a_film_of_half_a_minute_in_which_nothing_moves_has_no_event(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    draw_film(
        path, [Act("eyes", "blink", 29.0, 29.2, share=0.0)], TRAIN_SIGNERS[0], face_px=100, fps=15.0
    )
    assert find_events(measure(read_film(path, face="refined"))) == []
