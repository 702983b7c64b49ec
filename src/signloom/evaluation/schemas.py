"""Schemas of the JSON files that evaluations, trainings and searches write.

Extra keys are allowed. An optional key is written as (type, default).
"""

import math
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic import FiniteFloat as Finite

from signloom.config import Count, Natural, shape
from signloom.evaluation.metric_names import MAIN_METRICS, Metric, System

_ALWAYS = (System.MODEL, System.BLIND, System.CONSTANT)  # scored in every evaluation
_NUMBER: Any = float | None
_SHOWN: Any = dict[str, Any]  # whatever it holds


def _list(kind: Any, least: int = 0) -> Any:
    return Annotated[GenericAlias(list, (kind,)), Field(min_length=least)]


def _map(kind: Any, least: int = 0) -> Any:
    return Annotated[GenericAlias(dict, (str, kind)), Field(min_length=least)]


def _check_systems(systems: dict[str, Any]) -> dict[str, Any]:
    for system in (*_ALWAYS, *systems):
        for metric in MAIN_METRICS:  # what is read; others are shown where they are there
            if metric not in systems.get(system, {}):
                raise ValueError(f"{system} has no {metric}")
    return systems


def _check_group(row: dict[str, Any]) -> dict[str, Any]:
    for name in (f"{metric}{end}" for metric in MAIN_METRICS for end in ("", "_low", "_high")):
        if type(row.get(name)) not in (int, float) or not math.isfinite(row[name]):
            raise ValueError(f"{name} is no number")
    if type(row.get("clips")) is not int or type(row.get("group")) is not str:
        raise ValueError("without a group and its number of clips")
    return row


def _check_search(search: Any) -> Any:
    valued = [trial for trial in search.trials if trial.value is not None]
    complete = [trial for trial in valued if trial.state == "COMPLETE"]
    if not complete or len({tuple(sorted(trial.params)) for trial in valued}) > 1:
        raise ValueError("no trial has ended, or they varied different parameters")
    if any({search.objective, *search.objectives} - trial.values.keys() for trial in complete):
        raise ValueError("a trial lacks an objective")
    return search


# scores.json
_SCORE = shape(value=Finite, low=Finite, high=Finite, signature=str)
_INPUT_CHECK = shape(
    metric=Metric,
    model=Finite,
    swapped=Finite,
    fall=Finite,
    low=Finite,
    high=Finite,
    p_value=Finite,
    uses_input=bool,
    text=str,
)
_SPLIT = shape(
    clips=Natural,
    missing=list[str],
    clips_hash=(str, ""),
    constant_sentence=str,
    only_sentence=(str, ""),
    next_step=(str, ""),
    input_check=(_INPUT_CHECK | None, None),
    systems=Annotated[_map(_map(_SCORE)), AfterValidator(_check_systems)],
    breakdowns=_map(_list(Annotated[_SHOWN, AfterValidator(_check_group)])),
    lookup=(_map(shape(value=Finite, low=Finite, high=Finite)), {}),
)
_LEVEL = shape(confidence=Finite, clips=Count, right=Natural, low=Finite, high=Finite)
_STRESS = shape(
    split=str,
    change=str,
    clips=Count,
    score=Finite,
    score_low=Finite,
    score_high=Finite,
    exact=Finite,
    wer=Finite,
    said=(Finite | None, None),  # `told` in 0.3
    wrong=Finite,
)
_SPREAD = shape(
    mean=Finite,
    low=(Finite | None, None),
    high=(Finite | None, None),
    std=Finite,
    n=Natural,
    values=list[float],
)
_SEARCH = {"beam_size": Count, "length_penalty": Finite}
_PRECISION = Literal["float32", "bfloat16", "int8"]
SEARCHED = shape(decoding=_SHOWN, options=shape(precision=_PRECISION))
_RATE = shape(clips=Natural, gloss_wer=(Finite, 0.0), low=(Finite, 0.0), high=(Finite, 0.0))
_RECOGNITION = shape(
    clips=Natural,
    systems=_map(shape(value=Finite, low=Finite, high=Finite)),
    edits=dict[str, float],
    seeds=(list[float], []),
    seen=_RATE,
    unseen=_RATE,
    signers=(_map(_RATE), {}),
)
SCORES = shape(
    corpus=(str, ""),
    headline=(Metric, Metric.BLEU4),
    splits=_map(_SPLIT, 1),
    options=shape(precision=_PRECISION, score=_SHOWN),
    decoding=shape(**_SEARCH),
    grid=_list(shape(**_SEARCH, bleu4=Finite, wer=Finite, chosen=Natural, score=(Finite, 0.0))),
    confidence=(
        _map(
            shape(
                levels=_list(_LEVEL),
                calibration_error=(Finite, 0.0),
                unsure=(Natural, 0),
                unfamiliar=(Natural, 0),
            )
        ),
        {},
    ),
    seeds=shape(names=list[str], splits=_map(_map(_SPREAD)), together=(_map(_map(_SCORE)), {}))
    | None,
    stress=(_list(_STRESS), []),
    recognition=(_map(_RECOGNITION), {}),
    tables=(dict[str, str], {}),
    exchanged=(list[str], []),
)
# metrics.json, as far as runs are compared by its splits
KEPT = _map(
    shape(
        clips_hash=(str, ""),
        missing=(Natural, 0),
        corpus=(str, ""),
        signature=(str, ""),
        headline=(Metric, Metric.BLEU4),
        **{metric: (float, 0.0) for metric in MAIN_METRICS},
    )
)
# history.json
_EPOCH = shape(
    epoch=Natural, train_loss=float, dev_loss=float, dev_accuracy=(float, 0.0), lr=(float, 0.0)
)
EPOCHS = shape(epochs=_list(_EPOCH, 1))
HISTORY = shape(best_epoch=Natural, epochs=_list(_EPOCH, 1))
# trials.json of a search
_TRIAL = shape(
    number=Natural,
    state=str,
    value=_NUMBER,
    values=dict[str, float],
    parameters=(_NUMBER, None),
    params=_SHOWN,
)
_CONFIRMED = shape(number=Natural, mean=float, values=_list(float, 1))
_TRIALS = shape(
    objective=str,
    objectives=dict[str, Literal["minimize", "maximize"]],
    trials=_list(_TRIAL),
    best=shape(number=Natural, value=float, params=_SHOWN, confirmed=_list(_CONFIRMED)),
)
TRIALS: Any = Annotated[_TRIALS, AfterValidator(_check_search)]
# checkpoint.json, as far as it is shown
_PROVENANCE = shape(
    params=(dict[str, _SHOWN], {}),
    libraries=(_SHOWN, {}),
    data=(_SHOWN, {}),
    start=(dict[str, str] | None, None),
    text_model=(dict[str, str] | None, None),
)
SPEC = shape(
    model=shape(family=str, encoder_layers=Natural, decoder_layers=Natural, d_model=Natural),
    features=shape(groups=list[str], fps=float),
    extractor=(_SHOWN | None, {}),
    provenance=(_PROVENANCE, {}),
)
