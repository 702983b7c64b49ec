"""Look-up: what is near is found, and encodings are kept no longer than they hold."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from signloom.checkpoint import WEIGHTS
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.features.features import feature_names
from signloom.features.targets import CtcKind, CtcLabels, Target, write_targets
from signloom.files import hash_file
from signloom.paths import CHECKPOINT, SHARDS, TARGETS
from signloom.translation import lookup
from signloom.translation.confidence import CONFIDENCE, UNFAMILIAR, Confidence, write_confidence
from signloom.translation.familiarity import describe_train
from signloom.translation.lookup import (
    RIDGES,
    Projection,
    SignIndex,
    Whitening,
    find_nearest,
    open_index,
)
from signloom.translation.translator import Translator
from signloom_tools.cli.main import main
from tests import tiny

MADE = {"detector": "tiny"}


def write_corpus(root: Path, *, clips: int = 6, shift: int = 0, train: str = "train") -> None:
    """Two clips of each word."""
    named = [f"clip{n}" for n in range(clips)]
    sequences = {name: tiny.sequence(n + shift) for n, name in enumerate(named)}
    tiny.write_clips(root / "shards", sequences, json.dumps(MADE), frames_per_shard=30)
    plain = Target(clip_id="", split=train, signer="s", text="", ids=[], gloss="", labels=[])
    targets = [replace(plain, clip_id=name, text=f"word{n // 2}") for n, name in enumerate(named)]
    write_targets(root / "targets.parquet", [*targets, replace(plain, clip_id="gone", text="x")])


def build(root: Path) -> tuple[Translator, SignIndex]:
    if not (root / "checkpoint").is_dir():
        tiny.write_checkpoint(root / "checkpoint", extractor=MADE)
    translator = Translator.load(root / "checkpoint")
    return translator, open_index(
        translator,
        root / "checkpoint",
        targets=root / "targets.parquet",
        shards=root / "shards",
        folder=root / "lookup",
    )


def test_a_clip_is_nearest_to_itself_and_each_text_comes_once(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    translator, index = build(tmp_path)
    sequences = read_shards(tmp_path / "shards")
    for clip_id, sequence in sequences.items():
        (encoding,) = translator.encode_signs([sequence])
        signs = index.nearest(encoding, 5)
        assert (signs[0].clip_id, signs[0].similarity) == (clip_id, pytest.approx(1, abs=1e-3))
        assert sorted(sign.text for sign in signs) == ["word0", "word1", "word2"]
        assert not signs[0].is_recording
        recorded = index.beside(["take"], ["a new sign"], encoding[None])
        first = find_nearest([index, recorded], encoding, 2)
        assert {sign.text for sign in first} == {"a new sign", signs[0].text}


def test_encodings_are_kept_until_landmarks_change_and_texts_are_those_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path)
    _, first = build(tmp_path)
    (file,) = (tmp_path / "lookup").iterdir()
    written_ns = file.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "encode_signs", None)  # whoever calls it fails
        _, again = build(tmp_path)
    assert file.stat().st_mtime_ns == written_ns
    assert np.array_equal(again.directions, first.directions)
    monkeypatch.setattr(lookup, "CLIPS_AT_ONCE", 2)
    raw = file.read_bytes()
    for damaged in (raw[:100], raw[:-1] + bytes([raw[-1] ^ 64])):
        file.write_bytes(damaged)
        _, again = build(tmp_path)
        assert again.clip_ids == first.clip_ids
        np.testing.assert_allclose(again.directions, first.directions, atol=1e-4)
    write_corpus(tmp_path, shift=50)
    _, moved = build(tmp_path)
    assert not np.allclose(moved.directions, first.directions, atol=0.1)
    write_corpus(tmp_path, clips=4, shift=50)
    _, fewer = build(tmp_path)
    assert sorted(fewer.clip_ids) == ["clip0", "clip1", "clip2", "clip3"]
    assert len(list((tmp_path / "lookup").iterdir())) == 1


def test_without_clips_of_train_and_with_other_landmarks_it_is_refused(tmp_path: Path) -> None:
    write_corpus(tmp_path, train="dev")
    with pytest.raises(UserError, match="no training clip has landmarks"):
        build(tmp_path)
    tiny.write_checkpoint(tmp_path / "checkpoint", extractor={"detector": "another"})
    with pytest.raises(UserError, match="other settings"):
        build(tmp_path)


def test_directions_in_which_all_clips_vary_do_not_hide_a_small_difference() -> None:
    rng = np.random.default_rng(0)
    train = rng.normal(0, [50, 50, 1], (200, 3)).astype(np.float32)
    first, second = np.float32([[5, 0, 6], [-5, 0, 6]])
    far = np.float32([5, 0, -6])
    projection = Whitening.fit(train, 0.01)
    close, apart = (
        float(projection(first[None])[0] @ projection(x[None])[0]) for x in (second, far)
    )
    assert close > 0.5 > 0 > apart
    plain = np.float32([first, second, far])
    assert plain[0] @ plain[1] < plain[0] @ plain[0]
    alone = Whitening.fit(train[:1], 0.01)  # a corpus of one clip divides by nothing
    assert np.isfinite(alone(train)).all()


def test_states_and_hands_count_by_their_shares_however_large_they_are() -> None:
    rng = np.random.default_rng(1)
    states, hands = rng.normal(size=(30, 4)), rng.normal(size=(30, 6))
    for scale in (1, 1000):  # of hands: whitening takes it away
        encodings = np.concatenate((states, scale * hands), axis=1).astype(np.float32)
        projection = Projection.fit(encodings, 6)
        assert projection.width == 10
        directions = projection(encodings)
        parts = zip((encodings[:, :4], encodings[:, 4:]), RIDGES, strict=True)
        apart = [Whitening.fit(part, ridge)(part) for part, ridge in parts]
        expected = 0.4 * apart[0] @ apart[0].T + 0.6 * apart[1] @ apart[1].T
        np.testing.assert_allclose(directions @ directions.T, expected, atol=1e-5)
    alone = Projection.fit(encodings[:, :4], 0)  # glosses have no hands
    np.testing.assert_allclose(alone(encodings[:, :4]), apart[0], atol=1e-5)


def test_encodings_are_means_of_states_and_of_hands_in_each_third(tmp_path: Path) -> None:
    tiny.write_checkpoint(tmp_path, extractor=MADE)
    translator, clip = Translator.load(tmp_path), tiny.sequence(1)
    names = feature_names(translator.spec.features, HANDS_POSE)
    chosen = [names[column] for column in translator.hand_columns]
    assert chosen == [name for name in names if "hand" in name]
    (encoding,) = translator.encode_signs([clip])
    assert translator.hand_width == 3 * len(chosen)
    states, hands = np.split(encoding, [-translator.hand_width])
    np.testing.assert_array_equal(states, translator.encode_clips([clip])[0])
    columns = translator.rows(clip)[:, translator.hand_columns]
    means = [columns[start : start + 4].mean(axis=0) for start in (0, 4, 8)]
    np.testing.assert_allclose(hands, np.concatenate(means), rtol=1e-4, atol=1e-6)
    (joint,) = translator.with_seeds([translator]).encode_signs([clip])
    np.testing.assert_array_equal(joint, np.concatenate((states, encoding)))  # of each seed
    (picture,) = translator.encode_signs([tiny.sequence(frames=1)])
    first, *others = np.split(picture[-translator.hand_width :], 3)
    assert all(np.array_equal(part, first) for part in others)
    body = replace(translator.spec.features, groups=("pose",))
    translator = Translator.load(tmp_path)
    translator.spec = replace(translator.spec, features=body)
    assert translator.hand_columns == list(range(len(feature_names(body, HANDS_POSE))))


@pytest.mark.parametrize("kind", ["texts", "glosses"])
def test_a_clip_that_is_like_none_of_train_is_marked_as_by_translate(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: CtcKind,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path)
    labels = CtcLabels(kind=kind, names=("word0", "word1", "word2"))
    tiny.write_checkpoint(CHECKPOINT, extractor=MADE, ctc=labels)
    for made, place in (("shards", SHARDS), ("targets.parquet", TARGETS)):
        place.parent.mkdir(parents=True, exist_ok=True)
        Path(made).rename(place)
    known = tiny.sequence(0)
    handless = known
    for hand in ("left_hand", "right_hand"):
        handless = tiny.lose(handless, hand, slice(None))
    tiny.write_clips(Path("new"), {"a": known, "b": handless}, json.dumps(MADE))

    def look_up() -> list[bool | None]:
        main(["lookup", "new", "--json"])
        return [json.loads(line)["familiar"] for line in capsys.readouterr().out.splitlines()]

    assert look_up() == [None, None]  # nothing was measured of this model
    translator = Translator.load(CHECKPOINT)
    clips = [*read_shards(SHARDS).values()]
    states = translator.encode_clips(clips)
    confidence = Confidence(
        weights=hash_file(CHECKPOINT / WEIGHTS),
        unsure_below=0.5,
        levels=(),
        train=describe_train(clips, states, states),
    )
    write_confidence(CHECKPOINT / CONFIDENCE, confidence)
    assert look_up() == [True, False]
    main(["lookup", "new", "-k", "1"])
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first == "new: a"
    assert second.startswith(f"new: b\t{UNFAMILIAR}: a hand in 0 % of its frames")
