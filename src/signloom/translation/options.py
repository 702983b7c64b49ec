"""How target tokens are searched. Loads no torch."""

from typing import Annotated, ClassVar

from pydantic import AliasChoices, Field

from signloom.config import Gone, Natural, NonNegative, Share, checked_dataclass

MAX_BEAMS = 64
SignWeight = Annotated[float, Field(ge=0, le=100)]  # of 100 nothing else counts any more


@checked_dataclass
class DecodingOptions:
    """How target tokens are searched; `evaluate.decoding` in params.yaml."""

    # Time and memory of a search grow with width and length: the bounds stop slow searches.
    beam_size: Annotated[int, Field(ge=1, le=MAX_BEAMS)]  # hypotheses in parallel; 1 is greedy
    # score = log_prob / tokens ** this; 0 favours short, 1 is the mean
    length_penalty: Annotated[float, Field(ge=0, le=10)]
    min_tokens: Natural = 0  # shortest translation, eos included; 0 and 1 ask for nothing
    max_tokens: Annotated[int, Field(ge=1, le=512)] = 64  # longest translation, eos included
    # To write in, of a model trained with tokenize_targets.language; empty: the model chooses.
    language: str = ""
    # Share of what the decoder expects without a source, subtracted in a search; 0: none.
    internal_lm_weight: Share = 0.0
    # Of what speaks against a sentence given the signs that the model reads, nats, next to the
    # mean log-probability of a token; by it the beams are ranked in the end. Where a model reads
    # no signs, and greedily: no effect.
    sign_weight: SignWeight = 0.0

    GONE: ClassVar = {
        "ctc_weight": Gone(0.0, "the search no longer asks the CTC head"),
        "no_repeat_ngram": Gone(0, "every run of tokens may occur again"),
        "temperature": Gone(0.0, "tokens are searched, not drawn"),
        "top_k": Gone(0, "tokens are searched, not drawn"),
        "top_p": Gone(1.0, "tokens are searched, not drawn"),
        "seed": Gone(1, "tokens are searched, not drawn"),
    }

    def __post_init__(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens: found {self.min_tokens}, expected at most max_tokens "
                f"({self.max_tokens})"
            )


# Weight and bonus by which folds of BOSTON-104's train are read best, of models that have not seen
# them.
USUAL_NGRAM = (0.4, 1.0)
EDGE = 0  # beginning and end of a sentence among the labels of signs: the blank's number


@checked_dataclass
class SignSearch:
    """How the CTC head's signs are searched, as dev chose it.

    Without weight and bonus that is the likeliest sequence by the CTC head alone.
    """

    weight: NonNegative = 0.0  # of the log-probability of an n-gram of the training signs
    bonus: NonNegative = 0.0  # for each sign, which makes up for what the n-gram takes
    # Labels in a row, those before the first and after the last being `EDGE`, and how often train
    # has them so. Files of earlier versions have pairs of labels.
    ngrams: Annotated[
        tuple[tuple[Natural, ...], ...], Field(validation_alias=AliasChoices("ngrams", "pairs"))
    ] = ()


# The search of `signloom translate` and of served models where `evaluate` has chosen none.
# `max_tokens` is 128 at least, so that even a very long sentence is not cut off. The scores use
# `evaluate.decoding` of params.yaml: 64 is enough for the demo's sentences and limits the time for
# models that never end one.
DECODING = DecodingOptions(beam_size=4, length_penalty=1.0, min_tokens=0, max_tokens=128)
