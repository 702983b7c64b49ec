"""What is said of a translation without knowing the right one."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.stats import binomtest

from signloom.checkpoint import WEIGHTS
from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.files import SEAL, hash_file
from signloom.paths import EVALUATION
from signloom.translation.confidence import (
    CONFIDENCE,
    NOT_CALIBRATED,
    UNFAMILIAR,
    Confidence,
    Level,
    find_confidence,
    fit_levels,
    read_confidence,
    wilson,
    write_confidence,
)
from signloom.translation.familiarity import (
    Posture,
    Range,
    describe_postures,
    describe_sign_postures,
    describe_train,
    measure_posture,
)
from signloom.translation.options import DECODING, DecodingOptions
from signloom.translation.search import Hypothesis
from signloom.translation.translator import Translator
from signloom_demo.lexicon import LEXICON
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer
from signloom_demo.uncut import CUT, Manner
from signloom_tools.cli.main import build_parser, main
from signloom_tools.cli.translate_options import TranslateOptions, load_translator
from signloom_tools.command_options import read_options
from tests import tiny
from tests.damage import edit_json
from tests.drawn_signs import draw_sign

CPU = torch.device("cpu")
TRAIN = [tiny.sequence(seed, frames=10 + seed % 5) for seed in range(24)]
DEV = [tiny.sequence(seed, frames=11) for seed in range(50, 56)]
GREEDY = tiny.decoding()


def without_hands(clip: LandmarkSequence) -> LandmarkSequence:
    for hand in ("left_hand", "right_hand"):
        clip = tiny.lose(clip, hand, slice(None))
    return clip


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A version as `signloom retrain` keeps it: a model, beside it what was measured of it."""
    folder = tiny.write_checkpoint(tmp_path / "version" / "checkpoint")
    translator = Translator.load(folder, CPU)
    train = describe_train(TRAIN, translator.encode_clips(TRAIN), translator.encode_clips(DEV))
    confidence = Confidence(
        weights=hash_file(folder / WEIGHTS),
        unsure_below=0.5,
        levels=fit_levels([-9.0] * 4 + [-0.1] * 4, [False] * 4 + [True] * 4),
        train=train,
    )
    write_confidence(folder.with_name("evaluation") / CONFIDENCE, confidence)
    return folder


def test_a_clip_that_stands_still_or_lasts_too_long_is_named(checkpoint: Path) -> None:
    translator = Translator.load(checkpoint, CPU)
    still = np.repeat(DEV[0].points[:1], 12, axis=0)
    long = np.concatenate([DEV[0].points] * 9)
    clips = [
        dataclasses.replace(DEV[0], points=points, present=np.ones((len(points), 3), np.bool_))
        for points in (still, long)
    ]
    still_note, long_note = (
        translation.check.note for translation in translator.translate(clips, GREEDY)
    )
    assert "it moves 0.00 shoulder widths a second" in still_note
    assert "it lasts 9.9 s (train's clips: 1.0 to 1.4)" in long_note


def test_checking_changes_no_translation(checkpoint: Path) -> None:
    checked = Translator.load(checkpoint, CPU)
    plain = Translator.load(shutil.copytree(checkpoint, checkpoint.parents[1] / "alone"), CPU)
    assert checked.confidence
    assert plain.confidence is None
    clips = [*DEV, without_hands(DEV[0])]
    options = dataclasses.replace(GREEDY, beam_size=3)
    for with_check, unchecked in zip(
        checked.translate(clips, options, n_best=2),
        plain.translate(clips, options, n_best=2),
        strict=True,
    ):
        assert dataclasses.replace(with_check, check=unchecked.check) == unchecked
        assert unchecked.check.note == NOT_CALIBRATED
    (blind,) = checked.translate(DEV[:1], GREEDY, blind=True)
    assert blind.check.note == NOT_CALIBRATED


