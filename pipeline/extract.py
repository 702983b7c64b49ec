"""Turn every clip of the manifest into landmarks. DVC stage `extract`."""

import argparse
import logging
import re
import tempfile
from pathlib import Path

from pipeline.stage import run
from signloom.paths import LANDMARKS, PARAMS

KEPT = "The landmarks that were found are kept, so that this takes little time."


def read_share(text: str) -> tuple[int, int]:
    """Return number, from 0, and count of a share such as `3/8`."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if number >= count:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected e.g. 0/8, the first of 8")
    return number, count


def main() -> None:
    """Read params.yaml, the manifest and its videos; write data/landmarks/, or fill the cache."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--share",
        type=read_share,
        metavar="I/N",
        help="only fill the cache, with the share I of N of the videos (docs/start.md)",
    )
    share = parser.parse_args().share
    # Here, since every worker process loads this module: pyarrow takes 30 MB in each.
    from signloom.config import load_section
    from signloom.corpus.landmark_folder import take_imported, write_no_landmarks
    from signloom.corpus.manifest import CorpusOptions, check_splits, is_text_corpus, read_manifest
    from signloom.extraction.extract import ExtractOptions, extract_corpus, take_share

    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    options = load_section(PARAMS, "extract", ExtractOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    check_splits(corpus.path, clips)
    if share is not None:
        if part := take_share(clips, *share):
            with tempfile.TemporaryDirectory() as folder:
                extract_corpus(part, options, Path(folder))
    elif is_text_corpus(corpus, clips):
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
    run(main, kept=KEPT)
