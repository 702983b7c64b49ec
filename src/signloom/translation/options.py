"""How target tokens are searched. Loads no torch."""

from typing import Annotated

from pydantic import Field

from signloom.config import Natural, Share, checked_dataclass


@checked_dataclass
class DecodingOptions:
    """How target tokens are searched; `evaluate.decoding` in params.yaml."""

    # Time and memory of a search grow with width and length: the bounds end what nobody waits for.
    beam_size: Annotated[int, Field(ge=1, le=64)]  # hypotheses followed at once; 1 is greedy
    # score = log_prob / tokens ** this; 0 favours short, 1 is the mean
    length_penalty: Annotated[float, Field(ge=0, le=10)]
    min_tokens: Natural  # shortest translation, eos included; 0 and 1 ask for nothing
    max_tokens: Annotated[int, Field(ge=1, le=512)]  # longest translation, eos included
    no_repeat_ngram: Natural  # no run of so many tokens appears twice; 0 allows every one
    ctc_weight: Share  # share of the CTC head in log_prob; needs characters as its labels

    def __post_init__(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens: found {self.min_tokens}, expected at most max_tokens "
                f"({self.max_tokens})"
            )


# The search of `signloom translate` and of served models. `max_tokens` is 128, so that even a very
# long sentence is not cut off. The scores use `evaluate.decoding` of params.yaml: 64 is enough
# for the demo's sentences and limits the time for models that never end one.
DECODING = DecodingOptions(
    beam_size=4,
    length_penalty=1.0,
    min_tokens=0,
    max_tokens=128,
    no_repeat_ngram=0,
    ctc_weight=0.0,
)
