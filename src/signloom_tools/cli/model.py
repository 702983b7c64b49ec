"""Commands that measure the configured model, try it on a toy task and tune it."""

import argparse
import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import Count, parse_options, read_json
from signloom.errors import UserError
from signloom.paths import LANDMARKS, PRESETS, SHARDS, TOKENS, TUNE
from signloom_tools.cli.arguments import add_numbers, add_params, add_path
from signloom_tools.presets import adopt, list_presets, read_preset

_SEARCH_FIRST = "run `dvc repro tune` first"


def add_summary(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom summary`."""
    add_params(parser)
    add_numbers(
        parser,
        ("--batch", Count, 1, "clips at once"),
        ("--frames", Count, None, "of each clip, at features.fps (default: 5 s)"),
        ("--tokens", Count, 20, "of each sentence"),
        ("--vocab", Count, None, "rows of the output (default: those of data/tokens)"),
    )
    parser.add_argument("--json", action="store_true", help="a JSON object instead")
    parser.set_defaults(run=run_summary)


def run_summary(options: argparse.Namespace) -> None:
    """Print what the configured model consists of and costs."""
    from signloom_tools.cli.summary import print_summary

    print_summary(options)


def add_adopt(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom adopt`."""
    add_path(parser, "--best", TUNE / "best.json", "what the search found")
    add_params(parser)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--trial", type=int, help="another trial of the Pareto front instead of the winner"
    )
    choice.add_argument("--preset", metavar="NAME", help=f"the values of {PRESETS}/NAME.yaml")
    choice.add_argument("--list", action="store_true", help="list the presets and do nothing")
    parser.set_defaults(run=run_adopt)


def run_adopt(options: argparse.Namespace) -> None:
    """Write a search's winner or a preset into the parameters and print the difference."""
    if options.list:
        print(*(f"{name:<18} {meaning}" for name, meaning in list_presets().items()), sep="\n")
        return
    if options.preset is not None:
        overrides = read_preset(options.preset)
    elif options.trial is not None:
        _check_search(options.best)
        overrides = _of_front(options.best.with_name("trials.json"), options.trial)
    else:
        _check_search(options.best)
        best = read_json(options.best, hint=_SEARCH_FIRST)
        overrides = _overrides_in(options.best, best)
        _print_confirmation(options.best, best)
    before, after = adopt(options.params, overrides)
    if before == after:
        print(f"{options.params} has these values already")
        return
    name = str(options.params)
    difference = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    print("".join(difference), end="")
    print(f"review and commit {name}, then `dvc repro evaluate` trains and scores with it")


def _check_search(best: Path) -> None:
    """Say that there was no search, where that is so.

    Raises:
        UserError: If `tune.trials` was 0.
    """
    trials = best.with_name("trials.json")
    found = read_json(trials, hint=_SEARCH_FIRST) if trials.is_file() else None
    if isinstance(found, dict) and found.get("trials") == []:
        raise UserError(
            f"{trials}: there was no search (tune.trials was 0), so there is no winner to adopt. "
            "Set tune.trials in params.yaml to the trials you want, then `dvc repro tune`; "
            "`signloom adopt --list` names presets"
        )


def _of_front(path: Path, trial: int) -> dict[str, dict[str, Any]]:
    """Return what a trial of the front changes."""
    content = read_json(path, hint=_SEARCH_FIRST)
    if not isinstance(content, dict) or not isinstance(found := content.get("overrides"), dict):
        raise UserError(f"{path} is not what a search wrote; {_SEARCH_FIRST}")
    if str(trial) not in found:
        raise UserError(f"trial {trial} is not of the search's front: {', '.join(found)}")
    return _overrides_in(path, {"overrides": found[str(trial)]})


def _overrides_in(path: Path, content: Any) -> dict[str, dict[str, Any]]:
    """Return what a file of a search says is to be changed, by section and key."""
    if not isinstance(content, dict) or "overrides" not in content:
        raise UserError(f"{path} is not what a search wrote: no overrides; {_SEARCH_FIRST}")
    return parse_options(
        content["overrides"], dict[str, dict[str, Any]], where=f"{path}: overrides"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Confirmed:
    """A candidate that was trained again with other seeds."""

    number: int
    values: list[float]
    mean: float


def _print_confirmation(path: Path, best: dict[str, Any]) -> None:
    """Print what the candidates reached with other seeds, the winner first."""
    rows = parse_options(best.get("confirmed", []), list[_Confirmed], where=f"{path}: confirmed")
    for rank, row in enumerate(rows):
        values = ", ".join(f"{value:.4f}" for value in row.values)
        name = f"trial {row.number}" + (", the parameters of then" if not row.number else "")
        print(f"{'winner' if not rank else 'beaten'}: {name}: mean {row.mean:.4f} of {values}")


def add_outlook(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom outlook`."""
    parser.description = (
        "Say what more people would bring: models of 1, 2, 4 ... signers of train are trained and "
        "tested on signers left out. Takes a minute or two for each model; docs/data.md"
    )
    add_params(parser)
    add_numbers(
        parser,
        ("--draws", Count, 3, "orders of the signers; each trains a model for any number of them"),
        ("--steps", Count, 600, "of each training, about; the project's takes more, and is better"),
        ("--seed", Count, 1, "of what is drawn"),
    )
    parser.add_argument("--json", action="store_true", help="every figure, as JSON")
    parser.set_defaults(run=run_outlook)


def run_outlook(options: argparse.Namespace) -> None:
    """Train, test, and print the curve with what it says."""
    from signloom.config import load_section
    from signloom.evaluation.evaluate import EvaluateOptions
    from signloom.training.data import TrainingFiles
    from signloom.training.run import read_run_options
    from signloom_tools.evaluate.outlook import draw_outlook, have_signers, measure_outlook, to_map

    files = TrainingFiles()
    if not files.targets.is_file():
        raise UserError(f"{files.targets} is missing: run `dvc repro tokenize_targets` first")
    scoring = load_section(options.params, "evaluate", EvaluateOptions).score
    results = measure_outlook(
        files, read_run_options(options.params), scoring,
        draws=options.draws, steps=options.steps, seed=options.seed,
    )  # fmt: skip
    outlook = draw_outlook(results, have_signers(files), options.seed)
    if options.json:
        print(json.dumps(to_map(outlook, results)))
        return
    print(
        f"right of what signers left out sign, by models of {options.steps} steps (the project's "
        "own reads more); 95 % intervals over those signers and the draws:"
    )
    print(*(f"  {line}" for line in outlook.lines()), sep="\n")


def add_tune_worker(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom tune-worker`."""
    add_params(parser)
    add_path(parser, "--landmarks", LANDMARKS, "what extract wrote")
    add_path(parser, "--tokens", TOKENS, "what tokenize_targets wrote")
    parser.set_defaults(run=run_tune_worker)


def run_tune_worker(options: argparse.Namespace) -> None:
    """Work on the search of the same parameters, data and code until it is over."""
    from signloom.training.data import TrainingFiles
    from signloom.tune.worker import join

    files = TrainingFiles(shards=options.landmarks / SHARDS.name, tokens=options.tokens)
    join(options.params, files)
    print("no trial of the search is missing any more")
