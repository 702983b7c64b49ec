"""A checkpoint and a corpus come in; reports/metrics.json and reports/evaluation/ go out."""

import csv
import io
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from signloom.config import UserError
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.targets import Target
from signloom.decoding import DecodingOptions
from signloom.evaluation.alignments import write_alignments
from signloom.evaluation.summary import DECIMALS, headline, summarise
from signloom.evaluation.systems import SplitResult, run_systems
from signloom.metrics import ScoreOptions, sentence_scores
from signloom.reproducibility import write_atomically
from signloom.translator import Alignment, Translator

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1  # of scores.json and, with it, of the tables beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The section `evaluate` of params.yaml."""

    decoding: DecodingOptions  # how the model searches
    score: ScoreOptions  # how what it finds is scored


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Evaluation:
    """What the systems said and what it is worth."""

    options: EvaluateOptions
    results: list[SplitResult]
    splits: dict[str, Any]  # see `summarise`
    train_texts: frozenset[str]
    alignments: dict[str, Alignment]  # by clip id; empty for a model without attention

    @property
    def metrics(self) -> dict[str, Any]:
        """The headline numbers, as in reports/metrics.json."""
        return headline(self.splits)


def describe(translator: Translator, options: EvaluateOptions) -> str:
    """Return a name by which a person tells this evaluation from others."""
    model = translator.spec.model
    return (
        f"{model.family} {model.encoder_layers}+{model.decoder_layers}x{model.d_model} "
        f"{model.norm}-norm, beam {options.decoding.beam_size}"
    )


def evaluate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, LandmarkSequence],
    options: EvaluateOptions,
) -> Evaluation:
    """Translate dev and test from landmarks alone and score the sentences.

    No reference ever reaches the model: what is scored is what it writes by itself.

    Args:
        translator: The trained model.
        targets: The whole corpus.
        sequences: Clip id to landmarks, of all splits.
        options: Search and scoring.
    """
    results = run_systems(translator, targets, sequences, options.decoding, options.score)
    train_texts = frozenset(target.text for target in targets if target.split == "train")
    splits = summarise(results, sorted(train_texts), options.score)
    return Evaluation(
        options=options,
        results=results,
        splits=splits,
        train_texts=train_texts,
        alignments=_align(translator, results, sequences),
    )


def _align(
    translator: Translator,
    results: Sequence[SplitResult],
    sequences: Mapping[str, LandmarkSequence],
) -> dict[str, Alignment]:
    """Ask where the model looked while it wrote each translation."""
    found: dict[str, Alignment] = {}
    for result in results:
        clips = [sequences[target.clip_id] for target in result.targets]
        try:
            aligned = translator.align(clips, result.translations)
        except ValueError as error:
            logger.info("no alignments: %s", error)
            return {}
        found |= {
            target.clip_id: alignment
            for target, alignment in zip(result.targets, aligned, strict=True)
        }
    return found


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
    scores = {
        "format_version": FORMAT_VERSION,
        "options": asdict(evaluation.options),
        "splits": evaluation.splits,
    }
    _write_json(folder / "scores.json", scores)
    _write_table(folder / "hypotheses.tsv", hypothesis_rows(evaluation))
    _write_table(folder / "systems.csv", _system_rows(evaluation))
    write_alignments(folder / "alignments.parquet", evaluation.alignments)
    for kind in ("sentence", "words", "signer"):
        _write_table(folder / f"by_{kind}.csv", _breakdown_rows(evaluation, kind))
    if not history.is_file():
        raise UserError(f"{history} does not exist; run `dvc repro train` first")
    epochs = json.loads(history.read_text(encoding="utf-8"))["epochs"]
    _write_table(folder / "curves.csv", (_rounded(epoch, digits=6) for epoch in epochs))
    # Last: who sees the metrics may rely on the rest.
    _write_json(reports / "metrics.json", evaluation.metrics)


def hypothesis_rows(evaluation: Evaluation) -> Iterable[dict[str, Any]]:
    """Yield one row a clip: reference, what the systems said, and how far off the model is."""
    for result in evaluation.results:
        for row, (target, translation) in enumerate(
            zip(result.targets, result.translations, strict=True)
        ):
            said = {system: texts[row] for system, texts in result.texts.items()}
            bleu, wer = sentence_scores(said["model"], target.text, evaluation.options.score)
            yield _rounded(
                {
                    "clip_id": target.clip_id,
                    "split": result.split,
                    "signer": target.signer,
                    "seen_in_train": int(target.text in evaluation.train_texts),
                    "reference": target.text,
                    "hypothesis": said["model"],
                    "greedy": said["greedy"],
                    "blind": said["blind"],
                    "retrieval": said["retrieval"],
                    "bleu": bleu,
                    "wer": wer,
                    "log_prob": translation.hypothesis.log_prob,
                    "score": translation.hypothesis.score,
                    "tokens": len(translation.hypothesis.tokens),
                }
            )


def _system_rows(evaluation: Evaluation) -> Iterable[dict[str, Any]]:
    for split, found in evaluation.splits.items():
        for system, scores in found["systems"].items():
            bleu = scores["bleu4"]
            yield {
                "name": f"{split} {system}",  # what `dvc plots` puts on its axis
                "split": split,
                "system": system,
                "bleu4": bleu["value"],
                "bleu4_low": bleu["low"],
                "bleu4_high": bleu["high"],
                **{name: scores[name]["value"] for name in ("chrf", "wer", "cer")},
            }


def _breakdown_rows(evaluation: Evaluation, kind: str) -> Iterable[dict[str, Any]]:
    for split, found in evaluation.splits.items():
        for row in found["breakdowns"][kind]:
            yield {"name": f"{split} {row['group']}", "split": split, **row}


def _rounded(row: Mapping[str, Any], *, digits: int = DECIMALS) -> dict[str, Any]:
    return {k: round(v, digits) if isinstance(v, float) else v for k, v in row.items()}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def _write_table(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows that share their keys; a .tsv is written without quotes, as it has no tabs."""
    rows = list(rows)
    text = io.StringIO()
    if path.suffix == ".tsv":
        lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
        text.writelines("\t".join(line) + "\n" for line in lines)
    else:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_atomically(path, text.getvalue())
