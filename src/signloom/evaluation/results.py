"""The files of an evaluation: metrics.json, hypotheses, breakdowns, alignments."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.config import check_shape, read_json
from signloom.evaluation.evaluate import Evaluation
from signloom.evaluation.metrics import count_confusions, sentence_scores
from signloom.evaluation.names import MAIN_METRICS, Metric, System, rounded
from signloom.evaluation.records import EPOCHS
from signloom.evaluation.stress import StressRow
from signloom.evaluation.summary import COLUMNS, KINDS
from signloom.files import whole_file, write_file
from signloom.paths import HYPOTHESES_NAME, SCORES_NAME
from signloom.tables import write_rows
from signloom.translation.confidence import CONFIDENCE, write_confidence
from signloom.translation.translator import Alignment

FORMAT_VERSION = 2  # of scores.json and, with it, of the tables beside it
ALIGNMENTS_VERSION = 2  # report/attention.py reads it: studies draw with it and reach no evaluation
GRID = ("beam_size", "length_penalty", "score", "bleu4", "exact", "wer", "chosen")
CONFUSIONS = ("split", "kind", "reference", "hypothesis", "count")
STRESS = ("name", *(field.name for field in fields(StressRow)))
PARTS = ("encoder", "decoder", "cross")
SCHEMA = pa.schema(
    [
        ("clip_id", pa.string()),
        ("tokens", pa.list_(pa.string())),  # of the translation; see `Alignment`
        ("step_s", pa.float64()),
        ("weights", pa.list_(pa.uint8())),  # T x M, row by row, in 255ths
        ("source", pa.list_(pa.string())),  # the glosses at the M positions; empty: moments
        # Of a few clips; empty for the others and where a model has none.
        ("heads", pa.int64()),
        ("encoder", pa.list_(pa.float32())),  # layers x heads x M x M
        ("decoder", pa.list_(pa.float32())),  # layers x heads x T x T
        ("cross", pa.list_(pa.float32())),  # layers x heads x T x M
    ],
    metadata={"signloom.format_version": str(ALIGNMENTS_VERSION)},
)


def write_evaluation(reports: Path, evaluation: Evaluation, history: Path) -> None:
    """Write every file of the stage; without clock values, so that equal runs give equal bytes.

    Args:
        reports: The folder `reports`.
        evaluation: What to write.
        history: Training's `history.json`; its epochs become a table for `dvc plots`.

    Raises:
        UserError: If there is no history.
    """
    folder = reports / "evaluation"
    headline = evaluation.headline
    grid = [
        {name: int(v) if isinstance(v, bool) else v for name, v in rounded(asdict(row)).items()}
        for row in evaluation.grid
    ]
    for row in grid:
        row["score"] = row[headline]
    splits = {split: found.to_map() for split, found in evaluation.splits.items()}
    stress = [rounded(asdict(row)) for row in evaluation.stress]
    scores = {
        "format_version": FORMAT_VERSION,
        "corpus": evaluation.corpus,
        "headline": str(headline),
        "options": asdict(evaluation.options),
        "decoding": asdict(evaluation.decoding),
        "grid": grid,
        "splits": splits,
        "seeds": evaluation.seeds.to_map() if evaluation.seeds else None,
        "confidence": {split: found.to_map() for split, found in evaluation.reliability.items()},
        "stress": stress,
        "recognition": {split: one.to_map() for split, one in evaluation.recognition.items()},
    }
    _write_json(folder / SCORES_NAME, scores)
    write_confidence(folder / CONFIDENCE, evaluation.confidence)
    write_rows(folder / HYPOTHESES_NAME, hypothesis_rows(evaluation))
    if evaluation.recognition:
        write_rows(folder / "signs.tsv", _sign_rows(evaluation))
    write_rows(folder / "systems.csv", _system_rows(splits, headline))
    write_rows(folder / "grid.csv", grid, columns=GRID)
    named = [{"name": f"{row['split']} {row['change']}", **row} for row in stress]
    write_rows(folder / "stress.csv", named, columns=STRESS)
    write_rows(folder / "confusions.csv", _confusion_rows(evaluation), columns=CONFUSIONS)
    write_alignments(folder / "alignments.parquet", evaluation.alignments)
    for kind in KINDS:
        if any(kind in found["breakdowns"] for found in splits.values()):
            rows = _breakdown_rows(splits, kind)
            write_rows(folder / f"by_{kind}.csv", rows, columns=("name", "split", *COLUMNS))
    hint = "run `dvc repro train` again"
    epochs = check_shape(read_json(history, hint=hint), EPOCHS, where=history, hint=hint)["epochs"]
    write_rows(folder / "curves.csv", (rounded(epoch, 6) for epoch in epochs))
    # Last: who sees the metrics may rely on the rest.
    _write_json(reports / "metrics.json", evaluation.metrics)


def hypothesis_rows(evaluation: Evaluation) -> Iterable[dict[str, Any]]:
    """Yield one row a clip: reference, sentences of the systems, scores of the model's."""
    for result in evaluation.results:
        singly = sentence_scores(evaluation.counts[result.split][System.MODEL])
        checks = evaluation.reliability[result.split].checks
        for row, (target, facts, translation, check) in enumerate(
            zip(result.targets, result.facts, result.translations, checks, strict=True)
        ):
            texts = {system: every[row] for system, every in result.texts.items()}
            yield rounded(
                {
                    "clip_id": target.clip_id,
                    "split": result.split,
                    "signer": target.signer,
                    "seen_in_train": int(target.text in evaluation.train_texts),
                    "reference": target.text,
                    "hypothesis": texts[System.MODEL],
                    "greedy": texts[System.GREEDY],
                    "blind": texts[System.BLIND],
                    "swapped": texts.get(System.SWAPPED, ""),
                    "retrieval": texts[System.RETRIEVAL],
                    "linear": texts.get(System.LINEAR, ""),
                    "bleu": float(singly[Metric.BLEU4][row]),
                    "chrf": float(singly[Metric.CHRF][row]),
                    "wer": float(singly[Metric.WER][row]),
                    "exact": int(singly[Metric.EXACT][row] > 0),
                    "hands": "" if facts.hands is None else facts.hands,
                    "fps": "" if facts.fps is None else facts.fps,
                    "seconds": "" if facts.seconds is None else facts.seconds,
                    "log_prob": translation.hypothesis.log_prob,
                    "score": translation.hypothesis.score,
                    "tokens": len(translation.hypothesis.tokens),
                    "confidence": "" if check.confidence is None else check.confidence,
                    "familiar": "" if check.unlike is None else int(not check.unlike),
                    **{name: float(singly[name][row]) for name in evaluation.options.commands},
                    **({} if result.source.has_frames else {"gloss": target.gloss}),
                }
            )


