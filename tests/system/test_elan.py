"""docs/elan.md: every command of the page is run."""

import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.corpus.manifest import read_manifest
from signloom_tools.cli.main import build_parser, main
from signloom_tools.importing.captions import Cue, write_captions
from signloom_tools.importing.elan import read_elan, render_elan
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
    path.write_bytes(render_elan(tiers, film, path.parent))


def correct(old: str, new: str) -> None:
    """Do what a person does in ELAN."""
    shutil.copytree("build/elan/videos", "corrected", ignore=shutil.ignore_patterns("*.vtt"))
    for path in Path("corrected").iterdir():
        path.write_text(path.read_text().replace(old, new))


def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `dvc repro`; of the translation, which needs its model, only the options are read."""
    monkeypatch.chdir(tmp_path)
    Path("films").mkdir()
    params = (ROOT / "params.yaml").read_text()
    Path("params.yaml").write_text(params)
    Path("ops.yaml").write_text("ingest: {settle_s: 0}\n")
    for number, signer in enumerate(("anna", "ben", "cleo")):
        film = write_video(Path(f"films/{signer}.mp4"), frames=60 + number)
        annotate(
            film,
            [
                Cue(start_s=start_s, end_s=start_s + 1, text=text, signer=signer, gloss=gloss)
                for start_s, text, gloss in (
                    (0.0, f"demain {signer} dort", "DORMIR"),
                    (1.2, "demain il pleut", "PLUIE"),
                )
            ],
        )
    outs = {}
    for number, words in enumerate(commands()):
        if words[1] == "translate":
            build_parser().parse_args(words[1:])
        elif words[0] == "signloom":
            main(words[1:])
        outs[number, words[1]] = capsys.readouterr().out
        if words[1] == "export":
            correct("il pleut</", "il neige</")
    assert [name for _, name in outs] == [
        "init",
        "init",
        "repro",
        "export",
        "ingest",
        "ingest",
        "repro",
        "translate",
    ]
    assert "6 rows taken, 0 left out" in outs[0, "init"]
    for number in (4, 5):
        assert "- text: demain il pleut\n    + text: demain il neige" in outs[number, "ingest"]
    clips = read_manifest(Path("data/raw/films/manifest.tsv"))
    assert sorted(clip.text for clip in clips) == [
        "demain anna dort",
        "demain ben dort",
        "demain cleo dort",
        *["demain il neige"] * 3,
    ]
    assert {clip.gloss for clip in clips} == {"DORMIR", "PLUIE"}
