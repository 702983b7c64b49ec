"""`signloom init`: a corpus folder from a user's table and videos."""

import functools
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from signloom.config import NonNegative, flatten
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS
from signloom.corpus.rejects import REJECTS_NAME
from signloom.errors import Problem, UserError, count_of, name_some
from signloom.files import whole_folder
from signloom.paths import PARAMS
from signloom.progress import wrap
from signloom_tools.cli.landmark_files import import_sources
from signloom_tools.command_options import argument, group, option, read_pairs
from signloom_tools.importing.captioned import CueRows, add_paths, check_times, read_films
from signloom_tools.importing.column_names import IN_MS, KNOWN_NAMES, SPLIT_NAMES
from signloom_tools.importing.column_sources import Sources, find_sources
from signloom_tools.importing.corpus_warnings import warn_of_exchanged, warn_of_no_hands
from signloom_tools.importing.dealing import few_takes
from signloom_tools.importing.importer import CLIPS_NAME, ELSEWHERE, check_place, guess_pattern
from signloom_tools.importing.new_corpus import (
    MANIFEST,
    REFUSED,
    CorpusPlan,
    RefusedRow,
    RowOptions,
    VideoFolder,
    check_free,
    check_plan,
    count_reasons,
    imported_clips,
    plan_corpus,
    unfinished,
    write_corpus,
)
from signloom_tools.importing.options import CaptionOptions, ImportOptions
from signloom_tools.importing.recipe import (
    choose_values,
    describe_outlook,
    describe_uses,
    read_params,
    warn_of_leaks,
    warn_of_little,
)
from signloom_tools.importing.user_tables import (
    UserTable,
    join_rows,
    keep_rows,
    read_user_table,
    same_header,
)
from signloom_tools.outputs import check_output
from signloom_tools.presets import adopt

EDGES = {"start": ("start", "begin", "onset", "from"), "end": ("end", "stop", "offset", "to")}
LIKE_TIMES = {name for names in EDGES.values() for name in names}  # of what unit?
OF_VIDEOS = ("start_s", "end_s", "duration_s", "start_frame", "end_frame", "fps", "box")
_MOST_NAMES = 5  # of files in a warning


