"""The files of an evaluation: metrics.json, hypotheses, breakdowns, alignments."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from signloom.config import check_shape, read_json
from signloom.evaluation.evaluate import Evaluation
from signloom.evaluation.metric_names import MAIN_METRICS, Metric, System, rounded
from signloom.evaluation.metrics import count_confusions, sentence_scores
from signloom.evaluation.schemas import EPOCHS
from signloom.evaluation.stress import StressRow
from signloom.evaluation.summary import COLUMNS, KINDS, SplitEvaluation
from signloom.files import hash_file, to_sealed, write_file
from signloom.paths import HYPOTHESES_NAME, SCORES_NAME, SEED_COLUMN, SIGNS_NAME
from signloom.tables import write_parquet, write_rows
from signloom.translation.confidence import CONFIDENCE, write_confidence
from signloom.translation.translator import Alignment

FORMAT_VERSION = 2  # of scores.json and, with it, of the tables next to it
ALIGNMENTS_VERSION = 2  # report/attention.py reads it: studies draw with it and reach no evaluation
GRID = ("beam_size", "length_penalty", "score", "bleu4", "exact", "wer", "chosen")
CONFUSIONS = ("split", "kind", "reference", "hypothesis", "count")
STRESS = ("name", *(field.name for field in fields(StressRow)))
PARTS = ("encoder", "decoder", "cross")
# Columns of hypotheses.tsv; empty where a system has no sentence.
SHOWN_SYSTEMS = (System.GREEDY, System.BLIND, System.SWAPPED, System.RETRIEVAL, System.LINEAR)
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
        history: Training's `history.json`; its epochs become a table for `dvc plots`.

    Raises:
        UserError: If there is no history.
    """
    folder, splits = reports / "evaluation", evaluation.splits
    write_confidence(folder / CONFIDENCE, evaluation.confidence)
    write_rows(folder / "grid.csv", evaluation.grid, columns=GRID)
    tables = {}
    for name, (rows_of, columns) in TABLES.items():
        rows = [row for split in splits.values() for row in rows_of(split, evaluation)]
        if rows or columns:
            write_rows(folder / name, rows, columns=columns)
            tables[name] = hash_file(folder / name)
    scores = {**_scores(evaluation), "tables": tables}
    write_file(folder / SCORES_NAME, to_sealed(scores, indent=2))
    for kind in KINDS:
        if any(kind in evaluation.breakdowns for evaluation in splits.values()):
            rows = [row for split in splits.values() for row in _breakdown_rows(split, kind)]
            write_rows(folder / f"by_{kind}.csv", rows, columns=("name", "split", *COLUMNS))
    alignments = {
        name: alignment for split in splits.values() for name, alignment in split.alignments.items()
    }
    write_alignments(folder / "alignments.parquet", alignments)
    hint = "run `dvc repro train` again"
    epochs = check_shape(read_json(history, hint=hint), EPOCHS, where=history, hint=hint)["epochs"]
    write_rows(folder / "curves.csv", (rounded(epoch, 6) for epoch in epochs))
    # Last: who sees the metrics may rely on the rest.
    metrics = json.dumps(evaluation.metrics, ensure_ascii=False, indent=2)  # as DVC reads it
    write_file(reports / "metrics.json", metrics + "\n")


def _scores(evaluation: Evaluation) -> dict[str, Any]:
    """Return the content of scores.json."""
    splits, seeds = evaluation.splits, None
    scored = {
        split: split_evaluation.seeds
        for split, split_evaluation in splits.items()
        if split_evaluation.seeds
    }
    if scored:
        seeds = {
            "names": evaluation.seeds,
            "splits": {
                split: {str(name): seed_scores.spread(name) for name in MAIN_METRICS}
                for split, seed_scores in scored.items()
            },
            "together": {
                split: {str(name): score.to_map() for name, score in seed_scores.together.items()}
                for split, seed_scores in scored.items()
            },
        }
    return {
        "format_version": FORMAT_VERSION,
        "corpus": evaluation.corpus,
        "headline": str(evaluation.headline),
        "options": asdict(evaluation.options),
        "decoding": asdict(evaluation.decoding),
        "grid": evaluation.grid,
        "splits": {split: split_evaluation.to_map() for split, split_evaluation in splits.items()},
        "seeds": seeds,
        "confidence": {
            split: split_evaluation.reliability.to_map()
            for split, split_evaluation in splits.items()
        },
        "stress": [
            rounded(asdict(row))
            for split_evaluation in splits.values()
            for row in split_evaluation.stress
        ],
        "recognition": {
            split: split_evaluation.recognition.to_map()
            for split, split_evaluation in splits.items()
            if split_evaluation.recognition
        },
        **({"exchanged": evaluation.exchanged} if evaluation.exchanged else {}),
    }


