"""Commands that print scores, compare runs and list them."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from signloom.config import Count, Natural, load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.errors import UserError, count_of
from signloom.evaluation.metric_names import (
    GLOSS_WER,
    TOO_FEW,
    Metric,
    are_few,
    headline_metric,
    metric_heading,
    metric_label,
)
from signloom.paths import (
    CHECKPOINT,
    EVALUATION,
    METRICS,
    PARAMS,
    REPORTS,
    SCORES_NAME,
    SHARDS,
    SPOOL,
    TARGETS,
)
from signloom.provenance import project_folder
from signloom_tools.command_options import argument, option
from signloom_tools.versions import NamedModel, check_made

if TYPE_CHECKING:
    from signloom.evaluation.compare import Difference, PastRun
    from signloom.evaluation.stress import StressRow

SHORT_BLEU = (Metric.BLEU2, Metric.BLEU3)  # between BLEU-1 and BLEU-4, and not shown
SHOWN = [*(metric for metric in Metric if metric not in SHORT_BLEU), GLOSS_WER]


@dataclass(frozen=True, kw_only=True)
class ScoresOptions:
    """Print the last evaluation with its floors."""

    metrics: Path = option("", METRICS, help=None)


def run_scores(options: ScoresOptions) -> None:
    """Print the scores of each split, what they must be compared with, and where to look."""
    from signloom.report.scores import describe_scores
    from signloom.report.stage_files import read_metrics, read_scores

    if options.metrics.is_dir():
        raise UserError(f"{options.metrics} is a folder, expected a file such as metrics.json")
    if options.metrics == METRICS:
        check_made(EVALUATION)
    metrics = read_metrics(options.metrics)
    content = read_scores(_scores_of(options.metrics))
    if options.metrics == METRICS and PARAMS.is_file():
        _check_corpus(metrics)
    print(*describe_scores(content, metrics, options.metrics), sep="\n")


def _scores_of(metrics: Path) -> Path:
    """Return the scores.json of a metrics.json: below it, or next to it in a version's folder."""
    below = metrics.with_name(EVALUATION.name) / SCORES_NAME
    is_below = metrics == METRICS or below.parent.is_dir()
    return below if is_below else metrics.with_name(SCORES_NAME)


