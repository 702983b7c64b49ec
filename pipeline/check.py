"""Find what is wrong with the parameters and the corpus before hours of work. DVC stage `check`."""

from pathlib import Path

from pipeline.stage import run
from signloom.config import load_params, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.evaluation.judgements import make_judgements
from signloom.files import write_file
from signloom.paths import PARAMS, START
from signloom.preflight import check_corpus, check_params, check_together
from signloom.training.start_file import write_start

CHECKED = Path("data/checked.txt")
DRAW_PARAMS = Path("data/demo/params.yaml")


def main() -> None:
    """Check the parameters of every stage, and that the corpus is there or will be drawn."""
    check_params(PARAMS)
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    drawn = load_params(DRAW_PARAMS)["draw"]["out"] if DRAW_PARAMS.is_file() else None
    check_corpus(corpus, is_drawn=drawn is not None and corpus.folder == Path(drawn))
    check_together(PARAMS, corpus)
    make_judgements()  # projects from before version 0.2 have no such folder
    if not START.is_file():  # likewise
        write_start(None)
    # Always the same, so that nothing after this stage runs again because of it.
    write_file(CHECKED, "the parameters are valid, the corpus folder was there\n")


if __name__ == "__main__":
    run(main)
