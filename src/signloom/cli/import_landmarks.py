"""`signloom import`: landmarks that other tools found become a corpus without videos."""

import argparse
import math
import sys
from pathlib import Path

from signloom.errors import UserError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "import",
        help="bring in landmarks from .pose, Kaggle or NumPy files",
        description="Turn landmark files into CORPUS/landmarks; docs/data.md says what is read. "
        "Write a manifest without the column `video` beside them, then run `dvc repro`.",
    )
    parser.add_argument(
        "sources", nargs="+", type=Path, metavar="SOURCE", help="a file, or a folder of files"
    )
    parser.add_argument(
        "--to", required=True, type=Path, metavar="CORPUS", help="corpus folder (corpus.folder)"
    )
    parser.add_argument("--format", choices=("auto", "pose", "kaggle", "numpy"), default="auto")
    parser.add_argument(
        "--groups",
        nargs="+",
        metavar="GROUP",
        help="of hands, pose, lips, face_outline (default: hands, and pose if it is there)",
    )
    where = "where the source does not say it"
    parser.add_argument("--fps", type=float, help=f"frames a second, {where}")
    parser.add_argument("--width", type=int, help=f"pixels of the picture, {where}")
    parser.add_argument("--height", type=int, help=f"pixels of the picture, {where}")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Import what can be imported, and say what could not."""
    from signloom.corpus.landmarks import build_layout
    from signloom.importing.foreign import SourceDefaults
    from signloom.importing.importer import ImportOptions, import_landmarks

    for name in ("fps", "width", "height"):
        given = getattr(options, name)
        if given is not None and not (math.isfinite(given) and given > 0):
            raise UserError(f"--{name}: found {given}, expected a number above 0")
    try:
        if options.groups:
            build_layout(options.groups)
    except ValueError as error:
        raise UserError(f"--groups: {error}") from None
    found = import_landmarks(
        options.sources,
        options.to,
        ImportOptions(
            format=options.format,
            groups=tuple(options.groups) if options.groups else None,
            defaults=SourceDefaults(fps=options.fps, width=options.width, height=options.height),
        ),
    )
    folder = options.to / "landmarks"
    print(
        f"{found.clips} clips, {found.frames} frames in {folder}, layout {found.layout.name}; "
        f"{folder / 'clips.tsv'} lists them for your manifest",
        file=sys.stderr,
    )
    if found.rejects:
        raise UserError(
            f"{len(found.rejects)} files or clips could not be imported; "
            f"{folder / 'rejects.tsv'} says why"
        )
