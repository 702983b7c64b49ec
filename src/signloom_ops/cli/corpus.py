"""Commands that take clips into the corpus, check them and remove them."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import load_section
from signloom.errors import UserError, count_of
from signloom.paths import LANDMARKS, PARAMS
from signloom_ops.options import load_ops
from signloom_tools.cli.guards import confirm
from signloom_tools.command_options import argument, group, option
from signloom_tools.importing.options import CaptionOptions

if TYPE_CHECKING:
    from signloom.corpus.manifest import Clip
    from signloom_ops.intake.drift.findings import DriftReport, Finding
    from signloom_ops.intake.ingest import IngestPlan

CORRECTED = ("text", "gloss", "start_s", "end_s")  # what captions change of a clip
MAX_LISTED = 20  # rejects that `signloom ingest` prints
STOPPED = 5  # exit code of a check that stops, as of `signloom retrain`


@dataclass(frozen=True, kw_only=True)
class IngestCommand:
    """Check the videos of DIR, with a table, or a .txt file or captions beside each, and copy the
    good ones into the corpus; captions without a video correct the clips that they name.

    Run twice, it changes nothing. docs/ops/deliveries.md has the rules.
    """

    sources: Sequence[Path] = argument("what was delivered", "DIR")
    table: Path | None = option("of the clips in the only DIR", None, metavar="FILE")
    signer: str | None = option("who signs, where no table names the signer", None, metavar="NAME")
    dry_run: bool = option("report, write nothing", False)
    json: bool = option("print what came in as JSON", False)
    captions: CaptionOptions = group(CaptionOptions, "captions")
    params: Path = option("file of parameters", PARAMS)


def run_ingest(options: IngestCommand) -> None:
    """Ingest and report; rejects end in an error, even if other clips came in."""
    from signloom.corpus.manifest import CorpusOptions, load_manifest
    from signloom_ops.intake.deliveries import ScanRequest
    from signloom_ops.intake.ingest import ingest, plan_ingest
    from signloom_ops.intake.withdraw import ENDED, list_ended, withdraw_ended
    from signloom_ops.lock import hold_lock

    corpus = load_section(options.params, "corpus", CorpusOptions)
    ops = load_ops(options.params)
    request = ScanRequest(
        sources=options.sources,
        table=options.table,
        signer=options.signer,
        choice=options.captions.choice,
        rules=options.captions.rules,
        inbox=[source.resolve() for source in options.sources] == [ops.inbox.resolve()],
    )
    if options.dry_run:
        ended = list_ended(load_manifest(corpus).clips)
        result = plan_ingest(corpus, request, ops.ingest)
    else:
        with hold_lock():  # a night reads the manifest several times: nothing comes in between
            ended, _ = withdraw_ended(corpus)
            result = ingest(corpus, request, ops.ingest)
    if ended:
        will = "would leave" if options.dry_run else "left"
        listed = ", ".join(clip.clip_id for clip in ended[:MAX_LISTED])
        print(
            f"{count_of(len(ended), 'clip')} {will} the corpus: {ENDED} ({listed})", file=sys.stderr
        )
    print(_ingest_json(result) if options.json else _ingest_text(result))
    if result.rejects:
        table = "" if options.dry_run else f"; {corpus.folder}/intake_rejects.tsv lists them"
        raise UserError(f"{len(result.rejects)} were left out{table}")


def _ingest_json(result: "IngestPlan") -> str:
    clips = [
        {**asdict(clip), "video": clip.video.as_posix() if clip.video else None}
        for clip in result.clips
    ]
    content = {
        "batch": result.batch,
        "clips": clips,
        "changes": [
            {
                "clip_id": before.clip_id,
                **{name: [getattr(clip, name) for clip in (before, after)] for name in CORRECTED},
            }
            for before, after in result.changes
        ],
        "rejects": [asdict(reject) for reject in result.rejects],
        "known": result.known,
        "waiting": [path.as_posix() for path in result.waiting],
        "version": result.version or "",
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _ingest_text(result: "IngestPlan") -> str:
    """Return what came in by split and signer, and what did not and why."""
    from signloom.corpus.manifest import SPLITS

    is_done = result.version is not None
    will = "came in" if is_done else "would come in"
    lines = [
        f"{count_of(len(result.clips), 'clip')} {will}"
        + (f" as {result.batch}" if result.batch else "")
    ]
    for split in SPLITS:
        if clips := [clip for clip in result.clips if clip.split == split]:
            signers = ", ".join(sorted({clip.signer for clip in clips}))
            lines.append(f"  {split:<5} {count_of(len(clips), 'clip')} by {signers}")
    if result.changes:
        lines.append(
            f"{count_of(len(result.changes), 'clip')} {'' if is_done else 'would be '}corrected"
        )
    for before, after in result.changes:
        lines.append(f"  {before.clip_id}")
        for name in CORRECTED:
            old, new = getattr(before, name), getattr(after, name)
            lines += [f"    - {name}: {old}", f"    + {name}: {new}"] if old != new else []
    if result.known:
        lines.append(f"{count_of(result.known, 'clip')} in the corpus before")
    if result.waiting:
        lines.append(
            f"{len(result.waiting)} files changed a moment ago and may still be on their way; "
            f"they come in next time (first {result.waiting[0]})"
        )
    for reject in result.rejects[:MAX_LISTED]:
        concerns = f" ({reject.concerns})" if reject.concerns else ""
        reason = f"{reject.reason}{concerns}; {reject.hint}"
        lines.append(f"left out {reject.delivery}/{reject.where}: {reason}")
    if len(result.rejects) > MAX_LISTED:
        lines.append(f"  ... and {len(result.rejects) - MAX_LISTED} more")
    return "\n".join([*lines, *([result.version] if result.version else [])])


@dataclass(frozen=True, kw_only=True)
class WithdrawOptions:
    """Take the clips of BATCH out of the manifest and move their videos to data/withdrawn/BATCH.

    They do not come in again by themselves. deliveries.tsv beside the manifest has the batches.
    """

    batch: str = argument("such as 2026-11-21", "BATCH")
    reason: str = option("why; kept in the corpus's tables")
    params: Path = option("file of parameters", PARAMS)


def run_withdraw(options: WithdrawOptions) -> None:
    """Withdraw a delivery and print how many clips left each split."""
    from signloom.corpus.manifest import SPLITS, CorpusOptions
    from signloom_ops.intake.withdraw import withdraw
    from signloom_ops.lock import hold_lock

    corpus = load_section(options.params, "corpus", CorpusOptions)
    with hold_lock():  # no night in between
        withdrawn, _ = withdraw(corpus, options.batch, options.reason)
    if not withdrawn:
        print(f"{options.batch} was withdrawn before; nothing changed")
        return
    parts = [f"{sum(clip.split == split for clip in withdrawn)} {split}" for split in SPLITS]
    print(f"{count_of(len(withdrawn), 'clip')} left the corpus ({', '.join(parts)})")
    print("models that were trained on them still carry traces; `dvc repro` trains without them")


@dataclass(frozen=True, kw_only=True)
class DriftCommand:
    """Compare the clips of a delivery with those that were there before it, as `signloom retrain`
    does (section `drift` of ops.yaml; docs/ops/deliveries.md).

    Its landmarks must be there: run `dvc repro extract` before. Exit code 5 if a check stops.
    """

    batch: str | None = argument("default: the newest", "BATCH", nargs="?")
    params: Path = option("file of parameters", PARAMS)
    json: bool = option("print JSON, with every figure", False)


def run_drift(options: DriftCommand) -> None:
    """Print the findings, the worst first."""
    from signloom.corpus.manifest import CorpusOptions, is_text_corpus, read_manifest
    from signloom_ops.intake.changes import read_deliveries
    from signloom_ops.intake.drift.check import check_drift

    corpus = load_section(options.params, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    if is_text_corpus(corpus, clips):
        raise UserError(f"{corpus.path} has glosses and no signing; there is nothing to compare")
    # A table may have been sorted since: the ledger has the order in which they came.
    order = [delivery.batch for delivery in read_deliveries(corpus)]
    batch, clips_then = choose_batch(clips, order, options.batch)
    new = {clip.clip_id for clip in clips_then if clip.batch == batch}
    drift = load_ops(options.params).drift
    report = check_drift(clips_then, new, batch=batch, landmarks=LANDMARKS, options=drift)
    if options.json:
        print(json.dumps(report.to_map(), ensure_ascii=False, indent=1))
    else:
        print(_drift_text(report))
    if report.level == "stop":
        sys.exit(STOPPED)


def choose_batch(
    clips: "Sequence[Clip]", order: Sequence[str], requested: str | None
) -> tuple[str, "list[Clip]"]:
    """Return a batch, and the clips that were in the corpus when it had come.

    Args:
        clips: The corpus of today.
        order: Batches in the order in which they came; those that it lacks came last.
        requested: The batch; None: the newest.

    Raises:
        UserError: If the corpus has no such batch, or none at all.
    """
    batches = list(dict.fromkeys(clip.batch for clip in clips if clip.batch is not None))
    batches.sort(key=lambda name: order.index(name) if name in order else len(order))
    if not batches:
        raise UserError("no clip came in a delivery, so all are old; `signloom ingest` brings some")
    batch = requested or batches[-1]
    if batch not in batches:
        raise UserError(f"no clip is of the batch {batch!r}; there are {', '.join(batches)}")
    later = set(batches[batches.index(batch) + 1 :])
    return batch, [clip for clip in clips if clip.batch not in later]


def _drift_text(report: "DriftReport") -> str:
    """Return the findings as text, the worst first."""
    stops, warns, fine = report.of("stop"), report.of("warn"), report.of("ok")
    head = (
        f"batch {report.batch}: {report.new} new clips, {report.old} old ones; of "
        f"{len(report.findings)} checks {len(stops)} stop, {len(warns)} warn, {len(fine)} are fine"
    )
    lines = [_finding_text(finding) for finding in (*stops, *warns, *fine)]
    return "\n".join([head, *lines])


def _finding_text(finding: "Finding") -> str:
    mark = finding.level.upper() if finding.level != "ok" else "ok"
    value = "-" if finding.statistic is None else f"{finding.statistic:.3g}"
    who = f" ({finding.signer})" if finding.signer else ""
    line = f"{mark:<4} {finding.check:<20} {value:>8}  {finding.what}{who}"
    if finding.level == "ok":
        return line
    stops = "" if finding.stop is None else f", stops at {finding.stop:g}"
    return f"{line}\n{' ' * 36}warns at {finding.warn:g}{stops}; {finding.hint}"


@dataclass(frozen=True, kw_only=True)
class ForgetOptions:
    """Remove the clips of SIGNER from the corpus, with their videos, landmarks, cached landmarks,
    tokens, and their traces in reports and model versions; list and mark the models that were
    trained on them; list what is left that no program here can reach.

    An interrupted removal is finished by the same command.
    """

    signer: str = argument("as in the manifest", "SIGNER")
    dry_run: bool = option("only print what would be removed", False)
    yes: bool = option("do not ask", False)
    params: Path = option("file of parameters", PARAMS)


def run_forget(options: ForgetOptions) -> None:
    """Print what is there, ask, remove, print what is left to do."""
    from signloom_ops.lock import hold_lock
    from signloom_ops.privacy.forget import (
        end_removal,
        find_removal,
        is_interrupted,
        plan_removal,
        read_project,
        refuse_stages,
        remove,
        sync_marks,
    )
    from signloom_ops.privacy.leftovers import tell_left
    from signloom_ops.privacy.trained_versions import tell_models

    project = read_project(options.params)
    removal = find_removal(options.signer, project)
    if is_interrupted(project):
        print("this removal was interrupted; it goes on where it was")
    else:
        for part in plan_removal(removal.person, project):
            print(f"{len(part.found):6,}  {part.what}")
    for name in removal.person.alike:
        print(f"{name} is like this name and stays: the same person? Then forget {name}, too")
    print("\n".join(tell_models(removal.trained, project.store)))
    if options.dry_run:
        print("nothing was removed (--dry-run)")
        return
    refuse_stages()
    if not options.yes:
        confirm("This cannot be undone.", removal.person.signer)
    with hold_lock():  # no night in between
        removed = remove(options.signer, project)
        print("removed")
        try:
            print(sync_marks(options.params, project))
            print("left to you:")
            for line in tell_left(removed.person, project.corpus, project.copies):
                print(f"- {line}")
        except (UserError, OSError) as error:  # what was removed is removed, and that ends
            print(f"warning: not all that is left could be looked for: {error}", file=sys.stderr)
        end_removal(removed.person, project)
