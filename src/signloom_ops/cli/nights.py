"""Commands that retrain the model, choose its version and record it."""

import argparse
import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from signloom.config import check_shape, load_section, read_json
from signloom.errors import UserError
from signloom.paths import CHECKPOINT, EVALUATION, MODELS, PARAMS
from signloom.progress import wrap
from signloom.system import user_name
from signloom_ops.options import load_ops
from signloom_tools.command_options import argument, describe_command, group, option
from signloom_tools.versions import check_made


@dataclass(frozen=True, kw_only=True)
class PrintedNight:
    """What is printed of a night other than its outcome."""

    dry_run: bool = option("only print what would be done", False)
    json: bool = option("print night.json at the end", False)


@dataclass(frozen=True, kw_only=True)
class RetrainOptions:
    """Exit codes: 0 there is a new champion, 3 nothing is new, 4 the gate refused the challenger,
    5 the new data were refused, 6 another command is at work, 1 an error, 130 and 143 stopped.

    docs/ops/nights.md
    """

    params: Path = option("file of parameters", PARAMS)
    printed: PrintedNight = group(PrintedNight, exclusive=True)
    start: Literal["champion", "scratch"] | None = option(
        "weights to train from; `start` of ops.yaml if not given", None
    )
    force: bool = option("train though nothing is new, as after new parameters", False)


def run_retrain(options: RetrainOptions) -> None:
    """Run a night and end with its exit code."""
    from signloom_ops.nightly.night import NOTHING, code_of, run_night
    from signloom_ops.nightly.plan import NightRequest, dry_run

    request = NightRequest(params=options.params, start=options.start, force=options.force)
    if options.printed.dry_run:
        plan = dry_run(request)
        print(*(wrap(line, "") for line in plan.lines), sep="\n")
        sys.exit(NOTHING if plan.kind == "nothing" else 0)
    try:
        night = run_night(request)
    except KeyboardInterrupt as stop:  # before the first step, or after the last
        sys.exit(code_of(stop))
    if options.printed.json:
        print(json.dumps(night, ensure_ascii=False, indent=1))
    else:
        print(f"{night['outcome']}: {night['verdict']}")
    sys.stdout.flush()
    sys.exit(night["exit_code"])


@dataclass(frozen=True, kw_only=True)
class ChampionOptions:
    """Versions of the model lie in data/models; docs/ops/nights.md describes what makes one the
    champion.
    """


@dataclass(frozen=True, kw_only=True)
class VersionOptions:
    """A version of the model."""

    version: int = argument("", "N")


@dataclass(frozen=True, kw_only=True)
class PromoteOptions(VersionOptions):
    """The version that becomes the champion."""

    force: bool = option("even if the gate refused it or was not asked", False)


