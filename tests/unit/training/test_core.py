"""The training core can be carried to any machine with torch: no DVC, MLflow or MediaPipe."""

import os
import subprocess
import sys

import grimp
import pytest

from tests.tiny import ROOT

TRAIN = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"dvc", "mlflow", "mediapipe"}:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

sys.meta_path.insert(0, Missing())
from signloom.training.run import train
needed = {name.partition(".")[0] for name in sys.modules}
assert not needed & {"optuna", "cv2", "matplotlib", "sacrebleu"}, needed

from tests import tiny
_, fit = train(
    tiny.training_data(), tiny.run_options(epochs=1), provenance={}, log=lambda record: None
)
print(fit.history[0].step, "steps")
"""


def test_the_training_core_imports_none_of_them() -> None:
    graph = grimp.build_graph("signloom", include_external_packages=True)
    reached = graph.find_upstream_modules("signloom.training.run")
    assert {"torch", "signloom.models.registry"} <= reached
    assert not reached & {"dvc", "mlflow", "mediapipe", "optuna", "cv2", "matplotlib", "sacrebleu"}


@pytest.mark.slow
def test_two_steps_are_trained_where_dvc_mlflow_and_mediapipe_are_missing() -> None:
    """Quick twin: test_the_training_core_imports_none_of_them."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", TRAIN], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 steps\n"
