"""Claims of the documents that cost minutes to test, on the demo's trained model.

`python -m studies.claims.run` prints Markdown, in a project whose demo is trained (`make
demo`); half a minute of a CPU. The answers of today are in studies/claims/README.md.
"""

import itertools
import logging
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.words import find_words
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.metric_names import Metric
from signloom.evaluation.metrics import score_corpus
from signloom.features.batches import pad_ids
from signloom.features.targets import Target, read_targets
from signloom.models.attention import MultiHeadAttention
from signloom.models.seq2seq import Seq2Seq
from signloom.paths import CHECKPOINT, PARAMS, SHARDS, TARGETS
from signloom.training.loop import EpochRecord
from signloom.translation.confidence import find_confidence
from signloom.translation.options import DECODING, DecodingOptions
from signloom.translation.search import search
from signloom.translation.translator import Translator
from studies.components.study import without_columns
from studies.reversal.lab import PAD, LabOptions, draw_sequences, read_lab, run_lab

KEYS, DRAWS = 50, 2_000  # of the scores that random vectors give
WIDTHS = (16, 64, 256)
PRONOUNS = frozenset({"je", "j", "tu", "il", "elle", "nous", "vous", "ils", "elles"})
LAB = (
    "model.d_model=64",
    "task.train=3000",
    "task.dev=300",
    "train.epochs=12",
    "train.learning_rate=0.002",
)
logger = logging.getLogger(__name__)


def scale_scores(width: int) -> list[float]:
    """Return variance and entropy of attention's scores, without and with 1 / sqrt(K).

    Returns:
        Variance without, with; perplexity of the attention over `KEYS` keys without, with.
    """
    generator = torch.Generator().manual_seed(width)
    query = torch.randn(DRAWS, 1, width, generator=generator)
    keys = torch.randn(DRAWS, KEYS, width, generator=generator)
    scores = (query * keys).sum(dim=-1)
    variants = [scores, scores / width**0.5]
    weights = [variant.softmax(dim=-1) for variant in variants]
    spread = [float((-(w * w.clamp_min(1e-30).log()).sum(dim=-1)).exp().mean()) for w in weights]
    return [*(float(variant.var()) for variant in variants), *spread]


def measure_distances(
    translator: Translator, clips: Sequence[LandmarkSequence], targets: Sequence[Target]
) -> list[tuple[float, float]]:
    """Return how far each layer of the encoder looks: positions, and share of even attention's."""
    looked, even = [], []
    for clip, target in zip(clips, targets, strict=True):
        src, valid = translator._first.pad([translator.rows(clip)])
        with torch.inference_mode():
            maps = translator._model.attention_maps(src, valid, torch.tensor([target.ids[:-1]]))
        assert maps.encoder is not None
        attention = maps.encoder[0]  # (E, H, M, M)
        places = torch.arange(attention.shape[-1])
        apart = (places[:, None] - places).abs().float()
        looked.append((attention * apart).sum(dim=-1).mean(dim=(1, 2)))
        even.append(float(apart.mean()))
    means = torch.stack(looked).mean(dim=0)
    return [(float(distance), float(distance) / float(np.mean(even))) for distance in means]


def count_disagreement(texts: list[str], train: list[str]) -> tuple[int, int]:
    """Return how many of the texts have a pronoun before a verb that train never has behind it.

    Returns:
        Texts with a word behind a pronoun, and those with a pair that train lacks, both known.
    """
    pairs = {pair for text in train for pair in _pairs(text)}
    verbs = {verb for _, verb in pairs}
    text_pairs = [_pairs(text) for text in texts]
    judged = [[pair for pair in sentence if pair[1] in verbs] for sentence in text_pairs]
    return sum(map(bool, judged)), sum(any(p not in pairs for p in sentence) for sentence in judged)


