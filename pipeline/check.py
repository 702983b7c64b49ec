"""Check the corpus folder before DVC reads it. DVC stage `check`."""

from pathlib import Path

from pipeline.stage import run
from signloom.config import load_params, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom.provenance import project_folder

CHECKED = Path("data/checked.txt")
DRAW_PARAMS = Path("data/demo/params.yaml")


def main() -> None:
    """Check that the corpus is there, or is one that stage `draw` makes."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    is_drawn = DRAW_PARAMS.is_file() and corpus.folder == Path(
        load_params(DRAW_PARAMS)["draw"]["out"]
    )
    if not is_drawn and not corpus.path.is_file():
        is_copy = project_folder().resolve() != Path().resolve()
        hint = (
            " A queued experiment has only what Git or DVC knows: `dvc add` it." if is_copy else ""
        )
        raise UserError(
            f"{corpus.path}: no manifest there, so no corpus. Put the videos and their table into "
            f"{corpus.folder} (`signloom init` does; docs/data.md), or set corpus.folder in "
            "params.yaml: data/demo/corpus is the demo corpus, which is drawn when it is needed."
            f"{hint}"
        )
    # Always the same, so that nothing after this stage runs again because of it.
    write_file(CHECKED, "the corpus folder was there\n")


if __name__ == "__main__":
    run(main)
