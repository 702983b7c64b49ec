import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from signloom.checkpoint import WEIGHTS, Checkpoint, load_checkpoint, save_checkpoint
from signloom.detection.video import Video
from signloom.errors import UserError
from signloom.extraction.extract import extractor_fingerprint
from signloom.features.targets import CtcLabels
from signloom.files import hash_file
from signloom.translation.confidence import (
    CONFIDENCE,
    Confidence,
    fit_levels,
    hash_seeds,
    write_confidence,
)
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator
from signloom_tools.cli.main import main
from signloom_tools.cli.translate_glosses import read_lines
from tests import glosses, tiny
from tests.extraction import OPTIONS
from tests.films import sketch_film
from tests.tiny import write_checkpoint
from tests.videos import write_video


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    translator = glosses.untrained(glosses.training_data("subwords"))
    folder = tmp_path_factory.mktemp("model") / "checkpoint"
    save_checkpoint(
        folder,
        Checkpoint(spec=translator.spec, model=translator._model, tokenizer=translator._tokenizer),
    )
    return folder


def translate(checkpoint: Path, *arguments: str) -> None:
    more = ["--checkpoint", str(checkpoint), "--max-tokens", "6", "--beam-size", "2"]
    main(["translate", *more, *arguments])


def test_lines_of_glosses_are_translated_in_order(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("HAUS REGEN\n\nWIND\n", encoding="utf-8")
    translate(checkpoint, "--glosses", str(path), "haus  regen")
    out, err = capsys.readouterr()
    first, empty, _, again, *remaining = out.split("\n")
    assert (first, empty, remaining) == (again, "", [""])
    assert "never stood in train" not in err


def test_who_translates_while_evaluate_runs_is_told_to_wait(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages: list[str] = []
    monkeypatch.setattr("signloom_tools.dvc.stages_at_work", lambda: stages)
    translate(checkpoint, "--glosses", "HAUS")
    assert "`dvc repro evaluate` measures it" in capsys.readouterr().err
    stages.append("`python -m pipeline.evaluate` (process 7, since 10:00)")
    translate(checkpoint, "--glosses", "HAUS")
    error = capsys.readouterr().err
    assert f"wait until this ends, which may measure it: {stages[0]}" in error
    assert "dvc repro" not in error


def test_models_of_all_seeds_translate_together_where_one_asks_for_it(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"has no seeds/"):
        translate(checkpoint, "--together", "--glosses", "HAUS")
    joint = shutil.copytree(checkpoint, tmp_path / "both")
    second = load_checkpoint(checkpoint, torch.device("cpu"))
    with torch.no_grad():
        for weights in second.model.parameters():
            weights += 0.1 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1))
    save_checkpoint(joint / "seeds/2", second)
    scores = []
    for folder, more in ((joint, []), (joint / "seeds/2", []), (joint, ["--together"])):
        translate(folder, "--json", "--guess", *more, "--glosses", "HAUS REGEN")
        scores.append(json.loads(capsys.readouterr().out)["score"])
    assert len(set(scores)) == 3
    models = [Translator.load(folder) for folder in (joint, joint / "seeds/2")]
    search = DecodingOptions(beam_size=2, length_penalty=1.0, max_tokens=6)
    clip = models[0].source.glosses().encode("HAUS REGEN")
    (expected,) = models[0].with_seeds(models[1:]).translate([clip], search)
    assert scores[2] == pytest.approx(expected.hypothesis.score, abs=1e-4)
    with pytest.raises(SystemExit, match=r"weights together, so nothing says which are unsure"):
        translate(joint, "--together", "--skip-unsure", "--glosses", "HAUS")
    write_confidence(
        joint / CONFIDENCE,
        Confidence(
            weights=hash_file(joint / WEIGHTS),
            unsure_below=0.5,
            levels=fit_levels([-1.0], [True]),
            train=None,
            seeds=hash_seeds(joint),
        ),
    )
    capsys.readouterr()
    for more in ([], ["--together"]):
        translate(joint, "--json", *more, "--glosses", "HAUS REGEN")
        out, err = capsys.readouterr()
        assert json.loads(out)["score"] == pytest.approx(scores[2], abs=1e-4)
        assert json.loads(out)["confidence"] is not None
        assert "not calibrated" not in err
    shutil.rmtree(joint / "seeds/2")
    translate(joint, "--json", "--glosses", "HAUS REGEN")
    out, err = capsys.readouterr()
    assert json.loads(out)["score"] == scores[0]
    assert "there is no confidence.json of these weights" in err