def test_an_unfamiliar_film_gets_no_invented_sentence_unless_asked(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    clips = {"a": tiny.halve(DEV[0]), "b": tiny.halve(without_hands(DEV[0]))}
    extractor = json.loads((checkpoint / "checkpoint.json").read_text())["extractor"]
    tiny.write_clips(tmp_path / "shards", clips, json.dumps(extractor))
    command = ["translate", "shards", "--checkpoint", str(checkpoint), "--max-tokens", "6"]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 3
    out, err = capsys.readouterr()
    first_line, second_line = out.splitlines()
    assert second_line == f"shards: b\t(not understood)\t{UNFAMILIAR}"
    assert UNFAMILIAR not in first_line
    assert "warning: shards: b: not like anything this model has seen: a hand in 0 %" in err
    assert "not understood: 1; --guess writes" in err
    for more, has_text in ((["--skip-unsure"], False), ([], False), (["--guess"], True)):
        with pytest.raises(SystemExit):
            main([*command, "--json", *more])
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["familiar"] for row in rows] == [True, False]
        assert bool(rows[1]["text"]) == has_text
        assert rows[1]["confidence"] is None  # dev has nothing like it
    with pytest.raises(SystemExit):
        main([*command, "--guess"])
    second_line = capsys.readouterr().out.splitlines()[1]
    assert second_line.startswith(f"shards: b\t(not understood)\t{UNFAMILIAR}\ta guess: ")
    with pytest.raises(SystemExit, match="--guess and --skip-unsure"):
        main([*command, "--guess", "--skip-unsure"])
    shutil.rmtree(checkpoint.with_name("evaluation"))
    main(command)
    out, err = capsys.readouterr()
    assert UNFAMILIAR not in out
    assert "warning: not calibrated: there is no confidence.json of these weights" in err


@pytest.mark.parametrize("place", ["checkpoint", ".", "evaluation", "project"])
def test_what_was_measured_is_found_with_the_model(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = checkpoint.with_name("evaluation") / CONFIDENCE
    folder = EVALUATION if place == "project" else checkpoint.parent / place
    folder.mkdir(parents=True, exist_ok=True)
    confidence = read_confidence(path)
    path.rename(folder / CONFIDENCE)
    assert find_confidence(checkpoint) == confidence
    foreign = dataclasses.replace(confidence, weights="0" * 64)  # is passed over
    write_confidence(checkpoint / CONFIDENCE, foreign)
    assert find_confidence(checkpoint) == (None if place == "checkpoint" else confidence)


def test_a_search_is_that_which_was_measured_where_no_flag_says_otherwise(checkpoint: Path) -> None:
    path = checkpoint.with_name("evaluation") / CONFIDENCE
    chosen = tiny.decoding(beam_size=2, internal_lm_weight=0.3)

    def decoding(*flags: str) -> DecodingOptions:
        arguments = ["translate", "x.mp4", "--checkpoint", str(checkpoint), *flags]
        options = read_options(TranslateOptions, build_parser().parse_args(arguments))
        return load_translator(options)[1]

    assert decoding() == DECODING  # of a file of before
    write_confidence(path, dataclasses.replace(read_confidence(path), decoding=chosen))
    longer = dataclasses.replace(chosen, max_tokens=DECODING.max_tokens)
    assert decoding() == longer
    assert decoding("--n-best", "5") == dataclasses.replace(longer, beam_size=5)
    assert decoding("--max-tokens", "9").max_tokens == 9
    content = json.loads(path.read_text())
    content["decoding"] |= {"temperature": 0.0, "top_k": 0, "seed": 1}  # as before version 0.3
    path.write_text(json.dumps({key: value for key, value in content.items() if key != SEAL}))
    assert decoding() == longer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, r"confidence\.json: found format version 99"),
        ({"unsure_below": 2}, r"confidence\.json.*unsure_below"),
        (None, "is damaged"),
    ],
)
def test_a_damaged_file_is_named(
    checkpoint: Path, change: dict[str, int] | None, message: str
) -> None:
    path = checkpoint.with_name("evaluation") / CONFIDENCE
    edit_json(path, **change) if change else path.write_text("{")
    with pytest.raises(UserError, match=message):
        find_confidence(checkpoint)


