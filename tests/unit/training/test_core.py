"""The training core can be carried to any machine with torch: no DVC, MLflow or MediaPipe."""

import grimp


def test_the_training_core_imports_none_of_them() -> None:
    graph = grimp.build_graph("signloom", include_external_packages=True)
    reached = graph.find_upstream_modules("signloom.training.train")
    assert {"torch", "signloom.models.registry"} <= reached
    assert not reached & {"dvc", "mlflow", "mediapipe", "optuna", "cv2", "matplotlib", "sacrebleu"}