_pairs_of_fields = functools.partial(read_pairs, allowed=(*KNOWN_NAMES, *IN_MS))


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The tables of clips, and what their columns hold."""

    table: Sequence[str] = option(
        "the clips, a row each; with train=, dev= and test= a table a split",
        (),
        action="extend",
        metavar="[SPLIT=]FILE",
    )
    names: Sequence[str] = option(
        "what to call the columns of tables that have no line of names", (), metavar="NAME"
    )
    join: Path | None = option("a table with further columns", None, metavar="FILE")
    column: dict[str, str] = option(
        "what the table calls a field",
        {},
        metavar="FIELD=COLUMN",
        read=functools.partial(_pairs_of_fields, flag="--column"),
    )
    set: dict[str, str] = option(
        "a value for every row",
        {},
        metavar="FIELD=VALUE",
        read=functools.partial(_pairs_of_fields, flag="--set", may_be_empty=True),
    )
    pick: dict[str, str] = option(
        "what to take of a column's value: group 1",
        {},
        metavar="FIELD=REGEX",
        read=functools.partial(_pairs_of_fields, flag="--pick"),
    )
    splits: dict[str, str] = option(
        "what the table calls train, dev and test", {}, metavar="NAME=SPLIT"
    )
    only: dict[str, str] = option(
        "take only rows whose cell matches, as in lang=de or take=[1-3]", {}, metavar="COLUMN=REGEX"
    )
    shares: Sequence[NonNegative] | None = option(
        "deal the clips to the splits, such as 80 10 10",
        None,
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
    )
    by: Literal["auto", "signer", "film", "sentence", "order", "clip"] = option(
        "what --shares deals: signers, or where they are too few, films or the order of recording "
        "(auto); sentence: no text of test is in train",
        "auto",
    )
    unspaced: bool = option("remove the spaces from the text", False)
    separator: Literal["tab", "pipe", "comma", "semicolon"] | None = option("of columns", None)
    encoding: str | None = option("as Python names it, such as utf-8 or gb18030", None)

    @property
    def files(self) -> list[Path]:
        """The tables that are read."""
        read = [Path(text.partition("=")[2] or text) for text in self.table]
        return [*read, *filter(None, [self.join])]


@dataclass(frozen=True, kw_only=True)
class WritingOptions:
    """How a corpus is written."""

    copy: bool = option("copy the videos instead of linking them", False)
    force: bool = option("replace an existing manifest", False)
    dry_run: bool = option("report and write nothing", False)
    use: bool = option("name the corpus in params.yaml", False)
    params: Path = option("file of parameters", PARAMS)


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Turn a table of clips into CORPUS/manifest.tsv and link the videos there.

    docs/datasets.md has the commands for published corpora. Fields: clip_id, video, text, signer,
    split, gloss, language, corpus, start_s, end_s, duration_s, start_frame, end_frame, fps, box.
    """

    corpus: Path = argument("the folder to make", "CORPUS")
    videos: Path | None = option("folder of the videos, at any depth", None, metavar="DIR")
    text_only: bool = option("no videos: a corpus of glosses and sentences", False)
    captions: Sequence[Path] | None = option(
        "a clip for each cue of these files or folders, or of those next to the videos; a table "
        "then has a row a film",
        None,
        nargs="*",
        metavar="FILE",
    )
    landmarks: Sequence[Path] = option(
        "no videos and no table: landmark files in folders SIGN/TAKE or PERSON/SIGN/TAKE, such as "
        "MP_Data; they are imported, and dealt 80 10 10 without --shares",
        (),
        metavar="DIR",
    )
    imports: ImportOptions = group(
        ImportOptions, "landmarks", only=("pattern", "detector", "fps", "width", "height")
    )
    tables: TableOptions = group(TableOptions, "tables")
    cues: CaptionOptions = group(CaptionOptions, "captions")
    writing: WritingOptions = group(WritingOptions, "writing")
    of_takes: bool = False  # the clips are composed of takes of single signs


def run_init(options: InitOptions) -> None:
    """Plan, report, and unless it is a dry run, write."""
    if not (options.writing.force or options.writing.dry_run):
        check_free(options.corpus)
    check_apart(options.corpus, options.tables.files)
    if options.landmarks:
        _init_landmarks(options)
    else:
        plan = make_plan(options)
        finish_corpus(options.corpus, options.writing, plan, text_only=options.text_only)


