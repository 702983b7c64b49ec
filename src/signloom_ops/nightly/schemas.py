"""Schemas of the JSON files of nights and kept versions.

Extra keys are allowed. An optional key is written as (type, default).
"""

from types import GenericAlias
from typing import Any, Literal

from signloom.config import Natural, shape

_NUMBER: Any = float | None


def _list(kind: Any) -> Any:
    return GenericAlias(list, (kind,))


def _map(kind: Any) -> Any:
    return GenericAlias(dict, (str, kind))


# decision.json of a version
_ENDS = ("champion", "challenger", "difference", "low", "high", "p_value")
_DUEL = {name: (_NUMBER, None) for name in _ENDS}
_GROUP = {"kind": str, "group": str}
_SLICE = shape(**_DUEL, **_GROUP, result=(str, ""))
_DECISION: dict[str, Any] = {
    "champion": int | None, "promote": bool, "verdict": str, "reasons": list[str],
    "test": list[str], "metric": (str, ""), "clips": (Natural, 0),
    "scores": (_map(shape(**_DUEL)), {}), "slices": (_list(_SLICE), []),
}  # fmt: skip
DECISION = shape(**_DECISION)
# version.json; what it does not have is not known
VERSION = shape(
    checkpoint_hash=(str, ""), corpus_key=(str, ""), created=(str, ""), parent=(int | None, None),
    batches=(list[str], []), clips=(dict[str, list[str]], {}), rejected=(list[str], []),
    signers=(_map(_map(Natural)), {}), hours=(dict[str, float], {}),
)  # fmt: skip
# marks of champion.json, by version
_FORGOTTEN = shape(clips=Natural, request=(str, ""), splits=(list[str], []),
                   through=(int | None, None))  # fmt: skip
MARKS = _map(shape(forgotten=(_list(_FORGOTTEN), []), also_of=(list[str], [])))
# night.json
RECORD = shape(outcome=str, key=str, started=str, version=int | None,
               steps=_list(shape(name=str)))  # fmt: skip
# retrain.json
_FINDING = shape(
    check=str, level=Literal["stop", "warn", "ok"], what=str, statistic=_NUMBER,
    hint=(str, ""), warn=_NUMBER, stop=_NUMBER, clips=list[str], signer=(str | None, None),
)  # fmt: skip
_SHOWN_TOO: dict[str, Any] = {
    "version": int, "level": float, "clips": Natural, "notes": (list[str], []),
    "rules": _list(shape(name=str, result=str, text=str)), "scores": _map(shape(**_DUEL)),
    "slices": _list(shape(**_DUEL, **_GROUP, clips=Natural, result=str)),
}  # fmt: skip
NIGHT = shape(
    corpus=(str, ""), night=shape(outcome=str, verdict=str, batches=list[str]),
    drift=shape(findings=_list(_FINDING), new=Natural, old=Natural, batch=str) | None,
    decision=shape(**_DECISION | _SHOWN_TOO) | None,
)  # fmt: skip
