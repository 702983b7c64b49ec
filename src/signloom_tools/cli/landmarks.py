"""Commands for landmark files of other tools, and for the cache of extracted landmarks."""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.errors import UserError
from signloom.files import check_output, check_output_folder, check_writable
from signloom.paths import EVALUATION, HYPOTHESES_NAME, SHARDS
from signloom_tools.cli.arguments import (
    add_foreign,
    add_params,
    add_path,
    refuse_in_corpus,
    source_defaults,
)

if TYPE_CHECKING:
    from signloom_tools.importing.importer import Imported


def add_import(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom import`."""
    parser.description = (
        "Turn landmark files into CORPUS/landmarks; docs/landmarks.md lists what is read. "
        "Write a manifest without the column `video` beside them, then run `dvc repro`."
    )
    parser.add_argument(
        "sources", nargs="+", type=Path, metavar="SOURCE", help="a file, or a folder of files"
    )
    parser.add_argument(
        "--to", required=True, type=Path, metavar="CORPUS", help="corpus folder (corpus.folder)"
    )
    add_import_options(parser)
    add_foreign(parser)
    parser.add_argument("--force", action="store_true", help="replace what was imported before")
    parser.set_defaults(run=run_import)


def run_import(options: argparse.Namespace) -> None:
    """Import what can be imported, and print what could not."""
    folder = options.to / "landmarks"
    with put_aside(folder, options.sources, force=options.force):
        found = import_sources(options, options.sources, options.to, options.pattern)
    print(
        f"{found.clips} clips, {found.frames} frames in {folder}, layout {found.layout.name}; "
        f"{folder / 'clips.tsv'} lists them for your manifest",
        file=sys.stderr,
    )
    if found.rejects:
        raise UserError(
            f"{len(found.rejects)} files or clips could not be imported; "
            f"{folder / 'rejects.tsv'} says why; correct them, and --force imports all again"
        )


@contextmanager
def put_aside(folder: Path, sources: Sequence[Path], *, force: bool) -> Iterator[None]:
    """Let a new import come into a folder; after an error what was there is there again.

    Args:
        folder: Of the import.
        sources: What is imported.
        force: Whether an earlier import is replaced.

    Raises:
        UserError: If a source lies in the folder; or one is to be replaced that lies in a source,
            or has something that no import makes.
    """
    from signloom.corpus.manifest import IMPORTED_SHARDS
    from signloom.corpus.rejects import REJECTS_NAME
    from signloom_tools.importing.importer import CLIPS_NAME, check_lists

    for source in sources:
        if source.resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{source}, which is read, lies in {folder}: name another CORPUS")
    if force:
        made = {CLIPS_NAME, REJECTS_NAME, IMPORTED_SHARDS.name}
        check_output_folder(folder, sources, made)
    aside = folder.with_name(f".{folder.name}.before")
    old = folder.with_name(f".{folder.name}.replaced")  # no longer needed
    shutil.rmtree(old, ignore_errors=True)
    if aside.exists():  # left by a process that was killed
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    before = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
    if force and CLIPS_NAME in before:
        check_lists(folder.parent)  # a person may have written into them
        folder.rename(aside)
        before = set()
    try:
        yield
    except BaseException:
        kept = before if aside.exists() else {*before, REJECTS_NAME}
        for one in folder.iterdir() if folder.is_dir() else ():
            if one.name not in kept:  # of this import
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        if aside.exists():
            if folder.is_dir():
                folder.rmdir()
            aside.rename(folder)
        raise
    if aside.exists():
        aside.rename(old)  # at once: what is removed half would be taken back by the next import
        shutil.rmtree(old, ignore_errors=True)


def add_import_options(parser: Any) -> None:
    """Add what `signloom import` asks, but of single sources."""
    parser.add_argument(
        "--format",
        choices=("auto", "pose", "kaggle", "numpy", "keypoints", "features"),
        default="auto",
    )
    parser.add_argument(
        "--groups",
        nargs="+",
        metavar="GROUP",
        help="of hands, pose, lips, face_outline, brows, eyes, gaze (default: hands, and pose if "
        "it is there)",
    )
    parser.add_argument(
        "--pattern", metavar="PATH",
        help="what paths below SOURCE say, as in {split}/{text}/{signer}_{clip}",
    )  # fmt: skip
    parser.add_argument(
        "--detector", choices=("hands", "hands+pose", "holistic"), default="",
        help="which of MediaPipe's solutions found these landmarks: a model of them then reads "
        "films and cameras, too, by the same (holistic for MP_Data)",
    )  # fmt: skip


def import_sources(
    options: argparse.Namespace, sources: Sequence[Path], corpus: Path, pattern: str | None
) -> "Imported":
    """Import landmark files and print what was taken for what; see `import_landmarks`."""
    from signloom.corpus.landmarks import build_layout
    from signloom_tools.importing.importer import ImportOptions, compile_pattern, import_landmarks

    try:
        if options.groups:
            build_layout(options.groups)
    except ValueError as error:
        raise UserError(f"--groups: {error}") from None
    check_writable(corpus / "landmarks")
    found = import_landmarks(
        sources,
        corpus,
        ImportOptions(
            format=options.format,
            groups=tuple(options.groups) if options.groups else None,
            defaults=source_defaults(options),
            pattern=compile_pattern(pattern) if pattern else None,
            detector=options.detector,
        ),
    )
    for note in found.notes:
        print(f"  {note}", file=sys.stderr)
    return found


def add_export(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom export`."""
    parser.description = (
        "Write a .pose file for the landmarks of each clip; or with --format captions, for each "
        "film of the corpus, an ELAN file with sentences, glosses and the hypotheses of the last "
        "evaluation, and .vtt files. Corrected ELAN files come back by `signloom ingest`."
    )
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="made if need be")
    parser.add_argument("--format", choices=("pose", "captions"), default="pose")
    add_params(parser)
    add_path(parser, "--landmarks", SHARDS, "shards to read")
    parser.add_argument("--clips", nargs="+", metavar="ID", help="clip ids (default: all)")
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> None:
    """Write a file for each clip.

    Raises:
        UserError: Before anything is written, if a file or the corpus is in the way.
    """
    from tqdm import tqdm

    from signloom.corpus.manifest import id_problem
    from signloom.corpus.shards import read_clip_frames, read_shards
    from signloom.progress import progress_file
    from signloom_tools.importing.pose_files import write_pose

    refuse_in_corpus(options.folder)
    if options.format == "captions":
        _export_captions(options)
        return
    clip_ids = options.clips or list(read_clip_frames(options.landmarks))
    paths = {clip_id: options.folder / f"{clip_id}.pose" for clip_id in clip_ids}
    for clip_id, path in paths.items():
        if problem := id_problem(clip_id):  # of shards that somebody else wrote
            raise UserError(f"clip_id {clip_id!r} {problem}")
        check_output(path, [], overwrite=options.overwrite)
    for clip_id, path in tqdm(paths.items(), "writing", unit=" clips", file=progress_file()):
        write_pose(path, read_shards(options.landmarks, [clip_id])[clip_id])
    print(f"{len(paths)} files in {options.folder}", file=sys.stderr)


def _export_captions(options: argparse.Namespace) -> None:
    """Write the caption files of each film of the corpus."""
    from signloom.config import load_section
    from signloom.corpus.manifest import CorpusOptions, read_manifest
    from signloom_tools.importing.captioned import caption_files, film_cues
    from signloom_tools.importing.captions import write_captions

    corpus = load_section(options.params, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    if unknown := sorted(set(options.clips or ()) - {clip.clip_id for clip in clips}):
        raise UserError(f"{corpus.path} has no clip {', '.join(unknown)}")
    wanted = [clip for clip in clips if not options.clips or clip.clip_id in options.clips]
    hypotheses = _read_hypotheses(EVALUATION / HYPOTHESES_NAME)
    films = film_cues(wanted, hypotheses)
    files = {
        path: (film, cues)
        for film, every in films.items()
        for path, cues in caption_files(
            options.folder / film.relative_to(corpus.folder), every
        ).items()
    }
    for path in files:
        check_output(path, [], overwrite=options.overwrite)
    for path, (film, cues) in files.items():
        write_captions(path, cues, film)
    told = sum(bool(cue.hypothesis) for every in films.values() for cue in every)
    print(
        f"{len(files)} files of {len(films)} films in {options.folder}: {len(wanted)} clips, "
        f"{told} with a hypothesis",
        file=sys.stderr,
    )


def _read_hypotheses(path: Path) -> dict[str, tuple[str, float | None]]:
    """Return text and confidence of the last evaluation by clip id; none if there was none."""
    from signloom.tables import read_rows

    try:
        rows = read_rows(path) if path.is_file() else []
        sure = ((row, row.get("confidence")) for row in rows)
        return {row["clip_id"]: (row["hypothesis"], float(p) if p else None) for row, p in sure}
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); run `dvc repro evaluate` again") from None


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom cache`."""
    parser.set_defaults(run=_show_cache)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    pruning = actions.add_parser("prune", help="remove what was not used for some days")
    pruning.add_argument(
        "--days", type=float, required=True, help="keep what was used since; 0 removes everything"
    )
    pruning.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    pruning.set_defaults(run=_prune_cache)


def _show_cache(_: argparse.Namespace) -> None:
    """Print folder, number, size and age of the entries."""
    from signloom.extraction.cache import LandmarkCache, cache_folder

    use = LandmarkCache(cache_folder()).measure()
    print(f"folder      {cache_folder()}")
    print(f"entries     {use.entries:,}, of which {use.rejects:,} tell why a clip cannot be read")
    print(f"size        {use.size_bytes / 1e6:,.1f} MB")
    if use.oldest_use_s is not None:
        days = (time.time() - use.oldest_use_s) / 86_400
        print(f"oldest use  {days:.1f} days ago")


def _prune_cache(options: argparse.Namespace) -> None:
    """Remove old entries, and what killed writers left behind."""
    from signloom.extraction.cache import LandmarkCache, VideoHashes, cache_folder

    if not options.days >= 0:  # nor NaN
        raise UserError(f"--days: found {options.days:g}, expected 0 or more")
    entries, size_bytes = LandmarkCache(cache_folder()).prune(options.days, dry_run=options.dry_run)
    if not options.dry_run:
        VideoHashes(cache_folder()).prune()
    verb = "would remove" if options.dry_run else "removed"
    print(f"{verb} {entries:,} entries, {size_bytes / 1e6:,.1f} MB, from {cache_folder()}")