def _init_landmarks(options: InitOptions) -> None:
    """Import landmark files whose folders name sign and person, and make a corpus of them."""
    for name, is_given in (
        ("videos", options.videos),
        ("table", options.tables.table),
        ("captions", options.captions is not None),
    ):
        if is_given:
            raise UserError(
                f"--landmarks takes labels from folders; leave --{name} out, or "
                "import first (signloom import) and give --table"
            )
    writing, folder = options.writing, options.corpus / IMPORTED_SHARDS.parent
    if not writing.dry_run:
        check_place(options.landmarks, options.corpus, force=writing.force)
    pattern = options.imports.pattern or guess_pattern(options.landmarks)
    imports = replace(options.imports, pattern=pattern)
    with tempfile.TemporaryDirectory() as name:
        corpus = Path(name)
        imported = import_sources(options.landmarks, corpus, imports)
        print(
            f"{count_of(imported.clips, 'clip')}, {imported.frames} frames, "
            f"{len(imported.rejects)} not imported"
        )
        table = corpus / IMPORTED_SHARDS.parent / CLIPS_NAME
        tables = replace(_assume(options.tables, pattern.groupindex), table=[str(table)])
        plan = make_plan(replace(options, corpus=corpus, tables=tables))
        check_plan(plan)
        print("a model of these clips:")
        print(*(f"  {line}" for line in describe_uses(plan.clips, imports.detector)), sep="\n")

        def place() -> None:
            with whole_folder(folder) as temporary:
                shutil.copytree(corpus / IMPORTED_SHARDS.parent, temporary, dirs_exist_ok=True)

        finish_corpus(options.corpus, writing, plan, place)
    if imported.rejects and writing.dry_run:
        print(*(f"  {reject.video}: {reject.problem}" for reject in imported.rejects), sep="\n")
        return
    is_guessed = options.imports.pattern is None
    strays = [r.video for r in imported.rejects if is_guessed and r.problem.hint == ELSEWHERE]
    if strays:
        more = ", ..." * (len(strays) > _MOST_NAMES)
        print(
            f"warning: {len(strays)} files lie at another depth and were left out "
            f"({', '.join(strays[:_MOST_NAMES])}{more}); {folder / REJECTS_NAME} lists them"
        )
    if len(strays) < len(imported.rejects):
        reject = next(r for r in imported.rejects if r.video not in strays)
        first = f"{reject.video}: {reject.problem}"
        raise UserError(
            f"{len(imported.rejects) - len(strays)} files or clips could not be imported; "
            f"{folder / REJECTS_NAME} says why, the first is {first}"
        )


def _assume(tables: TableOptions, fields: Collection[str]) -> TableOptions:
    """Add one person and shares of 80, 10 and 10 where neither paths nor options say others."""
    if not {"signer"} & {*fields, *tables.set, *tables.column}:
        tables = replace(tables, set={**tables.set, "signer": "one"})
        print("  no folder and no --set signer=NAME says who signs: one person is assumed")
    if "split" not in fields and tables.shares is None:
        tables = replace(tables, shares=(80.0, 10.0, 10.0))
    return tables


def check_apart(corpus: Path, read: Sequence[Path]) -> None:
    """Refuse to make a corpus where its sources lie: `--force` would replace them.

    Raises:
        UserError: If a file or folder that is read would be written.
    """
    for name in (MANIFEST, REFUSED):
        check_output(corpus / name, read, overwrite=True)
    shards = corpus / IMPORTED_SHARDS
    for path in read:
        if shards.exists() and path.exists() and shards.samefile(path):
            raise UserError(
                f"cannot write to {shards}: it is the input {path}; name another CORPUS"
            )


def finish_corpus(
    corpus: Path,
    writing: WritingOptions,
    plan: CorpusPlan,
    write: Callable[[], object] | None = None,
    *,
    text_only: bool = False,
) -> None:
    """Report a plan and, unless it is a dry run, write it; landmarks, if any, with `write`."""
    if not (writing.force or writing.dry_run):
        check_free(corpus, landmarks=write is not None)
    print_plan(plan)
    check_plan(plan)
    if writing.dry_run:
        print("nothing was written")
        return
    params = read_params(writing.params)  # before anything is written
    with unfinished(corpus):
        if write:
            write()
        write_corpus(plan, corpus, copy=writing.copy, force=writing.force)
        print(f"wrote {corpus / MANIFEST}")
        print_next(corpus, writing, plan, params, text_only=text_only)
    if plan.refusals:
        raise UserError(
            f"{count_of(len(plan.refusals), 'row')} left out; {corpus / REFUSED} says why"
        )