def hypothesis_rows(split: SplitEvaluation, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """Yield one row a clip: reference, sentences of the systems, scores of the model's."""
    result, singly = split.result, sentence_scores(split.counts[System.MODEL])
    further = {}  # of the seeds after the first, where the score is the mean of all
    if split.seeds and not evaluation.options.together:
        further = dict(zip(evaluation.seeds[1:], split.seeds.texts[1:], strict=True))
    clips = zip(
        result.targets, result.facts, result.translations, split.reliability.checks, strict=True
    )
    for row, (target, facts, translation, check) in enumerate(clips):
        texts = {system: every[row] for system, every in result.texts.items()}
        hypothesis = translation.hypothesis
        yield rounded(
            {
                "clip_id": target.clip_id,
                "split": result.split,
                "signer": target.signer,
                "seen_in_train": int(facts.is_seen),
                "reference": target.text,
                "hypothesis": texts[System.MODEL],
                **{f"{SEED_COLUMN}{name}": every[row] for name, every in further.items()},
                **{str(system): texts.get(system, "") for system in SHOWN_SYSTEMS},
                "bleu": float(singly[Metric.BLEU4][row]),
                "chrf": float(singly[Metric.CHRF][row]),
                "wer": float(singly[Metric.WER][row]),
                "exact": int(singly[Metric.EXACT][row] > 0),
                **{name: _or_empty(getattr(facts, name)) for name in ("hands", "fps", "seconds")},
                "log_prob": hypothesis.log_prob,
                "score": hypothesis.score,
                "tokens": len(hypothesis.tokens),
                "confidence": _or_empty(check.confidence),
                "familiar": "" if check.unlike is None else int(not check.unlike),
                **({} if result.source.has_frames else {"gloss": target.gloss}),
            }
        )


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


def _sign_rows(split: SplitEvaluation, _: Evaluation) -> Iterator[dict[str, Any]]:
    """Yield one row a clip: its glosses, those that were read, when, and how sure."""
    read = split.recognition
    for target, signs, wer in zip(read.targets, read.signs, read.each, strict=True) if read else ():
        yield {
            "clip_id": target.clip_id,
            "split": split.result.split,
            "signer": target.signer,
            "reference": " ".join(target.gloss.split()),
            "signs": " ".join(sign.gloss for sign in signs),
            "wer": rounded(wer),
            "spans_s": " ".join(f"{sign.start_s:.2f}-{sign.end_s:.2f}" for sign in signs),
            "posteriors": " ".join(f"{sign.posterior:.3f}" for sign in signs),
        }


def _system_rows(evaluated: SplitEvaluation, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    split, headline = evaluated.result.split, evaluation.headline
    for system, scores in evaluated.systems.items():
        shown = dict.fromkeys((*MAIN_METRICS, Metric.CER))
        yield {
            "name": f"{split} {system}",  # what `dvc plots` puts on its axis
            "split": split,
            "system": system,
            "metric": str(headline),
            **scores[headline].named("score"),
            **{name: rounded(scores[name].value) for name in shown},
        }


def _stress_rows(split: SplitEvaluation, _: Evaluation) -> Iterator[dict[str, Any]]:
    for row in split.stress:
        yield {"name": f"{row.split} {row.change}", **rounded(asdict(row))}


def _confusion_rows(split: SplitEvaluation, evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    texts, refs = split.result.texts[System.MODEL], split.result.refs
    for confusion in count_confusions(texts, refs, evaluation.options.score):
        yield {"split": split.result.split, **asdict(confusion)}


def _breakdown_rows(evaluated: SplitEvaluation, kind: str) -> Iterator[dict[str, Any]]:
    split = evaluated.result.split
    for group in evaluated.breakdowns.get(kind, []):
        yield {"name": f"{split} {group.group}", "split": split, **group.to_map()}


Rows = Callable[[SplitEvaluation, Evaluation], Iterable[dict[str, Any]]]
# For each table, the function that yields a split's rows, and its columns; where these are None, a
# table without rows is not written.
TABLES: dict[str, tuple[Rows, Sequence[str] | None]] = {
    HYPOTHESES_NAME: (hypothesis_rows, None),
    SIGNS_NAME: (_sign_rows, None),
    "systems.csv": (_system_rows, None),
    "stress.csv": (_stress_rows, STRESS),
    "confusions.csv": (_confusion_rows, CONFUSIONS),
}


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
    write_parquet(path, pa.Table.from_pylist(rows, schema=SCHEMA))
