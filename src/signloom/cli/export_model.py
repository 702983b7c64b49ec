"""`signloom export-model`: a checkpoint becomes what others run and serve."""

import argparse
import sys
from pathlib import Path

from signloom.cli.translate import add_model_choice, choose_model


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "export-model",
        help="write a model as ONNX, or for `mlflow models serve`",
        description="Write a checkpoint in another form; docs/translate.md shows how it is used.",
    )
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--format", choices=("onnx", "mlflow"), required=True)
    add_model_choice(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the model."""
    choose_model(options)
    if options.format == "mlflow":
        from signloom.translation.serving import save_served_model

        save_served_model(options.checkpoint, options.folder)
        serve = f"mlflow models serve -m {options.folder} --env-manager local"
        print(f"{options.folder}: try `{serve}`", file=sys.stderr)
        return
    import torch

    from signloom.checkpoint import load_checkpoint
    from signloom.translation.onnx_export import export_onnx

    worst = export_onnx(load_checkpoint(options.checkpoint, torch.device("cpu")), options.folder)
    print(
        f"{options.folder}: encoder and decoder step; ONNX Runtime differs from PyTorch by at "
        f"most {worst:.1g}",
        file=sys.stderr,
    )
