"""Turn every clip of the manifest into landmarks. DVC stage `extract`."""

from pipeline.stage import LANDMARKS, PARAMS, run


def main() -> None:
    """Read params.yaml, the manifest and its videos; write data/landmarks/."""
    # Here, since every worker process loads this module: pyarrow takes 30 MB in each.
    from signloom.config import load_section
    from signloom.corpus.extract import ExtractOptions
    from signloom.corpus.extract_corpus import extract_corpus
    from signloom.corpus.landmark_folder import take_imported
    from signloom.corpus.manifest import CorpusOptions, check_splits, read_manifest

    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    options = load_section(PARAMS, "extract", ExtractOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_splits(corpus.path, clips)
    if corpus.imported_shards.is_dir():
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