def add_champion(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom champion` and its actions, each with one line of help."""
    describe_command(parser, _show_champion)
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    for name, run, line in (
        ("show", _show_champion, "the champion and why it is (default)"),
        ("list", _list_versions, "all versions, a line each"),
        ("promote", _promote_version, "make a version the champion"),
        ("rollback", _roll_back, "make the former champion the champion again"),
        ("sync", _sync_registry, "bring MLflow's registry up to date"),
        ("add", _add_version, "keep data/checkpoint and reports/evaluation as the next version"),
        ("judge", _judge_version, "ask the gate about a version; promotes nothing"),
    ):
        action = actions.add_parser(name, help=line)
        describe_command(action, run)
        action.description = None


def _show_champion(options: ChampionOptions) -> None:
    from signloom_ops.nightly.store import ModelStore

    store = ModelStore()
    champion = store.resolve("champion")
    change = store.pointer().history[-1]
    print(f"version {champion}, {change.action} by {change.by} at {change.time}")
    print(f"checkpoint: {store.checkpoint(champion)}")
    if forgotten := store.forgotten(champion):
        print(f"it learnt from {forgotten} clips of people who were forgotten since")
    decision = store.decision(champion)
    for line in _reasons(decision) if decision else ["the gate was not asked about it"]:
        print(f"  {line}")
    if (challenger := store.challenger()) is not None:
        print(f"challenger: version {challenger}, {store.refusal(challenger) or 'allowed'}")


def _list_versions(options: ChampionOptions) -> None:
    from signloom_ops.nightly.store import ModelStore

    store = ModelStore()
    pointer = store.pointer()
    for version in store.versions():
        names = {pointer.champion: "champion", pointer.challenger: "challenger"}
        decision = store.decision(version)
        verdict = decision["verdict"] if decision else "not judged"
        forgotten = store.forgotten(version)
        mark = f"; learnt from {forgotten} clips of people forgotten since" if forgotten else ""
        print(f"{version}\t{names.get(version, '')}\t{verdict}{mark}")
    if not store.versions():
        print(f"{store.root} has no version yet; `signloom retrain` makes one")
    if pointer.champion is not None:
        store.check_known(pointer.champion)


def _promote_version(options: PromoteOptions) -> None:
    from signloom_ops.nightly.store import ModelStore

    store = ModelStore()
    store.check_known(options.version)
    refusal = store.refusal(options.version)
    if refusal and not options.force:
        raise UserError(f"{refusal}. To promote it all the same, add --force")
    store.promote(options.version, by=f"{user_name()}{' (forced)' * bool(refusal)}")
    print(f"version {options.version} is the champion")
    _update_dvc()
    _update_registry()


def _roll_back(options: ChampionOptions) -> None:
    from signloom_ops.nightly.store import ModelStore

    print(f"version {ModelStore().rollback(by=user_name())} is the champion again")
    _update_dvc()
    _update_registry()


def _sync_registry(options: ChampionOptions) -> None:
    from signloom.tracking.mlflow_setup import tell_waiting
    from signloom.tracking.run import read_tracking
    from signloom_ops.nightly.registry import sync_registry
    from signloom_ops.nightly.store import ModelStore

    tracking = read_tracking(PARAMS)
    if not tracking.enabled:
        raise UserError(f"{PARAMS}: tracking.enabled is false, so there is no registry to sync")
    tell_waiting()
    changes = sync_registry(ModelStore(), tracking)
    print("\n".join(changes) or "the registry is up to date")


def _update_registry() -> None:
    """Update the registry if it can be reached; what counts is the store."""
    from signloom.tracking.run import read_tracking
    from signloom_ops.nightly.registry import sync_registry
    from signloom_ops.nightly.store import ModelStore

    try:
        sync_registry(ModelStore(), read_tracking(PARAMS))
    except UserError as error:
        logging.getLogger(__name__).warning("the registry was not updated: %s", error)


def _update_dvc() -> None:
    """Tell DVC, if it tracks the store."""
    from signloom_tools.dvc import track_again

    if note := track_again(MODELS):
        print(note)


def _add_version(options: ChampionOptions) -> None:
    from signloom.corpus.manifest import CorpusOptions, read_manifest
    from signloom.evaluation.schemas import SPEC
    from signloom_ops.nightly.plan import gather_facts
    from signloom_ops.nightly.store import ModelStore

    store = ModelStore()
    check_made(CHECKPOINT)
    path, hint = CHECKPOINT / "checkpoint.json", "run `dvc repro train` first"
    provenance = check_shape(read_json(path, hint=hint), SPEC, where=path, hint=hint).get(
        "provenance", {}
    )
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    start = provenance.get("start") or {}
    starts = {str(store.checkpoint(version)): version for version in store.versions()}
    facts = gather_facts(
        read_manifest(corpus.path, corpus.signer_disjoint),
        params=PARAMS,
        parent=starts.get(start.get("folder", "")),
        reasons=["signloom champion add"],
    )
    if provenance.get("data") != facts["data"]:
        raise UserError(
            f"{CHECKPOINT} was trained on other landmarks or tokens than lie here, so who is in it "
            "is not known; run `dvc repro evaluate` first"
        )
    versions = store.versions()
    version = store.add(CHECKPOINT, EVALUATION, facts)
    print(f"version {version}" + ", kept before, as it was evaluated then" * (version in versions))
    _update_dvc()


def _judge_version(options: VersionOptions) -> None:
    from signloom.corpus.manifest import CorpusOptions, read_manifest
    from signloom_ops.nightly.comparison import ask_gate, read_inputs
    from signloom_ops.nightly.store import ModelStore

    corpus, store = load_section(PARAMS, "corpus", CorpusOptions), ModelStore()
    inputs = read_inputs(read_manifest(corpus.path, corpus.signer_disjoint), PARAMS)
    decision = ask_gate(store, options.version, inputs, load_ops(PARAMS).gate)
    store.apply_decision(decision.to_map(), by=None)
    print(decision.verdict)
    for line in _reasons(decision.to_map()):
        print(f"  {line}")
    if decision.promote:
        print(f"`signloom champion promote {options.version}` makes it the champion")
    _update_dvc()


def _reasons(decision: dict[str, Any]) -> list[str]:
    """Return the reasons of a decision, and for which signers the challenger is worse."""
    rows = [
        row
        for row in decision.get("slices", [])
        if (row["kind"], row.get("result")) == ("signer", "worse")
    ]
    worse = ", ".join(row["group"] for row in rows)
    return [*decision["reasons"], *([f"worse for: {worse}"] if worse else [])]
