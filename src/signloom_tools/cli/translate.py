"""Commands that translate with a model and export it."""

import argparse
import dataclasses
import sys
import typing
from pathlib import Path
from typing import Any

from signloom.config import Count, Positive
from signloom.translation.options import DECODING, DecodingOptions
from signloom_tools.cli.arguments import (
    add_model_choice,
    add_numbers,
    add_unsaid,
    choose_model,
    number_of,
    refuse_in_corpus,
)
from signloom_tools.cli.translate_options import (
    CAPTION_FORMATS,
    MAX_ATTENTION,
    read_translate_options,
)

MEANINGS = {
    "beam_size": "hypotheses followed at once; 1 is greedy",
    "length_penalty": "0 favours short translations",
    "max_tokens": "longest translation",
    "min_tokens": "shortest translation",
    "no_repeat_ngram": "no run of so many tokens twice; 0 allows every one",
    "temperature": "draw tokens instead: 1 as the model says, less is surer; 0 draws none",
    "top_k": "draw among so many best tokens; 0: among all",
    "top_p": "draw among the best tokens with this share together (nucleus)",
    "seed": "of what is drawn",
    "language": "to write in, for models of several; empty: the model chooses",
    "internal_lm_weight": "share of what the decoder expects without looking, subtracted",
    "sign_weight": "penalty for sentences that contradict the recognised signs",
}
NOT_UNDERSTOOD_CODE = 3


def add_translate(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom translate`."""
    parser.description = (
        "Translate videos, landmark files, folders of them, or data/landmarks; "
        "docs/translation.md describes what is read and written. Exit code "
        f"{NOT_UNDERSTOOD_CODE} if a clip is not understood, 1 if one cannot be read."
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="file or folder")
    parser.add_argument(
        "--glosses", nargs="+", metavar="TEXT",
        help="glosses instead: a line of them, a file of lines, or - for standard input",
    )  # fmt: skip
    add_model_choice(parser)
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead")
    add_numbers(parser, ("--n-best", Count, 1, "translations of each clip"))
    parser.add_argument(
        "--skip-unsure", action="store_true",
        help="write nothing where the model is unsure or has seen nothing like the clip",
    )  # fmt: skip
    parser.add_argument(
        "--guess", action="store_true",
        help="write also what the model makes of clips that it has seen nothing like",
    )  # fmt: skip
    parser.add_argument(
        "--signs", action="store_true",
        help="name also the signs that were read, when and how sure; with --write eaf, vtt or json "
        "a tier of them",
    )  # fmt: skip
    parser.add_argument(
        "--find", nargs="+", metavar="GLOSS", default=[],
        help="where these signs are, each by itself; with --write eaf, vtt or json a tier of them",
    )  # fmt: skip
    _add_films(parser.add_argument_group("captions of films"))
    parser.add_argument(
        "--video",
        type=Path,
        metavar="OUT",
        help="write clips with skeleton and subtitles: a .webm file, or a folder of them; .mp4 "
        "works, too, but few browsers play its MPEG-4",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace films and pages that already exist"
    )
    parser.add_argument(
        "--attention", type=Path, metavar="OUT",
        help="write a page (.html) of what each layer and head looks at, for at most "
        f"{MAX_ATTENTION} clips or lines",
    )  # fmt: skip
    parser.add_argument("--font", type=Path, help="of the subtitles (default: DejaVu Sans)")
    parser.add_argument("--timing", action="store_true", help="print what took how long")
    _add_model_options(parser)
    parser.set_defaults(run=run_translate)


def _add_films(films: Any) -> None:
    films.add_argument(
        "--write", choices=CAPTION_FORMATS,
        help="cut films into sentences and write these captions beside each",
    )  # fmt: skip
    films.add_argument("--into", type=Path, metavar="FOLDER", help="write captions there instead")
    films.add_argument(
        "--watch", type=Path, metavar="FOLDER",
        help="write captions (vtt) for what is in a folder and arrives there, until Ctrl-C",
    )  # fmt: skip
    films.add_argument(
        "--pause", type=number_of(Positive), metavar="S",
        help="cut a film where the hands rest for so many seconds (0.35)",
    )  # fmt: skip


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group(
        "search and precision",
        "The search is the one that `evaluate` chose for these weights; in brackets what holds "
        "where there is none.",
    )
    kinds = typing.get_type_hints(DecodingOptions, include_extras=True)
    for name, value in dataclasses.asdict(DECODING).items():
        flag, meaning = f"--{name.replace('_', '-')}", f"{MEANINGS[name]} ({value})"
        kind = str if kinds[name] is str else number_of(kinds[name])
        search.add_argument(flag, type=kind, help=meaning)
    search.add_argument(
        "--precision", choices=("float32", "bfloat16", "int8"), help="of the weights (float32)"
    )
    search.add_argument(
        "--together", action="store_true",
        help="mean the probabilities of the models of all train.seeds, in as many times the time; "
        "how sure the sentences are is said only where evaluate.together measured it",
    )  # fmt: skip
    found = parser.add_argument_group("what the files do not have")
    add_unsaid(found)


def run_translate(given: argparse.Namespace) -> None:
    """Translate everything, name what cannot be read, with an exit code that tells it."""
    options = read_translate_options(given)
    if options.glosses:
        from signloom_tools.cli.translate_glosses import translate_glosses

        translate_glosses(options)
        return
    from signloom_tools.cli.translate_clips import translate_clips

    if translate_clips(options):
        sys.exit(NOT_UNDERSTOOD_CODE)


def add_export_model(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom export-model`."""
    parser.description = (
        "Write a checkpoint in another form; docs/translation.md shows how it is used."
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--format", choices=("onnx", "mlflow"), required=True)
    add_model_choice(parser)
    parser.set_defaults(run=run_export_model)


def run_export_model(options: argparse.Namespace) -> None:
    """Write the model."""
    checkpoint = choose_model(options).checkpoint
    refuse_in_corpus(options.folder)
    if options.format == "mlflow":
        from signloom_tools.translate.serving import save_served_model

        save_served_model(checkpoint, options.folder)
        serve = f"mlflow models serve -m {options.folder} --env-manager local"
        print(f"{options.folder}: try `{serve}`", file=sys.stderr)
        return
    import torch

    from signloom.checkpoint import load_checkpoint
    from signloom.files import check_output_folder
    from signloom.translation.confidence import find_confidence
    from signloom_tools.translate.onnx_export import FILES, export_onnx

    check_output_folder(options.folder, [checkpoint], FILES)
    worst = export_onnx(load_checkpoint(checkpoint, torch.device("cpu")), options.folder)
    print(
        f"{options.folder}: encoder and decoder step; ONNX Runtime differs from PyTorch by at "
        f"most {worst:.1g}",
        file=sys.stderr,
    )
    if (found := find_confidence(checkpoint)) and found.seeds:
        print("warning: it is the first seed's model alone, scored with others", file=sys.stderr)
