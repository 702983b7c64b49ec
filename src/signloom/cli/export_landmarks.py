"""`signloom export`: landmarks become files that other tools open."""

import argparse
import sys
from pathlib import Path

from signloom.paths import SHARDS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("export", help="write landmarks as .pose files for other tools")
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="made if need be")
    parser.add_argument("--format", choices=("pose",), default="pose")
    parser.add_argument(
        "--landmarks",
        type=Path,
        default=SHARDS,
        metavar="SHARDS",
        help="shards to read (default: %(default)s)",
    )
    parser.add_argument("--clips", nargs="+", metavar="ID", help="clip ids (default: all)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write a file for each clip."""
    from tqdm import tqdm

    from signloom.corpus.shards import read_clip_frames, read_shards
    from signloom.importing.pose_files import write_pose
    from signloom.progress import progress_file

    clip_ids = options.clips or list(read_clip_frames(options.landmarks))
    bar = tqdm(dict.fromkeys(clip_ids), "writing", unit=" clips", file=progress_file())
    for clip_id in bar:
        sequence = read_shards(options.landmarks, [clip_id])[clip_id]
        write_pose(options.folder / f"{clip_id}.pose", sequence)
    print(f"{len(set(clip_ids))} files in {options.folder}", file=sys.stderr)
