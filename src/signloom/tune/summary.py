"""The result of a search: trials.json and best.json.

The same search gives the same files.
"""

from collections.abc import Mapping
from statistics import mean
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from signloom.errors import UserError
from signloom.training.train import RunOptions
from signloom.tune.objective import MEASURES
from signloom.tune.space import TuneOptions, overrides_of, parse_first, parse_space
from signloom.tune.storage import DRAWN, REASON, finished

FORMAT_VERSION = 2


def summarise(
    study: optuna.Study, confirmation: optuna.Study | None, base: RunOptions, options: TuneOptions
) -> dict[str, Any]:
    """Return what the report and `signloom adopt` need.

    Raises:
        UserError: If no trial has finished with a result.
    """
    ended = finished(study, options.trials)
    trials = [_row(slot, trial, options) for slot, trial in ended.items()]
    complete = [trial for trial in trials if trial["state"] == "COMPLETE"]
    if not complete:
        raise UserError(
            f"no trial of the search finished with a result; the first said: "
            f"{trials[0]['reason']}. Lower train.learning_rate's range, raise tune.epochs or widen "
            "tune.limits"
        )
    confirmed = confirm_rows(confirmation, ended, options) if confirmation else []
    number = confirmed[0]["number"] if confirmed else rank(ended, options)[0]
    first = parse_first(options.first, parse_space(options.space))
    best = next(trial for trial in trials if trial["number"] == number)
    return {
        "format_version": FORMAT_VERSION,
        "study": study.study_name,
        "objective": options.objective,
        "objectives": {options.objective: options.direction},
        "best": {
            **best,
            "overrides": overrides_of(base, ended[number].user_attrs[DRAWN]),
            "confirmed": confirmed,
        },
        "trials": trials,
        "notes": [entry.note for entry in first if entry.note],
    }


def _row(slot: int, trial: FrozenTrial, options: TuneOptions) -> dict[str, Any]:
    measures = trial.user_attrs.get(MEASURES, {})
    value = measures.get(options.objective)
    values = {} if value is None else {options.objective: value}
    if value is None and options.objective == "dev_loss":
        value = trial.value  # of its last epoch
    return {
        "number": slot,
        "state": trial.state.name,
        "value": value,
        "values": values,
        "parameters": measures.get("parameters"),
        "params": {n: v for n, v in trial.user_attrs.get(DRAWN, {}).items() if n in trial.params},
        "intermediate": {str(k): abs(v) for k, v in trial.intermediate_values.items()},
        "reason": trial.user_attrs.get(REASON),
    }


def rank(ended: Mapping[int, FrozenTrial], options: TuneOptions) -> list[int]:
    """Return the slots whose trials ran to their end, the best first."""
    sign = -1 if options.direction == "maximize" else 1
    losses = {
        slot: sign * (trial.value or 0.0)
        for slot, trial in ended.items()
        if trial.state == TrialState.COMPLETE
    }
    return sorted(losses, key=lambda slot: (losses[slot], slot))


def pick_candidates(ended: Mapping[int, FrozenTrial], options: TuneOptions) -> list[int]:
    """Return the slots that are trained again with other seeds, the current parameters too."""
    ranked = rank(ended, options) if options.confirm.top else []
    chosen = ranked[: options.confirm.top]
    return [*chosen, 0] if 0 in ranked and 0 not in chosen else chosen


def confirm_rows(
    confirmation: optuna.Study, ended: Mapping[int, FrozenTrial], options: TuneOptions
) -> list[dict[str, Any]]:
    """Return the candidates that trained with every seed, the best mean first."""
    slots, seeds = pick_candidates(ended, options), options.confirm.seeds
    confirmations = finished(confirmation, len(slots) * seeds)
    rows = []
    for index, slot in enumerate(slots):
        trials = [
            confirmations[n]
            for n in range(index * seeds, (index + 1) * seeds)
            if n in confirmations
        ]
        values = [t.value for t in trials if t.state == TrialState.COMPLETE]
        if len(values) == seeds:
            rows.append({"number": slot, "mean": mean(values), "values": values})
    sign = -1 if options.direction == "maximize" else 1
    return sorted(rows, key=lambda row: (sign * row["mean"], row["number"]))
