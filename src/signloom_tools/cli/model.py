"""Commands that measure the configured model and tune it."""

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signloom.config import Count, load_section, parse_options, read_json
from signloom.errors import UserError
from signloom.paths import PARAMS, PRESETS, TUNE
from signloom.progress import wrap
from signloom_tools.command_options import group, option
from signloom_tools.presets import adopt, list_presets, read_preset

if TYPE_CHECKING:
    from signloom.training.data import TrainingFiles

_SEARCH_FIRST = "run `dvc repro tune` first"


@dataclass(frozen=True, kw_only=True)
class SummaryOptions:
    """Print the parts of the configured model, its size and speed."""

    params: Path = option("file of parameters", PARAMS)
    vocab: Count | None = option("rows of the output (default: as in data/tokens)", None)
    width: Count | None = option("numbers of a frame (default: those of the features)", None)


def run_summary(options: SummaryOptions) -> None:
    """Print what the configured model consists of and costs."""
    from signloom_tools.model_summary import summarise_model

    print(summarise_model(options.params, options.vocab, options.width))


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """What is written into the parameters."""

    preset: str | None = option(f"the values of {PRESETS}/NAME.yaml", None, metavar="NAME")
    list: bool = option("list the presets and do nothing", False)


@dataclass(frozen=True, kw_only=True)
class AdoptOptions:
    """Write the winner of a search, or a preset, into params.yaml."""

    best: Path = option("result of the search", TUNE / "best.json")
    params: Path = option("file of parameters", PARAMS)
    choice: Adopted = group(Adopted, exclusive=True)


def run_adopt(options: AdoptOptions) -> None:
    """Write a search's winner or a preset into the parameters and print the difference."""
    if options.choice.list:
        for name, meaning in list_presets().items():
            print(wrap(f"{name:<16} {meaning}", ""))
        return
    if options.choice.preset is not None:
        overrides = read_preset(options.choice.preset)
    else:
        _check_search(options.best)
        overrides = _overrides_in(options.best, read_json(options.best, hint=_SEARCH_FIRST))
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
    search = read_json(trials, hint=_SEARCH_FIRST) if trials.is_file() else None
    if isinstance(search, dict) and search.get("trials") == []:
        raise UserError(
            f"{trials}: there was no search (tune.trials was 0), so there is no winner to adopt. "
            "Set tune.trials in params.yaml to the trials you want, then `dvc repro tune`; "
            "`signloom adopt --list` names presets"
        )


def _overrides_in(path: Path, content: Any) -> dict[str, dict[str, Any]]:
    """Return what a file of a search says is to be changed, by section and key."""
    if not isinstance(content, dict) or "overrides" not in content:
        raise UserError(f"{path} is not what a search wrote: no overrides; {_SEARCH_FIRST}")
    return parse_options(
        content["overrides"], dict[str, dict[str, Any]], where=f"{path}: overrides"
    )


@dataclass(frozen=True, kw_only=True)
class OutlookOptions:
    """Learning curve: what more signers would bring; or cross-validation of a recipe.

    Models of 1, 2, 4 ... signers of train are trained and tested on signers left out, five minutes
    of CPU in all; docs/data.md. With --folds models of parts of train read the signs of the rest;
    docs/recognition.md
    """

    params: Path = option("file of parameters", PARAMS)
    draws: Count = option("orders of the signers; each trains a model for every number of them", 3)
    steps: Count | None = option("of each training, about; as a rule 3,600 of all together", None)
    seed: Count = option("of the draws", 1)
    json: bool = option("print every figure as JSON", False)
    folds: Count | None = option("read each clip of train by a model of the other parts", None)
    use: bool = option("write the weights of the n-gram that --folds finds into the file", False)


def run_outlook(options: OutlookOptions) -> None:
    """Train, test, and print the curve with what it says."""
    from signloom.evaluation.evaluate import EvaluateOptions
    from signloom.training.data import TrainingFiles
    from signloom.training.train import read_run_options
    from signloom_tools.outlook import draw_outlook, have_signers, measure_outlook, to_map

    plain, mode = OutlookOptions(), "not with" if options.folds else "only with"
    useless = ("draws", "steps", "seed", "json") if options.folds else ("use",)
    if wrong := [f"--{name}" for name in useless if getattr(options, name) != getattr(plain, name)]:
        raise UserError(f"{', '.join(wrong)}: {mode} --folds")
    files = TrainingFiles()
    if not files.targets.is_file():
        raise UserError(f"{files.targets} is missing: run `dvc repro tokenize_targets` first")
    if options.folds:
        _read_folds(files, options, options.folds)
        return
    scoring = load_section(options.params, "evaluate", EvaluateOptions).score
    results = measure_outlook(
        files,
        read_run_options(options.params),
        scoring,
        draws=options.draws,
        steps=options.steps,
        seed=options.seed,
    )
    outlook = draw_outlook(results, have_signers(files), options.seed)
    if options.json:
        print(json.dumps(to_map(outlook, results)))
        return
    print(
        "right of what signers left out sign, by models of few steps (the project's own reads "
        "more); 95 % intervals over those signers and the draws:"
    )
    print(*(f"  {line}" for line in outlook.lines()), sep="\n")


def _read_folds(files: "TrainingFiles", options: OutlookOptions, count: int) -> None:
    """Print how many signs of parts of the training set are read wrong, and the best search."""
    from signloom.evaluation.evaluate import EvaluateOptions
    from signloom.evaluation.recognition import choose_search
    from signloom.training.train import read_run_options
    from signloom.translation.options import SignSearch
    from signloom_tools.outlook import read_folds, score_folds

    scoring = load_section(options.params, "evaluate", EvaluateOptions).score
    model, folds = read_folds(files, read_run_options(options.params), count)
    best = choose_search(model, folds, scoring.gloss_rules)
    read, alone = (score_folds(model, folds, search, scoring) for search in (best, SignSearch()))
    print(
        f"clips that no model has seen: gloss WER {read.value:.1f} % ({read.low:.1f} to "
        f"{read.high:.1f}) with an n-gram of weight {best.weight:g} and bonus {best.bonus:g}, "
        f"{alone.value:.1f} % without"
    )
    if options.use:
        adopt(options.params, {"evaluate": {"grid": {"ngram": [best.weight, best.bonus]}}})
        print(f"{options.params} has them in evaluate.grid.ngram now")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Run trials of a search that another machine has started."""

    params: Path = option("file of parameters", PARAMS)


def run_tune_worker(options: WorkerOptions) -> None:
    """Run trials of the search with the same parameters, data and code until it is over."""
    from signloom.training.data import TrainingFiles
    from signloom.tune.worker import join

    join(options.params, TrainingFiles())
    print("no trial of the search is missing any more")