def test_higher_scores_are_never_less_sure() -> None:
    rng = np.random.default_rng(0)
    for clips in (1, 2, 7, 60):
        scores = rng.normal(size=clips).round(1).tolist()
        right = (rng.random(clips) < 0.5).tolist()
        levels = fit_levels(scores, right)
        assert sum(level.clips for level in levels) == clips
        assert sum(level.right for level in levels) == sum(right)
        shares = [level.confidence for level in levels]
        assert shares == sorted(set(shares))
        assert [level.score for level in levels] == sorted({level.score for level in levels})
        assert min(level.clips for level in levels) >= min(clips, 4)
        assert levels[0].score == min(scores)


def test_what_the_signs_say_against_a_sentence_makes_it_less_sure() -> None:
    levels = tuple(
        Level(score=score, clips=4, right=right, confidence=right / 4, low=0.0, high=1.0)
        for score, right in ((-1.0, 1), (-0.5, 3))
    )
    confidence = Confidence(weights="", unsure_below=0.5, levels=levels, train=None)
    hypothesis = Hypothesis(tokens=(5, 6, 2), log_prob=-0.9, score=-0.3)
    against = dataclasses.replace(hypothesis, sign_cost=2.0)
    sure, unsure = (
        confidence.check(candidate, TRAIN[0], None) for candidate in (hypothesis, against)
    )
    assert (sure.confidence, sure.is_unsure) == (0.75, False)
    assert (unsure.confidence, unsure.is_unsure) == (0.25, True)


def test_a_level_says_what_share_of_its_translations_was_right() -> None:
    scores = [-5.0, -4.0, -3.0, -2.0, -1.0, -0.5, -0.4, -0.4, -0.4, -0.1]
    right = [False, False, False, True, True, True, False, True, True, True]
    low, high = fit_levels(scores, right)
    assert (low.score, low.clips, low.right, low.confidence) == (-5.0, 4, 1, 2 / 6)
    assert (high.score, high.clips, high.right, high.confidence) == (-1.0, 6, 5, 6 / 8)
    (pooled,) = fit_levels(
        scores, [not is_right for is_right in right]
    )  # the higher, the less right
    assert (pooled.score, pooled.clips, pooled.right) == (-5.0, 10, 4)
    confidence = Confidence(weights="", unsure_below=0.5, levels=(low, high), train=None)
    assert [confidence.level(score) for score in (-9.0, -1.5, -1.0, 0.0)] == [low, low, high, high]
    none = Confidence(weights="", unsure_below=0.5, levels=(), train=None)
    assert none.level(-1.0) is None


@pytest.mark.parametrize(("clips", "right"), [(1, 0), (4, 4), (24, 17), (500, 3)])
def test_intervals_are_those_of_scipy(clips: int, right: int) -> None:
    expected = binomtest(right, clips).proportion_ci(0.95, method="wilson")
    assert wilson(clips, right) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_distances_are_those_of_the_written_out_covariance() -> None:
    rng = np.random.default_rng(1)
    encodings = (rng.normal(size=(40, 6)) * [5, 3, 1, 1, 1, 1]).astype(np.float32)
    dev_encodings = rng.normal(size=(5, 6)).astype(np.float32)
    train = describe_train(TRAIN[:4], encodings, dev_encodings)
    directions = np.array(train.directions)
    variances = np.diag(np.array(train.deviations) ** 2 - train.rest**2)
    covariance = directions.T @ variances @ directions + train.rest**2 * np.eye(6)
    offset = dev_encodings - np.array(train.centre)
    expected = np.sqrt(np.einsum("ni,ij,nj->n", offset, np.linalg.inv(covariance), offset))
    np.testing.assert_allclose(train.distances(dev_encodings), expected, rtol=1e-3)
    assert train.limit == pytest.approx(1.25 * expected.max(), rel=1e-3)
    far = (np.array(train.centre) + 2 * train.limit * directions[0] * train.deviations[0]).astype(
        np.float32
    )
    assert train.differences(TRAIN[0], far) == ("2.0 times as far from train's clips as the limit",)


