"""Find what is wrong with the parameters and the corpus before hours of work. DVC stage `check`."""

from pathlib import Path

from pipeline.stage import run
from signloom.config import load_params, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.extraction.extract import ExtractOptions
from signloom.features.augment import AugmentOptions
from signloom.features.features import FeatureOptions
from signloom.features.targets import TokenizeOptions
from signloom.files import write_file
from signloom.models.seq2seq import ModelOptions
from signloom.paths import PARAMS
from signloom.provenance import project_folder
from signloom.report.build import ReportOptions
from signloom.tracking.run import TrackingOptions
from signloom.training.options import TrainOptions
from signloom.tune.space import TuneOptions

CHECKED = Path("data/checked.txt")
DRAW_PARAMS = Path("data/demo/params.yaml")
# What the stages read of params.yaml, by section.
SECTIONS = {
    "corpus": CorpusOptions,
    "extract": ExtractOptions,
    "tokenize_targets": TokenizeOptions,
    "features": FeatureOptions,
    "augment": AugmentOptions,
    "model": ModelOptions,
    "train": TrainOptions,
    "tune": TuneOptions,
    "evaluate": EvaluateOptions,
    "report": ReportOptions,
    "tracking": TrackingOptions,
}


def main() -> None:
    """Check the parameters of every stage, and that the corpus is there or will be drawn."""
    check_params(PARAMS)
    check_corpus(load_section(PARAMS, "corpus", CorpusOptions))
    # Always the same, so that nothing after this stage runs again because of it.
    write_file(CHECKED, "the parameters are valid, the corpus folder was there\n")


def check_params(path: Path) -> None:
    """Check every section that a stage reads.

    Raises:
        UserError: If a section is missing or wrong; all of them in one message.
    """
    problems = []
    for section, options in SECTIONS.items():
        try:
            load_section(path, section, options)
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(dict.fromkeys(problems)))


def check_corpus(corpus: CorpusOptions) -> None:
    """Check that there is a manifest, or will be since stage `draw` makes it.

    Raises:
        UserError: If there is none.
    """
    is_drawn = DRAW_PARAMS.is_file() and corpus.folder == Path(
        load_params(DRAW_PARAMS)["draw"]["out"]
    )
    if is_drawn or corpus.path.is_file():
        return
    is_copy = project_folder().resolve() != Path().resolve()
    hint = " A queued experiment has only what Git or DVC knows: `dvc add` it." if is_copy else ""
    raise UserError(
        f"{corpus.path}: no manifest there, so no corpus. Put the videos and their table into "
        f"{corpus.folder} (`signloom init` does; docs/data.md), or set corpus.folder in "
        "params.yaml: data/demo/corpus is the demo corpus, which is drawn when it is needed."
        f"{hint}"
    )


if __name__ == "__main__":
    run(main)