def make_plan(options: InitOptions) -> CorpusPlan:
    """Read the tables, settle the columns, and decide what becomes of each row."""
    table_options = options.tables
    if table_options.only and not table_options.table:
        raise UserError("--only chooses rows of a table; give --table FILE, too")
    pattern = options.imports.pattern
    if not (table_options.table or options.captions is not None or (pattern and options.videos)):
        raise UserError(
            "give --table FILE: the table that names the clips, a row each; --captions: a clip "
            "for each cue next to the videos; or --pattern: what the paths of the videos say, as "
            "in {text}/{signer}_{clip}"
        )
    tables = _read_tables(table_options)
    videos = VideoFolder(options.videos, pattern) if options.videos else None
    cue_rows = _read_rows(options, tables, videos)
    has_splits = all(split for _, split in cue_rows.rows) or table_options.shares is not None
    sources = _find_sources(options, cue_rows.header, has_splits)
    imported = None if options.of_takes else imported_clips(options.corpus)
    _check_videos(options, imported is not None)
    if options.text_only or imported is not None:
        sources = {name: source for name, source in sources.items() if name not in OF_VIDEOS}
    rules = RowOptions(
        sources=sources,
        split_names=table_options.splits,
        fps=options.imports.defaults.fps,
        unspaced=table_options.unspaced,
        shares=table_options.shares,
        by=table_options.by,
        text_only=options.text_only,
    )
    plan = plan_corpus(cue_rows.rows, rules, options.corpus, videos, imported)
    reason = "its cells do not fit the columns"
    torn = [
        RefusedRow(table.path.name, line, "", Problem(reason, "", (why,)))
        for table, _ in tables
        for line, why in table.torn
    ]
    plan.refusals[:0] = torn + cue_rows.refusals
    if options.captions is None:  # whose cues were compared with their films
        check_times(plan, sources)
    return plan


def _read_rows(
    options: InitOptions,
    tables: Sequence[tuple[UserTable, str | None]],
    videos: VideoFolder | None,
) -> CueRows:
    """Return the rows of the tables, or of captions, where these tables are of films."""
    if options.captions is None:
        rows = [(row, split) for table, split in tables for row in table.rows]
        cue_rows = CueRows(
            rows, header=same_header([table for table, _ in tables]) if tables else []
        )
        if videos is None or videos.pattern is None:
            return cue_rows
        return add_paths(cue_rows, videos, options.tables.column)
    if videos is None:
        raise UserError("--captions: give --videos DIR, too: where their films lie")
    cues = options.cues
    cue_rows = read_films(
        videos, options.captions, tables, options.tables.column, cues.choice, cues.rules
    )
    if names := cue_rows.with_gloss_lines:
        print(
            f"  warning: in {len(names)} ELAN files (first {names[0]}) each sentence has one gloss "
            "annotation; its words are taken as separate signs. Write a sign of two words with a "
            "hyphen, as THANK-YOU"
        )
    if cue_rows.signers:
        signers = (f"{name} is {who}" for name, who in cue_rows.signers.items())
        print(f"  signers by the names of tiers and films: {name_some(signers, 12)}")
    return cue_rows


def _find_sources(options: InitOptions, header: list[str], has_splits: bool) -> Sources:
    """Settle and print where each field comes from."""
    table_options = options.tables
    sources = find_sources(header, table_options.column, table_options.set, table_options.pick)
    if has_splits:
        sources.pop("split", None)
    if "gloss" in sources and not options.text_only:  # signs alone are recognised, not translated
        sources.setdefault("text", sources["gloss"])
    if options.of_takes and "text" in sources:
        sources.setdefault("clip_id", sources["text"])
    lone = _drop_lone_edge(sources, header)
    for name, source in sources.items():
        print(f"  {name:<11} <- {source}")
    used = {source.column for source in sources.values()}
    if unused := [name for name in header if name and name not in used]:
        print(f"  not used: {', '.join(unused[:12])}{' ...' if len(unused) > 12 else ''}")
        times = [name for name in unused if name in lone or name.lower() in LIKE_TIMES]
        if times and not ({*OF_VIDEOS[:5]} & sources.keys() or options.text_only):
            print(
                f"  warning: {' and '.join(times)} may be times within films. To cut the clips "
                "out, say in which unit: --column start_s=COL end_s=COL (seconds), start_ms and "
                "end_ms, or start_frame and end_frame with --fps"
            )
    _check_sources(options, set(sources) | ({"split"} if has_splits else set()), header)
    return sources