def test_what_lies_between_two_signs_is_like_neither(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    signs = ["tea", "bread"] * 20
    places = np.array([[9.0, 0, 0, 0] if sign == "tea" else [-9.0, 0, 0, 0] for sign in signs])
    encodings = (places + rng.normal(size=(40, 4))).astype(np.float32)
    dev_encodings = (places + rng.normal(size=(40, 4))).astype(np.float32)
    between = np.zeros((1, 4), np.float32)
    dev_encodings[0] = between  # one take of dev that is like no sign sets no limit
    pooled = describe_train(TRAIN[:4], encodings, dev_encodings)
    by_sign = describe_train(TRAIN[:4], encodings, dev_encodings, signs)
    assert pooled.distances(between)[0] < pooled.limit
    assert by_sign.distances(between)[0] > by_sign.limit
    assert np.quantile(by_sign.distances(dev_encodings), 0.9) == pytest.approx(
        by_sign.limit / 2, rel=1e-3
    )
    for train, is_kept in ((pooled, False), (by_sign, True)):
        path = tmp_path / "confidence.json"
        confidence = Confidence(weights="", unsure_below=0.5, levels=(), train=train)
        write_confidence(path, confidence)
        assert read_confidence(path) == confidence
        assert ("signs" in json.loads(path.read_text())["train"]) == is_kept


def test_one_training_clip_and_one_frame_are_enough() -> None:
    clip = tiny.sequence(frames=1)
    train = describe_train([clip], np.ones((1, 4), np.float32), np.ones((1, 4), np.float32))
    assert train.differences(clip, np.ones(4, np.float32)) == ()


PEOPLE = [p for p in (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS) if not p.left_handed]
TAUGHT = sorted(LEXICON)[::2]
UNKNOWN = sorted(LEXICON)[1::2]
RESTING = Manner(before_s=1.0, after_s=1.0)


def draw_takes(
    signs: Sequence[str], people: Sequence[Signer], seeds: Sequence[int], manner: Manner = CUT
) -> list[LandmarkSequence]:
    takes = [
        draw_sign(sign, person, seed, manner=manner)
        for sign in signs
        for person in people
        for seed in seeds
    ]
    return [tiny.trim_rests(take, 0.2) for take in takes]


def share_within(posture: Posture, clips: Sequence[LandmarkSequence]) -> float:
    return float(np.mean(posture_distances(posture, clips) <= posture.limit))


def posture_distances(
    posture: Posture, clips: Sequence[LandmarkSequence]
) -> npt.NDArray[np.float64]:
    rows = [row for c in clips if (row := measure_posture(c, posture.part_counts)) is not None]
    return posture.distances(np.stack(rows))


@pytest.fixture(scope="module")
def taught() -> list[LandmarkSequence]:
    return draw_takes(TAUGHT, PEOPLE[:4], range(3))


@pytest.fixture(scope="module")
def posture(taught: list[LandmarkSequence]) -> Posture:
    signs = [sign for sign in TAUGHT for _ in range(12)]
    signers = [person.name for _ in TAUGHT for person in PEOPLE[:4] for _ in range(3)]
    posture = describe_sign_postures(taught, signs, signers)
    assert posture is not None
    return posture


@pytest.mark.parametrize(
    ("people", "manner"),
    [(PEOPLE[:1], CUT), (PEOPLE[4:6], CUT), (PEOPLE[4:6], RESTING)],
    ids=["who taught it", "other people", "other people, with rests"],
)
def test_signs_that_were_never_taught_are_unlike_those_that_were(
    posture: Posture, people: list[Signer], manner: Manner
) -> None:
    assert share_within(posture, draw_takes(UNKNOWN, people, [7], manner)) <= 0.1
    assert share_within(posture, draw_takes(TAUGHT, people, [7], manner)) >= 0.75


def test_one_cloud_of_all_training_clips_cannot_tell_unknown_signs(
    taught: list[LandmarkSequence],
) -> None:
    pooled = describe_postures(taught, draw_takes(TAUGHT, PEOPLE[6:7], [7]))
    assert pooled
    assert share_within(pooled, draw_takes(UNKNOWN, PEOPLE[:1], [7])) > 0.5


def test_of_single_signs_neither_movement_nor_encoding_counts_but_the_posture(
    taught: list[LandmarkSequence], posture: Posture
) -> None:
    states = np.ones((len(taught), 4), np.float32)
    slow = {"movement": Range(low=0.0, high=0.01)}  # than which every clip moves faster
    plain = dataclasses.replace(describe_train(taught, states, states), figures=slow)
    train = dataclasses.replace(plain, posture=posture)
    assert len(plain.differences(taught[0], 9 * states[0])) == 2
    unlike = [
        np.mean([bool(train.differences(clip, 9 * states[0])) for clip in clips])
        for clips in (taught[::12], draw_takes(UNKNOWN, PEOPLE[:1], [7]))
    ]
    assert unlike[0] <= 0.25
    assert unlike[1] >= 0.9


def test_when_in_a_sign_something_is_held_counts(
    taught: list[LandmarkSequence], posture: Posture
) -> None:
    """Taken over whole clips the mean of a clip and of its halves, exchanged, is the same."""
    changed = []
    for clip in taught:
        frames = np.roll(np.arange(len(clip.points)), len(clip.points) // 2)
        changed.append(
            dataclasses.replace(clip, points=clip.points[frames], present=clip.present[frames])
        )
    np.testing.assert_allclose(
        measure_posture(changed[0]), measure_posture(taught[0]), rtol=1e-4, atol=1e-4
    )
    farther = posture_distances(posture, changed) > posture_distances(posture, taught)
    assert np.mean(farther) > 0.7


def test_the_posture_of_each_part_of_a_clip() -> None:
    """Seven frames of which only the right wrist moves, a tenth of the picture at a time."""
    still = tiny.sequence(0, frames=1)
    points, present = (np.repeat(values, 7, axis=0) for values in (still.points, still.present))
    wrist = still.layout.slice("right_hand")
    points[:, wrist, 0] += 0.1 * np.arange(7)[:, None]
    clip = dataclasses.replace(still, points=points, present=present)
    whole, halves, thirds = (measure_posture(clip, (count,)) for count in (1, 2, 3))
    assert whole is not None
    assert halves is not None
    assert thirds is not None
    joined = measure_posture(clip, (2, 3))
    np.testing.assert_array_equal(joined, np.concatenate((halves, thirds)))
    x = [v[63 :: len(whole)] - whole[63] for v in (halves, thirds)]  # of the right wrist
    step = x[0][1] / 2
    np.testing.assert_allclose(x[0], [-1.5 * step, 2 * step], rtol=1e-5)
    np.testing.assert_allclose(x[1], [-2 * step, 0.5 * step, 2.5 * step], rtol=1e-5)


def test_the_limit_of_postures_is_a_point_of_a_curve_over_held_out_people(
    posture: Posture, tmp_path: Path
) -> None:
    held_out = posture.held_out
    assert held_out
    assert held_out.by == "people"
    assert held_out.known > 0.75
    assert held_out.unknown < 0.1
    limits, known, unknown = (list(column) for column in zip(*held_out.curve, strict=True))
    for column in (limits, known, unknown):
        assert column == sorted(column)
    assert known[-1] == 1
    train = describe_train(TRAIN[:4], np.ones((4, 4), np.float32), np.ones((1, 4), np.float32))
    confidence = Confidence(
        weights="",
        unsure_below=0.5,
        levels=(),
        train=dataclasses.replace(train, posture=posture),
    )
    write_confidence(tmp_path / CONFIDENCE, confidence)
    assert read_confidence(tmp_path / CONFIDENCE) == confidence


def test_takes_of_one_person_are_held_out_take_by_take() -> None:
    signs = ["tea", "bread", "milk", "soup"]
    takes = draw_takes(TAUGHT[:4], PEOPLE[:1], range(6))
    names = [sign for sign in signs for _ in range(6)]
    posture = describe_sign_postures(takes, names, ["anouk"] * 24)
    assert posture
    assert posture.held_out
    assert (posture.held_out.by, len(posture.signs)) == ("takes", 4)
    assert posture.held_out.known >= 0.9
    two = describe_sign_postures(takes[:12], names[:12], ["anouk"] * 12)
    assert two is None  # without one of two signs nothing is the nearest but one
