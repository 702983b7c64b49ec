"""`signloom translate`: videos, landmarks or glosses come in, their sentences are printed."""

import argparse
from pathlib import Path
from typing import Any

from signloom.config import UserError
from signloom.retraining.store import ModelStore
from signloom.serving.defaults import DECODING

_MEANINGS = {
    "beam_size": "hypotheses followed at once; 1 is greedy",
    "length_penalty": "0 favours short translations",
    "max_tokens": "longest translation",
    "min_tokens": "shortest translation",
    "no_repeat_ngram": "no run of so many tokens twice; 0 allows every one",
    "ctc_weight": "share of the CTC head, for models that spell with it",
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "translate",
        help="print the sentences of videos, landmarks or glosses",
        description="Translate videos, landmark files, folders of them, or data/landmarks; "
        "docs/translate.md describes what is read and written.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument(
        "--glosses", nargs="+", metavar="TEXT",
        help="glosses instead: a line of them, a file of lines, or - for standard input",
    )  # fmt: skip
    add_model_choice(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    parser.add_argument(
        "--n-best", type=int, default=1, help="translations of each clip (%(default)s)"
    )
    parser.add_argument(
        "--video",
        type=Path,
        metavar="OUT",
        help="write clips with skeleton and subtitles: an .mp4 file, or a folder of them",
    )
    parser.add_argument("--font", type=Path, help="of the subtitles (default: DejaVu Sans)")
    parser.add_argument("--timing", action="store_true", help="say what took how long")
    _add_model_options(parser)
    parser.set_defaults(run=run)


def add_model_choice(parser: argparse.ArgumentParser) -> None:
    """Let a model be named by its folder or as a version."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--checkpoint",
        type=Path,
        default=Path("data/checkpoint"),
        help="model folder (default: %(default)s)",
    )
    choice.add_argument(
        "--model",
        metavar="VERSION",
        help="champion, challenger or the number of a version of the model instead; it searches "
        "as it did when it was judged; see `signloom champion`",
    )


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("search and precision")
    for name, value in DECODING.items():
        flag, meaning = f"--{name.replace('_', '-')}", f"{_MEANINGS[name]} ({value})"
        search.add_argument(flag, type=type(value), help=meaning)
    search.add_argument(
        "--precision", choices=("float32", "bfloat16", "int8"), help="of the weights (float32)"
    )
    found = parser.add_argument_group("what the files do not say")
    for part in ("hand", "pose"):
        found.add_argument(
            f"--{part}-model",
            default="",
            metavar="TASK",
            help=f"the {part}_landmarker .task file that the model was trained with, if any",
        )
    for name, kind in (("fps", float), ("width", int), ("height", int)):
        found.add_argument(f"--{name}", type=kind, help="of landmark files without it")


def run(options: argparse.Namespace) -> None:
    """Translate everything, name what cannot be read, and say so in the exit code."""
    choose_model(options)
    if options.beam_size >= 1 and not 1 <= options.n_best <= options.beam_size:
        raise UserError(
            f"--n-best: found {options.n_best}, expected 1 to --beam-size ({options.beam_size})"
        )
    if options.glosses:
        from signloom.cli.translate_glosses import translate_glosses

        translate_glosses(options)
        return
    if not options.paths:
        raise UserError("give a PATH of videos or landmarks, or --glosses")
    from signloom.cli.translate_run import translate_all

    translate_all(options)


def choose_model(options: argparse.Namespace) -> None:
    """Turn a version's name into its folder, and give its search where no option says otherwise."""
    search: dict[str, Any] = {**DECODING, "precision": "float32"}
    if options.model is not None:
        store = ModelStore()
        version = store.resolve(options.model)
        found = store.search(version)
        options.checkpoint = store.checkpoint(version)
        search |= {**found["decoding"], "precision": found["precision"]}
    for name, value in search.items():
        if getattr(options, name, None) is None:
            setattr(options, name, value)