def _sign_rows(evaluation: Evaluation) -> Iterable[dict[str, Any]]:
    """Yield one row a clip: its glosses, those that were read, when, and how sure."""
    for split, found in evaluation.recognition.items():
        rows = zip(found.targets, found.signs, found.each.tolist(), strict=True)
        for target, signs, wer in rows:
            yield {
                "clip_id": target.clip_id,
                "split": split,
                "signer": target.signer,
                "reference": " ".join(target.gloss.split()),
                "signs": " ".join(sign.gloss for sign in signs),
                "wer": rounded(wer),
                "spans_s": " ".join(f"{sign.start_s:.2f}-{sign.end_s:.2f}" for sign in signs),
                "posteriors": " ".join(f"{sign.posterior:.3f}" for sign in signs),
            }


def _system_rows(splits: Mapping[str, Any], headline: Metric) -> Iterable[dict[str, Any]]:
    for split, found in splits.items():
        for system, scores in found["systems"].items():
            first, shown = scores[headline], dict.fromkeys((*MAIN_METRICS, Metric.CER))
            yield {
                "name": f"{split} {system}",  # what `dvc plots` puts on its axis
                "split": split,
                "system": system,
                "metric": str(headline),
                "score": first["value"],
                "score_low": first["low"],
                "score_high": first["high"],
                **{name: scores[name]["value"] for name in shown},
            }


def _confusion_rows(evaluation: Evaluation) -> Iterable[dict[str, Any]]:
    for result in evaluation.results:
        refs = [target.text for target in result.targets]
        for found in count_confusions(result.texts[System.MODEL], refs, evaluation.options.score):
            yield {"split": result.split, **asdict(found)}


def _breakdown_rows(splits: Mapping[str, Any], kind: str) -> Iterable[dict[str, Any]]:
    for split, found in splits.items():
        for row in found["breakdowns"].get(kind, []):
            yield {"name": f"{split} {row['group']}", "split": split, **row}


def write_alignments(path: Path, alignments: Mapping[str, Alignment]) -> None:
    """Write one row a clip; no rows for a model without attention."""
    nothing = np.zeros(0, np.float32)
    rows = [
        {
            "clip_id": clip_id,
            "tokens": list(alignment.tokens),
            "step_s": alignment.step_s,
            "weights": np.rint(alignment.weights * 255).astype(np.uint8).ravel(),
            "source": list(alignment.source),
            "heads": next((part.shape[1] for part in alignment.maps.values()), 0),
            **{name: alignment.maps.get(name, nothing).ravel() for name in PARTS},
        }
        for clip_id, alignment in alignments.items()
    ]
    with whole_file(path) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), temporary, compression="zstd")


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_file(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
