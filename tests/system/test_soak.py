"""The soak, shortened: a founding stock, a good delivery with a power cut, a bad delivery."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.files import hash_folder
from signloom.paths import MODELS
from signloom_ops.nightly.store import ModelStore
from studies.soak.study import DECISIONS

ROOT = Path(__file__).parents[2]  # not tests.tiny's: that loads torch, for seconds
STUDY = ROOT / "studies/soak/params.yaml"
# Fewer words than the study has: less to learn. Shorter sentences, or fewer clips, would be found
# as well by the nearest training clip, and the gate would rightly keep the first model out.
SIGNS = ["MERCI", "MOI", "TOI", "ELLE", "MAMAN", "PAIN", "EAU", "MANGER", "BOIRE",
         "VOULOIR", "CAFE", "POMME", "FATIGUE", "NON"]  # fmt: skip
GOOD = {"signers": ["adele", "gina"], "clips": 3, "words": "first", "form": "sidecars",
        "flaw": "none"}  # fmt: skip
FOUNDERS = {"train": ["adele", "boris", "carla"], "dev": ["denis"], "test": ["emma"]}
FOUNDING = {"train": 20, "dev": 3, "test": 14}  # clips of each signer
BAD = {"signers": ["boris"], "clips": 5, "words": "first", "form": "table", "flaw": "swapped"}


def shorten(folder: Path) -> dict[str, Any]:
    """Three nights of the study, with as few clips, epochs and seeds as show the same."""
    params: dict[str, Any] = yaml.safe_load(STUDY.read_text(encoding="utf-8"))
    study = params["study"]
    study |= {
        "folder": str(folder),
        "language": {"signs": SIGNS, "later_signs": [], "max_signs": 4},
        "recording": {"fps": 6, "width": 240, "height": 180},
        "founders": FOUNDERS,
        "founding_clips": FOUNDING,
        "hidden_signers": ["una"],
        "hidden_clips": 3,
        "nights": [
            {"event": "", "power_cut": cut, "deliveries": deliveries}
            for cut, deliveries in ((False, []), (True, [GOOD]), (False, [BAD]))
        ],
    }
    # One seed on few clips has wide intervals: half of them is enough to be a champion here.
    study["ops"] |= {"gate": {"seeds": 1, "level": 0.5}}
    # Hands alone take half the time.
    study["project"]["extract"] = {"detector": "hands", "groups": ["hands"]}
    study["project"]["features"] |= {"fps": 6, "groups": ["hands"], "normalise": "picture"}
    study["project"]["model"] |= {"subsampling": 2, "dropout": 0.0}
    study["project"]["train"] |= {
        "seeds": [1], "epochs": 60, "learning_rate": 0.004, "max_frames": 200, "snapshot_s": 0.5,
    }  # fmt: skip
    study["project"]["evaluate"] |= {"score": {"resamples": 200}}
    study["project"]["report"] = {"samples": 1, "pictures": 2}
    study["project"]["tracking"] |= {"enabled": False}
    return params


def run_study(params: Path) -> None:
    """Run it as `make soak` does."""
    done = subprocess.run(
        [sys.executable, "-m", "studies.soak.run", params, params.with_name("out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.mediapipe
def test_a_power_cut_and_a_bad_delivery_leave_the_champion_alone(tmp_path: Path) -> None:
    params, folder = tmp_path / "params.yaml", tmp_path / "soak"
    params.write_text(yaml.safe_dump(shorten(folder)), encoding="utf-8")
    run_study(params)
    log = (folder / DECISIONS).read_bytes()
    first, good, bad = [json.loads(line) for line in log.splitlines()]

    assert (first["exit_code"], first["outcome"], first["champion"]) == (0, "promoted", 1)

    assert good["was_killed"]
    assert good["ingested"] == 6  # both halves of the night together: nothing twice, nothing lost
    assert good["version"] == 2
    assert (good["exit_code"], good["champion"]) in {(0, 2), (4, 1)}
    for night in first, good:  # strangers are understood; a constant sentence has some 30
        assert night["hidden"]["champion"]["all"]["chrf"] > 60

    assert (bad["exit_code"], bad["outcome"], bad["ingested"]) == (5, "data_refused", 5)
    assert bad["drift"]["level"] == "stop"
    assert "colour" in {finding["check"] for finding in bad["drift"]["findings"]}
    assert bad["version"] is None
    assert bad["champion"] == good["champion"]
    assert bad["hidden"]["champion"] == good["hidden"]["champion"]

    project = folder / "project"
    store, champion = ModelStore(project / MODELS), bad["champion"]
    assert store.champion() == champion
    assert hash_folder(store.checkpoint(champion)) == store.facts(champion)["checkpoint_hash"]
    corpus = load_section(project / "params.yaml", "corpus", CorpusOptions)
    clips = read_manifest(project / corpus.path)
    assert len(clips) == 3 * 20 + 3 + 14 + 6  # none of the bad delivery
    assert all(clip.video and (project / clip.video).is_file() for clip in clips)

    run_study(params)  # all is done, so nothing is done again
    assert (folder / DECISIONS).read_bytes() == log
    for name in ("results.json", "index.html", "weeks.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 500
