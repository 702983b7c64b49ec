"""The search for parameters that are best on dev.

Trials are kept in a database, so a search whose processes die goes on where it stopped, and other
processes, here or on other machines, may work on it at the same time.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import optuna

from signloom.errors import UserError
from signloom.evaluation.metric_names import GLOSS_WER
from signloom.tracking.run import Run, RunOf, TrackingOptions
from signloom.training.data import TrainingData
from signloom.training.train import RunOptions, check_run
from signloom.tune.objective import ConfirmObjective, SearchObjective, TrialTrainer
from signloom.tune.space import (
    TuneOptions,
    Value,
    apply_values,
    check_fit,
    current_values,
    parse_first,
    parse_space,
)
from signloom.tune.storage import (
    DEAD_AFTER,
    DRAWN,
    FINISHED,
    SLOT,
    SlotSampler,
    finished,
    identify,
    open_storage,
    open_study,
    quiet,
    run_trials,
    study_name,
    wait_for_dead_trials,
)
from signloom.tune.summary import pick_candidates, summarise

Progress = Callable[[int, int], None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """Everything that a process needs to work on a search."""

    data: TrainingData  # the corpus
    base: RunOptions  # the current parameters, as a trial trains with them
    options: TuneOptions  # the space and its limits
    tracking: TrackingOptions  # where each trial's run is logged
    name: str  # of the study, and of the MLflow run above those of the trials
    parts: Mapping[str, str]  # what decides the numbers, hashed
    hashes: Mapping[str, str]  # of the data, by name


def plan_search(
    data: TrainingData,
    base: RunOptions,
    options: TuneOptions,
    tracking: TrackingOptions,
    *,
    hashes: Mapping[str, str],
) -> SearchPlan:
    """Describe a search, before anything is trained.

    Args:
        base: The current parameters.
        options: The space and its limits.
        hashes: Of landmarks and tokens; others are another search.

    Raises:
        UserError: If the current parameters cannot be trained, or no trial with a value of the
            space.
    """
    epochs, patience = options.epochs, options.epochs if base.train.patience else 0
    train = replace(base.train, epochs=epochs, patience=patience, seeds=base.train.seeds[:1])
    base = replace(base, train=train)
    options = options.settle_objective(target.text for target in data.train.targets)
    options, unread = options.for_model(base.model)
    if unread:
        model = base.model.family + " without a decoder" * (not base.model.decoder_layers)
        logger.warning("not searched, since %s does not read it: %s", model, ", ".join(unread))
    check_run(data, base)
    if options.objective == GLOSS_WER:
        _check_signs(data, base)
    space = parse_space(options.space)
    check_fit(base, space, options.objective)
    if any(first.note for first in parse_first(options.first, space)):
        logger.info("tune.first: what tune.space has no room for is tried as near as it can be")
    parts = identify(base, options, hashes)
    return SearchPlan(
        data=data,
        base=base,
        options=options,
        tracking=tracking,
        name=study_name(parts),
        parts=parts,
        hashes=hashes,
    )


def _check_signs(data: TrainingData, base: RunOptions) -> None:
    """Refuse a search for the best reader of signs where no model reads any, or none is scored."""
    fault = ""
    if not base.train.ctc_weight:
        fault = "train.ctc_weight is 0, so no model reads signs; set it above 0"
    elif data.labels.kind != "glosses":
        fault = f"CTC spells {data.labels.kind}; set tokenize_targets.ctc: glosses"
    elif not any(target.gloss.split() for target in data.dev.targets):
        fault = "no dev clip has glosses; expected a column gloss in the manifest"
    if fault:
        raise UserError(f"tune.objectives has gloss_wer, but {fault}, or name another objective")


def open_search(plan: SearchPlan, *, may_create: bool = True) -> "Search":
    """Open the database of a search, and its study."""
    options = plan.options
    with quiet():
        storage = open_storage(options.storage, options.heartbeat_s)
        study = open_study(storage, plan.name, plan.parts, options, may_create=may_create)
    study.sampler = SlotSampler(options.seed)
    return Search(plan, study, storage, is_joined=not may_create)


class Search:
    """The search and, once all of its slots are filled, its confirmation."""

    def __init__(
        self,
        plan: SearchPlan,
        study: optuna.Study,
        storage: optuna.storages.RDBStorage,
        *,
        is_joined: bool,
    ) -> None:
        """Use `open_search` instead."""
        self.plan, self.study = plan, study
        self._storage, self._is_joined = storage, is_joined
        self.space = parse_space(plan.options.space)
        self._named = parse_first(plan.options.first, self.space)
        self._first = self._first_values()

    def work(
        self,
        progress: Progress = lambda finished, epochs: None,
        check: Callable[[], None] = lambda: None,
        *,
        confirms: bool = True,
    ) -> None:
        """Run trials until none is missing.

        Args:
            progress: Called after each epoch with the finished trials and the epochs so far.
            check: Called after each epoch and between trials; raises to stop.
            confirms: Whether to train the best again with other seeds.
        """
        options = self.plan.options

        def after_epoch() -> None:
            check()
            progress(*self.done())

        def trainer(names: Sequence[str]) -> TrialTrainer:
            return TrialTrainer(
                data=self.plan.data,
                tune=options,
                progress=after_epoch,
                open_run=lambda trial: self._open_run(trial, names[trial.user_attrs[SLOT]]),
            )

        with quiet():
            if not self._is_joined:
                wait_for_dead_trials(self.study, DEAD_AFTER * options.heartbeat_s)
            run_trials(
                self.study,
                options.trials,
                SearchObjective(
                    trainer=trainer([f"trial {slot:02}" for slot in range(options.trials)]),
                    base=self.plan.base,
                    space=self.space,
                    slots=options.trials,
                    others={slot: first.others for slot, first in enumerate(self._named, start=1)},
                ),
                fixed_values=lambda slot: self._first[slot] if slot < len(self._first) else {},
                heartbeat_s=options.heartbeat_s,
                check=check,
            )
            confirmation = self.confirmation() if confirms else None
            if confirmation is not None:
                study, candidates = confirmation
                names = [
                    f"confirm trial {slot:02}, seed {seed}"
                    for slot in candidates
                    for seed in range(1, options.confirm.seeds + 1)
                ]
                objective = ConfirmObjective(
                    trainer=trainer(names), candidates=[*candidates.values()], slots=len(names)
                )
                run_trials(
                    study, len(names), objective, heartbeat_s=options.heartbeat_s, check=check
                )
        progress(*self.done())

    def done(self) -> tuple[int, int]:
        """Return how many trials are finished, and the epochs of all, running ones included."""
        # Read once: this is called after each epoch, and reading is what a search costs.
        trials, count = self.study.get_trials(deepcopy=False), self.plan.options.trials
        slots = {trial.user_attrs.get(SLOT, count) for trial in trials if trial.state in FINISHED}
        ended = sum(slot < count for slot in slots)
        running = sum(
            len(trial.intermediate_values)
            for trial in trials
            if trial.state == optuna.trial.TrialState.RUNNING
        )
        return ended, ended * self.plan.options.epochs + running

    def confirmation(self) -> tuple[optuna.Study, dict[int, RunOptions]] | None:
        """Return the study of the best trials with other seeds, and what each trained with."""
        options, ended = self.plan.options, finished(self.study, self.plan.options.trials)
        slots = pick_candidates(ended, options)
        if not slots:
            return None
        candidates = {p: apply_values(self.plan.base, ended[p].user_attrs[DRAWN]) for p in slots}
        digest = hashlib.sha256(json.dumps([slots, options.confirm.seeds]).encode()).hexdigest()
        study = optuna.create_study(
            study_name=f"{self.plan.name}-confirm-{digest[:6]}",
            storage=self._storage,
            direction=options.direction,
            sampler=SlotSampler(options.seed),
            load_if_exists=True,
        )
        return study, candidates

    def unconfirmed(self) -> int:
        """Return how many trainings of the confirmation are missing."""
        with quiet():
            confirmation = self.confirmation()
        if confirmation is None:
            return 0
        runs = len(confirmation[1]) * self.plan.options.confirm.seeds
        return runs - len(finished(confirmation[0], runs))

    def summary(self) -> dict[str, Any]:
        """Return the content of trials.json.

        Raises:
            UserError: If no trial has finished with a result.
        """
        with quiet():
            confirmation = self.confirmation()
            return summarise(
                self.study,
                confirmation[0] if confirmation else None,
                self.plan.base,
                self.plan.options,
            )

    def close(self) -> None:
        """Close the connections to the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _first_values(self) -> Sequence[dict[str, Value]]:
        """Return what is tried first: the current parameters, then those that were named."""
        current = current_values(self.plan.base, self.space)
        return [current, *({**current, **first.values} for first in self._named)]

    def _open_run(self, trial: optuna.Trial, name: str) -> Run:
        return Run.start(
            self.plan.tracking,
            RunOf(
                stage="tune",
                name=name,
                key=f"{trial.study.study_name}-{trial.number}",
                parent=self.plan.name,
            ),
            data=self.plan.hashes,
            stops=(optuna.TrialPruned,),
            tags={"study": self.plan.name, "slot": str(trial.user_attrs[SLOT])},
        )
