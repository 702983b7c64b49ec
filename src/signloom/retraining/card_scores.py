"""The scores of an evaluation come in, the part of a model card that tells them goes out."""

from collections.abc import Iterator, Mapping
from typing import Any

from signloom.retraining.card_tables import escape, table

METRICS = {"bleu4": "BLEU-4", "chrf": "chrF", "wer": "WER, %", "cer": "CER, %"}
SYSTEMS = {
    "model": "**this model**",
    "greedy": "this model, greedy search",
    "retrieval": "floor: nearest training clip",
    "constant": "floor: best constant sentence",
    "random": "floor: random training sentence",
    "copy": "floor: the glosses themselves",
    "blind": "control: sees nothing",
    "swapped": "control: sees another clip",
}
SLICES = {
    "sentence": "sentence",
    "words": "words in the sentence",
    "signer": "signer",
    "hands": "frames with a hand",
    "fps": "frames a second",
}
FEW_CLIPS = 20  # fewer say little


def tell_scores(scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield the scores of each split with intervals, floors, slices, and how was searched.

    Args:
        scores: The scores.json of an evaluation.
    """
    yield "## Scores\n"
    yield "In brackets the 95 % interval of a bootstrap over clips.\n"
    for split in sorted(scores["splits"], reverse=True):  # test before dev
        yield from _split(split, scores["splits"][split])
    if seeds := scores.get("seeds"):
        yield from _seeds(seeds)
    said = ", ".join(f"{name} {value}" for name, value in scores["decoding"].items())
    yield f"Search: {said}; weights in {scores['options']['precision']}.\n"


def _split(split: str, found: Mapping[str, Any]) -> Iterator[str]:
    missing = f"; {len(found['missing'])} without landmarks" if found["missing"] else ""
    yield f"### {split}: {found['clips']} clips{missing}\n"
    systems = found["systems"]
    rows = [
        [name, *(_interval(systems[system][metric]) for metric in METRICS)]
        for system, name in SYSTEMS.items()
        if system in systems
    ]
    yield from table(["system", *METRICS.values()], rows)
    if hallucination := found.get("hallucination"):
        yield f"{hallucination['text']}\n"
    slices = [
        [
            SLICES[kind], escape(row["group"]), row["clips"],
            *(_interval(_of(row, metric)) for metric in ("bleu4", "chrf", "wer")),
        ]
        for kind in SLICES
        for row in found["breakdowns"].get(kind, [])
    ]  # fmt: skip
    if slices:
        yield from table(["slice", "", "clips", "BLEU-4", "chrF", "WER, %"], slices)
    if any(row[2] < FEW_CLIPS for row in slices):
        yield (
            f"Slices of fewer than {FEW_CLIPS} clips say little; their intervals are too narrow. "
            "BLEU-4 of sentences under four words is 0 by its definition.\n"
        )
    yield f"BLEU-4: `{systems['model']['bleu4']['signature']}`.\n"


def _seeds(seeds: Mapping[str, Any]) -> Iterator[str]:
    yield f"### Over the seeds {', '.join(seeds['names'])}\n"
    rows = [
        [split, *(f"{m['mean']:.1f} ± {m['std']:.1f}" for m in metrics.values())]
        for split, metrics in sorted(seeds["splits"].items(), reverse=True)
    ]
    names = next(iter(seeds["splits"].values()))
    header = ["split", *(METRICS.get(name, name) for name in names)]
    yield from table(header, rows)
    yield "Mean and standard deviation; the tables above are the first seed's.\n"


def _of(row: Mapping[str, Any], metric: str) -> dict[str, float]:
    return {"value": row[metric], "low": row[f"{metric}_low"], "high": row[f"{metric}_high"]}


def _interval(score: Mapping[str, float]) -> str:
    return f"{score['value']:.1f} [{score['low']:.1f}, {score['high']:.1f}]"
