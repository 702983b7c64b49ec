"""`signloom cache`: what the landmark cache holds is printed, or what is old in it removed."""

import argparse
import time

from signloom.errors import UserError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("cache", help="print what the landmark cache holds, or prune it")
    parser.set_defaults(run=show)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    pruning = actions.add_parser("prune", help="remove what was not used for some days")
    pruning.add_argument(
        "--days", type=float, required=True, help="keep what was used since; 0 removes everything"
    )
    pruning.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    pruning.set_defaults(run=prune)


def show(_: argparse.Namespace) -> None:
    """Print folder, number, size and age of the entries."""
    from signloom.extraction.cache import LandmarkCache, cache_folder

    use = LandmarkCache(cache_folder()).measure()
    print(f"folder      {cache_folder()}")
    print(f"entries     {use.entries:,}, of which {use.rejects:,} say why a clip cannot be read")
    print(f"size        {use.size_bytes / 1e6:,.1f} MB")
    if use.oldest_use_s is not None:
        days = (time.time() - use.oldest_use_s) / 86_400
        print(f"oldest use  {days:.1f} days ago")


def prune(options: argparse.Namespace) -> None:
    """Remove old entries, and what killed writers left behind."""
    from signloom.extraction.cache import LandmarkCache, VideoHashes, cache_folder

    if not options.days >= 0:  # nor NaN
        raise UserError(f"--days: found {options.days:g}, expected 0 or more")
    entries, size_bytes = LandmarkCache(cache_folder()).prune(options.days, dry_run=options.dry_run)
    if not options.dry_run:
        VideoHashes(cache_folder()).prune()
    verb = "would remove" if options.dry_run else "removed"
    print(f"{verb} {entries:,} entries, {size_bytes / 1e6:,.1f} MB, from {cache_folder()}")