def _check_corpus(metrics: dict[str, Any]) -> None:
    """Refuse the scores of another corpus than that of params.yaml; say what has changed since.

    Raises:
        UserError: If the scores are of a corpus of another name.
    """
    from signloom.features.targets import split_hash

    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    scored = {scores.get("corpus") or "that is not noted" for scores in metrics.values()}
    if corpus.name not in scored:
        raise UserError(
            f"{METRICS} has the scores of the corpus {', '.join(sorted(scored))}, but {PARAMS} "
            f"names {corpus.name} ({corpus.folder}), of which nothing has been evaluated yet; run "
            "`dvc repro`"
        )
    try:
        clips = read_manifest(corpus.path, signer_disjoint=False)
    except (UserError, OSError):
        return  # the stages say what is wrong with it
    changed = [
        split
        for split, scores in metrics.items()
        if scores.get("clips_hash", "") not in ("", split_hash(clips, split))
    ]
    if changed:
        print(f"the clips of {' and '.join(changed)} have changed since: `dvc repro` scores them\n")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Compare two runs on the clips that both translated, by the paired bootstrap.

    A run is a folder with an evaluation (reports, another checkout, an artifact folder of MLflow),
    or git:REVISION, also of a DVC experiment.
    """

    a: str = argument("e.g. git:HEAD", "RUN")
    b: str = option("", str(REPORTS), flag="positional", metavar="RUN", nargs="?")
    split: str | None = option("dev or test; default: all that both have", None)
    json: bool = option("print JSON, with every sentence", False)


def run_compare(options: CompareOptions) -> None:
    """Print a table for each split, or everything as JSON."""
    from signloom.evaluation.compare import compare_runs, comparison_map

    a, b = _read_run(options.a), _read_run(options.b)
    splits = [options.split] if options.split else sorted(a.splits.keys() & b.splits, reverse=True)
    if not splits:
        raise UserError(
            f"{a.name} has {', '.join(a.splits) or 'no split'}, {b.name} has "
            f"{', '.join(b.splits) or 'no split'}: nothing to compare"
        )
    comparisons = {split: compare_runs(a, b, split) for split in splits}
    if options.json:
        print(json.dumps(comparison_map(a, b, comparisons), ensure_ascii=False, indent=2))
        return
    print(f"A: {a.title}\nB: {b.title}")
    for split, part in comparisons.items():
        left_out = f", {part.left_out} that only one has left out" if part.left_out else ""
        print(
            f"\n{split}: {count_of(len(part.clips), 'clip')}{left_out}, paired bootstrap, "
            f"{a.options.resamples} resamples"
        )
        print(format_differences(part.differences))


def _read_run(where: str) -> "PastRun":
    from signloom.evaluation.compare import read_run

    if Path(where) == REPORTS:
        check_made(EVALUATION)
    return read_run(where)


def format_differences(differences: "dict[str, Difference]") -> str:
    """Return a table with a line a metric and a sentence under it.

    Where the clips are too few to decide, intervals and p-values have no meaning and are left out.
    """
    width = 1 + max(7, *(len(metric_heading(name)) for name in differences))
    lines = [
        f"  {'':<{width}}{'A':>7}{'B':>7}{'B - A':>8} {'95 % interval':<17}{'p':>6}"
        f"{'better':>7}{'worse':>6}{'equal':>6}"
    ]
    for name, difference in differences.items():
        if name in SHORT_BLEU:
            continue
        is_few = are_few(difference.clips)
        interval = "-" if is_few else f"[{difference.low:.2f}, {difference.high:.2f}]"
        p_value = "-" if is_few else f"{difference.p_value:.3f}"
        lines.append(
            f"  {metric_heading(name):<{width}}{difference.a:>7.2f}{difference.b:>7.2f}"
            f"{difference.difference:>+8.2f} {interval:<17}{p_value:>6}"
            f"{difference.wins:>7}{difference.losses:>6}{difference.ties:>6}"
        )
    return "\n".join([*lines, f"  {verdict(differences)}"])


def verdict(differences: "dict[str, Difference]") -> str:
    """Return on which metrics a run is significantly better: the 95 % interval does not hold 0."""
    if any(are_few(difference.clips) for difference in differences.values()):
        return f"{TOO_FEW.capitalize()}."
    shown = {
        metric_label(name): difference for name, difference in differences.items() if name in SHOWN
    }
    better = ", ".join(label for label, difference in shown.items() if difference.is_better)
    worse = ", ".join(label for label, difference in shown.items() if difference.is_worse)
    parts = [f"B is better on {better}"] * bool(better) + [f"B is worse on {worse}"] * bool(worse)
    return "; ".join(parts) + "." if parts else "No clear difference on these clips."


@dataclass(frozen=True, kw_only=True)
class StressOptions:
    """Measure robustness to pauses, speed, lost hands."""

    checkpoint: Path = option("", CHECKPOINT, help=None)
    split: Literal["dev", "test"] = option("", "test", help=None)
    clips: Count = option("at most this many; of more, every n-th", 200)
    json: bool = option("print rows as JSON", False)


def run_stress(options: StressOptions) -> None:
    """Translate clips of the corpus under changes of real life and print what each costs."""
    from signloom.evaluation.evaluate import EvaluateOptions
    from signloom.evaluation.stress import has_no_warning, stress_row, try_changes
    from signloom.evaluation.systems import Setup
    from signloom.features.targets import read_targets
    from signloom.translation.translator import Translator

    evaluation = load_section(PARAMS, "evaluate", EvaluateOptions)
    checkpoint = NamedModel(options.checkpoint).checkpoint
    translator = Translator.load(checkpoint, precision=evaluation.precision)
    if not translator.source.has_frames:
        raise UserError(f"{checkpoint} reads glosses, of which no film can be changed")
    targets = read_targets(TARGETS)
    metric = headline_metric(target.text for target in targets if target.split == "train")
    split_targets = [target for target in targets if target.split == options.split]
    sequences = translator.source.read(split_targets, SHARDS)
    split_targets = [target for target in split_targets if target.clip_id in sequences]
    if not split_targets:
        raise UserError(f"{SHARDS} has no clip of {options.split}; `dvc repro extract` makes them")
    setup = Setup(
        translator=translator,
        targets=targets,
        sequences=sequences,
        decoding=translator.decoding,
        score=evaluation.score,
        metric=metric,
    )
    rows = [
        stress_row(tried, has_no_warning(tried, translator, translator.confidence))
        for tried in try_changes(setup, split_targets, most=options.clips)
    ]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(*_stress_lines(options.split, rows, metric), sep="\n")
    if translator.confidence is None:
        print("  nothing measured when this model is unsure: `dvc repro evaluate`")


def _stress_lines(split: str, rows: "Sequence[StressRow]", metric: Metric) -> Iterator[str]:
    clips, heading = count_of(rows[0].clips, "clip"), f"{metric_heading(metric):>7}"
    yield f"{split}: {clips}, 95 % interval; said: without a warning; wrong: of these"
    yield f"  {'change':<28}{heading:<23}{'right':>7}{'WER':>6}{'said':>6}{'wrong':>8}"
    for row in rows:
        interval = f"[{row.score_low:.1f}, {row.score_high:.1f}]"
        yield (
            f"  {row.change:<28}{row.score:>7.1f}  {interval:<14}{row.exact:>5.0f} %"
            f"{row.wer:>6.1f}{row.said:>4.0f} %{row.wrong:>6.0f} %"
        )


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Let people compare the sentences of two systems beside the video, not knowing which is
    whose: prepare clips for the tab Judge of `signloom app`, or show what came of it.

    RUN as for `signloom compare`. docs/evaluation.md
    """

    runs: Sequence[str] = argument("two; with --show names of tasks", "RUN", nargs="*")
    name: str | None = option("of the task (default: made of the two names)", None)
    split: str | None = option("default: test if both have it", None)
    clips: Count = option("that are judged", 50)
    seed: Natural = option("of the draw and of all orders", 1)
    differing: bool = option("only clips where they differ", False)
    show: bool = option("print what the judges said", False)
    json: bool = option("the same as JSON", False)


