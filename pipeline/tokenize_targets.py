"""Turn every sentence of the manifest into token ids. DVC stage `tokenize_targets`."""

import logging

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, check_splits, read_manifest
from signloom.features.targets import (
    TokenizeOptions,
    build_glosses,
    build_targets,
    write_labels,
    write_targets,
)
from signloom.paths import LABELS, PARAMS, TARGETS, TOKENIZER
from signloom.tables import read_columns


def main() -> None:
    """Read the manifest, build the vocabulary from its train text, write ids."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    options = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_splits(corpus.path, clips)
    tokenizer, labels, targets = build_targets(clips, options)
    glosses = build_glosses(clips, options.source, tokenizer)
    del clips  # which of millions of rows are half a gigabyte
    write_targets(TARGETS, targets, glosses)
    write_labels(LABELS, labels)
    tokenizer.save(TOKENIZER)
    logging.info("tokenizer.json with SHA-256 %s", tokenizer.source_sha256)
    logging.info(
        "%d sentences, %d tokens, vocabulary of %d rows, %d CTC labels%s",
        len(targets),
        sum(len(ids) for (ids,) in read_columns(targets, "ids")),
        tokenizer.vocab_size,
        len(labels),
        f", {len(glosses.names)} glosses as the model's input" if glosses.names else "",
    )


if __name__ == "__main__":
    run(main)