def test_a_film_of_several_signs_is_cut_by_its_rests_where_a_model_names_one_a_clip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = sketch_film([(1.0, 2.2), (3.0, 4.0), (5.0, 6.5)], 7.5)
    hands = {name: film.points[:, film.layout.slice(name)] for name in ("left_hand", "right_hand")}
    pose = np.full((len(film.points), 33, 3), 0.5, np.float32)
    pose[:, [0, 11, 12, 13, 14, 15, 16, 23, 24]] = film.points[:, film.layout.slice("pose")]
    traits = {"fps": film.fps, "width": film.width, "height": film.height}
    np.savez(tmp_path / "film.npz", **hands, pose=pose, **traits)
    extractor = {"detector": "imported", "import_version": 1, "source": "numpy"}
    for kind, names in (("texts", ("bread", "tea")), ("none", ())):
        labels = CtcLabels(kind=kind, names=names)  # type: ignore[arg-type]
        folder = tiny.write_checkpoint(tmp_path / kind, extractor=extractor, ctc=labels)
        main(["translate", str(tmp_path / "film.npz"), "--checkpoint", str(folder), "--json"])
    clip_ids = [json.loads(line)["clip_id"] for line in capsys.readouterr().out.splitlines()]
    assert clip_ids[3:] == ["film"]  # a model of sentences reads it as one
    starts = [float(name.split()[1].split("-")[0]) for name in clip_ids[:3]]
    np.testing.assert_allclose(starts, [0.9, 2.9, 4.9], atol=0.25)


@pytest.mark.parametrize("mistyped", ["lines.txt", "my lines.txt", "no/lines", "no\\lines", "a/"])
def test_a_mistyped_file_name_is_no_line_of_glosses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistyped: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        read_lines(["HAUS", mistyped])


@pytest.mark.parametrize("line", ["HAUS", "HAUS LAUFEN/GEHEN", "IX-3.p HAUS", "1.5", "HAUS " * 100])
def test_a_line_of_glosses_is_no_file_name(line: str) -> None:
    assert read_lines([line]) == [line]


def test_unknown_glosses_are_named(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    translate(checkpoint, "--json", "--n-best", "2", "--glosses", "HAUS NIE", "NIE 🙂")
    out, err = capsys.readouterr()
    first, second = (json.loads(line) for line in out.splitlines())
    assert (first["glosses"], first["unknown"]) == (["haus", "nie"], ["nie"])
    assert second["unknown"] == ["nie", "🙂"]
    assert len(first["alternatives"]) == 1
    assert first["score"] >= first["alternatives"][0]["score"]
    assert "3 glosses of 2 lines never occurred in train: nie, 🙂" in err


def test_the_attention_of_glosses_becomes_a_page(checkpoint: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    translate(checkpoint, "--attention", str(page), "--glosses", "HAUS <b>", "WIND")
    text = page.read_text(encoding="utf-8")
    assert text.count('class="picker"') == 2
    assert text.count("<script") == 1
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    with pytest.raises(SystemExit, match="already exists and was not changed; give --overwrite"):
        translate(checkpoint, "--attention", str(page), "--glosses", "HAUS")
    translate(checkpoint, "--attention", str(page), "--overwrite", "--glosses", "HAUS")
    assert page.read_text(encoding="utf-8").count('class="picker"') == 1
    with pytest.raises(SystemExit, match=r"expected the name of a page, such as attention\.html"):
        translate(checkpoint, "--attention", str(tmp_path), "--glosses", "HAUS")
    with pytest.raises(SystemExit, match="found 21 clips or lines, expected at most 20"):
        translate(checkpoint, "--attention", "b.html", "--glosses", *["HAUS"] * 21)


def test_what_does_not_go_together_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="trained on glosses"):
        translate(checkpoint, "a.mp4")
    of_clips = ["--video", "a.webm", "--fps", "25", "--signs"]
    with pytest.raises(SystemExit, match="PATH, --signs, --video, --fps: these"):
        translate(checkpoint, "a.mp4", *of_clips, "--glosses", "HAUS")
    with pytest.raises(SystemExit, match="found no gloss"):
        translate(checkpoint, "--glosses", "  ")
    with pytest.raises(SystemExit, match="give a PATH"):
        translate(checkpoint)
    torn = tmp_path / "torn.txt"
    torn.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SystemExit, match="expected text in UTF-8"):
        translate(checkpoint, "--glosses", str(torn))
    with pytest.raises(SystemExit, match="trained on landmarks, not on glosses"):
        translate(write_checkpoint(tmp_path / "landmarks"), "--glosses", "HAUS")
    for form in ("onnx", "mlflow"):
        export = ["export-model", str(tmp_path / "out"), "--checkpoint", str(checkpoint)]
        with pytest.raises(SystemExit, match=r"trained on glosses .*not on landmarks"):
            main([*export, "--format", form])


def test_a_film_has_the_frames_that_a_model_of_fewer_frames_a_second_reads(tmp_path: Path) -> None:
    extractor = {**json.loads(extractor_fingerprint(OPTIONS.detector_options)), "fps": 10.0}
    model = write_checkpoint(tmp_path / "model", extractor=extractor)
    source, out = write_video(tmp_path / "in.mp4", frames=40), tmp_path / "out.webm"
    translate(model, str(source), "--video", str(out))
    with Video(out) as film:
        assert (film.fps, len([*film.frames()])) == (10.0, 16)
