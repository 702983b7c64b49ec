"""A sign can be looked up the minute it was recorded."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from signloom.checkpoint import WEIGHTS
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.shards import write_shards
from signloom.detection.video import Video
from signloom.errors import UserError
from signloom.extraction.extract import extractor_fingerprint
from signloom.features.targets import CtcLabels, Target, write_targets
from signloom.files import hash_file, to_sealed
from signloom.paths import CHECKPOINT, EVALUATION, SHARDS, TARGETS
from signloom.translation.confidence import CONFIDENCE, Confidence, hash_seeds, write_confidence
from signloom.translation.word_signs import WordOfSign
from signloom_demo.draw import DrawOptions, draw_clip, plan_clips
from signloom_ops.app import analysis
from signloom_ops.app.analysis import Analyst
from signloom_ops.app.signs import ENCODING
from signloom_ops.app.takes import Take, TakeStore
from signloom_tools.cli.main import main
from signloom_tools.video_writer import VideoWriter
from tests import tiny
from tests.extraction import OPTIONS

pytestmark = pytest.mark.mediapipe


def record(store: TakeStore, film: Path, text: str) -> Take:
    take = store.begin(text=text, signer="zoe", suffix=film.suffix)
    store.append(take, 0, film.read_bytes())
    return store.finish(take, film.stat().st_size)


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A project with an untrained model, and two films of drawn signs."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny.ROOT / "params.yaml", "params.yaml")
    tiny.write_checkpoint(CHECKPOINT)
    write_shards(
        SHARDS,
        {f"c{n}": 12 for n in range(5)},
        lambda name: tiny.sequence(int(name[1:])),
        layout=HANDS_POSE,
        extractor=extractor_fingerprint(OPTIONS.detector_options),
        frames_per_shard=1000,
    )
    write_targets(
        TARGETS,
        [
            Target(
                clip_id=f"c{n}",
                split="train",
                signer="s",
                text=f"word{n}",
                ids=[],
                gloss="",
                labels=[],
            )
            for n in range(5)
        ],
    )
    drawing = DrawOptions(
        out=Path("drawn"),
        seed=3,
        train_signers=1,
        dev_signers=1,
        test_signers=1,
        clips_per_signer=1,
        max_signs=2,
        unseen_share=0.0,
        fps=8,
        width=160,
        height=120,
    )
    Path("drawn/videos").mkdir(parents=True)
    clips = plan_clips(drawing)[:2]
    for clip in clips:
        draw_clip(clip, drawing, Path("drawn"))
    return [Path(f"drawn/videos/{clip.clip_id}.mp4") for clip in clips]


def test_a_recorded_sign_is_found_at_once(
    films: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store, analyst = TakeStore(), Analyst()
    first = record(store, films[0], "tea")
    record(store, films[1], "")  # not labelled: it is no sign that is known
    assert main(["lookup", str(films[0]), "--json", "-k", "3"]) is None
    report = json.loads(capsys.readouterr().out)
    assert (report["clip_id"], len(report["signs"])) == (films[0].stem, 3)
    best = report["signs"][0]
    assert (best["text"], best["clip_id"], best["is_recording"]) == ("tea", first.id, True)
    assert best["similarity"] == pytest.approx(1, abs=1e-3)
    assert store.film(first).with_name(ENCODING).is_file()
    # The same sign, recorded again: it finds the first and not itself.
    again = record(store, films[0], "tea, again")
    assert analyst.look(store.film(again))["seconds"] > 0
    encoding_path = store.film(first).with_name(ENCODING)
    encoding = json.loads(encoding_path.read_text())
    before = {"weights": encoding["weights"], "values": encoding["values"][: -encoding["hands"]]}
    joint = to_sealed({**encoding, "is_joint": True, "values": 2 * encoding["values"]}).decode()
    # Torn, of an earlier version, and of a checkpoint of several seeds.
    for content in ('{"weights":', json.dumps(before), joint):
        encoding_path.write_text(content)
        assert analyst.find_signs(again, store)[0].text == "tea"
        assert json.loads(encoding_path.read_text()) == encoding
    signs = analyst.find_signs(again, store)
    assert (signs[0].text, signs[0].is_recording, len(signs)) == ("tea", True, 5)
    assert "tea, again" not in [sign.text for sign in signs]
    main(["lookup", str(films[0])])
    assert "recorded in the app" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="not looked up: 1 of the clips"):
        main(["lookup", "none.mp4"])
    store.remove(first)
    assert analyst.find_signs(again, store)[0].text.startswith("word")


def test_a_film_that_is_none_is_left_out_and_said(
    films: list[Path], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    torn = tmp_path / "torn.webm"
    torn.write_bytes(bytes(3000))
    take = record(TakeStore(), torn, "noise")
    TakeStore().film(record(TakeStore(), films[0], "gone")).unlink()
    main(["lookup", str(SHARDS)])
    assert f"recording {take.id} is left out" in caplog.text
    assert "the file is missing" in caplog.text
    assert "manifest" not in caplog.text  # which has no row of a recording


@pytest.mark.slow
def test_a_recording_of_two_people_is_called_so(films: list[Path]) -> None:
    """Quick twin: tests/unit/detection/test_detector.py."""
    pictures = []
    for film in films:
        with Video(film) as video:
            pictures.append([frame.rgb for frame in video.frames()][:12])
    with VideoWriter(Path("two.mp4"), fps=8.0, width=320, height=120) as writer:
        for pair in zip(*pictures, strict=True):
            writer.write(np.hstack(pair))
    findings = [Analyst().look(film) for film in (Path("two.mp4"), films[0])]
    assert ["crowded" in finding["faults"] for finding in findings] == [True, False]
    assert ["warning" in finding["translation"] for finding in findings] == [True, False]


def test_all_seeds_are_one_model_as_soon_as_they_were_measured_so(
    films: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write_checkpoint(CHECKPOINT / "seeds/2")
    analyst = Analyst()
    before = analyst._load()
    assert before is not None
    assert not before.translator.is_joint
    EVALUATION.mkdir(parents=True)
    write_confidence(
        EVALUATION / CONFIDENCE,
        Confidence(
            weights=hash_file(CHECKPOINT / WEIGHTS),
            unsure_below=0.5,
            levels=(),
            train=None,
            seeds=hash_seeds(CHECKPOINT),
        ),
    )
    after = analyst._load()
    assert after is not None
    assert after.translator.is_joint
    assert analyst._load() is after
    monkeypatch.setattr(analysis, "stages_at_work", lambda: ["`dvc repro`"])
    shutil.rmtree(CHECKPOINT)  # as DVC does before it trains
    assert analyst._load() is after
    with pytest.raises(UserError, match="a model is being trained"):
        Analyst().begin_live()
    monkeypatch.setattr(analysis, "stages_at_work", list)
    assert analyst._load() is None


def test_a_word_without_a_sign_is_written_without_a_time(films: list[Path]) -> None:
    shutil.rmtree(CHECKPOINT)
    tiny.write_checkpoint(CHECKPOINT, ctc=CtcLabels(kind="glosses", names=("TEA", "MILK")))
    EVALUATION.mkdir(parents=True)
    write_confidence(
        EVALUATION / CONFIDENCE,
        Confidence(
            weights=hash_file(CHECKPOINT / WEIGHTS),
            unsure_below=0.5,
            levels=(),
            train=None,
            words=(WordOfSign(word="tea", gloss="TEA", weight=1.0),),
        ),
    )
    take = record(TakeStore(), films[0], "")
    tokens = Analyst().look(TakeStore().film(take))["translation"]["tokens"]
    assert tokens
    assert {token["start_s"] for token in tokens} == {None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tea", "tea"),
        pytest.param("word1", "", marks=pytest.mark.slow),
        pytest.param("", "", marks=pytest.mark.slow),
    ],
)
def test_a_recorded_sign_is_recognised_live_unless_it_was_taught(
    films: list[Path], text: str, expected: str
) -> None:
    shutil.rmtree(CHECKPOINT)
    names = tuple(f"word{n}" for n in range(5))
    tiny.write_checkpoint(
        CHECKPOINT, ctc=CtcLabels(kind="texts", names=names), decoder_layers=0, family="convolution"
    )
    store, analyst = TakeStore(), Analyst()
    take = record(store, films[0], text)
    with Video(films[0]) as video:
        pictures = [
            cv2.imencode(".jpg", frame.rgb[..., ::-1])[1].tobytes() for frame in video.frames()
        ]
    pictures += pictures[-1:] * 20  # at rest
    session = analyst.begin_live()
    translations = [
        analyst.add_live(session, [(number / 8, picture)], store)["translation"]
        for number, picture in enumerate(pictures)
    ]
    (translation,) = [translation for translation in translations if translation]
    assert translation.get("recording", "") == (take.id if expected else "")
    assert translation["text"] == expected or not expected
