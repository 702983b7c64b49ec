"""Study of glosses to German text on PHOENIX-2014T.

The stage scores in one way. Papers on this corpus print another, which lower-cases and takes the
text as it is tokenised, so here every sentence is scored again in both.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from signloom.evaluation.evaluate import seed_name
from signloom.evaluation.metric_names import MAIN_METRICS, Metric, System
from signloom.evaluation.metrics import ScoreOptions, Tokenizer, score_corpus
from signloom.evaluation.systems import plain_texts
from signloom.features.glosses import split_glosses
from signloom.features.targets import Target
from signloom.tables import read_rows
from signloom.translation.confidence import seed_folders
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator

TOKENIZERS: tuple[Tokenizer, ...] = ("phoenix_legacy", "13a")
SPLITS = ("dev", "test")
FLOORS = (System.BLIND, System.SWAPPED, System.RETRIEVAL)  # columns of hypotheses.tsv
# BLEU-4 of test from glosses, as the papers print it.
PUBLISHED = {"Camgoz et al. (2020)": 24.54, "Yin and Read (2020), STMC-Transformer": 23.3}


def score_seeds(
    checkpoint: Path, evaluation: Path, targets: Sequence[Target], shards: Path
) -> dict[str, Any]:
    """Score every seed's model and the floors in both ways.

    Args:
        checkpoint: Of the first seed, with the others in `seeds/`.
        evaluation: The folder of `evaluate`, whose search is used.
        targets: The whole corpus.
        shards: Its landmarks, without a clip in a text corpus.
    """
    written = json.loads((evaluation / "scores.json").read_text(encoding="utf-8"))
    decoding = DecodingOptions(**written["decoding"])
    base = ScoreOptions(**written["options"]["score"])
    chosen = {split: [t for t in targets if t.split == split] for split in SPLITS}
    folders = (checkpoint, *seed_folders(checkpoint))
    translations = _translate_seeds(folders, chosen, decoding, shards)
    floors = _read_floors(evaluation / "hypotheses.tsv", chosen)
    return {
        "format_version": 1,
        "decoding": written["decoding"],
        "seeds": list(translations),
        "published_test_bleu4": PUBLISHED,
        "unknown_glosses": {s: written["splits"][s].get("unknown_glosses") for s in SPLITS},
        "scores": {
            tokenizer: {
                split: _score_split(
                    {name: texts[split] for name, texts in translations.items()},
                    floors[split],
                    [target.text for target in chosen[split]],
                    replace(base, tokenizer=tokenizer),
                )
                for split in SPLITS
            }
            for tokenizer in TOKENIZERS
        },
    }


def _translate_seeds(
    folders: Sequence[Path],
    chosen: Mapping[str, Sequence[Target]],
    decoding: DecodingOptions,
    shards: Path,
) -> dict[str, dict[str, list[str]]]:
    """Return each seed's sentences by split."""
    by_seed = {}
    for translator in map(Translator.load, folders):
        texts = {}
        for split, targets in chosen.items():
            sources = translator.source.read(targets, shards)
            inputs = [sources[target.clip_id] for target in targets]
            texts[split] = plain_texts(translator.translate(inputs, decoding))
        by_seed[seed_name(translator.spec.provenance)] = texts
    return by_seed


def _read_floors(
    path: Path, chosen: Mapping[str, Sequence[Target]]
) -> dict[str, dict[str, list[str]]]:
    """Return split to floor to a sentence a clip; the glosses themselves are one of them."""
    rows = {row["clip_id"]: row for row in read_rows(path)}
    floors: dict[str, dict[str, list[str]]] = {
        split: {name: [rows[t.clip_id][name] for t in targets] for name in FLOORS}
        for split, targets in chosen.items()
    }
    for split, targets in chosen.items():
        floors[split][System.COPY] = [" ".join(split_glosses(target.gloss)) for target in targets]
    return floors


def _score_split(
    translations: Mapping[str, list[str]],
    floors: Mapping[str, list[str]],
    refs: list[str],
    options: ScoreOptions,
) -> dict[str, Any]:
    scored = {name: score_corpus(texts, refs, options) for name, texts in translations.items()}
    values = {m: [round(scores[m].value, 2) for scores in scored.values()] for m in MAIN_METRICS}
    first = next(iter(scored.values()))[Metric.BLEU4]
    return {
        "signature": first.signature,
        **{
            metric: {
                "each": by_seed,
                "mean": round(mean(by_seed), 2),
                "std": round(stdev(by_seed), 2) if len(by_seed) > 1 else None,
            }
            for metric, by_seed in values.items()
        },
        "bleu4_interval_of_the_first": [round(first.low, 2), round(first.high, 2)],
        "floors_bleu4": {
            name: round(score_corpus(texts, refs, options)[Metric.BLEU4].value, 2)
            for name, texts in floors.items()
        },
    }
