"""What a training and an evaluation left comes in, the folder of a version goes out, whole."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.retraining.durable import rename_durably, to_text

CHECKPOINT, EVALUATION, VERSION = "checkpoint", "evaluation", "version.json"


def write_version(
    folder: Path, checkpoint: Path, evaluation: Path, content: Mapping[str, Any]
) -> None:
    """Copy a model with its evaluation; the folder appears by one rename, after all is on the disk.

    Args:
        folder: Of the version; nothing may be there.
        checkpoint: Copied with the further seeds in it.
        evaluation: Copied with the metrics.json beside it, if there is one.
        content: Of version.json.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a run that died
    try:
        shutil.copytree(checkpoint, partial / CHECKPOINT)
        shutil.copytree(evaluation, partial / EVALUATION)
        metrics = evaluation.with_name("metrics.json")
        if metrics.is_file():
            shutil.copy2(metrics, partial / EVALUATION)
        (partial / VERSION).write_text(to_text(content), encoding="utf-8")
        rename_durably(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
