"""Rules of a data set by which glosses are compared: what its own scoring does to both sides.

PHOENIX-2014's script (Koller et al. 2015, "Continuous sign language recognition") makes no
difference between variants of a sign that no recogniser is asked to tell apart.
"""

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

GlossRules = Literal["none", "phoenix_2014"]

_MARKS = ("__EMOTION__", "__PU__", "__LEFTHAND__")
_WITHIN = re.compile("loc-|cl-|qu-|poss-|lh-|-PLUSPLUS|" + "|".join(_MARKS))
_NAMES = {"S0NNE": "SONNE", "HABEN2": "HABEN", "ZEIGEN": "ZEIGEN-BILDSCHIRM"}
_ROOM = re.compile("(?<=[A-Z][A-Z])RAUM")
_SPELT = re.compile(r"[A-Z](\+[A-Z])*|SCH|NN")  # a letter, or two that a sign spells at once


def clean_phoenix_2014(glosses: Sequence[str]) -> tuple[str, ...]:
    """Return glosses as PHOENIX-2014's scoring compares them.

    Where a sign is, on which hand and how often it is made does not count; neighbouring letters are
    one word; what is repeated is one sign.
    """
    bare = " ".join(_WITHIN.sub("", gloss) for gloss in glosses).split()
    named = " ".join(_NAMES.get(gloss, gloss) for gloss in bare)
    named = named.replace("WIE AUSSEHEN", "WIE-AUSSEHEN")
    joined = list[str]()
    for is_spelt, run in groupby(named.split(), key=lambda one: bool(_SPELT.fullmatch(one))):
        names = [*run]
        joined += ["+".join(names)] if is_spelt else names
    return tuple(name for name, _ in groupby(_ROOM.sub("", gloss) for gloss in joined))


_RULES: dict[GlossRules, Callable[[Sequence[str]], tuple[str, ...]]] = {
    "none": tuple,
    "phoenix_2014": clean_phoenix_2014,
}


def clean_glosses(lines: Sequence[Sequence[str]], rules: GlossRules) -> list[tuple[str, ...]]:
    """Return lines of glosses as the rules compare them."""
    return [_RULES[rules](line) for line in lines]
