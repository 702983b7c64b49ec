import json
from pathlib import Path

import pytest

from signloom.cli.main import main
from signloom.cli.profile import PHASES, STEPS, profile, show
from signloom.errors import UserError
from tests import tiny


def test_the_phases_of_a_step_are_measured_on_the_projects_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = tiny.write_project(tmp_path)
    main(["summary", "--params", str(paths.params), "--profile", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert list(found["phases_ms"]) == list(PHASES)
    assert sum(found["phases_ms"].values()) == pytest.approx(found["step_ms"])
    assert found["steps"] == STEPS
    # 88 frames in two batches; a stretch of 0.3 changes each clip by less than a third.
    step_s = found["step_ms"] / 1000
    assert 44 * 0.6 < found["frames_per_s"] * step_s < 44 * 1.4
    assert 0 < found["share_of_peak"] < 1
    text = show(found)
    assert all(name in text for name in PHASES)
    assert "frames/s" in text


def test_a_linear_layer_has_the_operations_of_its_formula(tmp_path: Path) -> None:
    """The share of the head is known: forward, and backward by states and weights."""
    counted = []
    for vocab in (0, 1):
        paths = tiny.write_project(tmp_path / str(vocab))
        params = json.loads(paths.params.read_text())
        params["train"]["ctc_weight"] = 0.0
        params["model"]["d_ff"] = 24 + 8 * vocab
        params["augment"] |= dict.fromkeys(params["augment"], 0.0)
        params["train"]["max_frames"] = 1000
        paths.params.write_text(json.dumps(params))
        counted.append(profile(paths.params)["operations"])
    frames, clips = 8 * 12, 8  # padded
    tokens = max(len(target.ids) - 1 for target in tiny.training_data().train.targets)
    # Two layers each way, two matrices, 8 more columns of 16; forward and twice backward.
    more = 2 * 2 * 8 * 16 * 3 * 2 * (frames + tokens * clips)
    assert counted[1] - counted[0] == pytest.approx(more)


def test_without_landmarks_the_profile_says_what_to_run(tmp_path: Path) -> None:
    paths = tiny.write_project(tmp_path)
    paths.shards.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="dvc repro extract"):
        profile(paths.params)
