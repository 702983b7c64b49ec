"""`signloom drift`: how unlike the old clips those of a delivery are is printed."""

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from signloom.config import load_section
from signloom.corpus.manifest import Clip, CorpusOptions, is_text_corpus, read_manifest
from signloom.errors import UserError
from signloom.intake.drift.findings import DriftReport, Finding
from signloom.paths import LANDMARKS, PARAMS

STOPPED = 5  # exit code, as of `signloom retrain`
_MARKS = {"ok": "ok  ", "warn": "WARN", "stop": "STOP"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "drift",
        help="say how unlike the old clips new ones are",
        description="Compare the clips of a delivery with those that were there before it, as "
        "`signloom retrain` does (retrain.drift in params.yaml; docs/drift.md). Its landmarks must "
        f"be there: run `dvc repro extract` before. Exit code {STOPPED} if a check stops.",
    )
    parser.add_argument("batch", nargs="?", metavar="BATCH", help="default: the newest")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.add_argument("--json", action="store_true", help="print JSON, with every figure")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the findings, the worst first."""
    from signloom.intake.drift.check import check_drift
    from signloom.intake.ledgers import read_deliveries
    from signloom.nightly.plan import RetrainOptions

    corpus = load_section(options.params, "corpus", CorpusOptions)
    drift = load_section(options.params, "retrain", RetrainOptions).drift
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    if is_text_corpus(corpus, clips):
        raise UserError(f"{corpus.path} has glosses and no signing; there is nothing to compare")
    # A table may have been sorted since: the ledger knows the order in which they came.
    order = [delivery.batch for delivery in read_deliveries(corpus)]
    batch, there = choose_batch(clips, order, options.batch)
    new = {clip.clip_id for clip in there if clip.batch == batch}
    report = check_drift(there, new, batch=batch, landmarks=LANDMARKS, options=drift)
    if options.json:
        print(json.dumps(report.to_map(), ensure_ascii=False, indent=1))
    else:
        print(describe(report))
    if report.level == "stop":
        sys.exit(STOPPED)


def choose_batch(
    clips: Sequence[Clip], order: Sequence[str], wanted: str | None
) -> tuple[str, list[Clip]]:
    """Return a batch, and the clips that were in the corpus when it had come.

    Args:
        clips: The corpus of today.
        order: Batches in the order in which they came; those it does not know came last.
        wanted: The batch; None: the newest.

    Raises:
        UserError: If the corpus has no such batch, or none at all.
    """
    batches = list(dict.fromkeys(clip.batch for clip in clips if clip.batch is not None))
    batches.sort(key=lambda name: order.index(name) if name in order else len(order))
    if not batches:
        raise UserError("no clip came in a delivery, so all are old; `signloom ingest` brings some")
    batch = wanted or batches[-1]
    if batch not in batches:
        raise UserError(f"no clip is of the batch {batch!r}; there are {', '.join(batches)}")
    later = set(batches[batches.index(batch) + 1 :])
    return batch, [clip for clip in clips if clip.batch not in later]


def describe(report: DriftReport) -> str:
    """Return the findings as text, the worst first."""
    stops, warns, fine = report.of("stop"), report.of("warn"), report.of("ok")
    head = (
        f"batch {report.batch}: {report.new} new clips, {report.old} old ones; of "
        f"{len(report.findings)} checks {len(stops)} stop, {len(warns)} warn, {len(fine)} are fine"
    )
    return "\n".join([head, *(_line(finding) for finding in (*stops, *warns, *fine))])


def _line(finding: Finding) -> str:
    value = "-" if finding.statistic is None else f"{finding.statistic:.3g}"
    line = f"{_MARKS[finding.level]} {finding.check:<20} {value:>8}  {finding.what}"
    if finding.level == "ok":
        return line
    bounds = [
        f"{verb} at {limit:g}"
        for verb, limit in (("warns", finding.warn), ("stops", finding.stop))
        if limit is not None
    ]
    return f"{line}\n" + textwrap.indent(f"{', '.join(bounds)}; {finding.mend}", " " * 36)