def _drop_lone_edge(sources: Sources, header: Sequence[str]) -> list[str]:
    """Leave out a guessed start or end whose other edge is in a column of unknown name.

    Returns:
        The columns of both, if any.
    """
    used = {source.column for source in sources.values()}
    for edge, other in (("start", "end"), ("end", "start")):
        source = sources.get(f"{edge}_s")
        words = {
            name: re.findall("[a-z]+", re.sub("([A-Z])", r" \1", name).lower()) for name in header
        }
        alike = [name for name in header if name not in used and {*EDGES[other]} & {*words[name]}]
        is_lone = not {f"{other}_s", f"{other}_frame", "duration_s"} & sources.keys()
        if source and source.column and source.guessed and is_lone and alike:
            del sources[f"{edge}_s"]
            return [source.column, *alike]
    return []


def _read_tables(options: TableOptions) -> list[tuple[UserTable, str | None]]:
    """Return the tables with the split each was given for."""

    def read(path: Path) -> UserTable:
        names = () if path == options.join else options.names
        table = read_user_table(path, options.separator, options.encoding, names)
        print(f"{path}: {count_of(len(table.rows) + len(table.torn), 'row')}, {table.how}")
        return table

    tables: list[tuple[UserTable, str | None]] = []
    added = read(options.join) if options.join else None
    for text in options.table:
        name, mark, location = text.partition("=")
        split = SPLIT_NAMES.get(name.lower()) if mark else None
        table = read(Path(location if split else text))
        table = join_rows(table, added) if added else table
        if options.only:
            count, table = len(table.rows), keep_rows(table, options.only)
            print(f"  {len(table.rows)} of {count} rows by --only")
        tables.append((table, split))
    return tables


def _check_sources(options: InitOptions, fields: set[str], header: list[str]) -> None:
    """Refuse a mapping that leaves a field open; the message names the option to give."""
    needed = ("text", "signer", "split", *(["gloss"] if options.text_only else []))
    missing = [name for name in needed if name not in fields]
    if not {"clip_id", "video"} & fields:
        missing.append("video" if options.videos else "clip_id")
    if missing:
        no_header = ", or --names if the first line of the table has none"
        hints = {
            "signer": ", or --set signer=unknown",
            "split": ", or --table train=FILE dev=FILE, or --shares 80 10 10",
            "clip_id": no_header,
            "video": no_header,
        }
        answers = [f"\n  {n}: --column {n}=COLUMN{hints.get(n, '')}" for n in missing]
        raise UserError(
            f"which column is {', '.join(missing)}? The table has {', '.join(header)}; "
            f"give{''.join(answers)}"
        )
    if options.imports.defaults.fps is None and {"start_frame", "end_frame"} & fields:
        raise UserError(
            "start_frame and end_frame are numbers of frames: give --fps, or --column "
            "start_s=COLUMN if they are seconds"
        )
    if options.tables.shares and not min(options.tables.shares[:2]) > 0:
        raise UserError("--shares: train and dev need more than 0, test 0 or more")


def _check_videos(options: InitOptions, is_imported: bool) -> None:
    if options.text_only and (options.videos or is_imported):
        conflict = "--videos" if options.videos else f"imported landmarks in {options.corpus}"
        raise UserError(
            f"--text-only makes a corpus without videos and landmarks; found {conflict}"
        )
    if is_imported and options.videos:
        raise UserError(
            f"{options.corpus} holds imported landmarks; a corpus has them or videos, not both. "
            "Leave --videos out, or name another CORPUS"
        )
    if not (is_imported or options.videos or options.writing.dry_run or options.text_only):
        raise UserError(
            "give --videos DIR: where the videos are (or bring their landmarks in first: "
            "signloom import, or give --text-only for glosses and sentences without videos); "
            "--dry-run checks a table without them"
        )


