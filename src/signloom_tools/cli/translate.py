"""Commands that translate with a model and export it."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from signloom_tools.cli.guards import refuse_in_corpus
from signloom_tools.cli.model_choice import ModelChoice
from signloom_tools.cli.translate_options import TranslateOptions
from signloom_tools.command_options import argument, group, option

NOT_UNDERSTOOD_CODE = 3


def run_translate(options: TranslateOptions) -> None:
    """Translate everything and name what cannot be read; the exit code depends on it."""
    if options.glosses:
        from signloom_tools.cli.translate_glosses import translate_glosses

        translate_glosses(options)
        return
    from signloom_tools.cli.translate_clips import translate_clips

    if translate_clips(options):
        sys.exit(NOT_UNDERSTOOD_CODE)


@dataclass(frozen=True, kw_only=True)
class ExportModelOptions:
    """Write a checkpoint in another form; docs/translation.md shows its use."""

    folder: Path = argument("folder to write", "OUT")
    format: Literal["onnx", "mlflow"] = option("of the model")
    choice: ModelChoice = group(ModelChoice, exclusive=True)


def run_export_model(options: ExportModelOptions) -> None:
    """Write the model."""
    checkpoint = options.choice.find().checkpoint
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
    if (confidence := find_confidence(checkpoint)) and confidence.seeds:
        print("warning: it is the first seed's model alone, scored with others", file=sys.stderr)
