"""What a text model that has read German is worth where few sentences have glosses.

A small T5 learns to fill the gaps of all train sentences, without glosses. Then a few pairs of
glosses and sentence are learnt by models around it, around the same T5 as it was drawn, and by a
Transformer of the same size.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
import torch

from signloom.corpus.manifest import Clip
from signloom.evaluation.metrics import score_corpus
from signloom.features.batches import pad_ids
from signloom.training.run import RunOptions
from signloom.translation.translator import Translator
from studies.bottleneck.text import GREEDY, SCORE, build_text
from studies.options import change_options
from studies.trainings import train_tracked

ROWS = 2_000  # of the text model's vocabulary
CONTROLS = ("<pad>", "</s>", "<unk>", "<gap>")
PAD, END, GAP = 0, 1, 3
GAPS = 0.35  # share of the tokens that are hidden
BATCH, EPOCHS, LEARNING_RATE = 64, 12, 1e-3
SIZES = {"d_model": 128, "d_kv": 32, "d_ff": 256, "num_layers": 2, "num_heads": 4}
OURS = {"d_model": 128, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "d_ff": 256,
        "dropout": 0.2, "tied_embeddings": True}  # fmt: skip
TRAIN = {"epochs": 80, "patience": 12, "learning_rate": 1e-3, "warmup_steps": 50,
         "max_frames": 2000, "label_smoothing": 0.0284, "token_drop": 0.0631,
         "precision": "float32"}  # fmt: skip


def build_text_model(texts: Sequence[str], folder: Path, *, epochs: int, seed: int) -> list[float]:
    """Train a small T5 to fill gaps, and save it as its authors would.

    Args:
        texts: What it reads.
        folder: Where it is saved.
        epochs: Over all of them; 0: the weights stay as they are drawn.
        seed: Of weights, order and gaps.

    Returns:
        The mean loss of each epoch, nats a token.
    """
    import transformers

    cutter = tokenizers.Tokenizer(tokenizers.models.Unigram())
    cutter.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Metaspace()]
    )
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=ROWS, special_tokens=list(CONTROLS), unk_token="<unk>", show_progress=False
    )
    cutter.train_from_iterator(texts, trainer)
    torch.manual_seed(seed)
    config = transformers.T5Config(
        **SIZES, vocab_size=cutter.get_vocab_size(), decoder_start_token_id=PAD, dropout_rate=0.1
    )
    model = transformers.T5ForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    lines = [[*cutter.encode(text).ids, END] for text in texts]
    order, losses = random.Random(seed), []
    for _ in range(epochs):
        order.shuffle(lines)
        total = 0.0
        for start in range(0, len(lines), BATCH):
            part = lines[start : start + BATCH]
            holed = [
                [GAP if i != END and order.random() < GAPS else i for i in ids] for ids in part
            ]
            source, valid = pad_ids(holed, PAD)
            target, is_real = pad_ids(part, PAD)
            loss = model(
                input_ids=source, attention_mask=valid, labels=target.masked_fill(~is_real, -100)
            ).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(part)
        losses.append(round(total / len(lines), 4))
    model.save_pretrained(folder)
    cutter.save(str(folder / "tokenizer.json"))
    return losses


def compare(
    clips: Sequence[Clip], base: RunOptions, folder: Path, *, pairs: int, seeds: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Train each variant with each seed; yield the scores of test.

    Args:
        clips: Glosses and sentences of all splits.
        base: Parameters of glosses to text.
        folder: Where text models are written.
        pairs: Train clips whose glosses are known.
        seeds: Of weights and order; those of the text models and of the choice of clips are 1.
    """
    texts = [clip.text for clip in clips if clip.split == "train"]
    losses = build_text_model(texts, folder / "read", epochs=EPOCHS, seed=1)
    build_text_model(texts, folder / "drawn", epochs=0, seed=1)
    known = random.Random(1).sample([c for c in clips if c.split == "train"], pairs)
    few = [*known, *(clip for clip in clips if clip.split != "train")]
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        "Transformer": ("", {}),
        "T5 as drawn": ("drawn", {}),
        "T5 that has read": ("read", {}),
        "T5 that has read, layers frozen": ("read", {"freeze": "layers"}),
    }
    for name, (model, changes) in variants.items():
        where = str(folder / model) if model else ""
        text = build_text(few, where)
        own = {"family": "pretrained", "text_model": where, **changes} if model else {}
        for seed in seeds:
            options = replace(
                base,
                model=change_options(base.model, {**OURS, **own}, name),
                train=change_options(base.train, {**TRAIN, "seeds": [seed]}, name),
            )
            checkpoint, fit = train_tracked(text.data, options)
            chosen = [target for target in text.targets if target.split == "test"]
            sources = text.source.read(chosen, Path())
            translator = Translator(checkpoint, torch.device("cpu"))
            found = translator.translate([sources[target.clip_id] for target in chosen], GREEDY)
            scores = score_corpus([t.text for t in found], [t.text for t in chosen], SCORE)
            parameters = [p.numel() for p in checkpoint.model.parameters() if p.requires_grad]
            yield {
                "variant": name, "seed": seed, "pairs": pairs, "dev_loss": round(fit.dev_loss, 4),
                "best_epoch": fit.best_epoch, "trained_parameters": sum(parameters),
                "text_loss": losses if model == "read" else [],
                "test": {metric: {"value": round(s.value, 2), "low": round(s.low, 2),
                                  "high": round(s.high, 2)} for metric, s in scores.items()},
            }  # fmt: skip
