"""Default options of the search for sentences."""

from typing import Any

# `signloom translate` and served models; `evaluate.decoding` in params.yaml is of the scores.
DECODING: dict[str, Any] = {
    "beam_size": 4,
    "length_penalty": 1.0,
    "max_tokens": 128,
    "min_tokens": 0,
    "no_repeat_ngram": 0,
    "ctc_weight": 0.0,
}
