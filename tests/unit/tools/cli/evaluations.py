"""Files of an evaluation as its stage writes them."""

import json
from pathlib import Path
from typing import Any


def metrics_file(
    folder: Path,
    bleu: float,
    *,
    clips: int = 4,
    floors: dict[str, float] | None = None,
    split: dict[str, Any] | None = None,
    headline: str = "bleu4",
    seeds: dict[str, Any] | None = None,
    **extra: str,
) -> Path:
    """Write metrics.json with more keys, and scores.json with more of a split; return the first."""
    values = {"bleu4": bleu, "bleu1": 90.0, "chrf": 85.0, "wer": 9.5, "cer": 5.0, "exact": 60.0}
    every = {"model": values} | {
        name: dict.fromkeys(values, value)
        for name, value in ({"constant": 3.25, "blind": 2.0} | (floors or {})).items()
    }
    systems = {
        name: {
            metric: {"value": value, "low": value, "high": value, "signature": "nrefs:1|..."}
            for metric, value in scores.items()
        }
        for name, scores in every.items()
    }
    of_split = {
        "clips": clips,
        "missing": [],
        "constant_sentence": "",
        "input_check": None,
        "breakdowns": {},
        "systems": systems,
        **(split or {}),
    }
    content = {
        "format_version": 2,
        "headline": headline,
        "options": {"score": {}, "precision": "float32"},
        "decoding": {"beam_size": 1, "length_penalty": 1.0},
        "grid": [],
        "seeds": seeds,
        "splits": {"dev": of_split, "test": of_split},
    }
    (folder / "evaluation").mkdir(exist_ok=True)
    (folder / "evaluation/scores.json").write_text(json.dumps(content))
    path = folder / "metrics.json"
    metrics = {
        "clips": clips,
        "signature": "nrefs:1",
        "headline": headline,
        "wer": 9.5,
        headline: values[headline],
        **extra,
    }
    path.write_text(json.dumps({"test": metrics}))
    return path
