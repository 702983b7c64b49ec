"""docs/elan.md: every command of the page is run."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import read_manifest
from signloom.detection.video import Video
from signloom_demo.draw import draw_corpus
from signloom_tools.cli.main import main
from signloom_tools.importing.captions import Cue, write_captions
from signloom_tools.importing.elan import read_elan, write_elan
from signloom_tools.params_file import update_params
from signloom_tools.video_writer import VideoWriter
from tests.extraction import DRAWING
from tests.system.test_pipeline import environment
from tests.tiny import ROOT
from tests.videos import write_video


def commands() -> list[list[str]]:
    """Return the commands of the page, each as words."""
    page = (ROOT / "docs" / "elan.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, re.S)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def annotate(film: Path, cues: Sequence[Cue]) -> None:
    """Write the .eaf file of a film with the tiers of the page."""
    path = film.with_suffix(".eaf")
    write_captions(path, cues, film)
    names = {"text": "Satz", "gloss": "Glosse"}
    tiers = []
    for tier in read_elan(path, path.read_text()).tiers:
        signer = tier.participant
        parent = f"Satz_{signer}" if tier.parent else ""
        tiers.append(
            replace(tier, name=f"{names[tier.name.split('@')[0]]}_{signer}", parent=parent)
        )
    write_elan(path, tiers, film)


def correct(old: str, new: str) -> None:
    """Do what a person does in ELAN."""
    shutil.copytree("build/elan/videos", "corrected", ignore=shutil.ignore_patterns("*.vtt"))
    for path in Path("corrected").iterdir():
        path.write_text(path.read_text().replace(old, new))


def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `dvc repro` and its model, which the slow test has."""
    monkeypatch.chdir(tmp_path)
    Path("films").mkdir()
    params = (ROOT / "params.yaml").read_text()
    Path("params.yaml").write_text(params)
    Path("ops.yaml").write_text("ingest: {settle_s: 0}\n")
    for number, signer in enumerate(("anna", "ben", "cleo")):
        film = write_video(Path(f"films/{signer}.mp4"), frames=60 + number)
        annotate(film, [
            Cue(start_s=start_s, end_s=start_s + 1, text=text, signer=signer, gloss=gloss)
            for start_s, text, gloss in (
                (0.0, f"demain {signer} dort", "DORMIR"), (1.2, "demain il pleut", "PLUIE"),
            )
        ])  # fmt: skip
    outs = {}
    for number, words in enumerate(commands()):
        if words[0] == "signloom" and words[1] != "translate":  # needs the model of `dvc repro`
            main(words[1:])
        outs[number, words[1]] = capsys.readouterr().out
        if words[1] == "export":
            correct("il pleut</", "il neige</")
    assert [name for _, name in outs] == [
        "init", "init", "repro", "export", "ingest", "ingest", "repro", "translate",
    ]  # fmt: skip
    assert "6 rows taken, 0 left out" in outs[0, "init"]
    for number in (4, 5):
        assert "- text: demain il pleut\n    + text: demain il neige" in outs[number, "ingest"]
    clips = read_manifest(Path("data/raw/films/manifest.tsv"))
    assert sorted(clip.text for clip in clips) == [
        "demain anna dort", "demain ben dort", "demain cleo dort", *["demain il neige"] * 3,
    ]  # fmt: skip
    assert {clip.gloss for clip in clips} == {"DORMIR", "PLUIE"}


@pytest.mark.slow
@pytest.mark.mediapipe
def test_from_elan_to_a_model_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick twin: test_the_commands_of_the_page_do_what_it_says."""
    monkeypatch.chdir(tmp_path)
    for name in ("src", "pipeline"):
        shutil.copytree(ROOT / name, name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", ".dvcignore", "reports/retrain.json", "data/start.yaml",
                 "docs/demo.ipynb", "reports/judgements/README.md"):  # fmt: skip
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, name)
    for name in ("params.yaml", "ops.yaml"):
        shutil.copy(ROOT / "pipeline/smoke" / name, name)
    draw_corpus(
        replace(DRAWING, out=Path("drawn"), dev_signers=1, test_signers=1, clips_per_signer=4),
        workers=1,
    )
    clips = read_manifest(Path("drawn/manifest.tsv"))
    Path("films").mkdir()
    drawn = sorted({clip.signer for clip in clips})
    for signer, name in zip(drawn, ("anna", "ben", "cleo"), strict=True):
        cues, frames, film = [], 0, Path(f"films/{name}.mp4")
        with VideoWriter(film, fps=15.0, width=320, height=240) as out:
            for clip in (one for one in clips if one.signer == signer):
                assert clip.video
                with Video(clip.video) as video:
                    pictures = [frame.rgb for frame in video.frames()]
                for rgb in [pictures[0]] * 10 + pictures:
                    out.write(rgb)
                start, frames = frames + 10, frames + 10 + len(pictures)
                cues.append(Cue(start_s=start / 15, end_s=frames / 15, text=clip.text,
                                gloss=clip.gloss or "", signer=name))  # fmt: skip
        annotate(film, cues)

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr

    run("dvc", "init", "--quiet", "--no-scm")
    word = clips[0].text
    said = []
    for words in commands():
        said.append(run(*words))
        if words[1] == "init" and "--use" in words:
            update_params(Path("params.yaml"), {"train": {"epochs": 2, "patience": 2}})
        if words[1] == "export":
            correct(f">{word}<", f">{word} !<")
    found = read_manifest(Path("data/raw/films/manifest.tsv"))
    assert len(found) == len(clips)
    assert f"{word} !" in [clip.text for clip in found]
    assert "corrected" in said[-3]
    assert "0 frames" in said[-2]  # nothing is looked at twice
    assert Path("build/new/cleo.eaf").is_file()
