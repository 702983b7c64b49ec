"""Commands for landmark files of other tools, and for the cache of extracted landmarks."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from signloom.config import NonNegative, load_section
from signloom.corpus.landmarks import build_layout
from signloom.corpus.manifest import CorpusOptions, id_problem, read_manifest
from signloom.corpus.shards import read_clip_frames, read_shards
from signloom.errors import UserError, count_of
from signloom.extraction.cache import LandmarkCache, VideoHashes, cache_folder
from signloom.paths import EVALUATION, HYPOTHESES_NAME, PARAMS, SHARDS
from signloom.progress import progress_file
from signloom.tables import read_rows
from signloom_tools.cli.guards import refuse_in_corpus
from signloom_tools.command_options import argument, group, option
from signloom_tools.importing.captioned import caption_files, film_cues
from signloom_tools.importing.captions import write_captions
from signloom_tools.importing.importer import Imported, import_landmarks
from signloom_tools.importing.options import ImportOptions
from signloom_tools.importing.pose_files import write_pose
from signloom_tools.outputs import check_distinct, check_output


@dataclass(frozen=True, kw_only=True)
class ImportCommand:
    """Turn landmark files into CORPUS/landmarks; docs/landmarks.md lists what is read.

    Write a manifest without the column `video` there, then run `dvc repro`.
    """

    sources: Sequence[Path] = argument("a file, or a folder of files", "SOURCE")
    to: Path = option("corpus folder (corpus.folder)", metavar="CORPUS")
    force: bool = option("replace an earlier import", False)
    imports: ImportOptions = group(ImportOptions)


def run_import(options: ImportCommand) -> None:
    """Import what can be imported, and print what could not."""
    folder = options.to / "landmarks"
    imported = import_sources(options.sources, options.to, options.imports, force=options.force)
    print(
        f"{count_of(imported.clips, 'clip')}, {imported.frames} frames in {folder}, layout "
        f"{imported.layout.name}; {folder / 'clips.tsv'} lists them for your manifest",
        file=sys.stderr,
    )
    if imported.rejects:
        raise UserError(
            f"{len(imported.rejects)} files or clips could not be imported; "
            f"{folder / 'rejects.tsv'} says why; correct them, and --force imports all again"
        )


def import_sources(
    sources: Sequence[Path], corpus: Path, options: ImportOptions, *, force: bool = False
) -> Imported:
    """Import landmark files and print what was taken for what; see `import_landmarks`."""
    try:
        if options.groups:
            build_layout(options.groups)
    except ValueError as error:
        raise UserError(f"--groups: {error}") from None
    imported = import_landmarks(sources, corpus, options, force=force)
    for note in imported.notes:
        print(f"  {note}", file=sys.stderr)
    return imported


@dataclass(frozen=True, kw_only=True)
class ExportLandmarksOptions:
    """Write a .pose file for the landmarks of each clip, or captions for each film of the corpus.

    Captions are an ELAN file with sentences, glosses and the hypotheses of the last evaluation, and
    .vtt files. Corrected ELAN files come back by `signloom ingest`.
    """

    folder: Path = argument("made if need be", "OUT_DIR")
    format: Literal["pose", "captions"] = option("of the files", "pose")
    params: Path = option("file of parameters", PARAMS)
    landmarks: Path = option("shards to read", SHARDS)
    clips: Sequence[str] = option("clip ids (default: all)", (), metavar="ID")
    overwrite: bool = option("replace files that already exist", False)


def run_export(options: ExportLandmarksOptions) -> None:
    """Write a file for each clip.

    Raises:
        UserError: Before anything is written, if a file or the corpus is in the way.
    """
    refuse_in_corpus(options.folder)
    if options.format == "captions":
        _export_captions(options)
        return
    clip_ids = options.clips or list(read_clip_frames(options.landmarks))
    paths = {clip_id: options.folder / f"{clip_id}.pose" for clip_id in clip_ids}
    check_distinct((path, clip_id) for clip_id, path in paths.items())
    for clip_id, path in paths.items():
        if problem := id_problem(clip_id):  # of shards from another source
            raise UserError(f"clip_id {clip_id!r} {problem}")
        check_output(path, [], overwrite=options.overwrite)
    for clip_id, path in tqdm(paths.items(), "writing", unit=" clips", file=progress_file()):
        write_pose(path, read_shards(options.landmarks, [clip_id])[clip_id])
    print(f"{count_of(len(paths), 'file')} in {options.folder}", file=sys.stderr)


def _export_captions(options: ExportLandmarksOptions) -> None:
    """Write the caption files of each film of the corpus."""
    corpus = load_section(options.params, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    if unknown := sorted(set(options.clips) - {clip.clip_id for clip in clips}):
        raise UserError(f"{corpus.path} has no clip {', '.join(unknown)}")
    chosen = [clip for clip in clips if not options.clips or clip.clip_id in options.clips]
    films = film_cues(chosen, _read_hypotheses(EVALUATION / HYPOTHESES_NAME))
    files = [
        (path, film, cues)
        for film, every in films.items()
        for path, cues in caption_files(
            options.folder / film.relative_to(corpus.folder), every
        ).items()
    ]
    check_distinct((path, film) for path, film, _ in files)
    for path, _, _ in files:
        check_output(path, [], overwrite=options.overwrite)
    for path, film, cues in files:
        write_captions(path, cues, film)
    hypothesis_count = sum(bool(cue.hypothesis) for every in films.values() for cue in every)
    print(
        f"{count_of(len(files), 'file')} of {count_of(len(films), 'film')} in {options.folder}: "
        f"{count_of(len(chosen), 'clip')}, "
        f"{hypothesis_count} with a hypothesis",
        file=sys.stderr,
    )


def _read_hypotheses(path: Path) -> dict[str, tuple[str, float | None]]:
    """Return text and confidence of the last evaluation by clip id; none if there was none."""
    try:
        rows = read_rows(path) if path.is_file() else []
        sure = ((row, row.get("confidence")) for row in rows)
        return {row["clip_id"]: (row["hypothesis"], float(p) if p else None) for row, p in sure}
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); run `dvc repro evaluate` again") from None


@dataclass(frozen=True, kw_only=True)
class CacheOptions:
    """Print what the cache of landmarks holds, or remove what was not used for some days."""

    action: Literal["prune"] | None = argument("remove entries by age", "prune", nargs="?")
    days: NonNegative | None = option("keep entries used in the last DAYS days; 0 keeps none", None)
    dry_run: bool = option("only print what would be removed", False)


def run_cache(options: CacheOptions) -> None:
    """Print folder, number, size and age of the entries; or remove old ones."""
    folder = cache_folder()
    if options.action:
        if options.days is None:
            raise UserError("prune needs --days")
        entries, size_bytes = LandmarkCache(folder).prune(options.days, dry_run=options.dry_run)
        if not options.dry_run:
            VideoHashes(folder).prune()  # what killed writers left behind
        verb = "would remove" if options.dry_run else "removed"
        print(f"{verb} {entries:,} entries, {size_bytes / 1e6:,.1f} MB, from {folder}")
        return
    use = LandmarkCache(folder).measure()
    print(f"folder      {folder}")
    print(f"entries     {use.entries:,}, of which {use.rejects:,} tell why a clip cannot be read")
    print(f"size        {use.size_bytes / 1e6:,.1f} MB")
    if use.oldest_use_s is not None:
        print(f"oldest use  {(time.time() - use.oldest_use_s) / 86_400:.1f} days ago")
