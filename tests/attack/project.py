"""A whole small project to attack: drawn signers, two nights, two versions of a model.

Beside them lie a recording of the app, what two people judged, and a tiny pretrained text model.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from signloom.config import parse_options
from signloom.corpus.manifest import Clip, read_manifest, write_manifest
from signloom.evaluation.judgements import BlindAnswer, Judgements
from signloom.paths import APP, JUDGEMENTS
from signloom_demo.draw import DrawOptions, draw_corpus
from signloom_ops.app.takes import TakeStore
from tests.tiny import ROOT

CORPUS = Path("data/raw/weekly")
DELIVERY = Path("data/inbox/ruth")
PHRASES = Path("phrases.tsv")  # sentences whose signs have takes
TEXT_MODEL = Path("data/text_models/t5")  # there if `transformers` is
SIGNLOOM = (sys.executable, "-c", "from signloom_tools.cli.main import main; main()")
DRAW = {
    "seed": 1, "train_signers": 3, "dev_signers": 1, "test_signers": 1, "clips_per_signer": 4,
    "max_signs": 2, "unseen_share": 0.0, "fps": 10, "width": 240, "height": 180,
}  # fmt: skip

OPS = "{ingest: {min_side: 100, settle_s: 0}, gate: {seeds: 1, metric: chrf}}\n"


def make_project(folder: Path) -> None:
    """Make a project whose first night is over and whose second has a delivery to take in."""
    copy_project(folder)
    shutil.copy(ROOT / ".gitignore", folder)
    for name in ("presets", "schemas"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "params.yaml").write_text(yaml.safe_dump(_params()))
    (folder / "ops.yaml").write_text(OPS)
    draw = {**DRAW, "out": str(folder / CORPUS)}
    draw_corpus(parse_options(draw, DrawOptions, where="draw"))
    (folder / CORPUS / "LICENSE").write_text("Between us.\n")
    _write_phrases(folder, hold_back_a_signer(folder / CORPUS, folder / "delivered"))
    for path in (folder / "delivered").iterdir():
        os.utime(path, (time.time() - 60,) * 2)
    (folder / DELIVERY).parent.mkdir()
    run(folder, sys.executable, "-m", "dvc", "init", "--no-scm", "-q")
    run(folder, *SIGNLOOM, "retrain", codes=(0, 4))
    run(folder, *SIGNLOOM, "champion", "promote", "1", "--force")
    (folder / "delivered").rename(folder / DELIVERY)


def link_code(folder: Path) -> None:
    """Let a project use the code as it is now."""
    for name in ("src", "pipeline"):
        path = folder / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
        path.symlink_to(ROOT / name)


def end_second_night(folder: Path) -> None:
    """Take the delivery in and train a second version."""
    run(folder, *SIGNLOOM, "retrain", codes=(0, 4))
    run(folder, *SIGNLOOM, "champion", "promote", "2", "--force")
    run(folder, *SIGNLOOM, "export-model", "data/served", "--format", "mlflow")
    if importlib.util.find_spec("transformers") is not None:
        from tests.text_models import text_model

        text_model(folder / TEXT_MODEL, "t5")
    _judge(folder)
    _record(folder)


def _judge(folder: Path) -> None:
    """Let two people compare the model with itself."""
    run(folder, *SIGNLOOM, "judge", "reports", "reports", "--name", "twice")
    judgements = Judgements(folder / JUDGEMENTS)
    for pair in judgements.read("twice").pairs:
        for judge in ("ada", "bob"):
            answer = BlindAnswer(
                judge=judge, clip_id=pair.clip_id, preferred="first", scores=(60, 40)
            )
            judgements.answer("twice", answer)


def _record(folder: Path) -> None:
    """Record a film in the app that waits to be delivered, and look it up once."""
    takes = TakeStore(folder / APP)
    film = next((folder / CORPUS / "videos").glob("*.mp4")).read_bytes()
    take = takes.begin(text="une phrase", signer="zoe", suffix=".mp4")
    takes.append(take, 0, film)
    takes.finish(take, len(film))
    run(folder, *SIGNLOOM, "lookup", "data/landmarks/shards")


def run(folder: Path, *command: str, codes: tuple[int, ...] = (0,)) -> None:
    """Run a program of the project that must end with one of these codes."""
    process = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True)
    assert process.returncode in codes, (command[-3:], process.stderr.decode()[-3000:])


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which the programs of a project run; nothing asks the network."""
    return {
        **os.environ,
        "PYTHONPATH": str(folder.resolve() / "src"),
        "SIGNLOOM_CACHE": "",
        "OMP_NUM_THREADS": "1",
        "DVC_NO_ANALYTICS": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "SIGNLOOM_WORKERS": "1",
    }


def _params() -> dict[str, Any]:
    params: dict[str, Any] = yaml.safe_load((ROOT / "pipeline/smoke/params.yaml").read_text())
    params["corpus"]["folder"] = CORPUS.as_posix()
    params["extract"] |= {"detector": "hands", "groups": ["hands"], "max_rejected_share": 0.95}
    params["features"] |= {"fps": 10, "groups": ["hands"], "normalise": "picture"}
    params["model"] |= {"d_model": 16, "d_ff": 16, "heads": 2}
    params["train"] |= {"epochs": 3, "seeds": [1], "snapshot_s": 0.0}
    params["evaluate"]["decoding"] |= {"beam_size": 1, "max_tokens": 8}
    params["evaluate"]["grid"] = {"beam_sizes": [1], "length_penalties": [1.0]}
    params["tracking"]["enabled"] = False
    return params


def copy_project(folder: Path) -> None:
    """Copy the code of the stages, and what they need of this project, into a folder."""
    for name in ("src", "pipeline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", ".dvcignore", "data/start.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "reports/judgements").mkdir(parents=True)


def hold_back_a_signer(corpus: Path, delivered: Path) -> list[Clip]:
    """Take the last signer of train out of a drawn corpus, and return the clips.

    Args:
        corpus: The folder of the corpus.
        delivered: A new folder that gets their films and sentences, for a later delivery.
    """
    clips = read_manifest(corpus / "manifest.tsv")
    new = next(clip.signer for clip in reversed(clips) if clip.split == "train")
    held = [clip for clip in clips if clip.signer == new]
    delivered.mkdir()
    for clip in held:
        assert clip.video
        clip.video.rename(delivered / clip.video.name)
        (delivered / f"{clip.clip_id}.txt").write_text(clip.text, encoding="utf-8")
    write_manifest(corpus / "manifest.tsv", [clip for clip in clips if clip.signer != new])
    (corpus / "truth.npz").unlink()
    return held


def _write_phrases(folder: Path, delivered: Sequence[Clip]) -> None:
    """Write sentences to compose: of what is delivered, and of a clip whose gloss goes."""
    manifest = folder / CORPUS / "manifest.tsv"
    clips = read_manifest(manifest)
    first = next(n for n, clip in enumerate(clips) if clip.split == "dev")
    clips[first] = replace(clips[first], gloss=None)
    write_manifest(manifest, clips)
    rows = [("a", clips[first].text, "dev")]
    rows += [(f"b{number}", clip.text, "train") for number, clip in enumerate(delivered)]
    table = [f"{name}\t{text}\t{text.replace(' ', '-')}\t{split}" for name, text, split in rows]
    (folder / PHRASES).write_text("\n".join(["clip_id\ttext\tgloss\tsplit", *table, ""]))
