"""Glosses to sentences: the variants on real text, and what one gloss means in two sentences."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from signloom.checkpoint import Checkpoint, build_from_spec
from signloom.corpus.manifest import SPLITS, Clip
from signloom.evaluation.metrics import ScoreOptions, score_corpus
from signloom.features.batches import pad_ids
from signloom.features.glosses import GlossSequence, split_glosses
from signloom.features.sources import GlossSource
from signloom.features.targets import (
    NO_LABELS,
    Target,
    TokenizeOptions,
    build_glosses,
    build_targets,
)
from signloom.models.seq2seq import Seq2Seq
from signloom.training.data import TrainingData
from signloom.training.train import RunOptions
from signloom.translation.options import DECODING
from signloom.translation.translator import Translator
from studies.bottleneck.study import BottleneckOptions
from studies.runs import change_options, train_first_seed

Row = dict[str, Any]
SCORE = ScoreOptions(tokenizer="phoenix_legacy", resamples=100, seed=1)
GREEDY = replace(DECODING, beam_size=1, max_tokens=80)
NEIGHBOURS = 5
States = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Text:
    """Glosses and sentences of a corpus, as training takes them."""

    data: TrainingData
    source: GlossSource
    targets: Sequence[Target]


def read_text(folder: Path) -> Text:
    """Read phoenix14t.train.tsv and those of dev and test: name, signer, gloss, text."""
    return build_text(read_clips(folder))


def read_clips(folder: Path) -> list[Clip]:
    """Read the rows of the tables; arguments as of `read_text`."""
    clips = []
    for split in SPLITS:
        with (folder / f"phoenix14t.{split}.tsv").open(encoding="utf-8", newline="") as file:
            clips += [
                Clip(
                    clip_id=row["name"],
                    video=None,
                    text=row["text"],
                    signer=row["signer"],
                    split=split,
                    gloss=row["gloss"],
                )
                for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            ]
    return clips


def build_text(clips: Sequence[Clip], tokenizer_file: str = "") -> Text:
    """Cut the sentences of clips into tokens, DeepSeek's or those of a file or folder."""
    options = TokenizeOptions(
        vocabulary="pruned", max_tokens=512, ctc="none", source="glosses", tokenizer=tokenizer_file
    )
    tokenizer, _, targets = build_targets(clips, options)
    source = GlossSource(vocabulary=build_glosses(clips, "glosses"))
    train, dev = source.open_clips(targets, Path(), cache_mb=0)
    data = TrainingData(train=train, dev=dev, tokenizer=tokenizer, labels=NO_LABELS)
    return Text(data=data, source=source, targets=targets)


def train_text(options: BottleneckOptions, base: RunOptions, text: Text) -> Iterator[Row]:
    """Train each variant on glosses and sentences; yield scores, sentences and senses.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    for seed, variant in product(options.seeds, options.text_variants):
        model = change_options(
            base.model, {**options.text_model, **options.variants[variant]}, "study.text_model"
        )
        recipe = change_options(base.train, {**options.text_train, "seeds": [seed]}, "study.train")
        run = replace(base, model=model, train=recipe)
        checkpoint, fit = train_first_seed(text.data, run)
        row = {
            "variant": variant,
            "seed": seed,
            "parameters": sum(p.numel() for p in checkpoint.model.parameters()),
            "dev_loss": round(fit.dev_loss, 4),
            **_translate(checkpoint, text),
        }
        if variant == options.contextual:
            row["senses"] = compare_senses(checkpoint, text, options.senses, seed)
        yield row


def _translate(checkpoint: Checkpoint, text: Text) -> Row:
    """Translate dev and test; return scores and sentences."""
    translator = Translator(checkpoint, torch.device("cpu"))
    scores, sentences = {}, []
    for split in ("dev", "test"):
        chosen = [target for target in text.targets if target.split == split]
        sequences = [text.source.vocabulary.encode(target.gloss) for target in chosen]
        hyps = [translation.text for translation in translator.translate(sequences, GREEDY)]
        refs = [target.text for target in chosen]
        split_scores = score_corpus(hyps, refs, SCORE)
        scores[split] = {
            name: round(split_scores[name].value, 2) for name in ("bleu4", "chrf", "wer")
        }
        sentences += [[split, ref, hyp] for ref, hyp in zip(refs, hyps, strict=True)]
    return {"scores": scores, "sentences": sentences}


def compare_senses(
    checkpoint: Checkpoint, text: Text, senses: Mapping[str, Mapping[str, str]], seed: int
) -> dict[str, Row]:
    """Tell whether the encoder's states of one gloss tell its meanings apart.

    A state of dev and test has the sense of most of its nearest neighbours in train right or not;
    the static embedding, the same vector for all of them, cannot do better than chance.

    Returns:
        By gloss: occurrences of each sense, the shares of neighbours of the same sense (mean over
        the senses, so that chance is 1 over their number) of this model and of an untrained one,
        and mean cosines within and between senses.
    """
    torch.manual_seed(seed)
    untrained = build_from_spec(checkpoint.spec, checkpoint.tokenizer).eval()
    by_gloss = {}
    for gloss, patterns in senses.items():
        chosen = [(t, sense) for t in text.targets if (sense := _sense(t, gloss, patterns))]
        labels = np.array([sense for _, sense in chosen])
        is_known = np.array([target.split == "train" for target, _ in chosen])
        sequences = [text.source.vocabulary.encode(target.gloss) for target, _ in chosen]
        places = [sequence.glosses.index(gloss.lower()) for sequence in sequences]
        states = _states(checkpoint.model, sequences, places)
        near = states @ states.T
        same = labels[:, None] == labels[None, :]
        apart = ~np.eye(len(labels), dtype=bool)
        by_gloss[gloss] = {
            "occurrences": {sense: int((labels == sense).sum()) for sense in patterns},
            "neighbours": share_alike(near, labels, is_known),
            "untrained": share_alike(
                (untrained_states := _states(untrained, sequences, places)) @ untrained_states.T,
                labels,
                is_known,
            ),
            "cosine_same": round(float(near[same & apart].mean()), 4),
            "cosine_other": round(float(near[~same].mean()), 4),
        }
    return by_gloss


def _sense(target: Target, gloss: str, patterns: Mapping[str, str]) -> str:
    """Return the only sense whose pattern the sentence has, of a gloss that stands there once."""
    if split_glosses(target.gloss).count(gloss.lower()) != 1:
        return ""
    fitting = [sense for sense, pattern in patterns.items() if re.search(pattern, target.text)]
    return fitting[0] if len(fitting) == 1 else ""


def _states(model: Seq2Seq, sequences: Sequence[GlossSequence], places: Sequence[int]) -> States:
    """Return the encoder's state at one position of each clip, of length 1, without their mean."""
    src, valid = pad_ids([sequence.ids.tolist() for sequence in sequences], 0)
    with torch.inference_mode():
        states = model.encode(src, valid).states[range(len(places)), places].double().numpy()
    away = states - states.mean(axis=0)
    return np.asarray(away / np.linalg.norm(away, axis=1, keepdims=True))


def share_alike(
    near: States, labels: npt.NDArray[np.str_], is_known: npt.NDArray[np.bool_]
) -> float:
    """Return how many of the nearest train occurrences have the sense of one of dev or test."""
    shares: dict[str, list[float]] = {}
    for query in np.flatnonzero(~is_known):
        order = np.argsort(np.where(is_known, -near[query], np.inf), kind="stable")[:NEIGHBOURS]
        shares.setdefault(labels[query], []).append(float((labels[order] == labels[query]).mean()))
    return round(mean(mean(sense_shares) for sense_shares in shares.values()), 4)
