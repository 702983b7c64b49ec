"""The fields of a translation in JSON, as `--json`, served models and the app give them."""

from typing import Any

from signloom.translation.translator import Translation
from signloom_tools.importing.options import CROWDED
from signloom_tools.translate.timed import TimedTranslation


def to_json(timed: TimedTranslation) -> dict[str, Any]:
    """Return a translation for JSON; docs/translation.md describes it."""
    best = timed.translation
    return {
        **to_scored(best),
        **best.check.to_map(),
        **({"warning": CROWDED} if timed.is_crowded else {}),
        "alternatives": [to_scored(alternative) for alternative in best.alternatives],
        "tokens": None
        if timed.tokens is None
        else [
            {"text": t.text, "start_s": _rounded(t.start_s), "end_s": _rounded(t.end_s)}
            for t in timed.tokens
        ],
        **({} if timed.signs is None else {"signs": [sign.to_map() for sign in timed.signs]}),
    }


def _rounded(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s, 3)


def to_scored(translation: Translation) -> dict[str, Any]:
    """Return text and scores of a translation for JSON."""
    hypothesis = translation.hypothesis
    return {"text": translation.text, "score": hypothesis.score, "log_prob": hypothesis.log_prob}
