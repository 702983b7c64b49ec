"""Turn every clip of the manifest into landmarks. DVC stage `extract`."""

import logging

from pipeline.stage import run
from signloom.paths import LANDMARKS, PARAMS


def main() -> None:
    """Read params.yaml, the manifest and its videos; write data/landmarks/."""
    # Here, since every worker process loads this module: pyarrow takes 30 MB in each.
    from signloom.config import load_section
    from signloom.corpus.landmark_folder import take_imported, write_no_landmarks
    from signloom.corpus.manifest import CorpusOptions, check_splits, is_text_corpus, read_manifest
    from signloom.extraction.extract import ExtractOptions, extract_corpus

    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    options = load_section(PARAMS, "extract", ExtractOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_splits(corpus.path, clips)
    if is_text_corpus(corpus, clips):
        logging.info("%s has no videos: a corpus of text, nothing to extract", corpus.path)
        write_no_landmarks(LANDMARKS)
    elif corpus.imported_shards.is_dir():
        take_imported(
            clips,
            corpus.imported_shards,
            LANDMARKS,
            frames_per_shard=options.frames_per_shard,
            max_rejected_share=options.max_rejected_share,
        )
    else:
        extract_corpus(clips, options, LANDMARKS)


if __name__ == "__main__":
    run(main)
