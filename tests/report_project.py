"""A small project as the stages leave it for the report, with text of all kinds."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from signloom.corpus.landmark_folder import write_rejects
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import write_shards
from signloom.evaluation.metric_names import MAIN_METRICS, Metric
from signloom.evaluation.metrics import ScoreOptions
from signloom.evaluation.results import write_alignments
from signloom.features.targets import Target, write_targets
from signloom.report.build import ReportOptions
from signloom.report.stage_files import ReportPaths
from signloom.translation.translator import Alignment

OPTIONS = ReportOptions(title="Signs <of> life")
SCORE = ScoreOptions(tokenizer="13a", resamples=1000, seed=1)
EVIL = '<script>alert("1 & 2")</script>'
TEXTS = {
    "train": ["je vais à la maison", "elle mange une pomme", "demain tu viens"],
    "dev": ["je vais à la maison"],
    "test": ["demain tu viens", "elle mange à la gare", EVIL, "هي تأكل تفاحة", "je vais là"],
}
SAID = {
    "dev0": "je vais à la maison",
    "test0": "demain tu viens",
    "test1": "elle mange la grande gare",
    "test2": EVIL,
    "test3": "هي تأكل",
    "test4": "",
}


def targets() -> list[Target]:
    return [
        Target(
            clip_id=f"{split}{i}",
            split=split,
            signer=f"{split}-signer",
            text=text,
            ids=[0],
            gloss="",
            labels=[],
        )
        for split, texts in TEXTS.items()
        for i, text in enumerate(texts)
    ]


def sequence(seed: int, frames: int = 20) -> LandmarkSequence:
    rng = np.random.default_rng(seed)
    points = rng.random((frames, HANDS_POSE.points, 3), dtype=np.float32)
    present = np.ones((frames, 3), dtype=np.bool_)
    present[3:9, 0] = False
    for column, name in enumerate(HANDS_POSE.group_names):
        points[~present[:, column], HANDS_POSE.slice(name)] = np.nan
    points = points.astype(np.float16).astype(np.float32)
    return LandmarkSequence(points=points, present=present, fps=25.0, width=320, height=240)


def score(value: float, *, spread: float = 5.0) -> dict[str, Any]:
    return {"value": value, "low": value - spread, "high": value + spread, "signature": "a|b:1"}


def split_scores(split: str, model: float) -> dict[str, Any]:
    values = {
        "model": model,
        "greedy": model - 1,
        "blind": 8.0,
        "swapped": 12.0,
        "retrieval": 20.0,
        "constant": 10.0,
        "random": 2.0,
    }
    row: dict[str, Any] = {"clips": 1}
    for metric in MAIN_METRICS:
        row |= {metric: 50.0, f"{metric}_low": 40.0, f"{metric}_high": 60.0}
    return {
        "clips": len(TEXTS[split]),
        "missing": [],
        "constant_sentence": "demain tu viens",
        "systems": {name: {m: score(value) for m in Metric} for name, value in values.items()},
        "breakdowns": {
            "sentence": [{"group": "seen in train", **row}, {"group": "unseen", **row}],
            "words": [{"group": "01-03", **row}],
            "signer": [{"group": f"{split}-signer", **row}],
        },
        "input_check": {
            "metric": "chrf",
            "model": model,
            "swapped": 12.0,
            "fall": model - 12,
            "low": 40.0,
            "high": 70.0,
            "p_value": 0.001,
            "uses_input": True,
            "text": f"The {split} video is looked at.",
        },
    }


def search_result(trials: int) -> dict[str, Any]:
    listed = [
        {
            "number": i,
            "state": "PRUNED" if i % 3 == 2 else "COMPLETE",
            "value": 2.0 - 0.1 * i,
            "values": {"dev_loss": 2.0 - 0.1 * i},
            "parameters": 1000.0 * (i + 1),
            "params": {
                "model.d_model": 32 * (i + 1),
                "model.norm": ("pre", "post")[i % 2],
                "train.learning_rate": 10.0 ** (-2 - i),
            },
        }
        for i in range(trials)
    ]
    listed[-1] |= {"value": None, "state": "PRUNED"}
    return {
        "format_version": 2,
        "objective": "dev_loss",
        "objectives": {"dev_loss": "minimize"},
        "best": {**listed[1], "confirmed": []},
        "front": [1],
        "trials": listed,
    }


def alignment(clip_id: str) -> Alignment:
    tokens = (*SAID[clip_id].split(), "")
    weights = np.random.default_rng(len(tokens)).dirichlet(np.ones(8), len(tokens))
    maps = {}
    if clip_id == "test2":  # the one whose text would be a script
        sides = {"encoder": (8, 8), "decoder": (len(tokens),) * 2, "cross": weights.shape}
        maps = {
            name: np.random.default_rng(rows).dirichlet(np.ones(columns), (2, 3, rows))
            for name, (rows, columns) in sides.items()
        }
    return Alignment(
        tokens=tokens,
        step_s=0.1,
        weights=weights.astype(np.float32),
        maps={name: part.astype(np.float32) for name, part in maps.items()},
    )


def write_confusions(path: Path) -> None:
    rows = [
        ("split", "kind", "reference", "hypothesis", "count"),
        ("dev", "substitute", "gare", "guerre", 9),
        ("test", "insert", "", "la", 4),
        ("test", "substitute", "à, peut-être", EVIL, 2),
        ("test", "delete", "تفاحة", "", 1),
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_hypotheses(path: Path) -> None:
    header = [
        "clip_id",
        "split",
        "signer",
        "seen_in_train",
        "reference",
        "hypothesis",
        "retrieval",
        "bleu",
        "wer",
        "log_prob",
    ]
    lines = ["\t".join(header)]
    wers = {"dev0": 0, "test0": 0, "test1": 40, "test2": 0, "test3": 33.3, "test4": 100}
    for clip in targets():
        if clip.clip_id in SAID:
            cells = [
                clip.clip_id,
                clip.split,
                clip.signer,
                "0",
                clip.text,
                SAID[clip.clip_id],
                "demain tu viens",
                "50.0",
                str(wers[clip.clip_id]),
                "-1.5",
            ]
            lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_signs(path: Path) -> None:
    cells = ("test0", "test", "s0", "MOI <b>GARE</b>", "MOI GUERRE<b>", "50.0")
    rows = (
        ("clip_id", "split", "signer", "reference", "signs", "wer", "spans_s", "posteriors"),
        (*cells, "0.10-0.50 0.50-1.25", "0.910 0.425"),
    )
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def recognition() -> dict[str, object]:
    """What scores.json has of the signs of a split."""
    score = {"value": 12.5, "low": 5.0, "high": 20.0, "signature": ""}
    part = {"clips": 3, "gloss_wer": 10.0, "low": 4.0, "high": 18.0}
    return {
        "clips": 5,
        "systems": {"model": score, "blind": {**score, "value": 97.5}},
        "edits": {"substitutions": 7.5, "deletions": 2.5, "insertions": 2.5},
        "seen": part,
        "unseen": {"clips": 0},
        "signers": {"<i>anna": part},
    }


def write_project(root: Path) -> ReportPaths:
    """Write everything that the stages before the report write into an empty folder."""
    paths = ReportPaths(
        evaluation=root / "evaluation",
        tune=root / "tune",
        landmarks=root / "landmarks",
        targets=root / "targets.parquet",
        checkpoint=root / "checkpoint",
    )
    for folder in (paths.evaluation, paths.tune, paths.checkpoint, paths.landmarks):
        folder.mkdir()
    clips = {target.clip_id: sequence(i) for i, target in enumerate(targets())}
    frames = {clip_id: len(clip.points) for clip_id, clip in clips.items()}
    write_shards(
        paths.shards,
        frames,
        clips.__getitem__,
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=1000,
    )
    write_quality(paths.landmarks / "quality.parquet", [measure_quality(*c) for c in clips.items()])
    write_rejects(paths.landmarks / "rejects.tsv", [])
    write_targets(paths.targets, targets())
    write_hypotheses(paths.evaluation / "hypotheses.tsv")
    write_confusions(paths.evaluation / "confusions.csv")
    write_signs(paths.evaluation / "signs.tsv")
    epochs = [
        {"epoch": i, "train_loss": 3 / i, "dev_loss": 2 / i, "dev_accuracy": 0.1 * i, "lr": 0.001}
        for i in range(1, 6)
    ]
    contents = {
        paths.evaluation / "scores.json": {
            "format_version": 2,
            "options": {"score": dataclasses.asdict(SCORE), "precision": "int8"},
            "decoding": {"beam_size": 4, "length_penalty": 1.0, "sign_weight": 0.2},
            "grid": [
                {
                    "beam_size": beam,
                    "length_penalty": penalty,
                    "bleu4": 50.0 + beam + penalty,
                    "wer": 33.0,
                    "chosen": int((beam, penalty) == (4, 1.0)),
                }
                for beam in (1, 4)
                for penalty in (0.5, 1.0)
            ],
            "seeds": {
                "names": ["checkpoint", "2"],
                "splits": {
                    split: {"bleu4": {"mean": 71.5, "std": 12.25, "n": 2, "values": [80.0, 63.0]}}
                    for split in ("dev", "test")
                },
            },
            "recognition": {"test": recognition()},
            "splits": {"dev": split_scores("dev", 90), "test": split_scores("test", 80)},
            "confidence": {
                split: {
                    "calibration_error": 8.25,
                    "unsure": 1,
                    "unfamiliar": 0,
                    "levels": [
                        {"confidence": 0.25, "clips": 1, "right": 0, "low": 0.0, "high": 0.79},
                        {"confidence": 0.9, "clips": 4, "right": 3, "low": 0.3, "high": 0.95},
                    ],
                }
                for split in ("dev", "test")
            },
        },
        paths.checkpoint / "history.json": {"format_version": 1, "best_epoch": 4, "epochs": epochs},
        paths.checkpoint / "checkpoint.json": {
            "format_version": 4,
            "features": {"fps": 15.0, "groups": ["hands"]},
            "model": {
                "family": "transformer",
                "encoder_layers": 1,
                "decoder_layers": 1,
                "d_model": 16,
            },
            "extractor": {"models": {"hand.tflite": "ab12"}},
            "provenance": {
                "data": {"landmarks": "cd34"},
                "libraries": {"torch": "2"},
                "threads": 2,
                "params": {"train": {"seeds": [1]}},
            },
        },
        paths.tune / "trials.json": search_result(6),
    }
    for path, content in contents.items():
        path.write_text(json.dumps(content), encoding="utf-8")
    write_alignments(paths.evaluation / "alignments.parquet", {c: alignment(c) for c in SAID})
    return paths