def compare_teaching(lab: LabOptions) -> list[tuple[float, float, float, float]]:
    """Return after each epoch how well a model goes on from the truth, and from its own words.

    Returns:
        Dev loss in nats, and of dev: share of symbols right behind the true ones, share right in
        their place when the model writes alone, share of sequences right.
    """
    dev = draw_sequences(lab.task, lab.train.seed)["dev"]
    models: list[Seq2Seq] = []
    curve = []

    def follow(record: EpochRecord) -> None:
        model = models[0].eval()
        with torch.inference_mode():
            memory = model.encode(*pad_ids(dev, PAD))
            alone = [best.tokens for best, *_ in search(model, memory, lab.task.ids, lab.decoding)]
        true = [(*reversed(sequence), lab.task.ids.eos) for sequence in dev]
        places = sum(
            a == b
            for written, expected in zip(alone, true, strict=True)
            for a, b in zip(written, expected, strict=False)
        )
        exact = sum(
            written == expected for written, expected in zip(alone, true, strict=True)
        ) / len(dev)
        share = places / sum(map(len, true))
        curve.append((record.dev_loss, record.dev_accuracy, share, exact))

    run_lab(lab, log=follow, prepare=models.append)
    return curve


def _pairs(text: str) -> list[tuple[str, str]]:
    words = [part for word in find_words(text) for part in word.replace("’", "'").split("'")]
    words = [word for word in words if word not in ("ne", "n")]
    return [(a, b) for a, b in itertools.pairwise(words) if a in PRONOUNS]


def main() -> None:
    """Measure and print."""
    translator = Translator.load(CHECKPOINT)
    confidence = find_confidence(CHECKPOINT)
    decoding = (confidence and confidence.decoding) or DECODING
    options = load_section(PARAMS, "evaluate", EvaluateOptions).score
    targets = read_targets(TARGETS)
    test = [target for target in targets if target.split == "test"]
    sequences = translator.source.read(test, SHARDS)
    clips = [c for target in test if isinstance(c := sequences[target.clip_id], LandmarkSequence)]

    lines = [
        "| K | variance q k | / sqrt(K) | keys looked at of 50 | / sqrt(K) |",
        "|---" * 5 + "|",
    ]
    for width in WIDTHS:
        cells = " | ".join(f"{value:.3g}" for value in scale_scores(width))
        lines.append(f"| {width} | {cells} |")

    lines += ["", "| layer of the encoder | distance looked, positions | of even |"]
    lines.append("|---" * 3 + "|")
    for number, (apart, share) in enumerate(measure_distances(translator, clips, test), start=1):
        lines.append(f"| {number} | {apart:.2f} | {share:.2f} |")

    def score(search_options: DecodingOptions = decoding) -> tuple[float, float, list[str]]:
        texts = [translation.text for translation in translator.translate(clips, search_options)]
        scores = score_corpus(texts, [target.text for target in test], options)
        return scores[Metric.BLEU4].value, scores[Metric.WER].value, texts

    bleu, wer, texts = score()
    lines += ["", f"| all heads: {bleu:.1f}, {wer:.1f} | BLEU-4 with each head cut | WER, % |"]
    lines.append("|---" * 3 + "|")
    for name, layer in translator._model.named_modules():
        if not isinstance(layer, MultiHeadAttention):
            continue
        cut = []
        width = layer.output.in_features // layer.heads
        for head in range(layer.heads):
            with without_columns(layer.output, slice(head * width, (head + 1) * width)):
                cut.append(score()[:2])
        lines.append(
            f"| {name} | {', '.join(f'{b:.1f}' for b, _ in cut)} "
            f"| {', '.join(f'{w:.1f}' for _, w in cut)} |"
        )
    train = [target.text for target in targets if target.split == "train"]
    for label, some in (("translations", texts), ("references", [target.text for target in test])):
        judged, wrong = count_disagreement(some, train)
        lines += [
            "",
            f"{label}: in {wrong} of {judged} a pronoun stands before a verb's wrong form",
        ]
    lines += ["", "| epoch | dev loss | next right | right alone | whole |", "|---" * 5 + "|"]
    for epoch, (loss, *shares) in enumerate(compare_teaching(read_lab(LAB)), start=1):
        cells = " | ".join(f"{100 * share:.0f}" for share in shares)
        lines.append(f"| {epoch} | {loss:.2f} | {cells} |")
    logger.info("%s", "\n".join(lines))


if __name__ == "__main__":
    run(main)
