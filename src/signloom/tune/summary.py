"""The result of a search: trials.json and best.json.

The same search gives the same files, unless time is an objective.
"""

from collections.abc import Mapping
from statistics import mean
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from signloom.errors import UserError
from signloom.training.run import RunOptions
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
    front = pareto_front(ended, options)
    confirmed = confirm_rows(confirmation, ended, options) if confirmation else []
    number = confirmed[0]["number"] if confirmed else front[0]
    first = parse_first(options.first, parse_space(options.space))
    best = next(trial for trial in trials if trial["number"] == number)
    return {
        "format_version": FORMAT_VERSION,
        "study": study.study_name,
        "objective": options.objectives[0],
        "objectives": dict(zip(options.objectives, options.directions, strict=True)),
        "best": {
            **best,
            "overrides": overrides_of(base, ended[number].user_attrs[DRAWN]),
            "confirmed": confirmed,
        },
        "overrides": {str(n): overrides_of(base, ended[n].user_attrs[DRAWN]) for n in front},
        "front": front,
        "trials": trials,
        "notes": [one.note for one in first if one.note],
    }


def _row(slot: int, trial: FrozenTrial, options: TuneOptions) -> dict[str, Any]:
    measures = trial.user_attrs.get(MEASURES, {})
    values = {name: measures[name] for name in options.objectives if name in measures}
    value = values.get(options.objectives[0])
    if value is None and options.objectives == ("dev_loss",):
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


def _losses(trial: FrozenTrial, options: TuneOptions) -> tuple[float, ...]:
    """Return the objectives so that lower is better."""
    return tuple(
        -value if direction == "maximize" else value
        for value, direction in zip(trial.values, options.directions, strict=True)
    )


def pareto_front(ended: Mapping[int, FrozenTrial], options: TuneOptions) -> list[int]:
    """Return the slots that no other beats in every objective, the best in the first one first.

    With one objective that is the winner.
    """
    losses = {
        slot: _losses(trial, options)
        for slot, trial in ended.items()
        if trial.state == TrialState.COMPLETE
    }

    def is_beaten(mine: tuple[float, ...]) -> bool:
        return any(
            theirs != mine and all(a <= b for a, b in zip(theirs, mine, strict=True))
            for theirs in losses.values()
        )

    front = [slot for slot, mine in losses.items() if not is_beaten(mine)]
    front.sort(key=lambda slot: (losses[slot], slot))
    return front[:1] if len(options.objectives) == 1 else front


def pick_candidates(ended: Mapping[int, FrozenTrial], options: TuneOptions) -> list[int]:
    """Return the slots that are trained again with other seeds, the current parameters too.

    With several objectives they are of the Pareto front.
    """
    complete = {p: t for p, t in ended.items() if t.state == TrialState.COMPLETE}
    if not options.confirm.top or not complete:
        return []
    ranked = sorted(complete, key=lambda slot: (_losses(complete[slot], options), slot))
    if len(options.objectives) > 1:
        ranked = pareto_front(ended, options)
    chosen = ranked[: options.confirm.top]
    return [*chosen, 0] if 0 in complete and 0 not in chosen else chosen


def confirm_rows(
    confirmation: optuna.Study, ended: Mapping[int, FrozenTrial], options: TuneOptions
) -> list[dict[str, Any]]:
    """Return the candidates that trained with every seed, the best mean first."""
    slots, seeds = pick_candidates(ended, options), options.confirm.seeds
    done = finished(confirmation, len(slots) * seeds)
    rows = []
    for index, slot in enumerate(slots):
        trials = [done[n] for n in range(index * seeds, (index + 1) * seeds) if n in done]
        values = [t.values[0] for t in trials if t.state == TrialState.COMPLETE]
        if len(values) == seeds:
            rows.append({"number": slot, "mean": mean(values), "values": values})
    sign = -1 if options.directions[0] == "maximize" else 1
    return sorted(rows, key=lambda row: (sign * row["mean"], row["number"]))
