"""Turn every clip of the manifest into landmarks. DVC stage `extract`."""

from pipeline.stage import LANDMARKS, PARAMS, run
from signloom.config import load_section
from signloom.corpus.extract import ExtractOptions, extract_corpus
from signloom.corpus.manifest import CorpusOptions, check_splits, read_manifest


def main() -> None:
    """Read params.yaml, the manifest and its videos; write data/landmarks/."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    options = load_section(PARAMS, "extract", ExtractOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_splits(corpus.path, clips)
    extract_corpus(clips, options, LANDMARKS)


if __name__ == "__main__":
    run(main)
