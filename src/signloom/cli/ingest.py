"""`signloom ingest`: new videos and their sentences come into the corpus."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import load_params, load_section, parse_options
from signloom.corpus.manifest import SPLITS
from signloom.errors import UserError
from signloom.paths import PARAMS

if TYPE_CHECKING:
    from signloom.intake.ingest import IngestResult
    from signloom.intake.options import IngestOptions

_MOST_LISTED = 20


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "ingest",
        help="take new videos and their sentences into the corpus",
        description="Check the videos of DIR, with a table or a .txt file beside each, and copy "
        "the good ones into the corpus. Run twice, it changes nothing. docs/ingest.md has the "
        "rules.",
    )
    parser.add_argument("sources", nargs="+", type=Path, metavar="DIR", help="what was delivered")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of the clips in the only DIR")
    parser.add_argument("--signer", metavar="NAME", help="who signs where no table says it")
    parser.add_argument("--dry-run", action="store_true", help="report, write nothing")
    parser.add_argument("--json", action="store_true", help="print what came in as JSON")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ingest and report; rejects end in an error, whatever came in beside them."""
    import datetime

    from signloom.corpus.manifest import CorpusOptions
    from signloom.intake.ingest import ingest

    corpus = load_section(options.params, "corpus", CorpusOptions)
    bounds, inbox = read_intake_params(options.params)
    result = ingest(
        corpus,
        options.sources,
        bounds,
        day=datetime.datetime.now().astimezone().date().isoformat(),
        table=options.table,
        signer=options.signer,
        inbox=[one.resolve() for one in options.sources] == [inbox.resolve()],
        dry_run=options.dry_run,
    )
    print(_to_json(result) if options.json else _to_text(result, dry_run=options.dry_run))
    if result.rejects:
        table = "" if options.dry_run else f"; {corpus.folder}/intake_rejects.tsv lists them"
        raise UserError(f"{len(result.rejects)} were left out{table}")


def read_intake_params(path: Path) -> tuple["IngestOptions", Path]:
    """Return the bounds of new clips, and where deliveries lie, from section `retrain`."""
    from signloom.intake.options import IngestOptions

    section = load_params(path).get("retrain")
    if not isinstance(section, dict) or not {"ingest", "inbox"} <= section.keys():
        raise UserError(f"{path}: retrain.ingest and retrain.inbox are missing; docs/ingest.md "
                        "has them")  # fmt: skip
    bounds = parse_options(section["ingest"], IngestOptions, where=f"{path}: retrain.ingest")
    return bounds, Path(str(section["inbox"]))


def _to_json(result: "IngestResult") -> str:
    clips = [
        {**asdict(clip), "video": clip.video.as_posix() if clip.video else None}
        for clip in result.clips
    ]
    content = {
        "batch": result.batch,
        "clips": clips,
        "rejects": [asdict(reject) for reject in result.rejects],
        "known": result.known,
        "waiting": [path.as_posix() for path in result.waiting],
        "version": result.version,
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _to_text(result: "IngestResult", *, dry_run: bool) -> str:
    """Say what came in by split and signer, and what not and why."""
    will = "would come in" if dry_run else "came in"
    lines = [f"{len(result.clips)} clips {will}" + (f" as {result.batch}" if result.batch else "")]
    for split in SPLITS:
        if clips := [clip for clip in result.clips if clip.split == split]:
            signers = ", ".join(sorted({clip.signer for clip in clips}))
            lines.append(f"  {split:<5} {len(clips)} clips by {signers}")
    if result.known:
        lines.append(f"{result.known} clips were in the corpus before")
    if result.waiting:
        lines.append(
            f"{len(result.waiting)} files changed a moment ago and may still be on their way; "
            f"they come in next time (first {result.waiting[0]})"
        )
    for reject in result.rejects[:_MOST_LISTED]:
        lines.append(f"left out {reject.delivery}/{reject.where}: {reject.reason}; {reject.mend}")
    if len(result.rejects) > _MOST_LISTED:
        lines.append(f"  ... and {len(result.rejects) - _MOST_LISTED} more")
    return "\n".join([*lines, *([result.version] if result.version else [])])
