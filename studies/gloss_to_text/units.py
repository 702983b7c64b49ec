"""Learn byte-pair units of train's sentences and glosses together; `run.sh` beside it runs it.

Glosses are German words, so one small vocabulary spells both.

Source: Sennrich et al. (2016), "Neural machine translation of rare words with subword units",
section 3.2; small units for little data: Sennrich and Zhang (2019), "Revisiting low-resource NMT".
"""

from collections.abc import Iterable
from pathlib import Path

import tokenizers

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.features.glosses import as_words, split_glosses
from signloom.features.targets import TokenizeOptions
from signloom.features.tokenizer import normalise_text
from signloom.files import write_file
from signloom.paths import PARAMS

UNITS = 4_000


def main() -> None:
    """Read the manifest, write the tokenizer.json that the parameters name."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    path = Path(load_section(PARAMS, "tokenize_targets", TokenizeOptions).tokenizer)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    train = [clip for clip in clips if clip.split == "train"]
    texts = [normalise_text(clip.text) for clip in train]
    glosses = [as_words(split_glosses(clip.gloss or "")) for clip in train]
    write_file(path, learn_units([*texts, *glosses], UNITS) + "\n")


def learn_units(texts: Iterable[str], units: int, least: int = 2) -> str:
    """Return a tokenizer.json of byte pairs, which changes no text.

    Args:
        texts: What is learnt from.
        units: Most rows. 256: bytes alone; with `least` 1 and enough of them: whole words.
        least: How often a pair must occur.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=units,
        min_frequency=least,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    learnt: str = tokenizer.to_str()
    return learnt


if __name__ == "__main__":
    run(main)