def run_judge(options: JudgeOptions) -> None:
    """Prepare a task, or show results."""
    from signloom.evaluation.judgements import Judgements, prepare_task, to_map

    judgements = Judgements()
    if options.show or options.json:
        results = judgements.results(options.runs)
        if options.json:
            print(json.dumps([to_map(result) for result in results], ensure_ascii=False, indent=2))
        elif not results:
            print("nobody has judged anything yet; `signloom app` has the tab Judge")
        else:
            print(
                "\n".join(
                    f"{result.task}\n  A: {result.a}\n  B: {result.b}\n  {result}"
                    for result in results
                )
            )
        return
    if len(options.runs) != 2:
        raise UserError("give two RUNs to be compared, or --show")
    a, b = (_read_run(run) for run in options.runs)
    shared = sorted(a.splits.keys() & b.splits, reverse=True)
    task = prepare_task(
        a,
        b,
        options.split or next(iter(shared), "test"),
        clips=options.clips,
        seed=options.seed,
        differing=options.differing,
    )
    plain = "-".join(Path(run.rpartition(":")[2]).resolve().name for run in options.runs)
    name = options.name or re.sub(r"[^\w.-]+", "-", plain).strip(".-")
    path = judgements.add(name, task)
    clips = f"{count_of(len(task.pairs), 'clip')} of {task.split}"
    print(f"{path}: {clips}. `signloom app`, tab Judge; then")
    print(f"signloom judge {name} --show")


@dataclass(frozen=True, kw_only=True)
class UploadRunsOptions:
    """Upload runs that MLflow has not received; until then they wait in data/.tracking.

    Exit codes: 0 none is left, 1 some are still there; docs/tracking.md
    """


def run_upload_runs(options: UploadRunsOptions) -> None:
    """Upload what is kept for MLFLOW_TRACKING_URI; name what is left, and why."""
    from signloom.tracking.journal import Spool
    from signloom.tracking.mlflow_setup import store_name
    from signloom.tracking.upload import upload_once

    os.chdir(project_folder())  # where the default store lies
    upload_once(Spool(SPOOL, store_name()), lambda line: print(line, flush=True))