def print_plan(plan: CorpusPlan) -> None:
    """Print what will be taken, what not and why."""
    print(f"{count_of(len(plan.clips), 'row')} taken, {len(plan.refusals)} left out")
    for split in SPLITS:
        clips = [clip for clip in plan.clips if clip.split == split]
        signers = len({clip.signer for clip in clips})
        texts = len({clip.text for clip in clips})
        counts = {"clip": len(clips), "signer": signers, "different text": texts}
        print(f"  {split:<5} {', '.join(count_of(*pair[::-1]) for pair in counts.items())}")
    is_cut = bool(plan.clips) and plan.clips[0].end_s is not None
    for clip in plan.clips[: 5 if is_cut else 1]:
        times = f" {clip.start_s or 0:.3f} to {clip.end_s:.3f} s" if clip.end_s else ""
        print(f"  first {clip.clip_id}{times}: {clip.text!r} by {clip.signer}")
    if plan.renamed:
        print(f"  {plan.renamed} names hold characters that a clip_id may not; they became _")
    if gaps := plan.gaps():
        print(f"  {gaps}")
    print(*(f"{wrap(line)}\n" for line in _describe_splits(plan)), sep="", end="")
    for warning in (*plan.notes, *warn_of_leaks(plan.clips), *warn_of_little(plan.clips)):
        print(wrap(f"warning: {warning}"))
    for reason, count, row in count_reasons(plan.refusals):
        detail = f": {row.detail}" if row.detail else ""
        print(f"  left out {count}: {reason} (first {row.table} line {row.line}{detail})")


def _describe_splits(plan: CorpusPlan) -> Iterator[str]:
    """Say how the clips were dealt to the splits, and what is in several of them."""
    if plan.dealt_by == "order":
        yield (
            "dealt by order: of each signer and text the first takes train, the last test, "
            "which is nearest to another day's"
        )
        if pooled := few_takes(plan.clips, len({clip.split for clip in plan.clips})):
            yield (
                f"warning: {len(pooled)} clips have fewer takes of their signer and text than "
                "there are splits; these were dealt together, so dev and test may have texts that "
                "train lacks. Record more takes, or say --by clip or --by sentence"
            )
    elif plan.dealt_by:
        yield f"dealt by {plan.dealt_by}"
    if shared := plan.shared_signers():
        splits = Counter(" and ".join(splits) for splits in shared.values())
        parts = ", ".join(f"{count} in {names}" for names, count in splits.items())
        yield f"signers in several splits: {parts}. Scores then say little about other signers"
    if torn := plan.shared_films():
        yield f"films in several splits: {torn}. --by film deals each to one"


def print_next(
    corpus: Path,
    writing: WritingOptions,
    plan: CorpusPlan,
    params: Mapping[str, Any],
    *,
    text_only: bool,
) -> None:
    """Print the parameters to set, or set them."""
    disjoint = not plan.shared_signers()
    values, reasons = choose_values(
        plan.clips, corpus, params, signer_disjoint=disjoint, text_only=text_only
    )
    if reasons:
        print("a recipe that fits these clips, to start from:")
        print(*map(wrap, reasons), sep="\n")
    if not text_only:
        print(wrap(describe_outlook(plan.clips), ""))
    if no_hands := warn_of_no_hands(plan.clips):
        print(wrap(no_hands, ""))
    for warning in () if text_only else warn_of_exchanged(plan.clips, corpus, params, values):
        print(wrap(warning, ""))
    if writing.use:
        adopt(writing.params, values)
        print(f"{writing.params} names the corpus now; go on with `dvc repro`")
    else:
        print(f"set in {writing.params} (or give --use), then `dvc repro`:")
    for section, keys in values.items():
        for key, value in flatten(keys):
            print(f"  {section}.{key}: {str(value).lower() if value in (True, False) else value}")
