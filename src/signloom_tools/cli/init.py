"""`signloom init`: a corpus folder from a user's table and videos."""

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.errors import Problem, UserError
from signloom.files import check_output
from signloom_tools.cli.arguments import add_captions, add_foreign, add_params, read_caption_options
from signloom_tools.cli.landmarks import add_import_options, import_sources, put_aside
from signloom_tools.presets import adopt

if TYPE_CHECKING:
    from signloom_tools.importing.captioned import CueRows
    from signloom_tools.importing.new_corpus import CorpusPlan, VideoFolder
    from signloom_tools.importing.user_tables import Sources, UserTable

TIMES = ("start_s", "end_s", "start_frame", "end_frame", "fps")  # of videos only
FIELDS = (
    "clip_id, video, text, signer, split, gloss, language, corpus, start_s, end_s, start_frame, "
    "end_frame, fps"
)


def add_init(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom init`."""
    parser.description = (
        "Turn a table of clips into CORPUS/manifest.tsv and link the videos there. "
        "docs/data.md has the commands for published corpora."
    )
    parser.epilog = f"Fields: {FIELDS}."
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="the folder to make")
    parser.add_argument(
        "--videos", type=Path, metavar="DIR", help="where the videos lie, at any depth"
    )
    parser.add_argument(
        "--text-only", action="store_true", help="no videos: a corpus of glosses and sentences"
    )
    parser.add_argument(
        "--captions", type=Path, nargs="*", metavar="FILE",
        help="a clip for each cue of these files or folders, or of those beside the videos; a "
        "table then has a row a film",
    )  # fmt: skip
    parser.add_argument(
        "--landmarks", type=Path, nargs="+", metavar="DIR",
        help="no videos and no table: landmark files in folders SIGN/TAKE or PERSON/SIGN/TAKE, "
        "such as MP_Data; they are imported, and dealt 80 10 10 without --shares",
    )  # fmt: skip
    add_import_options(parser.add_argument_group("landmarks"))
    add_foreign(parser, fps=" of landmarks, start_frame, end_frame and pictures")
    add_table(parser)
    add_captions(parser)
    parser.add_argument(
        "--copy", action="store_true", help="copy the videos instead of linking them"
    )
    add_writing(parser)
    parser.set_defaults(run=run_init, takes=None)


def add_table(parser: argparse.ArgumentParser) -> None:
    """Describe the tables of clips, and how to read what their columns hold."""
    parser.add_argument(
        "--table", action="extend", nargs="+", default=[], metavar="[SPLIT=]FILE",
        help="the clips, a row each; with train=, dev= and test= a table a split",
    )  # fmt: skip
    parser.add_argument("--join", type=Path, metavar="FILE", help="a table with further columns")
    for flag, form, meaning in (
        ("--column", "FIELD=COLUMN", "what the table calls a field"),
        ("--set", "FIELD=VALUE", "a value for every row"),
        ("--pick", "FIELD=REGEX", "what to take of a column's value: group 1"),
        ("--splits", "NAME=SPLIT", "what the table calls train, dev and test"),
        ("--only", "COLUMN=REGEX", "take only rows whose cell is so, as in lang=de or take=[1-3]"),
    ):
        parser.add_argument(
            flag, nargs="+", action="extend", default=[], metavar=form, help=meaning
        )
    parser.add_argument(
        "--shares", nargs=3, type=float, metavar=("TRAIN", "DEV", "TEST"),
        help="deal the clips to the splits, such as 80 10 10",
    )  # fmt: skip
    parser.add_argument(
        "--by", choices=("auto", "signer", "film", "sentence", "order", "clip"),
        default="auto",
        help="what --shares deals: signers, or where they are too few, films or the order of "
        "recording (auto); sentence: no text of test is in train",
    )  # fmt: skip
    parser.add_argument("--unspaced", action="store_true", help="take the spaces out of the text")
    parser.add_argument("--separator", choices=("tab", "pipe", "comma", "semicolon"))
    parser.add_argument("--encoding", help="as Python names it, such as utf-8 or gb18030")


def add_writing(parser: argparse.ArgumentParser) -> None:
    """Describe how the corpus is written."""
    parser.add_argument("--force", action="store_true", help="replace a manifest that is there")
    parser.add_argument("--dry-run", action="store_true", help="report, write nothing")
    parser.add_argument("--use", action="store_true", help="name the corpus in params.yaml")
    add_params(parser)


def run_init(options: argparse.Namespace) -> None:
    """Plan, report, and unless it is a dry run, write."""
    from signloom_tools.importing.new_corpus import check_free

    if not (options.force or options.dry_run):
        check_free(options.corpus)
    check_apart(options.corpus, read_tables(options))
    if options.landmarks:
        _init_landmarks(options)
        return
    finish_corpus(options, make_plan(options, _ask if sys.stdin.isatty() else None))


def _init_landmarks(options: argparse.Namespace) -> None:
    """Import landmark files whose folders say sign and person, and make a corpus of them."""
    from signloom.corpus.manifest import IMPORTED_SHARDS
    from signloom.corpus.rejects import REJECTS_NAME
    from signloom_tools.importing.importer import CLIPS_NAME, guess_pattern
    from signloom_tools.importing.new_corpus import check_plan
    from signloom_tools.importing.recipe import say_uses

    for name, given in (("videos", options.videos), ("table", options.table),
                        ("captions", options.captions is not None)):  # fmt: skip
        if given:
            raise UserError(f"--landmarks takes labels from folders; leave --{name} out, or "
                            "import first (signloom import) and give --table")  # fmt: skip
    with ExitStack() as stack:
        corpus = options.corpus
        if options.dry_run:
            options.corpus = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = options.corpus / IMPORTED_SHARDS.parent
        try:
            pattern = options.pattern or guess_pattern(options.landmarks, options.format)
            stack.enter_context(put_aside(folder, options.landmarks, force=options.force))
            found = import_sources(options, options.landmarks, options.corpus, pattern)
            print(f"{found.clips} clips, {found.frames} frames, {len(found.rejects)} not imported")
            options.table = [str(folder / CLIPS_NAME)]
            _assume(options, pattern)
            plan = make_plan(options, None)
            check_plan(plan)
            print("a model of these clips:")
            print(*(f"  {line}" for line in say_uses(plan.clips, options.detector)), sep="\n")
            finish_corpus(options, plan)
        finally:
            options.corpus = corpus
        if found.rejects and options.dry_run:
            print(*(f"  {one.video}: {one.problem}" for one in found.rejects), sep="\n")
        elif found.rejects:
            raise UserError(f"{len(found.rejects)} files or clips could not be imported; "
                            f"{folder / REJECTS_NAME} says why")  # fmt: skip


def _assume(options: argparse.Namespace, pattern: str) -> None:
    """Take one person and shares of 80, 10 and 10 where neither paths nor options say others."""
    given = {text.partition("=")[0] for text in (*options.set, *options.column)}
    if "{signer}" not in pattern and "signer" not in given:
        options.set = [*options.set, "signer=one"]
        print("  no folder and no --set signer=NAME says who signs: one person is assumed")
    if "{split}" not in pattern:
        options.shares = options.shares or [80.0, 10.0, 10.0]


def read_tables(options: argparse.Namespace) -> list[Path]:
    """Return the tables that the options name."""
    read = [Path(text.partition("=")[2] or text) for text in options.table]
    return [*read, *filter(None, [options.join])]


def check_apart(corpus: Path, read: Sequence[Path]) -> None:
    """Refuse to make a corpus where its sources lie: `--force` would replace them.

    Raises:
        UserError: If a file or folder that is read would be written.
    """
    from signloom.corpus.manifest import IMPORTED_SHARDS
    from signloom_tools.importing.new_corpus import MANIFEST, REFUSED

    for name in (MANIFEST, REFUSED):
        check_output(corpus / name, read, overwrite=True)
    shards = corpus / IMPORTED_SHARDS
    for given in read:
        if shards.exists() and given.exists() and shards.samefile(given):
            raise UserError(f"cannot write to {shards}: it is the input {given}; name another "
                            "CORPUS")  # fmt: skip


def finish_corpus(
    options: argparse.Namespace, plan: "CorpusPlan", write: Callable[[], object] | None = None
) -> None:
    """Report a plan and, unless it is a dry run, write it; landmarks, if any, with `write`."""
    from signloom_tools.importing.new_corpus import (
        MANIFEST,
        REFUSED,
        check_free,
        check_plan,
        write_corpus,
    )
    from signloom_tools.importing.recipe import read_params

    if not (options.force or options.dry_run):
        check_free(options.corpus, landmarks=write is not None)
    print_plan(plan)
    check_plan(plan)
    if options.dry_run:
        print("nothing was written")
        return
    params = read_params(options.params)  # before anything is written
    try:
        if write:
            write()
        write_corpus(plan, options.corpus, copy=options.copy, force=options.force)
    except OSError as error:
        raise UserError(f"{options.corpus}: no corpus can be written there ({error})") from None
    print(f"wrote {options.corpus / MANIFEST}")
    print_next(options, plan, params)
    if plan.refusals:
        raise UserError(
            f"{len(plan.refusals)} rows were left out; {options.corpus / REFUSED} says why"
        )


def _ask(question: str) -> str:
    """Put a question; no answer, and the end of the input, take what was guessed."""
    try:
        return input(question)
    except EOFError:
        print()
        return ""


def make_plan(options: argparse.Namespace, ask: Callable[[str], str] | None) -> "CorpusPlan":
    """Read the tables, settle the columns, and decide what becomes of each row.

    Args:
        options: The command line.
        ask: Puts a question to a person; None: nobody is there.
    """
    from signloom_tools.importing.new_corpus import (
        RefusedRow,
        RowOptions,
        VideoFolder,
        imported_clips,
        plan_corpus,
    )
    from signloom_tools.importing.user_tables import read_pairs

    if options.only and not options.table:
        raise UserError("--only chooses rows of a table; give --table FILE, too")
    if not options.table and options.captions is None:
        raise UserError(
            "give --table FILE: the table that names the clips, a row each, or --captions: a clip "
            "for each cue beside the videos"
        )
    tables = _read_tables(options)
    videos = VideoFolder(options.videos) if options.videos else None
    found = _read_rows(options, tables, videos)
    has_splits = all(split for _, split in found.rows) or options.shares is not None
    sources = _find_sources(options, found.header, has_splits, ask)
    imported = None if options.takes else imported_clips(options.corpus)
    _check_videos(options, imported is not None)
    if options.text_only:
        sources = {name: source for name, source in sources.items() if name not in TIMES}
    rules = RowOptions(
        sources=sources, split_names=read_pairs(options.splits, "--splits"), fps=options.fps,
        unspaced=options.unspaced, shares=tuple(options.shares) if options.shares else None,
        by=options.by, text_only=options.text_only,
    )  # fmt: skip
    plan = plan_corpus(found.rows, rules, options.corpus, videos, imported)
    reason = "its cells do not fit the columns"
    torn = [
        RefusedRow(table.path.name, line, "", Problem(reason, "", (why,)))
        for table, _ in tables
        for line, why in table.torn
    ]
    plan.refusals[:0] = torn + found.refusals
    return plan


def _read_rows(
    options: argparse.Namespace,
    tables: "Sequence[tuple[UserTable, str | None]]",
    videos: "VideoFolder | None",
) -> "CueRows":
    """Return the rows of the tables, or of captions, where these tables are of films."""
    from signloom_tools.importing.captioned import CueRows, read_films
    from signloom_tools.importing.user_tables import read_pairs, same_header

    if options.captions is None:
        rows = [(row, split) for table, split in tables for row in table.rows]
        return CueRows(rows, header=same_header([table for table, _ in tables]))
    if videos is None:
        raise UserError("--captions: give --videos DIR, too: where their films lie")
    columns = read_pairs(options.column, "--column")
    return read_films(videos, options.captions, tables, columns, *read_caption_options(options))


def _find_sources(
    options: argparse.Namespace,
    header: list[str],
    has_splits: bool,
    ask: Callable[[str], str] | None,
) -> "Sources":
    """Settle and print where each field comes from."""
    from signloom_tools.importing.user_tables import KNOWN_NAMES, find_sources, read_pairs

    fields = tuple(KNOWN_NAMES)
    sources = find_sources(
        header,
        read_pairs(options.column, "--column", fields),
        read_pairs(options.set, "--set", fields),
        read_pairs(options.pick, "--pick", fields),
        ask,
        settled=("split",) if has_splits else (),
    )
    if has_splits:
        sources.pop("split", None)
    if "gloss" in sources and not options.text_only:  # signs alone are recognised, not translated
        sources.setdefault("text", sources["gloss"])
    if options.takes and "text" in sources:
        sources.setdefault("clip_id", sources["text"])
    for name, source in sources.items():
        print(f"  {name:<11} <- {source}")
    _check_sources(options, set(sources) | ({"split"} if has_splits else set()), header)
    return sources


def _read_tables(options: argparse.Namespace) -> list[tuple["UserTable", str | None]]:
    """Return the tables with the split each was given for."""
    from signloom_tools.importing.new_corpus import NAMES
    from signloom_tools.importing.user_tables import (
        join_rows,
        keep_rows,
        read_pairs,
        read_user_table,
    )

    def read(path: Path) -> "UserTable":
        table = read_user_table(path, options.separator, options.encoding)
        print(f"{path}: {len(table.rows) + len(table.torn)} rows, {table.how}")
        return table

    tables: list[tuple[UserTable, str | None]] = []
    wanted = read_pairs(options.only, "--only")
    other = read(options.join) if options.join else None
    for text in options.table:
        name, mark, rest = text.partition("=")
        split = NAMES.get(name.lower()) if mark else None
        table = read(Path(rest if split else text))
        table = join_rows(table, other) if other else table
        if wanted:
            count, table = len(table.rows), keep_rows(table, wanted)
            print(f"  {len(table.rows)} of {count} rows by --only")
        tables.append((table, split))
    return tables


def _check_sources(options: argparse.Namespace, there: set[str], header: list[str]) -> None:
    """Refuse a mapping that leaves a field open; the message names the option to give."""
    needed = ("text", "signer", "split", *(["gloss"] if options.text_only else []))
    missing = [name for name in needed if name not in there]
    if not {"clip_id", "video"} & there:
        missing.append("clip_id")
    if missing:
        hints = {
            "signer": "if nobody knows who signs: --set signer=unknown",
            "split": "or --table train=FILE dev=FILE, or --shares 80 10 10",
        }
        more = "".join(f"; {hints[name]}" for name in missing if name in hints)
        raise UserError(
            f"which column is {', '.join(missing)}? The table has {', '.join(header)}; give "
            f"--column {missing[0]}=COLUMN{more}"
        )
    if options.fps is None and {"start_frame", "end_frame"} & there:
        raise UserError("start_frame and end_frame are numbers of frames: give --fps, or --column "
                        "start_s=COLUMN if they are seconds")  # fmt: skip
    shares = options.shares
    if shares and not (all(map(math.isfinite, shares)) and min(shares[:2]) > 0 <= shares[2]):
        raise UserError("--shares: train and dev need more than 0, test 0 or more")


def _check_videos(options: argparse.Namespace, is_imported: bool) -> None:
    if options.text_only and (options.videos or is_imported):
        found = "--videos" if options.videos else f"imported landmarks in {options.corpus}"
        raise UserError(f"--text-only makes a corpus without videos and landmarks; found {found}")
    if is_imported and options.videos:
        raise UserError(
            f"{options.corpus} holds imported landmarks; a corpus has them or videos, not both. "
            "Leave --videos out, or name another CORPUS"
        )
    if not (is_imported or options.videos or options.dry_run or options.text_only):
        raise UserError(
            "give --videos DIR: where the videos are (or bring their landmarks in first: "
            "signloom import, or give --text-only for glosses and sentences without videos); "
            "--dry-run checks a table without them"
        )


def print_plan(plan: "CorpusPlan") -> None:
    """Print what will be taken, what not and why."""
    from signloom.corpus.manifest import SPLITS
    from signloom_tools.importing.new_corpus import count_reasons
    from signloom_tools.importing.recipe import warn_of_leaks, warn_of_little

    print(f"{len(plan.clips)} rows taken, {len(plan.refusals)} left out")
    for split in SPLITS:
        clips = [clip for clip in plan.clips if clip.split == split]
        signers = len({clip.signer for clip in clips})
        texts = len({clip.text for clip in clips})
        print(f"  {split:<5} {len(clips)} clips, {signers} signers, {texts} different texts")
    is_cut = bool(plan.clips) and plan.clips[0].end_s is not None
    for clip in plan.clips[: 5 if is_cut else 1]:
        times = f" {clip.start_s or 0:.3f} to {clip.end_s:.3f} s" if clip.end_s else ""
        print(f"  first {clip.clip_id}{times}: {clip.text!r} by {clip.signer}")
    if plan.renamed:
        print(f"  {plan.renamed} names hold characters that a clip_id may not; they became _")
    if gaps := plan.gaps():
        print(f"  {gaps}")
    print(*(f"  {line}\n" for line in _describe_splits(plan)), sep="", end="")
    for warning in (*warn_of_leaks(plan.clips), *warn_of_little(plan.clips)):
        print(f"  warning: {warning}")
    for reason, count, row in count_reasons(plan.refusals):
        detail = f": {row.detail}" if row.detail else ""
        print(f"  left out {count}: {reason} (first {row.table} line {row.line}{detail})")


def _describe_splits(plan: "CorpusPlan") -> Iterator[str]:
    """Say how the clips were dealt to the splits, and what is in several of them."""
    from signloom_tools.importing.dealing import few_takes

    if plan.dealt_by == "order":
        yield ("dealt by order: of each signer and text the first takes train, the last test, "
               "which is nearest to another day's")  # fmt: skip
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


def print_next(options: argparse.Namespace, plan: "CorpusPlan", params: Mapping[str, Any]) -> None:
    """Print the parameters to set, or set them."""
    from signloom_tools.importing.recipe import choose_values, say_outlook

    values, reasons = choose_values(
        plan.clips,
        options.corpus,
        params,
        signer_disjoint=not plan.shared_signers(),
        text_only=options.text_only,
    )
    if reasons:
        print("a recipe that fits these clips, to start from:")
        print(*(f"  {reason}" for reason in reasons), sep="\n")
    if not options.text_only:
        print(say_outlook(plan.clips))
    if options.use:
        adopt(options.params, values)
        print(f"{options.params} names the corpus now; go on with `dvc repro`")
    else:
        print(f"set in {options.params} (or give --use), then `dvc repro`:")
    for section, keys in values.items():
        for key, value in _flatten(keys):
            print(f"  {section}.{key}: {str(value).lower() if value in (True, False) else value}")


def _flatten(keys: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of nested maps, joined by dots, with their values."""
    for key, value in keys.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", one) for name, one in _flatten(value))
        else:
            yield key, value
