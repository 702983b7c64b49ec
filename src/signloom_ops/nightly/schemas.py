"""Schemas of the JSON files of nights and kept versions.

Extra keys are allowed. An optional key is written as (type, default).
"""

from types import GenericAlias
from typing import Any

from signloom.config import Natural, shape

_NUMBER: Any = float | None


def _list(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def _map(kind: Any) -> Any:
    return GenericAlias(dict, (str, kind))


# decision.json of a version
_ENDS = ("champion", "challenger", "difference", "low", "high", "p_value")
_DUEL = {name: (_NUMBER, None) for name in _ENDS}
_SLICE = shape(**_DUEL, kind=str, group=str, result=(str, ""))
DECISION = shape(
    champion=int | None,
    promote=bool,
    verdict=str,
    reasons=list[str],
    test=list[str],
    metric=(str, ""),
    clips=(Natural, 0),
    scores=(_map(shape(**_DUEL)), {}),
    slices=(_list(_SLICE), []),
)
# version.json; what it does not have is not known
VERSION = shape(
    checkpoint_hash=(str, ""),
    corpus_key=(str, ""),
    created=(str, ""),
    parent=(int | None, None),
    batches=(list[str], []),
    clips=(dict[str, list[str]], {}),
    rejected=(list[str], []),
    signers=(_map(_map(Natural)), {}),
    hours=(dict[str, float], {}),
)
# marks of champion.json, by version
_FORGOTTEN = shape(
    clips=Natural, request=(str, ""), splits=(list[str], []), through=(int | None, None)
)
MARKS = _map(shape(forgotten=(_list(_FORGOTTEN), []), also_of=(list[str], [])))
# night.json
RECORD = shape(outcome=str, key=str, started=str, version=int | None, steps=_list(shape(name=str)))
